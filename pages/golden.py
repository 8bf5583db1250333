"""Is this run like those that went well? The nearest golden runs, what differs most, and failures that looked like this."""

import streamlit as st

from analysis.golden import FEWEST_GOLDEN, Case, Comparison
from messages import N_
from server import golden, service
from server.golden import FAILURE, GOLDEN, Beside
from storage.types import Run
from ui import golden_parts, html, runbar, state
from ui.text import _, ngettext, number, say
from ui.verdict import titles

TITLE = N_("Golden & baselines")
ICON = ":material/workspace_premium:"
SECTION = N_("Team")
ORDER = 520


def page() -> None:
    """Compare one run with the golden ones; below, the library itself."""
    with runbar.bar():
        run = runbar.run_bar(_(TITLE))
    own, failures = golden.kept(state.store(), GOLDEN), golden.kept(state.store(), FAILURE)
    if run is not None:
        with st.container(horizontal=True, vertical_alignment="center", key="marks"):
            _marks(run, own, failures)
        _compared(run, own, failures)
    html.section(_("Golden runs"), number(len(own)))
    _library(own, GOLDEN, _few(len(own)))
    html.section(_("Failure patterns of your own"), number(len(failures)))
    _library(failures, FAILURE, _("None yet. A sick run that is kept here is named when another one looks like it."))


def _few(count: int) -> str:
    if count >= FEWEST_GOLDEN:
        return ""
    words = ngettext("{n} run is marked as golden.", "{n} runs are marked as golden.", count) + " "
    return words + _("From {needed} of one kind on, they take the place of the simulated ones.").format(needed=FEWEST_GOLDEN)


def _marks(run: Run, own: list[Case], failures: list[Case]) -> None:
    """Offer to mark the run, or to take the mark away."""
    if service.get().settings.read_only:
        return
    if run.id in {case.run for case in own}:
        st.button(_("No longer golden"), icon=":material/undo:", key="unmark", on_click=_unmark, args=(run.id, GOLDEN))
    else:
        st.button(_("Mark as golden"), icon=":material/workspace_premium:", key="mark", on_click=_mark, args=(run.id, GOLDEN))
    if run.id in {case.run for case in failures}:
        st.button(_("No longer a failure pattern"), key="unkeep", on_click=_unmark, args=(run.id, FAILURE))
        return
    kinds = list(dict.fromkeys(finding.kind for finding in state.diagnosis(run.id, run.version).findings))
    box = st.popover(
        _("Keep as failure pattern"), icon=":material/crisis_alert:", key="keep", on_change="rerun", disabled=not kinds
    )
    if box.open:
        with box:
            words = titles()
            st.selectbox(_("What went wrong"), kinds, format_func=lambda one: _(words.get(one, one)), key="pattern")
            st.button(_("Keep"), key="do_keep", type="primary", on_click=_keep, args=(run.id,))


def _mark(run: str, kind: str, label: str = "") -> None:
    refused = golden.mark(state.store(), run, kind, label=label)
    if refused is not None:
        st.toast(say(refused), icon=":material/error:")


def _keep(run: str) -> None:
    _mark(run, FAILURE, st.session_state["pattern"])


def _unmark(run: str, kind: str) -> None:
    golden.unmark(state.store(), run, kind)


def _compared(run: Run, own: list[Case], failures: list[Case]) -> None:
    case = _case(run.id, run.version)
    beside = case if isinstance(case, Beside) else golden.against(case, own, failures)
    found = beside.found
    if not isinstance(found, Comparison):
        html.empty(say(found))
        return
    html.write(golden_parts.banner(beside, found))
    left, right = st.columns([3, 2], gap="medium")
    with left:
        html.section(_("Over its progress"))
        html.quiet(_("The green shade is where nineteen of twenty golden runs of this kind went."))
        html.write(golden_parts.legend(beside, found))
        good = own if beside.own else list(golden.shipped()[0])
        spec = golden_parts.overlay(beside, found, good)
        st.vega_lite_chart(spec=spec, key=f"overlay-{run.id}", alt=golden_parts.alt_text(found, run.name), width="stretch")
    with right:
        html.section(_("What differs most"))
        html.write(golden_parts.differences(found))
        html.section(_("Nearest golden runs"))
        html.write(golden_parts.nearest(found.near))
        html.section(_("Nearest failures"))
        html.write(golden_parts.failures(found))
        html.quiet(_("Near is no diagnosis: what is wrong with a run, Run health says."))


@state.cached
def _case(run_id: str, version: int) -> Case | Beside:
    """Return a run as a case; where it can't be one, what says why."""
    beside = golden.beside(state.store(), run_id)
    return beside if beside.case is None else beside.case


def _library(cases: list[Case], kind: str, empty: str) -> None:
    if empty:
        html.quiet(empty)
    for case in cases:
        with st.container(horizontal=True, vertical_alignment="center", key=f"{kind}-{case.run}"):
            st.page_link(
                "pages/health.py", label=html.escape_markdown(golden_parts.title(case)), query_params={"run": case.run}
            )
            if not service.get().settings.read_only:
                st.button(_("Take out"), key=f"out-{kind}-{case.run}", type="tertiary", on_click=_unmark, args=(case.run, kind))


page()
