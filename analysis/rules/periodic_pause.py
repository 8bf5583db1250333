"""Every so many steps training pauses.

Meaning: Slow rows come back at a fixed distance. That is how checkpoints, evaluations and shard changes look, and it is
normal; what it costs is stated here, and these pauses are expected from then on, so no rule takes them for a fault.

Causes: Checkpoint writing, evaluation, logging of samples, or the data loader at the end of a shard.

What to do: Nothing if the share of the time is small. Otherwise write checkpoints asynchronously or less often, evaluate less
often or on fewer samples, and prefetch the next shard.

Source: pauses found by the run's own rhythm: the same distance five times in a row.
"""

from collections.abc import Iterator

import numpy as np

from analysis.evidence import times
from analysis.findings import Finding, Severity
from analysis.pace import Pace, pace
from analysis.pauses import Pauses, Rhythm, pauses
from analysis.readings import finding
from analysis.segment import Segment
from messages import N_, Text

NEEDS = (
    "step_time_seconds|elapsed_seconds|timestamp|tokens_per_second|samples_per_second|steps_per_second|time|epoch_time_minutes",
)
INFORMS = True


def check(segment: Segment, *, least_share: float = 0.005) -> Iterator[Finding]:
    """Yield each rhythm of pauses; where the log tells no clock, what they cost is not known, and all of them.

    least_share: of the time, when the rhythm becomes known, that its pauses must cost to be reported.
    """
    found = pauses(segment)
    if found is None:
        return
    for rhythm in found.rhythms:
        clock = _clock(segment, found, rhythm)
        if clock is None or _share(found, rhythm, clock, early=True) >= least_share:
            yield _finding(found, rhythm, clock)


def _clock(segment: Segment, found: Pauses, rhythm: Rhythm) -> Pace | None:
    """Return how the time was spent, None where the log does not tell it or its clock is too coarse to see the pauses."""
    clock = pace(segment)
    return clock if clock is not None and clock.beyond(found.series.at[rhythm.at]).any() else None


def _share(found: Pauses, rhythm: Rhythm, clock: Pace, *, early: bool) -> float:
    """Return the share of the pauses in all time; early: in that from the first of them to that which made it known."""
    rows = found.series.at[rhythm.at]
    if not early:
        return clock.share(rows, 0, len(found.series.segment))
    last = int(found.series.at[rhythm.known])
    return clock.share(rows[rows <= last], int(rows[0]), last)


def _finding(found: Pauses, rhythm: Rhythm, clock: Pace | None) -> Finding:
    series = found.series
    first, last = int(rhythm.at[0]), int(rhythm.at[-1])
    distance = np.diff(series.steps()[rhythm.at[: np.searchsorted(rhythm.at, rhythm.known) + 1]])
    extra, usual = float(np.median(found.seconds(rhythm.at))), float(np.median(series.values[first:]))
    if clock is not None:
        extra, usual = float(np.median(clock.beyond(series.at[rhythm.at]))), float(np.median(clock.level))
    gaps: dict[str, float] = {"every": int(np.median(distance)), "ratio": times(extra, usual)}
    unit = "s" if clock is not None or found.known.exact else ""
    evidence = [
        series.fact(N_("time that a pause adds to a step"), extra, None, unit),
        series.fact(N_("usual step time"), usual, None, unit),
        series.fact(N_("pauses so far"), len(rhythm.at)),
    ]
    title = N_("Every {every:,} steps a pause of {ratio:.3g} step times")
    if clock is not None:
        title = N_("Every {every:,} steps a pause of {ratio:.3g} step times: {share:.1%} of the time")
        gaps["share"] = _share(found, rhythm, clock, early=False)
        evidence.append(series.fact(N_("share of the time"), f"{gaps['share']:.2%}"))
    end = last if int(series.at[-1]) - int(series.at[last]) > 2 * rhythm.rows else None
    known = rhythm.known
    return finding(
        "periodic_pause", Severity.INFO, series, Text(title, gaps), tuple(evidence), first=first, known=known, end=end
    )


def sick() -> Segment:
    """Return a run that pauses every 200 steps."""
    from analysis.simulate_hardware import simulate

    return simulate(rows=1600, seed=5, kind="checkpoints").segment


def well() -> Segment:
    """Return a run with many slow steps in no rhythm."""
    from analysis.simulate_hardware import simulate

    return simulate(rows=1600, seed=5, kind="hiccups").segment
