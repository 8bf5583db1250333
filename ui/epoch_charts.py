"""The epochs of a run over each other, or one after the other: specs kept as dicts; a page attaches its frame by name."""

from functools import lru_cache
from typing import Any

import altair as alt

from ui.layers import TICK

CURVES = "curves"
HEIGHT_PX = 270
Spec = dict[str, Any]


@lru_cache(maxsize=16)
def overlay(way: str, part: str, value: str, low: str, high: str, *, log: bool = False) -> Spec:
    """Return the curves over the way through a part, over CURVES (`part, label, x, mean, low, high, age, newest, alone, name`).

    age: 0 for the oldest that is drawn to 1 for the newest, which alone has a colour; the others fade into grey.
    """
    data = alt.Chart(alt.NamedData(name=CURVES))
    x = alt.X("x:Q", title=way, scale=alt.Scale(domain=[0, 1], nice=False), axis=alt.Axis(format="%", tickCount=5, grid=False))
    y = _height("mean:Q", log=log)
    said = [alt.Tooltip("label:N", title=part), alt.Tooltip("x:Q", title=way, format=".0%")]
    said += [alt.Tooltip(f"{name}:Q", title=title, format=",.5~g") for name, title in (("mean", value), ("low", low))]
    said += [alt.Tooltip("high:Q", title=high, format=",.5~g")]
    fade = alt.Opacity("age:Q", scale=alt.Scale(domain=[0, 1], range=[0.3, 0.95]), legend=None)
    older = data.transform_filter("!datum.newest")
    newest = data.transform_filter("datum.newest")
    layers = [
        older.mark_line(strokeWidth=1.3).encode(x=x, y=y, detail="part:N", color=alt.ColorValue("gray"), opacity=fade),
        newest.mark_area(opacity=0.15).encode(x=x, y=alt.Y("low:Q", title=None), y2="high", color=alt.ColorValue("blue")),
        newest.mark_line(strokeWidth=2.2).encode(x=x, y=y, color=alt.ColorValue("blue")),
        older.transform_filter("datum.alone")
        .mark_point(filled=True)
        .encode(x=x, y=y, color=alt.ColorValue("gray"), opacity=fade),
        newest.transform_filter("datum.alone").mark_point(filled=True).encode(x=x, y=y, color=alt.ColorValue("blue")),
        data.mark_point(size=40, opacity=0, filled=True).encode(x=x, y=y, tooltip=said),
        *(_names(data, x, y, which, colour) for which, colour in (("datum.newest", "blue"), ("!datum.newest", "gray"))),
    ]
    return _framed(alt.layer(*layers).properties(padding={"left": 0, "right": 64, "top": 6, "bottom": 2}))


@lru_cache(maxsize=16)
def by_part(part: str, series: tuple[str, ...], *, log: bool = False) -> Spec:
    """Return one point a part, over CURVES (`part, label, series, value`); `series`: those there are, in their colours."""
    x = alt.X("part:Q", title=part, scale=alt.Scale(nice=False), axis=alt.Axis(format=",d", tickMinStep=1, grid=False))
    paint = alt.Scale(domain=list(series), range=["blue", "orange"][: len(series)])
    colour = alt.Color("series:N", scale=paint, legend=alt.Legend(orient="top", title=None))
    said = [alt.Tooltip("label:N", title=part), alt.Tooltip("series:N", title=" ")]
    said += [alt.Tooltip("value:Q", title=" ", format=",.5~g")]
    base = alt.Chart(alt.NamedData(name=CURVES)).encode(x=x, y=_height("value:Q", log=log), color=colour)
    return _framed(alt.layer(base.mark_line(strokeWidth=1.6), base.mark_point(size=36, filled=True).encode(tooltip=said)))


def _height(field: str, *, log: bool) -> alt.Y:
    scale = alt.Scale(type="log", nice=False) if log else alt.Scale(zero=False, nice=True)
    axis = alt.Axis(tickCount=5, labelExpr=TICK, domain=False, ticks=False, grid=not log)
    return alt.Y(field, title=None, scale=scale, axis=axis)


def _framed(chart: Any) -> Spec:
    chart = chart.properties(width="container", height=HEIGHT_PX)
    chart = chart.configure(aria=False, mark=alt.MarkConfig(aria=False)).configure_view(stroke=None)
    spec: Spec = chart.configure_axis(labelFontSize=11, titleFontSize=11, gridOpacity=0.6).to_dict()
    return spec


def _names(data: alt.Chart, x: alt.X, y: alt.Y, which: str, colour: str) -> alt.Chart:
    """What a curve is called, at its end. (The page resolves a colour of the theme as a value only, not in a condition.)"""
    ends = data.transform_filter(f"isValid(datum.name) && {which}")
    text = ends.mark_text(align="left", dx=5, fontSize=11, fontWeight=600)
    return text.encode(x=x, y=y, text="name:N", color=alt.ColorValue(colour))
