"""How long a step takes, row by row, from the best that a log prints, and how steady that is.

In this order: step time as printed, elapsed time, the clock of the lines, a rate (tokens, samples, steps a second), a bare
`time`, the course of `epoch_time`. A printed step time that is the mean since the start gives way to the clock behind it;
one that is the mean since the start of the epoch counts once an epoch.
Left out: the first rows of a launch and of each restart (compilation, first allocations), and rows before which lines
are missing, because what they print may cover more than one interval.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from analysis.clock_column import clock_seconds
from analysis.epoch_time import epoch_time
from analysis.readings import SIZE, TO_SIGMA, Readings, blocks, median_of, of_rows
from analysis.running_mean import undone
from analysis.segment import Segment
from messages import N_, Text

WARMUP_ROWS = 3
UNITS = 20  # a difference of a clock is used from this many of its units on: 5 % is then the worst error
LEARN_ROWS = 64
CLEAR = 3.0  # times the usual difference of two rows
RATES = ("steps_per_second", "tokens_per_second", "samples_per_second")
SOURCES = {
    "step_time_seconds": N_("step time as printed"),
    "elapsed_seconds": N_("differences of the elapsed time"),
    "timestamp": N_("differences of the timestamps"),
    "steps_per_second": N_("steps per second as printed"),
    "tokens_per_second": N_("tokens per second as printed"),
    "samples_per_second": N_("samples per second as printed"),
    "time": N_("`time` as printed, which is the time of a row here"),
    "epoch_time_minutes": N_("epoch_time as printed"),
}


@dataclass(frozen=True, eq=False)
class StepTime:
    """Seconds a step (m,) as `series`, one value a row that can be judged.

    source, text: the column they come from, and how in words. exact: they are seconds a step; False where they are only
    proportional (seconds a token or sample, or a time of unknown meaning). sections: position in the series at which each
    stretch of equal conditions begins (launch, restart, other batch size). together: rows that make one value.
    first_seconds: what the first step took (with compilation), None where not known.
    """

    source: str
    text: Text
    exact: bool
    series: Readings
    sections: np.ndarray
    together: int
    first_seconds: float | None


@dataclass(frozen=True)
class Steadiness:
    """The step time of a launch in figures: median and 95th percentile over median, spread over mean (without its highest
    percent), share of the time above the median and in gaps (`hidden`), seconds of the first step beyond the median."""

    seconds: float
    p95_over_p50: float
    variation: float
    hidden: float
    first_excess_seconds: float | None


def step_time(segment: Segment) -> StepTime | None:
    """Return the step time of a launch, None where the log prints nothing to tell it; worked out once a segment."""
    return segment.once("step_time", lambda: _step_time(segment))


def steadiness(segment: Segment) -> Steadiness | None:
    """Return how steady the step time is, None where it is not known in seconds or for fewer than 20 rows."""
    known = step_time(segment)
    if known is None or not known.exact or len(known.series) < 20:
        return None
    seconds = known.series.values
    middle, high, top = (float(value) for value in np.percentile(seconds, [50, 95, 99]))
    if middle <= 0:
        return None
    usual = seconds[seconds <= top]
    excess = float(np.maximum(seconds - middle, 0).sum() / max(seconds.sum(), 1e-300))
    first = None if known.first_seconds is None else max(known.first_seconds - middle, 0.0)
    return Steadiness(middle, high / middle, float(usual.std() / usual.mean()), excess, first)


def clock(segment: Segment) -> tuple[str, np.ndarray] | None:
    """Return (column, seconds (n,)) of the clock that the rows print, NaN where one does not; None without a clock."""
    for name in ("elapsed_seconds", "timestamp"):
        if segment.has(name):
            return name, clock_seconds(segment, name)
    times = segment.values("time") if segment.has("time") else np.zeros(0)
    return ("time", times) if len(times) and _runs_on(times) else None


def restarts(segment: Segment) -> np.ndarray:
    """Return the rows (k,) at which the step falls below that of the row before: work is done again from there.

    Not where a new epoch begins: there a step falls because epochs differ in length. A fall by one row only counts if the
    next row goes on from there: else two lines have changed places.
    """
    return segment.once("restarts", lambda: _restarts(segment))


def _restarts(segment: Segment) -> np.ndarray:
    if not segment.has("step"):
        return np.zeros(0, dtype=int)
    steps = segment.steps()
    rows = np.flatnonzero(np.isfinite(steps))
    fallen = np.flatnonzero(np.diff(steps[rows]) < 0)
    if segment.has("epoch") and len(fallen):
        epoch = np.floor(segment.values("epoch")[rows])
        fallen = fallen[~(epoch[fallen + 1] > epoch[fallen])]
    after = np.r_[steps[rows], np.nan][fallen + 2]
    at, before = steps[rows][fallen + 1], steps[rows][fallen]
    return rows[1:][fallen[(before - at > _interval(steps[rows], fallen)) | ((after > at) & (after <= before))]]


def _interval(steps: np.ndarray, at: np.ndarray) -> np.ndarray:
    """Return the step from the row before to each row (k,), 1 where there is none."""
    return np.where(at > 0, np.maximum(steps[at] - steps[np.maximum(at - 1, 0)], 1.0), 1.0)


def _step_time(segment: Segment) -> StepTime | None:
    """Return the first source that has a value for each row, else the first with any."""
    coarse: StepTime | None = None
    for source, rows, seconds in _sources(segment):
        found = _made(segment, source, rows, seconds)
        if found is not None and found.together == 1:
            return found
        coarse = coarse or found
    return coarse


def _made(segment: Segment, source: str, rows: np.ndarray, seconds: np.ndarray) -> StepTime | None:
    keep = np.isfinite(seconds) & (seconds > 0)
    rows, seconds = rows[keep], seconds[keep]
    starts = _starts(segment)
    warm = np.zeros(len(rows) + WARMUP_ROWS, dtype=bool)
    for extra in range(WARMUP_ROWS):
        warm[np.searchsorted(rows, starts) + extra] = True
    kept = ~warm[: len(rows)]
    if not kept.any():
        return None
    first = float(seconds[0]) if rows[0] <= 1 and source not in RATES[1:] else None
    series = of_rows(segment, source, rows[kept], seconds[kept])
    sections = np.unique(np.searchsorted(series.at, starts))
    sections = sections[sections < len(series)]
    exact = source not in (*RATES[1:], "time")
    return StepTime(source, Text(SOURCES[source]), exact, series, sections, _together(series.at), first)


def _together(rows: np.ndarray) -> int:
    return int(np.median(np.diff(rows[:LEARN_ROWS]))) if len(rows) > 1 else 1


def _starts(segment: Segment) -> np.ndarray:
    """Return the rows at which other conditions begin: launch, restarts, changes of the batch size (if they are rare)."""
    found = [np.zeros(1, dtype=int), restarts(segment)]
    if segment.has("batch_size"):
        batch = segment.values("batch_size")
        rows = np.flatnonzero(np.isfinite(batch))
        changed = rows[1:][np.diff(batch[rows]) != 0]
        if len(changed) <= 0.02 * len(rows) + 1:
            found.append(changed)
    return np.unique(np.concatenate(found))


def _sources(segment: Segment) -> Iterator[tuple[str, np.ndarray, np.ndarray]]:
    """Yield (column, rows, seconds a step) of each source that the launch has, best first."""
    every = np.arange(len(segment))
    if segment.has("step_time_seconds") and not _is_mean_since_start(segment):
        yield "step_time_seconds", *_printed(segment, "step_time_seconds")
    for name in ("elapsed_seconds", "timestamp"):
        if segment.has(name):
            yield name, *_differences(segment, clock_seconds(segment, name))
    for name in RATES:
        if segment.has(name):
            rate = segment.values(name)
            yield name, every, 1 / np.where(rate > 0, rate, np.nan)
    if segment.has("time"):
        times = segment.values("time")
        yield "time", *(_differences(segment, times) if _runs_on(times) else _printed(segment, "time"))
    if segment.has("epoch_time_minutes", "steps_per_epoch"):
        yield "epoch_time_minutes", *_from_epoch_time(segment)


def _printed(segment: Segment, column: str) -> tuple[np.ndarray, np.ndarray]:
    """Return rows and seconds a step as printed; of a mean since the start of the epoch only the last of each epoch."""
    if not _remembers_its_start(segment, segment.values(column)):
        return _whole_intervals(segment, undone(segment, column))
    epoch = np.floor(segment.values("epoch")) if segment.has("epoch") else np.zeros(len(segment))
    rows = np.flatnonzero(np.diff(epoch) > 0) + 1
    return rows, segment.values(column)[rows - 1]


def _remembers_its_start(segment: Segment, seconds: np.ndarray) -> bool:
    """Say whether a slow first step fades from the printed time like 1 / steps done: then it is a mean, not a step's time."""
    rows = np.flatnonzero(np.isfinite(seconds))[: 2 * LEARN_ROWS]
    if len(rows) < 8:
        return False
    printed = segment.values("step_printed") if segment.has("step_printed") else segment.steps()
    x, steps = seconds[rows], printed[rows]
    ends = np.flatnonzero(np.diff(steps) < 0)
    x, steps = (values[: int(ends[0]) + 1] if len(ends) else values for values in (x, steps))
    if len(x) < 8:
        return False
    beyond = (x - np.median(x[-max(len(x) // 4, 3) :])) * (steps - steps[0] + 1)
    if x[1] - np.median(x) < CLEAR * np.median(np.abs(np.diff(x[4:]))):
        return False  # what is left of the slow step is noise
    with np.errstate(divide="ignore", invalid="ignore"):
        kept = beyond[1:4] / beyond[0]
    return bool(x[0] > 1.5 * np.median(x) and np.all((kept > 0.4) & (kept < 2.0)))


def _whole_intervals(segment: Segment, seconds: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Leave out rows that come later than usual after the row before: lines are missing there."""
    gaps = np.diff(segment.steps(), prepend=np.nan)
    rows = np.arange(len(seconds))
    known = gaps[np.isfinite(gaps)]
    if len(known) < 3 or known.min() == known.max():
        return rows, seconds
    usual = np.fmax(np.r_[np.nan, median_of(gaps, 64, 1)[:-1]], 0)
    late = gaps > 1.3 * usual
    return rows[~late], seconds[~late]


def _differences(segment: Segment, seconds: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return rows (m,) and the seconds a step between them, rows taken together until the clock's unit does not matter."""
    steps = segment.steps()
    rows = np.flatnonzero(np.isfinite(seconds) & np.isfinite(steps))
    rows = rows[:: _stride(seconds[rows])]
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        gap, passed = np.diff(steps[rows]), np.diff(seconds[rows])
        each = np.where((gap > 0) & (passed > 0), passed / gap, np.nan)
    return rows[1:], each


def _stride(seconds: np.ndarray) -> int:
    """Return how many rows to take together, from the first rows: 1 for a clock that is fine enough."""
    early = seconds[WARMUP_ROWS : WARMUP_ROWS + LEARN_ROWS]
    if len(early) < 2:
        return 1
    unit = 1.0 if np.all(early == np.floor(early)) else 0.001
    pace = (early[-1] - early[0]) / (len(early) - 1)
    return int(min(max(np.ceil(UNITS * unit / pace), 1), 1e6)) if pace > 0 and np.isfinite(pace) else 1


def _is_mean_since_start(segment: Segment) -> bool:
    """Say whether the printed step time is elapsed time over steps done: it would hide every change."""
    if not segment.has("elapsed_seconds", "step"):
        return False
    half = slice(len(segment) // 2, None)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        mean = segment.values("elapsed_seconds")[half] / segment.steps()[half]
        ratio = segment.values("step_time_seconds")[half] / mean
    ratio = ratio[np.isfinite(ratio)]
    return len(ratio) >= 3 and float(np.mean(np.abs(ratio - 1) < 0.1)) > 0.9


def _runs_on(times: np.ndarray) -> bool:
    """Say whether a bare `time` is a clock that runs on, not the time of a row."""
    steps = np.diff(times[np.isfinite(times)])
    return len(steps) >= 3 and float(np.mean(steps >= 0)) > 0.95 and bool(np.median(steps) > 0)


def _from_epoch_time(segment: Segment) -> tuple[np.ndarray, np.ndarray]:
    """Return rows and seconds a step from what has passed of the epoch, where the print is fine enough to tell."""
    known = epoch_time(segment)
    minutes, size = segment.values("epoch_time_minutes"), segment.values("steps_per_epoch")
    steps = segment.values("step_printed") if segment.has("step_printed") else segment.steps()
    none = np.zeros(0, dtype=int), np.zeros(0)
    if known is None or known.reading is None or not len(minutes):
        return none
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        done = steps - size * np.floor(np.maximum(steps - 1, 0) / size)
        if known.reading == "total":
            return np.arange(len(minutes)), 60 * minutes / size
        scale = done / (size - done) if known.reading == "remaining" else np.ones(len(minutes))
        passed = 60 * (minutes + known.resolution_minutes / 2) * scale
        fine = np.isfinite(passed) & (scale > 0) & (scale <= 1)  # in its second half the print is too coarse
        rows = np.flatnonzero(fine)
        cell = np.floor(passed[rows] / (60 * known.resolution_minutes * UNITS))
        rows = rows[1:][np.diff(cell) != 0] if len(rows) else rows
        gap, later = np.diff(done[rows]), np.diff(passed[rows])
        return rows[1:], np.where((gap > 0) & (later > 0), later / gap, np.nan)


def stretches(known: StepTime) -> Iterator[tuple[int, int]]:
    """Yield (start, stop) of each stretch of equal conditions in the series."""
    yield from zip(known.sections.tolist(), [*known.sections[1:].tolist(), len(known.series)], strict=True)


def levels(known: StepTime) -> tuple[np.ndarray, np.ndarray]:
    """Return for each value (m,) what is usual there and its spread, from the blocks of five before it in its stretch.

    Natural logarithms; NaN while fewer than 3 (spread: 8) blocks precede. Pauses and spikes do not move it.
    """
    x = np.log(known.series.values)
    parts = [_levels(x[start:stop]) for start, stop in stretches(known)]
    return np.concatenate([part[0] for part in parts]), np.concatenate([part[1] for part in parts])


def _levels(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    centre = np.repeat(np.r_[np.nan, median_of(blocks(x), 13, 3)], SIZE)[: len(x)]
    apart = blocks(np.abs(x - centre))
    spread = np.r_[np.nan, median_of(np.where(np.isfinite(apart), apart, np.nan), 13, 4)]
    return centre, TO_SIGMA * np.repeat(spread, SIZE)[: len(x)]
