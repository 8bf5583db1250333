"""Is this run healthy, since when not, why, what to do, and when is it done: one run on one screen."""

from collections.abc import Mapping
from typing import Any

import pandas as pd
import streamlit as st

from analysis.diagnose import Diagnosis
from analysis.findings import Finding
from messages import N_
from server import service
from server.monitor import heartbeats
from storage.types import Run
from ui import (
    axes,
    beginner,
    beside,
    blind,
    charts,
    controls,
    downloads,
    drawing,
    figures,
    finding_cards,
    finding_states,
    html,
    judging,
    own_thresholds,
    panels,
    runbar,
    scenario,
    state,
    text,
    upload,
    verdict,
    wake,
)
from ui.finding_cards import Group, key_of
from ui.judging import Judged
from ui.text import _, ngettext, number, say

TITLE = N_("Run health")
ICON = ":material/monitor_heart:"
SECTION = N_("Runs")
ORDER = 120

SHOWN_CARDS = 30
LINES_AROUND, LAST_LINES = 12, 40
LIVE = "live"


def page() -> None:
    """Pick run, launch and live interval; all else is one fragment, so that a live page redraws without a jump."""
    with runbar.bar():
        run = runbar.run_bar(_(TITLE))
        if run is None:
            return
        segment = runbar.pick_launch(run)
        every = _interval(run)
        profile = own_thresholds.pick(run)
    st.fragment(body, run_every=every or None, key=LIVE)(run.id, segment, profile, every)


def _interval(run: Run) -> int:
    words = {str(n): _("Live: every {n} s").format(n=n) if n else _("Live: off") for n in state.LIVE_SECONDS}
    return int(state.pick("live", _("Live"), words, "2" if state.growing([run]) else "0", width=140))


def body(run_id: str, segment: int | None, profile: str, every: int) -> None:
    """Draw the run as it is now, before others compute; when its rows come too, if it is live (`every` so many seconds)."""
    wake.shows(run_id, LIVE, every)
    with service.get().precedence.first():
        _body(run_id, segment, profile)


def _body(run_id: str, segment: int | None, profile: str) -> None:
    run = state.known(run_id)
    if run is None:
        html.empty(_("This run was deleted while it was open here."))
        return
    if state.renamed(run):
        st.rerun()
    version = state.store().version(run_id)
    judged = judging.judged(run, version, profile)
    shown = judged or Judged(verdict.pending(run.rows), judging.Glance())
    groups = finding_cards.grouped(run.id, shown.diagnosis.findings, finding_states.all_said(run.id))
    _banner(run, version, shown.diagnosis)
    if run.rows and state.columns(run_id, version):
        _figures_and_chart(run, version, shown, segment)
    else:
        _end_of_log(run, version)
    if judged is None:  # the curves of a long log are there while the rules are applied to it for the first time
        judging.make(run, version)
        st.rerun()
    _asked_line(run)
    found, unknown = st.columns([3, 2], gap="medium")
    with found:
        _findings(run, version, shown.diagnosis, groups)
    with unknown:
        blind.section(shown.diagnosis)
        html.section(_("What was read"))
        for told in upload.told(state.report(run.id, version)):
            html.quiet(say(told))
        words = _("Compare it with golden runs")
        st.page_link("pages/golden.py", label=words, icon=":material/workspace_premium:", query_params={"run": run.id})


def _banner(run: Run, version: int, diagnosis: Diagnosis) -> None:
    leading = verdict.leading(diagnosis)
    said = finding_states.all_said(run.id).get((run.id, key_of(leading))) if leading else None
    with st.container(key="verdict"):
        html.write(verdict.banner(diagnosis, said.note if said else ""))
        if leading is None:
            return
        with st.container(horizontal=True, vertical_alignment="top", key="verdict_more"):
            why = st.expander(_("Why we think so"), key="why", on_change="rerun")
            go = {"icon": ":material/arrow_downward:", "on_click": _open, "args": (leading,)}
            st.button(_("To the finding"), key="to_finding", type="tertiary", **go)
        if why.open:
            with why:
                html.write(verdict.proof(leading))
                html.write(finding_cards.limits(run, state.report(run.id, version), diagnosis, leading))
                finding_cards.lines(run, leading.first_line, leading.last_line)


def _open(finding: Finding) -> None:
    """Open the card of a finding and bring it into view."""
    st.query_params["finding"] = st.session_state["show_finding"] = key_of(finding)


def _figures_and_chart(run: Run, version: int, judged: Judged, segment: int | None) -> None:
    place, bar = st.container(key="figures"), st.container(horizontal=True, vertical_alignment="center", key="controls")
    columns = state.columns(run.id, version)
    usual = panels.flat(panels.metrics_of(columns))
    with bar:
        stressed = scenario.stressed(run, scenario.chosen(run), usual)
        view = controls.view(run, state.courses(run.id, version), columns, [*usual, *stressed])
    asked = drawing.Asked(version, judged.stamp, segment, stressed, view, text.language())
    drawn = drawing.of(run, asked, judged.diagnosis)
    base = beside.pinned()
    standing = beside.of_run(run, base)
    with place:
        _figures(run, version, judged, segment, drawn.panels.get("loss", (None,))[0])
        if base is not None and standing is not None:
            beside.line(run, base, standing)
    spec = drawn.spec
    if base is not None and standing is not None and base.metric in drawn.panels.get("loss", ()) and view.course == axes.STEP:
        below = len(drawn.panels) - list(drawn.panels).index("loss")
        spec = beside.overlay(spec, standing, below, base, axes.whole(drawn.buckets), log=view.log)
    _chart(run, judged, asked, drawn, spec)
    for panel, names in drawn.panels.items():
        beginner.explain(panels.explained(panel, names[0]))
    with bar:
        downloads.popover(run, spec, drawn.buckets, drawn.metrics, segment, zoomed=view.span is not None)


def _chart(run: Run, judged: Judged, asked: drawing.Asked, drawn: drawing.Drawing, spec: dict[str, Any]) -> None:
    view, added = asked.view, (*asked.stressed, *asked.view.more)
    key = f"panels-{run.id}-{asked.segment}-{view.course.key}-{view.log_x}-{view.span}-{'.'.join(added)}"
    st.vega_lite_chart(
        spec=spec,
        key=key,
        on_select=lambda: _selected(key, view, judged.diagnosis, drawn.signs),
        selection_mode=[charts.BRUSH, charts.PICKED],
        alt=_alt(run, judged.diagnosis, drawn.metrics),
        width="stretch",
    )


def _figures(run: Run, version: int, judged: Judged, segment: int | None, metric: str | None) -> None:
    loss = None
    if metric:
        trend = drawing.trend(run.id, version, judged.stamp, segment, metric, judged.diagnosis)
        loss = figures.Loss(metric, state.of_evaluations(run.id, version, metric), trend)
    html.write(
        figures.strip(
            run,
            state.trained(run.id, version),
            loss=loss,
            glance=judged.glance,
            printed=state.last_printed(run.id, version, run.last_step),
            beats=heartbeats(state.store(), run.id) if state.lane_count(run.id, version) > 1 else (),
        )
    )


def _selected(key: str, view: controls.View, diagnosis: Diagnosis, signs: pd.DataFrame) -> None:
    """Zoom to the range that was dragged, or open the finding or the lines whose sign was clicked."""
    chosen: Mapping = st.session_state[key].selection
    if dragged := chosen.get(charts.BRUSH, {}).get("x"):
        controls.zoom(view.course, *map(float, dragged))
    for point in chosen.get(charts.PICKED, []):
        for sign in signs[signs["mark"] == int(point.get("mark", -1))].itertuples():
            if sign.finding >= 0:
                _open(diagnosis.findings[sign.finding])
            elif sign.line > 0:
                st.query_params["line"] = str(sign.line)
                st.session_state["show_line"] = True


def _alt(run: Run, diagnosis: Diagnosis, metrics: tuple[str, ...]) -> str:
    shown = ", ".join(state.metric_title(name) for name in metrics)
    return _("Curves of {metrics} over the steps of the run {run}. {sentence}").format(
        metrics=shown, run=run.name, sentence=say(diagnosis.sentence)
    )


def _asked_line(run: Run) -> None:
    """Show the lines around the one that the URL names."""
    asked = st.query_params.get("line", "")
    if not asked.isdecimal() or len(asked) > 15:
        return
    line = int(asked)
    with st.container(key="lines"):
        with st.container(horizontal=True, vertical_alignment="center"):
            html.section(_("The log around line {line}").format(line=number(line)))
            st.button(_("Close"), icon=":material/close:", type="tertiary", on_click=lambda: state.set_param("line", None))
        first = max(1, line - LINES_AROUND)
        html.write(html.log_lines(state.store().lines(run.id, first, line + LINES_AROUND), first, range(line, line + 1)))
    if st.session_state.pop("show_line", False):
        html.scroll_to("lines")


def _findings(run: Run, version: int, diagnosis: Diagnosis, groups: list[Group]) -> None:
    html.section(_("Findings"), number(len(diagnosis.findings)))
    finding_states.undo()
    if not groups:
        html.quiet(_("Nothing unusual was found."))
    asked = st.query_params.get("finding", "")
    fresh = asked != st.session_state.get("finding_shown", (run.id, ""))[1] or st.session_state.get("show_finding") == asked
    shown = None
    for group in groups[:SHOWN_CARDS]:
        wanted = asked if fresh and asked in map(key_of, group.findings) else ""
        opened = _card(run, version, diagnosis, group, wanted)
        shown = shown or opened
        if wanted and st.session_state.pop("show_finding", None):
            html.scroll_to(_place(group))
    state.set_param("finding", shown)
    st.session_state["finding_shown"] = (run.id, shown or "")
    if len(groups) > SHOWN_CARDS:
        html.quiet(ngettext("{n} more kind is not shown.", "{n} more kinds are not shown.", len(groups) - SHOWN_CARDS))


def _place(group: Group) -> str:
    """Return the key of the card of a group: what the stylesheet and a jump know it by."""
    return f"finding-{verdict.SEVERITIES[group.first.severity].css}-{group.name}"


def _card(run: Run, version: int, diagnosis: Diagnosis, group: Group, wanted: str) -> str | None:
    """Show a card and return the key of the finding in it, if it is open; what is inside is only made then."""
    look = verdict.SEVERITIES[group.first.severity]
    where = f"{run.id}-{group.name}"
    if wanted:
        st.session_state[f"card-{where}"] = True
    with st.container(key=_place(group)):
        words = finding_cards.label(group.findings, group.said)
        card = st.expander(words, icon=f":material/{look.icon}:", key=f"card-{where}", on_change="rerun")
        if not card.open:
            return None
        with card:
            return key_of(finding_cards.inside(run, version, diagnosis, group, where, wanted))


def _end_of_log(run: Run, version: int) -> None:
    """Nothing to draw: show what the log says last, which is where it says why."""
    count = state.report(run.id, version).lines
    first = max(1, count - LAST_LINES + 1)
    html.section(_("The end of the log"))
    html.write(html.log_lines(state.store().lines(run.id, first, count), first, range(0)))


page()
