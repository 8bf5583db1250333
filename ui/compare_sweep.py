"""Many runs at once: which setting goes with the result, each run as a line through its settings, one setting by itself."""

from collections.abc import Sequence

import numpy as np
import pandas as pd
import streamlit as st

from analysis.compare.conditions import amount, kinds
from analysis.compare.sweep import Key, Sweep
from server import service, sweep
from ui import compare_charts, html, state
from ui.compare import sentence
from ui.compare_frames import signed, value_words
from ui.html import escape, icon, tag
from ui.text import _, ngettext, number, percent, say

MOST = 1000  # runs
AXES, LABELS = 7, 6  # settings in the parallel coordinates, values beside each of them
BEST, MOST_BEST = 0.1, 20  # share of the runs that is drawn strong, and how many at most
LISTED = 20  # settings in the list of runs
RESULTS = ("loss", "eval_loss", "perplexity", "reward", "step_time_seconds", "tokens_per_second")
cached = st.cache_data(max_entries=16, ttl=3600, show_spinner=False)


@cached
def sweep_of(runs: tuple[str, ...], version: int, result: str) -> tuple[Sweep, pd.DataFrame]:
    """Return the sweep over these runs as the store is at this version."""
    return sweep.sweep_of(service.get(), runs, result=result)


def body(asked: Sequence[str]) -> None:
    """Draw the sweep of the runs that the URL names, of the latest ones if it names none."""
    store = state.store()
    known = [run.id for run in store.runs()]
    runs = [run for run in known if run in set(asked)] if asked else known[:MOST]
    state.not_here([run for run in asked if run not in known])
    if not runs:
        html.empty(_("No run yet. A sweep needs runs that differ in their settings: eight of them for a correlation."))
        _offer_latest(known)
        return
    with st.container(horizontal=True, vertical_alignment="center", key="controls"):
        words = {name: state.metric_title(name) for name in RESULTS}
        result = state.pick("result", _("Result"), words, "loss", width=220)
        _choose(runs if asked else [])
        html.label(ngettext("{n} run", "{n} runs", len(runs)))
        _offer_latest(known if len(runs) < min(len(known), MOST) else ())
        export = st.container(width="content")
    html.quiet(_("The result of a run is the mean over its last fifth; with fewer than four values it has none."))
    told, table = sweep_of(tuple(runs), store.version(), result)
    with export:
        st.download_button("CSV", lambda: to_csv(table, result), "sweep.csv", "text/csv", key="sweep_csv", on_click="ignore")
    with st.container(key="verdict"):
        line = tag("p", tag("span", escape(sentence(told.text)), "rv-sentence"), "rv-line")
        html.write(tag("section", line, f"rv-verdict {'rv-good' if told.keys and told.keys[0].sure else 'rv-none'}"))
    for note in [*(reason.text for reason in told.left), *told.notes]:
        html.warn(sentence(note))
    if told.keys:
        html.section(_("Which setting goes with the result"), str(len(told.keys)))
        html.write(_keys(told.keys))
        _parallel(told, table, words[result], up=sweep.lower_is_better(result))
    if told.varied and told.runs:
        _scatter(told, table, words[result])
    _runs(told, table, words[result], up=sweep.lower_is_better(result))


def _choose(asked: Sequence[str]) -> None:
    """Let a person choose the runs; they are kept in the URL, which without any means the latest ones."""
    names = {run.id: run.name for run in state.store().runs()}
    if "sweep_picker" not in st.session_state:
        st.session_state["sweep_picker"] = list(asked)

    def chosen() -> None:
        state.set_param("runs", ",".join(st.session_state["sweep_picker"]) or None)

    with st.popover(_("Runs"), key="sweep_runs_box"):
        listed = dict.fromkeys([*list(names)[: state.MAX_LISTED], *asked, *st.session_state["sweep_picker"]])
        st.multiselect(
            _("Runs"),
            [run for run in listed if run in names],
            format_func=lambda run: names[run],
            key="sweep_picker",
            on_change=chosen,
            placeholder=_("The latest ones; choose to have others"),
        )


def to_csv(table: pd.DataFrame, result: str) -> bytes:
    """Return the sweep as a table, a row a run: its id and name, the result, whether it broke down, its settings."""
    first = {sweep.NAME: "name", sweep.RESULT: result, sweep.BROKE: "broke_down"}
    settings = {name: f"setting: {name}" for name in table.columns if name not in first}
    return table[[*first, *settings]].rename(columns=first | settings).to_csv(index_label="run").encode()


def _offer_latest(known: Sequence[str]) -> None:
    """Offer the sweep of the latest runs instead of those that the URL names."""

    def taken() -> None:
        st.query_params.pop("runs", None)
        st.session_state["sweep_picker"] = []

    if known:
        st.button(ngettext("The latest {n} run", "The latest {n} runs", min(len(known), MOST)), on_click=taken)


def _keys(keys: Sequence[Key]) -> str:
    names = (_("Setting"), "", _("Explains"), _("Rank correlation (95 %)"), _("Best run has"), _("Values"))
    head = "".join(tag("th", escape(name), "rv-number" if place > 1 else "", scope="col") for place, name in enumerate(names))
    rows = "".join(_key(key) for key in keys[:20])
    return html.grid(tag("tr", head) + rows, "rv-ledger")


def _key(key: Key) -> str:
    word = icon("check") + escape(_("beyond chance")) if key.sure else escape(_("may be chance"))
    rank = "–" if key.rank is None else f"{signed(key.rank)} ({signed(key.low or 0.0)} – {signed(key.high or 0.0)})"
    cells = [percent(key.share), rank, value_words(key.best), number(key.levels)]
    first = tag("th", escape(_(key.title)), scope="row") + tag("td", word)
    return tag(
        "tr", first + "".join(tag("td", escape(cell), "rv-number") for cell in cells), "rv-good" if key.sure else "rv-none"
    )


def _parallel(told: Sweep, table: pd.DataFrame, result: str, *, up: bool) -> None:
    """Draw each run through its settings; up: the lowest result is the best, so that it stands at the top."""
    keys = [key for key in told.keys if key.values >= 0.5 * told.runs][:AXES]
    kept = table[table[sweep.RESULT].notna()]
    best = kept[sweep.RESULT].rank(method="first", ascending=up).to_numpy() <= min(BEST * len(kept), MOST_BEST)
    ends = _places(kept[sweep.RESULT])
    places = [_places(kept[key.name]) for key in keys] + [1 - ends if up else ends]
    values = [kept[key.name].map(value_words).to_list() for key in keys] + [kept[sweep.RESULT].map(number).to_list()]
    frame = pd.concat(
        [
            pd.DataFrame(
                {
                    "run": kept.index,
                    "label": kept[sweep.NAME].to_numpy(),
                    "key": place,
                    "place": at,
                    "value": value,
                    "best": best,
                    "told": _told(at, value, 2 if place == len(keys) else LABELS),
                }
            )
            for place, (at, value) in enumerate(zip(places, values, strict=True))
        ]
    ).dropna(subset=["place"])
    html.section(_("Runs through their settings"))
    html.quiet(_("Each line is a run; the best ones are drawn strong and end at the top of the last axis."))
    spec = compare_charts.parallel(tuple(_(key.title) for key in keys), result, _("Run"))
    st.vega_lite_chart(
        spec={**spec, "datasets": {compare_charts.LINES: frame}}, key="parallel", alt=say(told.text), width="stretch"
    )


def _told(places: np.ndarray, values: Sequence[str], most: int) -> list[str]:
    """Return the values that stand beside an axis: each once, at most so many of them, spread over its length."""
    at = np.unique(places[np.isfinite(places)])
    wanted = at[np.unique(np.linspace(0, len(at) - 1, min(most, len(at))).astype(int))] if len(at) else at
    _unique, first = np.unique(places, return_index=True)
    shown = {place for place in first.tolist() if places[place] in wanted}
    return [value if place in shown else "" for place, value in enumerate(values)]


def _places(column: pd.Series) -> np.ndarray:
    """Return where each value stands on its axis, 0…1 by rank for numbers and by name for words; NaN where there is none."""
    numbers = column.map(lambda value: None if value is None or value != value else amount(value)).astype(float)
    known = column.notna()
    if numbers.notna().sum() < known.sum():
        codes = pd.Series(pd.factorize(column.astype(str), sort=True)[0], index=column.index, dtype=float)
        numbers = codes.where(known)
    levels = np.unique(numbers.dropna())
    at = np.searchsorted(levels, numbers.to_numpy(dtype=float)).astype(float)
    return np.where(numbers.notna(), at / max(len(levels) - 1, 1), np.nan)


def _title(name: str) -> str:
    return _(kinds()[name].title) if name in kinds() else name


def _runs(told: Sweep, table: pd.DataFrame, result: str, *, up: bool) -> None:
    """List the runs with what varies among them, the best first; up: the lowest result is the best."""
    kept = table[table[sweep.RESULT].notna()].sort_values(sweep.RESULT, ascending=up)
    if not len(kept):
        return
    html.section(_("Runs and their settings"), str(len(kept)))
    settings = kept[list(told.varied[:LISTED])].astype(object)
    columns = {_title(name): settings[name].where(settings[name].notna(), None).map(value_words) for name in settings}
    down = {_("Broke down"): kept[sweep.BROKE].map({True: _("yes"), False: "–"})} if kept[sweep.BROKE].any() else {}
    frame = pd.DataFrame({_("Run"): kept[sweep.NAME], result: kept[sweep.RESULT].map(number), **down, **columns})
    st.dataframe(frame, hide_index=True, key="sweep_runs", height="auto" if len(frame) < 12 else 420)


def _scatter(told: Sweep, table: pd.DataFrame, result: str) -> None:
    html.section(_("One setting against the result"))
    order = dict.fromkeys([*(key.name for key in told.keys), *told.varied])
    names = {name: _title(name) for name in order}
    chosen = state.pick("key", _("Setting"), names, next(iter(order)), width=220)
    column = table[chosen]
    numbers = column.map(lambda value: None if value is None or value != value else amount(value)).astype(float)
    numeric = bool(numbers.notna().sum() == column.notna().sum())
    frame = pd.DataFrame(
        {"label": table[sweep.NAME], "x": numbers if numeric else column.astype(str), "y": table[sweep.RESULT]}
    )
    frame = frame[frame["y"].notna() & column.notna()]
    log = bool(numeric and len(frame) and frame["x"].min() > 0 and frame["x"].max() > 20 * frame["x"].min())
    spec = compare_charts.scatter(names[chosen], result, _("Run"), numeric=numeric, log=log)
    st.vega_lite_chart(
        spec={**spec, "datasets": {compare_charts.SCATTER: frame}}, key="scatter", alt=names[chosen], width="stretch"
    )
