"""The parts of the injection lab: the table of what became of each fault, and the curves before and after one of them."""

from functools import lru_cache
from typing import Any

import altair as alt
import numpy as np
import pandas as pd

from analysis.inject import FAULTS, Outcome
from analysis.segment import Segment
from messages import N_
from server.injection import TEXT_FAULTS
from ui import html, state
from ui.html import escape, tag
from ui.layers import TICK
from ui.text import _, ngettext, number, say
from ui.verdict import titles

CURVES, PLACES = "curves", "places"
BUCKETS = 500
APART = 0.08  # of the run, below which two words would lie over each other
FOUND, MISSED, IMPOSSIBLE = N_("found"), N_("missed"), N_("not possible here")
TONES = {
    FOUND: ("check_circle", "rv-good"),
    MISSED: ("cancel", "rv-bad"),
    IMPOSSIBLE: ("remove_circle_outline", "rv-none"),
}
Spec = dict[str, Any]


def words_of(name: str) -> tuple[str, str]:
    """Return what a fault is called and what it does, in the reader's language."""
    title, does = TEXT_FAULTS[name] if name in TEXT_FAULTS else (FAULTS[name].title, FAULTS[name].does)
    return _(title), _(does)


def fate(outcome: Outcome) -> str:
    """Return the word for what became of a fault."""
    if outcome.step is None:
        return IMPOSSIBLE
    return FOUND if outcome.found or outcome.told else MISSED


def summary(outcomes: list[Outcome]) -> str:
    """Return how many faults were found, in a sentence."""
    fates = [fate(outcome) for outcome in outcomes]
    tried = sum(one != IMPOSSIBLE for one in fates)
    told = _("{found} of {tried} faults were found.").format(found=number(fates.count(FOUND)), tried=number(tried))
    delays = [outcome.delay for outcome in outcomes if outcome.delay is not None]
    if delays:
        told += " " + ngettext("Half of them within {n} step.", "Half of them within {n} steps.", int(np.median(delays)))
    if impossible := fates.count(IMPOSSIBLE):
        told += " " + ngettext(
            "{n} could not be put in: its column is not printed.",
            "{n} could not be put in: their columns are not printed.",
            impossible,
        )
    return told


def table(outcomes: list[Outcome], chosen: str) -> str:
    """Return all faults as a table: what was changed, what became of it, when, and what else was said."""
    heads = (_("Fault"), _("What is changed"), _("Result"), _("After"), _("What is said"))
    head = tag("tr", "".join(tag("th", escape(word), scope="col") for word in heads))
    rows = "".join(_row(outcome, outcome.name == chosen) for outcome in outcomes)
    return html.grid(head + rows, "rv-kinds rv-faults")


def _row(outcome: Outcome, chosen: bool) -> str:
    title, does = words_of(outcome.name)
    word = fate(outcome)
    icon, tone = TONES[word]
    badge = tag("span", html.icon(icon) + escape(_(word)), f"rv-badge {tone}")
    after = "" if outcome.delay is None else ngettext("{n} step", "{n} steps", outcome.delay)
    cells = (escape(does), badge, escape(after), escape(said(outcome)))
    name = tag("b", escape(title)) if chosen else escape(title)
    return tag(
        "tr",
        tag("th", name, scope="row")
        + "".join(tag("td", cell, "rv-number" if at == 2 else "") for at, cell in enumerate(cells)),
    )


def said(outcome: Outcome) -> str:
    """Return what was said of a fault, or why nothing was."""
    if outcome.told is not None:
        return say(outcome.told)
    parts = [say(outcome.found.title)] if outcome.found else [say(text) for text in outcome.why]
    if outcome.others:
        names = titles()
        others = dict.fromkeys(_(names.get(one.kind, one.kind)) for one in outcome.others)
        parts.append(_("also: {others}").format(others=", ".join(others)))
    return " · ".join(parts)


def shown_column(outcome: Outcome, before: Segment) -> str:
    """Return the column in which a fault shows best."""
    wanted = FAULTS[outcome.name].shown if outcome.name in FAULTS else "loss"
    return next((name for name in (wanted, "loss", "logits_loss") if before.has(name)), "loss")


def curves(outcome: Outcome, before: Segment) -> Spec | None:
    """Return the chart of a column without and with a fault, and where it was put in and found; None for one of the text."""
    if outcome.segment is None or outcome.step is None:
        return None
    column = shown_column(outcome, before)
    names = (_("with the fault"), _("without"))
    spec = _chart(_("Step"), state.metric_title(column), names)
    after = outcome.segment
    data = pd.concat([_curve(after, column, names[0]), _curve(before, column, names[1])])
    places = {_("put in"): outcome.step}
    if outcome.found and outcome.found.known_step is not None:
        near = abs(outcome.found.known_step - outcome.step) < APART * max(float(np.ptp(before.steps())), 1.0)
        places = {_("put in, and found"): outcome.step} if near else places | {_("found"): outcome.found.known_step}
    marks = pd.DataFrame({"step": list(places.values()), "word": list(places)})
    return {**spec, "datasets": {CURVES: data, PLACES: marks}}


def _curve(segment: Segment, column: str, name: str) -> pd.DataFrame:
    """Return at most BUCKETS points a curve: of each bucket its lowest and its highest value."""
    values, steps = segment.values(column), segment.steps()
    parts = np.array_split(np.arange(len(values)), min(BUCKETS, len(values)))
    keep = []
    for part in parts:
        known = part[np.isfinite(values[part])]
        if len(known):
            keep += sorted({int(known[np.argmin(values[known])]), int(known[np.argmax(values[known])])})
    order = range(len(keep))
    return pd.DataFrame({"step": steps[keep], "value": values[keep], "name": name, "order": list(order)})


@lru_cache(maxsize=32)
def _chart(x: str, y: str, names: tuple[str, str]) -> Spec:
    across = alt.X("step:Q", title=x, axis=alt.Axis(format=",.6~g", grid=False), scale=alt.Scale(nice=False, zero=False))
    colours = alt.Scale(domain=list(names), range=["red", "blue"])
    legend = alt.Legend(orient="top", title=None)
    lines = (
        alt.Chart(alt.NamedData(name=CURVES))
        .mark_line(strokeWidth=1.3, opacity=0.85)
        .encode(
            x=across,
            y=alt.Y("value:Q", title=y, scale=alt.Scale(zero=False), axis=alt.Axis(tickCount=5, labelExpr=TICK)),
            color=alt.Color("name:N", scale=colours, legend=legend),
            order="order:Q",
            tooltip=[alt.Tooltip("step:Q", title=x, format=","), alt.Tooltip("value:Q", title=y, format=",.4~g")],
        )
    )
    rules = alt.Chart(alt.NamedData(name=PLACES)).mark_rule(strokeDash=[4, 3], color="gray").encode(x="step:Q")
    words = rules.mark_text(align="left", dx=4, baseline="top", fontSize=11, color="gray")
    words = words.encode(x="step:Q", y=alt.value(2), text="word:N")
    chart = alt.layer(lines, rules, words).properties(
        width="container", height=300, padding={"left": 0, "right": 8, "top": 4, "bottom": 2}
    )
    spec: Spec = (
        chart.configure(aria=False).configure_view(stroke=None).configure_axis(labelFontSize=11, titleFontSize=11).to_dict()
    )
    return spec
