"""How the loss moves: the figures beside the verdict, from windows and never from single points."""

from dataclasses import dataclass

import numpy as np

from analysis.losses import loss_kind
from analysis.running_mean import undone
from analysis.segment import Segment


@dataclass(frozen=True)
class Trend:
    """The course of one loss.

    column: which loss; rows: finite values; first, last: medians of the first and last values (up to 50, at most a tenth).
    lowest: lowest finite value; relative_drop: 1 - last / first.
    per_1000_steps: relative change per 1,000 steps over the last half of the run (negative falls), with its standard error;
    None where a value is not positive. direction: falling | flat | rising | unknown.
    """

    column: str
    rows: int
    first: float
    last: float
    lowest: float
    relative_drop: float | None
    per_1000_steps: float | None
    error: float | None
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
    slope, error = slope_of(steps, values) if len(values) >= 8 else (None, None)
    return Trend(column, len(values), first, last, float(values.min()), drop, slope, error, _direction(slope, error))


def slope_of(steps: np.ndarray, values: np.ndarray) -> tuple[float | None, float | None]:
    """Return (relative change per 1,000 steps, its standard error) of values (n,), None where one is not positive.

    From up to 64 block medians of their logarithms over the last half; over all where there are fewer than 24 values.
    """
    start = len(values) // 2 if len(values) >= 24 else 0
    blocks = min(64, len(values) - start)
    if blocks < 4 or not values[start:].min() > 0:
        return None, None
    parts = np.array_split(np.arange(start, len(values)), blocks)
    x = np.array([steps[part].mean() for part in parts])
    y = np.array([np.log(np.median(values[part])) for part in parts])
    spread = x - x.mean()
    squares = float((spread**2).sum())
    if squares <= 0:
        return None, None
    slope = float((spread * y).sum() / squares)
    slope = 0.0 if np.ptp(y) < 1e-9 else slope  # a loss that stands still leaves only rounding
    residual = y - y.mean() - slope * spread
    error = float(np.sqrt((residual**2).sum() / (blocks - 2) / squares))
    return float(np.expm1(np.clip(1000 * slope, -690, 690))), 1000 * error


def _direction(slope: float | None, error: float | None) -> str:
    if slope is None or error is None:
        return "unknown"
    if abs(slope) <= 2 * error:
        return "flat"
    return "falling" if slope < 0 else "rising"
