"""The charts of Time & cost, built with Altair once and kept as dicts; a page attaches its frames by name."""

from functools import lru_cache
from typing import Any

import altair as alt

from ui.layers import TICK

PARTS, COURSE, BLOCKS, END = "parts", "course", "blocks", "end"
# Productive is quiet, waste is what is meant to be read; colours are the theme's names (Okabe-Ito).
TONES = {
    "productive": "green",
    "lost_steps": "red",
    "dead_gaps": "gray",
    "hangs": "violet",
    "slow": "orange",
    "pauses": "blue",
    "spikes": "red",
    "after_nan": "violet",
    "diverged": "violet",
    "start_up": "gray",
}
BAR_PX, COURSE_PX = 76, 200
Spec = dict[str, Any]


@lru_cache(maxsize=8)
def ledger(part: str, time: str, share: str, unit: str) -> Spec:
    """Return one bar that adds up, over the dataset PARTS (`name, title, from, until, lane, amount, share, tone, opacity`).

    `from` and `until` are in `unit`, which stands right behind the numbers of the axis: ` min`.
    """
    tones = sorted(set(TONES.values()))
    colour = alt.Color("tone:N", scale=alt.Scale(domain=tones, range=tones), legend=None)
    said = [alt.Tooltip("title:N", title=part), alt.Tooltip("amount:N", title=time), alt.Tooltip("share:N", title=share)]
    axis = alt.Axis(title=None, grid=False, tickCount=6, labelExpr=f"format(datum.value, ',.4~g') + '{unit}'")
    bars = (
        alt.Chart(alt.NamedData(name=PARTS))
        .mark_bar(cornerRadius=2)
        .encode(
            x=alt.X("from:Q", scale=alt.Scale(nice=False), axis=axis),
            x2=alt.X2("until"),
            y=alt.Y("lane:N", axis=None),
            color=colour,
            opacity=alt.Opacity("opacity:Q", scale=None),
            tooltip=said,
        )
    )
    return _done(bars, BAR_PX)


@lru_cache(maxsize=8)
def course(step: str, seconds: str, hours: str, launch: str, *, log: bool = False) -> Spec:
    """Return seconds a step over the steps, over the dataset COURSE (`step, seconds, hours, launch`); `log`: of the y axis."""
    x = alt.X("step:Q", title=step, axis=alt.Axis(format=",.6~g", grid=False), scale=alt.Scale(nice=False, zero=False))
    said = [
        alt.Tooltip("step:Q", title=step, format=","),
        alt.Tooltip("seconds:Q", title=seconds, format=",.4~g"),
        alt.Tooltip("hours:Q", title=hours, format=",.4~g"),
        alt.Tooltip("launch:N", title=launch),
    ]
    scale = alt.Scale(type="log", nice=True) if log else alt.Scale(zero=True, nice=True)
    y = alt.Y("seconds:Q", title=seconds, axis=alt.Axis(tickCount=4, labelExpr=TICK), scale=scale)
    line = alt.Chart(alt.NamedData(name=COURSE)).mark_line(strokeWidth=1.4, interpolate="step-before")
    line = line.encode(x=x, y=y, detail="launch:N", color=alt.ColorValue("blue"))
    points = alt.Chart(alt.NamedData(name=COURSE)).mark_point(opacity=0, size=60).encode(x=x, y=y, tooltip=said)
    return _done(alt.layer(line, points), COURSE_PX)


@lru_cache(maxsize=8)
def loss(step: str, value: str, low: str, high: str) -> Spec:
    """Return the loss so far and its end, over the datasets BLOCKS (`step, loss`) and END (`step, loss, low, high`)."""
    x = alt.X("step:Q", title=step, axis=alt.Axis(format=",.6~g", grid=False), scale=alt.Scale(nice=False, zero=False))
    scale = alt.Scale(zero=False, nice=True)
    y = alt.Y("loss:Q", title=value, axis=alt.Axis(tickCount=4, labelExpr=TICK), scale=scale)
    line = alt.Chart(alt.NamedData(name=BLOCKS)).mark_line(strokeWidth=1.8).encode(x=x, y=y, color=alt.ColorValue("blue"))
    said = [
        alt.Tooltip(f"{name}:Q", title=title, format=",.4~g") for name, title in (("loss", value), ("low", low), ("high", high))
    ]
    end = alt.Chart(alt.NamedData(name=END))
    span = end.mark_rule(strokeWidth=3, color="orange", opacity=0.5).encode(
        x=x, y=alt.Y("low:Q", title=value), y2=alt.Y2("high")
    )
    ends = {"y": alt.Y("low:Q", title=value), "y2": alt.Y2("high"), "color": alt.ColorValue("orange")}
    span = end.mark_rule(strokeWidth=4, opacity=0.5).encode(x=x, **ends)
    point = end.mark_point(filled=True, size=70, opacity=1).encode(x=x, y=y, tooltip=said, color=alt.ColorValue("orange"))
    return _done(alt.layer(line, span, point), COURSE_PX)


def _done(chart: Any, height: int) -> Spec:
    chart = chart.properties(width="container", height=height, padding={"left": 0, "right": 8, "top": 4, "bottom": 2})
    chart = (
        chart.configure(aria=False, mark=alt.MarkConfig(aria=False))
        .configure_view(stroke=None)
        .configure_axis(labelFontSize=11, titleFontSize=11, gridOpacity=0.6)
    )
    spec: Spec = chart.to_dict()
    return spec
