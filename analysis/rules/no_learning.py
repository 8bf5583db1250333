"""The loss does not fall, or hardly.

Meaning: Warm-up is over and the loss is where it was at the beginning: the model learns nothing. A loss that falls, but
very slowly, is a caution only: that alone does not prove a fault.

Causes: For no fall: a learning rate that is far too low or zero, frozen parameters, labels or masks that leave nothing to
learn, data in the wrong order. For a slow fall: a low learning rate, few data, or a small effective batch.

What to do: Overfit one tiny batch: if even that fails, the fault is in model, labels or masks. If it works, raise the
learning rate 5 to 10 times, and check the padding mask and the data.

Source: the row "loss never falls" of the source articles' trouble tables; judged after the warm-up, with the error of the
two levels that are compared.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import bottleneck as bn
import numpy as np

from analysis.attribution import explain
from analysis.evidence import fact, finding_at, unlog, where
from analysis.findings import Finding, Severity
from analysis.first_loss import first_loss
from analysis.losses import loss_kind
from analysis.noise import Track, track
from analysis.schedule import rates
from analysis.segment import Segment
from messages import N_, Text

NEEDS = ("loss|logits_loss",)
LEVEL = True
ROWS = 24
START_ROWS = 10
EARLY_ROWS = 50  # of each level, while the rows are few; later an eighth of them at the beginning and the last quarter
RESUMED_STEP = 0.02  # of the steps so far: a launch that begins later than this goes on with something
TO_LEARN = 1.0  # a launch that begins below this loss has little left to learn
RECOVERED = 3.0  # times the fall that was wanted, from which on a slow beginning is over
FALLEN_BY = 8  # times the rows up to its highest level, by which a loss that rose at first is down again
BRIEF = 0.05  # of the rows, up to which a beginning without a fall is over and only noted
FALLEN_ERRORS = 2.5  # standard errors by which a launch must have fallen to be one that learns
HARDLY = 0.05  # of the first loss: what fell by less has no plateau besides
LEARNED = 0.1  # in logs, by which the loss must be lower by now
MUCH_TO_LEARN = 3.0  # a launch that begins above this should lose a good part of it


@dataclass(frozen=True)
class Still:
    """A launch that does not learn: positions in the track at which it was known and began to learn (None: not yet).

    start: first level, level: that when it was known, in logs; error: standard error of their difference; slow: it falls.
    """

    known: int
    began: int | None
    start: float
    level: float
    error: float
    slow: bool


@dataclass(frozen=True)
class Limits:
    """From when on a launch is judged, and what counts as learning: the arguments of `check`."""

    after_steps: int = 200
    after_share: float = 0.04
    after_warmup: int = 100
    least_fall: float = 0.02
    slow_fall: float = 0.1
    slow_steps: int = 1000


def check(
    segment: Segment,
    *,
    after_steps: int = Limits.after_steps,
    after_share: float = Limits.after_share,
    after_warmup: int = Limits.after_warmup,
    least_fall: float = Limits.least_fall,
    slow_fall: float = Limits.slow_fall,
    slow_steps: int = Limits.slow_steps,
) -> Iterator[Finding]:
    """Yield a launch whose loss does not fall, or a caution for one that falls very slowly.

    after_steps, after_share, after_warmup: steps, share of the plan, and steps behind the warm-up from which on it is
    judged. least_fall: share of the first loss that must be gone, with its error.
    slow_fall: share of a first loss above 3 that should be gone after slow_steps steps (a tenth of the plan), or an epoch.
    """
    main, begin = loss_kind(segment).main, first_loss(segment)
    still = _judged(segment, Limits(after_steps, after_share, after_warmup, least_fall, slow_fall, slow_steps))
    if still is not None and main is not None and begin is not None:
        yield _finding(segment, main, track(segment, main), still, from_scratch=begin.from_scratch)


def unlearned(segment: Segment) -> bool:
    """Say whether the loss has hardly fallen since the launch began, by the usual limits: then it stands still, of course."""
    still = _judged(segment, Limits())
    return still is not None and still.began is None and still.level > still.start + np.log1p(-HARDLY)


def check_articles(segment: Segment, *, least_fall: float = 0.01) -> Iterator[Finding]:
    """Yield a launch whose loss never falls: after the first 1,000 steps it is not below where it began.

    least_fall: share of the first loss that must be gone.
    """
    main = loss_kind(segment).main
    if main is not None and len(track(segment, main)) >= ROWS:
        loss = track(segment, main)
        late = np.flatnonzero(_steps(segment, loss) >= 1000)
        if len(late) and late[0] >= START_ROWS:
            still = _compared(loss, int(late[0]), np.log1p(-least_fall), certain=False)
            if still is not None:
                yield _finding(segment, main, loss, still, from_scratch=True)


def _judged(segment: Segment, limits: Limits) -> Still | None:
    """Return how a launch does not learn, None where it does or can't be judged; worked out once a segment."""
    return segment.once(("no_learning", limits), lambda: _worked_out(segment, limits))


def _worked_out(segment: Segment, limits: Limits) -> Still | None:
    main, begin = loss_kind(segment).main, first_loss(segment)
    if main is None or begin is None or begin.level < TO_LEARN or _goes_on(segment):
        return None
    loss = track(segment, main)
    still = _still(segment, loss, limits, scratch=begin.from_scratch)
    if still is None and begin.level > MUCH_TO_LEARN:
        return _slow(segment, loss, limits.slow_fall, limits.slow_steps)
    return still


def _goes_on(segment: Segment) -> bool:
    """Say whether a launch goes on with an earlier one: it has less to learn."""
    first, last = segment.step(0), segment.step(len(segment) - 1)
    late = first is not None and last is not None and first > 1000 and first > RESUMED_STEP * last
    return late or segment.number > 0 or bool(len(segment.events) and segment.events["kind"].isin(["resume"]).any())


def _steps(segment: Segment, loss: Track) -> np.ndarray:
    """Return steps done since the launch began (m,), in the unit of the log; rows where it numbers none."""
    steps = segment.steps()[loss.rows]
    if not np.all(np.diff(steps) >= 0):
        return np.arange(float(len(loss)))  # steps that are missing or run backwards count nothing
    return steps - min(steps[0], 1.0) if len(steps) else steps


def _still(segment: Segment, loss: Track, limits: Limits, *, scratch: bool) -> Still | None:
    least, course, steps = limits.least_fall, rates(segment), _steps(segment, loss)
    ready = steps >= max(limits.after_steps, limits.after_share * (segment.total_steps or 0))
    ready &= np.arange(len(loss)) >= ROWS
    if course is not None:
        behind = np.maximum(steps - limits.after_warmup, 0)
        ready &= ~course.warming[loss.rows] & ~course.warming[loss.rows[np.searchsorted(steps, behind)]]
        ready &= course.lr[loss.rows] > 0
        if not scratch:  # what trained weights lost in the warm-up they have to regain first
            ready &= ~course.warming[loss.rows[np.arange(len(loss)) // 2]]
    places = np.flatnonzero(ready)
    if not len(places):
        return None
    for at in _doubling(int(places[0]), len(loss)):
        still = _compared(loss, at, float(np.log1p(-least)))
        if still is not None and (scratch or not _falling(loss, still)):
            return still
        if _fallen(loss, at, float(np.log1p(-3 * least))):
            return None
    return None


def _fallen(loss: Track, at: int, enough: float) -> bool:
    """Say whether the loss is lower at a position than in its first rows, by enough and by more than noise makes it."""
    now = loss.x[at - max(at // 4, START_ROWS) + 1 : at + 1]
    falls = [(_level(now) - _level(loss.x[:rows]), _error(loss.x[:rows], now)) for rows in (START_ROWS, EARLY_ROWS)]
    return any(fall < min(enough, -FALLEN_ERRORS * error) for fall, error in falls)


def _level(values: np.ndarray) -> float:
    return float(np.median(values))


def _error(before: np.ndarray, now: np.ndarray) -> float:
    """Return the standard error of the difference of the medians of two stretches, in whatever course they have."""
    return float(1.6 * _spread(before, now) * np.sqrt(1 / len(before) + 1 / len(now)))


def _spread(before: np.ndarray, now: np.ndarray) -> float:
    """Return the standard deviation of a row against its neighbours, in both stretches."""
    return 1.4826 * float(np.median(np.abs(np.r_[np.diff(before), np.diff(now)]))) / np.sqrt(2)


def _doubling(first: int, count: int) -> Iterator[int]:
    """Yield positions at which to look: the first, and each half as far again; a stream and a finished run agree on them."""
    at = first
    while at < count:
        yield at
        at = at + max(at // 2, 8)


def _compared(loss: Track, at: int, least: float, *, certain: bool = True) -> Still | None:
    """Return how the level at a position compares with the first one, None where it is lower or can't be told."""
    width = max(START_ROWS, min(EARLY_ROWS, at // 4))
    early, late = (max(width, at // 8), max(width, at // 4)) if certain else (width, width)
    before, now = loss.x[: min(early, at // 2)], loss.x[at - late + 1 : at + 1]
    start, level, error = _level(before), _level(now), _error(before, now)
    if np.ptp(loss.x[: at + 1]) == 0:
        return None  # a number that never changes is no loss
    if (
        level <= start + least
        or (certain and start - level > 3 * error)
        or (certain and level - 2 * error <= start + 2 * least)
    ):
        return None
    lower = np.flatnonzero(bn.move_median(loss.x, width)[at + 1 :] < start + 3 * min(least, -0.01) - error)
    began = max(at + 1 + int(lower[0]) - width // 2, at + 1) if len(lower) else None  # lone low rows are noise
    return Still(at, began, start, level, error, slow=False)


def _falling(loss: Track, still: Still) -> bool:
    """Say whether the loss rose at first, as trained weights do while the rate warms up, and has been falling since."""
    at, width = still.known, max(START_ROWS, still.known // 8)
    level = bn.move_median(loss.x[: at + 1], width)
    top = int(np.nanargmax(level))
    risen, fallen = level[top] - still.start, level[top] - still.level
    return bool(min(risen, fallen) > 3 * still.error and at < FALLEN_BY * top)


def _slow(segment: Segment, loss: Track, fall: float, slow_steps: int) -> Still | None:
    """A model with much to learn that has lost next to nothing of its first loss although it had the time."""
    steps = _steps(segment, loss)
    epochs = segment.values("epoch")[loss.rows] - min(segment.values("epoch")[0], 1.0) if segment.has("epoch") else 0 * steps
    enough = (steps >= max(slow_steps, 0.1 * (segment.total_steps or 0))) | (epochs >= 1)
    late = np.flatnonzero(enough[ROWS:]) + ROWS
    if not len(late):
        return None
    at = int(late[0])
    start, level = _level(loss.x[:START_ROWS]), _level(loss.x[at - START_ROWS + 1 : at + 1])
    course = rates(segment)
    if level <= start + np.log1p(-fall) or (course is not None and course.warming[loss.rows[at]]):
        return None
    if np.nanmin(bn.move_median(loss.x[: at + 1], START_ROWS)) < start + np.log1p(-fall):
        return None  # it had learned, and rose: other rules say that
    lower = np.flatnonzero(loss.x[at + 1 :] < start + np.log1p(-RECOVERED * fall))
    return Still(at, at + 1 + int(lower[2]) if len(lower) > 2 else None, start, level, 0.0, slow=True)


def _finding(segment: Segment, column: str, loss: Track, still: Still, *, from_scratch: bool) -> Finding:
    first, known = int(loss.rows[0]), int(loss.rows[still.known])
    end = None if still.began is None else int(loss.rows[still.began])
    last = len(segment) - 1 if end is None else end
    causes, advice = explain(segment, "no_learning", first, known=known)
    gaps: dict[str, Any] = {
        "start": unlog(still.start),
        "level": unlog(still.level),
        "step": where(segment, known),
        "end": where(segment, last),
    }
    title = Text(N_("Loss has not fallen: {start:.4g} at the start, {level:.4g} at {step}"), gaps)
    if still.slow and still.level < still.start:
        title = Text(N_("Loss falls very slowly: from {start:.4g} to {level:.4g} by {step}"), gaps)
        if end is not None:
            title = Text(N_("Loss fell slowly at first: {start:.4g}, still {level:.4g} at {step}, until {end}"), gaps)
    elif end is not None:
        title = Text(N_("Loss did not fall until {end}"), gaps)
    severe = Severity.CRITICAL if end is None and not still.slow and from_scratch else Severity.WARNING
    learned = still.start - _level(loss.x[-START_ROWS:]) > LEARNED
    brief = learned and still.began is not None and still.began < BRIEF * len(loss)
    severe = Severity.INFO if end is not None and (still.slow or brief) else severe
    return finding_at(
        segment,
        kind="no_learning",
        severity=severe,
        first=first,
        known=known,
        end=end,
        title=title,
        evidence=(
            fact(N_("{column}: first level"), gaps["start"], column=column),
            fact(N_("{column}: level"), gaps["level"], column=column),
            fact(N_("standard error of their difference, share"), float(f"{still.error:.3g}")),
        ),
        causes=causes,
        advice=advice,
    )


def sick() -> Segment:
    """Return a run that stays at the logarithm of its vocabulary."""
    from analysis.simulate import simulate

    return simulate(rows=1500, seed=18, fault="no_learning").segment


def well() -> Segment:
    """Return a run with a long warm-up."""
    from analysis.simulate import simulate

    return simulate(rows=1500, seed=18, kind="long_warmup").segment
