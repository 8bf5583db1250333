"""A sparkline that grows with its series in constant memory: means and extremes of at most 64 equal stretches of values."""

from dataclasses import dataclass

import numpy as np

POINTS = 64
ROWS = 3  # of the points: mean, lowest, highest


@dataclass
class Spark:
    """`points` (3, ≤ 64; float32): mean, lowest and highest of `stride` values each, the last of fewer; `count` values so far.

    Non-finite values count as values and add nothing; a stretch with no finite value is NaN.
    """

    points: np.ndarray
    stride: int = 1
    count: int = 0

    @classmethod
    def empty(cls) -> "Spark":
        """Return the spark of a series without values."""
        return cls(np.empty((ROWS, 0), np.float32))

    def add(self, values: np.ndarray) -> None:
        """Take the next values, in the order logged."""
        total = self.count + len(values)
        while total > self.stride * POINTS:
            self._halve()
        if not len(values):
            return
        points, filled = self.points, self.count % self.stride  # of the last stretch
        last = points[:, -1] if filled else np.full(ROWS, np.nan, np.float32)
        mean = means(np.concatenate([np.full(filled, last[0], np.float64), values]), self.stride)
        low, high = extremes(values, values, np.maximum(np.arange(-filled, len(values), self.stride), 0))
        low[0], high[0] = np.fmin(low[0], last[1]), np.fmax(high[0], last[2])
        kept = points[:, :-1] if filled else points
        self.points = np.concatenate([kept, [mean, low, high]], axis=1, dtype=np.float32)
        self.count = total

    def _halve(self) -> None:
        mean, low, high = self.points
        pairs = np.arange(0, len(mean), 2)
        self.points = np.stack([means(mean.astype(np.float64), 2), *extremes(low, high, pairs)])
        self.stride *= 2


def points_of(data: bytes) -> np.ndarray:
    """Return the points (3, n) that are kept as bytes."""
    return np.frombuffer(data, np.float32).reshape(ROWS, -1)


def extremes(low: np.ndarray, high: np.ndarray, starts: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the lowest and the highest finite value (float32) of the stretches that begin at `starts`, NaN where none is."""
    if not len(starts):
        return low.astype(np.float32), high.astype(np.float32)
    low, high = (each if np.isfinite(each).all() else np.where(np.isfinite(each), each, np.nan) for each in (low, high))
    with np.errstate(over="ignore"):
        return np.fmin.reduceat(low, starts).astype(np.float32), np.fmax.reduceat(high, starts).astype(np.float32)


def means(values: np.ndarray, stride: int) -> np.ndarray:
    """Return the means of the finite values of each `stride` values (float32), NaN where there is none."""
    if not len(values):
        return np.empty(0, np.float32)
    starts = np.arange(0, len(values), stride)
    lengths = np.diff(np.append(starts, len(values)))
    with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
        mean = np.add.reduceat(values, starts) / lengths
        if not np.isfinite(mean).all():  # not every value is finite, or the sum of huge ones is not
            finite = np.isfinite(values)
            counts = np.add.reduceat(finite, starts, dtype=np.int64)
            shares = np.where(finite, values, 0.0) / np.repeat(np.maximum(counts, 1), lengths)
            mean = np.where(counts > 0, np.add.reduceat(shares, starts), np.nan)
        return mean.astype(np.float32)
