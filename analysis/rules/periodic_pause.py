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
from analysis.pauses import Pauses, Rhythm, pauses
from analysis.readings import finding
from analysis.segment import Segment
from messages import N_, Text

NEEDS = (
    "step_time_seconds|elapsed_seconds|timestamp|tokens_per_second|samples_per_second|steps_per_second|time|epoch_time_minutes",
)
INFORMS = True


def check(segment: Segment, *, least_share: float = 0.005) -> Iterator[Finding]:
    """Yield each rhythm of pauses.

    least_share: of the time, when the rhythm becomes known, that its pauses must cost to be reported.
    """
    found = pauses(segment)
    for rhythm in found.rhythms if found is not None else ():
        if found is not None and _share(found, rhythm, rhythm.known) >= least_share:
            yield _finding(found, rhythm)


def _share(found: Pauses, rhythm: Rhythm, last: int) -> float:
    first, at = int(rhythm.at[0]), rhythm.at[rhythm.at <= last]
    return times(float(found.seconds(at).sum()), float(found.series.values[first : last + 1].sum()))


def _finding(found: Pauses, rhythm: Rhythm) -> Finding:
    series = found.series
    first, last = int(rhythm.at[0]), int(rhythm.at[-1])
    distance = np.diff(series.steps()[rhythm.at[: np.searchsorted(rhythm.at, rhythm.known) + 1]])
    extra = float(np.median(found.seconds(rhythm.at)))
    usual = float(np.median(series.values[first:]))
    gaps = {"every": int(np.median(distance)), "share": _share(found, rhythm, last), "ratio": times(extra, usual)}
    title = Text(N_("Every {every:,} steps a pause of {ratio:.3g} step times: {share:.1%} of the time"), gaps)
    over = int(series.at[-1]) - int(series.at[last]) > 2 * rhythm.rows
    unit = "s" if found.known.exact else ""
    evidence = (
        series.fact(N_("time that a pause adds to a step"), extra, None, unit),
        series.fact(N_("usual step time"), usual, None, unit),
        series.fact(N_("pauses so far"), len(rhythm.at)),
        series.fact(N_("share of the time"), f"{gaps['share']:.2%}"),
    )
    end = last if over else None
    return finding("periodic_pause", Severity.INFO, series, title, evidence, first=first, known=rhythm.known, end=end)


def sick() -> Segment:
    """Return a run that pauses every 200 steps."""
    from analysis.simulate_hardware import simulate

    return simulate(rows=1600, seed=5, kind="checkpoints").segment


def well() -> Segment:
    """Return a run with many slow steps in no rhythm."""
    from analysis.simulate_hardware import simulate

    return simulate(rows=1600, seed=5, kind="hiccups").segment
