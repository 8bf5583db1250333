"""What each epoch brought: its loss beside the one before, its time, its evaluation, and all of them over each other."""

from typing import Any

import pandas as pd
import streamlit as st

from analysis.epochs import DONE, WINDOW, Board, sentence
from messages import N_
from storage.types import Run
from ui import beginner, epoch_charts, epochs, html, runbar, state
from ui.text import _, number, say

TITLE = N_("Epochs")
ICON = ":material/repeat:"
SECTION = N_("Runs")
ORDER = 140

EPOCH = "epoch"
LOSSES = ("loss", "main_loss")  # the roles of columns beside which an evaluation can stand
LINE = 'print(f"epoch: {step / steps_per_epoch:.4f}")'


def page() -> None:
    """Pick run, launch, metric and the kind of part; then what they say, the curves, the board."""
    with runbar.bar():
        run = runbar.run_bar(_(TITLE))
        if run is None:
            return
        launch = runbar.pick_launch(run)
        metric = _metric(run)
        by_epoch = epochs.board_of(run.id, run.version, launch, None, metric)
        window = _window(run, by_epoch)
    known = epochs.board_of(run.id, run.version, launch, window, metric) if window else by_epoch
    _told(by_epoch, metric)
    if known is None:
        return
    if by_epoch is not None and not window:
        html.write(html.figures(epochs.figures(known)))
    _chart(run, known, window)
    _table(run, known, window)


def _metric(run: Run) -> str | None:
    """Let a person choose what is told, the loss by default."""
    names = [column.name for column in state.columns(run.id, run.version) if column.role not in ("plan", "progress")]
    if not names:
        return None
    words = {"": _("Loss")} | {name: state.metric_title(name) for name in names}
    return state.pick("metric", _("Metric"), words, "", width=190) or None


def _window(run: Run, by_epoch: Board | None) -> int | None:
    """Return the steps of a part, None for epochs: where there are several of those, they are what is shown first."""
    sizes = epochs.stretches(run)
    words = {str(size): _("By {n} steps").format(n=number(size)) for size in sizes}
    if by_epoch is not None:
        words = {EPOCH: _("By epoch")} | words
    if not words:
        return None
    several = by_epoch is not None and (len(by_epoch.table) > 1 or not sizes)
    usual = EPOCH if several else str(epochs.usual_stretch(sizes, run))
    chosen = state.pick("by", _("Parts"), words, usual, width=170)
    return None if chosen == EPOCH else int(chosen)


def _told(by_epoch: Board | None, metric: str | None) -> None:
    """Say what the epochs say, or why there are none and what to print."""
    if by_epoch is None:
        title = state.metric_title(metric) if metric else _("Loss")
        words = _(
            "No epochs here: no training line of this log prints both {metric} and `epoch` (nor `steps_per_epoch`). "
            "Print the epoch, as a whole number or a fraction, and they will be compared:"
        )
        html.quiet(words.format(metric=title))
        st.code(LINE, language="python", wrap_lines=True)
    elif len(by_epoch.table) == 1:
        share = by_epoch.table["share"].iloc[0]
        words = _("There is one epoch so far, so there is nothing to compare it with; the run is cut into stretches of steps.")
        if share >= DONE:
            words = _("This run has one epoch: there is nothing to compare it with, so it is cut into stretches of steps.")
        html.quiet(words)
    else:
        html.write(html.tag("p", html.escape(say(sentence(by_epoch))), "rv-line"))


def _chart(run: Run, known: Board, window: int | None) -> None:
    title = state.metric_title(known.metric)
    if epochs.one_point_each(known):
        _points(run, known, window, title)
        return
    html.section(_("{metric} over the way through each part").format(metric=title))
    beginner.explain("epochs")
    curves = epochs.drawn(known, window)
    words = (_("Way through"), _("Part"), _("Mean"), _("Lowest"), _("Highest"))
    spec = epoch_charts.overlay(*words, log=epochs.wants_log(curves))
    count = len(known.table)
    alt = _("{metric} of the run {run} in parts that are drawn over each other ({n}): the newest is blue, older ones grey.")
    _draw(spec, curves, alt.format(metric=title, n=number(min(count, epochs.DRAWN)), run=run.name))
    note = _("Blue: the newest, with its lowest and highest values. Grey: earlier ones, the oldest the faintest.")
    if epochs.far_first(known, epochs.parts_drawn(known)):
        note += " " + _("The first lies far above and is left out; the board has it.")
    if count > epochs.DRAWN:
        note += " " + _("{shown} of {all} are drawn.").format(shown=number(curves["part"].nunique()), all=number(count))
    html.quiet(note)


def _points(run: Run, known: Board, window: int | None, title: str) -> None:
    """Draw parts of one row each one after the other: over each other they would have no line."""
    html.section(_("{metric} of each part").format(metric=title))
    roles = {column.name: column.role for column in state.columns(run.id, run.version)}
    evaluated = roles.get(known.metric) in LOSSES and known.table["eval"].notna().any()
    series = {"mean": title} | ({"eval": _("Evaluation")} if evaluated else {})
    points = epochs.by_part(known, window, series)
    spec = epoch_charts.by_part(_("Step") if window else _("Epoch"), tuple(series.values()), log=epochs.wants_log(known.curves))
    alt = _("{metric} of the run {run}, one point a part ({n})")
    _draw(spec, points, alt.format(metric=title, n=number(len(known.table)), run=run.name))


def _draw(spec: dict[str, Any], data: pd.DataFrame, alt: str) -> None:
    st.vega_lite_chart(spec={**spec, "datasets": {epoch_charts.CURVES: data}}, key="overlay", alt=alt, width="stretch")


def _table(run: Run, known: Board, window: int | None) -> None:
    html.section(_("Board"), number(len(known.table)))
    frame = epochs.table(known, window, state.diagnosis(run.id, run.version).findings)
    column = st.column_config
    shown = {
        "name": column.TextColumn(_("Steps") if known.how == WINDOW else _("Epoch"), pinned=True),
        "mean": column.NumberColumn(_("Mean"), format="%.5g"),
        "change": column.NumberColumn(_("To the one before"), format="%+.2f%%"),
        "min": column.NumberColumn(_("Lowest"), format="%.5g"),
        "max": column.NumberColumn(_("Highest"), format="%.5g"),
        "first": column.NumberColumn(_("First"), format="%.5g"),
        "last": column.NumberColumn(_("Last"), format="%.5g"),
        "eval": column.NumberColumn(_("Evaluation"), format="%.5g"),
        "lr_min": column.NumberColumn(_("Learning rate from"), format="%.2e"),
        "lr_max": column.NumberColumn(_("to"), format="%.2e"),
        "nonfinite": column.NumberColumn(_("NaN or infinite")),
        "rows": column.NumberColumn(_("Rows")),
        "minutes": column.NumberColumn(_("Minutes"), format="%.3g"),
        "projected": column.NumberColumn(_("Minutes when done"), format="%.3g"),
        "steps": column.TextColumn(_("Steps")),
        "findings": column.NumberColumn(_("Findings")),
    }
    st.dataframe(
        frame.drop(columns=["steps"] if known.how == WINDOW else []),
        hide_index=True,
        placeholder="–",
        column_config=shown,
        key="board",
        alt=_("The parts of the run with their losses, times and learning rates"),
    )
    html.quiet(epochs.basis(known, window))
    with st.container(horizontal=True, vertical_alignment="center"):
        name, data = f"epochs-{run.id}.csv", known.table.to_csv(index=False).encode()
        st.download_button(_("Board as CSV"), data, name, "text/csv", icon=":material/download:", on_click="ignore")
        st.page_link("pages/health.py", label=_("Run health"), icon=":material/monitor_heart:", query_params={"run": run.id})


page()
