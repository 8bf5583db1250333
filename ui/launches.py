"""Before a launch, on the page Time & cost: what is to be started, when it will be done, what it will cost."""

from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, date, datetime, time
from datetime import timedelta as span

import altair as alt
import pandas as pd
import streamlit as st

from analysis.before_launch import KEPT_PER_DOUBLING, Launch
from analysis.cost import CostModel
from analysis.machine import hardware
from messages import Text
from server import service
from server.costs import Wishes
from server.launch import Plan, before_launch
from storage.types import Run
from ui import costs, html, inputs, state
from ui.html import escape, figure, icon, tag
from ui.text import _, duration, local, number, say
from ui.words import as_sentence

EPOCHS, KNOWN = "epochs", "run"
WINDOW_PX = 58


def show(run: Run, wishes: Wishes) -> None:
    """Ask what is to be started and say when it is done and what it costs. Raises ValueError for what can't be."""
    ways = {EPOCHS: _("From the time of an epoch"), KNOWN: _("From the steps of a known run")}
    with st.container(horizontal=True, vertical_alignment="bottom", key="plan"):
        way = state.pick("from", _("Estimate"), ways, EPOCHS, width=260)
        plan = _epochs() if way == EPOCHS else _steps()
        start = _start()
    if way == KNOWN:
        html.quiet(_("The known run is the one chosen above: {run}.").format(run=run.name))
    segments = service.get().segments(run.id)
    known = hardware(segments).gpus if way == KNOWN else None
    plan = replace(plan, known_gpus=plan.known_gpus or known)
    found, model = before_launch(segments, plan, wishes, data_dir=service.get().settings.data_dir)
    if found is None:
        html.quiet(_("Fill in the fields above: the window and the amount follow at once."))
    elif isinstance(found, Text):
        html.warn(_("No estimate: {why}.").format(why=say(found)))
    else:
        _result(found, model, start, wishes)


def _epochs() -> Plan:
    minutes = inputs.amount("epoch_minutes", _("Minutes an epoch takes"), 190)
    return Plan(minutes=minutes, epochs=inputs.amount("plan_epochs", _("Epochs"), 130))


def _steps() -> Plan:
    steps = inputs.amount("plan_steps", _("Steps of the new run"), 170, whole=True)
    gpus = inputs.amount("known_gpus", _("GPUs of the known run"), 170, whole=True)
    batch = inputs.amount("plan_batch", _("Batch of the new run"), 170)
    known = inputs.amount("known_batch", _("Batch of the known run"), 180)
    kept = inputs.amount("kept", _("Speed kept per doubling of GPUs (%)"), 250)
    share = min((kept or 100 * KEPT_PER_DOUBLING) / 100, 1.0)
    return Plan(steps=int(steps or 0) or None, known_gpus=int(gpus or 0) or None, batch=batch, known_batch=known, kept=share)


def _start() -> datetime:
    """Ask when it starts, by default now; return it in UTC."""
    now = local(datetime.now(UTC))
    day: date = st.date_input(_("It starts on"), now.date(), width=150, key="start_day", bind="query-params")
    clock: time = st.time_input(
        _("at"), now.time().replace(second=0, microsecond=0), width=110, key="start_clock", bind="query-params"
    )
    return datetime.combine(day, clock, now.tzinfo).astimezone(UTC)


def _result(found: Launch, model: CostModel, start: datetime, wishes: Wishes) -> None:
    try:
        early, middle, late = found.window(start)
    except OverflowError:
        html.warn(_("That is longer than the calendar reaches."))
        return
    near = {"early": costs.when(early, middle), "late": costs.when(late, middle)}
    words = _("Done {date}.").format(date=_("{date}, between {early} and {late}").format(date=costs.when(middle), **near))
    if near["early"] == near["late"]:
        words = _("Done {date}.").format(date=costs.when(middle))
    spent = model.money(found.time.p50)
    amount = _("It costs about {amount}.").format(amount=costs.money(spent, model.currency)) if spent is not None else ""
    line = tag("span", icon("event"), "rv-badge") + tag("span", escape(words), "rv-sentence") + escape(" " + amount)
    with st.container(key="verdict"):
        html.write(tag("section", tag("p", line, "rv-line"), "rv-verdict rv-none rv-alone", role="status"))
    if spent is not None and wishes.budget and spent > wishes.budget:
        budget = costs.money(wishes.budget, model.currency)
        html.warn(_("The budget of {budget} does not reach: start smaller, or stop early.").format(budget=budget))
    html.write(html.figures(_figures(found, model)))
    _window(start, early, middle, late)
    html.section(_("What this assumes"))
    for text in (found.time.source, *found.assumptions):
        html.quiet(as_sentence(say(text)))


def _figures(found: Launch, model: CostModel) -> Iterator[str]:
    low, middle, high = found.time.p10, found.time.p50, found.time.p90
    yield figure(_("It takes"), duration(middle), _("{low} to {high}").format(low=duration(low), high=duration(high)))
    hours = [model.gpu_hours(value) for value in (low, middle, high)]
    if hours[1] is not None:
        note = _("{low} to {high}").format(low=number(hours[0], digits=3), high=number(hours[2], digits=3))
        yield figure(_("GPU-hours"), number(hours[1], digits=3), note)
    spent = [model.money(value) for value in (low, middle, high)]
    if spent[1] is not None:
        ends = {name: costs.money(value, model.currency) for name, value in (("low", spent[0]), ("high", spent[2]))}
        yield figure(_("Costs"), costs.money(spent[1], model.currency), _("{low} to {high}").format(**ends))
    if (kwh := model.kwh(middle)) is not None:
        yield figure(_("Energy"), f"{number(kwh, digits=3)} kWh")
    if hours[1] is None or spent[1] is None:
        yield figure(_("For an amount"), "–", _("give the number of GPUs and their price above"))


def _window(start: datetime, early: datetime, middle: datetime, late: datetime) -> None:
    """Draw the window of computing on a calendar: sure, likely, possible."""
    html.section(_("When the cards are taken"))
    edges = [local(moment).replace(tzinfo=None) for moment in (start, early, middle, late)]
    shades = ((1.0, _("taken for sure")), (0.55, _("probably taken")), (0.25, _("perhaps taken")))
    rows = [
        {"from": first, "until": last, "shade": shade, "label": label}
        for first, last, (shade, label) in zip(edges[:-1], edges[1:], shades, strict=True)
    ]
    said = [alt.Tooltip("label:N", title=" "), alt.Tooltip("from:T", title=_("from"), format="%Y-%m-%d %H:%M")]
    said.append(alt.Tooltip("until:T", title=_("to"), format="%Y-%m-%d %H:%M"))
    axis = alt.Axis(
        title=None, grid=True, tickCount=8, labelOverlap=True, format="%m-%d %H:%M" if late - start < span(days=6) else "%m-%d"
    )
    bars = (
        alt.Chart(alt.NamedData(name="window"))
        .mark_bar(height=24, cornerRadius=2)
        .encode(
            x=alt.X("from:T", scale=alt.Scale(nice=False), axis=axis),
            x2=alt.X2("until"),
            opacity=alt.Opacity("shade:Q", scale=None),
            color=alt.ColorValue("blue"),
            tooltip=said,
        )
        .properties(width="container", height=WINDOW_PX, padding={"left": 0, "right": 8, "top": 2, "bottom": 2})
        .configure(aria=False, mark=alt.MarkConfig(aria=False))
        .configure_view(stroke=None)
        .configure_axis(labelFontSize=11, gridOpacity=0.5)
    )
    spec = {**bars.to_dict(), "datasets": {"window": pd.DataFrame(rows)}}
    words = _("The cards are taken from {start} to {early} for sure, to {late} at the latest.")
    told = words.format(start=costs.when(start), early=costs.when(early), late=costs.when(late))
    st.vega_lite_chart(spec=spec, key="window", alt=told, width="stretch")
    html.quiet(told)
