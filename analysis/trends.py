"""How the loss moves: the figures beside the verdict, from windows and never from single points."""

from dataclasses import dataclass

import numpy as np

from analysis.losses import loss_kind
from analysis.running_mean import undone
from analysis.segment import Segment

LEAST_VALUES, MOST_BLOCKS = 24, 48
Z95 = 1.96
ROUNDING = 1e-9
END = 0.25  # of a run: what levels off is told as it is there, not on the way


@dataclass(frozen=True)
class Trend:
    """The course of one loss.

    column: which loss; rows: finite values; first, last: medians of the first and last values (up to 50, at most a tenth).
    lowest: lowest finite value; relative_drop: 1 - last / first.
    per_1000_steps: relative change per 1,000 steps over the last quarter of the run (negative falls), interval: its 95 %
    interval; None where a value is not positive. direction: falling | flat (0 is in the interval) | rising | unknown.
    """

    column: str
    rows: int
    first: float
    last: float
    lowest: float
    relative_drop: float | None
    per_1000_steps: float | None
    interval: tuple[float, float] | None
    direction: str


def trend(segment: Segment, column: str | None = None) -> Trend | None:
    """Return the trend of a loss (default: the main loss), None if it has no finite value."""
    column = column or loss_kind(segment).main
    if column is None or not segment.has(column):
        return None
    return segment.once(("trend", column), lambda: _trend(segment, column))


def _trend(segment: Segment, column: str) -> Trend | None:
    values = undone(segment, column)
    keep = np.isfinite(values)
    values, steps = values[keep], segment.steps()[keep]
    known = np.isfinite(steps)
    values, steps = np.clip(values[known], -1e300, 1e300), steps[known]  # so that no mean of two overflows
    if not len(values):
        return None
    span = max(min(50, len(values) // 10), 1)
    first, last = float(np.median(values[:span])), float(np.median(values[-span:]))
    drop = 1 - last / first if first > 0 and last > 0 else None
    slope, interval = slope_of(steps, values, share=END) if len(values) >= 8 else (None, None)
    return Trend(column, len(values), first, last, float(values.min()), drop, slope, interval, _direction(interval))


def slope_of(steps: np.ndarray, values: np.ndarray, *, share: float = 0.5) -> tuple[float | None, tuple[float, float] | None]:
    """Return (relative change per 1,000 steps, its 95 % interval) of values (n,), None where one is not positive.

    The median of the slopes between any two of up to 48 block medians of their logarithms (Theil and Sen), over the last
    share of the values; over the last 24 where that has fewer.
    """
    start = max(min(int((1 - share) * len(values)), len(values) - LEAST_VALUES), 0)
    blocks = min(MOST_BLOCKS, len(values) - start)
    if blocks < 4 or not values[start:].min() > 0:
        return None, None
    parts = np.array_split(np.arange(start, len(values)), blocks)
    x = np.array([steps[part].mean() for part in parts])
    y = np.array([np.log(np.median(values[part])) for part in parts])
    first, second = np.triu_indices(blocks, 1)
    far = x[second] != x[first]
    if not far.any():
        return None, None
    slopes = np.sort((y[second] - y[first])[far] / (x[second] - x[first])[far])
    slopes[np.abs(slopes) * np.ptp(x) < ROUNDING] = 0.0  # a loss that stands still leaves only rounding
    half = Z95 * np.sqrt(blocks * (blocks - 1) * (2 * blocks + 5) / 18) / 2  # Kendall: how many slopes may be out of order
    ends = np.clip(np.array([-half, half]) + (len(slopes) - 1) / 2, 0, len(slopes) - 1)
    low, middle, high = slopes[int(np.floor(ends[0]))], float(np.median(slopes)), slopes[int(np.ceil(ends[1]))]
    return _change(middle), (_change(float(low)), _change(float(high)))


def _change(slope: float) -> float:
    return float(np.expm1(np.clip(1000 * slope, -690, 690)))


def _direction(interval: tuple[float, float] | None) -> str:
    if interval is None:
        return "unknown"
    if interval[0] <= 0 <= interval[1]:
        return "flat"
    return "falling" if interval[1] < 0 else "rising"
