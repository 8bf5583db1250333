"""The lines of the log changed their form.

Meaning: From some line on, records print other fields than before: some vanished and others appeared, or the reader says
that another form of line begins. Values before and after may not mean the same. Where a table or JSON lines go on in another
form, what follows is not read, and nothing is known about it.

Causes: A script that was changed in the middle, another program writing into the same file, or a new logging library.

What to do: Compare a line before and one after, given here by number, and check that the fields were matched as you mean
them. Start a new log when the script changes.

Source: the source articles' injected fault "the format of a line drifts"; 20 of 25 rows with other fields, or ten records of
another form one after the other.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import groupby
from typing import Any

from analysis.attribution import explain
from analysis.columns_printed import SAID, WINDOW, Change, Turn, changes, changes_form, turns
from analysis.evidence import fact, finding_at, where
from analysis.failures import shortened
from analysis.findings import Evidence, Finding, Severity
from analysis.segment import Segment
from messages import N_, Text

NEEDS = ("step|loss|line",)
SHOWN = 6
SPLIT = N_("Read the lines from there on as a log of their own: nothing is known about them here.")


def check(segment: Segment, *, together_rows: int = WINDOW) -> Iterator[Finding]:
    """Yield each place at which the reader says so, and each at which some fields vanish and others appear.

    together_rows: rows within which both must happen.
    """
    every = turns(segment)
    gone, new = ([turn for turn in every if turn.vanished is side] for side in (True, False))
    said = changes(segment)
    for change in said:
        vanished, appeared = ([turn for turn in side if abs(turn.first - change.row) <= together_rows] for side in (gone, new))
        yield _finding(segment, vanished, appeared, change)
    for _, group in groupby(gone, key=lambda turn: turn.known // together_rows):
        vanished = list(group)
        row = vanished[0].first
        appeared = [turn for turn in new if abs(turn.first - row) <= together_rows]
        told = any(abs(change.row - row) <= together_rows for change in said)
        if not told and (appeared or changes_form(vanished)):
            yield _finding(segment, vanished, appeared)


def _finding(segment: Segment, vanished: list[Turn], appeared: list[Turn], said: Change | None = None) -> Finding:
    if said:
        first, known = said.row, min(said.row + SAID - 1, len(segment) - 1)
    else:
        first = min(turn.first for turn in vanished)
        known = max(min(turn.known for turn in vanished), min((turn.known for turn in appeared), default=0))
    causes, advice = explain(segment, "format_change", first, known=known)
    names = [", ".join(sorted(turn.column for turn in side)[:SHOWN]) for side in (vanished, appeared)]
    line = said.line if said else segment.line(first) or first + 1
    gaps = {"step": where(segment, first), "gone": names[0], "new": names[1], "line": line}
    finding = finding_at(
        segment,
        kind="format_change",
        severity=Severity.WARNING if first or not said else Severity.INFO,
        first=first,
        known=known,
        end=None,
        title=_title(gaps, said),
        evidence=tuple(_evidence(segment, first, names, said)),
        causes=causes,
        advice=(Text(SPLIT), *advice) if said and not said.read else advice,
    )
    return replace(finding, first_line=line, last_line=line) if said and not said.read else finding


def _title(gaps: dict[str, Any], said: Change | None) -> Text:
    if said and not said.read:
        return Text(N_("Lines from line {line:,} on look like records of another form and are not read"), gaps)
    if gaps["gone"] and gaps["new"]:
        return Text(N_("Lines have another form from line {line:,} on: {gone} gone, {new} new"), gaps)
    if gaps["gone"]:
        return Text(N_("Lines have another form from line {line:,} on: {gone} gone"), gaps)
    return Text(N_("Lines have another form from line {line:,} on"), gaps)


def _evidence(segment: Segment, first: int, names: Sequence[str], said: Change | None) -> Iterator[Evidence]:
    read = said is None or said.read
    before = max(first - 1, 0) if read else first
    if first or not read:
        yield fact(N_("last line of the old form"), segment.line(before), segment=segment, row=before)
    if said:
        yield Evidence(Text(N_("first line of the new form")), shortened(said.text), line=said.line)
    else:
        yield fact(N_("first line of the new form"), segment.line(first), segment=segment, row=first)
    if names[0] or not said:
        yield fact(N_("fields that vanished"), names[0], segment=segment, row=first)
    if names[1] or not said:
        yield fact(N_("fields that are new"), names[1] or "–", segment=segment, row=first)


def sick() -> Segment:
    """Return a run that prints a throughput instead of its step time from some line on."""
    import numpy as np

    from analysis.simulate import simulate

    segment = simulate(rows=400, seed=24).segment
    gaps = np.arange(400) >= 250
    segment.rows["tokens_per_second"] = np.where(gaps, 65_536 / segment.rows["step_time_seconds"], np.nan)
    segment.rows.loc[gaps, "step_time_seconds"] = np.nan
    return replace(segment, absent={"step_time_seconds": gaps, "tokens_per_second": ~gaps})


def well() -> Segment:
    """Return a run that stops printing one field, which is another finding."""
    from analysis.rules.field_missing import sick

    return sick()
