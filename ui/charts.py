"""Vega-Lite specs, built with Altair once and kept as dicts, without data: a page attaches its frames by name.

A wrong spec is a silent blank chart, so the tests compile every spec.
"""

from datetime import datetime, timedelta
from functools import lru_cache
from typing import Any

import altair as alt

from ui.layers import MARKS, PHASES, SERIES_COLOURS, Axis, Layers, Panel, Series, Words, phase_band

__all__ = ["MARKS", "PHASES", "Axis", "Panel", "Series", "Words", "stack"]

Spec = dict[str, Any]
CURSOR, BRUSH, PICKED = "cursor", "brush", "picked"  # selections: what is read, a range of x, a marker


def stack(
    panels: tuple[Panel, ...],
    words: Words,
    axis: Axis | None = None,
    domain: tuple[float, float] | None = None,
    *,
    phases: bool = False,
) -> Spec:
    """Return linked panels over one x: shared cursor, brush, raw band, smooth line, NaN marks, event markers.

    The dataset of a series has the columns of `ui.series.COLUMNS`, `MARKS` those of `ui.series.MARKER_COLUMNS`, `PHASES` has
    `x, x_last, label, text, shade`.
    `domain` is the zoom in x units. The selection `brush` gives the x range a person drags, `picked` the marker clicked.
    """
    axis = axis or Axis()
    ends = len(panels) - 1
    views = [_panel(panel, axis, words, f"panel{i}", _colours(panel, i), i == ends, i == 0) for i, panel in enumerate(panels)]
    if domain:
        views = [_zoomed(view, domain) for view in views]
    return {**_frame(len(panels)), "vconcat": [*([_phases(axis)] if phases else []), *views]}


def _colours(panel: Panel, index: int) -> tuple[str, ...]:
    """Alone in its panel, a series is told apart by place: one colour a panel; together, one colour a series."""
    return tuple(SERIES_COLOURS[(i if len(panel.series) > 1 else index) % 4] for i in range(len(panel.series)))


# Altair takes tens of ms for a panel; panels are shared between runs, and a zoom changes no more than their domain.
@lru_cache(maxsize=512)
def _panel(panel: Panel, axis: Axis, words: Words, name: str, colours: tuple[str, ...], last: bool, signs: bool) -> Spec:
    layers = Layers(panel, axis, words, last=last, signs=signs).layers(name, list(colours))
    # 600 stands for "the container's width": Streamlit replaces it in each panel of a vconcat.
    return _bare(alt.layer(*layers).properties(width=600, height=panel.height))


@lru_cache(maxsize=8)
def _phases(axis: Axis) -> Spec:
    return _bare(phase_band(axis))


@lru_cache(maxsize=16)
def _frame(count: int) -> Spec:
    """Return what holds the panels: the selections, the shared x, the looks."""
    views = [f"panel{i}" for i in range(count)]
    point = alt.PointSelectionConfig(type="point", nearest=True, on="pointermove", clear="pointerout", fields=["x"])
    mark = alt.BrushConfig(fill="gray", fillOpacity=0.15, stroke="gray")
    sign = alt.PointSelectionConfig(type="point", on="click", clear="dblclick", fields=["mark"], toggle=False)
    params = [
        alt.TopLevelSelectionParameter(name=CURSOR, views=views, select=point),
        alt.TopLevelSelectionParameter(
            name=BRUSH, views=views, select=alt.IntervalSelectionConfig(type="interval", encodings=["x"], mark=mark)
        ),
        alt.TopLevelSelectionParameter(name=PICKED, views=["signs"], select=sign),
    ]
    chart = alt.VConcatChart(vconcat=[alt.Chart(alt.NamedData(name=MARKS)).mark_point()], params=params, spacing=8)
    chart = chart.resolve_scale(x="shared", color="independent").properties(
        padding={"left": 0, "right": 6, "top": 2, "bottom": 2}
    )
    chart = chart.configure_view(stroke=None).configure_axis(labelFontSize=11, titleFontSize=11, gridOpacity=0.6)
    spec = chart.to_dict()
    return {name: value for name, value in spec.items() if name not in ("vconcat", "data")}


def _zoomed(view: Spec, domain: tuple[float, float]) -> Spec:
    """Return a panel that shows `domain`; only its first layer has the scale."""
    first, *others = view["layer"]
    x = first["encoding"]["x"]
    edges = [_moment(edge) if x["type"] == "temporal" else edge for edge in domain]
    zoomed = x | {"scale": x["scale"] | {"domain": edges}}
    return view | {"layer": [first | {"encoding": first["encoding"] | {"x": zoomed}}, *others]}


def _moment(milliseconds: float) -> Spec:
    """Return a time as a spec names it. (A plain number becomes `datetime(number)`, which the page's interpreter misreads.)"""
    at = datetime(1970, 1, 1) + timedelta(milliseconds=milliseconds)
    clock = {"hours": at.hour, "minutes": at.minute, "seconds": at.second, "milliseconds": at.microsecond // 1000}
    return {"year": at.year, "month": at.month, "date": at.day, **clock, "utc": True}


def _bare(chart: Any) -> Spec:
    """Return a chart as a part of another: without what a whole spec has."""
    return {name: value for name, value in chart.to_dict().items() if name not in ("$schema", "config")}
