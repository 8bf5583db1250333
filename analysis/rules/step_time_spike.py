"""A single step took far longer than its neighbours.

Meaning: One row took more than four times the usual step time, far beyond its fluctuations, and the next was normal again.
Time was lost, the training itself is not touched. Pauses that come back at a fixed distance, and those at which the log shows
an evaluation or a checkpoint, are not meant here.

Causes: A slow read from the file system, garbage collection, another process on the node, a retry in the network, or a
compilation for a new shape.

What to do: Nothing for a few. If they cost a noticeable share of the time, see which node they come from and what else runs
there, and keep input shapes fixed.

Source: step-time rows of the common trouble tables; criterion in the run's own spread.
"""

from collections.abc import Iterator

import numpy as np

from analysis.findings import Finding, Severity
from analysis.pauses import Pauses, pauses, spoken
from analysis.readings import MOST, finding
from analysis.segment import Segment
from messages import N_, Text

NEEDS = (
    "step_time_seconds|elapsed_seconds|timestamp|tokens_per_second|samples_per_second|steps_per_second|time|epoch_time_minutes",
)
INFORMS = True


def check(segment: Segment, *, ratio: float = 4.0, spreads: float = 12.0) -> Iterator[Finding]:
    """Yield each single slow row, neighbours together.

    ratio: step time over the usual one; spreads: the same in robust standard deviations.
    """
    found = pauses(segment)
    if found is None:
        return
    chosen = np.flatnonzero((found.over > np.log(ratio)) & (found.spreads > spreads) & ~found.expected)
    shown, last = 0, -2
    for place in chosen:
        at = int(found.at[place])
        alone, last = at > last + 1, at
        if alone and not spoken(segment, int(found.series.at[at])):
            yield _finding(found, int(place))
            shown += 1
            if shown >= MOST:
                return


def _finding(found: Pauses, place: int) -> Finding:
    series, at = found.series, int(found.at[place])
    ratio = float(np.exp(min(found.over[place], 500)))
    unit = "s" if found.known.exact else ""
    title = Text(N_("A step took {ratio:.3g}× the usual time, at {step}"), {"step": series.where(at), "ratio": ratio})
    evidence = (
        series.fact(N_("step time"), float(series.values[at]), at, unit),
        series.fact(N_("usual step time"), float(series.values[at] / ratio), None, unit),
        series.fact(N_("in standard deviations of the usual step time"), round(float(found.spreads[place]), 1)),
    )
    return finding("step_time_spike", Severity.INFO, series, title, evidence, first=at, known=at, end=at)


def sick() -> Segment:
    """Return a run with one step that takes many times as long."""
    from analysis.simulate_hardware import simulate

    return simulate(rows=800, seed=3, kind="steady", fault="step_time_spike").segment


def well() -> Segment:
    """Return a run whose step time varies with the length of the samples."""
    from analysis.simulate_hardware import simulate

    return simulate(rows=800, seed=3, kind="variable").segment
