"""A run on one GPU and one on several: do their curves have the same shape, and what to suspect, in order, if not.

On the same data a job on more devices should fall along the same curve. Where it does not, the division of the data and the
seeds come first, communication and synchronisation after them.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from analysis.compare.align import Aligned, aligned, axis_of
from analysis.compare.conditions import Said, amount
from analysis.compare.subject import Subject
from messages import N_, Text

AXES = ("tokens", "samples", "epochs", "progress", "step")
ALIKE = 0.9  # score from which two curves have the same shape
LEAST_POINTS = 8
WORKS = 0.7  # share of the ideal speed-up below which communication takes more than it should
SUSPICIONS = ("data", "seed", "communication")


@dataclass(frozen=True)
class Suspicion:
    """A cause to look at: data | seed | communication; what it is, and what the logs say for it (None: nothing)."""

    cause: str
    text: Text
    evidence: Text | None

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON form."""
        return {
            "cause": self.cause,
            "text": self.text.to_dict(),
            "evidence": self.evidence.to_dict() if self.evidence else None,
        }


@dataclass(frozen=True)
class Shape:
    """How alike two curves are: score 0…1 over `axis`, its sentence; suspicions in order where they are not alike."""

    score: float
    axis: str
    text: Text
    suspicions: tuple[Suspicion, ...]


CAUSES = {
    "data": N_("division of the data: every process may train on all of it"),
    "seed": N_("seeds: processes may draw the same samples and dropout masks, or start from different weights"),
    "communication": N_("communication and synchronisation of the gradients"),
}


def curve_shape(
    single: Subject, several: Subject, said: tuple[Mapping[str, Said], Mapping[str, Said]], names: tuple[str, str]
) -> Shape | Text:
    """Return how alike the curves of a single-GPU and a multi-GPU run are, or why that can't be told."""
    metric = single.main
    if metric is None or metric not in several.curves:
        return Text(N_("the two runs print no loss in common"))
    axis = next(axis for axis in AXES if all(_has(one, its, axis) for one, its in zip((single, several), said, strict=True)))
    curves = aligned([single, several], list(said), metric, axis)
    if isinstance(curves, Text):
        return curves
    if len(curves) < LEAST_POINTS or not curves.log:
        return Text(N_("too few common points to compare the shape of the curves: {count}"), {"count": len(curves)})
    score = _score(curves)
    gaps = {"score": float(f"{100 * score:.3g}"), "a": names[0], "b": names[1]}
    if score >= ALIKE:
        return Shape(score, axis, Text(N_("the curves of {a} and {b} have the same shape (score {score} of 100)"), gaps), ())
    text = Text(N_("the curves of {a} and {b} have different shapes (score {score} of 100); suspect in this order"), gaps)
    return Shape(score, axis, text, tuple(_suspicions(single, several, said, curves)))


def _has(one: Subject, said: Mapping[str, Said], axis: str) -> bool:
    return axis_of(one, said, axis) is not None


def _score(curves: Aligned) -> float:
    """Return 1 less the mean distance of the two falls, each smoothed, as shares of the larger of them."""
    part = max(len(curves) // 20, 1)
    kernel = np.ones(part) / part
    a, b = (np.convolve(row, kernel, mode="valid") for row in curves.y)
    fall = max(abs(a[0] - a[-1]), abs(b[0] - b[-1]), 1e-9)
    return float(max(0.0, 1 - 2 * np.mean(np.abs((a - a[0]) - (b - b[0]))) / fall))


def _suspicions(single: Subject, several: Subject, said: Sequence[Mapping[str, Said]], curves: Aligned) -> list[Suspicion]:
    found = {"data": _data(single, several, said), "seed": _seed(said), "communication": _communication(single, several, said)}
    return [Suspicion(cause, Text(CAUSES[cause]), found[cause]) for cause in SUSPICIONS]


def _data(single: Subject, several: Subject, said: Sequence[Mapping[str, Said]]) -> Text | None:
    sizes = single.last("steps_per_epoch"), several.last("steps_per_epoch")
    gpus = amount(said[1]["gpus"].value) if "gpus" in said[1] else None
    same_batch = "batch" in said[0] and "batch" in said[1] and said[0]["batch"].value == said[1]["batch"].value
    if not sizes[0] or not sizes[1] or not gpus or gpus < 2:
        return None
    if abs(sizes[1] / sizes[0] - 1) < 0.02 and same_batch:
        gaps = {"steps": int(sizes[1]), "gpus": int(gpus), "share": int(sizes[0] / gpus)}
        return Text(N_("an epoch has {steps:,} steps on {gpus} GPUs too; divided among them it would have {share:,}"), gaps)
    return None


def _seed(said: Sequence[Mapping[str, Said]]) -> Text | None:
    seeds = [one["seed"].value if "seed" in one else None for one in said]
    if seeds[0] is None or seeds[1] is None:
        return Text(N_("the logs do not print the seeds"))
    if seeds[0] != seeds[1]:
        return Text(N_("the seeds differ: {a} and {b}"), {"a": str(seeds[0])[:40], "b": str(seeds[1])[:40]})
    return None


def _communication(single: Subject, several: Subject, said: Sequence[Mapping[str, Said]]) -> Text | None:
    gpus = [amount(one["gpus"].value) if "gpus" in one else None for one in said]
    rates = [_rate(one) for one in (single, several)]
    if rates[0] is None or rates[1] is None or not gpus[1] or gpus[1] < 2:
        return None
    ideal = gpus[1] / (gpus[0] or 1.0)
    share = rates[1] / rates[0] / ideal
    if share >= WORKS:
        return None
    gaps = {"gpus": int(gpus[1]), "times": float(f"{rates[1] / rates[0]:.2g}"), "ideal": float(f"{ideal:.2g}")}
    return Text(N_("{gpus} GPUs process {times}× as much a second; {ideal}× would be ideal"), gaps)


def _rate(one: Subject) -> float | None:
    for metric in ("tokens_per_second", "samples_per_second"):
        curve = one.curves.get(metric)
        if curve is not None and len(curve):
            return float(np.median(curve.value))
    return None
