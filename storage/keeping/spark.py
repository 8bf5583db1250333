"""A sparkline that grows with its series in constant memory: the means of at most 64 equal stretches of values."""

from dataclasses import dataclass

import numpy as np

POINTS = 64


@dataclass
class Spark:
    """`points` (float32, ≤ 64) are means over `stride` values each, the last one over fewer; `count` values so far.

    Non-finite values count as values and add nothing to a mean; a stretch with no finite value is NaN.
    """

    points: np.ndarray
    stride: int = 1
    count: int = 0

    @classmethod
    def empty(cls) -> "Spark":
        """Return the spark of a series without values."""
        return cls(np.empty(0, np.float32))

    def add(self, values: np.ndarray) -> None:
        """Take the next values, in the order logged."""
        total = self.count + len(values)
        while total > self.stride * POINTS:
            self._halve()
        filled = self.count - (len(self.points) - 1) * self.stride if len(self.points) else 0
        points = self.points
        if 0 < filled < self.stride and len(values):
            points = points[:-1].copy()
            values = np.concatenate([np.full(filled, self.points[-1], np.float64), values])
        self.points = np.concatenate([points, means(values, self.stride)])
        self.count = total

    def _halve(self) -> None:
        self.points = means(self.points.astype(np.float64), 2)
        self.stride *= 2


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
