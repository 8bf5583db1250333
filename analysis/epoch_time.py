"""What `epoch_time` means in this log: what is left of the epoch, what the whole epoch takes, or what has passed.

The same name is used for all three, and a value alone does not tell; its course does. Scripts work the first two out from
their mean pace so far, so each reading implies how much time had passed at each line: value × done / left, value × done /
all, or the value itself. The true reading implies a pace that is steady but for start-up, outages and slow stretches; the
wrong ones imply a pace that falls or rises all along, or time that runs back. A meaning is proved when the others are that
implausible, whole minutes taken as the floors that they are.

Until then it is not decidable. One convention then serves for estimates, and is said to be one: scripts that print whole
minutes under this name, in a line with the place in the epoch, the number of epochs and the learning rate, print what is
left (`spent / done * left // 60` or `spent / done * all // 60 - spent // 60`, MiniMind and its many heirs). It serves only
where the values fall as what is left does and no other reading fits them better.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from analysis.segment import Segment
from messages import N_, Text

MEANINGS = {
    "remaining": N_("epoch_time is what is left of the epoch (it falls to zero within it)"),
    "elapsed": N_("epoch_time is what has passed of the epoch (it rises within it)"),
    "total": N_("epoch_time is the time of a whole epoch (it does not change within it)"),
}
CHOSEN = {
    "remaining": N_("epoch_time is read as what is left of the epoch, as you chose"),
    "elapsed": N_("epoch_time is read as what has passed of the epoch, as you chose"),
    "total": N_("epoch_time is read as the time of a whole epoch, as you chose"),
}
CONVENTION = N_(
    "what epoch_time means can't be proved yet (lines so far: {rows}); it is read as what is left of the epoch, "
    "as scripts mean that print whole minutes"
)
UNDECIDED = N_("what epoch_time means can't be told yet: its course within an epoch fits more than one meaning")

CONVENTIONAL = ("epochs", "lr")  # what the lines of the convention print beside their place in the epoch

MOST_ROWS, MOST_STRETCHES, BLOCKS = 2000, 50, 8
PLAUSIBLE = 0.03  # mean deviation from a steady pace, as share of it, that a healthy run may have
LEAST_LINES, MANY_LINES = 3, 10  # below the first nothing is proved; the second tell a curve from a straight line
ALL_START = 0.2  # an epoch shorter than this share of its start-up is not believed
LONGEST_EPOCH = 30 * 24 * 60.0  # minutes: a reading that implies a longer epoch is not believed
ABSURD = 1e12  # minutes and steps that no run has: such values are not read
NEVER = 9.0  # the deviation of a reading that is impossible


@dataclass(frozen=True)
class EpochTime:
    """The meaning of epoch_time and what follows from it.

    meaning: remaining | elapsed | total, None if not decidable; text: the same in words.
    proved: the course shows it, or the user chose it; else `meaning` is a convention.
    step_minutes: minutes a step (low, middle, high) without the start-up, None while undecided; low and high are what the
    print allows. startup_minutes: how much longer the first steps took; resolution_minutes: print unit.
    epoch_steps: steps of an epoch. possible: the meanings that the lines so far allow.
    """

    meaning: str | None
    text: Text
    proved: bool = False
    step_minutes: tuple[float, float, float] | None = None
    startup_minutes: float = 0.0
    resolution_minutes: float = 0.0
    epoch_steps: float = 1.0
    possible: tuple[str, ...] = ()

    @property
    def epoch_minutes(self) -> tuple[float, float, float] | None:
        """Return the minutes of a whole epoch (low, middle, high), start-up left out; None while undecided."""
        if self.step_minutes is None:
            return None
        low, middle, high = (self.epoch_steps * minutes for minutes in self.step_minutes)
        return low, middle, high


@dataclass(frozen=True, eq=False)
class _Rows:
    """Printed values: their rows (m,); minutes, the middle of what the print allows; slack: half the width of that.

    done: steps done in the epoch; since: steps done since the epoch or a resume within it began; size: steps of an epoch;
    stretch: number of the epoch or resume; unit: the print unit in minutes.
    """

    row: np.ndarray
    minutes: np.ndarray
    slack: float
    done: np.ndarray
    since: np.ndarray
    size: np.ndarray
    stretch: np.ndarray
    unit: float

    def scale(self, meaning: str) -> np.ndarray:
        """Return by what a value is multiplied to tell the minutes passed (m,); infinite where nothing is left."""
        with np.errstate(divide="ignore"):
            return {
                "remaining": self.since / (self.size - self.done),
                "elapsed": np.ones(len(self.done)),
                "total": self.since / self.size,
            }[meaning]


def epoch_time(segment: Segment, meaning: str | None = None) -> EpochTime | None:
    """Return what epoch_time means in a launch, None where the log does not print it.

    meaning: the user's choice (remaining, elapsed, total); None lets the course decide. Raises ValueError for another word.
    """
    if meaning is not None and meaning not in MEANINGS:
        raise ValueError(f"epoch_time can't mean {meaning!r}; it can be: {', '.join(MEANINGS)}")
    if not segment.has("epoch_time_minutes", "steps_per_epoch"):
        return None
    return segment.once(("epoch_time", meaning), lambda: _epoch_time(segment, meaning))


def epoch_clock(segment: Segment, meaning: str | None = None) -> tuple[np.ndarray, np.ndarray, float] | None:
    """Return rows (m,), the seconds since the start of the launch at each (m,) and their unit; None while undecided."""
    known = epoch_time(segment, meaning)
    if known is None or known.step_minutes is None or known.meaning is None:
        return None
    rows = _rows(segment)
    # A value says less the more it is multiplied: then the law of the launch counts, within what the print allows.
    law = known.step_minutes[1] * rows.since + np.where(rows.stretch == 0, known.startup_minutes, 0.0)
    scale = rows.scale(known.meaning)
    told = np.isfinite(scale)
    passed = law.copy()
    passed[told] = np.clip(
        law[told], (rows.minutes[told] - rows.slack) * scale[told], (rows.minutes[told] + rows.slack) * scale[told]
    )
    last = np.flatnonzero(np.diff(rows.stretch, append=np.inf) != 0)
    before = np.r_[0.0, np.cumsum(passed[last])[:-1]]
    minutes = before[np.searchsorted(last, np.arange(len(passed)))] + passed
    return rows.row, 60 * np.maximum.accumulate(minutes), 60 * rows.unit


def _epoch_time(segment: Segment, chosen: str | None) -> EpochTime | None:
    rows = _rows(segment)
    if not len(rows.minutes):
        return None
    if chosen:
        return _answer(rows, chosen, Text(CHOSEN[chosen]), proved=True)
    odd = {name: _deviation(rows, name) for name in MEANINGS}
    best = min(odd, key=lambda name: odd[name])
    if _tells(rows, odd, best):
        return _answer(rows, best, Text(MEANINGS[best]), proved=True)
    if segment.has(*CONVENTIONAL) and rows.unit == 1.0 and _may_be_left(rows, odd):
        return _answer(rows, "remaining", Text(CONVENTION, {"rows": len(rows.minutes)}), proved=False)
    possible = tuple(name for name in MEANINGS if odd[name] <= 0.1 + 2 * odd[best] and _sane(rows, name))
    size = float(rows.size[-1])
    return EpochTime(None, Text(UNDECIDED), resolution_minutes=rows.unit, epoch_steps=size, possible=possible)


def _tells(rows: _Rows, odd: dict[str, float], best: str) -> bool:
    """Say whether the best reading is proved: the second best is implausible, and all the more so the fewer the lines.

    A total that falls is told from what is left by a start-up only, so it must be much the better reading, in many lines.
    """
    lines = len(rows.minutes)
    second = sorted(odd.values())[1]
    fits = lines >= MANY_LINES and odd[best] < 0.05 * second
    falls = best == "total" and rows.minutes[-1] < 0.9 * rows.minutes[0] and not fits
    needed = (0.1 + 0.45 / lines) * (2 if falls else 1)
    likely = 0.4 * second if lines >= 2 * BLOCKS else min(0.1 * second, 5 * PLAUSIBLE)
    return lines >= LEAST_LINES and second > needed and odd[best] < likely


def _may_be_left(rows: _Rows, odd: dict[str, float]) -> bool:
    """Say whether no reading fits better than what is left, and the last stretch falls by at least half of what is due.

    Due is what the steps done take off; a print unit more or less says nothing.
    """
    here = rows.stretch == rows.stretch[-1]
    minutes, left = rows.minutes[here], (rows.size - rows.done)[here]
    due = minutes[-1] * (left[0] - left[-1]) / max(left[-1], 1.0)
    return bool(minutes[0] - minutes[-1] >= due / 2 - rows.unit) and odd["remaining"] == min(odd.values())


def _sane(rows: _Rows, meaning: str) -> bool:
    """Say whether a reading implies an epoch that somebody would wait for."""
    scale = rows.scale(meaning)
    told = np.isfinite(scale)
    epoch = rows.minutes[told] * scale[told] / rows.since[told] * rows.size[told]
    return bool(len(epoch) and epoch.min() < LONGEST_EPOCH)


def _rows(segment: Segment) -> _Rows:
    minutes, size = segment.values("epoch_time_minutes"), segment.values("steps_per_epoch")
    printed = segment.has("step_printed") and segment.has("epoch")
    steps = segment.values("step_printed") if printed else segment.steps()
    known = np.isfinite(minutes) & np.isfinite(size) & np.isfinite(steps)
    whole = (size >= 1) & (size < ABSURD) & (size == np.floor(size))
    keep = np.flatnonzero(known & whole & (minutes >= 0) & (minutes < ABSURD) & (np.abs(steps) < ABSURD))
    keep = keep[np.unique(np.linspace(0, len(keep) - 1, min(len(keep), MOST_ROWS)).astype(int))] if len(keep) else keep
    minutes, size, steps = minutes[keep], size[keep], steps[keep]
    done = np.maximum(steps - size * np.floor(np.maximum(steps - 1, 0) / size), 0.5)
    stretch = np.cumsum(np.diff(done, prepend=0) <= 0)
    since = done - _starts(done, stretch)
    unit = next(
        (unit for unit in (1.0, 0.1, 0.01) if np.allclose(minutes / unit, np.round(minutes / unit), rtol=0, atol=1e-6)), 1e-3
    )
    middle = minutes + (unit / 2 if unit == 1.0 else 0.0)  # scripts floor whole minutes and round decimals
    return _Rows(keep, middle, unit / 2, done, since, size, stretch, unit)


def _starts(done: np.ndarray, stretch: np.ndarray) -> np.ndarray:
    """Return where in the epoch each stretch began (m,): at its start, or at a resume if its first line is far from it."""
    if not len(done):
        return done
    first = np.flatnonzero(np.diff(stretch, prepend=-1) != 0)
    gaps = np.diff(done)
    usual = float(np.median(gaps[gaps > 0])) if (gaps > 0).any() else float(done[0])
    began = np.where(done[first] > 3 * usual, np.maximum(done[first] - usual, 0.0), 0.0)
    return began[np.searchsorted(first, np.arange(len(done)), side="right") - 1]


def _deviation(rows: _Rows, meaning: str) -> float:
    """Return how implausible a reading is: 0 for a steady pace, NEVER at most, less what the print can't resolve.

    Blocks that deviate most are outages and slow stretches, and left out. A reading is taken at its best: with or without
    what passed before the first line, which may be start-up.
    """
    scale = rows.scale(meaning)
    ended = ~np.isfinite(scale)
    if (rows.minutes[ended] > 2 * rows.slack + PLAUSIBLE * rows.minutes.max()).any():
        return NEVER  # time is said to be left when nothing is
    blocks = [_blocks(rows, scale, here) for here in _stretches(rows, ~ended)]
    if not blocks:
        return 0.0
    whole = _unsteady(*(np.concatenate(parts) for parts in zip(*blocks, strict=True)), worst=0)[0]
    later = [(passed[1:], error[1:], steps[1:]) for passed, error, steps in blocks if len(steps) > 1]
    if not later:
        return whole
    late, pace = _unsteady(*(np.concatenate(parts) for parts in zip(*later, strict=True)))
    passed, error, steps = blocks[0]
    faster = max(pace - (passed[0] + error[0]) / steps[0], 0) / max(pace, 1e-12)  # start-up takes longer, never less
    return min(whole, late + faster + _all_start(passed, error, steps, float(rows.size[0])), NEVER)


def _unsteady(passed: np.ndarray, error: np.ndarray, steps: np.ndarray, *, worst: float = 0.25) -> tuple[float, float]:
    """Return (mean deviation from the middle pace without the worst share + 3 × share that runs back, middle pace)."""
    pace, wide = passed / steps, error / steps
    order = np.argsort(pace)
    weight = np.cumsum(1 / (wide + PLAUSIBLE * np.abs(pace) + 1e-12)[order])
    middle = float(pace[order][min(np.searchsorted(weight, weight[-1] / 2), len(pace) - 1)])
    odd = np.sort(np.maximum(np.abs(pace - middle) - wide, 0))
    deviation = odd[: len(odd) - int(worst * len(odd))].mean() / (abs(middle) + np.median(wide) + 1e-12)
    back = np.maximum(-passed - error, 0).sum() / np.abs(passed).sum() if passed.any() else 0.0
    return float(min(deviation + 3 * back, NEVER)), middle


def _all_start(passed: np.ndarray, error: np.ndarray, steps: np.ndarray, size: float) -> float:
    """Return 1 if starting up took so many times the whole epoch that nobody trains so, or time stands still; else 0."""
    most = (passed[1:].sum() + error[0] + error[-1]) / max(steps[1:].sum(), 1e-9) * size
    return float(most <= ALL_START * passed[0])


def _stretches(rows: _Rows, told: np.ndarray) -> Iterator[np.ndarray]:
    numbers = np.unique(rows.stretch)
    for number in numbers[:: max(len(numbers) // MOST_STRETCHES, 1)]:
        here = np.flatnonzero((rows.stretch == number) & told)
        if len(here):
            yield here


def _blocks(rows: _Rows, scale: np.ndarray, here: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return minutes passed, what the print can't resolve of them, and steps, in up to 9 blocks of one stretch (k,).

    The first block is that before the first line, start-up and all. Half as many where the print can't tell them apart.
    """
    for count in (BLOCKS, BLOCKS // 2):
        at = here[np.unique(np.linspace(0, len(here) - 1, count + 1).astype(int))]
        passed = np.diff(rows.minutes[at] * scale[at], prepend=0.0)
        error = (1.5 if rows.unit == 1.0 else 1.0) * rows.slack * scale[at]  # whole minutes may be rounded all the same
        error = error + np.r_[0.0, error[:-1]]
        if np.median(np.abs(passed)) > 3 * np.median(error):
            break
    return passed, error, np.diff(rows.since[at], prepend=0.0)


def _answer(rows: _Rows, meaning: str, text: Text, *, proved: bool) -> EpochTime:
    """Fit the minutes passed = start-up + pace × steps over the last stretch that has enough lines."""
    size = float(rows.size[-1])
    scale = rows.scale(meaning)
    told = np.isfinite(scale) & (scale > 0)
    if not told.any():
        return EpochTime(meaning, text, proved, None, 0.0, rows.unit, size)
    number = rows.stretch[told][-1]
    if number and (rows.stretch[told] == number).sum() < BLOCKS:
        number -= 1
    here = told & (rows.stretch == number) if (told & (rows.stretch == number)).any() else told
    passed, error, since = rows.minutes[here] * scale[here], rows.slack * scale[here], rows.since[here]
    pace, startup, wide = _line(since, passed, error)
    return EpochTime(meaning, text, proved, (max(pace - wide, 0.0), pace, pace + wide), startup, rows.unit, size)


def _line(since: np.ndarray, passed: np.ndarray, error: np.ndarray) -> tuple[float, float, float]:
    """Return (pace, start-up >= 0, half width of the pace that the print allows) from minutes passed (m,).

    The pace is that from the first line to those of the later half: between lines there is no start-up.
    """
    late = since > 0.5 * (since[0] + since[-1])
    steps, minutes, wide = since[late] - since[0], passed[late] - passed[0], error[late] + error[0]
    if late.sum() < LEAST_LINES or np.median(minutes) < 3 * np.median(wide):  # the print is too coarse for that
        steps, minutes, wide = since, passed, error
    weight = (steps / wide) ** 2
    pace = max(float(np.average(minutes / steps, weights=weight)), 0.0)
    startup = max(float(passed[0] - pace * since[0]), 0.0)
    return pace, startup, float(np.median(wide / steps) / np.sqrt(min(len(steps), 3)))
