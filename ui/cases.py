"""A case of the library on a page: its picture, its words, and beside it the run whose finding led here."""

from functools import lru_cache

import numpy as np
import pandas as pd

from analysis.cases import CASES, Case
from analysis.findings import Finding
from analysis.registry import all_rules
from server.board import finding_key
from storage.store import Store, UnknownRun
from storage.types import Run
from ui import handbook, html, pictures, state
from ui.html import escape, tag
from ui.text import _, say
from ui.verdict import definitions

AROUND = 0.6  # of the length of a finding, shown on each side, and at least
LEAST_SHARE = 0.05  # of the run
BUCKETS = 300


@lru_cache(maxsize=64)
def picture_of(key: str) -> pictures.Picture | None:
    """Return the picture of a case."""
    case = next(case for case in CASES if case.key == key)
    if case.healthy:
        return pictures.picture(case.segment(), None, marked=False, since=case.since, calm=case.calm)
    return pictures.of_rule(case.rules[0], sick=True)


def show(case: Case) -> None:
    """Show the picture of a case."""
    handbook.show(picture_of(case.key), _(case.title), f"case-{case.key}", _(case.look))


def card(case: Case) -> str:
    """Return the words of a case as they stand under its picture in the library."""
    more = tag("a", escape(_("What is behind it")), href=f"cases?case={case.key}", target="_self")
    return tag("div", tag("p", escape(_(case.look)), "rv-prose") + tag("p", more, "rv-links"), "rv-case")


def words(case: Case) -> str:
    """Return everything that is told of a case, with links to the rules that find it."""
    told = [(_("What you see"), _(case.look)), (_("What is behind it"), _(case.why)), (_("What to do"), _(case.do))]
    told += [(_("Seen in public"), _(case.seen))] if case.seen else []
    titles = {rule.name: rule.title for rule in all_rules()}
    links = [tag("a", escape(_(titles[name])), href=f"handbook?rule={name}", target="_self") for name in case.rules]
    found = tag("p", escape(_("Found by:")) + " " + " · ".join(links), "rv-links") if links else ""
    return tag("div", definitions(told) + found, "rv-story")


def show_finding(store: Store, run_id: str | None, key: str | None, case: Case) -> bool:
    """Show the stretch of a run around the finding of this key; False where there is none, or the case is about others."""
    if not run_id or not key:
        return False
    try:
        run = store.run(run_id)
    except UnknownRun:
        return False
    for finding in state.diagnosis(run.id, run.version).findings:
        if finding.kind in case.rules and finding_key(finding.kind, finding.segment, finding.first_step) == key:
            return _beside(run, finding)
    return False


def _beside(run: Run, finding: Finding) -> bool:
    names = [column.name for column in state.columns(run.id, run.version)]
    rule = next(rule for rule in all_rules() if rule.name == finding.kind)
    wanted = [name for need in rule.needs for name in need.split("|")]
    column = next((name for name in (*wanted, "loss") if name in names), None)
    if column is None or finding.first_step is None:
        return False
    lines = _stretch(run, finding, column)
    if not len(lines):
        return False
    end = run.last_step if finding.last_step is None else finding.last_step
    marked = pd.DataFrame([(finding.first_step, end)], columns=["x", "x2"])
    data = {pictures.LINES: lines, pictures.MARKED: marked, pictures.BAD: pd.DataFrame({"x": []})}
    drawn = pictures.Picture({**pictures.drawn(lines), "datasets": data}, column)
    handbook.show(drawn, run.name, f"run-{run.id}", say(finding.title))
    html.quiet(say(finding.title))
    return True


def _stretch(run: Run, finding: Finding, column: str) -> pd.DataFrame:
    first = finding.first_step or 0
    last = finding.last_step if finding.last_step is not None else (run.last_step or first)
    around = max(AROUND * (last - first), LEAST_SHARE * ((run.last_step or 0) - (run.first_step or 0)), 10)
    found = state.store().buckets(
        run.id, [column], first=first - around, last=last + around, width=BUCKETS, segment=finding.segment
    )
    kept = found[np.isfinite(found["mean"].to_numpy(float))]
    values = {"x": kept["x"], "y": kept["mean"], "low": kept["min"], "high": kept["max"]}
    return pd.DataFrame(values).assign(line="a").reset_index(drop=True)
