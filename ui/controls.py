"""What a person sets over the charts of a run, kept in the URL: smoothing, scales, x, range, further metrics."""

from collections.abc import Sequence
from dataclasses import dataclass

import streamlit as st

from storage.types import Column, Run
from ui import axes, html, scenario, state
from ui.axes import Course, Span
from ui.layers import CLOCK
from ui.text import _, number

MAX_MORE = 8  # further panels


@dataclass(frozen=True)
class View:
    """How the charts are drawn. span: the zoom in drawn x units, None for all."""

    smoothing: float
    log: bool
    log_x: bool
    cut: bool
    course: Course
    span: Span | None
    more: tuple[str, ...]


def view(run: Run, courses: dict[str, Course], columns: Sequence[Column], drawn: Sequence[str]) -> View:
    """Show the controls in a row and return what they say; `drawn` are the metrics that have a panel anyway."""
    html.label(_("Smoothing"))
    smoothing = st.slider(
        _("Smoothing"), 0.0, 0.99, 0.6, 0.01, key="smooth", bind="query-params", width=150, label_visibility="collapsed"
    )
    log = st.toggle(_("Log y"), key="log", bind="query-params")
    log_x = st.toggle(_("Log x"), key="logx", bind="query-params")
    cut = st.toggle(
        _("Cut outliers"),
        value=True,
        key="cut",
        bind="query-params",
        help=_("Values far outside the range are drawn at the edge, with their value."),
    )
    course = _course(courses)
    more = _more(run, columns, drawn)
    return View(smoothing, log, log_x and course.kind != CLOCK, cut, course, _span(run, course), more)


def _course(courses: dict[str, Course]) -> Course:
    usual = next(iter(courses))
    if len(courses) == 1:
        return courses[usual]
    words = {key: _("x: {title}").format(title=_(course.title)) for key, course in courses.items()}
    before = st.session_state.get("x_picker", usual)
    chosen = state.pick("x", _("x axis"), words, usual, width=170)
    if chosen != before:
        show_all()
    return courses[chosen]


def _more(run: Run, columns: Sequence[Column], drawn: Sequence[str]) -> tuple[str, ...]:
    """Let a person choose what matters and further metrics; those in the URL count while the list is closed."""
    others = {column.name: state.metric_title(column.name) for column in columns if column.name not in drawn}
    if not others:
        return ()
    asked = [name for name in st.query_params.get("m", "").split(",") if name in others][:MAX_MORE]
    words = _("Metrics +") + (f" {len(asked)}" if asked else "")
    popover = st.popover(words, key="more", on_change="rerun")
    if popover.open:
        with popover:
            html.quiet(_("What matters in this run"))
            scenario.pick(run)
            if "m_picker" not in st.session_state:
                st.session_state["m_picker"] = asked
            asked = st.multiselect(
                _("Further panels"),
                list(others),
                format_func=lambda name: others[name],
                key="m_picker",
                max_selections=MAX_MORE,
            )
        state.set_param("m", ",".join(asked) or None)
    return tuple(asked)


def _span(run: Run, course: Course) -> Span | None:
    if course.x in ("step", "line") and course.factor == 1:
        span: Span | None = _steps(run, course)
    else:
        span = axes.parse_span(st.query_params.get("range", ""))
    if span:
        st.button(_("Show all"), icon=":material/zoom_out_map:", on_click=show_all, type="tertiary")
    return span


def _steps(run: Run, course: Course) -> tuple[int, int] | None:
    with st.popover(_("Range")):
        html.quiet(_("Drag over a chart to zoom all."))
        title = course.axis().title
        first = st.number_input(
            _("{title}: from").format(title=title),
            value=None,
            step=1,
            key="x0",
            bind="query-params",
            placeholder=number(run.first_step),
        )
        last = st.number_input(
            _("{title}: to").format(title=title),
            value=None,
            step=1,
            key="x1",
            bind="query-params",
            placeholder=number(run.last_step),
        )
    low = run.first_step if first is None else first
    high = run.last_step if last is None else last
    if (first is None and last is None) or low is None or high is None:
        return None
    return (low, high) if low < high else None


def zoom(course: Course, low: float, high: float) -> None:
    """Set the range that was dragged, in drawn units."""
    if not low < high:
        return
    if course.x in ("step", "line") and course.factor == 1:
        if round(low) < round(high):
            st.session_state["x0"], st.session_state["x1"] = round(low), round(high)
    else:
        st.query_params["range"] = axes.write_span((low, high))


def show_all() -> None:
    """Take the zoom away."""
    st.session_state["x0"] = st.session_state["x1"] = None
    st.query_params.pop("range", None)
