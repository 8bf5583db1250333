"""The GPU is too hot.

Meaning: The GPU temperature stays at or above the limit at which clocks are usually lowered. Steps get slower, and hardware
ages and fails sooner.

Causes: Cooling of the node or the room, a clogged filter, a failed fan or pump, neighbours that heat the same air, or a power
cap set too high.

What to do: Have the node's cooling checked; lower the power limit (nvidia-smi -pl) until then; move the run to another node
if its steps have become slower.

Source: the 85 °C of common practice; criterion: ten of twelve readings.
"""

from collections.abc import Iterator

import numpy as np

from analysis.evidence import times
from analysis.findings import Finding, Severity
from analysis.hardware import bands, few_of, hardware, most_of
from analysis.observed import around_series
from analysis.readings import Readings, finding, held
from analysis.segment import Segment
from analysis.step_time import step_time
from messages import N_, Text

NEEDS = ("gpu_temperature_celsius",)
OF, MOST_OF, FEW_OF = 12, 10, 2
SLOWER = 1.05


def check(segment: Segment, *, limit_celsius: float = 85.0) -> Iterator[Finding]:
    """Yield each stretch in which ten of twelve readings are at or above limit_celsius."""
    for series in hardware(segment, "gpu_temperature_celsius"):
        hot = series.values >= limit_celsius
        for known, _, end in held(most_of(hot, MOST_OF, OF), few_of(hot, FEW_OF, OF), 1):
            start = max(known - OF + 1, 0)
            yield _finding(series, start + int(np.argmax(hot[start : known + 1])), known, end, limit_celsius)


def check_articles(segment: Segment, *, limit_celsius: float = 85.0) -> Iterator[Finding]:
    """Yield the readings above limit_celsius (exactly that is still good)."""
    text = N_("GPU temperature above {limit:g} °C in {count:,} of {all:,} readings, first at {step}")
    for series in hardware(segment, "gpu_temperature_celsius"):
        inside = series.values > limit_celsius
        yield from bands("temperature_high", Severity.WARNING, series, inside, limit_celsius, text, unit="°C")


def _finding(series: Readings, first: int, known: int, end: int | None, limit: float) -> Finding:
    inside = series.values[first : len(series) if end is None else end + 1]
    gaps = {"now": float(np.median(inside)), "step": series.where(first)}
    slower = _slower(series, first, known)
    title = Text(N_("The GPU has been at {now:.0f} °C since {step}"), gaps)
    if end is not None:
        title = Text(N_("The GPU was at {now:.0f} °C from {step} to {end}"), gaps | {"end": series.where(end)})
    elif slower > SLOWER:
        title = Text(
            N_("The GPU has been at {now:.0f} °C since {step}, and steps take {ratio:.3g}× as long"),
            gaps | {"ratio": slower},
        )
    evidence = [
        series.fact(N_("highest temperature"), float(inside.max()), first + int(np.argmax(inside)), "°C"),
        series.fact(N_("limit"), limit, None, "°C"),
        series.fact(N_("step time since over before"), round(slower, 3)),
    ]
    if series.device is not None:
        evidence.append(series.fact(N_("GPU"), series.device))
    severity = Severity.CRITICAL if slower > SLOWER and end is None else Severity.WARNING
    return finding("temperature_high", severity, series, title, tuple(evidence), first=first, known=known, end=end)


def _slower(series: Readings, first: int, known: int) -> float:
    """Return the step time since it is hot over that before, 1 where it is not known."""
    steps = step_time(series.segment)
    both = None if steps is None else around_series(steps.series, series.row(first), series.row(known))
    return 1.0 if both is None else times(both[1], both[0])


def sick() -> Segment:
    """Return a run whose GPU gets too hot."""
    from analysis.simulate_hardware import simulate

    return simulate(rows=500, seed=4, fault="temperature_high").segment


def well() -> Segment:
    """Return a run that is warm throughout."""
    from analysis.simulate_hardware import simulate

    return simulate(rows=500, seed=4, kind="full").segment
