"""How much of an epoch or of the plan two runs have in common: what is said of a small part holds for that part only."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from analysis.compare.align import Conditions, axis_of
from analysis.compare.state import whole
from analysis.compare.subject import Subject
from messages import N_, Text, listed

HALF = 0.5  # of an epoch or of the plan, from which on no condition is told
SAID = {
    "epoch": N_("{said}, over the first {share} % of an epoch only"),
    "plan": N_("{said}, over the first {share} % of the plan only"),
}
SAID_OF = {
    "epoch": N_("{run} over the first {share} % of an epoch only"),
    "plan": N_("{run} over the first {share} % of the plan only"),
}
BUT = N_("{said} ({conditions})")
NAMED, MORE = 3, "…"  # runs whose condition is told, what stands for the others


@dataclass(frozen=True)
class Covered:
    """share: 0…1, of what: epoch or plan."""

    share: float
    what: str

    def condition(self, said: Text) -> Text:
        """Return a sentence with the condition that it holds under."""
        return Text(SAID[self.what], {"said": said, "share": self.percent})

    @property
    def percent(self) -> float | int:
        """Return the share in percent, as it is printed."""
        return whole(100 * self.share)


def conditioned(said: Text, told: Sequence[tuple[str, Covered | None]]) -> Text:
    """Return a sentence about several runs beside a base with the condition that it holds under.

    told: the name of each run and its condition: where that is not the same for all, the runs that have one are named.
    """
    partial = [(run, its) for run, its in told if its is not None]
    if len(partial) == len(told) and len({(its.what, its.percent) for _run, its in partial}) == 1:
        return partial[0][1].condition(said)
    parts = [Text(SAID_OF[its.what], {"run": run, "share": its.percent}) for run, its in partial]
    more = [Text(MORE)] if len(parts) > NAMED else []
    return Text(BUT, {"said": said, "conditions": listed([*parts[:NAMED], *more])}) if parts else said


def covered(
    subjects: Sequence[Subject], said: Sequence[Conditions], axis: str, end: float, *, price: float | None = None
) -> Covered | None:
    """Return which small part of an epoch (else of the plan) runs have done where their common way ends, `end` in units of x.

    None where it is half of it or more, or where no log says how long it is. Of several runs the one that has done least.
    """
    for metric, what in (("steps_per_epoch", "epoch"), ("total_steps", "plan")):
        shares = [
            _steps(one, its, axis, end, price) / size
            for one, its in zip(subjects, said, strict=True)
            if (size := _size(one, metric))
        ]
        if shares:
            return Covered(min(shares), what) if 0 < min(shares) < HALF else None
    return None


def _size(one: Subject, metric: str) -> float | None:
    return one.last(metric) or (one.segment.total_steps if metric == "total_steps" else None)


def _steps(one: Subject, said: Conditions, axis: str, end: float, price: float | None) -> float:
    """Return the step that a run has reached at a value of an axis."""
    place = axis_of(one, said, axis, price=price)
    ends = [curve.step[-1] for curve in one.curves.values() if len(curve)]
    if place is None or not ends:
        return 0.0
    steps = np.linspace(0.0, max(ends), 1001)
    return float(np.interp(end, place(steps), steps))
