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

from analysis.compare.align import Aligned, common_points
from analysis.compare.conditions import Said, conditions, kinds, listed
from analysis.compare.config_diff import DIFFERENT, EQUAL, ConfigDiff, diff_of
from analysis.compare.difference import LEAST, difference, second_difference_noise
from analysis.compare.fairness import BATCH_APART, STALE, batch_ratio
from analysis.compare.numbers import numbers
from analysis.compare.pairs import ALIKE, BETTER, REFUSED, UNKNOWN, WORSE
from analysis.compare.subject import HIGHER_IS_BETTER, LINE, STEP, Curve, Subject
from messages import N_, Text

CURVE = 100  # points of the curve that are kept
FIRST_STEPS = 50  # points of the beginning, one by one
NOT_BESIDE = N_("the baseline “{name}” and this run have no steps in common that could be compared")
WORDS = {
    BETTER: N_("better than the baseline “{name}” by {difference} % ± {error} up to step {step:,}"),
    WORSE: N_("worse than the baseline “{name}” by {difference} % ± {error} up to step {step:,}"),
    ALIKE: N_("not distinguishable from the baseline “{name}”: {difference} % ± {error} up to step {step:,}"),
}


@dataclass(frozen=True)
class Baseline:
    """name, runs (ids). metric: of the curve; first: its first loss; steps, losses: the curve, its beginning point by point.

    noise: of one point, relative. step_seconds, memory (bytes), said: conditions; None where the log does not say. unit: what
    its steps count.
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
    """The loss of a run beside a baseline, at equal steps.

    kind: better | worse | not_distinguishable | refused | unknown, text: the same as a sentence. loss: relative to the
    baseline (0.03: 3 % more) up to `step`, error: half of its interval; None where nothing can be said.
    """

    kind: str
    text: Text
    loss: float | None = None
    error: float | None = None
    step: float | None = None


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
        plain |= {name: getattr(self.beside, name) for name in ("kind", "loss", "error", "step")}
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
    """Return a run beside a baseline."""
    said = conditions(one)
    figures = numbers(one, said, metric=base.metric)
    seconds = figures.step_seconds[1] if figures.step_seconds else None
    pace, memory = _ratio(seconds, base.step_seconds), _ratio(figures.memory, base.memory)
    pair = _pair(base, {name: its.value for name, its in said.items()})
    level = beside(base, one.curves.get(base.metric or ""), pair, unit=one.unit)
    return Deltas(base, level, _ratio(figures.first, base.first), pace, memory, _stale(base, pair))


def light_beside(base: Baseline, curve: Curve | None, said: Mapping[str, Any], *, unit: str = STEP) -> Beside:
    """Return the loss of a run beside a baseline from its curve and its conditions by name alone: for lists of many runs."""
    return beside(base, curve, _pair(base, said), unit=unit)


def beside(base: Baseline, curve: Curve | None, pair: ConfigDiff, *, unit: str) -> Beside:
    """Return the loss of a run beside a baseline; pair: what differs between the two."""
    reason = _stale(base, pair) or _barred(base, pair)
    if reason is not None:
        return Beside(REFUSED, reason)
    gaps: dict[str, Any] = {"name": base.name}
    if curve is None or len(curve) < LEAST or len(base.steps) < LEAST or unit != base.unit or unit == LINE:
        return Beside(UNKNOWN, Text(NOT_BESIDE, gaps))
    curves = _aligned(base, curve)
    if curves is None:
        return Beside(UNKNOWN, Text(NOT_BESIDE, gaps))
    found = difference(curves, 0, 1, higher_is_better=base.metric in HIGHER_IS_BETTER)
    if found.value is None or found.relative is None or found.error is None:
        return Beside(UNKNOWN, Text(NOT_BESIDE, gaps))
    kind = ALIKE if found.first_is_better is None else BETTER if found.first_is_better else WORSE
    amount, error = found.percent
    gaps |= {"difference": amount, "error": error, "step": int(curves.x[-1])}
    low, high = found.interval
    return Beside(kind, Text(WORDS[kind], gaps), found.relative, (high - low) / 2, float(curves.x[-1]))


def _aligned(base: Baseline, curve: Curve) -> Aligned | None:
    """Return the run (first) and the baseline on common steps, None where they have too few.

    A baseline keeps points of its curve, not means around them: so the run is taken at the same points.
    """
    both = [(curve.step, curve.value), (np.asarray(base.steps), np.asarray(base.losses))]
    places = [step for step, _value in both]
    low, high = max(float(x[0]) for x in places), min(float(x[-1]) for x in places)
    inside = [int(np.sum((x >= low) & (x <= high))) for x in places]
    if low > high or min(inside) < LEAST:
        return None
    log = base.metric not in HIGHER_IS_BETTER and all(float(value.min()) > 0 for _step, value in both)
    x = common_points(places, inside, low, high)
    y = np.array([np.interp(x, step, np.log(value) if log else value) for step, value in both])
    return Aligned(base.metric or "", "step", x, y, log, (inside[0], inside[1]))


def _ratio(mine: float | None, its: float | None) -> float | None:
    return mine / its - 1 if mine is not None and its else None


def _pair(base: Baseline, said: Mapping[str, Any]) -> ConfigDiff:
    mine, its = ({key: Said(value, "given") for key, value in one.items()} for one in (said, base.said))
    return diff_of([its, mine], [{}, {}])


def _stale(base: Baseline, pair: ConfigDiff) -> Text | None:
    """Return why a baseline is stale: parallelism, batch or data are not those that it was made with."""
    changed = [row for row in pair.rows if row.status == DIFFERENT and row.key in STALE]
    if not changed:
        return None
    gaps = {"name": base.name, "what": listed(Text(row.title) for row in changed)}
    return Text(N_("the baseline “{name}” is stale: it was made with another {what}; make a new one"), gaps)


def _barred(base: Baseline, pair: ConfigDiff) -> Text | None:
    """Return why losses do not compare with those of the baseline at equal steps, None where nothing says so."""
    changed = [row for row in pair.rows if row.known and row.status == DIFFERENT and kinds()[row.key].bars == "absolute"]
    sizes = pair.row("effective_batch")
    if sizes is None or sizes.status != EQUAL:
        changed += [row for row in pair.rows if row.status == DIFFERENT and row.key == "accumulation"]
    ratio, row = batch_ratio(pair)
    if row is not None and ratio is not None and not 1 / BATCH_APART < ratio < BATCH_APART:
        changed = [*changed, row]
    if not changed:
        return None
    gaps = {"name": base.name, "what": listed(Text(row.title) for row in changed)}
    return Text(N_("not comparable with the baseline “{name}”: it was made with another {what}"), gaps)
