"""Whether a launch is over: its plan is done, or its log says that it is finished or how it ended; else what is left of it."""

from collections.abc import Sequence

import numpy as np

from analysis.ending import current_launch, ending
from analysis.failures import DONE
from analysis.segment import Segment
from messages import N_, Text

MOST_STEPS = 1e12  # more left is no plan
LAST_DONE = N_("the last planned step is done")
NEARLY_DONE = N_("of {total:,} planned steps {left:,} are not printed as done, fewer than lie between two lines")
FINISHED = N_("the log says that training is finished")
FINISHED_EARLY = N_("the log says that training is finished after {step:,} of {total:,} planned steps")
ENDED = N_("the run has ended")
ENDED_EARLY = N_("the run has ended after {step:,} of {total:,} planned steps")


def done(segment: Segment, left: float | None) -> Text | None:
    """Say why nothing is left of a launch of which `left` steps are planned, None while something is.

    Where the plan is no multiple of the steps between two lines, its last step is not printed: at DONE of the plan, with no
    line due before its end, it counts as done.
    """
    if left == 0:
        return Text(LAST_DONE)
    if finished(segment):
        return _at(FINISHED, FINISHED_EARLY, segment, left)
    step = segment.step(len(segment) - 1)
    if left is None or step is None or step < DONE * (step + left) or left >= _between(segment):
        return None
    return Text(NEARLY_DONE, {"total": int(step + left), "left": int(left)})


def finished(segment: Segment) -> bool:
    """Say whether the log says after the last row that training is done."""
    events, last = segment.events, segment.line(len(segment) - 1) if len(segment) else None
    return bool(len(events) and (events["kind"].eq("training_finished") & (events["line"] >= (last or 0))).any())


def steps_left(segment: Segment, total_steps: int | None = None) -> float | None:
    """Return the planned steps not yet done, at least 0; None where plan or step is unknown."""
    step = segment.step(len(segment) - 1)
    total = total_steps or segment.total_steps
    if step is None or total is None or abs(total - step) > MOST_STEPS:
        return None
    return float(max(total - step, 0))


def ended(segments: Sequence[Segment], left: float | None) -> Text | None:
    """Say that a run ended in a failure or was stopped, None where nothing says so; left: steps planned of its last launch."""
    return _at(ENDED, ENDED_EARLY, current_launch(segments), left) if ending(segments) else None


def _between(segment: Segment) -> float:
    """Return the steps that usually lie between two rows, 0 where nothing tells."""
    gaps = np.diff(segment.steps())
    return float(np.median(gaps[gaps > 0])) if (gaps > 0).any() else 0.0


def _at(plain: str, early: str, segment: Segment, left: float | None) -> Text:
    """Return a sentence about the end of a launch, with its place in the plan where that is known."""
    step = segment.step(len(segment) - 1)
    return Text(plain) if step is None or left is None else Text(early, {"step": step, "total": int(step + left)})
