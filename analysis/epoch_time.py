"""What `epoch_time` means in this log: what is left of the epoch, what the whole epoch takes, or what has passed.

The same name is used for all three, and a value alone does not tell; its course does. Scripts work the first two out from
their mean pace so far, so each reading implies bounds of how much time had passed at each line. The true reading implies a
pace that is steady but for start-up; the wrong ones imply a pace that falls or rises all along, or time that runs back. How
unsteady is a number (`analysis.steady`). A meaning is told when every other needs a pace so much less steady that no wander,
and in few lines no slow stretch, makes up for it. A clock that the log prints beside it serves in place of the steps.

Until then the course does not decide. MiniMind and its many heirs print what is left (`spent / done * left // 60` or
`spent / done * all // 60 - spent // 60`): a log whose header is MiniMind's is read so. Where only the lines have its form,
there is no meaning; estimates go on that assumption, which is named as one, and hold what the other possible meanings would
make of them.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from analysis.clock_column import printed_seconds
from analysis.epoch_lines import Lines, lines_of
from analysis.epoch_pace import EITHER, MOST_LINES, ONE, TWO, pace_of
from analysis.epoch_steady import LONGEST_EPOCH, unsteady_reading
from analysis.segment import Segment
from analysis.steady import CAP
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
BY_PROGRAM = N_(
    "epoch_time is what is left of the epoch: the header of the log is MiniMind's, which prints it so "
    "(its course can't tell yet; lines so far: {rows})"
)
ASSUMED = N_(
    "what epoch_time means can't be told yet (lines so far: {rows}); it is taken as what is left of the epoch, "
    "as MiniMind prints it"
)
UNDECIDED = N_("what epoch_time means can't be told yet: its course within an epoch fits more than one meaning")

FORM_OF_MINIMIND = ("epochs", "lr")  # what its lines print beside their place in the epoch
HEADER_OF_MINIMIND = ("Model Params", "Trainable Params"), ("总参数量",), ("可训练总参数量",)  # any of these, in its words
MANY_LINES, LEAST_LINES, MOST_OUTAGES = 10, 3, 3
WANDER = 0.015  # the mean pace of a healthy run may be so unsteady (bench/cost.py), so a difference up to that says nothing
SLOW_STRETCH = 4.5  # ÷ lines³: what one slow stretch or hang may add, in few lines; in many it has a shape of its own
PLAUSIBLE, PLAUSIBLE_FEW = 0.2, 0.05  # unsteadiness of a reading that may be believed, in many lines and in few
FAR_OFF = 0.3  # unsteadiness of a reading that is none even with outages left out
AS_GOOD = 0.005  # a reading is assumed only if no other is steadier by more


@dataclass(frozen=True)
class EpochTime:
    """The meaning of epoch_time and what follows from it.

    meaning: remaining | elapsed | total, None if not decidable; assumed: what estimates take it for then, None for nothing;
    text: the same in words. possible: the meanings that the lines so far allow.
    step_minutes: minutes a step (low, middle, high) without the start-up, None without a reading; low and high are what the
    print allows. other_minutes: lowest and highest minutes a step by the other possible meanings, None where there are none.
    startup_minutes: how much longer the first steps took; resolution_minutes: print unit. epoch_steps: steps of an epoch.
    """

    meaning: str | None
    text: Text
    assumed: str | None = None
    possible: tuple[str, ...] = ()
    step_minutes: tuple[float, float, float] | None = None
    other_minutes: tuple[float, float] | None = None
    startup_minutes: float = 0.0
    resolution_minutes: float = 0.0
    epoch_steps: float = 1.0

    @property
    def reading(self) -> str | None:
        """What estimates go on: the meaning, else what is assumed."""
        return self.meaning or self.assumed

    @property
    def epoch_minutes(self) -> tuple[float, float, float] | None:
        """Return the minutes of a whole epoch (low, middle, high), start-up left out; None without a reading."""
        if self.step_minutes is None:
            return None
        low, middle, high = (self.epoch_steps * minutes for minutes in self.step_minutes)
        return low, middle, high


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
    """Return rows (m,), the seconds since the start of the launch at each (m,) and their unit; None without a reading."""
    known = epoch_time(segment, meaning)
    if known is None or known.step_minutes is None or known.reading is None:
        return None
    lines = lines_of(segment)
    # A value says less the more it is multiplied: then the law of the launch counts, within what the print allows.
    law = known.step_minutes[1] * lines.since + np.where(lines.stretch == 0, known.startup_minutes, 0.0)
    scale, (low, high) = lines.scale(known.reading), lines.bounds(known.reading)
    told = np.isfinite(scale)
    spent = law.copy()
    spent[told] = np.clip(law[told], low[told] * scale[told], high[told] * scale[told])
    last = np.flatnonzero(np.diff(lines.stretch, append=np.inf) != 0)
    before = np.r_[0.0, np.cumsum(spent[last])[:-1]]
    minutes = before[np.searchsorted(last, np.arange(len(spent)))] + spent
    return lines.row, 60 * np.maximum.accumulate(minutes), 60 * lines.unit


def _epoch_time(segment: Segment, chosen: str | None) -> EpochTime | None:
    lines = lines_of(segment)
    if not len(lines):
        return None
    in_form = segment.has(*FORM_OF_MINIMIND) and lines.unit == 1.0
    minimind = in_form and _is_minimind(segment)
    floors = ONE if not in_form else TWO if minimind else EITHER
    if chosen:
        return _fitted(lines, chosen, EpochTime(chosen, Text(CHOSEN[chosen])), floors)
    needed = _by_clock(segment, lines) or _by_steps(lines)
    order = sorted(MEANINGS, key=lambda name: needed[name])
    likely = order[0]
    if _tells(needed, len(lines)):
        return _fitted(lines, likely, EpochTime(likely, Text(MEANINGS[likely]), possible=(likely,)), floors)
    likely_enough = [name for name in MEANINGS if needed[name] <= 2 * needed[likely] + spare(len(lines)) and needed[name] < CAP]
    possible = tuple(name for name in likely_enough if _sane(lines, name))
    if minimind and "remaining" in possible:
        text = Text(BY_PROGRAM, {"rows": len(lines)})
        return _fitted(lines, "remaining", EpochTime("remaining", text, possible=possible), floors)
    size = float(lines.size[-1])
    known = EpochTime(None, Text(UNDECIDED), possible=possible, resolution_minutes=lines.unit, epoch_steps=size)
    assumed = in_form and "remaining" in possible and needed["remaining"] <= needed[likely] + AS_GOOD
    known = replace(known, other_minutes=_span(lines, [name for name in possible if not (assumed and name == "remaining")]))
    if not assumed:
        return known
    known = replace(known, assumed="remaining", text=Text(ASSUMED, {"rows": len(lines)}))
    return _fitted(lines, "remaining", known, floors)


def _is_minimind(segment: Segment) -> bool:
    """Say whether the log begins as MiniMind's does: with the sizes of the model, in its words."""
    return any(all(name in segment.config for name in names) for names in HEADER_OF_MINIMIND)


def _sane(lines: Lines, reading: str) -> bool:
    """Say whether a reading, without a start-up, implies an epoch that somebody would wait for."""
    known = _fitted(lines, reading, EpochTime(reading, Text(MEANINGS[reading])))
    return known.epoch_minutes is None or known.epoch_minutes[0] < LONGEST_EPOCH


def _span(lines: Lines, readings: Sequence[str]) -> tuple[float, float] | None:
    """Return the lowest and the highest minutes a step by some readings, None where they tell none."""
    fitted = (_fitted(lines, name, EpochTime(name, Text(MEANINGS[name]))).step_minutes for name in readings)
    found = [minutes for minutes in fitted if minutes is not None]
    longest = LONGEST_EPOCH / float(lines.size[-1])
    return (min(low for low, *_rest in found), min(max(high for *_rest, high in found), longest)) if found else None


def spare(lines: int) -> float:
    """Return by how much less steady than the best a reading may be that is still possible."""
    return WANDER + (SLOW_STRETCH / max(lines, 1) ** 3 if lines < MANY_LINES else 0.0)


def _tells(needed: dict[str, float], lines: int) -> bool:
    """Say whether the steadiest reading is the meaning: it may be believed, and the others can't be."""
    best, second = sorted(needed.values())[:2]
    plausible = PLAUSIBLE if lines >= MANY_LINES else PLAUSIBLE_FEW
    alone = lines >= LEAST_LINES and second > 2 * best + spare(lines)
    return best <= plausible and (alone or second >= CAP)


def _by_steps(lines: Lines) -> dict[str, float]:
    """Return how unsteady each reading is, steps being what a steady pace does.

    Where none fits, many lines are read with outages; those make much fit, so the others must then be far off.
    """
    few = lines.thinned(MOST_LINES)
    needed = {name: unsteady_reading(few, name, None) for name in MEANINGS}
    if len(lines) < MANY_LINES or min(needed.values()) <= PLAUSIBLE:
        return needed
    cut = {name: unsteady_reading(few, name, None, outages=min(len(lines) // MANY_LINES, MOST_OUTAGES)) for name in MEANINGS}
    return cut if sorted(cut.values())[1] > FAR_OFF else needed


def _by_clock(segment: Segment, lines: Lines) -> dict[str, float] | None:
    """Return the same beside a clock that the log prints, None where there is none or it does not decide."""
    seconds = printed_seconds(segment)
    if seconds is None or len(seconds) < 2 or not (segment.steps()[-1] > segment.steps()[0]):
        return None
    each = float((seconds[-1] - seconds[0]) / (segment.steps()[-1] - segment.steps()[0])) / 60
    if not each > 1e-9:
        return None
    minutes, first = seconds[lines.row] / 60, np.searchsorted(lines.stretch, lines.stretch)
    since = minutes - minutes[first] + each * lines.since[first]
    if not (since > 0).all():
        return None
    few = lines.thinned(MOST_LINES)
    at = np.searchsorted(lines.row, few.row)
    needed = {name: unsteady_reading(few, name, since[at], each=each) for name in MEANINGS}
    return needed if _tells(needed, MANY_LINES) else None


def _fitted(lines: Lines, reading: str, known: EpochTime, floors: str = ONE) -> EpochTime:
    """Add what the lines tell of the pace by a reading."""
    known = replace(known, resolution_minutes=lines.unit, epoch_steps=float(lines.size[-1]))
    found = pace_of(lines, reading, floors)
    return known if found is None else replace(known, step_minutes=found[0], startup_minutes=found[1])
