"""One run against itself: its phases, epochs or thirds side by side, each with its loss, its fall, its noise and its pace."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from analysis.compare.difference import second_difference_noise
from analysis.compare.subject import STEP, Subject
from analysis.phases import phases
from messages import N_, Text

PHASE, EPOCH, THIRD = "phase", "epoch", "third"
MOST = 60  # stages; of more epochs several make one
NAMES = {
    "warmup": N_("Warm-up"),
    "fast_fall": N_("Fast fall"),
    "slow_fall": N_("Slow fall"),
    "plateau": N_("Plateau"),
    "flat": N_("No fall yet"),
    EPOCH: N_("Epoch {first}"),
    "epochs": N_("Epochs {first}–{last}"),
    THIRD: N_("Third {first} of 3"),
}


@dataclass(frozen=True)
class Stage:
    """A stretch of a run: steps from `first` to `last`, the loss where it begins and ends.

    fall: share of the loss lost in it; noise: of one point, relative; step_seconds: median; lr: at its end. None: not in the
    log or too few points.
    """

    name: Text
    first: int
    last: int
    begins: float
    ends: float
    fall: float
    noise: float | None
    step_seconds: float | None
    lr: float | None

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON form."""
        return {**self.__dict__, "name": self.name.to_dict()}


def stages(subject: Subject, by: str = PHASE) -> tuple[Stage, ...]:
    """Return the stages of a run in order: `phase`, `epoch` or `third`; empty where its loss says too little."""
    curve = subject.curves.get(subject.main or "")
    if curve is None or len(curve) < 6:
        return ()
    found = (_stage(subject, name, first, last) for name, first, last in _cuts(subject, by, curve.step))
    return tuple(stage for stage in found if stage is not None)


def _cuts(subject: Subject, by: str, steps: np.ndarray) -> Iterator[tuple[Text, float, float]]:
    if by == PHASE:
        for phase in phases(subject.segment):
            yield Text(NAMES[phase.kind]), phase.first_step, phase.last_step
        return
    size = subject.last("steps_per_epoch")
    if by == EPOCH and size and size > 0:
        count = int(np.ceil(steps[-1] / size))
        together = max(1, -(-count // MOST))
        for number in range(0, count, together):
            last = min(number + together, count)
            name = (
                Text(NAMES[EPOCH], {"first": last})
                if together == 1
                else Text(NAMES["epochs"], {"first": number + 1, "last": last})
            )
            yield name, number * size + 1, last * size
        return
    edges = np.linspace(steps[0], steps[-1], 4)
    for number in range(3):
        yield Text(NAMES[THIRD], {"first": number + 1}), edges[number], edges[number + 1]


def _stage(subject: Subject, name: Text, first: float, last: float) -> Stage | None:
    curve = subject.curves[subject.main or ""]
    inside = (curve.step >= first) & (curve.step <= last)
    values = curve.value[inside]
    if len(values) < 2:
        return None
    part = max(len(values) // 10, 1)
    begins, ends = float(np.median(values[:part])), float(np.median(values[-part:]))
    positive = float(values.min()) > 0
    noise = second_difference_noise(np.log(values)) if positive and len(values) >= 8 else None
    fall = 1 - ends / begins if begins > 0 else 0.0
    lr = subject.curves.get("lr")
    rate = float(np.interp(last, lr.step, lr.value)) if lr is not None else None
    return Stage(name, int(first), int(last), begins, ends, fall, noise, _seconds(subject, first, last), rate)


def _seconds(subject: Subject, first: float, last: float) -> float | None:
    if subject.unit != STEP:
        return None
    printed = subject.curves.get("step_time_seconds")
    if printed is not None:
        inside = (printed.step >= first) & (printed.step <= last)
        return float(np.median(printed.value[inside])) if inside.any() else None
    ends = subject.seconds(np.array([first, last]))
    return float((ends[1] - ends[0]) / (last - first)) if ends is not None and last > first and subject.clock else None
