"""The layers of one panel in Altair: band, line, what a line can't show, reading, markers. `ui.charts` stacks the panels.

Colours are Streamlit's theme names (`blue`, `red`, …), which the browser resolves for light and dark where they stand as
the value of a colour or in the range of its scale, and nowhere else.
"""

from dataclasses import dataclass
from typing import Any
from unicodedata import east_asian_width

import altair as alt

SERIES_COLOURS = ("blue", "orange", "green", "violet")
TONES = ["red", "orange", "gray"]
MARKS, PHASES = "marks", "phases"  # the datasets drawn through all panels: what happened, and the phases of the run
AXIS_PX = 54  # the same gutter left of every panel, so that all plots start at the same x
READOUT_PX = 150  # room for one series' name and value in the line above a panel
HEADING_CHARS = 36  # of a title and the name of a series, side by side with a value above the panel of a phone
PHASE_PX = 17
HEADING_Y = -7
# Learning rates as 5e-4, bytes as 34G. Ticks are round, so that they are short; neighbours that lie close have more digits.
TICK = (
    "datum.value != 0 && abs(datum.value) < 0.01 ? format(datum.value, '.5~e') : "
    "abs(datum.value) >= 1e15 ? format(datum.value, '.5~e') : "
    "abs(datum.value) >= 1e6 ? format(datum.value, '.6~s') : format(datum.value, ',.7~g')"
)
_READ = "length(data('cursor_store'))"
CURSOR_OR_LAST = f"{_READ} ? vlSelectionTest('cursor_store', datum) : datum.end"
VALUE = f"{_READ} ? datum.mean : datum.final"
SHOWN = (
    "!isValid(datum.value) ? 'NaN' : abs(datum.value) >= 1e15 || abs(datum.value) < 0.01 && datum.value != 0 ? "
    "format(datum.value, '.3~e') : abs(datum.value) >= 1e6 ? format(datum.value, '.4~s') : format(datum.value, ',.4~r')"
)
HAND = alt.ExprRef("datum.finding >= 0 || datum.line > 0 ? 'pointer' : 'default'")
WHOLE, NUMBER, CLOCK, ELAPSED = "whole", "number", "clock", "elapsed"
DAY_MS = 86_400_000
_HOURS = "floor({0} / 3600000) + utcFormat({0}, ':%M')"
_TICKS = {
    # 1M, 2.5B: what people say of steps and tokens, where SI says G.
    WHOLE: "abs(datum.value) >= 1e6 ? replace(format(datum.value, '.4~s'), 'G', 'B') : format(datum.value, ',.6~g')",
    NUMBER: "abs(datum.value) >= 1e6 ? replace(format(datum.value, '.4~s'), 'G', 'B') : format(datum.value, ',.6~g')",
    CLOCK: f"utcFormat(datum.value, datum.value % {DAY_MS} ? '%H:%M' : '%b %d')",
    ELAPSED: _HOURS.format("datum.value"),
}
# On a logarithmic axis 1, 2 and 5 of each decade have a label.
_ROUND = "indexof([1, 2, 5], round(datum.value / pow(10, floor(log(datum.value) / LN10 + 1e-9)))) >= 0 ? {} : ''"
_PLACES = {
    WHOLE: "format(datum.{0}, ',.0f')",
    NUMBER: "format(datum.{0}, ',.6~g')",
    CLOCK: "utcFormat(datum.{0}, '%Y-%m-%d %H:%M:%S')",
    ELAPSED: _HOURS.format("datum.{0}") + " + utcFormat(datum.{0}, ':%S')",
}


@dataclass(frozen=True)
class Series:
    """One line of a panel: the name of its dataset and what a person calls it."""

    data: str
    label: str
    raw: bool = False  # its points are single rows beside a smoothed line: a band of their range would have no height


@dataclass(frozen=True)
class Panel:
    """One chart of the stack: title with unit, its series, height in px, logarithmic y or not, its range (None: the data's)."""

    title: str
    series: tuple[Series, ...]
    height: int = 120
    log: bool = False
    domain: tuple[float, float] | None = None


@dataclass(frozen=True)
class Axis:
    """The x of a stack. kind: `whole`, `number`, `clock` (ms since 1970, shown as printed), `elapsed` (ms from the start).

    log: the scale is logarithmic; its x are above 0.
    """

    title: str = "Step"
    kind: str = WHOLE
    log: bool = False

    @property
    def type(self) -> str:
        """The type of x in a spec."""
        return "temporal" if self.kind in (CLOCK, ELAPSED) else "quantitative"


@dataclass(frozen=True)
class Words:
    """The words in a spec, in the reader's language."""

    x_last: str = "to"
    smooth: str = "Smoothed"
    mean: str = "Mean"
    low: str = "Lowest"
    high: str = "Highest"
    count: str = "Points"
    bad: str = "NaN or infinite"
    event: str = "Event"


class Layers:
    """Makes the layers of one panel. `last`: the panel has the labels of x below it; `signs`: it shows what happened."""

    def __init__(self, panel: Panel, axis: Axis, words: Words, *, last: bool, signs: bool) -> None:
        self._panel, self._axis, self._words = panel, axis, words
        self._last, self._signs = last, signs
        # The other layers beside `_hover`, whose scales and axes hold for the panel: said once, a spec stays small.
        self._x = alt.X("x", type=axis.type, title=axis.title if last else None)  # type: ignore[arg-type]
        # A line does not run on from one launch to the next.
        self._launch = alt.Detail("segment:N")

    def layers(self, name: str, colours: list[str]) -> list[alt.Chart]:
        """Return all layers from the back to the front; the first is a view called `name`, which owns the selections."""
        painted = list(zip(self._panel.series, colours, strict=True))
        found = [self._hover(name), self._heading(), *self._markers()]
        found += [self._band(series, colour) for series, colour in painted]
        found += [self._raw(series, colour) for series, colour in painted if series.raw]
        found += [self._line(series, colour) for series, colour in reversed(painted)]  # the first one on top
        found += [self._alone(series, colour) for series, colour in painted]
        found += [layer for series, colour in painted for layer in (self._bad(series), self._hidden(series, colour))]
        found += [self._readout(series, position, colour) for position, (series, colour) in enumerate(painted)]
        return [*found, self._cursor(), *([self._sign()] if self._signs else [])]

    def _hover(self, name: str) -> alt.Chart:
        """The unseen points that the cursor snaps to."""
        words = self._words
        values = [("mean", words.mean, ".6~g"), ("smooth", words.smooth, ".6~g"), ("low", words.low, ".6~g")]
        values += [("high", words.high, ".6~g"), ("count", words.count, ",.0f"), ("bad", words.bad, ",.0f")]
        said = [alt.Tooltip("from:N", title=self._axis.title), alt.Tooltip("until:N", title=words.x_last)]
        said += [alt.Tooltip(field, type="quantitative", title=title, format=form) for field, title, form in values]
        place = _PLACES[self._axis.kind]
        return (
            _of(self._panel.series[0].data)
            .transform_calculate(**{"from": place.format("x"), "until": place.format("x_last")})
            .mark_point(size=30, filled=True, opacity=0)
            .encode(x=self._full_x(), y=self._full_y(), tooltip=said)
            .properties(name=name)
        )

    def _full_x(self) -> alt.X:
        last = self._last
        # The title stands in the gutter left of the labels, where it costs no line.
        title: dict[str, Any] = {
            "titleX": -AXIS_PX,
            "titleY": 13,
            "titleAlign": "left",
            "titleBaseline": "middle",
            "titleAnchor": "start",
        }
        labels: dict[str, Any] = {
            "labelFlush": True,
            "labelOverlap": True,
            "labelPadding": 5,
            "labelExpr": _ROUND.format(_TICKS[self._axis.kind]) if self._axis.log else _TICKS[self._axis.kind],
        }
        axis = alt.Axis(
            title=self._axis.title if last else None, domain=last, ticks=last, labels=last, tickCount=8, **labels, **title
        )
        scale = alt.Scale(nice=False, zero=False) if self._axis.type == "quantitative" else alt.Scale(nice=False, type="utc")
        if self._axis.log:
            scale = alt.Scale(type="log", nice=False)
        return alt.X("x", type=self._axis.type, scale=scale, axis=axis)  # type: ignore[arg-type]

    def _full_y(self) -> alt.Y:
        axis = alt.Axis(
            title=None,
            minExtent=AXIS_PX,
            maxExtent=AXIS_PX,
            domain=False,
            ticks=False,
            labelExpr=TICK,
            tickCount=max(2, self._panel.height // 36),
            labelOverlap=True,
        )
        reach: dict[str, Any] = {"domain": self._panel.domain} if self._panel.domain else {}
        scale = alt.Scale(type="log", nice=False, **reach) if self._panel.log else alt.Scale(zero=False, nice=True, **reach)
        return alt.Y("smooth:Q", scale=scale, axis=axis)

    def _heading(self) -> alt.Chart:
        # A mark, not the view's `title`: a title is laid out above the readouts and would cost a line.
        return (
            alt.Chart(alt.sequence(0, 1))
            .mark_text(text=self._panel.title, align="left", fontSize=12, fontWeight=600)
            .encode(x=alt.XValue(0), y=alt.YValue(HEADING_Y), color=alt.ColorValue("gray"))
        )

    def _band(self, series: Series, colour: str) -> alt.Chart:
        """The range of the raw values."""
        edges: dict[str, Any] = {"y": alt.Y("low:Q", title=None), "y2": alt.Y2("high")}
        paint: dict[str, Any] = {"x": self._x, "color": alt.ColorValue(colour), "detail": self._launch}
        return _of(series.data).mark_area(opacity=0.22, clip=True, interpolate="step").encode(**edges, **paint)

    def _raw(self, series: Series, colour: str) -> alt.Chart:
        """The rows as they were printed, faint under the smoothed line."""
        paint: dict[str, Any] = {"x": self._x, "color": alt.ColorValue(colour), "detail": self._launch}
        mark = _of(series.data).mark_line(strokeWidth=1, opacity=0.45, clip=True)
        return mark.encode(y=alt.Y("high:Q", title=None), **paint)

    def _line(self, series: Series, colour: str) -> alt.Chart:
        paint: dict[str, Any] = {"x": self._x, "color": alt.ColorValue(colour), "detail": self._launch}
        mark = _of(series.data).mark_line(strokeWidth=1.8, clip=True, strokeJoin="round")
        return mark.encode(y=alt.Y("smooth:Q", title=None), **paint)

    def _alone(self, series: Series, colour: str) -> alt.Chart:
        """Values without a neighbour, which a line would not show."""
        points = _of(series.data).transform_filter("datum.alone").mark_point(size=36, filled=True, opacity=1, clip=True)
        return points.encode(x=self._x, y=alt.Y("smooth:Q", title=None), color=alt.ColorValue(colour))

    def _bad(self, series: Series) -> alt.Chart:
        """A cross where values were not finite."""
        cross: dict[str, Any] = {"text": "✕", "fontSize": 12, "fontWeight": 700, "baseline": "bottom", "clip": True}
        crosses = _of(series.data).transform_filter("datum.bad > 0").mark_text(**cross)
        return crosses.encode(x=self._x, y=alt.YValue(self._panel.height), color=alt.ColorValue("red"))

    def _hidden(self, series: Series, colour: str) -> alt.Chart:
        """The hidden value where the y range was cut."""
        return (
            _of(series.data)
            .transform_filter("isValid(datum.clamped)")
            .transform_calculate(hidden="'▲ ' + format(datum.clamped, '.3~g')")
            .mark_text(fontSize=10, baseline="top", align="left", dx=7, clip=True)
            .encode(x=self._x, y=alt.YValue(1), text="hidden:N", color=alt.ColorValue(colour))
        )

    def _readout(self, series: Series, position: int, colour: str) -> alt.Chart:
        """Name and value at the cursor, or the last value, right above the panel: legend and reading in one."""
        # Alone in a panel its title tells it too: on a phone there is no room for both of them if they are long.
        room = len(self._panel.series) > 1 or _wide(self._panel.title) + _wide(series.label) <= HEADING_CHARS
        name = f"{quoted(series.label + '  ')} + " if room else ""
        return (
            _of(series.data)
            .transform_filter(CURSOR_OR_LAST)
            .transform_calculate(value=VALUE)
            .transform_calculate(readout=f"{name}({SHOWN})")
            .mark_text(align="right", dx=-position * READOUT_PX, fontSize=11.5, fontWeight=600)
            .encode(x=alt.XValue("width"), y=alt.YValue(HEADING_Y), text="readout:N", color=alt.ColorValue(colour))
        )

    def _cursor(self) -> alt.Chart:
        rule = _of(self._panel.series[0].data).transform_filter({"param": "cursor", "empty": False})
        return rule.mark_rule(strokeWidth=1, opacity=0.7).encode(x=self._x, color=alt.ColorValue("gray"))

    def _markers(self) -> list[alt.Chart]:
        """Through the panel, where something was found or went wrong: a rule at its start, a veil over its length."""
        veil = _of(MARKS).mark_rect(opacity=0.05, clip=True).encode(x=self._x, x2=alt.X2("x_last"), color=tone())
        # What happens as planned (checkpoints, evaluations) has its sign only.
        told = _of(MARKS).transform_filter("datum.finding >= 0 || datum.tone != 'gray' || datum.glyph == '⟳'")
        rule = told.mark_rule(strokeWidth=1, strokeDash=[3, 3], opacity=0.75, clip=True)
        return [veil, rule.encode(x=self._x, color=tone())]

    def _sign(self) -> alt.Chart:
        """On top of the first panel a sign that says what happened."""
        place = _PLACES[self._axis.kind].format("x")
        said = [alt.Tooltip("label:N", title=self._words.event), alt.Tooltip("at:N", title=self._axis.title)]
        signs = _of(MARKS).transform_calculate(at=place).mark_text(fontSize=13, baseline="top", cursor=HAND)
        return signs.encode(x=self._x, y=alt.YValue(0), text="glyph:N", color=tone(), tooltip=said).properties(name="signs")


def phase_band(axis: Axis) -> alt.LayerChart:
    """Return the phases of the run as a thin band, to stand over the panels."""
    scale = alt.Scale(type="log", nice=False) if axis.log else alt.Undefined
    x = alt.X("x", type=axis.type, axis=None, scale=scale)  # type: ignore[arg-type]
    said = [alt.Tooltip("text:N", title=" ")]
    shade = alt.Color("shade:N", scale=alt.Scale(domain=[0, 1], range=["gray", "blue"]), legend=None)
    box = _of(PHASES).mark_rect(opacity=0.16, clip=True).encode(x=x, x2=alt.X2("x_last"), color=shade, tooltip=said)
    words = _of(PHASES).mark_text(align="left", dx=5, fontSize=11, baseline="middle", clip=True)
    named = words.encode(x=x, y=alt.YValue(PHASE_PX / 2), text="label:N", color=alt.ColorValue("gray"), tooltip=said)
    return alt.layer(box, named).properties(height=PHASE_PX, width=600).resolve_scale(color="independent")


def tone() -> alt.Color:
    """Return the colour of a marker by its tone."""
    return alt.Color("tone:N", scale=alt.Scale(domain=TONES, range=TONES), legend=None)


def _wide(text: str) -> int:
    """Return the width of a text in Latin letters."""
    return sum(2 if east_asian_width(letter) in "WF" else 1 for letter in text)


def quoted(text: str) -> str:
    """Return `text` as a string literal of the Vega expression language."""
    escaped = text.replace("\\", "\\\\").replace("'", "\\'").replace("\n", " ").replace("\r", " ")
    return f"'{escaped}'"


def _of(data: str) -> Any:
    return alt.Chart(alt.NamedData(name=data))
