"""Where a rule has spoken in one's own runs: links from what is learned to where it happened."""

from collections.abc import Collection

from analysis.findings import Severity
from server import service
from server.board import Brief
from storage.types import Run
from ui import html
from ui.html import escape, tag
from ui.text import _, number, say

MOST = 8
ORDER = {Severity.CRITICAL: 0, Severity.WARNING: 1, Severity.INFO: 2}


def show(rules: Collection[str]) -> None:
    """Show the runs in which one of the rules found something, the gravest first; nothing where there is none."""
    found = [(line.run, one) for line in service.get().board.lines() for one in line.findings if one.kind in rules]
    runs = {run.id for run, _one in found}
    if not found:
        return
    first: dict[str, tuple[Run, Brief]] = {}
    for run, one in sorted(found, key=lambda pair: ORDER[pair[1].severity]):
        first.setdefault(run.id, (run, one))
    html.section(_("In your runs"), number(len(runs)))
    rows = []
    for run, one in list(first.values())[:MOST]:
        link = tag("a", escape(run.name), href=f"health?run={run.id}&finding={one.key}", target="_self")
        rows.append(tag("li", link + " — " + escape(say(one.title))))
    html.write(tag("ul", "".join(rows), "rv-unknown rv-seen"))
    if len(first) > MOST:
        html.quiet(_("The findings page has all of them."))
