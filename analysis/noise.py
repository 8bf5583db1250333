"""The noise of a run in its own units: what a value was expected to be, and how far off it is.

All windows are trailing and leave out the row they judge. A value is compared with the trailing median plus the trailing
median of what that missed (the trend), in units of the trailing median absolute deviation: robust against spikes in the
window, heavy tails and a falling loss.
"""

from dataclasses import dataclass

import bottleneck as bn
import numpy as np

from analysis.running_mean import undone
from analysis.segment import Segment

WINDOW = 64
ARM = 8  # rows of each window that must be there; three windows on each other, so a row is judged from the 25th on
LOOKBACK = 3 * WINDOW
LEAST_SCALE = 1e-3  # relative: below this the print resolution, not the noise, is measured
TO_SIGMA = 1.4826  # median absolute deviation -> standard deviation of a normal law


@dataclass(frozen=True, eq=False)
class Track:
    """A metric where it is finite (and positive, if logarithms are taken), with what was expected of each value.

    rows: positions in the segment (m,); x: values, natural logarithms if `log` (m,); centre: expected x.
    scale: robust standard deviation of x around centre; z: (x - centre) / scale. A running mean is undone first.
    centre, scale and z are NaN while too few rows precede.
    """

    column: str
    log: bool
    rows: np.ndarray
    x: np.ndarray
    centre: np.ndarray
    scale: np.ndarray
    z: np.ndarray

    def __len__(self) -> int:
        return len(self.rows)

    def at(self, row: int) -> int:
        """Return the position within the track of the first value at or after a row of the segment."""
        return int(np.searchsorted(self.rows, row))


def track(segment: Segment, column: str, *, log: bool = True) -> Track:
    """Return the track of a column, worked out once a segment; empty where the column is missing."""
    return segment.once(("track", column, log), lambda: _track(segment, column, log))


def trailing(values: np.ndarray, window: int = WINDOW, least: int = ARM) -> np.ndarray:
    """Return the median of the `window` values before each value (n,), NaN where fewer than `least` are there."""
    if len(values) <= least:
        return np.full(len(values), np.nan)
    medians = bn.move_median(values, min(window, len(values)), least)
    return np.concatenate(([np.nan], medians[:-1]))


def expected(x: np.ndarray, *, least_scale: float = LEAST_SCALE) -> tuple[np.ndarray, np.ndarray]:
    """Return (centre, scale) of each value (n,) from those before it; `x` must be finite."""
    level = trailing(x)
    drift = trailing(x - level)
    centre = level + drift
    scale = TO_SIGMA * trailing(np.abs(x - centre))
    few = np.arange(min(len(x), 96))  # a deviation measured on a handful of values is often far too small
    scale[: len(few)] *= 1 + 8 / np.maximum(few - 16, 4)
    return centre, np.fmax(scale, least_scale) + 0 * scale


def first_level(loss: Track) -> float:
    """Return the loss at which a run began: the first value or the median of the first ten, whichever is higher."""
    return float(np.exp(max(loss.x[0], np.median(loss.x[:10])))) if len(loss) else 0.0


def _track(segment: Segment, column: str, log: bool) -> Track:
    values = undone(segment, column) if segment.has(column) else np.empty(0)
    keep = np.isfinite(values) & (values > 0) if log else np.isfinite(values)
    if len(values):  # a line printed twice is one row
        keep[1:] &= (np.diff(segment.steps()) != 0) | (np.diff(values) != 0)
    rows = np.flatnonzero(keep)
    x = values[rows]
    x = np.log(x) if log else x
    centre, scale = expected(x)
    with np.errstate(invalid="ignore", divide="ignore"):
        return Track(column, log, rows, x, centre, scale, (x - centre) / scale)
