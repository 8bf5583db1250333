"""Where the usual level of a metric rises above what it was and stays there, in the metric's own fluctuations.

Values are taken in blocks of five, or one by one where they are steady enough (means over many steps): the level is the
median of the last blocks. What it was is the lowest median of up to 60 blocks so far, or, for a metric that wanders, two
standard deviations below its long median. The rise must pass a least share and several times the usual wandering of the
level, for some blocks in a row; a slow rise, not seen against the last 60 blocks, must be twice as large. Single high values
and pauses move none of this.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from analysis.readings import MOST, before, blocks, last_of, median_of

TO_SIGMA = 1.4826
STEADY = 0.012  # spread of single values below which they need no blocks
LEARN = 64
SLOW, LONG = 60, 480  # blocks of the best level and of the wandering
UNITS = 2.5  # units of the print that a rise must be
SUDDEN = 0.75  # of the least rise, against the last 60 blocks
LEAST = {1: 30, 5: 10}  # blocks before the first judgement, by their size


@dataclass(frozen=True)
class Rise:
    """A stretch above the usual level: positions of its first value, of the one at which it was known, of its last (None:
    goes on); usual: the level before, in the units of x."""

    first: int
    known: int
    end: int | None
    usual: float


def rises(x: np.ndarray, *, least: float, fluctuations: float, hold: int = 4, single: bool = False) -> Iterator[Rise]:
    """Yield each lasting rise of x (n,), logarithms of a metric.

    least: rise that counts; fluctuations: how many times the usual wandering of the level; hold: blocks in a row.
    single: each value is already the mean of several rows.
    """
    size, fast = (1, 5) if single or _spread(x[:LEARN]) < STEADY else (5, 6)
    middle = blocks(x, size=size)
    if len(middle) < LEAST[size] + fast:
        return
    level = median_of(middle, fast, fast)
    least = max(least, UNITS * _unit(x[:LEARN]))
    long = median_of(middle, SLOW, LEAST[size])
    usual, limit = _usual(middle, level, long, fast, least, fluctuations)
    above = level - usual
    sudden = level - before(long, fast) > SUDDEN * least
    free = 0
    for first in _held((above > limit) & (sudden | (above > 2 * limit)), hold):
        if first < free:
            continue
        known = first + hold - 1
        low = level[known:] < usual[first] + limit[first] / 2
        end = known + int(np.argmax(low)) if low.any() else None
        start = max(first - fast + 1, 0)
        began = start + int(np.argmax(middle[start : first + 1] > usual[first] + limit[first] / 2))
        last = None if end is None else last_of(end, size=size)
        yield Rise(began * size, last_of(known, size=size), last, float(usual[first]))
        free = len(level) if end is None else end


def _held(hot: np.ndarray, hold: int) -> list[int]:
    """Return the first positions of stretches of at least `hold` True in a row."""
    edges = np.diff(np.r_[0, hot.view(np.int8), 0])
    starts, ends = np.flatnonzero(edges == 1), np.flatnonzero(edges == -1)
    return [int(first) for first in starts[ends - starts >= hold][: 20 * MOST]]


def _usual(
    middle: np.ndarray, level: np.ndarray, long: np.ndarray, fast: int, least: float, fluctuations: float
) -> tuple[np.ndarray, np.ndarray]:
    """Return the level that was usual before each block, and the rise above it that counts (k,).

    The wandering is the larger of the spread of levels around their long median, of levels that share no block, and of
    what single blocks let expect (made larger while little is known); and of what the blocks judged let expect, from one to
    the next: a metric that has become restless is not yet higher.
    """
    centre = median_of(level, LONG, fast)
    apart = median_of(np.abs(level - centre), LONG, fast)
    moved = median_of(np.abs(level - before(level, 2 * fast)), LONG, fast) / np.sqrt(2)
    noise = median_of(np.nan_to_num(np.abs(middle - before(median_of(middle, 13, 3)))), LONG, 4) * 1.25 / np.sqrt(fast)
    wander = TO_SIGMA * np.fmax(np.fmax(apart, moved), noise) * (1 + 2 * fast / np.arange(1, len(level) + 1))
    best = np.fmin.accumulate(long)
    usual = np.fmax(best, centre - 2 * wander)
    restless = TO_SIGMA * median_of(np.abs(middle - before(middle)), 2 * fast, fast) / np.sqrt(2) * 1.25 / np.sqrt(fast)
    return before(usual, fast), np.fmax(least, fluctuations * np.fmax(before(wander, fast), restless))


def _unit(x: np.ndarray) -> float:
    """Return the relative unit in which values are printed where it is so coarse that neighbours are often equal, else 0."""
    moved = np.abs(np.diff(x))
    return float(moved[moved > 0].min()) if np.mean(moved == 0) > 0.2 and moved.any() else 0.0


def _spread(x: np.ndarray) -> float:
    return TO_SIGMA * float(np.median(np.abs(np.diff(x)))) / np.sqrt(2) if len(x) > 2 else np.inf
