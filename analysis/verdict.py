"""The one word about a run, and the one calm sentence that goes with it."""

from collections.abc import Sequence
from enum import StrEnum
from typing import Any

import numpy as np

from analysis.ending import Incident, by_hand, current_launch, ending
from analysis.evidence import where
from analysis.failures import DONE, shortened
from analysis.findings import Finding, Severity
from analysis.segment import Segment
from analysis.trends import Trend, trend
from messages import N_, Text

FEWEST_ROWS = 8  # rows with a loss below which nothing about a run can be said
SHORT_STEPS = 500  # a change per 1,000 steps is no figure for a run that is much shorter
KNOWN_NOISE_ROWS = 25  # rows from which on the noise of a loss is known


class Verdict(StrEnum):
    """The one word about a run."""

    HEALTHY = "healthy"
    WATCH = "watch"
    SICK = "sick"
    FAILED = "failed"
    UNREADABLE = "unreadable"


ABSURD = 1e299  # trends clip at 1e300
TOLD = frozenset({"out_of_memory", "collective_timeout", "crash", "stopped"})  # the end is judged by itself


Judgement = tuple[Verdict, Text, int | None, int | None]


def judge(segments: Sequence[Segment], findings: tuple[Finding, ...]) -> Judgement:
    """Return verdict, sentence, since step and known step: failed before sick before watch before healthy.

    A run that somebody stopped at the keyboard is as healthy as its rows are; one that the scheduler ended is to be watched.

    The verdict is that of the last launch with rows; what was critical in earlier launches makes it at least `watch`.
    """
    current = current_launch(segments)
    end = ending(segments)
    last = current.step(len(current) - 1) if len(current) else None
    done = last is not None and current.total_steps is not None and last >= DONE * current.total_steps
    if end and not done and (end.kind != "stopped" or not len(current)):
        return Verdict.FAILED, _crashed(end, current), last, last
    if not len(current) and not len(current.evals) and not len(current.telemetry):
        return Verdict.UNREADABLE, Text(N_("No training step in this log.")), None, None
    here = [finding for finding in findings if finding.segment == current.number and finding.kind not in TOLD]
    for severity, verdict in ((Severity.CRITICAL, Verdict.SICK), (Severity.WARNING, Verdict.WATCH)):
        worst = next((finding for finding in here if finding.severity is severity), None)
        if worst:
            return verdict, worst.title, worst.first_step, worst.known_step
    if end and not done and not by_hand(end):
        return Verdict.WATCH, _stopped(end, current, _quiet(findings)), last, last
    survived = next((f for f in findings if f.segment == current.number and f.severity is Severity.WARNING), None)
    if survived:
        return Verdict.WATCH, survived.title, survived.first_step, survived.known_step
    earlier = (finding for finding in findings if finding.severity is Severity.CRITICAL and finding.kind not in TOLD)
    calm = _calm(current, next(earlier, None), _quiet(findings), stopped=bool(end) and not done)
    if end and not done and calm[0] is Verdict.HEALTHY:
        return Verdict.HEALTHY, _stopped(end, current, _quiet(findings)), last, last
    return calm


def _quiet(findings: tuple[Finding, ...]) -> Text:
    """Say that nothing needs attention, and how many notes there are all the same."""
    notes = sum(finding.severity is Severity.INFO for finding in findings)
    return (
        Text(N_("nothing that needs attention (notes: {count:,})"), {"count": notes}) if notes else Text(N_("nothing unusual"))
    )


def _calm(current: Segment, earlier: Finding | None, quiet: Text, *, stopped: bool) -> Judgement:
    """Judge a launch in which nothing was found: there must be enough to find something in. stopped: by hand, too early."""
    course, last = trend(current), _last(current)
    if not len(current) and not len(current.evals):
        text = N_("Only readings of the machine in this log: whether training goes well can't be told.")
        return Verdict.WATCH, Text(text), None, None
    if course is None:
        return (*_without_loss(current), None, None)
    unproven = course.rows < KNOWN_NOISE_ROWS and course.last >= course.first
    if course.rows < FEWEST_ROWS or unproven:
        text = N_("Too early to tell; rows with a loss so far: {rows:,}.")
        if stopped and last is not None:
            text = N_("The run was stopped by hand after {step}, too early to tell; rows with a loss: {rows:,}.")
        return Verdict.WATCH, Text(text, {"rows": course.rows, "step": last or ""}), None, None
    if earlier:
        gaps = {"launch": current.number + 1, "earlier": earlier.segment + 1}
        text = N_("Launch {launch} shows nothing unusual; launch {earlier} before it did: see the findings.")
        return Verdict.WATCH, Text(text, gaps), None, None
    if max(abs(course.first), abs(course.last)) >= ABSURD:
        return (
            Verdict.WATCH,
            Text(N_("The losses are too large to be those of a training run: nothing can be told.")),
            None,
            None,
        )
    if course.first == course.last == course.lowest and course.rows >= KNOWN_NOISE_ROWS:
        text = N_("Loss has not moved: {last:.4g} from the first of {rows:,} rows to the last.")
        return Verdict.WATCH, Text(text, {"last": course.last, "rows": course.rows}), None, None
    return Verdict.HEALTHY, _course(course, current, quiet), None, None


def _without_loss(current: Segment) -> tuple[Verdict, Text]:
    """Judge by the evaluation loss where training prints none: healthy if it fell and is near its best."""
    name = next((column for column in ("eval_loss", "loss") if column in current.evals), None)
    values = current.evals[name].to_numpy(dtype=float) if name else np.zeros(0)
    values = np.clip(values[np.isfinite(values)], -1e300, 1e300)
    if not len(values):
        text = N_("No training loss in this log (rows: {rows:,}): whether it learns can't be told.")
        return Verdict.WATCH, Text(text, {"rows": len(current)})
    gaps = {"first": float(values[0]), "last": float(values[-1]), "count": len(values), "best": float(values.min())}
    if len(values) >= FEWEST_ROWS and values[-1] < values[0] and values[-1] <= 1.02 * values.min():
        text = N_("No training loss in this log; the evaluation loss fell from {first:.4g} to {last:.4g}.")
        return Verdict.HEALTHY, Text(text, gaps)
    text = N_("No training loss in this log; of {count:,} evaluations the best is {best:.4g}, the last {last:.4g}.")
    return Verdict.WATCH, Text(text, gaps)


def _last(current: Segment) -> Text | None:
    """Return the last row of a launch as a place, None where it has none with a step."""
    if not len(current) or current.step(len(current) - 1) is None:
        return None
    return where(current, len(current) - 1)


def _crashed(end: Incident, current: Segment) -> Text:
    step, total = _last(current), current.total_steps
    gaps = {"what": shortened(end.root["text"]), "line": int(end.root["line"]), "step": step or "", "total": total}
    if not len(current):
        return Text(N_("No training step in this log. It ends at line {line:,} with: {what}"), gaps)
    if step is None:
        return Text(N_("The run ended with a failure at line {line:,}: {what}"), gaps)
    if total is None:
        return Text(N_("The run failed after {step} (line {line:,}): {what}"), gaps)
    return Text(N_("The run failed after {step} of {total:,} (line {line:,}): {what}"), gaps)


def _stopped(end: Incident, current: Segment, quiet: Text) -> Text:
    step, total = _last(current), current.total_steps
    gaps = {"step": step or "", "total": total, "quiet": quiet}
    if end.data.get("reason") == "time_limit" and step is not None:
        return Text(N_("Its time limit ended the run after {step}; {quiet} before."), gaps)
    if end.root["kind"] == "cancelled" and step is not None:
        return Text(N_("The scheduler ended the run after {step}; {quiet} before."), gaps)
    if step is None:
        return Text(N_("The run was stopped by hand; {quiet} before."), gaps)
    if total is None:
        return Text(N_("The run was stopped by hand after {step}; {quiet} before."), gaps)
    return Text(N_("The run was stopped by hand after {step} of {total:,}; {quiet} before."), gaps)


def _course(course: Trend, current: Segment, quiet: Text) -> Text:
    low, high = (100 * abs(end) for end in course.interval) if course.interval else (0.0, 0.0)
    step, last = current.step(len(current) - 1), _last(current)
    gaps: dict[str, Any] = {"slope": 100 * abs(course.per_1000_steps or 0), "low": min(low, high), "high": max(low, high)}
    gaps |= {"rows": course.rows, "step": last, "first": course.first, "last": course.last, "quiet": quiet}
    if course.rows < KNOWN_NOISE_ROWS:
        return Text(N_("Loss went from {first:.4g} to {last:.4g}; {rows:,} rows are too few to know more than that."), gaps)
    if step is None or current.unit != "step" or course.direction == "unknown" or step < SHORT_STEPS:
        return Text(N_("Loss went from {first:.4g} to {last:.4g}; {quiet} in {rows:,} rows."), gaps)
    if course.direction == "falling":
        text = N_(
            "Loss falls {slope:.2g} % per 1,000 steps in the last quarter ({low:.2g} to {high:.2g}); {quiet} up to {step}."
        )
        return Text(text, gaps)
    if course.direction == "rising":
        text = N_(
            "Loss drifts up {slope:.2g} % per 1,000 steps in the last quarter ({low:.2g} to {high:.2g}); {quiet} up to {step}."
        )
        return Text(text, gaps)
    return Text(N_("Loss holds at {last:.4g}, within its own noise; {quiet} up to {step}."), gaps)
