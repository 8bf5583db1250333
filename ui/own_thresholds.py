"""By which thresholds a run is judged, and the editor of those that its project has set for itself."""

from typing import Any

import streamlit as st

from analysis.registry import Rule, all_rules
from messages import N_
from server import service, thresholds
from server.thresholds import BadThreshold
from storage.types import Run
from ui import html, state
from ui.text import _, say

PROFILES = {"robust": N_("By its own noise"), "articles": N_("By fixed numbers")}


def pick(run: Run) -> str:
    """Show the profile switch and the editor; return the profile that the URL names, else that of the server."""
    words = {name: _(title) for name, title in PROFILES.items()}
    profile = state.pick("profile", _("Thresholds"), words, service.get().settings.profile, width=165)
    box = st.popover(_("Thresholds"), icon=":material/tune:", key="thresholds", on_change="rerun")
    if box.open:
        with box:
            _editor(run, profile)
    return profile


def _editor(run: Run, profile: str) -> None:
    """Let a person change the thresholds of one rule for all runs of the project."""
    project = thresholds.project_of(state.store(), run.id)
    own = thresholds.of_project(state.store(), project, profile)
    rules = {rule.name: rule for rule in all_rules() if rule.thresholds_by(profile)}
    html.quiet(_("For all runs of the project {project}.").format(project=project) if project else _("For runs of no project."))
    name = st.selectbox(
        _("Rule"),
        list(rules),
        key="threshold_rule",
        format_func=lambda key: _(rules[key].title) + (" ●" if key in own else ""),
    )
    rule = rules[name]
    for key, usual in rule.thresholds_by(profile).items():
        _value(rule, profile, key, usual, own)
    html.write(*(html.tag("p", html.escape(_(words)), "rv-quiet") for words in rule.threshold_words(profile)))
    if service.get().settings.read_only:
        return
    with st.container(horizontal=True):
        args = (run.id, project, profile, rule)
        st.button(_("Save"), key="save_thresholds", type="primary", on_click=_keep, args=args)
        st.button(_("Back to default"), disabled=name not in own, on_click=_reset, args=args)


def _field(rule: Rule, profile: str, key: str) -> str:
    return f"threshold-{profile}-{rule.name}-{key}"


def _value(rule: Rule, profile: str, key: str, usual: Any, own: thresholds.Thresholds) -> None:
    now = own.get(rule.name, {}).get(key, usual)
    whole = isinstance(usual, int)
    st.number_input(
        key,
        min_value=0 if whole else 0.0,
        value=now,
        step=1 if whole else None,
        format="%d" if whole else "%g",
        key=_field(rule, profile, key),
        help=_("Default: {value}").format(value=usual),
    )


def _keep(run: str, project: str, profile: str, rule: Rule) -> None:
    """Keep what now stands in the fields: arguments would be the numbers of the run of the page before."""
    values = {key: st.session_state[_field(rule, profile, key)] for key in rule.thresholds_by(profile)}
    _save(run, project, profile, thresholds.of_project(state.store(), project, profile) | {rule.name: values})


def _reset(run: str, project: str, profile: str, rule: Rule) -> None:
    own = thresholds.of_project(state.store(), project, profile)
    if _save(run, project, profile, {name: given for name, given in own.items() if name != rule.name}):
        for key in rule.thresholds_by(profile):
            st.session_state.pop(_field(rule, profile, key), None)


def _save(run: str, project: str, profile: str, values: thresholds.Thresholds) -> bool:
    try:
        service.get().set_thresholds(project, profile, values)
        service.get().diagnosis(run, profile)
    except BadThreshold as error:
        st.toast(say(error.message), icon=":material/error:")
        return False
    st.toast(_("Saved: the runs of this project are judged anew."), icon=":material/done:")
    return True
