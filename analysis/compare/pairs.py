"""One run beside the base: what differs, how far they lie apart on each axis, where they part, what the change should do."""

import math
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, replace

import numpy as np

from analysis.compare.align import EQUAL, Aligned, aligned
from analysis.compare.conditions import Said
from analysis.compare.config_diff import Row
from analysis.compare.covered import Covered, covered
from analysis.compare.difference import SEED_SPREAD, Difference, difference, second_difference_noise, sentence
from analysis.compare.expected import Expectation, expectations
from analysis.compare.fairness import STEP, Fairness
from analysis.compare.state import Parting, parting, whole
from analysis.compare.subject import HIGHER_IS_BETTER, Subject
from messages import N_, Text

BETTER, WORSE, ALIKE, REPEATS, REFUSED, UNKNOWN = "better", "worse", "not_distinguishable", "repeats", "refused", "unknown"
BROKE = N_("{better} is better: {worse} broke down; where both still go they lie {difference} % apart {where}")
BROKE_ALONE = N_("{better} is better: {worse} broke down")
NO_FALL = N_(
    "{run} and {base} are not compared: their levels mean something else, and {metric} is not above zero throughout, "
    "so it has no fall relative to its start"
)
UNLIKE = math.log(20)  # between losses that did not break: no change of a configuration does that
TOO_FAR = N_(
    "{run} and {base} are not compared: one loss is {times:,} times the other, so they are losses of another kind, of other "
    "data, or one run goes on from a trained model"
)
NO_METRIC = N_("the runs print no metric in common, so only their configurations are compared")


@dataclass(frozen=True)
class View:
    """How runs are compared: over which axis (of which there are), in which metric, relative to the first loss or not.

    price: of one GPU-hour; spread: standard deviation between repeats; tests: how many pairs are looked at together.
    """

    axis: str | None
    axes: tuple[str, ...]
    metric: str | None
    relative: bool = False
    price: float | None = None
    spread: float = SEED_SPREAD
    tests: int = 1


@dataclass(frozen=True)
class Side:
    """A run in a pair: what it is called and what it says of its conditions."""

    subject: Subject
    said: Mapping[str, Said]
    name: str


@dataclass(frozen=True)
class Pair:
    """A run (its position) beside the base. kind: better | worse (than the base) | not_distinguishable | repeats | refused |
    unknown; text: the same as a sentence. differences: by axis. varied: the variables that differ. covered: the part of an
    epoch or plan behind it, where that is small.
    """

    run: int
    kind: str
    text: Text
    differences: Mapping[str, Difference]
    varied: tuple[Row, ...]
    parting: Parting | None = None
    expected: tuple[Expectation, ...] = ()
    covered: Covered | None = None


def pair_of(
    position: int,
    one: Side,
    base: Side,
    view: View,
    *,
    varied: tuple[Row, ...],
    fair: Fairness,
    broken: Set[str] = frozenset(),
) -> Pair:
    """Return a run beside the base; fair: what may be said of these two. broken: ids of runs that diverged or are NaN."""
    expected = expectations(base.subject, one.subject, base.said, one.said, varied, levels=fair.absolute)
    if fair.refusal is not None:
        return Pair(position, REFUSED, fair.refusal, {}, varied, None, expected)
    if view.metric is None or view.axis is None:
        return Pair(position, UNKNOWN, Text(NO_METRIC), {}, varied, None, expected)
    found: dict[str, Difference] = {}
    why, part, end = None, None, 0.0
    for axis in dict.fromkeys(("step", view.axis, *view.axes)):
        curves = _aligned(one, base, axis, view) if axis in view.axes and fair.allows(axis) else None
        if isinstance(curves, Aligned):
            if part is None and curves.log and len(curves) > 1:
                part = parting(curves, 0, 1, (one.name, base.name))
            found[axis] = _difference(curves, one.subject, base.subject, view)
            end = float(curves.x[-1]) if axis == view.axis else end
        elif axis == view.axis:
            why = curves
    if not fair.allows(view.axis):
        reason = next(reason for reason in fair.reasons if reason.level == STEP)
        return Pair(position, REFUSED, reason.text, found, varied, part, expected)
    if view.axis not in found:
        return Pair(position, UNKNOWN, why or Text(NO_METRIC), found, varied, part, expected)
    between = found[view.axis]
    down = [side.subject.id in broken for side in (one, base)]
    if down[0] != down[1]:
        return Pair(position, WORSE if down[0] else BETTER, _broke(one, base, between, down[0]), found, varied, part, expected)
    if view.relative and not between.log:
        gaps = {"run": one.name, "base": base.name, "metric": between.metric}
        return Pair(position, UNKNOWN, Text(NO_FALL, gaps), {}, varied, None, expected)
    if between.log and not view.relative and abs(between.value or 0.0) > UNLIKE:
        return Pair(position, REFUSED, _too_far(one, base, between), found, varied, part, expected)
    text = sentence(between, (one.name, base.name), told_apart=bool(varied), relative=view.relative)
    both = [one.subject, base.subject], [one.said, base.said]
    share = covered(*both, view.axis, end, price=view.price) if between.value is not None else None
    text = text if share is None else share.condition(text)
    return Pair(position, _kind(between, told_apart=bool(varied)), text, found, varied, part, expected, share)


def _aligned(one: Side, base: Side, axis: str, view: View) -> Aligned | Text:
    return aligned([one.subject, base.subject], [one.said, base.said], view.metric or "", axis, price=view.price)


def _difference(curves: Aligned, one: Subject, base: Subject, view: View) -> Difference:
    start = 0.0
    if curves.log and view.relative:
        both = [np.log(side.curves[curves.metric].value) for side in (one, base)]
        own = [second_difference_noise(values) for values in both]
        start = math.hypot(*(noise if math.isfinite(noise) else 0.0 for noise in own))
        curves = replace(curves, y=curves.y - np.array([[values[0]] for values in both]))
    better = curves.metric in HIGHER_IS_BETTER
    return difference(curves, 0, 1, higher_is_better=better, spread=view.spread, tests=view.tests, start=start)


def _broke(one: Side, base: Side, between: Difference, first: bool) -> Text:
    """Return the sentence about two runs of which one broke down, the first or the base."""
    better, worse = (base, one) if first else (one, base)
    if between.value is None or not between.log:
        return Text(BROKE_ALONE, {"better": better.name, "worse": worse.name})
    apart = whole(100 * -math.expm1(-min(abs(between.value), 50)))
    gaps = {"better": better.name, "worse": worse.name, "difference": apart, "where": Text(EQUAL[between.axis])}
    return Text(BROKE, gaps)


def _too_far(one: Side, base: Side, between: Difference) -> Text:
    """Return the sentence about two runs whose losses no configuration sets so far apart."""
    times = round(math.exp(min(abs(between.value or 0.0), 50)))
    return Text(TOO_FAR, {"run": one.name, "base": base.name, "times": times})


def _kind(found: Difference, *, told_apart: bool) -> str:
    if found.value is None:
        return UNKNOWN
    if not found.distinguishable:
        return ALIKE
    if not told_apart:
        return REPEATS
    return BETTER if found.first_is_better else WORSE


def best_of(pairs: Sequence[Pair], axis: str) -> Pair:
    """Return the pair whose run lies furthest ahead on an axis, of those that are told apart on it."""
    return min(pairs, key=lambda pair: _behind(pair, axis))


def _behind(pair: Pair, axis: str) -> float:
    return abs(pair.differences[axis].value or 0.0) * (-1 if pair.kind == BETTER else 1)
