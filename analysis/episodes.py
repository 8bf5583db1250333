"""Jumps of the loss: where each began, how high it went, and whether it came back.

Both spike rules read the same episodes. An episode is triggered by two of four rows beyond 7.5 standard deviations, by
four rows beyond 4.5 on average, by one row beyond 10 (or beyond 6 if it is far above its level), or by one beyond 5
together with a jump of the gradient norm, and only if the rise matters at all (2 % of the level, 0.4 % of the first loss).
Within the first rows, before any noise is known, only a jump to 2.5 times everything before counts.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import bottleneck as bn
import numpy as np

from analysis.evidence import unlog
from analysis.noise import Track, first_level, track, trailing
from analysis.segment import Segment
from analysis.step_time import restarts

RECORD_ROWS = 2000
NORMAL_RECORD = 4.0  # what the second highest of 2,000 normal values does not pass
MOST = 200  # episodes followed in one launch; more are noise that no rule about single jumps describes
SUPPORT_ROWS = 5
RECENT_ROWS = 9
AROUND, AGAIN = 8, 5.0  # rows on each side, and standard deviations, by which a value done again is told from the first
SETTLED = 8  # values whose median says whether the loss is back
AS_LONG_AS = 10  # a jump that takes this many times the patience to come back counts as not recovered


@dataclass(frozen=True)
class Limits:
    """What counts as a jump; z in robust standard deviations, shares relative.

    two, four, one: z of two rows in four, mean z of four rows, z of a single row; high: z of a single row that is at least
    high_ratio times its level.
    supported: z of a row whose gradient norm has z `support`. effect, floor: least rise as share of the level and of the
    first loss; early: least ratio in the first rows.
    patience, share: rows after which a jump that is still there is held for lasting: max(patience, share of rows so far).
    """

    two: float = 7.5
    four: float = 4.5
    one: float = 10.0
    high: float = 6.0
    high_ratio: float = 1.6
    supported: float = 5.0
    support: float = 6.0
    effect: float = 0.02
    floor: float = 0.004
    early: float = 2.5
    patience: int = 200
    share: float = 0.04


@dataclass(frozen=True)
class Episode:
    """A jump; all numbers are positions in the track.

    first: first raised value; known: where it was triggered; peak: highest; back: first of two values in a row at the old
    level (None: not yet); lasting: where it was held for lasting (None: not, or not yet).
    level, scale: natural logarithm of the loss before, and its standard deviation; early: no noise was known yet.
    lone: a single raised value and nothing else so far; beyond: far beyond what the run's own tails have shown.
    supported: the gradient norm jumped with it or just before.
    """

    first: int
    known: int
    peak: int
    back: int | None
    lasting: int | None
    level: float
    scale: float
    early: bool
    lone: bool
    beyond: bool
    supported: bool

    def ratio(self, loss: Track) -> float:
        """Return peak over level."""
        return unlog(loss.x[self.peak] - self.level)


def episodes(segment: Segment, column: str, limits: Limits = Limits()) -> tuple[Episode, ...]:
    """Return the jumps of a loss in order, worked out once a segment."""
    return segment.once(("episodes", column, limits), lambda: tuple(_episodes(segment, track(segment, column), limits)))


def _episodes(segment: Segment, loss: Track, limits: Limits) -> Iterator[Episode]:
    free = 0
    norm = track(segment, "grad_norm")
    sure, hot = _triggers(segment, loss, limits)
    rows = [(at, True) for at in _early(loss, limits)] + [(int(at), False) for at in np.flatnonzero(sure | hot)[: 50 * MOST]]
    for at, early in rows:
        if at < free:
            continue
        supported = not early and _supported(loss, norm, at, limits)
        if early or sure[at] or supported:
            episode = _follow(loss, at, limits, early=early, supported=supported)
            free = len(loss) if episode.back is None and episode.lasting is None else _next(episode)
            yield episode


def jumps_by_ratio(segment: Segment, column: str, ratio: float, local_rows: int, window_rows: int) -> Iterator[Episode]:
    """Yield jumps to at least `ratio` times the median of the `local_rows` values before, as the source articles count them.

    A jump is over where two values are below half of the ratio; it lasts if that has not happened `window_rows` later.
    """
    loss = track(segment, column)
    level = trailing(loss.x, local_rows, 1)
    level[:2] = loss.x[:1] if len(loss) else level[:2]
    free = 0
    for at in map(int, np.flatnonzero(loss.x - level >= np.log(ratio) - 1e-9)[: 50 * MOST]):
        if at < free:
            continue
        back = _back(loss.x, at + 1, level[at] + np.log(ratio / 2), level[at] + np.log(ratio / 2))
        lasting = at + window_rows if at + window_rows < len(loss) and (back is None or back > at + window_rows) else None
        end = len(loss) if back is None else back
        free = end + 1
        peak = at + int(np.argmax(loss.x[at:end]))
        yield Episode(at, at, peak, back, lasting, float(level[at]), 0.02, True, False, True, False)


def reaches(ratio: float, limit: float) -> bool:
    """Say whether a ratio that went through logarithms reaches a limit."""
    return ratio >= limit * (1 - 1e-6)


def _next(episode: Episode) -> int:
    ends = [at for at in (episode.back, episode.lasting) if at is not None]
    return min(ends) + 1


def _early(loss: Track, limits: Limits) -> Iterator[int]:
    """Positions among the first rows, where no noise is known, that tower above everything before."""
    judged = np.flatnonzero(np.isfinite(loss.z[:64]))
    for at in range(1, int(judged[0]) if len(judged) else min(len(loss), 64)):
        past = loss.x[:at]
        rise = loss.x[at] - past.max()
        if rise > np.log(limits.early) and rise > 2 * (past.max() - past.min()):
            yield at


def _triggers(segment: Segment, loss: Track, limits: Limits) -> tuple[np.ndarray, np.ndarray]:
    """Return where a jump is certain, and where it is one if the gradient norm jumped too (m,)."""
    rise = loss.x - loss.centre
    start = first_level(loss)
    with np.errstate(invalid="ignore", over="ignore"):
        real = (np.exp(loss.x) - np.exp(loss.centre) > limits.floor * start) & ~_explained(segment, loss)
        real &= ~_done_again(segment, loss)
        # a smooth fall that slows down runs above what was expected, but not above what came just before
        real &= loss.x - trailing(loss.x, RECENT_ROWS, 3) > limits.effect / 2
        strong = (loss.z > limits.two) & (rise > limits.effect) & real
        one = (loss.z > limits.one) | ((loss.z > limits.high) & (rise > np.log(limits.high_ratio)))
        one &= (rise > limits.effect) & real
        hot = (loss.z > limits.supported) & (rise > limits.effect / 2) & real
    near = np.zeros(len(loss), dtype=bool)
    for back in (1, 2, 3):
        near[back:] |= strong[:-back]
    together = _together(loss, (loss.z > limits.four / 2) & (rise > limits.effect) & real, limits)
    return (strong & near) | one | together, hot


def _together(loss: Track, raised: np.ndarray, limits: Limits) -> np.ndarray:
    """Say where four rows are raised together, none of them far enough alone: jumps of noisy logs.

    They must be above the rows just before, too: in a fall that slows down, what was expected is too low for a while.
    """
    result = np.zeros(len(loss), dtype=bool)
    if len(loss) < 4:
        return result
    mean = bn.move_mean(np.minimum(loss.z, limits.two), 4)
    for at in np.flatnonzero(raised & (mean > limits.four) & (bn.move_sum(raised.astype(float), 4) >= 3))[: 50 * MOST]:
        before = loss.x[max(at - 20, 0) : at - 3]
        result[at] = loss.x[at - 3 : at + 1].mean() > np.median(before) + limits.effect
    return result


def _explained(segment: Segment, loss: Track) -> np.ndarray:
    """Say which values only look raised because rows are missing before them: the log adds up what it covers."""
    steps = segment.steps()[loss.rows]
    gap = np.diff(steps, prepend=np.nan)
    usual = trailing(gap)
    with np.errstate(invalid="ignore", divide="ignore"):
        return (gap > 1.3 * usual) & (loss.x - loss.centre < 1.25 * np.log(gap / usual))


def _done_again(segment: Segment, loss: Track) -> np.ndarray:
    """Say which values stand at steps that were done before a restart, and are within the noise of what they were there."""
    result = np.zeros(len(loss), dtype=bool)
    starts = [loss.at(int(row)) for row in restarts(segment)]
    steps = segment.steps()[loss.rows]
    for first, at, end in zip([0, *starts], starts, [*starts[1:], len(loss)], strict=False):
        if not first < at < end:
            continue
        same = np.searchsorted(steps[first:at], steps[at:end])
        covered = same < at - first
        same, again = same[covered], at + np.flatnonzero(covered)
        with np.errstate(invalid="ignore"):
            result[again] = loss.x[again] - _around(loss.x[first:at])[same] < AGAIN * loss.scale[again]
        result[again] &= steps[again] >= steps[first]
    return result


def _around(x: np.ndarray) -> np.ndarray:
    """Return the median of the values around each (n,)."""
    middle = bn.move_median(x, min(2 * AROUND + 1, len(x)), 1)
    return np.r_[middle[AROUND:], np.full(AROUND, middle[-1])][: len(x)]


def _supported(loss: Track, norm: Track, at: int, limits: Limits) -> bool:
    """Say whether the gradient norm jumped with a value or just before, both far beyond their own tails."""
    first, last = norm.at(int(loss.rows[at]) - SUPPORT_ROWS), norm.at(int(loss.rows[at]) + 1)
    raised = first + np.flatnonzero(norm.z[first:last] > limits.support)
    if not len(raised) or loss.z[at] <= limits.supported * _tail(loss, at):
        return False
    return any(norm.z[row] > limits.support * _tail(norm, int(row)) for row in raised)


def _tail(values: Track, at: int) -> float:
    """Return how heavy the tails before a value are: 1 for normal noise, 2 where twice as large z are ordinary."""
    return max(1.0, _record(values, at) / NORMAL_RECORD)


def _record(values: Track, at: int) -> float:
    """Return the second highest z of the rows before: what is ordinary, even if one of them was a spike."""
    past = values.z[max(at - RECORD_ROWS, 0) : at]
    past = past[np.isfinite(past)]
    return float(np.partition(past, -2)[-2]) if len(past) >= 2 else 0.0


def _follow(loss: Track, at: int, limits: Limits, *, early: bool, supported: bool) -> Episode:
    first = at if early else _onset(loss, at, limits)
    level = float(np.median(loss.x[:first])) if early else float(loss.centre[first])
    scale = 0.02 if early else float(loss.scale[first])
    allowed = level + max(2.5 * scale, 0.01)
    back = _back(loss.x, at + 1, level + max(scale, 0.005), allowed)
    lasting = _lasting(loss.x, first, allowed, back, limits)
    end = min(len(loss) if back is None else back, first + 10_000)
    peak = first + int(np.argmax(loss.x[first:end]))
    lone = not early and at == first and not (loss.z[first + 1 : first + 4] > limits.supported).any()
    beyond = early or _beyond(loss, first)
    return Episode(first, at, peak, back, lasting, level, scale, early, lone, beyond, supported)


def _onset(loss: Track, at: int, limits: Limits) -> int:
    """Return the first raised value of the four that end at the trigger."""
    near = slice(max(at - 3, 0), at + 1)
    raised = (loss.z[near] > limits.supported) & (loss.x[near] - loss.centre[near] > limits.effect / 2)
    return near.start + int(np.argmax(raised))


def _back(x: np.ndarray, start: int, level: float, allowed: float) -> int | None:
    """Return the first of two values in a row at or below a level, or at or below what is allowed above it with the median
    of the values from there on: two lucky values of a raised course are no return.

    Looked for in growing pieces, so a short jump is cheap.
    """
    size = 256
    while start < len(x) - 1:
        low = x[start : start + size + 1] <= allowed
        for at in start + np.flatnonzero(low[:-1] & low[1:]):
            near = x[at : at + SETTLED]
            if max(near[:2]) <= level or (len(near) == SETTLED and np.median(near) <= allowed):
                return int(at)
        start, size = start + size, 2 * size
    return None


def _lasting(x: np.ndarray, first: int, allowed: float, back: int | None, limits: Limits) -> int | None:
    """Return where a jump was held for lasting: after as many rows as came before it, within patience and share."""
    hold = max(min(limits.patience, max(first, 16)), int(limits.share * first))
    judged = first + hold
    if judged >= len(x) or (back is not None and back <= judged):
        return None
    if back is not None and back - first <= AS_LONG_AS * hold:
        return None
    tail = x[judged - min(50, hold // 2) : judged + 1]
    return judged if np.median(tail) > allowed else None


def _beyond(loss: Track, at: int) -> bool:
    """Say whether a value is far beyond the tails of the run: three times its record, five times a short one."""
    known = int(np.isfinite(loss.z[:at]).sum()) if at < RECORD_ROWS else RECORD_ROWS
    return bool(loss.z[at] > (3 if known >= RECORD_ROWS // 2 else 5) * max(_record(loss, at), NORMAL_RECORD / 2))
