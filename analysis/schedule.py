"""Which learning-rate schedule a log shows, by least squares, and what it was up to at each row.

Two views: `rates` is causal (each row knows only the rows before it) and is what rules use; `schedule` looks at all rows
there are and names the shape: constant, linear, cosine, inverse square root, steps, or warm-up, stable, decay (wsd).
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from analysis.segment import Segment

POINTS = 600  # of the learning rate that a fit looks at
FEWER = 150  # of these, which are enough to find where a decay ends
FITS = 0.01  # root mean square error over the peak, up to which a shape is recognised
EXACT = FITS / 100  # error of a shape that no other is looked for beside: that of what is printed with few digits
ENDS = np.geomspace(0.3, 4, 60)  # where a decay may end, in spans of what is seen of it
TINY = 1e-9  # sum of squares of a shape that is flat, but for rounding
AT_PEAK = 0.995
WARM = 0.9  # of the peak; what begins above it has no warm-up
LEVELS = 12  # of a schedule in steps


@dataclass(frozen=True, eq=False)
class Rates:
    """The learning rate at each row (n,): the last one printed, the highest so far, and whether it was still warming up.

    before: the rate some rows earlier, before which a change counts as recent (n,).
    """

    lr: np.ndarray
    highest: np.ndarray
    warming: np.ndarray
    before: np.ndarray

    def changed(self, row: int, *, by: float = 1.2) -> float | None:
        """Return the ratio of a recent change of the rate at a row, None where it changed less than `by`-fold."""
        now, then = self.lr[row], self.before[row]
        if not (now > 0 and then > 0) or max(now / then, then / now) < by:
            return None
        return float(now / then)


@dataclass(frozen=True)
class Schedule:
    """A recognised schedule.

    shape: constant | linear | cosine | inverse_sqrt | step | wsd | warmup (not over yet) | other.
    peak: highest rate; error: root mean square error over the peak (0 where nothing was fitted).
    warmup_end, decay_start, decay_end: global steps, None where there is no such point in the log (the last may lie ahead).
    """

    shape: str
    peak: float
    error: float = 0.0
    warmup_end: int | None = None
    decay_start: int | None = None
    decay_end: int | None = None


def rates(segment: Segment) -> Rates | None:
    """Return the course of the learning rate, row by row and causal, None without one; worked out once a segment."""
    return segment.once("rates", lambda: _rates(segment)) if segment.has("lr") else None


def schedule(segment: Segment) -> Schedule | None:
    """Return the schedule that the learning rates of a launch show, None where fewer than five positive ones are there."""
    return segment.once("schedule", lambda: _schedule(segment)) if segment.has("lr") else None


def _rates(segment: Segment, recent: int = 20) -> Rates:
    lr = np.nan_to_num(segment.values("lr"), nan=0.0, posinf=0.0, neginf=0.0)
    rows = np.arange(len(lr))
    lr = lr[np.maximum.accumulate(np.where(segment.printed("lr"), rows, 0))]
    warming = lr > 1.05 * lr[rows // 2]
    return Rates(lr, np.maximum.accumulate(lr) if len(lr) else lr, warming, lr[np.maximum(rows - recent, 0)])


def _schedule(segment: Segment) -> Schedule | None:
    lr, steps = segment.values("lr"), segment.steps()
    rows = np.flatnonzero(np.isfinite(lr) & (lr > 0) & np.isfinite(steps))
    rows = rows[np.r_[True, np.diff(np.maximum.accumulate(steps[rows])) > 0]] if len(rows) else rows
    if len(rows) < 5:
        return None
    rows = rows[np.unique(np.linspace(0, len(rows) - 1, POINTS).astype(int))]
    t, peak = steps[rows], float(lr[rows].max())
    y = lr[rows] / peak
    top = int(np.argmax(y >= AT_PEAK)) if y[0] < WARM else 0
    if np.any(np.diff(y[: top + 1]) < -1e-6):
        return Schedule("other", peak)
    warmup = int(t[top]) if top else None
    if top and t[-1] - t[top] < 0.02 * (t[-1] - t[0]):
        return Schedule("warmup", peak, 0.0, warmup)
    return _shape(t[top:], y[top:], peak, warmup, segment.total_steps)


def _shape(t: np.ndarray, y: np.ndarray, peak: float, warmup: int | None, total: int | None) -> Schedule:
    """Name the part behind the warm-up."""
    if y.min() > 1 - FITS:
        return Schedule("constant", peak, float(np.std(y)), warmup)
    if _in_steps(y):
        return Schedule("step", peak, 0.0, warmup, int(t[np.argmax(y < AT_PEAK)]))
    if np.any(np.diff(y) > FITS):
        return Schedule("other", peak, 0.0, warmup)
    hold = int(np.flatnonzero(y >= AT_PEAK)[-1])
    found = [(error, shape, int(t[0]), end) for error, shape, end in _fits(t, y, total)]
    if hold >= 3 and len(y) - hold >= 4 and min(error for error, *_others in found) > EXACT:
        found += [(error, "wsd", int(t[hold]), end) for error, _, end in _fits(t[hold:], y[hold:], total)]
    error, shape, start, end = min(found, key=lambda fit: fit[0] * (1.5 if fit[1] == "wsd" else 1.0))
    if error > FITS:
        return Schedule("other", peak, error, warmup)
    return Schedule(shape, peak, error, warmup, start, end)


def _in_steps(y: np.ndarray) -> bool:
    """Say whether a rate has few levels, each held for a while, and only goes down."""
    levels = np.unique(np.round(y, 6))
    return 2 <= len(levels) <= min(LEVELS, len(y) // 4) and bool(np.all(np.diff(y) <= 1e-9))


def _fits(t: np.ndarray, y: np.ndarray, total: int | None) -> Iterator[tuple[float, str, int | None]]:
    """Yield (error, shape, step at which it ends) of each shape that a decay from t[0] on may have."""
    start, span, few = t[0], t[-1] - t[0], slice(None, None, max(1, len(t) // FEWER))
    ends = np.unique(np.concatenate([start + span * ENDS, [total] if total and total > start else []]))
    for shape, curve in (("linear", _line), ("cosine", _wave)):
        best = ends[_best(curve((t[few] - start) / (ends - start)[:, None]), y[few])]
        seen = shape == "cosine" or best <= t[-1]  # a line does not show where it will end
        yield _misfit(curve((t - start) / (best - start)), y), shape, int(round(best)) if seen else total
    early = t[0] if t[0] > 0 else 1.0
    with np.errstate(divide="ignore"):
        yield _misfit(np.sqrt(early / np.maximum(t, early)), y), "inverse_sqrt", None


def _line(u: np.ndarray) -> np.ndarray:
    return 1 - np.clip(u, 0, 1)


def _wave(u: np.ndarray) -> np.ndarray:
    return (1 + np.cos(np.pi * np.clip(u, 0, 1))) / 2


def _best(shapes: np.ndarray, y: np.ndarray) -> int:
    """Return which of the shapes (k, n) fits best as a + b * shape: that with the largest part of the squares explained."""
    together, sums = shapes @ (y - y.mean()), shapes.sum(axis=1)
    squares = np.einsum("kn,kn->k", shapes, shapes) - sums**2 / len(y)
    return int(np.argmax(np.divide(together**2, squares, out=np.zeros(len(shapes)), where=squares > TINY)))


def _misfit(shape: np.ndarray, y: np.ndarray) -> float:
    """Return the root mean square error of the best a + b * shape."""
    centred, level = shape - shape.mean(), y - y.mean()
    square = float(centred @ centred)
    slope = float(centred @ level) / square if square > 0 else 0.0
    return float(np.sqrt(np.mean((level - slope * centred) ** 2)))
