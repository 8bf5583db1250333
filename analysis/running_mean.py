"""Logs that print the mean since the start of the epoch: recognised, and undone.

Such a value hides every jump late in an epoch and shows a false one at each new epoch. It is recognised by its own
mathematics: from one row to the next it moves by 1/k of what a single value moves, k rows into the epoch, and starts
afresh with the epoch. Undone, the mean of the rows in between comes back: (w x - w' x') / (w - w').
"""

import numpy as np

from analysis.digits import print_unit
from analysis.segment import Segment

LEAST_EPOCHS = 3
LEAST_ROWS = 8  # of an epoch; fewer can't show the law
FINE = 0.01  # share of the value that the last digit printed may be worth once the mean is undone
STEEP, FLAT = -1.4, -0.6  # of the slope of log movement over log k; -1 is the law, 0 an ordinary log


def undone(segment: Segment, column: str) -> np.ndarray:
    """Return the values of a column (n,), the running mean undone where it is one; worked out once a segment."""
    return segment.once(("undone", column), lambda: _undone(segment, column))


def is_running_mean(segment: Segment, column: str) -> bool:
    """Say whether a column is printed as the mean since the start of the epoch."""
    return undone(segment, column) is not segment.once(("raw", column), lambda: segment.values(column))


def _undone(segment: Segment, column: str) -> np.ndarray:
    values = segment.once(("raw", column), lambda: segment.values(column))
    starts = _epoch_starts(segment)
    if len(starts) < LEAST_EPOCHS or len(values) < LEAST_EPOCHS * LEAST_ROWS:
        return values
    rank = np.arange(len(values)) - np.repeat(starts, np.diff(np.r_[starts, len(values)]))
    if not _moves_like_a_mean(values, np.where(np.arange(len(values)) < starts[1], 0, rank)):
        return values  # the first epoch proves nothing: there any loss moves less and less
    weight = _weight(segment, rank)
    result = values.copy()
    here = np.flatnonzero(rank > 0)
    before = here - np.minimum(_apart(values[here], weight[here]), rank[here])
    covered = weight[here] - weight[before]
    with np.errstate(invalid="ignore", divide="ignore"):
        result[here] = (weight[here] * values[here] - weight[before] * values[before]) / covered
    return result


def _apart(values: np.ndarray, weight: np.ndarray) -> np.ndarray:
    """Return over how many rows to take the difference (k,): late in an epoch the last digit printed is worth many units."""
    with np.errstate(invalid="ignore", divide="ignore"):
        coarse = weight * print_unit(values[:500]) / (FINE * np.abs(values))
    return np.clip(np.nan_to_num(np.ceil(coarse), nan=1.0, posinf=1.0), 1, 10_000).astype(np.int64)


def _epoch_starts(segment: Segment) -> np.ndarray:
    if not segment.has("epoch"):
        return np.zeros(0, dtype=int)
    epoch = np.floor(segment.values("epoch"))
    known = np.flatnonzero(np.isfinite(epoch))
    starts = known[np.diff(epoch[known], prepend=-np.inf) != 0]
    return np.r_[0, starts[1:]] if len(starts) else starts


def _moves_like_a_mean(values: np.ndarray, rank: np.ndarray) -> bool:
    moved = np.abs(np.diff(values, prepend=np.nan))
    usable = (rank > 0) & np.isfinite(moved)
    band = np.floor(np.log2(np.maximum(rank, 1))).astype(int)
    points = []
    for level in range(int(band[usable].max(initial=-1)) + 1):
        here = moved[usable & (band == level)]
        if len(here) >= 10 and np.median(here) > 0:
            points.append((level * np.log(2), np.log(np.median(here))))
    if len(points) < 3:
        return False
    x, y = np.array(points).T
    slope = float(np.polyfit(x, y, 1)[0])
    return STEEP < slope < FLAT


def _weight(segment: Segment, rank: np.ndarray) -> np.ndarray:
    """Return how many steps each printed mean covers: the step within the epoch where it is printed, else the row."""
    if segment.has("step_printed"):
        step = segment.values("step_printed")
        first = float(np.nanmin(step))
        if np.nanmax(step[rank == 0]) <= first + 1 and np.isfinite(step).all():
            return step + (1 if first == 0 else 0)
    return rank + 1.0
