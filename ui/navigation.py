"""The pages, found by walking `pages/`: a page is one file that says its own place in the menu.

A page file sets four constants and has a docstring, which is the help text of its menu entry:

    TITLE = N_("Run health")            SECTION = N_("Runs")
    ICON = ":material/monitor_heart:"   ORDER = 120   # of the page; its section stands where its first page stands
"""

import ast
from dataclasses import dataclass
from functools import cache
from pathlib import Path

PAGES_DIR = Path(__file__).resolve().parent.parent / "pages"
CONSTANTS = ("TITLE", "ICON", "SECTION", "ORDER")


@dataclass(frozen=True)
class PageFile:
    """A page as its file declares it; `name` is its path in the URL."""

    name: str
    path: Path
    title: str
    icon: str
    section: str
    order: int
    help: str


@cache
def page_files() -> tuple[PageFile, ...]:
    """Return every page in menu order. Raises ValueError naming the file and the constant that is missing."""
    return tuple(sorted((_declared(path) for path in PAGES_DIR.glob("[!_]*.py")), key=lambda page: page.order))


def sections() -> dict[str, list[PageFile]]:
    """Return the pages by section, both in menu order."""
    found: dict[str, list[PageFile]] = {}
    for page in page_files():
        found.setdefault(page.section, []).append(page)
    return found


def _declared(path: Path) -> PageFile:
    """Read the constants without running the page: running one draws it."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    values = {
        target.id: _literal(node.value)
        for node in tree.body
        if isinstance(node, ast.Assign)
        for target in node.targets
        if isinstance(target, ast.Name) and target.id in CONSTANTS
    }
    if missing := [name for name in CONSTANTS if name not in values]:
        raise ValueError(f"{path.name} does not set {', '.join(missing)}; see ui/navigation.py for what a page declares.")
    paragraphs = (ast.get_docstring(tree) or "").strip().split("\n\n")
    help_text = " ".join(paragraphs[0].split())
    return PageFile(
        path.stem, path, str(values["TITLE"]), str(values["ICON"]), str(values["SECTION"]), int(str(values["ORDER"])), help_text
    )


def _literal(node: ast.expr) -> object:
    """Return the value of `"text"`, `12` or `N_("text")`."""
    return ast.literal_eval(node.args[0] if isinstance(node, ast.Call) else node)
