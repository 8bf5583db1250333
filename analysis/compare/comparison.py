"""Two or more runs compared, in one object: what differs, what may be said, how large the difference is, what to make of it."""

import math
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Any

from analysis.compare.align import TITLES, Aligned, aligned, common_axes, common_metrics
from analysis.compare.conditions import conditions
from analysis.compare.config_diff import ConfigDiff, Row, config_diff
from analysis.compare.covered import conditioned
from analysis.compare.difference import SEED_SPREAD, UNTOLD
from analysis.compare.fairness import DATA_AXES, NOTE, Fairness, Reason, fairness
from analysis.compare.group import groups, repeat_spread
from analysis.compare.judged import Judged
from analysis.compare.names import names_of
from analysis.compare.numbers import Numbers, level_of, numbers
from analysis.compare.pairs import (
    ALIKE,
    BETTER,
    REFUSED,
    REPEATS,
    UNEXPLAINED,
    UNKNOWN,
    WORSE,
    Pair,
    Side,
    View,
    best_of,
    pair_of,
)
from analysis.compare.slow_steps import slow_steps
from analysis.compare.state import State, broke_down, slow_fall, states
from analysis.compare.subject import HIGHER_IS_BETTER, Subject
from analysis.compare.target import Target, reached_by_all
from messages import N_, Text

MOST = 50  # runs
PAIRS_OF_REPEATS = 45
FEW_VARIED, MOST_TOLD = 2, 3  # settings by which every run is told, if not more vary; settings in a label
LEAST_LEVEL = 4  # points of a curve whose last level may be the target of the others
ONE_RUN = N_("one run alone has nothing to be compared with: it takes two runs or more")
SAME_RUN = N_("the same run was named more than once: it is compared with the others once")
TOO_MANY = N_("{count} runs are too many to compare one by one: the first {most} are; use the sweep for all")
FEW_POINTS = N_(
    "some pairs have few common points ({points}), which don't tell whether the losses were averaged before they were printed: "
    "differences below {least} % are not claimed"
)
NOT_THIS_METRIC = N_("the base and the other runs do not both print {metric}: {other} is compared")
NOT_THIS_AXIS = N_("the base and the other runs do not both tell this x axis ({axis}): they are compared over {other}")
AHEAD = N_("{base} leads: {worse} worse, {alike} not distinguishable")
LEVEL = N_("no run is better than {base}: {alike} not distinguishable")
APART = N_("{said}; apart from it, and nothing in the logs says why: {apart}")
NOT_ALL = N_("{said}; {unknown} can't be told")


@dataclass(frozen=True, eq=False)
class Comparison:
    """Everything that is said of some runs; positions are those in `sides`.

    metrics: the choice there is. labels: each run by what differs, as (title, value). repeats: pairs of repeats that the
    spread comes from (0: as known from elsewhere). target: what `reached` of the numbers is about. verdict: kind of the
    sentence, as of a pair. notes: about the request itself.
    """

    sides: tuple[Side, ...]
    base: int
    diff: ConfigDiff
    fair: Fairness
    view: View
    metrics: tuple[str, ...]
    pairs: tuple[Pair, ...]
    numbers: tuple[Numbers, ...]
    groups: tuple[tuple[int, ...], ...]
    states: tuple[State, ...]
    labels: tuple[tuple[tuple[str, Any], ...], ...]
    verdict: str
    sentence: Text
    repeats: int = 0
    target: Target | None = None
    notes: tuple[Text, ...] = ()

    @property
    def comparable(self) -> bool:
        """Say whether anything may be said about the losses of any run and the base over the chosen axis."""
        axis, base = self.view.axis, self.sides[self.base].subject.id
        others = [side.subject.id for n, side in enumerate(self.sides) if n != self.base] or [base]
        return axis is not None and any(self.fair.about(base, other).allows(axis) for other in others)

    @property
    def broken(self) -> frozenset[str]:
        """Return the runs (ids) that diverged, collapsed or are not finite."""
        return broke_down(self.states)

    @property
    def winner(self) -> tuple[int, int, Pair] | None:
        """Return (better run, worse run, their pair) that the verdict is about; None where it names none."""
        axis = self.view.axis
        if self.verdict not in (BETTER, WORSE) or axis is None:
            return None
        told = [pair for pair in self.pairs if pair.kind in (BETTER, WORSE)]
        pair = best_of(told, axis)
        return (pair.run, self.base, pair) if pair.kind == BETTER else (self.base, pair.run, pair)


def compare(
    subjects: Sequence[Subject],
    *,
    base: int = 0,
    axis: str | None = None,
    metric: str | None = None,
    price: float | None = None,
    reach: Target | None = None,
    is_baseline: bool = False,
    judged: Mapping[str, Judged] | None = None,
    among: int = 1,
    spread: float = SEED_SPREAD,
) -> Comparison:
    """Return the comparison of runs with the one at `base`. Raises ValueError without any run.

    axis, metric: what a person chose; where the runs do not have it, or none is chosen, the fairest they have. price: of one
    GPU-hour. reach: what "what it took" is about. judged: what their diagnoses say, by run. among: how many differences are
    looked at together, where those of other comparisons count too. spread: between repeats as known from elsewhere, at least.
    """
    if not subjects:
        raise ValueError("there is no run to compare")
    subjects, base, notes = _distinct(subjects, base)
    sides = [Side(one, conditions(one), name) for one, name in zip(subjects, names_of(subjects), strict=True)]
    said = [side.said for side in sides]
    names = [side.name for side in sides]
    diff = config_diff(subjects, said)
    apart = {n: config_diff([subjects[base], subjects[n]], [said[base], said[n]]) for n in _others(sides, base)}
    fair = fairness(subjects, said, pairs=apart, whole=diff, base=base, names=names, is_baseline=is_baseline)
    kinship = groups(subjects, said)
    view, metrics = _view(sides, base, fair, axis, metric, price)
    single = {run for reason in fair.reasons if reason.code == "one_variable" for run in reason.runs}
    causes = {subjects[n].id: one.varied[0] for n, one in apart.items() if subjects[n].id in single}
    became = _states(sides, base, view, fair, causes, judged or {})
    broken = broke_down(became)
    own, repeats = _spread(sides, kinship, view, broken)
    view = replace(view, spread=max(own, spread), tests=max(len(apart), among))
    varied = {n: one.varied for n, one in apart.items()}
    doubts = {run: one.doubt for run, one in (judged or {}).items() if one.doubt is not None}
    pairs = _pairs(sides, base, view, varied, fair, kinship, broken=broken, doubts=doubts)
    fair = _with_few_points(fair, pairs, view.axis)
    behind = {sides[pair.run].subject.id for pair in pairs if pair.kind == WORSE}
    became = [state for state in became if state.code != "slow_fall" or state.run in behind]  # else it is the noise of its end
    target = reach or _target(subjects, view, broken)
    figures = [_numbers(side, view, target, judged or {}) for side in sides]
    notes += _instead(axis, metric, view)
    verdict, text = _verdict(pairs, names, base, view.axis)
    whole = (tuple(sides), base, diff, fair, view, metrics, tuple(pairs), tuple(figures), tuple(kinship), tuple(became))
    return Comparison(*whole, labels(base, diff, varied), verdict, text, repeats, target, tuple(notes))


def _pairs(
    sides: Sequence[Side],
    base: int,
    view: View,
    varied: Mapping[int, tuple[Row, ...]],
    fair: Fairness,
    kinship: Sequence[tuple[int, ...]],
    *,
    broken: Set[str],
    doubts: Mapping[str, Text],
) -> list[Pair]:
    """Return each run but the base beside it; varied: what differs from the base, by place of the run."""
    pairs, lead = [], sides[base]
    for n, rows in varied.items():
        about = fair.about(lead.subject.id, sides[n].subject.id)
        kin = any({n, base} <= set(group) for group in kinship)
        pairs.append(pair_of(n, sides[n], lead, view, varied=rows, fair=about, broken=broken, kin=kin, doubts=doubts))
    return pairs


def _with_few_points(fair: Fairness, pairs: Sequence[Pair], axis: str | None) -> Fairness:
    """Add what can't be seen in few common points of a training loss: noise that goes on from row to row, as of averages."""
    found = [pair.differences[axis] for pair in pairs if axis is not None and axis in pair.differences]
    points = [one.points for one in found if one.few]
    if not points:
        return fair
    note = Reason("few_points", NOTE, Text(FEW_POINTS, {"points": min(points), "least": round(100 * math.expm1(UNTOLD))}))
    return replace(fair, reasons=(*fair.reasons, note))


def _others(sides: Sequence[Side], base: int) -> list[int]:
    return [number for number in range(len(sides)) if number != base]


def _distinct(subjects: Sequence[Subject], base: int) -> tuple[list[Subject], int, list[Text]]:
    """Return each run once, the place of the base among them, and what is to be said about that."""
    notes = []
    kept = list({one.id: one for one in subjects}.values())
    lead = subjects[base if 0 <= base < len(subjects) else 0].id
    if len(kept) < len(subjects):
        notes.append(Text(SAME_RUN))
    if len(kept) > MOST:
        notes.append(Text(TOO_MANY, {"count": len(kept), "most": MOST}))
        kept = [one for place, one in enumerate(kept) if place < MOST or one.id == lead]
    return kept, next(place for place, one in enumerate(kept) if one.id == lead), notes


def _view(
    sides: Sequence[Side], base: int, fair: Fairness, axis: str | None, metric: str | None, price: float | None
) -> tuple[View, tuple[str, ...]]:
    """Return the view, and the metrics that the base shares with at least one other run, those that most share first.

    Unless one is asked for, the axis is that over which most pairs may be compared, and of those the fairest.
    """
    pairs = [[sides[base], side] for place, side in enumerate(sides) if place != base] or [[sides[base]]]
    metrics = _by_frequency([common_metrics([side.subject for side in pair]) for pair in pairs], sides[base].subject.main)
    each = [common_axes([s.subject for s in pair], [s.said for s in pair], price=price) for pair in pairs]
    axes, allowed = _by_frequency(each), [fair.about(*(s.subject.id for s in pair)) for pair in pairs]
    fit = {axis: sum(axis in its and one.allows(axis) for its, one in zip(each, allowed, strict=True)) for axis in axes}
    chosen = metric if metric in metrics else _main([side.subject for side in sides], metrics)
    order = ("step", *DATA_AXES, "progress", "hours") if fair.by_step else (*DATA_AXES, "step", "hours", "progress")
    best = max(order[:4], key=lambda name: fit.get(name, 0))
    usual = best if fit.get(best) else next((name for name in (*order[4:], "step") if name in axes), None)
    over = axis if axis in axes else usual
    return View(over, axes, chosen, not fair.absolute and chosen is not None, price), metrics


def _instead(axis: str | None, metric: str | None, view: View) -> list[Text]:
    """Return what is to be said of a choice that the runs do not allow."""
    notes = []
    if metric is not None and view.metric not in (None, metric):
        notes.append(Text(NOT_THIS_METRIC, {"metric": metric[:80], "other": view.metric}))
    if axis is not None and view.axis not in (None, axis):
        gaps = {"axis": Text(TITLES[axis]) if axis in TITLES else axis[:80], "other": Text(TITLES[str(view.axis)])}
        notes.append(Text(NOT_THIS_AXIS, gaps))
    return notes


def _by_frequency(lists: Sequence[Sequence[str]], first: str | None = None) -> tuple[str, ...]:
    """Return the names in the lists, the most frequent first; of those that are as frequent `first`."""
    counts: dict[str, int] = {}
    for one in lists:
        for name in one:
            counts[name] = counts.get(name, 0) + 1
    return tuple(sorted(counts, key=lambda name: (-counts[name], name != first)))


def _main(subjects: Sequence[Subject], metrics: Sequence[str]) -> str | None:
    """Return the metric to compare: the main loss of the runs if all mean the same by it, else the first they share."""
    mains = {one.main for one in subjects}
    if len(mains) == 1 and (main := mains.pop()) in metrics:
        return main
    return next((name for name in metrics if name not in ("lr", "grad_norm")), None)


def _spread(sides: Sequence[Side], kinship: Sequence[tuple[int, ...]], view: View, broken: Set[str]) -> tuple[float, int]:
    """Return how far repeats among the runs that did not break lie apart, and how many pairs say so.

    Two runs alone that nothing tells apart are the question, not a measure of chance.
    """
    sound = {n for n, side in enumerate(sides) if side.subject.id not in broken}
    if view.metric is None or view.axis is None or len(sound) < 3:
        return SEED_SPREAD, 0
    found = []
    for group in kinship:
        for pair in list(combinations([n for n in group if n in sound], 2))[:PAIRS_OF_REPEATS]:
            subjects, said = [sides[n].subject for n in pair], [sides[n].said for n in pair]
            curves = aligned(subjects, said, view.metric, view.axis, price=view.price)
            if isinstance(curves, Aligned) and curves.log:
                found.append((curves, 0, 1))
    return repeat_spread(found)


def _states(
    sides: Sequence[Side],
    base: int,
    view: View,
    fair: Fairness,
    because: Mapping[str, Row],
    judged: Mapping[str, Judged],
) -> list[State]:
    """Return what became of the runs, those that broke first."""
    subjects, names = [side.subject for side in sides], [side.name for side in sides]
    found = list(states(subjects, names=names, because=because, judged=judged))
    found += slow_steps(subjects, [side.said for side in sides], names)
    broken = broke_down(found)
    axis = next((name for name in ("step", *DATA_AXES) if name in view.axes and fair.allows(name)), None)
    measured = view.metric is not None and view.metric not in HIGHER_IS_BETTER and subjects[base].id not in broken
    if view.metric is None or axis is None or not fair.absolute or not measured:
        return found
    for other in _others(sides, base):
        both = [sides[base], sides[other]]
        curves = aligned([side.subject for side in both], [side.said for side in both], view.metric, axis)
        if isinstance(curves, Aligned) and curves.log and sides[other].subject.id not in broken:
            both_names = [names[base], names[other]]
            found += slow_fall([side.subject for side in both], curves, 0, both_names, because=because)
    return found


def _target(subjects: Sequence[Subject], view: View, broken: Set[str]) -> Target | None:
    """Return what every run that did not break reached, in its loss or, where levels do not compare, in its fall."""
    sound = [one.curves.get(view.metric or "") for one in subjects if one.id not in broken]
    curves = [curve for curve in sound if curve is not None and len(curve) >= LEAST_LEVEL]
    return reached_by_all(curves, [level_of(curve)[1] for curve in curves], of_first=view.relative)


def _numbers(side: Side, view: View, target: Target | None, judged: Mapping[str, Judged]) -> Numbers:
    productive = judged.get(side.subject.id, Judged()).goodput
    return numbers(side.subject, side.said, metric=view.metric, target=target, price=view.price, goodput=productive)


def labels(base: int, diff: ConfigDiff, apart: Mapping[int, Sequence[Row]]) -> tuple[tuple[tuple[str, Any], ...], ...]:
    """Return each run by what differs: pairs of title and value of the first variables; empty where nothing does.

    apart: the variables between the base (whose value is the first) and each other run. Where more than two settings vary
    among all, a run is told by those in which it is not like the base, and the base by none.
    """
    few = diff.varied if len(diff.varied) <= FEW_VARIED else ()
    found = []
    for n in range(len(apart) + 1):
        rows = [(row, row.values[n]) for row in few] or [(row, row.values[1]) for row in apart.get(n, ())]
        rows.sort(key=lambda row: not row[0].known)
        told = [(row.title or row.key, value) for row, value in rows if value is not None]
        found.append(tuple(told[:MOST_TOLD]))
    return tuple(found)


def _verdict(pairs: Sequence[Pair], names: Sequence[str], base: int, axis: str | None) -> tuple[str, Text]:
    if not pairs:
        return UNKNOWN, Text(ONE_RUN)
    if len(pairs) == 1:
        return pairs[0].kind, pairs[0].text
    kinds = (BETTER, WORSE, ALIKE, REPEATS, UNEXPLAINED, REFUSED, UNKNOWN)
    counts = {kind: sum(pair.kind == kind for pair in pairs) for kind in kinds}
    if counts[REFUSED] + counts[UNKNOWN] == len(pairs):
        kind = REFUSED if counts[REFUSED] else UNKNOWN
        return kind, next(pair.text for pair in pairs if pair.kind == kind)
    if counts[BETTER] and axis:
        return BETTER, best_of([pair for pair in pairs if pair.kind == BETTER], axis).text
    alike, unknown = counts[ALIKE], counts[REFUSED] + counts[UNKNOWN]
    text = Text(AHEAD if counts[WORSE] else LEVEL, {"base": names[base], "worse": counts[WORSE], "alike": alike})
    kind = next(kind for kind in (WORSE, ALIKE, REPEATS, UNEXPLAINED) if counts[kind])
    apart = counts[REPEATS] + counts[UNEXPLAINED]
    # Each condition stands behind the count of the runs that it is about.
    text = conditioned(text, [(names[pair.run], pair.covered) for pair in pairs if pair.kind in (WORSE, ALIKE)])
    if apart:
        text = Text(APART, {"said": text, "apart": apart})
        text = conditioned(text, [(names[pair.run], pair.covered) for pair in pairs if pair.kind in (REPEATS, UNEXPLAINED)])
    return kind, Text(NOT_ALL, {"said": text, "unknown": unknown}) if unknown else text
