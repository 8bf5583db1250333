"""Where the wall clock of a launch stood at each row: what a forecast and a ledger add up.

The rules about step time ask how long a step takes; here every second counts, pauses and outages too. Sources, best first:
the clock of the lines, elapsed time, step time times steps, a rate, a bare `time`, the course of `epoch_time`. A clock
without a date that falls by half a day or more has passed midnight.
"""

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from analysis.clock_column import clock_seconds
from analysis.epoch_time import epoch_clock, epoch_time
from analysis.intervals import DAY, Wall, believed, between, coarse, usual_seconds, usual_steps, with_first
from analysis.running_mean import is_running_mean, undone
from analysis.segment import Segment
from messages import N_, Text

LONGEST = 1e9  # seconds: a printed time beyond 30 years is no time
OF_THE_DAY = 3600.0  # seconds: a bare `time` that shows more at the first steps, and far more than they take, is no time passed
LEAST_SECONDS, MOST_SECONDS = 1e-6, 1e11  # of a whole launch; less or more is no clock
MEANS = ("skipped_iterations",)  # a column that only logs print whose step time is the mean of the interval (Megatron)
AS_WHAT_IS_LEFT = N_("epoch_time, taken as what is left of the epoch")
MIDNIGHT = N_("the clock has no date and passed midnight {count:,} times")


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
                return coarse(found)
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
    known = between(segment, source, rows, seconds)
    repaired, more = believed(segment, known)
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
    known = between(segment, source, rows, seconds)
    pace = usual_seconds(known)
    steps = segment.steps()[rows[0]]
    if midnight.any() or (source == "time" and DAY > clock[rows[0]] > max(OF_THE_DAY, 100 * pace * max(steps, 1.0))):
        notes = (Text(MIDNIGHT, {"count": int(midnight.sum())}),) if midnight.any() else ()
        return replace(believed(segment, known)[0], notes=notes)
    usual = usual_steps(known.steps)
    # A clock that counts from the very first step of a run that was resumed covers all the steps before.
    covered = steps if steps <= 5 * usual or clock[rows[0]] > 0.5 * pace * steps else usual
    return believed(segment, with_first(known, rows[0], float(covered), float(clock[rows[0]])))[0]


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
    known = between(segment, source, rows, values[rows[1:]])
    usual = usual_steps(known.steps)
    whole = _of_interval(segment, source, known, usual)
    if whole is None:
        return None
    begun = float(segment.steps()[rows[0]])
    known = with_first(known, rows[0], usual if begun >= usual else begun, float(values[rows[0]]))
    if not whole:
        single = usual > 1 and not segment.has(*MEANS)
        known = replace(known, seconds=_once(known) if single else known.seconds * known.steps)
    return believed(segment, known)[0]


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
    return believed(segment, between(segment, source, rows, seconds))[0]


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
    """Return the wall clock that follows from epoch_time, None without a reading of it; what is assumed is named."""
    clock, known = epoch_clock(segment, meaning), epoch_time(segment, meaning)
    if clock is None:
        return None
    rows, seconds, unit_s = clock
    intervals = between(segment, "epoch_time_minutes", rows, np.maximum(np.diff(seconds), 0))
    steps = float(segment.steps()[rows[0]])
    text = Text(AS_WHAT_IS_LEFT) if known is not None and known.assumed else intervals.text
    return replace(with_first(intervals, rows[0], steps, float(seconds[0])), unit_s=unit_s, text=text)


def _runs_on(times: np.ndarray) -> bool:
    """Say whether a bare `time` is a clock that runs on, not the time of a row."""
    moved = np.diff(times)
    return len(moved) >= 3 and float(np.mean(moved >= 0)) > 0.95 and bool(np.median(moved) > 0)


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
