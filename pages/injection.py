"""Would it be found? Put a fault into a run and see what is said, after how many steps, and what is missed."""

import streamlit as st

from analysis.inject import Outcome
from analysis.segment import Segment
from messages import N_, Text
from server import injection
from ui import html, injection_parts, own_thresholds, state
from ui.text import _, say
from ui.verdict import proof

TITLE = N_("Injection lab")
ICON = ":material/vaccines:"
SECTION = N_("Trust the log")
ORDER = 330

BASES = {"run": N_("Into one of your runs"), "simulated": N_("Into a simulated run")}
cached = st.cache_data(max_entries=8, ttl=3600, show_spinner=False)


def page() -> None:
    """Choose a run, a place and a fault; then the curves with it and without, and all faults at once."""
    with st.container(horizontal=True, vertical_alignment="center", key="bar"):
        html.title(_(TITLE))
        words = {name: _(title) for name, title in BASES.items()}
        listed = state.store().runs()
        base = state.pick("base", _("Run"), words, "run", width=220) if listed else "simulated"
        run = state.pick_run() if base == "run" else None
        profile = state.pick(
            "profile", _("Thresholds"), {k: _(v) for k, v in own_thresholds.PROFILES.items()}, "robust", width=165
        )
        html.label(_("Put in at"))
        since = st.slider(
            _("Put in at"), 20, 90, 50, 5, format="%d%%", key="at", bind="query-params", width=150, label_visibility="collapsed"
        )
    html.quiet(_("Each fault is put into a copy of the run, on its own. Nothing is stored, no finding is kept."))
    segment = _launch(run.id if run else None, run.version if run else 0)
    if isinstance(segment, Text):
        html.empty(say(segment))
        return
    with st.spinner(_("Each fault is put in and looked for …")):
        outcomes = _outcomes(run.id if run else None, run.version if run else 0, since, profile)
    _one(outcomes, segment)
    html.section(_("All faults at once"))
    html.quiet(injection_parts.summary(outcomes))
    html.write(injection_parts.table(outcomes, st.query_params.get("fault", "")))


def _one(outcomes: list[Outcome], segment: Segment) -> None:
    tried = {outcome.name: outcome for outcome in outcomes if outcome.step is not None}
    words = {name: injection_parts.words_of(name)[0] for name in tried}
    left, right = st.columns([3, 2], gap="medium")
    with left:
        with st.container(horizontal=True, vertical_alignment="center"):
            html.label(_("Fault"))
            chosen = tried[state.pick("fault", _("Fault"), words, next(iter(words)), width=260)]
        spec = injection_parts.curves(chosen, segment)
        if spec is None:
            html.empty(_("This fault is one of the text: the curves stay as they are."))
        else:
            told = f"{words[chosen.name]}: {injection_parts.said(chosen)}"
            st.vega_lite_chart(spec=spec, key=f"injected-{chosen.name}-{chosen.step}", alt=told, width="stretch")
    with right:
        html.section(_("What is said"))
        html.write(html.tag("p", html.escape(injection_parts.said(chosen)), "rv-prose"))
        if chosen.found is not None:
            html.write(proof(chosen.found))


@cached
def _launch(run: str | None, version: int) -> Segment | Text:
    return injection.launch(state.store(), run)


@cached
def _outcomes(run: str | None, version: int, since: int, profile: str) -> list[Outcome]:
    segment = _launch(run, version)
    return [] if isinstance(segment, Text) else injection.outcomes(segment, since=since / 100, profile=profile)


page()
