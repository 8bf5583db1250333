"""Where the time of a run went: parts that do not overlap and add up to the whole, from the first line to the last.

Each second is put where it belongs first, in this order: steps that were done again after a restart (all of their time),
silence between launches, hangs, steps slower than the steady step, pauses for evaluations and checkpoints, steps until the
loss had made good a jump, steps after the loss was NaN for good, steps after it had gone up for good, starting up. What is
left was productive.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from analysis.findings import Finding
from analysis.intervals import LEAP, LEAST_UNITS, Wall
from analysis.lost import diverged, lost_row
from analysis.over import finished
from analysis.pace import HANG, HICCUP, PAUSE, RESTART, START_UP, Pace, pace
from analysis.segment import Segment
from messages import N_, Text

PARTS = {
    "lost_steps": N_("Steps done again after a restart"),
    "dead_gaps": N_("Silence before a restart"),
    "hangs": N_("Hangs"),
    "slow": N_("Steps slower than the steady step"),
    "pauses": N_("Pauses for evaluations and checkpoints"),
    "spikes": N_("Steps until a jump of the loss was made good"),
    "after_nan": N_("Steps after the loss was NaN for good"),
    "diverged": N_("Steps after the loss had gone up for good"),
    "start_up": N_("Starting up"),
    "productive": N_("Productive"),
}
SENTENCES = {
    "lost_steps": N_("{time} ({share:.1%}) went into steps that were done again, from step {step:,}"),
    "dead_gaps": N_("{time} ({share:.1%}) were silent before a restart, the longest before step {step:,}"),
    "hangs": N_("{time} ({share:.1%}) it hung, longest at step {step:,}"),
    "slow": N_("{time} ({share:.1%}) were lost by steps slower than the steady step, most around step {step:,}"),
    "pauses": N_("{time} ({share:.1%}) were pauses for evaluations and checkpoints, longest at step {step:,}"),
    "spikes": N_("{time} ({share:.1%}) went into making good a jump of the loss, around step {step:,}"),
    "after_nan": N_("{time} ({share:.1%}) it trained on after the loss was NaN, from step {step:,}"),
    "diverged": N_("{time} ({share:.1%}) it trained on after the loss had gone up for good, from step {step:,}"),
    "start_up": N_("{time} ({share:.1%}) were starting up, before step {step:,}"),
}
AMOUNT = N_("{amount:.3g} {unit}")
COARSE = N_("the clock counts in steps of {seconds:g} s: losses shorter than {least:g} s are not seen")
SEEN = 0.01  # share of the whole from which a loss that the clock does not resolve is worth a word
JUMPS = frozenset({"spike", "spike_unrecovered", "spike_cluster"})
SINCE = frozenset({"lost_steps", "after_nan", "diverged"})  # parts that are told by where they began
DONE = 0.99  # share of the plan from which a launch counts as finished: what comes after it does not undo it


@dataclass(frozen=True)
class Item:
    """One part: its name in PARTS, seconds, share of the whole, and the step at which most of it was spent or it began."""

    name: str
    seconds: float
    share: float
    step: int | None = None

    @property
    def title(self) -> Text:
        """Return what the part is called."""
        return Text(PARTS[self.name])

    @property
    def sentence(self) -> Text:
        """Return the part as a sentence with its amount, its share and its place."""
        amount, unit = readable(self.seconds)
        return self.told(Text(AMOUNT, {"amount": amount, "unit": Text(unit)}))

    def told(self, time: Text) -> Text:
        """Return the part as a sentence with its `time` in those words."""
        return Text(SENTENCES[self.name], {"time": time, "share": self.share, "step": self.step or 0})


@dataclass(frozen=True)
class Ledger:
    """Where `seconds` went: one item for each of PARTS that has any, in that order; source: what told the time.

    notes: what the clock can't tell or what was not believed. resolved: the log tells the time of two stretches at least that
    its clock resolves, so that a loss would be seen.
    """

    seconds: float
    items: tuple[Item, ...]
    source: Text
    notes: tuple[Text, ...] = ()
    resolved: bool = True

    def part(self, name: str) -> float:
        """Return the seconds of one part, 0 where there are none."""
        return next((item.seconds for item in self.items if item.name == name), 0.0)

    @property
    def goodput(self) -> float | None:
        """Return the productive share of the time, 0…1; None where no loss was found and none could be seen."""
        return self.part("productive") / self.seconds if self.resolved or self.waste else None

    @property
    def waste(self) -> tuple[Item, ...]:
        """Return the unproductive parts, largest first."""
        return tuple(sorted((item for item in self.items if item.name != "productive"), key=lambda item: -item.seconds))


@dataclass(frozen=True, eq=False)
class _Part:
    """The intervals of one launch, see Pace, and the step at which each ended (m,)."""

    segment: Segment
    pace: Pace
    ends: np.ndarray


def readable(seconds: float) -> tuple[float, str]:
    """Return an amount of time with the unit in which a person says it, a message of its own."""
    units = ((3600.0, N_("h")), (60.0, N_("min")))
    return next(((seconds / size, unit) for size, unit in units if seconds >= 2 * size), (seconds, N_("s")))


def ledger(segments: Sequence[Segment], *, findings: Sequence[Finding] = (), meaning: str | None = None) -> Ledger | None:
    """Return where the time of a run went, None where its log does not tell the time.

    findings: of the diagnosis; the jumps of the loss among them tell which steps were spent on making them good.
    meaning: of epoch_time, as the user chose.
    """
    parts = [_part(segment, known) for segment in segments if (known := pace(segment, meaning))]
    if not parts:
        return None
    lost = _lost(parts)
    spent: dict[str, float] = dict.fromkeys(PARTS, 0.0)
    most: dict[str, tuple[float, int | None]] = {}
    for number, part in enumerate(parts):
        for name, seconds in _spent(part, lost[number], findings).items():
            _book(spent, most, name, seconds, part)
    for before, after in zip(parts[:-1], parts[1:], strict=True):
        silent = _silence(before.pace, after.pace)
        spent["dead_gaps"] += silent
        if silent > most.get("dead_gaps", (0.0, None))[0]:
            most["dead_gaps"] = silent, after.segment.step(0)
    whole = sum(spent.values())
    items = tuple(
        Item(name, spent[name], spent[name] / whole, most.get(name, (0, None))[1]) for name in PARTS if spent[name] > 0
    )
    walls = [part.pace.wall for part in parts]
    notes = {note.render(): note for known in walls for note in (*known.notes, *_coarseness(known))}
    return Ledger(whole, items, walls[-1].text, tuple(notes.values()), any(map(_resolved, walls)))


def _resolved(known: Wall) -> bool:
    """Say whether two stretches at least of a launch are told that are long enough for its clock."""
    return len(known) > 1 and float(known.seconds.sum()) >= 2 * LEAST_UNITS * known.unit_s


def _coarseness(known: Wall) -> tuple[Text, ...]:
    """Say from which length on the clock of a launch sees a loss, where that is much of what it tells."""
    least = LEAST_UNITS * known.unit_s
    if not _resolved(known) or least < SEEN * float(known.seconds.sum()):
        return ()
    return (Text(COARSE, {"seconds": known.unit_s, "least": least}),)


def _part(segment: Segment, known: Pace) -> _Part:
    return _Part(segment, known, segment.steps()[known.wall.row])


def _book(
    spent: dict[str, float], most: dict[str, tuple[float, int | None]], name: str, seconds: np.ndarray, part: _Part
) -> None:
    spent[name] += float(seconds.sum())
    at = int(np.argmax(seconds > 0 if name in SINCE else seconds))
    if seconds[at] > 0 and (name not in most if name in SINCE else seconds[at] > most.get(name, (0.0, None))[0]):
        most[name] = float(seconds[at]), part.segment.step(int(part.pace.wall.row[at]))


def _spent(part: _Part, lost: np.ndarray, findings: Sequence[Finding]) -> dict[str, np.ndarray]:
    """Return the seconds (m,) of each part in the intervals of a launch; they add up to those of the clock."""
    known, seconds = part.pace, part.pace.wall.seconds
    kept = np.where(lost, 0.0, 1.0)
    slow = np.where(known.slow, np.clip((known.level - known.reference) * known.wall.steps, 0, known.running), 0.0)
    steps = known.running - slow
    jump, nan, up = _jumps(part, findings), _after_nan(part), _gone_up(part, findings)
    again = "dead_gaps" if known.wall.source == "timestamp" else "start_up"
    found = {
        "lost_steps": seconds * lost,
        "hangs": kept * _of(known, HANG),
        "slow": kept * (slow + _of(known, HICCUP)),
        "pauses": kept * _of(known, PAUSE),
        "spikes": kept * steps * jump,
        "after_nan": kept * steps * (nan & ~jump),
        "diverged": kept * steps * (up & ~(nan | jump)),
        "start_up": kept * _of(known, START_UP),
        "productive": kept * steps * ~(nan | jump | up),
    }
    found[again] = found.get(again, 0.0) + kept * _of(known, RESTART)
    return found


def _of(known: Pace, kind: int) -> np.ndarray:
    return np.where(known.kind == kind, known.extra, 0.0)


def _lost(parts: Sequence[_Part]) -> list[np.ndarray]:
    """Say which intervals did steps that were done again later (m,), for each launch."""
    again = np.inf
    lost: list[np.ndarray] = []
    for number in range(len(parts) - 1, -1, -1):
        part = parts[number]
        ends, opening = part.ends, part.pace.wall.opening
        begins = np.where(opening, ends - part.pace.wall.steps, np.inf)
        begins[0] = np.inf  # the start of the launch itself concerns the launches before
        later = np.minimum.accumulate(np.r_[begins, again][::-1])[::-1][1:]
        lost.insert(0, ends > later)
        start = float(ends[0] - part.pace.wall.steps[0])
        again = min(again, start)
        if number and (parts[number - 1].segment.total_steps != part.segment.total_steps or _done(parts[number - 1])):
            again = np.inf  # another run in the same file, or one that was done
    return lost


def _done(part: _Part) -> bool:
    """Say whether a launch came to the end of its plan, or said that it was finished."""
    total = part.segment.total_steps
    return finished(part.segment) or (total is not None and float(part.ends[-1]) >= DONE * total)


def _silence(before: Pace, after: Pace) -> float:
    """Return the seconds between the last line of a launch and the first of the next, 0 where the clock can't tell."""
    if before.wall.last is None or after.wall.first is None:
        return 0.0
    silent = after.wall.first - before.wall.last
    return silent if 0 < silent < LEAP else 0.0


def _jumps(part: _Part, findings: Sequence[Finding]) -> np.ndarray:
    """Say which intervals lie in a jump of the loss, until it was made good (m,); one that lasts is no such jump."""
    inside = np.zeros(len(part.ends), dtype=bool)
    for finding in findings:
        lasts = finding.kind == "spike_unrecovered" and finding.last_step is None
        if finding.kind in JUMPS and finding.segment == part.segment.number and finding.first_step is not None and not lasts:
            last = np.inf if finding.last_step is None else finding.last_step
            inside |= (part.ends >= finding.first_step) & (part.ends <= last)
    return inside


def _after_nan(part: _Part) -> np.ndarray:
    """Say which intervals come after the last finite loss, where NaN or infinite ones follow to the end (m,)."""
    row = lost_row(part.segment)
    return np.zeros(len(part.ends), dtype=bool) if row is None else part.pace.wall.row >= row


def _gone_up(part: _Part, findings: Sequence[Finding]) -> np.ndarray:
    """Say which intervals come after the loss went up for good (m,)."""
    found = diverged(part.segment, findings)
    return np.zeros(len(part.ends), dtype=bool) if found is None else part.ends >= found.first_step
