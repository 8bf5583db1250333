"""Warm restarts of the learning rate: it fell bit by bit, rises back to a rate that was there before, and falls again.

The loss rises with it and comes back as the rate falls; that belongs to the schedule (cosine with restarts, cycles) and is
no fault. A rate that comes back with a resume, one that passes its old peak, or one that then stands still is none.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from analysis.noise import track
from analysis.segment import Segment
from analysis.step_time import restarts

RISE = 1.5  # times the rate before
PEAK = 1.05  # of the highest rate before, which a restart does not pass
FALLS = 2  # rows in which the rate fell before it: what falls at one row and comes back is a hole
MOST_DROP, SHORT = 0.6, 8  # of the whole fall, at one row; rows from which on no row of a cycle falls as far
LOW = 0.02  # of the highest rate: as low as any before
WARM_ROWS = 50  # in which the rate is up again
FELL = 0.98  # of its top, below which the rate falls again
WAIT, LEAST_WAIT = 0.15, 5  # share of the rows of the last fall, and rows, until which it may stand at its top
MOST = 1000  # places looked at
BEFORE, AFTER = 3, 50  # rows within which the loss follows the rate
HIGHEST = 3.0  # times the level; a jump that is higher is more than the rate explains
SAME, SAME_SHARE, SAME_ROWS = 0.02, 0.25, 20  # of level and jump: what is above where the rate is low again did not come back


@dataclass(frozen=True)
class WarmRestart:
    """Rows of the segment: the first of the rise, the one of the highest rate, the one at which the rate is as low again as
    before (None: not yet); the rate before, and the highest."""

    row: int
    top: int
    end: int | None
    low: float
    high: float


def warm_restarts(segment: Segment) -> tuple[WarmRestart, ...]:
    """Return the warm restarts of a launch, in order; worked out once a segment."""
    return segment.once("warm_restarts", lambda: tuple(_warm_restarts(segment)) if segment.has("lr") else ())


def by_schedule(
    segment: Segment, column: str, first: int, level: float, highest: float, *, early: int = BEFORE
) -> WarmRestart | None:
    """Return the warm restart that a rise of a loss belongs to, None if there is none or it is more than that.

    first: position in the track at which the loss rose, by up to `early` rows too early; level, highest: natural logarithms
    of the loss before and at its peak.
    """
    loss = track(segment, column)
    row = int(loss.rows[first])
    restart = next((one for one in warm_restarts(segment) if one.row - early <= row <= one.top + AFTER), None)
    if restart is None or highest - level > np.log(HIGHEST):
        return None
    if restart.end is not None:
        last = loss.at(restart.end)
        near = loss.x[max(last - SAME_ROWS, first) : last + 1]
        if len(near) >= SAME_ROWS // 2 and np.median(near) > level + max(SAME, SAME_SHARE * (highest - level)):
            return None
    return restart


def _warm_restarts(segment: Segment) -> Iterator[WarmRestart]:
    values = segment.values("lr")
    rows = np.flatnonzero(np.isfinite(values) & (values > 0))
    lr = values[rows]
    highest = np.maximum.accumulate(lr) if len(lr) else lr
    lowest = np.flatnonzero((lr[2:] > PEAK * lr[1:-1]) & (lr[1:-1] <= lr[:-2])) + 2
    resumed = _resumed(segment)
    since = 0
    for at in map(int, lowest[:MOST]):
        if at <= since:  # on the way to a top that is known, or that top itself
            continue
        near = lr[at : at + WARM_ROWS]
        top = at + int(np.argmax(near))
        known = lr[top] > RISE * lr[at - 1] and lr[top] <= PEAK * highest[at - 1]
        fall = at - 1 - (since + int(np.argmax(lr[since:at])))
        drops = -np.diff(np.log(lr[at - 1 - fall : at]))
        falls = int(np.count_nonzero(drops > 0))
        said = np.any((resumed >= rows[at] - 2) & (resumed <= rows[at] + 2))
        if known and falls >= FALLS and not said and not _hole(drops) and _falls(lr[top:], fall):
            low = np.flatnonzero(lr[top:] <= max(RISE * lr[at - 1], LOW * lr[top]))
            end = int(rows[top + low[0]]) if len(low) else None
            yield WarmRestart(int(rows[at]), int(rows[top]), end, float(lr[at - 1]), float(lr[top]))
            since = top


def _hole(drops: np.ndarray) -> bool:
    """Say whether the rate fell at one row: what comes back then is no cycle (the last row of a short one may fall far)."""
    big = int(np.argmax(drops))
    return bool(drops[big] > MOST_DROP * drops.sum()) and (big < len(drops) - 1 or len(drops) >= SHORT)


def _falls(after: np.ndarray, fall: int) -> bool:
    """Say whether the rate falls again from its top on, or has not had the time to."""
    return bool((after < FELL * after[0]).any()) or len(after) <= LEAST_WAIT + WAIT * fall


def _resumed(segment: Segment) -> np.ndarray:
    """Return the rows at which steps are done again or before which the log tells of a resume."""
    events = segment.events
    if not len(events) or not segment.has("line"):
        return restarts(segment)
    said = events["line"][events["kind"].isin(["resume", "checkpoint_loaded", "launch"])].to_numpy(dtype=np.int64)
    return np.r_[restarts(segment), np.searchsorted(segment.rows["line"].to_numpy(), said)]
