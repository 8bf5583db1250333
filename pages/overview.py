"""All runs on one page, those that need attention first."""

import zlib
from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import streamlit as st

from analysis.compare.baseline import Baseline
from messages import N_
from server import service
from server.board import Line
from storage.types import Run
from ui import beside, filters, groups, html, listing, search, state, tags
from ui.navigation import PAGES_DIR
from ui.search import ATTENTION
from ui.text import _, ngettext
from ui.verdict import PENDING, UNJUDGED, VERDICTS

TITLE = N_("Overview")
ICON = ":material/list:"
SECTION = N_("Runs")
ORDER = 110

ROW_PX = 38
TABLE_PX = 720
MOST_COMPARED = 8
TICKED, DELETED = "ticked", "deleted"  # in the session: ids of runs; what was deleted, last what was deleted last
SPARK_WORDS = N_(
    "Means, and single values that stand out. What lies far outside the usual range is drawn at its edge, NaN and infinity too."
)
LEFT_WORDS = N_(
    "“If finished”: the run is of no use to finish. “≈”: on an assumption about epoch_time. Time & cost has it and the range."
)


def page() -> None:
    """Search and filters, then the table; what is ticked can be compared, tagged, renamed or deleted."""
    bar = st.container(horizontal=True, vertical_alignment="center", key="bar")
    lines = service.get().board.lines()
    with bar:
        html.title(_(TITLE))
        if lines:
            text = filters.text()
    _undo()
    if not lines:
        html.empty(_("No run yet. Bring in a training log, or try a sample: every run then has a line here, the worst first."))
        st.page_link("pages/upload.py", label=_("Bring in a log"), icon=":material/upload:")
        return
    given = tags.by_run()
    shown = listing.ranked(search.found(lines, text, given))
    with bar:
        filters.pickers(lines, given)
        by = filters.group(lines)
        filters.views()
        base = beside.pick()
        html.label(_attention(shown))
    if not shown:
        html.empty(_("No run is like that."))
        html.quiet(
            _("Known words: is:attention, is:sick, tag:NAME, project:NAME, and settings or last values: lr=5e-4, loss<2.")
        )
    elif by:
        _grouped(shown, by, given)
    else:
        _listed(shown, given, base)


def _attention(lines: Sequence[Line]) -> str:
    count = sum(line.verdict in ATTENTION for line in lines)
    whole = ngettext("{n} run", "{n} runs", len(lines))
    return f"{whole} · " + (
        ngettext("{n} needs attention", "{n} need attention", count) if count else _("none needs attention")
    )


def _listed(lines: Sequence[Line], given: dict[str, list[str]], base: Baseline | None) -> None:
    standings = beside.standings([line.run for line in lines], base)
    with st.container(key="cards"):
        html.write(listing.cards(lines, standings))
    with st.container(key="manage"):
        _manage([line.run for line in lines])
    place = st.container(horizontal=True, vertical_alignment="bottom", key="actions")
    with st.container(key="table"):
        chosen = _table(lines, listing.table(lines, given, standings), given, base)
    st.session_state[TICKED] = [lines[row].run.id for row in chosen.rows if row < len(lines)]
    with place:
        _actions([lines[row].run for row in chosen.rows if row < len(lines)], given)
    if chosen.cells and chosen.cells[0][0] < len(lines):
        state.open_run(lines[chosen.cells[0][0]].run.id)


def _table(lines: Sequence[Line], table: pa.Table, given: dict[str, list[str]], base: Baseline | None) -> Any:
    """Show the table and return what is chosen in it. What is ticked is ticked by run: another order is another widget, or the
    ticks would slide to the runs that stand in those lines now."""
    ids, ticked = [line.run.id for line in lines], set(st.session_state.get(TICKED, ()))
    rows = [place for place, run in enumerate(ids) if run in ticked]
    column = st.column_config
    looks = [*VERDICTS.values(), PENDING, UNJUDGED]
    words, colours = [listing.signed(look) for look in looks], [look.colour for look in looks]
    names = sorted({tag for each in given.values() for tag in each})
    event = st.dataframe(
        table,
        hide_index=True,
        placeholder="–",
        row_height=ROW_PX,
        height=min(TABLE_PX, ROW_PX * (len(table) + 1) + 2),
        key=f"runs-{zlib.crc32(' '.join(ids).encode())}",
        on_select="rerun",
        selection_default={"selection": {"rows": rows, "columns": [], "cells": []}},
        selection_mode=["multi-row", "single-cell"],
        alt=_("All runs, those that need attention first"),
        column_config={
            "verdict": column.MultiselectColumn(_("Verdict"), width=132, options=words, color=colours),
            "name": column.TextColumn(_("Run"), width=210),
            "curve": column.LineChartColumn(_("Loss"), width=90, help=_(SPARK_WORDS)),
            "loss": column.NumberColumn(_("Last loss"), format="%.4g", width=75),
            "beside": column.TextColumn(_("To the baseline"), width=145, help=_baseline_words(base)) if base else None,
            "progress": column.ProgressColumn(_("Progress"), format="%.0f%%", min_value=0, max_value=100, width=95),
            "left": column.TextColumn(_("Time left"), width=150, help=_(LEFT_WORDS)),
            "cost": column.TextColumn(_("Cost"), width=80),
            "age": column.TextColumn(_("Last rows"), width=105),
            "tags": column.MultiselectColumn(_("Tags"), width=120, options=names, color="auto") if names else None,
            "differs": column.TextColumn(_("What differs"), width=260),
            "steps": column.NumberColumn(_("Last step"), format="localized", width=90),
        },
    )
    return event.selection


def _baseline_words(base: Baseline) -> str:
    return _("Loss beside the baseline {name}, up to the last step that both have.").format(
        name=html.escape_markdown(base.name)
    )


def _grouped(lines: Sequence[Line], by: str, given: dict[str, list[str]]) -> None:
    together = groups.together(lines, by, given)
    spec = groups.chart(together)
    if spec is not None:
        html.quiet(_("Mean of each group, over the range from its lowest to its highest run."))
        st.vega_lite_chart(spec=spec, key="groups", alt=_("Loss of each group over the part of the run"), width="stretch")
    frame = groups.table(together)
    column = st.column_config
    st.dataframe(
        frame,
        hide_index=True,
        placeholder="–",
        row_height=ROW_PX,
        height=min(TABLE_PX, ROW_PX * (len(frame) + 1) + 2),
        key="group_table",
        on_select=lambda: _open_group(by, frame["value"].tolist()),
        selection_mode="single-cell",
        alt=_("The groups with their losses"),
        column_config={
            "value": column.TextColumn(_("Group"), width=220),
            "runs": column.NumberColumn(_("Runs"), width=70),
            "attention": column.NumberColumn(_("Need attention"), width=110),
            "mean": column.NumberColumn(_("Mean of the last losses"), format="%.4g"),
            "low": column.NumberColumn(_("Lowest"), format="%.4g"),
            "high": column.NumberColumn(_("Highest"), format="%.4g"),
            "spent": column.NumberColumn(_("Spent"), format="%.2f"),
            "curve": column.LineChartColumn(_("Loss"), width=180),
        },
    )
    html.quiet(_("Click a group to see its runs."))


def _open_group(by: str, values: Sequence[str]) -> None:
    """Ask for the runs of the group that was clicked."""
    for row, _column in st.session_state["group_table"].selection.cells:
        asked = search.with_term(st.session_state.get(filters.SEARCH, ""), groups.term(by, values[row]))
        st.session_state[filters.SEARCH] = asked
        st.session_state["group_picker"] = ""


def _actions(runs: list[Run], given: dict[str, list[str]]) -> None:
    if not runs:
        html.quiet(_("Click a line to open the run; tick lines to compare, tag, rename or delete."))
        return
    if len(runs) > 1 and (PAGES_DIR / "compare.py").exists():
        words = _("Compare {n} runs").format(n=min(len(runs), MOST_COMPARED))
        ids = ",".join(run.id for run in runs[:MOST_COMPARED])
        st.page_link("pages/compare.py", label=words, icon=":material/compare_arrows:", query_params={"runs": ids})
    if service.get().settings.read_only:
        html.quiet(_("The store is open for reading only."))
        return
    tags.editor(runs, given)
    _change(runs, "table")


def _change(runs: list[Run], where: str) -> None:
    """Offer to rename a single run and to delete all of them."""
    if len(runs) == 1:
        field = f"rename-{where}-{runs[0].id}"
        st.text_input(_("New name"), value=runs[0].name, max_chars=200, width=300, key=field)
        st.button(_("Rename"), icon=":material/edit:", key=f"do-rename-{where}", on_click=_rename, args=(runs[0].id, field))
    words = ngettext("Delete {n} run", "Delete {n} runs", len(runs))
    gone = [(run.id, run.name) for run in runs]
    st.button(words, icon=":material/delete:", key=f"do-delete-{where}", on_click=_delete, args=(gone,))


def _manage(runs: list[Run]) -> None:
    """On a phone there are cards and no table: a run is chosen by name."""
    if service.get().settings.read_only:
        return
    box = st.expander(_("Rename or delete a run"), key="manage_box", on_change="rerun")
    if not box.open:
        return
    with box:
        by_id = {run.id: run for run in runs}
        chosen = st.selectbox(_("Run"), list(by_id), format_func=lambda key: by_id[key].name, key="managed")
        if chosen:
            _change([by_id[chosen]], "phone")


def _rename(run_id: str, field: str) -> None:
    """Give a run the name that now stands in a field: an argument would be the name of the run of the page before."""
    if name := st.session_state[field].strip():
        state.store().rename_run(run_id, name)
        service.get().got_rows([run_id])  # the run is another version: its verdict is looked at again


def _delete(runs: list[tuple[str, str]]) -> None:
    for run_id, _name in runs:
        state.store().delete_run(run_id)
    st.session_state.setdefault(DELETED, []).append(runs)


def _restore() -> None:
    for run_id, _name in st.session_state[DELETED].pop():
        state.store().restore_run(run_id)
        service.get().got_rows([run_id])


def _undo() -> None:
    """Offer to bring back what was deleted last, then what was deleted before that."""
    if not st.session_state.get(DELETED):
        return
    deleted = st.session_state[DELETED][-1]
    with st.container(horizontal=True, vertical_alignment="center", key="undo"):
        names = ", ".join(name for _id, name in deleted)
        html.write(html.tag("p", html.escape(_("Deleted: {names}").format(names=names)), "rv-line"))
        st.button(_("Undo"), icon=":material/undo:", on_click=_restore)


page()
