"""The whole past of a metric in at most 256 blocks: what rules about levels and trends look at.

Blocks are 2 rows at first; whenever 256 are full, pairs are merged, so that 128 to 256 blocks of equal size always cover
the past. A block is the mean of values clipped to four standard deviations around what was expected, so one wild row does
not move it, means of means are exact, and the state of a stream is 256 sums. Judging each block when it is full, in the
ladder of that moment, makes the answer the same on a stream and on the finished run.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import bottleneck as bn
import numpy as np

from analysis.noise import TO_SIGMA, Track
from analysis.segment import Segment

BASE_ROWS = 2
MOST_BLOCKS = 256
CLIP = 4.0
TO_BEND = 1.155  # standard deviation of a normal law -> median of a second difference less what a slowing fall explains
LAG = 8  # blocks between which the noise of a block is measured: slow wander counts as noise


@dataclass(frozen=True, eq=False)
class Octave:
    """The ladder while blocks had `size` rows: block j holds values j*size … (j+1)*size - 1 of the track.

    means: block means of x (k,); judge: first block that was completed in this octave; noise: robust standard deviation
    of a block mean as known when each block was full (k,), NaN where too few precede.
    """

    size: int
    means: np.ndarray
    judge: int
    noise: np.ndarray

    def row(self, block: int) -> int:
        """Return the position in the track of the last value of a block: the moment at which it is known."""
        return (block + 1) * self.size - 1


def ladder(segment: Segment, track: Track) -> tuple[Octave, ...]:
    """Return the ladders through which a growing track went, smallest blocks first; worked out once a segment."""
    return segment.once(("ladder", track.column, track.log), lambda: tuple(octaves(track)))


def octaves(track: Track) -> Iterator[Octave]:
    """Yield the ladders through which a growing track went, smallest blocks first."""
    sums = np.concatenate(([0.0], np.cumsum(clipped(track))))
    size, judge = BASE_ROWS, 0
    while len(track) // size > judge:
        count = min(len(track) // size, MOST_BLOCKS)
        means = np.diff(sums[: count * size + 1 : size]) / size
        yield Octave(size, means, judge, block_noise(means))
        size, judge = 2 * size, MOST_BLOCKS // 2


def block_noise(means: np.ndarray, *, window: int = 64) -> np.ndarray:
    """Return the standard deviation of a block around a smooth course, from the blocks up to each (k,).

    The larger of two robust estimates from second differences, which a steady fall does not enter: of neighbours (needs 8
    blocks), and over LAG blocks (needs 24), which sees the slow wander that neighbours share, and which a fall that slows
    down does not enter either. The first alone is made half as large again.
    """
    near = near_noise(means, window=window)
    far = np.full(len(means), np.nan)
    if len(means) > 2 * LAG:
        fall, later = means[: -2 * LAG] - means[LAG:-LAG], means[LAG:-LAG] - means[2 * LAG :]
        bends = fall - later
        bends -= np.clip(bends, 0, np.maximum(fall, 0))  # a fall that slows down is the course, no wander
        far[2 * LAG :] = _median(np.abs(bends), window, LAG) / TO_BEND
    return np.fmax(np.where(np.isfinite(far), near, 1.5 * near), far)


def near_noise(means: np.ndarray, *, window: int = 64) -> np.ndarray:
    """Return the standard deviation of a block against its neighbours, from the blocks up to each (k,): no slow wander."""
    near = np.full(len(means), np.nan)
    near[2:] = _spread(np.abs(np.diff(means, 2)), window, 6) / np.sqrt(6)
    return near


def _median(values: np.ndarray, window: int, least: int) -> np.ndarray:
    if len(values) < least:
        return np.full(len(values), np.nan)
    return bn.move_median(values, min(window, len(values)), least)


def _spread(values: np.ndarray, window: int, least: int) -> np.ndarray:
    return TO_SIGMA * _median(values, window, least)


def clipped(track: Track) -> np.ndarray:
    """Return the values of a track (m,), cut to CLIP standard deviations around what was expected of each."""
    reach = CLIP * np.where(np.isfinite(track.scale), track.scale, np.inf)
    centre = np.where(np.isfinite(track.scale), track.centre, track.x)
    return np.clip(track.x, centre - reach, centre + reach)
