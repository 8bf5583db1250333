"""What became of a run, seen beside the others: diverged, not finite, far slower, and where two curves part."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from analysis.compare.align import TITLES, Aligned
from analysis.compare.conditions import named, shown
from analysis.compare.config_diff import Row
from analysis.compare.difference import second_difference_noise
from analysis.compare.judged import COLLAPSED, DIVERGED, NOT_FINITE, Judged
from analysis.compare.subject import LINE, Curve, Subject, by_program
from analysis.evidence import PLACES
from analysis.first_loss import LARGEST_VOCABULARY
from analysis.losses import LOSSES
from messages import N_, Text

RISEN = 1.2  # times its lowest level at which a run that still rises has diverged
HIGH_START = 2.0  # times the start of the others, and above that of any vocabulary: it had blown up before its first line
SLOW_FALL = 1.5  # times the way of the base to the same loss
LEVEL_ROWS = 5  # whose median is a level
LASTING, LASTING_SHARE = 4, 0.05  # points (and share of all) that it takes to say that two curves stay apart
COUNTED = frozenset({"step", "tokens", "samples"})
BROKEN = frozenset({DIVERGED, NOT_FINITE, COLLAPSED})
BROKE = {  # in the words of the finding
    DIVERGED: N_("{run} diverged: {said}"),
    NOT_FINITE: N_("{run} broke down: {said}"),
    COLLAPSED: N_("{run} collapsed: {said}"),
}
APART = 1e-3  # relative: below it two curves are the same


@dataclass(frozen=True)
class State:
    """What is to be said of a run: a word (diverged, not_finite, collapsed, slow_step, slow_fall), since when, the sentence."""

    code: str
    run: str
    step: int | None
    text: Text

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON form."""
        return {"code": self.code, "run": self.run, "step": self.step, "text": self.text.to_dict()}


def broke_down(became: Sequence[State]) -> frozenset[str]:
    """Return the runs (ids) that diverged, collapsed or are not finite."""
    return frozenset(state.run for state in became if state.code in BROKEN)


def states(
    subjects: Sequence[Subject],
    *,
    names: Sequence[str],
    because: Mapping[str, Row] | None = None,
    judged: Mapping[str, Judged] | None = None,
) -> tuple[State, ...]:
    """Return what became of their losses.

    because: the one variable in which a run differs from the base, by id. judged: what the diagnoses say of runs, by id:
    whether and since when a loss has gone up for good is then as they say.
    """
    found = [
        state for one, name in zip(subjects, names, strict=True) for state in _alone(one, name, (judged or {}).get(one.id))
    ]
    broken = {state.run for state in found}
    for group in by_program(subjects):
        beside = _beside([subjects[n] for n in group], [names[n] for n in group])
        found += [state for state in beside if state.run not in broken]
    return tuple(_caused(state, (because or {}).get(state.run)) for state in found)


def _caused(state: State, row: Row | None) -> State:
    if row is None:
        return state
    gaps: dict[str, Any] = {"said": state.text, "what": named(row.title, row.key)}
    gaps["value"] = shown(row.values[1])
    return State(state.code, state.run, state.step, Text(N_("{said} — {what} {value}"), gaps))


def _alone(one: Subject, name: str, judged: Judged | None) -> list[State]:
    found = []
    curve = one.curves.get(one.main or "")
    bad = one.bad.get(one.main or next((loss for loss in LOSSES[:2] if loss in one.bad), ""))
    if bad is not None and (curve is None or not len(curve) or bad >= curve.step[-1]):
        gaps: dict[str, Any] = {"run": name, "where": _at(one, bad)}
        found.append(State("not_finite", one.id, bad, Text(N_("{run}: the loss is not finite from {where} on"), gaps)))
    if judged is not None and _tells(judged, one, found):
        gaps = {"run": name, "said": judged.said}
        return [*found, State(judged.how, one.id, judged.since, Text(BROKE[judged.how], gaps))]
    if judged is not None and judged.assessed:
        return found
    return found + ([] if curve is None else _risen(one, name, curve))


def _tells(judged: Judged, one: Subject, found: Sequence[State]) -> bool:
    """Say whether a diagnosis tells of the loss what is not told yet: NaN may be those of gradients alone."""
    return judged.said is not None and (judged.how != NOT_FINITE or not found and bool(one.bad.keys() & set(LOSSES)))


def _risen(one: Subject, name: str, curve: Curve) -> list[State]:
    """Return that a loss rises from its lowest level to the end, of a run that no diagnosis has judged."""
    if len(curve) < 2 * LEVEL_ROWS or float(curve.value.min()) <= 0:
        return []
    level = _levels(curve.value)
    lowest = int(np.argmin(level))
    risen = level[-1] / level[lowest]
    late = np.log(level[lowest:])
    rising = len(late) >= LEVEL_ROWS and np.polyfit(np.arange(len(late)), late, 1)[0] > 0
    if risen < RISEN or not rising or level[-1] <= 0.9 * level[lowest:].max():
        return []
    step = int(curve.step[lowest])
    gaps = {"run": name, "where": _at(one, step), "low": _four(level[lowest]), "now": _four(float(curve.value[-1]))}
    template = N_("{run} diverged: its loss was lowest ({low}) around {where} and has risen to {now} since")
    return [State("diverged", one.id, step, Text(template, gaps))]


def _levels(values: np.ndarray) -> np.ndarray:
    """Return the running median (n - LEVEL_ROWS + 1,)."""
    return np.asarray(np.median(np.lib.stride_tricks.sliding_window_view(values, LEVEL_ROWS), axis=1))


def _beside(subjects: Sequence[Subject], names: Sequence[str]) -> list[State]:
    """Return runs whose first losses are far above those of the others: they blew up before their first line."""
    starts = [_start(one) for one in subjects]
    found = []
    for one, name, start in zip(subjects, names, starts, strict=True):
        others = [value for other, value in zip(subjects, starts, strict=True) if other is not one and value is not None]
        usual = float(np.median(others)) if others else math.nan
        curve = one.curves.get(one.main or "")
        if start is None or curve is None or not start > max(HIGH_START * usual, math.log(LARGEST_VOCABULARY)):
            continue
        gaps = {
            "run": name,
            "where": _at(one, curve.step[0]),
            "loss": _four(start),
            "usual": _four(usual),
            "now": _four(float(curve.value[-1])),
        }
        template = N_("{run} diverged at the start: loss {loss} at {where} where the others have {usual}; it ends at {now}")
        found.append(State("diverged", one.id, int(curve.step[0]), Text(template, gaps)))
    return found


def _start(one: Subject) -> float | None:
    curve = one.curves.get(one.main or "")
    return float(curve.value[0]) if curve is not None and len(curve) else None


def slow_fall(
    subjects: Sequence[Subject],
    curves: Aligned,
    base: int,
    names: Sequence[str],
    *,
    because: Mapping[str, Row] | None = None,
) -> tuple[State, ...]:
    """Return runs that took far more of x to the loss they reached than the base did."""
    found = []
    for other, one in enumerate(subjects):
        ratio = way_ratio(curves, other, base)
        if other == base or ratio is None or ratio < SLOW_FALL:
            continue
        value = float(np.exp(curves.y[other][-1])) if curves.log else float(curves.y[other][-1])
        gaps = {"run": names[other], "base": names[base], "ratio": float(f"{ratio:.2g}"), "loss": _four(value)}
        gaps["axis"] = Text(TITLES[curves.axis])  # sooner in steps may be later by the clock
        template = N_("{run} falls slowly: {base} had its last loss ({loss}) {ratio}× earlier on the x axis “{axis}”")
        found.append(_caused(State("slow_fall", one.id, None, Text(template, gaps)), (because or {}).get(one.id)))
    return tuple(found)


def way_ratio(curves: Aligned, other: int, base: int) -> float | None:
    """Return how many times the way of the base a run took to the level that it reached at the end; None if never."""
    target = float(np.median(curves.y[other][-3:]))
    reached = np.flatnonzero(np.minimum.accumulate(curves.y[base]) <= target)
    if not len(reached) or not reached[0] or len(curves) < 4 or curves.x[reached[0]] <= 0:
        return None  # never, or before the curves begin
    at = int(reached[0])
    x = curves.x[at]
    if curves.y[base][at - 1] > target:
        share = (curves.y[base][at - 1] - target) / max(curves.y[base][at - 1] - curves.y[base][at], 1e-12)
        x = curves.x[at - 1] + share * (curves.x[at] - curves.x[at - 1])
    return float(curves.x[-1] / x)


@dataclass(frozen=True)
class Parting:
    """Where two curves part: x of the first value that is not the same, and from where they stay apart (None: not told)."""

    first: float | None
    lasting: float | None
    text: Text


def parting(curves: Aligned, first: int, second: int, names: tuple[str, str]) -> Parting:
    """Return where two aligned curves part, for good from where their difference leaves its noise and does not come back."""
    apart = curves.y[first] - curves.y[second]
    some = np.flatnonzero(np.abs(apart) > APART)
    noise = second_difference_noise(apart[-max(len(apart) // 2, 4) :])
    band = max(3 * (noise if np.isfinite(noise) else 0.0), 0.01)
    inside = np.flatnonzero(np.abs(apart) <= band)
    start = int(inside[-1]) + 1 if len(inside) else 0
    lasting = float(curves.x[start]) if len(apart) - start >= max(LASTING, LASTING_SHARE * len(apart)) else None
    gaps: dict[str, Any] = {"a": names[0], "b": names[1], "axis": Text(TITLES[curves.axis])}
    if not len(some):
        return Parting(None, None, Text(N_("{a} and {b} are the same curve, value for value"), gaps))
    gaps |= {"first": _place(curves.axis, float(curves.x[some[0]])), "share": whole(100 * math.expm1(abs(apart[some[0]])))}
    if lasting is None and start < len(apart):
        gaps["lasting"] = _place(curves.axis, float(curves.x[start]))
        template = N_(
            "{a} and {b} first differ at {axis} {first} (by {share} %); they are apart from {lasting} on, "
            "too few points to say that they stay so"
        )
        return Parting(float(curves.x[some[0]]), None, Text(template, gaps))
    if lasting is None:
        template = N_("{a} and {b} first differ at {axis} {first} (by {share} %) and do not stay apart")
        return Parting(float(curves.x[some[0]]), None, Text(template, gaps))
    gaps["lasting"] = _place(curves.axis, lasting)
    template = N_("{a} and {b} first differ at {axis} {first} (by {share} %); from {lasting} on they stay apart")
    return Parting(float(curves.x[some[0]]), lasting, Text(template, gaps))


def _place(axis: str, x: float) -> float | int:
    """Return a value of an axis as a sentence takes it; what is counted in whole numbers is one."""
    return round(x) if axis in COUNTED or x == int(x) else float(f"{x:.4g}")


def whole(value: float) -> float | int:
    """Return a number with two digits, as a whole number where it is one."""
    value = float(f"{value:.2g}")
    return int(value) if math.isfinite(value) and value == int(value) else value


def _at(one: Subject, x: float) -> Text:
    """Return a place as the log numbers its rows: a step, an epoch or a row."""
    return Text(PLACES["row" if one.unit == LINE else one.unit], {"number": int(x)})


def _four(value: float) -> float:
    return float(f"{value:.4g}")
