"""Training went back to an earlier step and went on from there.

Meaning: The run was resumed from a checkpoint: the steps between were done twice. What it cost is stated, and whether the
loss came back to where it was. If it did not, part of the state (optimizer, schedule, random state, data position) was
probably not restored.

Causes: A crash, an interruption or a hang before it; for a loss that does not come back: a checkpoint without optimizer state,
a scheduler or data loader that began anew.

What to do: Write checkpoints often enough for what a restart costs here. If the loss differs, save and load the optimizer,
the scheduler, the random state and the position in the data with the model, and compare the learning rate before and after.

Source: resume reports of the large training code bases; loss compared at the same steps, in the run's own noise.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import pandas as pd

from analysis.attribution import explain
from analysis.evidence import fact, finite, place, times, where
from analysis.findings import Evidence, Finding, Severity
from analysis.readings import MOST
from analysis.rejoin import AROUND, loss_change
from analysis.segment import Segment
from analysis.step_time import clock, restarts, step_time
from messages import N_, Text

NEEDS = ("step",)
NEAR_ROWS = 5  # a spoken resume this close to a fall of the step is the same


@dataclass(frozen=True)
class Again:
    """What a restart did over: rows, steps, seconds (None where no time is known); `gap_seconds` of it nothing was logged."""

    rows: int
    steps: float
    seconds: float | None
    gap_seconds: float | None


def check(segment: Segment, *, deviations: float = 5.0, least_change: float = 0.02) -> Iterator[Finding]:
    """Yield each restart within a launch.

    deviations, least_change: the loss differs if it is off by that many standard errors and by that share.
    """
    fallen = restarts(segment)
    for row in fallen[:MOST]:
        yield _fallen(segment, int(row), deviations, least_change)
    yield from _spoken(segment, fallen)
    if segment.number and len(segment):
        yield _launched(segment)


def _launched(segment: Segment) -> Finding:
    """Say that the file holds several launches: each is judged on its own."""
    told = segment.events[segment.events["kind"] == "launch"] if len(segment.events) else segment.events
    data = told["data"].iloc[0] if len(told) and isinstance(told["data"].iloc[0], Mapping) else {}
    before, step = data.get("from"), place(segment, 0)
    gaps = {"number": segment.number + 1, "step": where(segment, 0), "before": before}
    title = Text(N_("Launch {number} of this log begins at {step}; launches are judged one by one"), gaps)
    if isinstance(before, int | float) and before > step:
        text = N_(
            "Launch {number} of this log begins: the step falls from {before:,.0f} to {first:,}; launches are judged one by one"
        )
        title = Text(text, gaps | {"first": step})
    evidence = (fact(N_("launches before"), segment.number, segment=segment, row=0),)
    return _finding(segment, Severity.INFO, 0, title, evidence, kind="launch")


def _fallen(segment: Segment, row: int, deviations: float, least: float) -> Finding:
    again = _again(segment, row)
    change, error = loss_change(segment, row)
    differs = change is not None and abs(change) > max(deviations * error, least)
    gaps = {"step": where(segment, row), "before": where(segment, row - 1), "steps": again.steps, "change": change or 0.0}
    title = Text(N_("Restarted at {step} after {before}: {steps:,.0f} steps are done again"), gaps)
    if differs:
        title = Text(N_("Restarted at {step} after {before}, and the loss is {change:+.0%} off where it was"), gaps)
    severity = Severity.WARNING if differs else Severity.INFO
    return _finding(segment, severity, row, title, tuple(_evidence(segment, row, again, change)))


def _again(segment: Segment, row: int) -> Again:
    """Return what was lost: from the row at which the new step was reached first to the restart."""
    steps = segment.steps()
    first = int(np.argmax(steps[:row] >= steps[row]))
    rows, lost = row - first, float(steps[row - 1] - steps[row])
    lost += float(np.median(np.diff(steps[first:row]))) if rows > 1 else 0.0
    known = clock(segment)
    if known is not None and np.isfinite(known[1][[first, row - 1, row]]).all() and known[1][row] >= known[1][row - 1]:
        seconds = known[1]
        return Again(rows, lost, float(seconds[row] - seconds[first]), float(seconds[row] - seconds[row - 1]))
    each = step_time(segment)
    if each is not None and each.exact:
        return Again(rows, lost, lost * float(np.median(each.series.values)), None)
    return Again(rows, lost, None, None)


def _evidence(segment: Segment, row: int, again: Again, change: float | None) -> Iterator[Evidence]:
    yield fact(N_("step before the restart"), segment.step(row - 1), segment=segment, row=row - 1)
    yield fact(N_("step after the restart"), segment.step(row), segment=segment, row=row)
    yield fact(N_("rows done again"), again.rows)
    if again.seconds is not None:
        yield fact(N_("time lost, work done again included"), round(again.seconds / 60, 2), unit="min")
    if again.gap_seconds is not None:
        yield fact(N_("time in which nothing was logged"), round(again.gap_seconds / 60, 2), unit="min")
    if change is not None:
        yield fact(N_("loss after against the loss at the same steps before"), f"{change:+.1%}")
    for name in ("lr", "batch_size"):
        if segment.has(name):
            old, new = segment.values(name)[[row - 1, row]]
            yield fact(N_("{column} after over before"), times(float(new), float(old)), column=name)


def _spoken(segment: Segment, fallen: np.ndarray) -> Iterator[Finding]:
    """Yield resumes that only the text tells: in the middle of the rows, or before rows that begin late."""
    events = segment.events
    if not len(events) or not len(segment) or not segment.has("line"):
        return
    lines = segment.rows["line"].to_numpy()
    words = ~events["text"].astype(str).str.startswith("resume: ")  # the reader's own note of a fallen step
    resumed = (events["kind"] == "resume") | (events["kind"] == "checkpoint_loaded") & _again_there(segment, events["line"])
    said = events["line"][resumed & words].to_numpy(dtype=np.int64)
    rows = np.unique(np.searchsorted(lines, said, side="right"))
    for row in rows[rows < len(segment)][:MOST]:
        if len(fallen) and np.abs(fallen - row).min() <= NEAR_ROWS:
            continue
        step = place(segment, int(row))
        if row:
            title = Text(N_("The log says that it resumed, before {step}"), {"step": where(segment, int(row))})
        elif len(segment) > 1 and step > 2 * max(place(segment, 1) - step, 1):
            title = Text(N_("Continues an earlier run from a checkpoint: the first step here is {step:,}"), {"step": step})
        else:
            continue
        line = int(said[np.argmax(np.searchsorted(lines, said, side="right") == row)])
        yield _finding(segment, Severity.INFO, int(row), title, (fact(N_("line that says so"), line),))


def _again_there(segment: Segment, lines: pd.Series) -> np.ndarray:
    """Say whether the step behind a line is not above the one before: a loaded checkpoint alone may be for an evaluation."""
    steps = segment.steps()
    rows = np.searchsorted(segment.rows["line"].to_numpy(), lines.to_numpy(dtype=np.int64), side="right")
    inside = (rows > 0) & (rows < len(steps))
    return inside & (steps[np.minimum(rows, len(steps) - 1)] <= steps[np.maximum(rows - 1, 0)])


def _known(segment: Segment, row: int) -> int:
    """Return the row at which a restart was certain: the next one where the step fell by one row only."""
    near = segment.steps()[max(row - 2, 0) : row + 1]
    usual = max(near[-2] - near[0], 1.0) if len(near) == 3 else 1.0
    return row if len(near) < 2 or near[-2] - near[-1] > usual or near[-1] >= near[-2] else row + 1


def _finding(
    segment: Segment, severity: Severity, row: int, title: Text, evidence: tuple[Evidence, ...], *, kind: str = "restart"
) -> Finding:
    causes, advice = explain(segment, kind, row, known=min(row + AROUND, len(segment) - 1))
    return Finding(
        kind="restart",
        severity=severity,
        segment=segment.number,
        first_step=segment.step(row),
        last_step=segment.step(row),
        known_step=segment.step(min(_known(segment, row), len(segment) - 1)),
        first_line=segment.line(row),
        last_line=segment.line(row),
        title=finite(title),
        evidence=evidence,
        causes=causes,
        advice=advice,
    )


def sick() -> Segment:
    """Return a run that goes back some steps and whose loss is then higher than it was."""
    from analysis.simulate_hardware import simulate

    return simulate(rows=1000, seed=8, fault="restart_worse").segment


def well() -> Segment:
    """Return a run that goes back some steps and finds its loss again: noted, not an alarm."""
    from analysis.simulate_hardware import simulate

    return simulate(rows=1000, seed=8, fault="restart").segment
