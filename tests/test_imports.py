"""Imports point one way: app → pages → ui → server → {analysis, storage}; each rule below is a sentence."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
OURS = {"app", "cli", "commands", "pages", "ui", "server", "analysis", "storage", "messages"}
MAY_IMPORT = {
    "messages": set(),
    "analysis": {"messages"},
    "storage": {"messages"},
    "server": {"messages", "analysis", "storage"},
    "ui": {"messages", "analysis", "storage", "server"},
    "pages": {"messages", "analysis", "storage", "server", "ui"},
    "app": OURS,
    "commands": {"messages", "analysis", "storage", "server"},
    "cli": {"commands"},
}


def modules() -> list[tuple[str, Path]]:
    found = []
    for part in MAY_IMPORT:
        found += [(part, path) for path in [ROOT / f"{part}.py"] if path.exists()]
        found += [(part, path) for path in sorted((ROOT / part).rglob("*.py"))]
    return found


def imported(path: Path) -> set[str]:
    """Return the top-level names that a file imports anywhere, functions included."""
    names = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            names.add(node.module.split(".")[0])
    return names


@pytest.mark.parametrize(("part", "path"), modules(), ids=lambda value: str(getattr(value, "name", value)))
def test_a_module_imports_only_what_lies_below_it(part, path):
    assert imported(path) & OURS <= MAY_IMPORT[part] | {part}


@pytest.mark.parametrize(("part", "path"), modules(), ids=lambda value: str(getattr(value, "name", value)))
def test_streamlit_stays_in_app_pages_and_ui(part, path):
    assert part in {"app", "pages", "ui"} or "streamlit" not in imported(path)


@pytest.mark.parametrize(("part", "path"), modules(), ids=lambda value: str(getattr(value, "name", value)))
def test_only_storage_speaks_to_duckdb(part, path):
    assert part == "storage" or "duckdb" not in imported(path)


@pytest.mark.parametrize(
    ("room", "other"), [("reading", "keeping"), ("reading", "intake"), ("keeping", "intake"), ("keeping", "reading")]
)
def test_in_storage_reading_and_keeping_know_nothing_of_each_other(room, other):
    """Only `intake` knows both: it lets what is read be kept."""
    pointing = [
        path
        for path in (ROOT / "storage" / room).rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith(f"storage.{other}")
    ]
    assert pointing == []


@pytest.mark.parametrize(
    ("start", "forbidden"),
    [
        ("analysis.diagnose", {"streamlit", "duckdb", "storage", "server", "ui"}),
        ("storage.store", {"streamlit", "analysis", "server", "ui"}),
        ("server.service", {"streamlit", "ui", "pages"}),
        ("commands.check", {"streamlit", "ui", "pages"}),
        ("cli", {"streamlit", "ui", "pages"}),
    ],
)
def test_importing_a_part_really_loads_nothing_above_it(start, forbidden):
    code = f"import sys, {start}; print(*sorted({{m.split('.')[0] for m in sys.modules}}))"
    loaded = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True).stdout.split()
    assert not forbidden & set(loaded)
