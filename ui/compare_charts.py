"""The charts of Compare, built with Altair once and kept as dicts; a page attaches its frames by name.

The base is grey, the others have four colours, solid and then dashed: told apart without colour too.
"""

import json
import textwrap
from functools import lru_cache
from typing import Any

import altair as alt

from ui.layers import TICK

CURVES, BANDS, SCATTER, LINES = "curves", "bands", "scatter", "lines"
HUES = ("blue", "orange", "green", "violet")
BASE = "gray"
DASHES: tuple[list[int], ...] = ([1, 0], [5, 3])
OVERLAYS = 8
CURVE_PX, SMALL_PX, SMALL_WIDTH_PX, SCATTER_PX = 300, 120, 310, 260
PLACE_PX, PLACE_HEIGHT_PX = 310, 140  # of a small chart with title and axes: three beside each other, one on a phone
Spec = dict[str, Any]
Domain = tuple[float, float]
TITLE_LETTERS, TITLE_LINES = 46, 4  # of the title of a small chart
STROKE: dict[str, Any] = {"symbolType": "stroke", "symbolStrokeWidth": 3, "symbolOpacity": 1}


def paint(order: int) -> tuple[str, list[int]]:
    """Return colour and dash of a run by its place in the drawn order (0: the base)."""
    if order == 0:
        return BASE, DASHES[0]
    return HUES[(order - 1) % len(HUES)], DASHES[(order - 1) // len(HUES) % len(DASHES)]


@lru_cache(maxsize=64)
def curves(
    orders: tuple[int, ...], x: str, y: str, run: str, *, log: bool, zero: float | None = None, names: tuple[str, ...] = ()
) -> Spec:
    """Return the overlay of runs by their place in the drawn order (0: the base), which gives each its colour.

    CURVES: `order, label, x, y, smooth`, BANDS: `order, label, x, low, high` (of groups). zero: where a line is drawn across.
    The titles are those of the axes, `run` that of the label in a tooltip. names: the labels, for a legend in the picture.
    """
    paints = [paint(order) for order in orders]
    domain, field = (list(names), "label:N") if names else (list(orders), "order:N")
    named = alt.Legend(title=None, orient="top", columns=2, labelLimit=420, **STROKE) if names else None
    colour = alt.Color(field, scale=alt.Scale(domain=domain, range=[hue for hue, _dash in paints]), legend=named)
    dash = alt.StrokeDash(field, scale=alt.Scale(domain=domain, range=[dash for _hue, dash in paints]), legend=None)
    across = alt.X(
        "x:Q", title=x, axis=alt.Axis(labelExpr=TICK, grid=False, tickCount=8), scale=alt.Scale(nice=False, zero=False)
    )
    scale = alt.Scale(type="log", nice=False, zero=False) if log else alt.Scale(zero=False, nice=True)
    up = alt.Y("smooth:Q", title=y, axis=alt.Axis(tickCount=6, labelExpr=TICK), scale=scale)
    bands = alt.Chart(alt.NamedData(name=BANDS)).mark_area(opacity=0.16, clip=True)
    bands = bands.encode(x=across, y=alt.Y("low:Q", title=y, scale=scale), y2=alt.Y2("high"), color=colour)
    data = alt.Chart(alt.NamedData(name=CURVES))
    raw = data.mark_line(strokeWidth=1, opacity=0.25, clip=True).encode(x=across, y=alt.Y("y:Q", scale=scale), color=colour)
    width = alt.condition("datum.order == 0", alt.value(2.6), alt.value(1.8))
    smooth = data.mark_line(clip=True, interpolate="monotone").encode(
        x=across, y=up, color=colour, strokeDash=dash, strokeWidth=width
    )
    said = [
        alt.Tooltip("label:N", title=run),
        alt.Tooltip("x:Q", title=x, format=",.6~g"),
        alt.Tooltip("y:Q", title=y, format=",.5~g"),
    ]
    near = alt.selection_point(name="near", on="pointermove", nearest=True, empty=False, clear="pointerout")
    points = data.mark_point(filled=True, size=46, clip=True).encode(
        x=across,
        y=alt.Y("y:Q", scale=scale),
        color=colour,
        tooltip=said,
        opacity=alt.condition(near, alt.value(1), alt.value(0)),
    )
    layers = [bands, raw, smooth, points.add_params(near)]
    if zero is not None:
        rule = alt.Chart(alt.InlineData(values=[{"zero": zero}])).mark_rule(strokeWidth=1, opacity=0.6)
        layers.insert(0, rule.encode(y=alt.Y("zero:Q", scale=scale), color=alt.ColorValue("gray")))
    return _done(alt.layer(*layers), CURVE_PX)


@lru_cache(maxsize=16)
def small_multiples(x: str, y: str, run: str, base: str, *, log: bool, columns: int) -> Spec:
    """Return one small chart a run in one picture, with titles of its axes and a legend: what `run` and `base` are called.

    CURVES: `order, facet, role, label, x, smooth`; lines of a facet's name are cut at line feeds.
    """
    line = _small_lines(x, y, run, log).properties(width=SMALL_WIDTH_PX, height=SMALL_PX)
    said = f"datum.value == 'base' ? {json.dumps(base)} : {json.dumps(run)}"
    legend = alt.Legend(title=None, orient="top", labelExpr=said, labelLimit=0, **STROKE)
    line = line.encode(x=line.encoding.x.title(x), y=line.encoding.y.title(y), color=line.encoding.color.legend(legend))
    header = alt.Header(title=None, labelFontSize=11, labelFontWeight="bold", labelLimit=0, labelAnchor="start")
    header.labelExpr = "split(datum.value, '\\n')"
    spec: Spec = line.facet(
        facet=alt.Facet("facet:N", sort=alt.EncodingSortField("order", op="min"), header=header), columns=columns
    ).to_dict()
    return {**spec, "config": _config(), "padding": {"left": 0, "right": 4, "top": 2, "bottom": 2}}


def small(x: str, y: str, run: str, *, log: bool, across: Domain, up: Domain) -> Spec:
    """Return one of the small charts by itself, as wide as its place. across, up: the domains of x and y that all share."""
    spec = _one_small(x, y, run, log)
    within = {name: {**spec["encoding"][name]["scale"], "domain": list(ends)} for name, ends in (("x", across), ("y", up))}
    scaled = {name: {**spec["encoding"][name], "scale": scale} for name, scale in within.items()}
    return {**spec, "encoding": {**spec["encoding"], **scaled}}


@lru_cache(maxsize=16)
def _one_small(x: str, y: str, run: str, log: bool) -> Spec:
    return _done(_small_lines(x, y, run, log), PLACE_HEIGHT_PX)


def titled(spec: Spec, title: str) -> Spec:
    """Return a chart with a title, where the headers of small multiples stand."""
    return {**spec, "title": {"text": lines_of(title), "anchor": "start", "fontSize": 11, "limit": PLACE_PX}}


def lines_of(title: str) -> list[str]:
    """Return the title of a small chart as lines, which stand in its width."""
    return textwrap.wrap(title, TITLE_LETTERS, max_lines=TITLE_LINES, placeholder=" …") or [""]


def _small_lines(x: str, y: str, run: str, log: bool) -> alt.Chart:
    """Return the lines of a run, the base in grey behind it."""
    scale = alt.Scale(type="log", nice=False, zero=False) if log else alt.Scale(zero=False, nice=True)
    wide = alt.Scale(nice=False, zero=False)
    colour = alt.Color("role:N", scale=alt.Scale(domain=["base", "run"], range=[BASE, "blue"]), legend=None)
    line = alt.Chart(alt.NamedData(name=CURVES)).mark_line(strokeWidth=1.6, clip=True)
    return line.encode(
        x=alt.X("x:Q", title=None, axis=alt.Axis(labelExpr=TICK, grid=False, tickCount=3), scale=wide),
        y=alt.Y("smooth:Q", title=None, axis=alt.Axis(tickCount=3, labelExpr=TICK), scale=scale),
        color=colour,
        detail="role:N",
        tooltip=[
            alt.Tooltip("label:N", title=run),
            alt.Tooltip("x:Q", title=x, format=",.6~g"),
            alt.Tooltip("smooth:Q", title=y, format=",.5~g"),
        ],
    )


@lru_cache(maxsize=64)
def scatter(x: str, y: str, run: str, *, numeric: bool, log: bool) -> Spec:
    """Return a setting against the result. SCATTER: `label, x, y`; numeric: x is a number, else a word."""
    scale = alt.Scale(type="log", nice=False, padding=24) if log else alt.Scale(zero=False, nice=True)
    place = (
        alt.X("x:Q", title=x, scale=scale, axis=alt.Axis(grid=False, labelExpr=TICK, tickCount=6, labelOverlap=True))
        if numeric
        else alt.X("x:N", title=x, axis=alt.Axis(labelAngle=0, labelLimit=90))
    )
    value = alt.Tooltip("x:Q" if numeric else "x:N", title=x)
    said = [alt.Tooltip("label:N", title=run), value, alt.Tooltip("y:Q", title=y, format=",.5~g")]
    points = alt.Chart(alt.NamedData(name=SCATTER)).mark_circle(size=52, opacity=0.65)
    points = points.encode(
        x=place,
        y=alt.Y("y:Q", title=y, scale=alt.Scale(zero=False, nice=True), axis=alt.Axis(tickCount=5, labelExpr=TICK)),
        color=alt.ColorValue("blue"),
        tooltip=said,
    )
    return _done(points, SCATTER_PX)


@lru_cache(maxsize=16)
def parallel(keys: tuple[str, ...], result: str, run: str) -> Spec:
    """Return parallel coordinates: a line a run over the settings, the best tenth strong.

    LINES: `run, label, key (its position), place (0…1), value, best, told` (the value where it stands beside the axis).
    """
    labels = [*keys, result]
    axis = alt.Axis(
        title=None,
        labelExpr=f"{labels!r}[datum.value]",
        values=list(range(len(labels))),
        grid=True,
        domain=False,
        labelLimit=130,
        labelAngle=0,
        orient="top",
    )
    data = alt.Chart(alt.NamedData(name=LINES))
    x = alt.X("key:Q", axis=axis, scale=alt.Scale(domain=[0, len(labels) - 1], nice=False))
    y = alt.Y("place:Q", axis=None, scale=alt.Scale(domain=[0, 1.06], nice=False))
    said = [alt.Tooltip("label:N", title=run), alt.Tooltip("value:N", title=" ")]
    others = data.transform_filter("!datum.best").mark_line(strokeWidth=1, opacity=0.22)
    best = data.transform_filter("datum.best").mark_line(strokeWidth=1.8, opacity=0.9)
    layers = [
        others.encode(x=x, y=y, detail="run:N", color=alt.ColorValue("gray")),
        best.encode(x=x, y=y, detail="run:N", color=alt.ColorValue("blue")),
        data.mark_point(size=30, opacity=0).encode(x=x, y=y, tooltip=said),
    ]
    told, last = data.transform_filter("datum.told != ''"), len(keys)
    left = told.transform_filter(f"datum.key < {last}").mark_text(align="left", dx=5, dy=-6, fontSize=10)
    right = told.transform_filter(f"datum.key == {last}").mark_text(align="right", dx=-5, dy=-6, fontSize=10)
    layers += [words.encode(x=x, y=y, text="told:N", color=alt.ColorValue("gray")) for words in (left, right)]
    return _done(alt.layer(*layers), SCATTER_PX)


def _config() -> Spec:
    return {"view": {"stroke": None}, "axis": {"labelFontSize": 11, "titleFontSize": 11, "gridOpacity": 0.6}}


def _done(chart: Any, height: int) -> Spec:
    chart = chart.properties(width="container", height=height, padding={"left": 0, "right": 8, "top": 4, "bottom": 2})
    spec: Spec = chart.to_dict()
    return {**spec, "config": _config()}
