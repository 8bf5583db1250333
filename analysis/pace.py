"""How the time of a launch was spent, interval by interval: steady steps, and what came on top of them.

The level is what a step takes around an interval (running median), the reference what it takes when the run is at its best
for long (a low percentile of the level). What an interval took beyond its level counts only when it stands out from the
run's own jitter; it is then starting up, a hang, a pause that was expected (evaluation, checkpoint, or the same number of
steps apart), or a hiccup. A level far above the reference is a slow stretch.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace

import bottleneck as bn
import numpy as np

from analysis.intervals import Wall
from analysis.segment import Segment
from analysis.wall import wall
from messages import N_, Text

STEADY, START_UP, HANG, PAUSE, HICCUP, RESTART = range(6)
WINDOW = 51  # intervals around one that tell its level
STARTING = 3  # intervals of a launch that may hold compilation and first allocations
CLEAR = 5.0  # robust standard deviations from which an interval stands out
LEAST = 0.2  # and share of its level, at least
SLOW = 1.10  # times the reference from which a level is a slow stretch
SLOW_ROWS = 20
YOUNG_STEPS = 10  # steps that the first pause of its kind must take, to be taken for one that comes back
HANG_SECONDS, HANG_RATIO = 300.0, 15.0
COARSE_RATIO = 3.0  # the same where a clock shows whole minutes: its intervals are minutes long, and few
SAVED = frozenset({"checkpoint_saved", "checkpoint"})
CAUSES = {
    "evaluation": N_("evaluations"),
    "checkpoint": N_("checkpoints"),
    "period": N_("pauses every {steps:,} steps (their cause is not in the log)"),
}


@dataclass(frozen=True)
class Habit:
    """A kind of pause that comes back: its cause (evaluation, checkpoint, period), how often, how long it takes each time.

    every: steps between two, None where they are not regular; seconds: mean; spread: their standard deviation; seen: how
    many; last: step after which the last one came.
    """

    cause: str
    every: float | None
    seconds: float
    spread: float
    seen: int
    last: float

    def left(self, total: float, now: float) -> float:
        """Return how many of them are to come before step `total`, `now` being the last step that was done."""
        if self.every is None:
            return self.seen * (total - now) / max(now, 1.0)
        return max(float(np.ceil((total - self.last) / self.every)) - 1, 0.0)

    @property
    def text(self) -> Text:
        """Return what pauses, in words."""
        return Text(CAUSES[self.cause], {"steps": int(self.every or 0)} if self.cause == "period" else {})


@dataclass(frozen=True, eq=False)
class Pace:
    """The intervals of a launch (m,), see `Wall`, and what each was.

    level: seconds a step around it; reference: at the run's best (of the same batch size).
    extra: seconds beyond the level that stand out, 0 where none do; kind: what those were (START_UP, HANG, …).
    slow: it lies in a stretch slower than the reference. habits: the pauses that come back.
    """

    wall: Wall
    level: np.ndarray
    reference: np.ndarray
    extra: np.ndarray
    kind: np.ndarray
    slow: np.ndarray
    habits: tuple[Habit, ...] = ()

    def seconds(self, kind: int) -> float:
        """Return the extra seconds of one kind."""
        return float(self.extra[self.kind == kind].sum())

    @property
    def running(self) -> np.ndarray:
        """Return what each interval took without its extra (m,), seconds."""
        return self.wall.seconds - self.extra

    def beyond(self, rows: np.ndarray) -> np.ndarray:
        """Return the extra seconds (k,) of the intervals that hold some of these rows (in rising order)."""
        held = np.unique(np.searchsorted(self.wall.row, rows))
        return self.extra[held[held < len(self.wall)]]

    def share(self, rows: np.ndarray, first: int, last: int) -> float:
        """Return the extra of the intervals that hold these rows, of the time from row `first` to row `last`, 0…1.

        Counted in seconds of the clock: a printed row may stand for many steps.
        """
        start, stop = np.searchsorted(self.wall.row, (first, last + 1))
        spent = float(self.wall.seconds[start:stop].sum())
        return float(self.beyond(rows).sum()) / spent if spent > 0 else 0.0


def pace(segment: Segment, meaning: str | None = None) -> Pace | None:
    """Return how the time of a launch was spent, None where the log does not tell the time; worked out once a segment."""
    return segment.once(("pace", meaning), lambda: _pace(segment, meaning))


def _pace(segment: Segment, meaning: str | None) -> Pace | None:
    known = wall(segment, meaning)
    if known is None:
        return None
    with np.errstate(divide="ignore", invalid="ignore"):
        each = np.where(known.steps > 0, known.seconds / known.steps, np.nan)
    level = _level(each, known)
    extra = _extra(known, each, level)
    kind = np.where(extra > 0, HICCUP, STEADY)
    kind[_starting(known) & (extra > 0)] = START_UP
    kind[known.opening & (extra > 0)] = np.where(known.row[known.opening & (extra > 0)] == known.row[0], START_UP, RESTART)
    told = _told(segment, known)
    pauses = (kind == HICCUP) & (told["evaluation"] | told["checkpoint"])
    usual = float(np.median(known.seconds))
    longest = float(np.sort(extra[pauses])[-2:][0]) if pauses.any() else 0.0  # of several the second: one may hold a hang
    ratio = COARSE_RATIO if known.unit_s >= 60 else HANG_RATIO
    hang = (kind == HICCUP) & (extra > max(HANG_SECONDS, ratio * usual, 2 * longest))
    kind[hang] = HANG
    kind[pauses & ~hang] = PAUSE
    usable = (kind == PAUSE) | (kind == STEADY)
    habits = list(_told_habits(segment, known, extra, {name: mask & usable for name, mask in told.items()}))
    learnt = _learnt_habits(segment, known, level, extra, kind)
    habits = [_without(habit, learnt) for habit in habits] + learnt
    reference = _reference(segment, known, level)
    slow = _slow(level, reference)
    if np.mean(slow) > 0.5 and np.sum(np.diff(slow.view(np.int8)) == 1) >= 2:  # to and fro: slow is how it mostly is
        reference = np.full(len(level), float(np.median(level)))
        slow = _slow(level, reference)
    return Pace(known, level, reference, extra, kind, slow, tuple(habits))


def _level(each: np.ndarray, known: Wall) -> np.ndarray:
    """Return the running median of the seconds a step around each interval (m,)."""
    count = len(each)
    window = min(WINDOW, count)
    if not np.isfinite(each).any():
        return np.zeros(count)
    if count < 4:
        return np.full(count, np.nanmin(each))
    trailing = bn.move_median(each, window, 1)
    half = window // 2
    centred = np.concatenate((trailing[half:], np.full(half, trailing[-1])))
    centred[: half + 1] = trailing[min(window, count) - 1]  # the first ones: what the first window shows
    usual = float(np.nanmedian(each))
    return np.where(np.isfinite(centred), centred, usual)


def _extra(known: Wall, each: np.ndarray, level: np.ndarray) -> np.ndarray:
    """Return the seconds beyond the level where they stand out from the jitter (m,), else 0."""
    beyond = known.seconds - level * known.steps
    spread = 1.4826 * np.nanmedian(np.abs(each - level)) if np.isfinite(each).any() else 0.0
    limit = np.maximum(CLEAR * spread, LEAST * level) * np.maximum(known.steps, 1) + 2 * known.unit_s
    return np.where(beyond > limit, beyond, 0.0)


def _starting(known: Wall) -> np.ndarray:
    """Say which intervals are among the first of the launch or of a restart (m,)."""
    starts = np.r_[0, np.flatnonzero(known.opening)]
    near = np.zeros(len(known) + STARTING, dtype=bool)
    for later in range(STARTING):
        near[starts + later] = True
    return near[: len(known)]


def _told(segment: Segment, known: Wall) -> dict[str, np.ndarray]:
    """Say which intervals hold an evaluation or a checkpoint according to the log (m,)."""
    none = np.zeros(len(known), dtype=bool)
    if not segment.has("line"):
        return {"evaluation": none, "checkpoint": none}
    ends = segment.rows["line"].to_numpy()[known.row]
    events = segment.events
    saved = events["line"][events["kind"].isin(SAVED)].to_numpy() if len(events) else np.zeros(0)
    evaluated = segment.evals["line"].to_numpy() if "line" in segment.evals else np.zeros(0)
    return {"evaluation": _holds(ends, evaluated), "checkpoint": _holds(ends, saved)}


def _holds(ends: np.ndarray, lines: np.ndarray) -> np.ndarray:
    """Say which intervals, ending at lines `ends` (m,), hold one of the lines: the pause is in the interval after it began."""
    held = np.zeros(len(ends) + 1, dtype=bool)
    held[np.searchsorted(ends, lines.astype(np.int64))] = True
    return held[:-1]


def _told_habits(segment: Segment, known: Wall, extra: np.ndarray, told: dict[str, np.ndarray]) -> Iterator[Habit]:
    """Yield the pauses that the log names, those that do not stand out included; what takes both is shared between them."""
    evaluated, saved = told["evaluation"], told["checkpoint"]
    alone = evaluated & ~saved
    took = np.zeros(0)
    if evaluated.any():
        took = extra[alone if alone.any() else evaluated]
        yield from _told_habit(segment, known, "evaluation", evaluated, took)
    only = saved & ~evaluated
    if only.any():
        yield from _told_habit(segment, known, "checkpoint", saved, extra[only])
    elif saved.any() and alone.any():
        yield from _told_habit(segment, known, "checkpoint", saved, np.maximum(extra[saved] - took.mean(), 0))


def _told_habit(segment: Segment, known: Wall, name: str, told: np.ndarray, took: np.ndarray) -> Iterator[Habit]:
    if not took.any():
        return
    begins = (segment.steps()[known.row] - known.steps)[told]
    begins = begins[np.isfinite(begins)]
    if not len(begins):
        return
    gaps = np.diff(begins) if len(begins) > 1 else begins  # the first of its kind comes after as many steps as are between
    every = float(np.median(gaps)) if np.median(gaps) > 0 else None
    yield Habit(name, every, float(took.mean()), _deviation(took), int(told.sum()), float(begins[-1]))


def _deviation(took: np.ndarray) -> float:
    """Return the standard deviation of pauses; of one alone, half of it."""
    return float(took.std(ddof=1)) if len(took) > 1 else float(took[0]) / 2


def _without(habit: Habit, learnt: list[Habit]) -> Habit:
    """Return a pause that the log names without what comes at its steps anyway."""
    shared = [other.seconds for other in learnt if habit.every and other.every and habit.every % other.every == 0]
    return replace(habit, seconds=max(habit.seconds - sum(shared), 0.0))


def _learnt_habits(segment: Segment, known: Wall, level: np.ndarray, extra: np.ndarray, kind: np.ndarray) -> list[Habit]:
    """Find pauses that come every so many steps and mark them; three kinds at most.

    Where some of them are much longer than the others, two kinds coincide: the rest of the long ones is a kind of its own.
    """
    habits: list[Habit] = []
    begins = segment.steps()[known.row] - known.steps  # the step after which an interval's pause came
    wide = float(np.median(known.steps)) or 1.0
    rest = np.where(kind == HICCUP, extra, 0.0)
    for _ in range(3):
        rows = np.flatnonzero((rest > 0) & np.isfinite(begins))
        found = _period(begins, rows, rest, wide) or _young_period(begins, rows, rest, wide, level)
        if found is None:
            break
        every, regular = found
        usual = float(np.median(rest[regular]))
        long = rest[regular] > 2.5 * usual
        took = rest[regular[~long]]
        seconds = float(took.mean())
        habits.append(Habit("period", every, seconds, _deviation(took), len(regular), float(begins[regular[-1]])))
        kind[regular] = PAUSE
        rest[regular] = np.where(long, rest[regular] - seconds, 0.0)
    return habits


def _period(begins: np.ndarray, rows: np.ndarray, extra: np.ndarray, wide: float) -> tuple[float, np.ndarray] | None:
    """Return (steps, intervals) of pauses that come at 60 % of the multiples of a period at least; None without such."""
    if len(rows) < 3:
        return None
    gaps = np.diff(begins[rows])
    candidates, counts = np.unique(np.round(gaps / wide), return_counts=True)
    for candidate in candidates[np.argsort(-counts)][:5]:
        every = candidate * wide
        if every <= 2 * wide:
            continue
        phase = begins[rows] % every
        anchor = phase[np.argmax([(_apart(phase, value, every) <= wide).sum() for value in phase[:200]])]
        regular = rows[_apart(phase, float(anchor), every) <= wide]
        if len(regular) < 3:
            continue
        due = np.floor((np.nanmax(begins) - begins[regular[0]]) / every) + 1
        alike = extra[regular] > 0.3 * np.median(extra[regular])
        if alike.sum() >= 0.6 * due:
            return float(every), regular
    return None


def _young_period(
    begins: np.ndarray, rows: np.ndarray, extra: np.ndarray, wide: float, level: np.ndarray
) -> tuple[float, np.ndarray] | None:
    """Return the same from the first one or two long pauses: at a step, and at twice that step, if it was reached."""
    long = rows[extra[rows] > YOUNG_STEPS * level[rows]]
    if not 1 <= len(long) <= 2 or begins[long[0]] < 10 * wide:
        return None
    every = float(begins[long[0]])
    doubled = len(long) == 2 and abs(begins[long[1]] - 2 * every) <= wide
    due = np.nanmax(begins) >= 2 * every + wide
    return (every, long) if doubled or (len(long) == 1 and not due) else None


def _apart(phase: np.ndarray, value: float, every: float) -> np.ndarray:
    away = np.abs(phase - value)
    return np.minimum(away, every - away)


def _reference(segment: Segment, known: Wall, level: np.ndarray) -> np.ndarray:
    """Return the steady seconds a step at the run's best, of the intervals with the same batch size (m,)."""
    if segment.has("batch_size"):
        batch = segment.values("batch_size")[known.row]
        sizes, group = np.unique(np.nan_to_num(batch), return_inverse=True)
        if 1 < len(sizes) <= 20:
            best = np.array([_best(level[group == number]) for number in range(len(sizes))])
            return best[group]
    return np.full(len(level), _best(level))


def _best(level: np.ndarray) -> float:
    return float(np.percentile(level, 10)) if len(level) >= 40 else float(np.median(level))


def _slow(level: np.ndarray, reference: np.ndarray) -> np.ndarray:
    """Say where the level is above SLOW times the reference for SLOW_ROWS intervals or more (m,)."""
    raised = level > SLOW * reference
    edges = np.diff(np.r_[0, raised.view(np.int8), 0])
    starts, ends = np.flatnonzero(edges == 1), np.flatnonzero(edges == -1)
    slow = np.zeros(len(level), dtype=bool)
    for first, last in zip(starts, ends, strict=True):
        if last - first >= SLOW_ROWS:
            slow[first:last] = True
    return slow
