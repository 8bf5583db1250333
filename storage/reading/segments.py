"""Where each row stands: the global step, and to which launch (segment) of the log it belongs.

A step that is printed within its epoch becomes global: (epoch - first epoch) × steps of an epoch + step; where the steps of
an epoch vary a little, those of each epoch count. Of `epoch 1/4, step 10/200` only what follows tells whether an epoch or the
run has 200 steps: a step that the run can't have reached by then, or a next epoch. A new launch begins where the step falls
back to near the start: to where this launch began, or below NEAR_START of its highest step.
A step that falls less is a resume: the same segment, and an event says how much was done twice.
Where several ranks print, the first one tells. Steps that fall again and again (the newest lines first, processes without
a name) are neither launches nor resumes: only a fall from far up to near the start counts then.
Streaming: what a row gets depends only on the rows before it, so the borders of chunks make no difference.
"""

from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

import numpy as np

from storage.types import Event

NEAR_START = 0.2  # share of the highest step so far: a fall below it is a new launch (diagnosis P01)
MAX_EVENTS = 1000
SHORT, MANY_SHORT = 5, 3  # launches of fewer records, so many one after the other: processes that write at once
OFTEN, OFTEN_SHARE = 8, 0.05  # falls of the step in one launch, and as a share of its records: the same
DROP = 0.5  # share of the highest step that a fall must have then
SLACK = 0.02  # share of the plan by which epochs may differ in length, a step beside
UNKNOWN, OF_EPOCH, OF_RUN = 0, 1, 2  # what the planned steps of a row are the steps of
_NAN = float("nan")


class Rows(NamedTuple):
    """What placing rows needs, as arrays of one length: NaN where a line did not print it.

    `anchor` = the row says where the training stands (training rows; evaluations of a declared format);
    `per_epoch` = its format says that the step starts again in each epoch; `train` = it is a training record;
    `planned` = steps of an epoch or of the run, the line does not say which.
    """

    line: np.ndarray
    step: np.ndarray
    epoch: np.ndarray
    steps_per_epoch: np.ndarray
    anchor: np.ndarray
    per_epoch: np.ndarray
    train: np.ndarray
    rank: np.ndarray
    planned: np.ndarray
    epochs: np.ndarray

    def take(self, index: np.ndarray | slice) -> "Rows":
        """Return these rows only."""
        return Rows(*(column[index] for column in self))


class Placed(NamedTuple):
    """Where rows stand: the global step (NaN: none), the segment, what their plan is the plan of, and what the steps tell."""

    steps: np.ndarray
    segments: np.ndarray
    plans: np.ndarray
    events: list[Event]


@dataclass
class _Launch:
    """What is known of the launch being read; `begin` and `highest` are steps, or epochs as long as no step was printed."""

    first_epoch: float = 1.0  # by what epochs are counted: 0 or 1
    per_epoch: bool | None = None  # None: not yet seen whether the step starts again
    offset: float = 0.0  # steps of the epochs before, where no line prints how many an epoch has
    begin: float = _NAN
    highest: float = _NAN
    step: float = _NAN  # as last printed
    epoch: float = _NAN
    at: float = _NAN  # the last global step
    records: int = 0
    falls: int = 0  # how often the step fell without a reason
    unsteady: bool = False  # it falls so often that it means nothing
    rank: float = _NAN  # the rank that tells where the training stands
    printed: bool = False  # a step was printed
    plan: float = _NAN  # steps of an epoch, as last printed
    shift: float = 0.0  # what steps of the epochs before are more than so many each
    of_run: bool = False  # the planned steps are those of the run


class Placer:
    """Gives rows their global step and segment, batch after batch."""

    def __init__(self) -> None:
        self.segments = 0
        self.numbered = False  # some records printed no step and were numbered
        self.unsteady = 0  # the first line at which the steps were found to go back and forth
        self.beyond = 0  # the first line with a step that is too large
        self._planned = _NAN  # as training records printed it last
        self._short = 0  # launches with hardly a record, one after the other
        self._launch = _Launch()
        self._events = 0
        self._line = 0  # the last line that was placed

    def state(self) -> dict[str, Any]:
        """Return what must be remembered, JSON-able (NaN as None)."""
        launch = {key: None if value != value else value for key, value in asdict(self._launch).items()}
        told: dict[str, Any] = {
            "numbered": self.numbered,
            "events": self._events,
            "unsteady": self.unsteady,
            "beyond": self.beyond,
            "line": self._line,
        }
        told |= {"short": self._short, "planned": None if self._planned != self._planned else self._planned}
        return {"segments": self.segments, **told, "launch": launch}

    def restore(self, state: dict[str, Any]) -> None:
        """Go on from what `state` returned."""
        self.segments, self.numbered, self._events = state["segments"], state["numbered"], state["events"]
        self.unsteady, self.beyond = state.get("unsteady", 0), state.get("beyond", 0)
        self._short, self._line = state.get("short", 0), state.get("line", 0)
        self._planned = _NAN if state["planned"] is None else state["planned"]
        self._launch = _Launch()
        for name, value in state["launch"].items():
            setattr(self._launch, name, _NAN if value is None and name != "per_epoch" else value)

    def place(self, rows: Rows) -> Placed:
        """Return where each row stands, with the events `launch` and `resume`."""
        steps, segments = np.full(len(rows.line), _NAN), np.full(len(rows.line), -1, np.int32)
        plans = np.zeros(len(rows.line), np.int8)
        at, segment, plan, events = self._launch.at, max(0, self.segments - 1), self._plan_of(), list[Event]()
        telling = rows.anchor & self._of_first_rank(rows) & (rows.line >= self._line)  # earlier lines are believed late
        self._line = int(rows.line.max(initial=self._line))
        anchors = np.flatnonzero(telling)
        placed = rows if len(anchors) == len(telling) else rows.take(anchors)
        for start, end in self._runs(placed, events):
            part = placed.take(slice(start, end))
            where: Any = anchors[start:end] if len(anchors) < len(telling) else slice(start, end)
            steps[where] = self._global(part)
            segments[where], plans[where] = self.segments - 1, self._plan_of()
            self._remember(part, steps[where])
        placed_rows = segments >= 0
        segments, plans = _filled(segments, placed_rows, segment), _filled(plans, placed_rows, plan)
        if len(anchors) < len(telling):
            before = _filled(steps, ~np.isnan(steps), at)
            steps = np.where(telling, steps, np.where(np.isnan(rows.step), before, self._within_epoch(rows)))
        return Placed(steps, segments, plans, events)

    def plan_before(self, plan: np.ndarray) -> np.ndarray:
        """Return the plan that training printed last at each row; `plan`: what the next rows print, NaN for none."""
        filled = _filled(plan, ~np.isnan(plan), self._planned)
        self._planned = float(filled[-1]) if len(filled) else self._planned
        return filled

    def _plan_of(self) -> int:
        """Return what planned steps are the steps of, as far as it is known."""
        return OF_EPOCH if self._launch.per_epoch else OF_RUN if self._launch.of_run else UNKNOWN

    def _of_first_rank(self, rows: Rows) -> np.ndarray:
        """Return which rows are those of the rank that tells: the first one that printed a record, and lines without any."""
        unnamed = np.isnan(rows.rank)
        if unnamed.all():
            return unnamed
        named = np.flatnonzero(rows.anchor & ~unnamed)
        if np.isnan(self._launch.rank) and len(named):
            self._launch.rank = float(rows.rank[named[0]])
        return unnamed | (rows.rank == self._launch.rank)

    def _within_epoch(self, rows: Rows) -> np.ndarray:
        """Return the global step of rows that do not tell where the training stands."""
        by_epoch = np.floor(rows.epoch - self._launch.first_epoch) * rows.steps_per_epoch + rows.step
        return np.where(rows.per_epoch & ~np.isnan(by_epoch), by_epoch, rows.step)

    def _runs(self, rows: Rows, events: list[Event]):  # type: ignore[no-untyped-def]
        """Yield (start, end) of runs in which the step never falls; the launch is brought up to date before each."""
        count = len(rows.line)
        if not count:
            return
        step = _filled(rows.step, ~np.isnan(rows.step), self._launch.step)
        epoch = _filled(rows.epoch, ~np.isnan(rows.epoch), self._launch.epoch)
        before_step = np.concatenate(([self._launch.step], step[:-1]))
        before_epoch = np.concatenate(([self._launch.epoch], epoch[:-1]))
        fell = (step < before_step) | (epoch < before_epoch)
        deep = fell  # none is deeper than the highest step where none falls
        if fell.any():
            highest = np.fmax(np.maximum.accumulate(np.nan_to_num(step)), np.nan_to_num(self._launch.highest))
            deep = before_step - step > DROP * highest
        rise = np.floor(epoch) > np.floor(before_epoch)
        fell = fell | (rise & (step == before_step) & rows.train)  # the same step of the next epoch
        falls, deep_falls, rises = np.flatnonzero(fell), np.flatnonzero(deep), np.flatnonzero(rise)
        sure = {first: _not_of_run(rows, step, epoch, first) for first in (0.0, 1.0)}
        start = 0
        while start < count:
            if self.segments == 0:
                self._begin(rows, start)
            elif (deep if self._launch.unsteady else fell)[start] or (
                self._launch.per_epoch is None and np.floor(epoch[start]) > np.floor(before_epoch[start])
            ):
                self._turn(rows, start, step[start], epoch[start], events)
            borders = [deep_falls if self._launch.unsteady else falls]
            if self._launch.per_epoch is None:
                known = sure[self._launch.first_epoch]
                self._launch.per_epoch = True if start in known[np.searchsorted(known, start) :][:1] else None
                borders += [rises, known] if self._launch.per_epoch is None else []
            ends = [border[np.searchsorted(border, start, "right") :][:1] for border in borders]
            end = int(min((int(found[0]) for found in ends if len(found)), default=count))
            yield start, end
            start = end

    def _turn(self, rows: Rows, row: int, step: float, epoch: float, events: list[Event]) -> None:
        """Decide what it means that step or epoch fall (or an epoch begins) at this row."""
        launch = self._launch
        if np.floor(epoch) > np.floor(launch.epoch):
            self._next_epoch(rows.take(slice(row, row + 1)), step)
        if not launch.printed and np.isnan(step):
            now, before = epoch, launch.epoch
        else:
            now, before = float(self._global(rows.take(np.array([row])))[0]), launch.at
        if not now < before:
            return
        launch.falls += 1
        near = now < NEAR_START * launch.highest
        if self._means_nothing(int(rows.line[row]), near):
            launch.begin = min(launch.begin, now)
        elif now <= launch.begin or near:
            self._begin(rows, row)
            self._event(events, int(rows.line[row]), "launch", before, now)
        else:
            self._event(events, int(rows.line[row]), "resume", before, now)

    def _means_nothing(self, line: int, near: bool) -> bool:
        """Say whether a fall is one of many: of a log that never rose, of processes that write at once."""
        launch = self._launch
        never_rose = launch.highest <= launch.begin if launch.falls < 2 else launch.falls == launch.records
        often = launch.falls >= OFTEN and launch.falls > OFTEN_SHARE * launch.records
        if launch.falls > 1 and never_rose or often or self._short >= MANY_SHORT:
            launch.unsteady, self.unsteady = True, self.unsteady or line
        if launch.unsteady:
            return not near or never_rose
        return never_rose and not near and launch.records == 1

    def _next_epoch(self, row: Rows, step: float) -> None:
        """Take the first row of an epoch: it tells whether the step starts again, and what the plan is the plan of."""
        launch = self._launch
        falls = bool(step < launch.step or step == launch.step and row.train[0] and launch.per_epoch is not False)
        if launch.per_epoch is None and not np.isnan(step):
            done = float(np.floor(row.epoch[0]) - launch.first_epoch)
            plan = float(np.fmax(row.planned[0], row.steps_per_epoch[0]))
            least = plan * done / (row.epochs[0] + 1 - launch.first_epoch) * (1 - SLACK) - 1
            beyond = len(_not_of_run(row, row.step, row.epoch, launch.first_epoch))
            launch.per_epoch = bool(falls or step < least or beyond)
            launch.of_run = bool(not launch.per_epoch and step <= plan * done)
        if falls:
            launch.offset += launch.step + (step == 0)

    def _begin(self, rows: Rows, row: int) -> None:
        before = self._launch
        self._short = self._short + 1 if self.segments and before.records < SHORT else 0
        self.segments += 1
        first = 0.0 if 0 <= rows.epoch[row] < 1 else 1.0
        per_epoch = True if rows.per_epoch[row] else None
        self._launch = _Launch(first_epoch=first, per_epoch=per_epoch, rank=before.rank, unsteady=before.unsteady)

    def _event(self, events: list[Event], line: int, kind: str, before: float, now: float) -> None:
        self._events += 1
        if self._events <= MAX_EVENTS:
            data = {"from": float(before), "to": float(now)}
            events.append(Event(line, kind, f"{kind}: {before:g} -> {now:g}", None, self.segments - 1, data))

    def _global(self, rows: Rows) -> np.ndarray:
        """Return the global steps of a run; records without any printed step are numbered."""
        launch, step = self._launch, rows.step
        if launch.per_epoch is not False:
            by_epoch = self._by_epoch(rows)
            step = np.where(np.isnan(by_epoch), step + launch.offset, by_epoch)
        if not np.isnan(step).any():
            return step
        printed = launch.printed | np.logical_or.accumulate(~np.isnan(rows.step))
        numbers = launch.records + np.cumsum(rows.train, dtype=float)  # an evaluation has that of the record before it
        numbers[numbers == 0] = _NAN
        held = _filled(step, ~np.isnan(step), launch.at)
        return np.where(np.isnan(step), np.where(printed, held, numbers), step)

    def _by_epoch(self, rows: Rows) -> np.ndarray:
        """Return the global steps of rows that print how many an epoch has, NaN for others."""
        plan = _steps_of_epoch(rows) if self._launch.per_epoch else rows.steps_per_epoch
        if np.isnan(plan).all():
            return plan
        return np.floor(rows.epoch - self._launch.first_epoch) * plan + rows.step + self._shifts(rows)

    def _shifts(self, rows: Rows) -> np.ndarray:
        """Return what the steps of the epochs before each row are more than so many as its own epoch has."""
        launch, plan = self._launch, _steps_of_epoch(rows)
        plan = _filled(plan, ~np.isnan(plan), launch.plan)
        before = np.concatenate(([launch.plan], plan[:-1]))
        if (plan == before).all():
            return np.full(len(plan), launch.shift)
        more = np.floor(rows.epoch - launch.first_epoch) * (before - plan)
        return launch.shift + np.cumsum(np.nan_to_num(more))

    def _remember(self, rows: Rows, steps: np.ndarray) -> None:
        launch = self._launch
        plan = _steps_of_epoch(rows)
        if launch.per_epoch is not False and not np.isnan(plan).all():
            launch.shift, launch.plan = float(self._shifts(rows)[-1]), _last(plan, ~np.isnan(plan), launch.plan)
        has_step = ~np.isnan(rows.step)
        self.numbered = self.numbered or (not launch.printed and not has_step[0] and bool(rows.train[0]))
        if has_step.any() and not launch.printed:
            launch.printed, launch.begin, launch.highest = True, _NAN, _NAN
        has_epoch = ~np.isnan(rows.epoch)
        places = _given(steps, has_step) if launch.printed else _given(rows.epoch, has_epoch)
        if len(places):
            launch.begin = float(places[0]) if np.isnan(launch.begin) else launch.begin
            launch.highest = float(np.fmax(launch.highest, places.max()))
        launch.step = _last(rows.step, has_step, launch.step)
        launch.epoch = _last(rows.epoch, has_epoch, launch.epoch)
        launch.at = _last(steps, ~np.isnan(steps), launch.at)
        launch.records += int(np.count_nonzero(rows.train))


def _steps_of_epoch(rows: Rows) -> np.ndarray:
    return np.where(np.isnan(rows.steps_per_epoch), rows.planned, rows.steps_per_epoch)


def _not_of_run(rows: Rows, step: np.ndarray, epoch: np.ndarray, first: float) -> np.ndarray:
    """Return the rows whose planned steps are those of an epoch: their step is beyond what the run can have done by then."""
    if np.isnan(rows.planned).all():
        return np.empty(0, np.int64)
    most = rows.planned * (np.floor(epoch) - first + 1) / rows.epochs
    return np.flatnonzero((step > most * (1 + SLACK) + 1) | (rows.epochs == 1) & (rows.planned > 0))


def _given(values: np.ndarray, known: np.ndarray) -> np.ndarray:
    return values if known.all() else values[known]


def _last(values: np.ndarray, known: np.ndarray, before: float) -> float:
    """Return the last known value, `before` where there is none."""
    if known[-1]:
        return float(values[-1])
    return float(values[np.flatnonzero(known)[-1]]) if known.any() else before


def _filled(values: np.ndarray, known: np.ndarray, before: float) -> np.ndarray:
    """Return values with gaps filled by the last known value before them (`before` at the start)."""
    if known.all():
        return values
    if not known.any():
        return np.full(len(values), before, values.dtype)
    last = np.maximum.accumulate(np.where(known, np.arange(len(values)), -1))
    return np.where(last >= 0, values[last], before)
