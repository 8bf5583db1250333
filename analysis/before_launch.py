"""Before a run starts: how long, how many GPU-hours and how much money, from the time of an epoch or from a run that is known.

From an epoch: epochs × time of one, on the same hardware. From a golden run: its time a step, its pauses and start-up, carried
to other GPUs and another batch by work per GPU. How well a run scales over GPUs is not known before: the range goes from
perfect scaling to the share that is given (80 % kept with each doubling by default).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

import numpy as np

from analysis.pace import PAUSE, START_UP, pace
from analysis.segment import Segment
from analysis.time_left import Estimate
from messages import N_, Text

SPREAD = 0.05  # relative: of a time that somebody states, 8 times in 10
KEPT_PER_DOUBLING = 0.8


@dataclass(frozen=True)
class Launch:
    """An estimate before the start: seconds (p10, p50, p90 in `time`), and what it assumes, in words."""

    time: Estimate
    assumptions: tuple[Text, ...]

    def window(self, start: datetime) -> tuple[datetime, datetime, datetime]:
        """Return when it ends if it starts at `start`: early, middle, late."""
        early, middle, late = (start + timedelta(seconds=value) for value in (self.time.p10, self.time.p50, self.time.p90))
        return early, middle, late


def from_epoch(minutes: float, epochs: float) -> Launch:
    """Return the estimate for `epochs` epochs of `minutes` each. Raises ValueError unless both are positive."""
    if not (minutes > 0 and epochs > 0 and np.isfinite(minutes * epochs)):
        raise ValueError("minutes and epochs must be positive")
    seconds = 60 * minutes * epochs
    text = Text(N_("{epochs:g} epochs of {minutes:g} minutes"), {"epochs": epochs, "minutes": minutes})
    stated = Text(N_("the time of an epoch holds for all of them, within {spread:.0%}"), {"spread": SPREAD})
    low, high = 1 - SPREAD, 1 + SPREAD
    return Launch(Estimate(low * seconds, seconds, high * seconds, text, low * seconds, high * seconds), (stated,))


def from_golden(
    segments: Sequence[Segment],
    *,
    steps: int,
    gpus: int | None = None,
    golden_gpus: int | None = None,
    batch: float | None = None,
    golden_batch: float | None = None,
    kept: float = KEPT_PER_DOUBLING,
) -> Launch | Text:
    """Return the estimate for `steps` steps like those of a known run, or why there is none.

    gpus, golden_gpus: GPUs of the run to come and of the known one; batch, golden_batch: samples or tokens a step of both.
    kept: share of the speed that is kept with each doubling of the GPUs, in the worst case.
    """
    known = [found for found in (pace(segment) for segment in segments) if found is not None and found.wall.steps.sum() > 0]
    if not known:
        return Text(N_("the known run does not tell how long its steps took"))
    if (
        steps <= 0
        or not 0 < kept <= 1
        or any(value is not None and not value > 0 for value in (gpus, golden_gpus, batch, golden_batch))
    ):
        raise ValueError("steps, GPUs and batch must be positive, kept a share")
    last = max(known, key=lambda found: float(found.wall.steps.sum()))
    spent = float(last.wall.steps.sum())
    each = float(last.running.sum() + last.seconds(PAUSE)) / spent
    levels = last.level[last.level > 0]
    low, high = (float(value) for value in np.percentile(levels, [10, 90]) / np.median(levels)) if len(levels) else (1.0, 1.0)
    work = (batch / golden_batch) if batch and golden_batch else 1.0
    ratio = (gpus / golden_gpus) if gpus and golden_gpus else 1.0
    worst = ratio * kept ** abs(np.log2(ratio))
    fastest, slowest = work / max(ratio, worst), work / min(ratio, worst)
    start = last.seconds(START_UP)
    ends = (steps * each * fastest * low, steps * each * np.sqrt(fastest * slowest), steps * each * slowest * high)
    p10, p50, p90 = (float(value + start) for value in ends)
    return Launch(Estimate(p10, p50, p90, Text(N_("steps of the known run"))), tuple(_assumed(spent, each, work, ratio, kept)))


def _assumed(spent: float, each: float, work: float, ratio: float, kept: float) -> list[Text]:
    found = [
        Text(
            N_("a step takes {seconds:.3g} s as in the known run ({steps:,} steps), pauses included"),
            {"seconds": each, "steps": int(spent)},
        )
    ]
    if work != 1:
        found.append(Text(N_("the time of a step grows with its batch ({ratio:.3g}×)"), {"ratio": work}))
    if ratio != 1:
        template = N_("{ratio:.3g}× the GPUs: between perfect scaling and {kept:.0%} of the speed kept with each doubling")
        found.append(Text(template, {"ratio": ratio, "kept": kept}))
    return found
