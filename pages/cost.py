"""When is it done, what does it cost, and what was wasted: one run, or all of them."""

import pandas as pd
import streamlit as st

from analysis.epoch_time import MEANINGS
from analysis.forecast import Forecast
from analysis.prices import PriceTableError, price_table
from messages import N_
from server import service
from server.costs import Costs, Wishes
from storage.types import Run
from ui import all_costs, axes, beginner, checkpoints, cost_charts, costs, html, inputs, launches, logging_costs, state
from ui.text import _, say
from ui.verdict import definitions
from ui.words import first_up

TITLE = N_("Time & cost")
ICON = ":material/payments:"
SECTION = N_("Decide")
ORDER = 210

PAID = "paid_before"
VIEWS = {
    "one": N_("This run"),
    "all": N_("All runs"),
    "launch": N_("Before a launch"),
    "logging": N_("What logging costs"),
    "checkpoints": N_("Checkpoints to keep"),
}
PAID_VIEWS = ("one", "all", "launch")
KEYS = ("gpus", "gpu", "price", "currency", "budget", "watts", "pue", "co2", "storage", "idle", "mtbf")  # not of one run
MEANING_WORDS = {
    "": N_("as its course shows"),
    "remaining": N_("what is left"),
    "total": N_("a whole epoch"),
    "elapsed": N_("what has passed"),
}
cached = st.cache_data(max_entries=256, ttl=3600, show_spinner=False)


def page() -> None:
    """Pick one run or all; what is paid; then the sentence, the ledger, the way, and what the rest buys."""
    with st.container(horizontal=True, vertical_alignment="center", key="bar"):
        html.title(_(TITLE))
        run = state.pick_run()
        if run is None:
            return
        words = {key: _(title) for key, title in VIEWS.items()}
        view = state.pick("view", _("Show"), words, "one", width=210)
    wishes = _wishes() if view in PAID_VIEWS else Wishes()
    try:
        if view == "one":
            _one(run, wishes)
        else:
            _other(view, run, wishes)
    except (ValueError, PriceTableError) as error:
        html.warn(_("That can't be: {reason}").format(reason=error))


def _other(view: str, run: Run, wishes: Wishes) -> None:
    if view == "all":
        all_costs.show(wishes)
    elif view == "launch":
        launches.show(run, wishes)
    elif view == "logging":
        logging_costs.show(run)
    else:
        checkpoints.show(run)


@cached
def costs_of(run_id: str, version: int, wishes: Wishes) -> Costs:
    """Return time and cost of this version of a run."""
    return service.get().cost(run_id, wishes)


def _wishes() -> Wishes:
    """Show the inputs and return what they say; they are kept in the URL, and from page to page in the session."""
    for key, value in st.session_state.get(PAID, {}).items():
        if key not in st.query_params:
            st.session_state.setdefault(key, value)
    wishes = _asked()
    st.session_state[PAID] = {key: st.session_state[key] for key in KEYS if st.session_state.get(key) is not None}
    return wishes


def _asked() -> Wishes:
    with st.container(horizontal=True, vertical_alignment="bottom", key="paid"):
        gpus = inputs.amount("gpus", _("GPUs"), 110, whole=True)
        kind = st.selectbox(
            _("Kind"),
            ["", *_kinds()],
            key="gpu",
            bind="query-params",
            width=150,
            format_func=lambda name: name or _("from the log"),
        )
        price = inputs.amount("price", _("Price of one for an hour"), 170)
        currency = st.text_input(
            _("Currency"), "", key="currency", bind="query-params", max_chars=3, placeholder="USD", width=90
        )
        with st.popover(_("More"), icon=":material/tune:"):
            budget = inputs.amount("budget", _("Budget"))
            meaning = st.selectbox(
                _("epoch_time is"),
                list(MEANING_WORDS),
                key="epoch_time",
                bind="query-params",
                format_func=lambda key: _(MEANING_WORDS[key]),
            )
            steps = inputs.amount("steps", _("Planned steps"), whole=True)
            watts = inputs.amount("watts", _("Mean power of one GPU (W)"))
            pue = inputs.amount("pue", _("Energy of the building over that of the machines (PUE)"))
            co2 = inputs.amount("co2", _("CO₂ of the power (kg a kWh)"))
            storage = inputs.amount("storage", _("Storage and the like, an hour"))
            idle = inputs.amount("idle", _("Paid time that stands idle (%)"))
            failures = inputs.amount("mtbf", _("Hours between failures"))
    return Wishes(
        gpus=int(gpus) if gpus else None,
        gpu=kind or None,
        price=price,
        currency=currency.strip().upper() or None,
        watts=watts,
        pue=pue,
        co2_kg_per_kwh=co2,
        storage_per_hour=storage or 0.0,
        idle_share=min((idle or 0.0) / 100, 0.99),
        budget=budget,
        meaning=meaning if meaning in MEANINGS else None,
        total_steps=int(steps) if steps else None,
        failure_hours=failures or None,
    )


def _kinds() -> list[str]:
    return [gpu.name for gpu in price_table().gpus]


def _one(run: Run, wishes: Wishes) -> None:
    told = costs_of(run.id, run.version, wishes)
    with st.container(key="verdict"):
        html.write(costs.sentence(told, run))
    for warning in told.report.warnings:
        html.warn(say(warning))
    html.write(html.figures(costs.strip(told)))
    _ledger(run, told)
    left, right = st.columns(2, gap="medium")
    with left:
        _course(told)
    with right:
        _buys(run, told)
    html.section(_("What these numbers rest on"))
    html.write(definitions(costs.basis(told)))


def _ledger(run: Run, told: Costs) -> None:
    html.section(_("Where the time went"))
    if told.report.book is None:
        html.quiet(first_up(say(told.report.timeless)) if told.report.timeless else "")
        return
    if told.report.book.goodput is None:
        html.quiet(_("The log tells too little of the time to say how it was spent."))
        return
    beginner.explain("ledger")
    parts = costs.parts(told)
    spec = cost_charts.ledger(_("Part"), _("Time"), _("Share"), costs.unit_of(told)[0])
    alt = " ".join(costs.largest(told)) or _("All of the time was productive.")
    st.vega_lite_chart(spec={**spec, "datasets": {cost_charts.PARTS: parts}}, key="ledger", alt=alt, width="stretch")
    html.quiet(alt)
    html.write(costs.ledger_table(told, run))
    name = f"cost-{run.id}.csv"
    st.download_button(
        _("Ledger as CSV"), costs.to_csv(told, run), name, "text/csv", icon=":material/download:", on_click="ignore"
    )


def _course(told: Costs) -> None:
    html.section(_("Seconds a step"))
    if not len(told.course):
        html.quiet(_("The log does not tell the time."))
        return
    if len(told.course) == 1:
        html.quiet(_("One line tells no course."))
        return
    beginner.explain("course")
    seconds = told.course["seconds"]
    log = bool(seconds.min() > 0 and seconds.max() > 20 * seconds.median())
    spec = cost_charts.course(_("Step"), _("Seconds a step"), _("Hours since the start"), _("Launch"), log=log)
    st.vega_lite_chart(
        spec={**spec, "datasets": {cost_charts.COURSE: told.course}},
        key="course",
        alt=_("Seconds a step over the steps of the run"),
        width="stretch",
    )


def _buys(run: Run, told: Costs) -> None:
    html.section(_("What the rest buys"))
    html.quiet(costs.buys(told))
    if not isinstance(told.loss, Forecast):
        return
    beginner.explain("forecast")
    buckets = state.buckets(run.id, run.version, (told.loss.column,), axes.STEP, None, None, 160)
    blocks = pd.DataFrame({"step": buckets["x_last"], "loss": buckets["mean"]}).dropna().iloc[len(buckets) // 16 :]
    end = pd.DataFrame([{"step": _plan(run, told), "loss": told.loss.final, "low": told.loss.low, "high": told.loss.high}])
    spec = cost_charts.loss(_("Step"), _("Loss"), _("Low"), _("High"))
    data = {cost_charts.BLOCKS: blocks, cost_charts.END: end}
    st.vega_lite_chart(spec={**spec, "datasets": data}, key="loss", alt=costs.buys(told), width="stretch")


def _plan(run: Run, told: Costs) -> float:
    progress = told.loss.progress if isinstance(told.loss, Forecast) else 1.0
    return (run.last_step or 0) / progress


page()
