"""Which configuration is better, by how much against the noise, and may one say so: runs side by side, or a whole sweep."""

from typing import Any

import pandas as pd
import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from analysis.compare.align import EQUAL, TITLES
from analysis.compare.comparison import Comparison
from analysis.compare.fairness import DATA_AXES
from analysis.compare.target import target_of
from messages import N_, Text
from server import baselines, compare, service, subjects
from server.costs import Wishes
from storage.types import Run
from ui import compare as words
from ui import compare_charts, compare_export, compare_frames, compare_more, compare_sweep, html, state
from ui.text import _, ngettext, say
from ui.words import as_sentence

TITLE = N_("Compare")
ICON = ":material/balance:"
SECTION = N_("Decide")
ORDER = 220

SWEEP, PAIR, PAID, REACH = "sweep", "pair", "paid_before", "reach"
VIEWS = {"overlay": N_("Curves"), "difference": N_("Difference to the base"), "ratio": N_("Ratio to the base")}
PARTINGS = 3  # sentences about where runs part that stand in sight
PICKER_PX = 210  # in which the longest words of the pickers stand
LOOK_SECONDS = 2.0  # between two looks whether runs have been judged
STEEP = 3.0  # highest over lowest value from which y is drawn logarithmic at first


def page() -> None:
    """Choose runs and base; then the sentence, may-one-say-so, curves, figures, expectations, settings, and the rest."""
    with st.container(horizontal=True, vertical_alignment="center", key="bar"):
        html.title(_(TITLE))
        mode = state.pick("mode", _("Show"), {PAIR: _("Side by side"), SWEEP: _("Sweep")}, PAIR)
        place = st.container(horizontal=True, vertical_alignment="center", width="content")
    if mode == SWEEP:
        compare_sweep.body(_asked())
        return
    runs, base = _choose(place)
    if not runs:
        html.empty(
            _("Choose two runs or more: this page says what differs, whether that is fair, and how large the difference is.")
        )
        return
    _body(runs, base)


def _asked() -> list[str]:
    return [run for run in st.query_params.get("runs", "").split(",") if run]


def _choose(place: DeltaGenerator) -> tuple[list[Run], str | None]:
    """Show the pickers of the runs and (in `place`) of the base and return them; they are kept in the URL."""
    known = {run.id: run for run in state.store().runs()}
    asked, pinned = _asked(), _pinned()
    asked += [run for run in pinned if run not in asked]
    state.not_here([run for run in asked if run not in known])
    wanted = [run for run in dict.fromkeys(asked) if run in known]
    if "runs_picker" not in st.session_state:
        st.session_state["runs_picker"] = wanted
    chosen = st.multiselect(
        _("Runs"),
        list(dict.fromkeys([*list(known)[: state.MAX_LISTED], *wanted, *st.session_state["runs_picker"]])),
        format_func=lambda run: known[run].name,
        key="runs_picker",
        label_visibility="collapsed",
        placeholder=_("Runs to compare"),
    )
    state.set_param("runs", ",".join(chosen) or None)
    runs = [known[run] for run in chosen]
    if len(runs) < 2:
        return runs, None
    with place:
        names = {run.id: _("Base: {run}").format(run=run.name) for run in runs}
        named = [run for run in (st.query_params.get("base"), *pinned) if run in chosen]
        usual = named[0] if named else compare.usual_base(service.get(), runs)
        base = state.pick("base", _("Base"), names, usual, width=320, pinned=True)
        _prices()
    return runs, base


def _pinned() -> tuple[str, ...]:
    """Return the runs of the baseline that the URL names (`?baseline=name`)."""
    name = st.query_params.get("baseline")
    return next((one.runs for one in baselines.baselines(state.store()) if one.name == name), ()) if name else ()


@state.shared
def comparison_of(
    runs: tuple[str, ...], versions: tuple[int, ...], growing: tuple[str, ...], options: tuple[Any, ...]
) -> Comparison:
    """Return the comparison of these versions of the runs.

    options: base, axis, metric, loss to reach, GPUs, price, is a baseline; and what else it depends on.
    """
    base, axis, metric, reach, gpus, price, is_baseline, *_others = options
    asked: dict[str, Any] = {"axis": axis, "metric": metric, "reach": reach, "is_baseline": is_baseline}
    return compare.comparison(service.get(), runs, base=base, growing=growing, wishes=Wishes(gpus=gpus, price=price), **asked)


def _body(runs: list[Run], base: str | None) -> None:
    store = state.store()
    growing = tuple(sorted(state.growing(runs)))
    given = repr(subjects.all_given(store, [run.id for run in runs]))
    held = {run for one in baselines.baselines(store) for run in one.runs}
    gpus, price = _paid()
    asked = st.query_params.get("x"), st.query_params.get("metric"), _reach()
    judged = compare.judged_versions(service.get(), [run.id for run in runs])
    options = (base, *asked, gpus, price, (base or runs[0].id) in held, given, judged)
    told = comparison_of(tuple(run.id for run in runs), tuple(run.version for run in runs), growing, options)
    for note in told.notes:
        html.warn(say(note))
    _wait([run.id for run in runs])
    if len(told.sides) > 1:
        _verdict(told)
        _fairness(told)
    else:
        html.empty(as_sentence(say(told.sentence)))
    _curves(told)
    _figures(told)
    _expected(told)
    _settings(told)
    compare_more.body(told)


def _wait(runs: list[str]) -> None:
    """Say that runs are still being judged; when the monitor has judged more of them, the page is drawn anew."""
    before = compare.awaited(service.get(), runs)
    if not before:
        return

    def look() -> None:
        waiting = compare.awaited(service.get(), runs)
        if waiting != before:
            st.rerun()
        words = ngettext(
            "{n} run is still being judged: whether it diverged, and its productive share, are taken up here when known.",
            "{n} runs are still being judged: whether they diverged, and their productive share, are taken up here when known.",
            len(waiting),
        )
        html.quiet(words)

    st.fragment(look, run_every=LOOK_SECONDS, key="awaited")()


def _figures(told: Comparison) -> None:
    """Show the figures; the loss that “what it took” is about can be chosen, as a loss or a share of the first."""
    html.section(_("Figures"))
    with st.container(horizontal=True, vertical_alignment="center", key="figures-bar"):
        html.label(_("What it took to reach"))
        st.text_input(
            _("Loss to reach: a number, or a share of the first loss as 60%"),
            key=REACH,
            bind="query-params",
            max_chars=20,
            placeholder=words.target_words(told) or "–",
            label_visibility="collapsed",
            width=150,
        )
        html.label(_("(a loss, or a share of the first loss as 60%)"))
    html.write(words.figures_table(told), words.equal_table(told))


def _reach() -> str | None:
    """Return the loss to reach as a person wrote it; what can't be read is said and left out."""
    written = str(st.session_state.get(REACH) or st.query_params.get(REACH) or "")
    try:
        target_of(written)
    except ValueError:
        words = _("This is no loss to reach: {written}. Write a number, or a share of the first loss as 60%.")
        html.warn(words.format(written=written[:40]))
        return None
    return written.strip() or None


def _paid() -> tuple[int | None, float | None]:
    """Return the number of GPUs (where a log does not say it) and the price of one."""
    return st.session_state.get("gpus"), st.session_state.get("price")


def _prices() -> None:
    """Let a person say what the hours cost, as set on Time & cost before: money is then compared too."""
    for key, value in st.session_state.get(PAID, {}).items():
        if key in ("gpus", "price") and key not in st.query_params:
            st.session_state.setdefault(key, value)
    with st.popover(_("Price"), icon=":material/payments:"):
        st.number_input(_("GPUs"), value=None, min_value=1, step=1, key="gpus", bind="query-params", placeholder="–")
        st.number_input(
            _("Price of one for an hour"),
            value=None,
            min_value=0.0,
            format="%g",
            key="price",
            bind="query-params",
            placeholder="–",
        )


def _verdict(told: Comparison) -> None:
    with st.container(key="verdict"):
        html.write(words.verdict(told))
    _offer(told)
    html.write(words.forest(told))
    if spread := words.spread_words(told):
        html.quiet(spread)


def _offer(told: Comparison) -> None:
    """Where equal steps are refused, offer the axis on which the runs can be compared."""
    fair = next((axis for axis in told.view.axes if axis in DATA_AXES), None)
    if told.comparable or fair is None:
        return

    def taken() -> None:
        st.query_params["x"] = fair

    st.button(_("Compare {how}").format(how=_(EQUAL[fair])), icon=":material/balance:", on_click=taken)


def _fairness(told: Comparison) -> None:
    html.section(_("May one say so?"))
    html.write(words.chips(told))
    shown, rest = words.reasons(told)
    html.write(shown)
    if rest:
        with st.expander(_("All reasons")):
            html.write(rest)


def _curves(told: Comparison) -> None:
    html.section(_("Curves"))
    with st.container(horizontal=True, vertical_alignment="center", key="curves-bar"):
        view = _view(told)
        smooth = st.toggle(_("Smooth"), value=True, key="cmp_smooth", bind="query-params")
        grouped = bool(told.groups and max(map(len, told.groups)) > 1) and st.toggle(
            _("Repeats as one band"), value=len(told.sides) > compare_charts.OVERLAYS, key="cmp_groups", bind="query-params"
        )
        place, export = st.container(width="content"), st.container(width="content")
    if not told.comparable:
        html.warn(_("Not comparable over this x axis: the curves are drawn to look at, not to read differences from."))
    elif told.view.relative:
        html.quiet(_("Levels do not compare, so each curve is drawn relative to its first loss."))
    frame = compare_frames.lines(told, view, smooth=smooth)
    if isinstance(frame, Text):
        html.quiet(say(frame))
        return
    bands = _no_bands()
    if grouped and view == compare_frames.OVERLAY:
        kept = compare_frames.one_a_group(told)
        orders = {compare_frames.ordered(told).index(n) for n in kept}
        named = compare_frames.with_repeats(told, kept)
        frame, bands = frame[frame["order"].isin(orders)], compare_frames.bands(told, kept)
        frame = frame.assign(label=frame["order"].map(named))
    steep = view == compare_frames.OVERLAY and float(frame["y"].min()) > 0 and frame["y"].max() > STEEP * frame["y"].min()
    with place:
        log = st.toggle(_("Log y"), value=bool(steep), key=f"cmp_log_{view}")
    log = log and float(frame["y"].min()) > 0
    frame, bands, x, y = _draw(told, frame, bands, view, log)
    with export:
        compare_export.popover(told, frame, bands, x, y, log=log)


def _no_bands() -> pd.DataFrame:
    return pd.DataFrame(columns=["order", "label", "x", "low", "high"])


def _view(told: Comparison) -> str:
    """Show what is drawn over what and return the view; axis and metric stand in the URL and hold for the whole page."""
    if told.view.axis is not None:
        axes = {axis: _("x: {title}").format(title=_(TITLES[axis])) for axis in told.view.axes}
        _kept("x", _("x axis"), axes, told.view.axis)
    if told.view.metric is not None and len(told.metrics) > 1:
        metrics = {name: state.metric_title(name) for name in told.metrics}
        _kept("metric", _("Metric"), metrics, told.view.metric)
    return state.pick("view", _("Show"), {name: _(title) for name, title in VIEWS.items()}, "overlay", width=PICKER_PX)


def _kept(name: str, label: str, choice: dict[str, str], now: str) -> None:
    """Show a picker whose choice is in the URL; a change is taken up by the next run of the page."""
    key = f"{name}_compare"
    if st.session_state.get(key) not in choice or st.query_params.get(name) not in (None, st.session_state.get(key)):
        st.session_state[key] = now

    def chosen() -> None:
        st.query_params[name] = st.session_state[key]

    st.selectbox(
        label,
        list(choice),
        format_func=lambda one: choice[one],
        key=key,
        label_visibility="collapsed",
        width=PICKER_PX,
        on_change=chosen,
    )


def _draw(
    told: Comparison, frame: pd.DataFrame, bands: pd.DataFrame, view: str, log: bool
) -> tuple[pd.DataFrame, pd.DataFrame, str, str]:
    """Draw the curves and return what was drawn: lines, bands, titles of the axes."""
    x = _(TITLES[told.view.axis or "step"])
    metric = state.metric_title(told.view.metric or "loss")
    metric = _("{metric}, × its first").format(metric=metric) if told.view.relative else metric
    y = {
        "overlay": metric,
        "difference": (
            _("{metric}, % to the base") if compare_frames.in_percent(told) else _("{metric}, more than the base")
        ).format(metric=metric),
        "ratio": _("{metric}, × the base").format(metric=metric),
    }[view]
    orders = sorted(frame["order"].unique().tolist())
    if len(orders) <= compare_charts.OVERLAYS:
        # The colours are those of the tables; where more runs than colours are listed there, the tables have none.
        listed = len(told.sides) <= compare_charts.OVERLAYS
        renumbered = {order: order if listed else place for place, order in enumerate(orders)}
        frame, bands = (part.assign(order=part["order"].map(renumbered)) for part in (frame, bands))
        zero = {"overlay": None, "difference": 0.0, "ratio": 1.0}[view]
        spec = compare_charts.curves(tuple(renumbered.values()), x, y, _("Run"), log=log, zero=zero)
        html.write(words.legend(told, renumbered, dict(frame[["order", "label"]].itertuples(index=False))))
        data = {compare_charts.CURVES: frame, compare_charts.BANDS: bands}
        key = f"curves-few-{view}-{log}"
        st.vega_lite_chart(spec={**spec, "datasets": data}, key=key, alt=say(told.sentence), width="stretch")
    else:
        frame = compare_frames.facets(told, frame)
        _draw_small(frame, x, y, f"{view}-{log}", log=log)
    _partings(words.partings(told))
    return frame, bands, x, y


def _partings(said: list[str]) -> None:
    """Say where runs part from the base: of a few in sight, of all below."""
    more = _("({shown} of {count})").format(shown=PARTINGS, count=len(said)) if len(said) > PARTINGS else ""
    html.quiet(" ".join([*said[:PARTINGS], more]))
    if more:
        with st.expander(_("Where each run parts from the base")):
            html.write(words.sentences(said))


def _draw_small(frame: pd.DataFrame, x: str, y: str, key: str, *, log: bool) -> None:
    """Draw small multiples, as many beside each other as the page is wide."""
    across, up = ((float(frame[name].min()), float(frame[name].max())) for name in ("x", "smooth"))
    spec = compare_charts.small(x, y, _("Run"), log=log, across=across, up=up)
    with st.container(horizontal=True, key="small"):
        for order, label, lines in compare_frames.small(frame):
            one = {**compare_charts.titled(spec, label), "datasets": {compare_charts.CURVES: lines}}
            st.vega_lite_chart(spec=one, key=f"curves-many-{key}-{order}", alt=label, width=compare_charts.PLACE_PX)


def _expected(told: Comparison) -> None:
    shown, rest = words.expected(told)
    if not shown:
        return
    html.section(_("Expected and observed"))
    html.write(shown)
    if rest:
        with st.expander(_("All expectations")):
            html.write(rest)


def _settings(told: Comparison) -> None:
    if len(told.sides) < 2:
        return
    html.section(_("Settings that differ"), str(sum(row.status == "different" for row in told.diff.rows)))
    with st.container(horizontal=True, vertical_alignment="center", key="settings-bar"):
        html.label(ngettext("{n} more setting is equal.", "{n} more settings are equal.", told.diff.equal))
        everything = st.toggle(_("Also what not all logs say"), key="cmp_all", bind="query-params")
    frame = words.settings_frame(told, everything=everything)
    if told.diff.more:
        html.quiet(ngettext("{n} further setting is not listed.", "{n} further settings are not listed.", told.diff.more))
    if len(frame):
        st.dataframe(frame, hide_index=True, key="settings", placeholder="–", height="auto" if len(frame) < 12 else 420)


page()
