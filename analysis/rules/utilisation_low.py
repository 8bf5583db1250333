"""The GPU waits instead of computing.

Meaning: The usual GPU utilisation is low, or clearly lower than it was in this run. What is paid for is not used. Single low
readings, as during checkpoints and evaluations, do not count.

Causes: The data loader can't keep up (most often), much time in communication, small batches, evaluation or logging on the
main thread, or another rank that everybody waits for.

What to do: Give the data loader more workers (num_workers), switch pin_memory on, read tokenised data by memory map, and
enlarge the batch if memory allows. Compare the time spent waiting for data with the step.

Source: the utilisation bands of common practice (70, 50, 30 %); here the median of 30 readings, and the run's own best.
"""

from collections.abc import Iterator
from typing import Any

import numpy as np

from analysis.findings import Finding, Severity
from analysis.hardware import bands, hardware
from analysis.readings import SIZE, Readings, before, blocks, finding, held, last_of, median_of
from analysis.segment import Segment
from messages import N_, Text

NEEDS = ("gpu_utilization_percent",)
FAST, SLOW = 6, 30  # blocks of five readings: judged, and the best so far
MARGIN = 3.0  # percent above the limit at which it is over


def check(
    segment: Segment, *, least: float = 60.0, own_share: float = 0.75, own_least: float = 75.0, hold_blocks: int = 2
) -> Iterator[Finding]:
    """Yield each stretch in which the median of 30 readings is low.

    least: percent that is always low; own_share, own_least: low if under that share of the run's own best and under that
    percent; hold_blocks: blocks of five readings for which it must hold.
    """
    for series in hardware(segment, "gpu_utilization_percent"):
        level = median_of(series.values, SIZE * FAST, SIZE * FAST)[SIZE - 1 :: SIZE]
        best = np.fmax.accumulate(before(median_of(blocks(series.values), SLOW, FAST), FAST))
        limit = np.fmax(least, np.fmin(own_least, own_share * np.nan_to_num(best)))
        with np.errstate(invalid="ignore"):
            hot, cool = level < limit, level >= limit + MARGIN
        for first, known, end in held(hot, cool, hold_blocks):
            yield _finding(series, first, known, end, float(limit[first]))


def check_articles(
    segment: Segment, *, healthy_from: float = 70.0, loader_below: float = 50.0, pin_below: float = 30.0
) -> Iterator[Finding]:
    """Yield the readings below healthy_from (to watch), below loader_below (the loader is the bottleneck) and below pin_below
    (pin_memory), each band once."""
    texts = (
        (-np.inf, pin_below, N_("GPU utilisation below {limit:g} % in {count:,} of {all:,} readings: switch pin_memory on")),
        (pin_below, loader_below, N_("GPU utilisation below {limit:g} % in {count:,} of {all:,} readings: raise num_workers")),
        (loader_below, healthy_from, N_("GPU utilisation below {limit:g} % in {count:,} of {all:,} readings: to be watched")),
    )
    for series in hardware(segment, "gpu_utilization_percent"):
        for low, high, text in texts:
            inside = (series.values >= low) & (series.values < high)
            yield from bands("utilisation_low", Severity.WARNING, series, inside, high, text, unit="%")


def _finding(series: Readings, first: int, known: int, end: int | None, limit: float) -> Finding:
    began = SIZE * max(first - FAST + 1, 0)
    low = series.values[began : last_of(first) + 1] < limit
    began += int(np.argmax(low))
    last = None if end is None else last_of(end)
    inside = series.values[began : len(series) if last is None else last + 1]
    gaps: dict[str, Any] = {"now": float(np.median(inside)), "step": series.where(began)}
    title = Text(N_("GPU utilisation is {now:.0f} % since {step}"), gaps)
    if last is not None:
        title = Text(N_("GPU utilisation was {now:.0f} % from {step} to {end}"), gaps | {"end": series.where(last)})
    evidence = [
        series.fact(N_("median GPU utilisation since then"), gaps["now"], last_of(known), "%"),
        series.fact(N_("limit that applies here"), round(limit, 1), None, "%"),
        series.fact(N_("readings below 30 %"), int(np.count_nonzero(inside < 30))),
    ]
    if began:
        usual = float(np.median(series.values[max(began - 250, 0) : began]))
        evidence.insert(0, series.fact(N_("median GPU utilisation before"), usual, began - 1, "%"))
    if series.device is not None:
        evidence.append(series.fact(N_("GPU"), series.device))
    known = last_of(known)
    kind = "utilisation_low"
    return finding(kind, Severity.WARNING, series, title, tuple(evidence), first=began, known=known, end=last)


def sick() -> Segment:
    """Return a run whose GPUs begin to wait."""
    from analysis.simulate_hardware import simulate

    return simulate(rows=800, seed=9, fault="utilisation_low").segment


def well() -> Segment:
    """Return a run with low readings during checkpoints and evaluations only."""
    from analysis.simulate_hardware import simulate

    return simulate(rows=800, seed=9, kind="evaluations").segment
