"""The intervals of a launch between rows that tell the time: made from what rows print, repaired, taken together.

Clocks that run back or leap by more than a month are not believed there: such an interval counts as long as its steps
usually take, and the notes say so.
"""

from dataclasses import dataclass, replace

import numpy as np

from analysis.clock_column import clock_seconds
from analysis.segment import Segment
from messages import N_, Text

DAY = 86_400.0
MOST_STEPS = 1e9  # between two rows
LEAP = 30 * DAY  # no run is silent for longer than this: the clock was set
UNITS = (60.0, 6.0, 1.0, 0.6, 0.1, 0.06, 0.01)  # seconds in which clocks are printed: minutes, seconds, with 0 to 2 decimals
LEAST_UNITS = 3  # an interval is at least so many units of its clock long, else neighbours are taken together
MOST = 150_000  # intervals kept, about: of longer logs neighbours are taken together
RAN_BACK = N_("the clock ran back {count:,} times (first at line {line:,}); those intervals count as long as usual")
LEAPT = N_(
    "the clock leapt by more than 30 days {count:,} times (first at line {line:,}); those intervals count as long as usual"
)
SET_RIGHT = N_("the clock was set and set right again {count:,} times (first at line {line:,}); that is not counted as time")
SOURCES = {
    "timestamp": N_("the timestamps of the log"),
    "elapsed_seconds": N_("elapsed time as printed"),
    "step_time_seconds": N_("step time × steps: what lies between steps is not seen"),
    "tokens_per_second": N_("tokens ÷ tokens per second: what lies between steps is not seen"),
    "samples_per_second": N_("samples ÷ samples per second: what lies between steps is not seen"),
    "steps_per_second": N_("steps ÷ steps per second: what lies between steps is not seen"),
    "interval_runtime": N_("the printed time of each interval: what lies between intervals is not seen"),
    "time": N_("`time` as printed, taken as seconds"),
    "epoch_time_minutes": N_("epoch_time as printed"),
}


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


def between(segment: Segment, source: str, rows: np.ndarray, seconds: np.ndarray) -> Wall:
    """Return the intervals between rows (m+1,) that took seconds (m,); a restart covers as many steps as a row usually does."""
    steps = np.diff(segment.steps()[rows])
    again = steps < 0
    steps = np.where((steps >= 0) & (steps < MOST_STEPS), steps, 0.0)
    steps = np.where(again, usual_steps(steps), steps)
    unit = _unit(segment, source, rows)
    return Wall(source, Text(SOURCES[source]), unit, rows[1:], steps, np.asarray(seconds, dtype=float), again)


def with_first(known: Wall, row: int, steps: float, seconds: float) -> Wall:
    """Return the intervals with one before them, which ends at the first row that tells the time."""
    return replace(
        known,
        row=np.r_[row, known.row],
        steps=np.r_[max(steps, 1.0), known.steps],
        seconds=np.r_[seconds, known.seconds],
        opening=np.r_[True, known.opening],
    )


def believed(segment: Segment, known: Wall) -> tuple[Wall, tuple[Text, ...]]:
    """Replace intervals that a clock can't have told by what their steps usually take; say how many."""
    back, leapt = known.seconds < 0, known.seconds > LEAP
    if not (back | leapt).any():
        return known, ()
    usual = usual_seconds(replace(known, seconds=np.where(back | leapt, np.nan, known.seconds)))
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


def usual_seconds(known: Wall) -> float:
    """Return the usual seconds a step, 0 where nothing tells."""
    with np.errstate(divide="ignore", invalid="ignore"):
        each = known.seconds / known.steps
    each = each[np.isfinite(each) & (each >= 0)]
    return float(np.median(each)) if len(each) else 0.0


def usual_steps(steps: np.ndarray) -> float:
    """Return how many steps an interval usually covers, 1 where nothing tells."""
    steps = steps[steps > 0]
    return float(np.median(steps)) if len(steps) else 1.0


def _unit(segment: Segment, source: str, rows: np.ndarray) -> float:
    if source not in ("timestamp", "elapsed_seconds", "time"):
        return 0.0
    seen = clock_seconds(segment, source)[rows[:1000]]
    seen = seen - np.floor(seen[0] / 60) * 60
    return next((unit for unit in UNITS if np.allclose(seen / unit, np.round(seen / unit), rtol=0, atol=1e-4)), 0.001)


def coarse(known: Wall) -> Wall:
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
