"""The epochs of a run drawn over each other, built with Altair once and kept as a dict; a page attaches its frame by name."""

from functools import lru_cache
from typing import Any

import altair as alt

CURVES = "curves"
HEIGHT_PX = 270
Spec = dict[str, Any]


@lru_cache(maxsize=16)
def overlay(way: str, part: str, value: str, low: str, high: str, *, log: bool = False) -> Spec:
    """Return the curves over the way through a part, over the dataset CURVES (`part, label, x, mean, low, high, age, newest`).

    age: 0 for the oldest that is drawn to 1 for the newest, which alone has a colour; the others fade into grey.
    """
    data = alt.Chart(alt.NamedData(name=CURVES))
    x = alt.X("x:Q", title=way, scale=alt.Scale(domain=[0, 1], nice=False), axis=alt.Axis(format="%", tickCount=5, grid=False))
    scale = alt.Scale(type="log", nice=False) if log else alt.Scale(zero=False, nice=True)
    y = alt.Y(
        "mean:Q", title=None, scale=scale, axis=alt.Axis(tickCount=5, format=",.4~g", domain=False, ticks=False, grid=not log)
    )
    said = [alt.Tooltip("label:N", title=part), alt.Tooltip("x:Q", title=way, format=".0%")]
    said += [alt.Tooltip(f"{name}:Q", title=title, format=",.5~g") for name, title in (("mean", value), ("low", low))]
    said += [alt.Tooltip("high:Q", title=high, format=",.5~g")]
    fade = alt.Opacity("age:Q", scale=alt.Scale(domain=[0, 1], range=[0.3, 0.95]), legend=None)
    older = data.transform_filter("!datum.newest").mark_line(strokeWidth=1.3)
    newest = data.transform_filter("datum.newest")
    layers = [
        older.encode(x=x, y=y, detail="part:N", color=alt.ColorValue("gray"), opacity=fade),
        newest.mark_area(opacity=0.15).encode(x=x, y=alt.Y("low:Q", title=None), y2="high", color=alt.ColorValue("blue")),
        newest.mark_line(strokeWidth=2.2).encode(x=x, y=y, color=alt.ColorValue("blue")),
        data.mark_point(size=40, opacity=0, filled=True).encode(x=x, y=y, tooltip=said),
        *(_names(data, x, y, which, colour) for which, colour in (("datum.newest", "blue"), ("!datum.newest", "gray"))),
    ]
    chart = alt.layer(*layers).properties(
        width="container", height=HEIGHT_PX, padding={"left": 0, "right": 64, "top": 6, "bottom": 2}
    )
    chart = (
        chart.configure(aria=False, mark=alt.MarkConfig(aria=False))
        .configure_view(stroke=None)
        .configure_axis(labelFontSize=11, titleFontSize=11, gridOpacity=0.6)
    )
    spec: Spec = chart.to_dict()
    return spec


def _names(data: alt.Chart, x: alt.X, y: alt.Y, which: str, colour: str) -> alt.Chart:
    """What a curve is called, at its end. (The page resolves a colour of the theme as a value only, not in a condition.)"""
    ends = data.transform_filter(f"isValid(datum.name) && {which}")
    text = ends.mark_text(align="left", dx=5, fontSize=11, fontWeight=600)
    return text.encode(x=x, y=y, text="name:N", color=alt.ColorValue(colour))
