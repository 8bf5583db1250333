"""The parts of the page "Golden & baselines": the score in words, the overlay, the nearest cases, the list of golden runs."""

from functools import lru_cache
from typing import Any

import altair as alt
import numpy as np
import pandas as pd

from analysis.golden import FEWEST_GOLDEN, POINTS, PROFILES, Case, Comparison, Near
from messages import N_
from server.golden import Beside
from ui import html
from ui.html import escape, tag
from ui.text import _, ngettext, number, say
from ui.verdict import definitions, titles

BAND, LINES = "band", "lines"
NAMES = {
    "pretrain": N_("pretraining, cosine"),
    "wsd": N_("pretraining, warmup-stable-decay"),
    "linear": N_("pretraining, linear"),
    "constant": N_("pretraining, constant rate"),
    "moe": N_("pretraining, mixture of experts"),
    "small_batch": N_("pretraining, small batch"),
    "large_batch": N_("pretraining, large batch"),
    "fine_tune": N_("fine-tuning"),
}
TONES = ("blue", "green", "orange")  # this run, the nearest golden one, the nearest failure
Spec = dict[str, Any]


def banner(beside: Beside, comparison: Comparison) -> str:
    """Return the score, what it means, and with which runs it was made."""
    word, told = (
        (N_("Unlike the golden runs"), N_("A person should look at it: what differs stands below."))
        if comparison.unlike
        else (N_("Like the golden runs"), N_("It is as near to them as they are to each other."))
    )
    if comparison.unlike and not beside.own:  # a healthy run of other data can be unlike all that a simulator makes
        word, told = N_("Unlike the simulated runs"), N_("They are a stand-in until ten good runs of your own are marked.")
    look = "rv-good" if not comparison.unlike else "rv-warn" if beside.own else "rv-none"
    icon = {"rv-good": "check_circle", "rv-warn": "warning", "rv-none": "help"}[look]
    badge = tag("span", html.icon(icon) + escape(_(word)), "rv-badge")
    score = _("Score {score} of 100.").format(score=comparison.score)
    line = tag("p", badge + tag("span", escape(f"{score} {_(told)}"), "rv-sentence"), "rv-line")
    return tag("section", line + definitions([(_("Compared with"), against(beside, comparison))]), f"rv-verdict {look}")


def against(beside: Beside, comparison: Comparison) -> str:
    """Return in words what a run was compared with."""
    if beside.own:
        return _("{count} golden runs of your own").format(count=number(comparison.count))
    told = _("{count} simulated golden runs that ship with Runvitals").format(count=number(comparison.count))
    kind = _(PROFILES.get(beside.case.profile, beside.case.profile)) if beside.case else ""
    marked = ngettext(
        "beside this one {n} run of your own of its kind ({kind}) is marked",
        "beside this one {n} runs of your own of its kind ({kind}) are marked",
        beside.marked,
    ).replace("{kind}", kind)
    return f"{told} · {marked}; " + _("from {needed} on they take their place").format(needed=FEWEST_GOLDEN)


def differences(comparison: Comparison) -> str:
    """Return the features that differ most, in words."""
    items = (tag("li", escape(say(each.text(comparison.count)))) for each in comparison.differences)
    return tag("ul", "".join(items), "rv-list")


def title(case: Case) -> str:
    """Return how a case is called."""
    if case.kind:
        known = _(titles().get(case.kind, case.kind))
        return known if case.simulated else f"{case.title}: {known}"
    return _(NAMES.get(case.title, case.title)) if case.simulated else case.title


def failures(comparison: Comparison) -> str:
    """Return the nearest failures, and whether any of them is nearer than the golden runs."""
    if not comparison.failures:
        return ""
    nearer = comparison.failures[0].distance < comparison.near[0].distance
    told = _("It is nearer to a failure than to any golden run.") if nearer else _("No failure is nearer than the golden runs.")
    return tag("p", escape(told), "rv-prose" if nearer else "rv-quiet") + nearest(comparison.failures)


def nearest(found: tuple[Near, ...]) -> str:
    """Return the nearest cases as a table: which, how far, where from."""
    head = "".join(tag("th", escape(word), scope="col") for word in (_("Run"), _("Distance"), _("From")))
    return html.grid(tag("tr", head) + "".join(map(_near, found)))


def _near(near: Near) -> str:
    case = near.case
    name = escape(title(case))
    if case.run:
        name = tag("a", name, href=f"health?run={case.run}", target="_self")
    elif case.kind:
        name = tag("a", name, href=f"handbook?rule={case.kind}", target="_self")
    distance = tag("td", escape(_("{sd} sd").format(sd=number(round(near.distance, 1)))), "rv-number")
    source = _("simulated") if case.simulated else _("your own")
    return tag("tr", tag("th", name, scope="row") + distance + tag("td", escape(source)))


def overlay(beside: Beside, comparison: Comparison, golden: list[Case]) -> Spec:
    """Return the chart of a run over its progress: between what golden runs did, beside the nearest one and a failure."""
    lines = _lines(beside, comparison)
    profile = beside.case.profile if beside.case else ""
    spec = _chart(
        _("share of the run, %"), _("loss, from its start (1) to its lowest (0)"), tuple(name for name, _case in lines)
    )
    same = [case for case in golden if case.profile == profile]
    return {**spec, "datasets": {BAND: _band(same), LINES: pd.concat([_line(name, case) for name, case in lines])}}


def legend(beside: Beside, comparison: Comparison) -> str:
    """Return which line of the overlay is which; it wraps where a legend in the chart would be cut."""
    strokes = (f"rv-{tone}{' rv-dashed' if at else ''}" for at, tone in enumerate(TONES))
    items = [
        tag("span", tag("span", "", f"rv-stroke {stroke}", aria_hidden="true") + escape(name))
        for stroke, (name, _case) in zip(strokes, _lines(beside, comparison), strict=False)
    ]
    return tag("div", "".join(items), "rv-legend")


def _lines(beside: Beside, comparison: Comparison) -> list[tuple[str, Case]]:
    assert beside.case is not None
    lines = [(_("this run"), beside.case)]
    lines += [(_("nearest golden: {name}").format(name=title(near.case)), near.case) for near in comparison.near[:1]]
    lines += [(_("nearest failure: {name}").format(name=title(near.case)), near.case) for near in comparison.failures[:1]]
    return lines


def _relative(case: Case) -> np.ndarray:
    """Return a shape between 1 at its start and 0 at its lowest: runs of different losses can lie over each other."""
    shape = np.array(case.shape)
    start, low = float(shape[0]), float(shape.min())
    return np.clip((shape - low) / max(start - low, 1e-9), 0.0, 2.5)


def _x() -> np.ndarray:
    return (np.arange(POINTS) + 0.5) * 100 / POINTS


def _band(golden: list[Case]) -> pd.DataFrame:
    shapes = np.array([_relative(case) for case in golden if len(case.shape) == POINTS])
    low, high = np.quantile(shapes, [0.05, 0.95], axis=0) if len(shapes) else np.zeros((2, POINTS))
    return pd.DataFrame({"x": _x(), "low": low, "high": high})


def _line(name: str, case: Case) -> pd.DataFrame:
    return pd.DataFrame({"x": _x(), "y": _relative(case), "value": case.shape, "name": name})


@lru_cache(maxsize=32)
def _chart(x: str, y: str, names: tuple[str, ...]) -> Spec:
    across = alt.X("x:Q", title=x, scale=alt.Scale(domain=[0, 100], nice=False), axis=alt.Axis(grid=False))
    up = alt.Y("low:Q", title=y, scale=alt.Scale(type="sqrt", zero=True), axis=alt.Axis(tickCount=5))
    band = alt.Chart(alt.NamedData(name=BAND)).mark_area(opacity=0.25, color="green").encode(x=across, y=up, y2="high")
    colours = alt.Scale(domain=list(names), range=list(TONES[: len(names)]))
    dashes = alt.Scale(domain=list(names), range=[[1, 0], [6, 3], [2, 2]][: len(names)])
    said = [alt.Tooltip("name:N", title=_("Run")), alt.Tooltip("value:Q", title=_("loss"), format=",.4~g")]
    lines = (
        alt.Chart(alt.NamedData(name=LINES))
        .mark_line(strokeWidth=1.8)
        .encode(
            x=across,
            y=alt.Y("y:Q"),
            color=alt.Color("name:N", scale=colours, legend=None),
            strokeDash=alt.StrokeDash("name:N", scale=dashes, legend=None),
            tooltip=said,
        )
    )
    chart = alt.layer(band, lines).properties(
        width="container", height=320, padding={"left": 0, "right": 8, "top": 4, "bottom": 2}
    )
    spec: Spec = (
        chart.configure(aria=False).configure_view(stroke=None).configure_axis(labelFontSize=11, titleFontSize=11).to_dict()
    )
    return spec


def alt_text(comparison: Comparison, name: str) -> str:
    """Return the overlay in a sentence."""
    near = title(comparison.near[0].case)
    told = _("The loss of {run} over its progress, beside the golden run nearest to it, {near}. Score {score} of 100.")
    return told.format(run=name, near=near, score=comparison.score)
