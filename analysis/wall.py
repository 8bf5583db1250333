"""Where the wall clock of a launch stood at each row: what a forecast and a ledger add up.

The rules about step time ask how long a step takes; here every second counts, pauses and outages too. Sources, best first:
the clock of the lines, elapsed time, step time times steps, a rate, a bare `time`, the course of `epoch_time`. Clocks that
run back or leap by more than a month are not believed there: such an interval counts as long as its steps usually take, and
the notes say so. A clock without a date that falls by half a day or more has passed midnight.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from analysis.epoch_time import epoch_clock
from analysis.running_mean import is_running_mean, undone
from analysis.segment import Segment
from analysis.step_time import clock_seconds
from messages import N_, Text

DAY = 86_400.0
LONGEST = 1e9  # seconds: a printed time beyond 30 years is no time
MOST_STEPS = 1e9  # between two rows
OF_THE_DAY = 3600.0  # seconds: a bare `time` that shows more at the first steps, and far more than they take, is no time passed
LEAP = 30 * DAY  # no run is silent for longer than this: the clock was set
UNITS = (60.0, 6.0, 1.0, 0.6, 0.1, 0.06, 0.01)  # seconds in which clocks are printed: minutes, seconds, with 0 to 2 decimals
LEAST_UNITS = 3  # an interval is at least so many units of its clock long, else neighbours are taken together
MOST = 150_000  # intervals kept, about: of longer logs neighbours are taken together
LEAST_SECONDS, MOST_SECONDS = 1e-6, 1e11  # of a whole launch; less or more is no clock
MEANS = ("skipped_iterations",)  # a column that only logs print whose step time is the mean of the interval (Megatron)
SOURCES = {
    "timestamp": N_("the timestamps of the log"),
    "elapsed_seconds": N_("elapsed time as printed"),
    "step_time_seconds": N_("step time × steps: what lies between steps is not seen"),
    "tokens_per_second": N_("tokens ÷ tokens per second: what lies between steps is not seen"),
    "samples_per_second": N_("samples ÷ samples per second: what lies between steps is not seen"),
    "steps_per_second": N_("steps ÷ steps per second: what lies between steps is not seen"),
    "interval_runtime": N_("the printed time of each interval: what lies between intervals is not seen"),
    "time": N_("`time` as printed, taken as seconds"),
    "epoch_time_minutes": N_("the course of epoch_time"),
}
RAN_BACK = N_("the clock ran back {count:,} times (first at line {line:,}); those intervals count as long as usual")
LEAPT = N_(
    "the clock leapt by more than 30 days {count:,} times (first at line {line:,}); those intervals count as long as usual"
)
SET_RIGHT = N_("the clock was set and set right again {count:,} times (first at line {line:,}); that is not counted as time")
MIDNIGHT = N_("the clock has no date and passed midnight {count:,} times")


@dataclass(frozen=True, eq=False)
class Wall:
    """The intervals of a launch between rows that tell the time, in the order logged.

    source, text: the column, and how in words; unit_s: seconds that its print can't resolve.
    row: row at which an interval ends (m,); steps: steps it covers (m,); seconds: how long it took (m,), all >= 0.
    opening: it begins with the launch or a restart, so it holds starting up, and what was silent before (m,).
    first, last: seconds since the epoch of the first and last row by the clock of the lines, None without such a clock.
    notes: what was not believed.
    """

    source: str
    text: Text
    unit_s: float
    row: np.ndarray
    steps: np.ndarray
    seconds: np.ndarray
    opening: np.ndarray
    first: float | None = None
    last: float | None = None
    notes: tuple[Text, ...] = ()

    def __len__(self) -> int:
        return len(self.row)


def wall(segment: Segment, meaning: str | None = None) -> Wall | None:
    """Return the wall clock of a launch, None where the log does not tell the time; `meaning` of epoch_time as chosen."""
    return segment.once(("wall", meaning), lambda: _wall(segment, meaning))


def _wall(segment: Segment, meaning: str | None) -> Wall | None:
    if not len(segment):
        return None
    for source, read in READERS:
        if segment.has(source):
            with np.errstate(all="ignore"):  # absurd values end in sums that are not believed below
                found = epoch_wall(segment, meaning) if source == "epoch_time_minutes" else read(segment, source)
            if found is not None and len(found) and LEAST_SECONDS < found.seconds.sum() < MOST_SECONDS:
                return _coarse(found)
    return None


def _from_timestamps(segment: Segment, source: str) -> Wall | None:
    clock = clock_seconds(segment, source)
    rows = np.flatnonzero(np.isfinite(clock))
    if len(rows) < 2:
        return None
    with np.errstate(over="ignore"):
        seconds = np.diff(clock[rows])
    dateless = clock[rows].max() < DAY
    midnight = (seconds <= -DAY / 2) & (seconds > -DAY) if dateless else np.zeros(len(seconds), dtype=bool)
    seconds = np.where(midnight, seconds + DAY, seconds)
    notes = (Text(MIDNIGHT, {"count": int(midnight.sum())}),) if midnight.any() else ()
    known = _between(segment, source, rows, seconds)
    repaired, more = _believed(segment, known)
    if dateless:
        return replace(repaired, notes=notes + more)
    return replace(repaired, notes=more, first=float(clock[rows[0]]), last=float(clock[rows[0]] + repaired.seconds.sum()))


def _from_elapsed(segment: Segment, source: str) -> Wall | None:
    """Elapsed time; it starts afresh with a restart, and with each epoch where scripts do so.

    A bare `time` may be the time of the day: it passes midnight, or was hours old when the first steps were done.
    """
    clock = segment.values(source)
    rows = np.flatnonzero((clock >= 0) & (clock <= LONGEST))
    if not len(rows) or (source == "time" and not _runs_on(clock[rows])):
        return None
    seconds = np.diff(clock[rows])
    midnight = _midnights(segment, rows, clock[rows]) if source == "time" else np.zeros(len(seconds), dtype=bool)
    seconds = np.where(midnight, seconds + DAY, np.where(seconds < 0, clock[rows[1:]], seconds))
    known = _between(segment, source, rows, seconds)
    pace = _usual(known)
    steps = segment.steps()[rows[0]]
    if midnight.any() or (source == "time" and DAY > clock[rows[0]] > max(OF_THE_DAY, 100 * pace * max(steps, 1.0))):
        notes = (Text(MIDNIGHT, {"count": int(midnight.sum())}),) if midnight.any() else ()
        return replace(_believed(segment, known)[0], notes=notes)
    usual = _gap(known.steps)
    # A clock that counts from the very first step of a run that was resumed covers all the steps before.
    covered = steps if steps <= 5 * usual or clock[rows[0]] > 0.5 * pace * steps else usual
    return _believed(segment, _with_first(known, rows[0], float(covered), float(clock[rows[0]])))[0]


def _midnights(segment: Segment, rows: np.ndarray, clock: np.ndarray) -> np.ndarray:
    """Say where a bare `time` that runs on passed midnight (m,): it fell by a day less what an interval may take."""
    moved = np.diff(clock)
    usual = float(np.median(np.abs(moved))) if len(moved) else 0.0
    fell = (moved <= -DAY / 2) & (moved + DAY <= 20 * usual) & (np.diff(segment.steps()[rows]) > 0)
    return fell & (moved > -DAY) & (clock.max() < DAY)


def _from_rows(segment: Segment, source: str) -> Wall | None:
    """A time of each row: seconds a step, or of the whole interval between rows."""
    values = segment.values(source)
    finite = (values >= 0) & (values <= LONGEST)
    if not finite.any() or (source == "time" and _runs_on(values[finite])):
        return None
    values = undone(segment, source)
    rows = np.flatnonzero((values >= 0) & (values <= LONGEST))
    if not len(rows):
        return None
    known = _between(segment, source, rows, values[rows[1:]])
    usual = _gap(known.steps)
    whole = _of_interval(segment, source, known, usual)
    if whole is None:
        return None
    begun = float(segment.steps()[rows[0]])
    known = _with_first(known, rows[0], usual if begun >= usual else begun, float(values[rows[0]]))
    if not whole:
        single = usual > 1 and not segment.has(*MEANS)
        known = replace(known, seconds=_once(known) if single else known.seconds * known.steps)
    return _believed(segment, known)[0]


def _of_interval(segment: Segment, source: str, known: Wall, usual: float) -> bool | None:
    """Say whether a printed time is that of the interval, not of one step; None where nothing tells.

    A bare `time` tells where rows are missing: twice the steps then take twice the time, or not.
    """
    if source != "time" or usual == 1:
        return source == "interval_runtime"
    if is_running_mean(segment, source):
        return False
    wider = known.steps > 1.3 * usual
    if wider.sum() < 3:
        return None
    ratio = known.steps[wider] / usual
    grew = known.seconds[wider] / max(float(np.median(known.seconds)), 1e-9)
    return bool(np.median(np.log(np.maximum(grew, 1e-9)) / np.log(ratio)) > 0.5)


def _once(known: Wall) -> np.ndarray:
    """Return steps × step time (m,), counting what stands out once: where only some steps are printed, a slow one says
    nothing of those between."""
    usual = float(np.median(known.seconds))
    return np.where(known.seconds > 2 * usual, usual * (known.steps - 1) + known.seconds, known.seconds * known.steps)


def _from_rate(segment: Segment, source: str) -> Wall | None:
    """A rate: needs what a row did, in its unit. Steps always do; tokens and samples as counted, samples by batch size."""
    rate = segment.values(source)
    done = _done(segment, source)
    if done is None:
        return None
    rows = np.flatnonzero((rate > 1e-9) & (rate < 1e15) & (np.abs(done) < 1e18))
    if len(rows) < 2:
        return None
    seconds = np.maximum(np.diff(done[rows]), 0) / rate[rows[1:]]
    return _believed(segment, _between(segment, source, rows, seconds))[0]


def _done(segment: Segment, source: str) -> np.ndarray | None:
    if source == "steps_per_second":
        return segment.steps()
    counter = "tokens_seen" if source == "tokens_per_second" else "samples_seen"
    if segment.has(counter):
        return segment.values(counter)
    if source == "samples_per_second" and segment.has("batch_size"):
        return np.nancumsum(segment.values("batch_size") * np.diff(segment.steps(), prepend=0))
    return None


def epoch_wall(segment: Segment, meaning: str | None) -> Wall | None:
    """Return the wall clock that follows from epoch_time, None while its meaning is not known."""
    known = epoch_clock(segment, meaning)
    if known is None:
        return None
    rows, seconds, unit_s = known
    between = _between(segment, "epoch_time_minutes", rows, np.maximum(np.diff(seconds), 0))
    steps = float(segment.steps()[rows[0]])
    return replace(_with_first(between, rows[0], steps, float(seconds[0])), unit_s=unit_s)


def _between(segment: Segment, source: str, rows: np.ndarray, seconds: np.ndarray) -> Wall:
    """Return the intervals between rows (m+1,) that took seconds (m,); a restart covers as many steps as a row usually does."""
    steps = np.diff(segment.steps()[rows])
    again = steps < 0
    steps = np.where((steps >= 0) & (steps < MOST_STEPS), steps, 0.0)
    steps = np.where(again, _gap(steps), steps)
    unit = _unit(segment, source, rows)
    return Wall(source, Text(SOURCES[source]), unit, rows[1:], steps, np.asarray(seconds, dtype=float), again)


def _with_first(known: Wall, row: int, steps: float, seconds: float) -> Wall:
    return replace(
        known,
        row=np.r_[row, known.row],
        steps=np.r_[max(steps, 1.0), known.steps],
        seconds=np.r_[seconds, known.seconds],
        opening=np.r_[True, known.opening],
    )


def _believed(segment: Segment, known: Wall) -> tuple[Wall, tuple[Text, ...]]:
    """Replace intervals that a clock can't have told by what their steps usually take; say how many."""
    back, leapt = known.seconds < 0, known.seconds > LEAP
    if not (back | leapt).any():
        return known, ()
    usual = _usual(replace(known, seconds=np.where(back | leapt, np.nan, known.seconds)))
    undone = _set_right(known, usual, back) & ~back & ~leapt
    notes = tuple(
        Text(template, {"count": int(bad.sum()), "line": segment.line(int(known.row[np.argmax(bad)])) or 0})
        for template, bad in ((RAN_BACK, back), (LEAPT, leapt), (SET_RIGHT, undone))
        if bad.any()
    )
    return replace(known, seconds=np.where(back | leapt | undone, usual * known.steps, known.seconds)), notes


def _set_right(known: Wall, usual: float, back: np.ndarray) -> np.ndarray:
    """Say which leaps of the clock undo each other (m,): it ran back and later ahead by as much, or the other way round."""
    beyond = known.seconds - usual * known.steps
    ahead = (beyond > max(60.0, 5 * usual)) & ~known.opening
    undone, last = np.zeros(len(back), dtype=bool), None
    for at in np.flatnonzero(back | ahead):
        if last is not None and back[at] != back[last] and abs(beyond[at] + beyond[last]) <= 0.1 * abs(beyond[last]):
            undone[[last, at]], last = True, None
        else:
            last = at
    return undone


def _usual(known: Wall) -> float:
    """Return the usual seconds a step, 0 where nothing tells."""
    with np.errstate(divide="ignore", invalid="ignore"):
        each = known.seconds / known.steps
    each = each[np.isfinite(each) & (each >= 0)]
    return float(np.median(each)) if len(each) else 0.0


def _gap(steps: np.ndarray) -> float:
    steps = steps[steps > 0]
    return float(np.median(steps)) if len(steps) else 1.0


def _unit(segment: Segment, source: str, rows: np.ndarray) -> float:
    if source not in ("timestamp", "elapsed_seconds", "time"):
        return 0.0
    seen = clock_seconds(segment, source)[rows[:1000]]
    seen = seen - np.floor(seen[0] / 60) * 60
    return next((unit for unit in UNITS if np.allclose(seen / unit, np.round(seen / unit), rtol=0, atol=1e-4)), 0.001)


def _runs_on(times: np.ndarray) -> bool:
    """Say whether a bare `time` is a clock that runs on, not the time of a row."""
    moved = np.diff(times)
    return len(moved) >= 3 and float(np.mean(moved >= 0)) > 0.95 and bool(np.median(moved) > 0)


def _coarse(known: Wall) -> Wall:
    """Take neighbours together until the unit of the clock does not matter; what begins a launch stays alone."""
    middle = float(np.median(known.seconds))
    count = int(min(np.ceil(LEAST_UNITS * known.unit_s / max(middle, 1e-9)), len(known)))
    count = max(min(count, len(known) // 20), len(known) // MOST, 1)
    if count <= 1:
        return known
    stretch = np.cumsum(known.opening | np.r_[False, known.opening[:-1]])
    place = np.arange(len(known))
    within = place - np.maximum.accumulate(np.where(np.diff(stretch, prepend=-1) != 0, place, 0))
    starts = np.flatnonzero((within % count == 0) | (np.diff(stretch, prepend=-1) != 0))
    return replace(
        known,
        row=known.row[np.r_[starts[1:] - 1, len(known) - 1]],
        steps=np.add.reduceat(known.steps, starts),
        seconds=np.add.reduceat(known.seconds, starts),
        opening=known.opening[starts],
    )


Reader = Callable[[Segment, str], Wall | None]
READERS: tuple[tuple[str, Reader], ...] = (
    ("timestamp", _from_timestamps),
    ("elapsed_seconds", _from_elapsed),
    ("step_time_seconds", _from_rows),
    ("interval_runtime", _from_rows),
    ("tokens_per_second", _from_rate),
    ("samples_per_second", _from_rate),
    ("steps_per_second", _from_rate),
    ("time", _from_elapsed),
    ("time", _from_rows),
    ("epoch_time_minutes", _from_elapsed),
)
