"""All runs on the page Time & cost: the dearest first, and what they come to by week and by tag."""

from collections import Counter
from collections.abc import Sequence
from typing import Any

import pandas as pd
import streamlit as st

from server import service
from server.costs import Wishes
from server.totals import Paid, paid
from ui import costs, html, tags
from ui.text import _, ngettext, number


def show(wishes: Wishes) -> None:
    """Show the table of all runs and the totals, from the facts that are kept of each."""
    lines = service.get().board.lines()
    found = paid(lines, wishes, service.get().settings.data_dir)
    if waiting := len(lines) - len(found):
        html.quiet(ngettext("{n} run is not counted yet", "{n} runs are not counted yet", waiting))
    if not found:
        return
    currency, others = priced(found)
    frame = costs.table(found)
    frame.loc[frame["run"].isin(others), "spent"] = None
    _figures(frame, currency, len(others))
    if wishes.meaning is not None or wishes.total_steps is not None:
        html.quiet(_("What you typed about epoch_time and the plan is about one run: it does not count here."))
    column = st.column_config
    amounts: dict[str, Any] = {
        "hours": column.NumberColumn(_("Hours"), format="%.3g"),
        "gpu_hours": column.NumberColumn(_("GPU-hours"), format="%.4g"),
        "spent": column.NumberColumn(_("Spent ({currency})").format(currency=currency), format="%.2f"),
    }
    shown: dict[str, Any] = {
        "run": None,
        "name": column.TextColumn(_("Run"), width=280),
        "week": column.TextColumn(_("Week"), help=_("of the last line by the clock of the log, else of when it came in")),
        "left": column.NumberColumn(_("Hours left"), format="%.3g", help=_("none where it is of no use to finish the run")),
        "goodput": column.ProgressColumn(_("Productive"), format="%.0f%%", min_value=0, max_value=100),
        "waste": column.TextColumn(_("Largest waste")),
    }
    alt = _("All runs with their hours and costs")
    st.dataframe(frame, hide_index=True, placeholder="–", column_config=shown | amounts, key="all", alt=alt)
    count = {"runs": column.NumberColumn(_("Runs")), "priced": column.NumberColumn(_("with GPU-hours"))}
    left, right = st.columns(2, gap="medium")
    with left:
        html.section(_("By week"))
        _totals(costs.weeks(frame), {"week": column.TextColumn(_("Week")), **count, **amounts}, "weeks", _("Costs by week"))
    with right:
        html.section(_("By tag"))
        by_tag = tagged(frame, tags.by_run())
        if len(by_tag):
            _totals(by_tag, {"tag": column.TextColumn(_("Tag")), **count, **amounts}, "tags", _("Costs by tag"))
        else:
            html.quiet(_("No run has a tag. Give runs a tag on the overview (a project, a team) and their costs add up here."))
    name, data = "costs.csv", frame.to_csv(index=False).encode()
    st.download_button(_("Table as CSV"), data, name, "text/csv", icon=":material/download:", on_click="ignore")


def _figures(frame: pd.DataFrame, currency: str, others: int) -> None:
    """Show what all runs come to; others: runs whose money is of another currency."""
    if others:
        told = ngettext(
            "{n} run is priced in another currency: its money is not added",
            "{n} runs are priced in another currency: their money is not added",
            others,
        )
        html.quiet(told)
    totals = (
        (_("Runs"), number(len(frame)), ""),
        (_("Hours"), number(_sum(frame["hours"]), digits=3), _left_out(frame["hours"])),
        (_("GPU-hours"), number(_sum(frame["gpu_hours"]), digits=3), _left_out(frame["gpu_hours"])),
        (_("Spent"), costs.money(_sum(frame["spent"]), currency), _left_out(frame["spent"])),
    )
    html.write(html.figures(html.figure(label, value, note) for label, value, note in totals))


def _left_out(values: pd.Series) -> str:
    """Return how many runs a sum leaves out because their logs do not say it, "" where it is of all or of none."""
    known = int(values.notna().sum())
    return _("from {known} of {all} runs").format(known=known, all=len(values)) if 0 < known < len(values) else ""


def priced(found: Sequence[Paid]) -> tuple[str, set[str]]:
    """Return the currency of most of the runs that have a price, and those (ids) that are priced in another."""
    each = {one.run.id: one.model.currency for one in found if one.model.price is not None}
    usual = Counter(each.values()).most_common(1)
    currency = usual[0][0] if usual else found[0].model.currency
    return currency, {run for run, other in each.items() if other != currency}


def _totals(frame: pd.DataFrame, shown: dict, key: str, alt: str) -> None:
    st.dataframe(frame, hide_index=True, placeholder="–", column_config=shown, key=key, alt=alt)


def _sum(values: pd.Series) -> float | None:
    return float(values.sum()) if values.notna().any() else None


def tagged(frame: pd.DataFrame, by_run: dict[str, list[str]]) -> pd.DataFrame:
    """Return the totals of `costs.table` by tag, the dearest first; a run with several tags counts in each."""
    rows = frame.assign(tag=[by_run.get(run, []) for run in frame["run"]]).explode("tag").dropna(subset=["tag"])
    return costs.sums(rows, "tag").sort_values(["spent", "hours"], ascending=False, na_position="last", ignore_index=True)
