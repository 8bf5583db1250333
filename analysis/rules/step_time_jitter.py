"""The step time has become unsteady.

Meaning: Steps now vary several times as much as they did in this run, although their usual time may be the same. What one
step waits for, all wait for: unsteady steps cost time and announce stragglers.

Causes: A data loader at its limit, samples of very different length (padding), other jobs on the node or in the network, or a
GPU that throttles now and then.

What to do: Compare the time spent waiting for data with the step; sort or bucket samples by length; see whether one rank or
node is the last each time.

Source: spread of the step time from row to row against its own earlier spread; another level alone is no unsteadiness.
"""

from collections.abc import Iterator

import numpy as np

from analysis.evidence import times
from analysis.findings import Finding, Severity
from analysis.readings import SIZE, TO_SIGMA, before, blocks, finding, held, last_of, median_of
from analysis.segment import Segment
from analysis.step_time import StepTime, step_time, stretches
from messages import N_, Text

NEEDS = (
    "step_time_seconds|elapsed_seconds|timestamp|tokens_per_second|samples_per_second|steps_per_second|time|epoch_time_minutes",
)
NOW, OWN = 10, 240  # blocks of five rows: judged, and what is usual
LEAST_OWN = 12
LEAST_RATIO = 1.5  # over the usual spread, below which it is steady again


def check(segment: Segment, *, ratio: float = 3.0, least: float = 0.05, hold_blocks: int = 4) -> Iterator[Finding]:
    """Yield each stretch in which the step time is unsteady.

    ratio: spread over the usual spread; least: spread as a share of the step time; hold_blocks: blocks of five rows.
    """
    known = step_time(segment)
    if known is None or known.together > 1:
        return
    for start, stop in stretches(known):
        if stop - start >= SIZE * (NOW + LEAST_OWN):
            x = np.log(known.series.values[start:stop])
            single = TO_SIGMA / np.sqrt(2) * blocks(np.abs(np.diff(x, prepend=x[0])))
            for place, spread, usual in _unsteady(single, ratio, least, hold_blocks):
                yield _finding(known, start, stop, place, spread, usual)


def _unsteady(
    single: np.ndarray, ratio: float, least: float, hold: int
) -> Iterator[tuple[tuple[int, int, int | None], float, float]]:
    """Yield (first block, block at which it is known, end), the spread and the usual spread there."""
    spread = median_of(single, NOW, NOW)
    usual = before(median_of(single, OWN, LEAST_OWN), NOW)
    with np.errstate(invalid="ignore"):
        hot = (spread > ratio * usual) & (spread > least)
        cool = (spread < LEAST_RATIO * usual) | (spread < least / 2)
    for first, at, end in held(hot, cool, hold):
        start = max(first - NOW + 1, 0)
        began = start + int(np.argmax(single[start : first + 1] > ratio * usual[first]))
        yield (began, at, end), float(spread[at]), float(usual[first])


def _finding(
    known: StepTime, start: int, stop: int, place: tuple[int, int, int | None], spread: float, usual: float
) -> Finding:
    series, (began, at, end) = known.series, place
    first, last = start + began * SIZE, None if end is None else start + last_of(end)
    if last is None and stop < len(series):
        last = stop - 1
    gaps = {"spread": spread, "ratio": times(spread, usual), "step": series.where(first)}
    title = Text(N_("Step time varies by {spread:.0%} since {step}, {ratio:.3g}× as much as before"), gaps)
    evidence = (
        series.fact(N_("spread of the step time before"), f"{usual:.2%}"),
        series.fact(N_("spread of the step time since"), f"{spread:.2%}", start + last_of(at)),
        series.fact(N_("taken from"), known.text.template),
    )
    at = start + last_of(at)
    return finding("step_time_jitter", Severity.WARNING, series, title, evidence, first=first, known=at, end=last)


def sick() -> Segment:
    """Return a run whose steps become unsteady."""
    from analysis.simulate_hardware import simulate

    return simulate(rows=1200, seed=6, fault="step_time_jitter").segment


def well() -> Segment:
    """Return a run that was unsteady from the start."""
    from analysis.simulate_hardware import simulate

    return simulate(rows=1200, seed=6, kind="variable").segment
