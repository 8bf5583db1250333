"""GPU memory grows without end.

Meaning: The memory in use has been rising block after block for so long, and without slowing down, that it is no longer the
settling of the first steps. If it goes on like this, memory is full at the step named here.

Causes: Tensors kept with their graph (a loss summed up without .item() or detach), lists of outputs or metrics that grow,
fragmentation by samples of ever new lengths, or a cache without a limit.

What to do: Take a snapshot (torch.cuda.memory._record_memory_history) and see what the new blocks are; sum up loss.item(),
not loss; set PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True against fragmentation. Restart from a checkpoint before the
step named here if it can't be repaired in the run.

Source: leak reports of the large training code bases; criterion: sixteen blocks of the whole past that rise.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from analysis.evidence import at_step, times
from analysis.findings import Evidence, Finding, Severity
from analysis.hardware import hardware, installed
from analysis.ladder import octaves
from analysis.noise import Track
from analysis.readings import MOST, SIZE, Readings, blocks, finding
from analysis.segment import Segment
from analysis.step_time import step_time
from analysis.trend_test import kendall
from messages import N_, Text

NEEDS = ("memory_bytes",)
WINDOW = 16  # blocks that must rise
ON, OFF = 0.8, 0.5  # Kendall's tau at which a rise begins and below which it is over
SETTLING = 400  # readings that a rise from the very start must last: caches fill, ever more slowly
BRISK, EVEN = 0.15, 0.8  # share of the memory grown, slowest quarter over fastest: no cache fills like that
PROPHECY = 10  # times its own length that a rise is drawn out to the end of the plan
FULL = 0.94


@dataclass(frozen=True)
class Growth:
    """A rise: positions in the readings of its first, of the one at which it was known, and of its last (None: goes on)."""

    first: int
    known: int
    end: int | None


def check(
    segment: Segment, *, growth: float = 0.04, small_growth: float = 0.01, steady: float = 0.7, hold_blocks: int = 2
) -> Iterator[Finding]:
    """Yield each lasting growth of the memory in use.

    growth: of the installed memory (of the level where that is unknown) since the rise began; small_growth: enough if memory
    would be full within the plan. steady: the last quarter must rise at least so many times as fast as the first.
    hold_blocks: blocks in a row.
    """
    for series in hardware(segment, "memory_bytes"):
        total = installed(segment, series)
        middle = blocks(series.values)
        left = _left(segment, series)
        limits = (growth, small_growth, steady)
        for found in list(_growths(middle, total, left, limits, hold_blocks))[:MOST]:
            yield _finding(segment, series, found, total)


def _left(segment: Segment, series: Readings) -> np.ndarray | None:
    """Return how many blocks of readings the plan still holds after each block, None without a plan."""
    if not segment.total_steps or "step" not in series.frame:
        return None
    steps = series.steps()[SIZE - 1 :: SIZE]
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.arange(1, len(steps) + 1) * (segment.total_steps / steps - 1)


def _growths(
    middle: np.ndarray, total: float | None, left: np.ndarray | None, limits: tuple[float, float, float], hold: int
) -> Iterator[Growth]:
    unknown = np.full(len(middle), np.nan)
    track = Track("memory_bytes", False, np.arange(len(middle)), middle, unknown, unknown, unknown)
    sums = np.r_[0.0, np.cumsum(middle)]
    current: Growth | None = None
    began, count = -1, 0
    for octave in octaves(track):
        if len(octave.means) < WINDOW:
            continue
        tau = kendall(octave.means, WINDOW)
        for block in range(max(octave.judge, WINDOW - 1), len(octave.means)):
            at, order = octave.row(block), tau[block - WINDOW + 1]
            if order < OFF:
                if current is not None:
                    yield Growth(current.first, current.known, SIZE * (at + 1) - 1)
                began, count, current = -1, 0, None
            elif current is None and (began >= 0 or order > ON):
                began = began if began >= 0 else octave.size * (block - WINDOW + 1)
                future = None if left is None else float(left[at])
                count = count + 1 if order > ON and _matters(sums, began, at, total, future, limits) else 0
                if count >= hold:
                    current = Growth(SIZE * began, SIZE * (at + 1) - 1, None)
    if current is not None:
        yield current


def _matters(
    sums: np.ndarray, began: int, at: int, total: float | None, left: float | None, limits: tuple[float, float, float]
) -> bool:
    """Say whether a rise is steady, and large or about to fill the memory; `sums` are of the block medians."""
    growth, small, steady = limits
    edges = np.linspace(began, at + 1, 5).astype(int)
    quarters = np.diff(sums[edges]) / np.maximum(np.diff(edges), 1)
    steps = np.diff(quarters)
    if steps.min() <= 0 or steps[-1] < steady * steps[0]:
        return False
    grown, length = float(steps.mean()) * 4, at + 1 - began
    whole = total or float(quarters[-1])
    settling = not began and SIZE * at < SETTLING
    if settling and not (grown > BRISK * whole and steps.min() > EVEN * steps.max()):
        return False
    if grown > growth * whole:
        return True
    if total is None or left is None or not left < PROPHECY * length:
        return False
    return grown > small * total and quarters[-1] + grown * (left / length + 0.125) > FULL * total


def _finding(segment: Segment, series: Readings, found: Growth, total: float | None) -> Finding:
    last = len(series) - 1 if found.end is None else found.end
    pace, level = _pace(series, found, last)
    gib = 2**30
    gaps = {"step": series.where(found.first), "from": series.values[found.first] / gib, "to": level / gib}
    title = Text(N_("GPU memory has been growing since {step}, from {from:.1f} to {to:.1f} GiB"), gaps)
    evidence = [
        series.fact(N_("memory when it began"), round(float(gaps["from"]), 2), found.first, "GiB"),
        series.fact(N_("memory now"), round(level / gib, 2), last, "GiB"),
    ]
    full = _full(series, last, level, pace, total)
    if found.end is not None:
        title = Text(N_("GPU memory grew from {step} to {end}, from {from:.1f} to {to:.1f} GiB"), gaps)
        title = Text(title.template, gaps | {"end": series.where(last)})
    elif full is not None:
        text = N_("GPU memory has been growing since {step} ({from:.1f} to {to:.1f} GiB): full at {full}")
        title = Text(text, gaps | {"full": at_step(segment, full)})
        evidence += _when(segment, series, last, full)
    facts, first, known = tuple(evidence), found.first, found.known
    return finding("memory_leak", Severity.WARNING, series, title, facts, first=first, known=known, end=found.end)


def _pace(series: Readings, found: Growth, last: int) -> tuple[float, float]:
    """Return bytes a reading over the last quarter of the growth, at least 50 readings, and the level at its end."""
    start = max(min(last - 50, last - (last - found.first) // 4), found.first)
    values = series.values[start : last + 1]
    half = len(values) // 2
    early, late = float(np.median(values[:half])), float(np.median(values[half:]))
    pace = (late - early) / max(len(values) / 2, 1)
    return pace, late + pace * len(values) / 4


def _full(series: Readings, last: int, level: float, pace: float, total: float | None) -> int | None:
    """Return the step at which memory is full at this pace, None where that can't be told."""
    steps = series.steps()
    if total is None or pace <= 0 or last < 1 or not np.isfinite(steps[[0, last]]).all():
        return None
    each = (steps[last] - steps[0]) / last
    step = steps[last] + max(total - level, 0) / pace * each
    return int(step) if 0 <= step < 2**53 else None


def _when(segment: Segment, series: Readings, last: int, full: int) -> Iterator[Evidence]:
    yield series.fact(N_("memory is full at step, if it goes on like this"), full)
    known = step_time(segment)
    if known is not None and known.exact:
        hours = times((full - (series.step(last) or 0)) * float(np.median(known.series.values)), 3600)
        yield series.fact(N_("until then"), round(hours, 2), None, "h")
    if segment.total_steps:
        yield series.fact(N_("planned steps"), segment.total_steps)
    per_epoch = segment.rows["steps_per_epoch"].max() if segment.has("steps_per_epoch") else None
    if per_epoch and np.isfinite(per_epoch) and per_epoch > 0:
        yield series.fact(N_("that is in epoch"), int(full // per_epoch) + 1)


def sick() -> Segment:
    """Return a run whose memory grows to the limit."""
    from analysis.simulate_hardware import simulate

    return simulate(rows=1500, seed=2, fault="memory_leak").segment


def well() -> Segment:
    """Return a run whose memory grows at first and settles."""
    from analysis.simulate_hardware import simulate

    return simulate(rows=1500, seed=2, kind="settling").segment
