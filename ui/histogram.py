"""The histogram of text lengths, built with Altair once and kept as a dict."""

from functools import lru_cache
from typing import Any

import altair as alt

BARS, MARKS = "bars", "marks"
HEIGHT_PX = 220


@lru_cache(maxsize=16)
def lengths(x: str, y: str, first: str, last: str) -> dict[str, Any]:
    """Return a spec over the datasets BARS (`first, until, last, count`) and MARKS (`at, label, tone, row`).

    `x` and `y` are the titles of the axes, `first` and `last` those of the edges of a bar. Lengths stand on a log scale.
    """
    place = alt.X("first:Q", scale=alt.Scale(type="log", nice=False), title=x, axis=alt.Axis(tickCount=8, format=",.6~g"))
    said = [alt.Tooltip("first:Q", title=first, format=","), alt.Tooltip("last:Q", title=last, format=",")]
    bars = (
        alt.Chart(alt.NamedData(name=BARS))
        .mark_rect(stroke="white", strokeOpacity=0.4, strokeWidth=0.6)
        .encode(
            x=place,
            x2=alt.X2("until"),
            y2=alt.Y2(datum=0),
            y=alt.Y("count:Q", scale=alt.Scale(zero=True), title=y, axis=alt.Axis(tickCount=5, format=",.3~s")),
            color=alt.ColorValue("blue"),
            tooltip=[*said, alt.Tooltip("count:Q", title=y, format=",")],
        )
    )
    tone = alt.Color("tone:N", scale=alt.Scale(domain=["red", "gray"], range=["red", "gray"]), legend=None)
    marks, at = alt.Chart(alt.NamedData(name=MARKS)), alt.X("at:Q", title=x)
    rules = marks.mark_rule(strokeDash=[4, 3]).encode(x=at, color=tone)
    words = marks.mark_text(align="left", dx=4, baseline="top", fontSize=11)
    named = words.encode(x=at, y=alt.Y("row:Q", scale=None), text="label:N", color=tone)
    chart = alt.layer(bars, rules, named).properties(height=HEIGHT_PX, width="container")
    spec: dict[str, Any] = chart.configure_view(stroke=None).configure_axis(gridOpacity=0.6).to_dict()
    return spec
