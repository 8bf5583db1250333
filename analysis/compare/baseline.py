"""A baseline: what a run (or the mean of a group of repeats) began with, how it fell, its pace and memory, its conditions.

It holds all that is needed to set another run beside it, so the deltas cost nothing and last when its rows have aged.
"""

import hashlib
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd

from analysis.compare.align import EQUAL
from analysis.compare.comparison import MOST, Comparison, compare
from analysis.compare.conditions import conditions
from analysis.compare.difference import SEED_SPREAD, second_difference_noise
from analysis.compare.fairness import BAR, REFUSE, STALE_BASELINE, Fairness
from analysis.compare.fairness import STEP as STEP_LEVEL
from analysis.compare.judged import Judged
from analysis.compare.numbers import numbers
from analysis.compare.pairs import ALIKE, BETTER, REFUSED, REPEATS, UNEXPLAINED, UNKNOWN, WORSE
from analysis.compare.subject import EPOCH, STEP, Curve, Subject
from analysis.segment import Segment
from messages import N_, Text

CURVE = 100  # points of the curve that are kept
FIRST_STEPS = 50  # points of the beginning, one by one
NOT_BESIDE = N_("the baseline “{name}” and this run have no steps in common that could be compared")
NOT_COMPARABLE = N_("not comparable with the baseline “{name}”: {why}")
BROKE = {
    BETTER: N_("better than the baseline “{name}”, which broke down"),
    WORSE: N_("worse than the baseline “{name}”: this run broke down"),
}
HIDDEN = N_("not distinguishable from the baseline “{name}” {where}, up to {end:,}: the noise hides any difference")
APART = N_("{amount} away from the baseline “{name}” {where}, up to {end:,}, and nothing in the logs tells the two apart")
WORDS = {
    BETTER: N_("better than the baseline “{name}” by {amount} {where}, up to {end:,}"),
    WORSE: N_("worse than the baseline “{name}” by {amount} {where}, up to {end:,}"),
    ALIKE: N_("not distinguishable from the baseline “{name}”: {amount} {where}, up to {end:,}"),
    REPEATS: APART,
    UNEXPLAINED: APART,
}


@dataclass(frozen=True)
class Baseline:
    """name, runs (ids). metric: of the curve; first: its first loss; steps, losses: the curve, its beginning point by point.

    noise: of one point, relative. step_seconds, memory (bytes), said: conditions; None where the log does not say. unit: what
    its steps count. program: what wrote its log, None of one that was kept before that was.
    """

    name: str
    runs: tuple[str, ...]
    metric: str | None
    first: float | None
    steps: tuple[float, ...]
    losses: tuple[float, ...]
    noise: float | None
    step_seconds: float | None
    memory: float | None
    said: Mapping[str, Any]
    unit: str = STEP
    program: str | None = None

    @cached_property
    def key(self) -> str:
        """What tells this edition of the baseline from any other."""
        return hashlib.sha256(repr((self.name, sorted(self.to_dict().items()))).encode()).hexdigest()[:16]

    def to_dict(self) -> dict[str, Any]:
        """Return the document that is kept."""
        plain = {name: getattr(self, name) for name in self.__dataclass_fields__ if name != "name"}
        return plain | {name: list(plain[name]) for name in ("runs", "steps", "losses")}

    @classmethod
    def from_dict(cls, name: str, data: Mapping[str, Any]) -> "Baseline":
        """Read back a kept document."""
        lists: dict[str, Any] = {key: tuple(data[key]) for key in ("runs", "steps", "losses")}
        plain = {key: data.get(key) for key in cls.__dataclass_fields__ if key not in ("name", "unit")}
        return cls(name, **{**plain, **lists, "unit": data.get("unit", STEP)})


@dataclass(frozen=True)
class Beside:
    """The loss of a run beside a baseline, at equal steps: what a comparison of the two says, as one of very many.

    kind: better | worse | not_distinguishable | repeats | refused | unknown, text: the same as a sentence. loss: relative to
    the baseline (0.03: 3 % more) up to `end` (a step), error: half of its interval; None where nothing can be said.
    repeat: the run is one more of the same configuration, and neither of the two broke down.
    """

    kind: str
    text: Text
    loss: float | None = None
    error: float | None = None
    end: float | None = None
    repeat: bool = False


@dataclass(frozen=True)
class Deltas:
    """A run beside a baseline; each delta is relative to it (0.03: 3 % more), None where one of the two does not tell.

    beside: its loss. stale: why the baseline does not fit this run, None where nothing says so.
    """

    baseline: Baseline
    beside: Beside
    first: float | None
    step_seconds: float | None
    memory: float | None
    stale: Text | None

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON form."""
        plain = {name: getattr(self, name) for name in ("first", "step_seconds", "memory")}
        plain |= {name: getattr(self.beside, name) for name in ("kind", "loss", "error", "end")}
        text = self.beside.text.to_dict()
        return {"baseline": self.baseline.name, **plain, "text": text, "stale": self.stale.to_dict() if self.stale else None}


def made_of(name: str, subjects: Sequence[Subject]) -> Baseline:
    """Return the baseline of a run or of repeats, whose curves are averaged where all have one. Raises ValueError without."""
    if not subjects:
        raise ValueError("A baseline needs a run.")
    lead = subjects[0]
    said = conditions(lead)
    metric = lead.main
    curves = [one.curves[metric] for one in subjects if metric and metric in one.curves]
    figures = [numbers(one, conditions(one), metric=metric) for one in subjects]
    steps, losses, noise = np.zeros(0), np.zeros(0), math.nan
    if curves:
        steps = _points(curves[0].step, min(float(curve.step[-1]) for curve in curves))
        losses = np.mean([np.interp(steps, curve.step, curve.value) for curve in curves], axis=0)
        if all(float(curve.value.min()) > 0 for curve in curves):
            noise = float(np.mean([second_difference_noise(np.log(curve.value)) for curve in curves])) / math.sqrt(len(curves))
    return Baseline(
        name,
        tuple(one.id for one in subjects),
        metric,
        _mean([one.first for one in figures]),
        tuple(steps.tolist()),
        tuple(losses.tolist()),
        noise if math.isfinite(noise) else None,
        _mean([one.step_seconds[1] if one.step_seconds else None for one in figures]),
        _mean([one.memory for one in figures]),
        {key: its.value for key, its in said.items()},
        lead.unit,
        lead.program,
    )


def _points(steps: np.ndarray, end: float) -> np.ndarray:
    """Return the steps that are kept: the first ones, then evenly to the end."""
    inside = steps[steps <= end]
    later = inside[np.unique(np.linspace(0, len(inside) - 1, CURVE).astype(int))] if len(inside) else inside
    return np.unique(np.r_[inside[:FIRST_STEPS], later])


def _mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return float(np.mean(known)) if known else None


def deltas(base: Baseline, one: Subject) -> Deltas:
    """Return a run beside a baseline, from what is kept of the baseline alone."""
    figures = numbers(one, conditions(one), metric=base.metric)
    seconds = figures.step_seconds[1] if figures.step_seconds else None
    pace, memory = _ratio(seconds, base.step_seconds), _ratio(figures.memory, base.memory)
    told = _compared(base, [], one, SEED_SPREAD)
    stale = next((reason.text for reason in told.fair.reasons if reason.code == STALE_BASELINE), None)
    return Deltas(base, _beside(base, told), _ratio(figures.first, base.first), pace, memory, stale)


def beside(
    base: Baseline,
    runs: Sequence[Subject],
    one: Subject,
    *,
    spread: float = SEED_SPREAD,
    judged: Mapping[str, Judged] | None = None,
) -> Beside:
    """Return the loss of a run beside a baseline: the judgement of a comparison, with an interval that never is narrower.

    runs: those of the baseline that are still there; without any what is kept of them stands for them. spread: between
    repeats, as far as it is known. judged: what their diagnoses say, by run. A comparison takes MOST runs at most, so no
    choice of runs makes more of a difference.
    """
    return _beside(base, _compared(base, runs, one, spread, judged))


def _compared(
    base: Baseline, runs: Sequence[Subject], one: Subject, spread: float, judged: Mapping[str, Judged] | None = None
) -> Comparison:
    """Return the comparison of a run with a baseline, at equal steps and as one of as many as a comparison takes."""
    subjects = [*(runs or [as_subject(base, one.program)]), one]
    among = MOST - 1
    return compare(subjects, axis="step", metric=base.metric, is_baseline=True, judged=judged, among=among, spread=spread)


def _beside(base: Baseline, told: Comparison) -> Beside:
    """Return what a comparison says of its last run beside its base."""
    pair, axis = told.pairs[-1], told.view.axis
    lead, one = told.sides[told.base].subject, told.sides[pair.run].subject
    gaps: dict[str, Any] = {"name": base.name}
    why = _forbidden(told.fair.about(lead.id, one.id))
    if why is not None:
        return Beside(REFUSED, Text(NOT_COMPARABLE, gaps | {"why": why}))
    if pair.broke and pair.kind in BROKE:
        return Beside(pair.kind, Text(BROKE[pair.kind], gaps))
    found = pair.differences.get(axis or "")
    same_axis = axis == ("epochs" if lead.unit == one.unit == EPOCH else "step")
    if found is None or found.relative is None or found.error is None or pair.kind not in WORDS or not same_axis:
        return Beside(UNKNOWN, Text(NOT_BESIDE, gaps))
    end = min(float(side.curves[found.metric].step[-1]) for side in (lead, one))
    gaps |= {"where": Text(EQUAL[found.axis]), "end": int(end)} | ({} if found.hidden else {"amount": found.beside_second})
    low, high = found.interval
    repeat = not told.broken & {lead.id, one.id} and any({told.base, pair.run} <= set(group) for group in told.groups)
    words = HIDDEN if found.hidden else WORDS[pair.kind]
    return Beside(pair.kind, Text(words, gaps), found.relative, (high - low) / 2, end, repeat)


def _forbidden(fair: Fairness) -> Text | None:
    """Return why levels do not compare at equal steps, None where they do."""
    forbids = (REFUSE, BAR, STEP_LEVEL)
    reasons = [reason for reason in fair.reasons if reason.level in forbids or reason.code == STALE_BASELINE]
    return min(reasons, key=lambda reason: reason.code != STALE_BASELINE).text if reasons else None


def as_subject(base: Baseline, program: str = "") -> Subject:
    """Return a run made of what is kept of a baseline; program: what wrote its log, where that was not kept."""
    step, value = np.asarray(base.steps), np.asarray(base.losses)
    program = program if base.program is None else base.program
    rows = pd.DataFrame({"step": step, base.metric: value} if base.metric else {"step": step})
    curves = {base.metric: Curve(step, value, np.ones(len(step)))} if base.metric and len(step) else {}
    return Subject(
        base.name, base.name, {}, Segment(0, rows), curves, given=base.said, rows=len(step), unit=base.unit, program=program
    )


def _ratio(mine: float | None, its: float | None) -> float | None:
    return mine / its - 1 if mine is not None and its else None
