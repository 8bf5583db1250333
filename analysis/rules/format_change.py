"""The lines of the log changed their form.

Meaning: From some line on, records print other fields than before: some vanished and others appeared, or the reader says
that another form of line begins. Both forms are read, but values before and after may not mean the same.

Causes: A script that was changed in the middle, another program writing into the same file, or a new logging library.

What to do: Compare a line before and one after, given here by number, and check that the fields were matched as you mean
them. Start a new log when the script changes.

Source: the source articles' injected fault "the format of a line drifts"; 20 of 25 rows of the new form.
"""

from collections.abc import Iterator
from itertools import groupby

from analysis.attribution import explain
from analysis.columns_printed import WINDOW, Turn, changes_form, turns
from analysis.evidence import fact, finding_at, place
from analysis.findings import Finding, Severity
from analysis.segment import Segment
from messages import N_, Text

NEEDS = ("step|loss|line",)
SHOWN = 6


def check(segment: Segment, *, together_rows: int = WINDOW) -> Iterator[Finding]:
    """Yield each place at which some fields vanish and others appear.

    together_rows: rows within which both must happen.
    """
    every = turns(segment)
    gone, new = ([turn for turn in every if turn.vanished is side] for side in (True, False))
    for _, group in groupby(gone, key=lambda turn: turn.known // together_rows):
        vanished = list(group)
        row = vanished[0].first
        appeared = [turn for turn in new if abs(turn.first - row) <= together_rows]
        if appeared or changes_form(vanished):
            yield _finding(segment, vanished, appeared)


def _finding(segment: Segment, vanished: list[Turn], appeared: list[Turn]) -> Finding:
    first = min(turn.first for turn in vanished)
    known = max(min(turn.known for turn in vanished), min((turn.known for turn in appeared), default=0))
    causes, advice = explain(segment, "format_change", first, known=known)
    names = [", ".join(sorted(turn.column for turn in side)[:SHOWN]) for side in (vanished, appeared)]
    gaps = {"step": place(segment, first), "gone": names[0], "new": names[1], "line": segment.line(first) or first + 1}
    title = Text(N_("Lines have another form from line {line:,} on: {gone} gone, {new} new"), gaps)
    if not appeared:
        title = Text(N_("Lines have another form from line {line:,} on: {gone} gone"), gaps)
    return finding_at(
        segment,
        kind="format_change",
        severity=Severity.WARNING,
        first=first,
        known=known,
        end=None,
        title=title,
        evidence=(
            fact(N_("last line of the old form"), segment.line(max(first - 1, 0)), segment=segment, row=max(first - 1, 0)),
            fact(N_("first line of the new form"), segment.line(first), segment=segment, row=first),
            fact(N_("fields that vanished"), names[0]),
            fact(N_("fields that are new"), names[1] or "–"),
        ),
        causes=causes,
        advice=advice,
    )


def sick() -> Segment:
    """Return a run that prints a throughput instead of its step time from some line on."""
    from dataclasses import replace

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
