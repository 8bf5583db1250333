"""Small pictures of a run that nobody trained: what a rule finds and what it leaves alone, marked where it says so."""

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import altair as alt
import numpy as np
import pandas as pd

from analysis.registry import Rule, all_rules
from analysis.segment import Segment
from analysis.wall import wall
from ui.layers import TICK

LINES, MARKED, BAD = "lines", "marked", "bad"
POINTS = 300  # of a line
CALM = 6  # points to one, where the noise would hide what is meant
HEIGHT_PX = 132
LOG_RATIO = 30.0
TIMES = frozenset({"timestamp", "elapsed_seconds", "step_time_seconds", "tokens_per_second", "samples_per_second"})
COLUMNS = ["x", "y", "low", "high", "line"]
SHOWS = {
    "reward_collapse": "response_length",
    "field_missing": "grad_norm",
    "decomposition": "loss",
}  # else what a rule needs first
Spec = dict[str, Any]


@dataclass(frozen=True, eq=False)
class Picture:
    """A Vega-Lite spec with its data, and the name of the column that it shows."""

    spec: Spec
    column: str


@lru_cache(maxsize=128)
def of_rule(name: str, *, sick: bool) -> Picture | None:
    """Return the picture of a rule's own example, None where it has no curve (a rule that reads text)."""
    rule = next(rule for rule in all_rules() if rule.name == name)
    segment = rule.sick() if sick else rule.well()
    return picture(segment, rule, marked=sick)


def picture(segment: Segment, rule: Rule | None, *, marked: bool, since: float = 0.0, calm: bool = False) -> Picture | None:
    """Return the picture of a run with its data: what a rule looks at (the loss without one), and where it finds something.

    since: share of the run that is left out, so that what comes after a steep start is seen; calm: means without the noise.
    """
    lines, title, bad = _lines(segment, rule)
    lines = lines.iloc[int(since * len(lines)) :]
    lines = _calm(lines) if calm else lines
    if not len(lines):
        return None
    spans = _spans(segment, rule) if marked and rule else []
    data = {LINES: lines, MARKED: pd.DataFrame(spans, columns=["x", "x2"]), BAD: pd.DataFrame({"x": bad})}
    return Picture({**drawn(lines), "datasets": data}, title)


def drawn(lines: pd.DataFrame) -> Spec:
    """Return the spec for lines (COLUMNS), without data."""
    low, high, middle = lines["low"].min(), lines["high"].max(), lines["y"].median()
    return _spec(log=bool(low > 0 and high / middle > LOG_RATIO), several=lines["line"].nunique() > 1)


def _lines(segment: Segment, rule: Rule | None) -> tuple[pd.DataFrame, str, list[float]]:
    """Return the drawn lines (COLUMNS), the name of what they show, and the x at which it was NaN or infinite."""
    needs = [name for need in (rule.needs if rule else ("loss",)) for name in need.split("|")]
    needs = [SHOWS[rule.name], *needs] if rule and rule.name in SHOWS else needs
    x = segment.steps() if len(segment) else np.zeros(0)
    if needs[:1] == ["rank"] and len(segment.ranks):
        return _ranks(segment), "loss", []
    if rule and needs and needs[0] in TIMES and (known := wall(segment)) is not None:
        return _line(x[known.row], known.seconds / np.maximum(known.steps, 1), "a"), "step_time_seconds", []
    if needs == ["step"]:
        return _line(np.arange(len(segment)) + 1.0, segment.values("step"), "a"), "step", []
    column = next((name for name in (*needs, "loss") if segment.has(name) and name not in ("step", "line")), None)
    if column is None:
        return _telemetry(segment, needs)
    values = segment.values(column)
    bad = x[segment.printed(column) & ~np.isfinite(values)]
    frames = [_line(x, values, "a")]
    if "eval_loss" in needs and "eval_loss" in segment.evals:
        frames.append(_line(segment.evals["step"].to_numpy(float), segment.evals["eval_loss"].to_numpy(float), "b"))
    return pd.concat(frames, ignore_index=True), column, bad[:: max(1, len(bad) // 12)].tolist()


def _telemetry(segment: Segment, needs: list[str]) -> tuple[pd.DataFrame, str, list[float]]:
    column = next((name for name in needs if name in segment.telemetry), None)
    if column is None:
        return pd.DataFrame(columns=COLUMNS), "", []
    values = segment.telemetry[column].to_numpy(float)
    return _line(np.arange(len(values)) + 1.0, values, "a"), column, []


def _ranks(segment: Segment) -> pd.DataFrame:
    column = "loss" if "loss" in segment.ranks else "logits_loss"
    groups = segment.ranks.groupby("rank")
    frames = [_line(rows["step"].to_numpy(float), rows[column].to_numpy(float), str(rank)) for rank, rows in groups]
    return pd.concat(frames, ignore_index=True)


def _line(x: np.ndarray, y: np.ndarray, name: str) -> pd.DataFrame:
    """Return a line (COLUMNS) of at most POINTS points, with the lowest and highest value behind each."""
    told = np.isfinite(x) & np.isfinite(y)
    x, y = x[told], y[told]
    place = np.arange(len(x)) * POINTS // max(len(x), 1) if len(x) > POINTS else np.arange(len(x))
    groups = pd.DataFrame({"x": x, "y": y, "place": place}).groupby("place")
    found = groups.agg(x=("x", "first"), low=("y", "min"), high=("y", "max"), y=("y", "mean"))
    return found.assign(line=name)[COLUMNS].reset_index(drop=True)


def _calm(lines: pd.DataFrame) -> pd.DataFrame:
    """Return a line as means over CALM points, without the range behind them."""
    groups = lines.groupby(np.arange(len(lines)) // CALM)
    means = groups[["x", "y"]].mean()
    return means.assign(low=means["y"], high=means["y"], line="a")[COLUMNS].reset_index(drop=True)


def _spans(segment: Segment, rule: Rule) -> list[tuple[float, float]]:
    """Return where the rule finds something, in x of the picture, each wide enough to be seen."""
    if rule.needs == ("step",):
        return []
    steps = segment.steps() if len(segment) else np.zeros(1)
    first, last = float(np.nanmin(steps)), float(np.nanmax(steps))
    least = (last - first) / 120
    found = []
    for one in list(rule.check(segment))[:20]:
        if one.first_step is not None:
            end = float(one.last_step) if one.last_step is not None else last
            found.append((max(one.first_step - least, first), min(max(end, one.first_step) + least, last)))
    return found


@lru_cache(maxsize=4)
def _spec(*, log: bool, several: bool) -> Spec:
    """Return the picture without data: what is found is shaded, the range behind a line is a band, NaN are crosses."""
    axis = alt.Axis(title=None, grid=False, tickCount=4, format=",.4~s", domain=True, ticks=False)
    x = alt.X("x:Q", axis=axis, scale=alt.Scale(nice=False, zero=False))
    scale = alt.Scale(type="log", nice=False) if log else alt.Scale(zero=False, nice=True)
    y = alt.Y(
        "y:Q", title=None, scale=scale, axis=alt.Axis(tickCount=3, labelExpr=TICK, domain=False, ticks=False, grid=not log)
    )
    data = alt.Chart(alt.NamedData(name=LINES))
    shade = alt.Chart(alt.NamedData(name=MARKED)).mark_rect(opacity=0.16)
    cross = alt.Chart(alt.NamedData(name=BAD)).mark_text(text="✕", fontSize=11, fontWeight=700)
    detail = alt.Detail("line:N")
    palette = alt.Color("line:N", scale=alt.Scale(range=["blue", "orange", "green", "violet"]), legend=None)
    paint = palette if several else alt.ColorValue("blue")
    layers = [
        data.mark_line(strokeWidth=1.4, clip=True).encode(x=x, y=y, color=paint, detail=detail),
        data.mark_area(opacity=0.22, clip=True).encode(
            x=x, y=alt.Y("low:Q", title=None), y2="high", color=paint, detail=detail
        ),
        shade.encode(x=alt.X("x:Q"), x2="x2", color=alt.ColorValue("red")),
        cross.encode(x=alt.X("x:Q"), y=alt.YValue(9), color=alt.ColorValue("red")),
    ]
    chart = alt.layer(*layers).properties(
        width="container", height=HEIGHT_PX, padding={"left": 0, "right": 6, "top": 4, "bottom": 0}
    )
    chart = (
        chart.configure(aria=False, mark=alt.MarkConfig(aria=False))
        .configure_view(stroke=None)
        .configure_axis(labelFontSize=10, gridOpacity=0.5)
    )
    spec: Spec = chart.to_dict()
    return spec


@lru_cache(maxsize=4)
def strip(step: str, what: str) -> Spec:
    """Return a line of points over the steps, over the dataset `strip` (`step, kept, label`): full ones are kept."""
    x = alt.X(
        "step:Q", title=None, axis=alt.Axis(format=",.6~g", grid=False, tickCount=8), scale=alt.Scale(nice=False, zero=False)
    )
    said = [alt.Tooltip("step:Q", title=step, format=","), alt.Tooltip("label:N", title=what)]
    data = alt.Chart(alt.NamedData(name="strip"))
    gone = data.transform_filter("!datum.kept").mark_point(size=40, strokeWidth=1.2)
    kept = data.transform_filter("datum.kept").mark_point(size=70, filled=True, opacity=1)
    layers = [
        gone.encode(x=x, tooltip=said, color=alt.ColorValue("gray")),
        kept.encode(x=x, tooltip=said, color=alt.ColorValue("blue")),
    ]
    chart = alt.layer(*layers).properties(width="container", height=34, padding={"left": 4, "right": 8, "top": 4, "bottom": 0})
    chart = (
        chart.configure(aria=False, mark=alt.MarkConfig(aria=False))
        .configure_view(stroke=None)
        .configure_axis(labelFontSize=11)
    )
    spec: Spec = chart.to_dict()
    return spec
