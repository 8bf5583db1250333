"""One run beside the base: what differs, how far they lie apart on each axis, where they part, what the change should do."""

import math
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from analysis.compare.align import Aligned, aligned
from analysis.compare.conditions import Said
from analysis.compare.config_diff import Row
from analysis.compare.covered import Covered, covered
from analysis.compare.difference import SEED_SPREAD, Difference, difference, second_difference_noise, sentence
from analysis.compare.expected import Expectation, expectations
from analysis.compare.fairness import OTHER_PROGRAM, STEP, Fairness
from analysis.compare.state import Parting, parting
from analysis.compare.subject import HIGHER_IS_BETTER, Subject
from messages import N_, Text

BETTER, WORSE, ALIKE, REPEATS, REFUSED, UNKNOWN = "better", "worse", "not_distinguishable", "repeats", "refused", "unknown"
UNEXPLAINED = "unexplained"
BROKE = N_("{better} is better: {worse} broke down")
DOUBTFUL = N_("{run} has the lower loss, which is not to be believed before it is explained: {said}")
BOTH_BROKE = N_("{run} and {base} both broke down: neither is better")
BROKE_ELSEWHERE = N_(
    "{worse} broke down and {better} did not; nothing says that they trained on the same, so neither is called better"
)
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
NO_AXIS = N_("the runs have no x axis in common (steps, epochs, tokens, time), so only their configurations are compared")


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
    """A run (its position) beside the base.

    kind: better | worse (than the base) | not_distinguishable | repeats (of one configuration, apart by chance) | unexplained
    (apart, and nothing in the logs says why) | refused | unknown; text: the same as a sentence. differences: by axis, without
    intervals where one broke down. varied: the variables that differ. covered: the part of an epoch or plan behind it, where
    that is small. broke: one of the two broke down.
    """

    run: int
    kind: str
    text: Text
    differences: Mapping[str, Difference]
    varied: tuple[Row, ...]
    parting: Parting | None = None
    expected: tuple[Expectation, ...] = ()
    covered: Covered | None = None
    broke: bool = False


def pair_of(
    position: int,
    one: Side,
    base: Side,
    view: View,
    *,
    varied: tuple[Row, ...],
    fair: Fairness,
    broken: Set[str] = frozenset(),
    kin: bool = True,
    doubts: Mapping[str, Text] | None = None,
) -> Pair:
    """Return a run beside the base; fair: what may be said of these two.

    broken: ids of runs that diverged, collapsed or are NaN. kin: the two are known to be repeats of one configuration, if
    nothing differs. doubts: by id of a run, why its loss is lower than it can be.
    """
    expected = expectations(base.subject, one.subject, base.said, one.said, varied, levels=fair.absolute)
    if fair.refusal is not None:
        return Pair(position, REFUSED, fair.refusal, {}, varied, None, expected)
    if view.metric is None or view.axis is None:
        why_not = NO_METRIC if view.metric is None else NO_AXIS
        return Pair(position, UNKNOWN, Text(why_not), {}, varied, None, expected)
    axes = [axis for axis in dict.fromkeys(("step", view.axis, *view.axes)) if axis in view.axes and fair.allows(axis)]
    curves = {axis: _aligned(one, base, axis, view) for axis in axes}
    common = {axis: its for axis, its in curves.items() if isinstance(its, Aligned)}
    found = {axis: _difference(its, one.subject, base.subject, view) for axis, its in common.items()}
    tell = [its for its in common.values() if its.log and len(its) > 1] if fair.absolute else []
    part = parting(tell[0], 0, 1, (one.name, base.name)) if tell else None
    if not fair.allows(view.axis):
        reason = next(reason for reason in fair.reasons if reason.level == STEP)
        return Pair(position, REFUSED, reason.text, found, varied, part, expected)
    if view.axis not in common:
        why = curves.get(view.axis)
        return Pair(position, UNKNOWN, why if isinstance(why, Text) else Text(NO_METRIC), found, varied, part, expected)
    between = found[view.axis]
    down = [side.subject.id in broken for side in (one, base)]
    if any(down):
        found = {axis: replace(each, error=None, distinguishable=False, first_is_better=None) for axis, each in found.items()}
        return Pair(position, *_broke(one, base, down, fair), found, varied, part, expected, broke=True)
    if view.relative and not between.log:
        gaps = {"run": one.name, "base": base.name, "metric": between.metric}
        return Pair(position, UNKNOWN, Text(NO_FALL, gaps), {}, varied, None, expected)
    if between.log and not view.relative and abs(between.value or 0.0) > UNLIKE:
        return Pair(position, REFUSED, _too_far(one, base, between), found, varied, part, expected)
    known: dict[str, Any] = {"told_apart": bool(varied), "kin": kin, "fair": fair, "doubts": doubts or {}}
    kind, text, share = _told(one, base, common[view.axis], between, view, **known)
    if kind == ALIKE:  # what no difference can be told of has not fallen as expected either
        expected = tuple(each.untold() if each.metric == "last_loss" else each for each in expected)
    return Pair(position, kind, text, found, varied, part, expected, share)


def _told(
    one: Side,
    base: Side,
    curves: Aligned,
    between: Difference,
    view: View,
    *,
    told_apart: bool,
    kin: bool,
    fair: Fairness,
    doubts: Mapping[str, Text],
) -> tuple[str, Text, Covered | None]:
    """Return kind, sentence and the part that is covered of two runs that may be compared and did not break down."""
    text = sentence(between, (one.name, base.name), told_apart=told_apart, relative=view.relative)
    both = [one.subject, base.subject], [one.said, base.said]
    share = covered(*both, curves.axis, float(curves.x[-1]), price=view.price) if between.value is not None else None
    text = text if share is None else share.condition(text)
    elsewhere = any(reason.code == OTHER_PROGRAM for reason in fair.reasons)
    kind = _kind(between, told_apart=told_apart and not elsewhere, kin=kin and not elsewhere)
    doubt = _doubt({BETTER: one, WORSE: base}.get(kind), between, doubts)
    return (kind, text, share) if doubt is None else (UNKNOWN, doubt, share)


def _doubt(winner: Side | None, between: Difference, doubts: Mapping[str, Text]) -> Text | None:
    """Return why the run with the lower loss is not called better: its diagnosis says that such a loss can't be."""
    if winner is None or winner.subject.id not in doubts or between.metric in HIGHER_IS_BETTER:
        return None
    return Text(DOUBTFUL, {"run": winner.name, "said": doubts[winner.subject.id]})


def _aligned(one: Side, base: Side, axis: str, view: View) -> Aligned | Text:
    both = [one.subject, base.subject], [one.said, base.said]
    return aligned(*both, view.metric or "", axis, price=view.price, names=[one.name, base.name])


def _difference(curves: Aligned, one: Subject, base: Subject, view: View) -> Difference:
    start = 0.0
    if curves.log and view.relative:
        both = [np.log(side.curves[curves.metric].value) for side in (one, base)]
        own = [second_difference_noise(values) for values in both]
        start = math.hypot(*(noise if math.isfinite(noise) else 0.0 for noise in own))
        curves = replace(curves, y=curves.y - np.array([[values[0]] for values in both]))
    better = curves.metric in HIGHER_IS_BETTER
    return difference(curves, 0, 1, higher_is_better=better, spread=view.spread, tests=view.tests, start=start)


def _broke(one: Side, base: Side, down: Sequence[bool], fair: Fairness) -> tuple[str, Text]:
    """Return kind and sentence about two runs of which one (down: the first, the base) or both broke down."""
    if all(down):
        return UNKNOWN, Text(BOTH_BROKE, {"run": one.name, "base": base.name})
    better, worse = (base, one) if down[0] else (one, base)
    gaps = {"better": better.name, "worse": worse.name}
    if any(reason.code == OTHER_PROGRAM for reason in fair.reasons):
        return UNKNOWN, Text(BROKE_ELSEWHERE, gaps)
    return WORSE if down[0] else BETTER, Text(BROKE, gaps)


def _too_far(one: Side, base: Side, between: Difference) -> Text:
    """Return the sentence about two runs whose losses no configuration sets so far apart."""
    times = round(math.exp(min(abs(between.value or 0.0), 50)))
    return Text(TOO_FAR, {"run": one.name, "base": base.name, "times": times})


def _kind(found: Difference, *, told_apart: bool, kin: bool) -> str:
    if found.value is None:
        return UNKNOWN
    if not found.distinguishable:
        return ALIKE
    if not told_apart:
        return REPEATS if kin else UNEXPLAINED
    return BETTER if found.first_is_better else WORSE


def best_of(pairs: Sequence[Pair], axis: str) -> Pair:
    """Return the pair whose run lies furthest ahead on an axis, of those that are told apart on it."""
    return min(pairs, key=lambda pair: _behind(pair, axis))


def _behind(pair: Pair, axis: str) -> float:
    return abs(pair.differences[axis].value or 0.0) * (-1 if pair.kind == BETTER else 1)
