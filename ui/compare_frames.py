"""From a comparison to what its charts and tables draw: labels, lines over the chosen x, differences, the table of figures."""

import math
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa

from analysis.compare.align import EQUAL, Aligned, aligned, axis_of
from analysis.compare.comparison import Comparison
from analysis.compare.difference import Difference
from analysis.compare.fairness import DATA_AXES
from analysis.compare.group import band
from analysis.compare.pairs import ALIKE, BETTER, REFUSED, REPEATS, UNEXPLAINED, UNKNOWN, WORSE, Pair
from messages import N_, Text
from ui import series
from ui.text import _, language, number

POINTS, SMALL_POINTS = 400, 200  # of a line; of one in a small chart
WIDEST = 300.0  # percent from end to end of an interval that is told
SPIKE, SPIKE_POINTS = 10.0, 5  # mean changes off the median of so many points beyond which a point is a spike
SMOOTHED = 50  # parts of a line whose mean is the strong line
WORDS = {
    BETTER: N_("Better"),
    WORSE: N_("Worse"),
    ALIKE: N_("Not distinguishable"),
    REPEATS: N_("Repeats"),
    UNEXPLAINED: N_("Apart, cause unknown"),
    REFUSED: N_("Not comparable"),
    UNKNOWN: N_("Not known"),
}
HIDDEN = N_("hidden by the noise")
OVERLAY, DIFFERENCE, RATIO = "overlay", "difference", "ratio"


def value_words(value: Any) -> str:
    """Return a setting as a person writes it: 5e-4, 63.9M, on."""
    if isinstance(value, bool):
        return _("on") if value else _("off")
    if not isinstance(value, int | float):
        return "–" if value is None else str(value)[:80]
    return compact(value)


def compact(value: float) -> str:
    """Return a number as 63.9M, 7.2B; below a million as `number` writes it."""
    for size, letter in ((1e12, "T"), (1e9, "B"), (1e6, "M")):
        if abs(value) >= size and abs(value) < size * 1000:
            return f"{number(value / size, digits=3)}{letter}"
    return number(value)


def labels(told: Comparison) -> list[str]:
    """Return each run by what differs, and by the short name that sentences use; all different."""
    return _labels(told, language())


@lru_cache(maxsize=8)
def _labels(told: Comparison, _language: str) -> list[str]:
    words = [" · ".join(f"{_(title)} {value_words(value)}" for title, value in one) for one in told.labels]
    same = _("as the base") if any(words) else ""
    kin = next(group for group in told.groups if told.base in group)  # nothing is known to differ is not enough to say so
    words = [word or (same if n in kin and n != told.base else "") for n, word in enumerate(words)]
    return [f"{word} · {side.name}" if word else side.name for word, side in zip(words, told.sides, strict=True)]


def lines(told: Comparison, view: str, *, smooth: bool = True) -> pd.DataFrame | Text:
    """Return the lines of the chart: `order` (0: the base), `label, x, y, smooth`; or why there are none.

    view: overlay (as printed), difference (percent to the base) or ratio.
    """
    metric, axis = told.view.metric, told.view.axis
    if metric is None or axis is None:
        return Text(N_("The runs have no metric and no x axis in common, so there is no curve to draw."))
    named = labels(told)
    frames = []
    for order, position in enumerate(ordered(told)):
        found = _overlay(told, position, metric, axis) if view == OVERLAY else _beside(told, position, metric, axis, view)
        if found is None:
            continue
        x, y = found
        at = np.unique(np.linspace(0, len(x) - 1, POINTS).astype(int)) if len(x) > POINTS else np.arange(len(x))
        window = len(y) // SMOOTHED
        strong = running(without_spikes(y), window) if smooth and window > 1 else y
        frames.append(pd.DataFrame({"order": order, "label": named[position], "x": x[at], "y": y[at], "smooth": strong[at]}))
    if not frames:
        return Text(N_("None of the runs can be drawn over this x axis."))
    return pd.concat(frames, ignore_index=True)


def ordered(told: Comparison) -> list[int]:
    """Return the positions of the runs as they are drawn: the base first."""
    return [told.base, *(n for n in range(len(told.sides)) if n != told.base)]


def _overlay(told: Comparison, position: int, metric: str, axis: str) -> tuple[np.ndarray, np.ndarray] | None:
    side = told.sides[position]
    curve, place = side.subject.curves.get(metric), axis_of(side.subject, side.said, axis, price=told.view.price)
    if curve is None or place is None or not len(curve):
        return None
    first = float(curve.value[0]) if told.view.relative and curve.value[0] > 0 else 1.0
    return place(curve.step), curve.value / first


def _beside(told: Comparison, position: int, metric: str, axis: str, view: str) -> tuple[np.ndarray, np.ndarray] | None:
    if not told.fair.about(told.sides[told.base].subject.id, told.sides[position].subject.id).allows(axis):
        return None
    curves = _pair(told, position, metric, axis)
    if not isinstance(curves, Aligned):
        return None
    apart = curves.y[0] - curves.y[1]
    if not curves.log:
        with np.errstate(divide="ignore", invalid="ignore"):
            return curves.x, curves.y[0] / curves.y[1] if view == RATIO else apart
    return curves.x, np.exp(apart) if view == RATIO else 100 * np.expm1(apart)


def in_percent(told: Comparison) -> bool:
    """Say whether differences are told in percent; those of what is not above zero are in units of the metric."""
    found = [pair.differences[axis] for pair in told.pairs for axis in pair.differences]
    return all(one.log for one in found)


def _pair(told: Comparison, position: int, metric: str, axis: str) -> Aligned | Text:
    both = [told.sides[position], told.sides[told.base]]
    return aligned([side.subject for side in both], [side.said for side in both], metric, axis, price=told.view.price)


def bands(told: Comparison, shown: Sequence[int]) -> pd.DataFrame:
    """Return the bands of groups of repeats: `order, label, x, low, high`, as wide as their members lie apart."""
    metric, axis, named = told.view.metric, told.view.axis, labels(told)
    frames = []
    for group in told.groups:
        if len(group) < 2 or metric is None or axis is None or not set(group) & set(shown):
            continue
        sides = [told.sides[n] for n in group]
        curves = aligned([s.subject for s in sides], [s.said for s in sides], metric, axis, price=told.view.price)
        if isinstance(curves, Aligned) and len(curves) > 1:
            found = band(curves, range(len(group)))
            low, high = (np.exp(found.low), np.exp(found.high)) if curves.log else (found.low, found.high)
            lead = told.base if told.base in group else group[0]
            order = ordered(told).index(lead)
            frames.append(pd.DataFrame({"order": order, "label": named[lead], "x": curves.x, "low": low, "high": high}))
    return pd.concat(frames, ignore_index=True) if frames else pd.DataFrame(columns=["order", "label", "x", "low", "high"])


def with_repeats(told: Comparison, kept: Sequence[int]) -> dict[int, str]:
    """Return what the line of a group is called, by its place in the drawn order: the run, and which repeats it stands for."""
    named, orders = labels(told), ordered(told)
    found = {}
    for n in kept:
        others = [told.sides[other].name for group in told.groups if n in group for other in group if other != n]
        words = _("{run}, with its repeats {others}").format(run=named[n], others=", ".join(others)) if others else named[n]
        found[orders.index(n)] = words
    return found


def one_a_group(told: Comparison) -> list[int]:
    """Return one run of each group: the base, else the first."""
    return [told.base if told.base in group else group[0] for group in told.groups]


def without_spikes(values: np.ndarray) -> np.ndarray:
    """Return values (n,) with those that stand alone far from their neighbours at the level of these.

    One spike would else lift the mean as wide as its window, to a box that no run has. The ends have neighbours on one side
    only and stay.
    """
    if len(values) < SPIKE_POINTS:
        return values
    level = np.median(np.lib.stride_tricks.sliding_window_view(np.pad(values, SPIKE_POINTS // 2, mode="edge"), SPIKE_POINTS), 1)
    changes = np.sort(np.abs(np.diff(values)))[: len(values) * 9 // 10]  # but for the largest: those of spikes
    return np.where(np.abs(values - level) > SPIKE * float(changes.mean()), level, values)


def running(values: np.ndarray, window: int) -> np.ndarray:
    """Return the centred running mean (n,), narrower at the ends."""
    sums = np.cumsum(np.r_[0.0, values])
    at = np.arange(len(values))
    half = np.minimum(np.minimum(at, len(values) - 1 - at), window // 2)
    return np.asarray((sums[at + half + 1] - sums[at - half]) / (2 * half + 1))


def facets(told: Comparison, frame: pd.DataFrame) -> pd.DataFrame:
    """Return the lines for small multiples: each run with the base behind it, `order, facet, role, label, x, smooth`."""
    base, runs = frame[frame["order"] == 0], frame[frame["order"] != 0]
    names = runs.drop_duplicates("order")[["order", "label"]].to_numpy()
    behind = pd.concat([base] * len(names), ignore_index=True)
    behind["order"] = np.repeat(names[:, 0].astype(int), len(base))
    behind = behind.assign(facet=np.repeat(names[:, 1], len(base)), role="base")
    return pd.concat([behind, runs.assign(facet=runs["label"], role="run")], ignore_index=True)


def small(frame: pd.DataFrame) -> Iterator[tuple[int, str, pa.Table]]:
    """Yield the chart of each run of `facets`: its place in the drawn order, its label, its lines `role, label, x, smooth`.

    They are as thin as such a chart shows, and words stand in them once: of 20 runs, a page would else weigh megabytes.
    """
    thin = frame.groupby(["order", "role"], sort=False).cumcount() % (POINTS // SMALL_POINTS) == 0
    words = [pa.array(frame.loc[thin, name]).dictionary_encode() for name in ("role", "label")]
    numbers = series.compact(frame.loc[thin, ["x", "smooth"]])
    table = pa.table({"role": words[0], "label": words[1], **{name: numbers[name] for name in numbers.column_names}})
    orders = frame.loc[thin, "order"].to_numpy()
    for order, label in frame.drop_duplicates("order")[["order", "facet"]].itertuples(index=False):
        yield int(order), str(label), table.filter(pa.array(orders == order)).unify_dictionaries()


def forest(told: Comparison) -> pd.DataFrame:
    """Return the differences to the base with intervals, in percent: `order, label, kind, word, value, low, high, text`.

    The lowest loss first, what can't be told last: its values are NaN, and its text says why.
    """
    named, axis = labels(told), told.view.axis
    rows = []
    for order, pair in enumerate(told.pairs):
        shown = next((name for name in DATA_AXES if name in pair.differences), axis) if pair.kind == REFUSED else axis
        found = pair.differences.get(shown or "")
        row: dict[str, Any] = {"order": order, "label": named[pair.run], "kind": pair.kind, "word": _(WORDS[pair.kind])}
        row |= {"value": math.nan, "low": math.nan, "high": math.nan, "text": _without(told, pair, found), "run": pair.run}
        if found is not None and found.value is not None and found.error is not None and not found.hidden:
            scale = 100.0 if found.log else 1.0
            low, high = found.interval
            row |= {"value": scale * (found.relative or 0.0), "low": scale * low, "high": scale * high}
            row["text"] = interval_words(scale * low, scale * (found.relative or 0.0), scale * high, percent=found.log)
            row["text"] += "" if shown is None or shown == axis else f" {_(EQUAL[shown])}"
        rows.append(row)
    return pd.DataFrame(rows).sort_values("value", kind="stable", na_position="last") if rows else pd.DataFrame()


def _without(told: Comparison, pair: Pair, found: Difference | None) -> str:
    """Return why a run stands beside the base without an interval."""
    down = [told.sides[n].subject.id in told.broken for n in (pair.run, told.base)]
    if pair.broke:
        return _("both broke down") if all(down) else _("broke down") if down[0] else _("the base broke down")
    if found is not None and found.hidden:
        return _(HIDDEN)
    if pair.kind == REFUSED:  # why, the sentence says
        return "–"
    return _("too few common points") if found is not None else _("no common points")


def reach(told: Comparison, frame: pd.DataFrame) -> float:
    """Return how far the picture of the differences goes to both sides; runs that broke down do not widen it."""
    sound = [told.sides[run].subject.id not in told.broken for run in frame["run"]]
    values = frame["value"].abs()[sound].dropna()
    ends = frame[["low", "high"]].abs().max(axis=1)[sound].dropna()
    usual = max(float(values.max()), float(ends.median())) if len(values) else 0.0
    return max(min(float(ends.max()), 2.5 * usual), 1e-3) if len(values) else 100.0


def interval_words(low: float, middle: float, high: float, *, percent: bool = True) -> str:
    """Return `+3.1 % (+2.7 to +3.5)`, and what is wider than a percentage can say as a factor: `× 9 (2.9 to 28)`."""
    if percent and high - low > WIDEST:
        times = (number(float(f"{1 + share / 100:.2g}"), digits=2) for share in (middle, low, high))
        return _("× {value} ({low} to {high})").format(**dict(zip(("value", "low", "high"), times, strict=True)))
    words = _("{value} % ({low} to {high})") if percent else _("{value} ({low} to {high})")
    digits = 1 - math.floor(math.log10((high - low) / 2)) if high > low else 3  # as exact as the interval is wide
    low, middle, high = (round(value, max(digits, 0)) + 0.0 for value in (low, middle, high))
    return words.format(value=signed(middle), low=signed(low), high=signed(high))


def signed(value: float) -> str:
    """Return a number with its sign and two or three digits."""
    short = number(float(f"{value:.3g}"), digits=3)
    return f"+{short}" if value > 0 else short
