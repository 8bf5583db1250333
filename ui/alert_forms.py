"""The two forms of the page of alerts: a channel and a rule. What stands in them lives in the session until it is saved."""

from collections.abc import Callable
from dataclasses import replace

import streamlit as st

from analysis.findings import Severity
from server import service
from server.alerts import channels as ways
from server.alerts import rules
from server.alerts.channels import FORMS, SECURITY_WORDS, BadChannel, Channel, Field
from server.alerts.rules import AlertRule
from ui import alerts, html, state, verdict
from ui.text import _, say

EDITED, PROBLEM = "alert_edited", "alert_problem"  # in the session: what is edited, why it was not saved
BACK = "alert_back"  # in the session: the name of what was saved although somebody had deleted it meanwhile
MAX_QUIET_MINUTES, MAX_PER_HOUR = 7 * 1440, 1000


def edit(what: Channel | AlertRule | None) -> None:
    """Open the form of a channel or a rule; None: close it."""
    st.session_state[EDITED] = what
    for key in (PROBLEM, BACK):
        st.session_state.pop(key, None)
    for key in [key for key in st.session_state if str(key).startswith("form_")]:
        del st.session_state[key]


def show() -> None:
    """Show the form that is open, if one is, and what is to be said of the one that was saved last."""
    if name := st.session_state.get(BACK):
        html.warn(_("{name} had been deleted meanwhile and is kept again.").format(name=alerts.rule_name(name)))
    what = st.session_state.get(EDITED)
    if what is None:
        return
    with st.container(border=True, key="form"):
        if isinstance(what, Channel):
            _channel(what)
        else:
            _rule(what)


def _channel(before: Channel) -> None:
    new = not before.name
    html.section(_("A new channel") if new else _("Edit a channel"))
    titles = {kind: _(form.title) for kind, form in FORMS.items()}
    at = list(titles).index(before.kind)
    kind = st.selectbox(_("Kind of channel"), list(titles), index=at, format_func=titles.__getitem__, key="form_kind")
    with st.form("alert", border=False):
        left, right = st.columns(2, gap="large")
        with left:
            st.text_input(_("Name"), before.name, key="form_name", max_chars=rules.MAX_NAME, placeholder=titles[kind])
            for field in FORMS[kind].fields:
                _field(field, f"form_{kind}_{field.key}", before.fields.get(field.key, "") if kind == before.kind else "")
        with right:
            _how(before, new)
        _buttons(lambda: _save_channel(before))


def _field(field: Field, key: str, kept: str) -> None:
    label, note = _(field.label), _(field.help) if field.help else None
    if field.options:
        words = {option: _(SECURITY_WORDS[option]) for option in field.options}
        chosen = field.options.index(kept) if kept in field.options else 0
        st.selectbox(label, list(words), index=chosen, format_func=words.__getitem__, key=key)
        return
    secret, hint = field.secret, _("kept as it is; type to change it") if field.secret and kept else ""
    st.text_input(
        label,
        "" if secret else kept,
        key=key,
        type="password" if secret else "default",
        placeholder=hint,
        help=note,
        max_chars=ways.MAX_FIELD,
        autocomplete="off",
    )


def _how(before: Channel, new: bool) -> None:
    languages = list(alerts.LANGUAGES)
    st.selectbox(
        _("Language of its messages"),
        languages,
        index=languages.index(before.language),
        format_func=alerts.LANGUAGES.__getitem__,
        key="form_language",
    )
    more = _("What is more comes as one message when the hour is over.")
    st.number_input(_("Messages an hour at most"), 1, MAX_PER_HOUR, before.per_hour, key="form_per_hour", help=more)
    all_rules = {rule.id: rule for rule in rules.rules(state.store())}
    names = {name: alerts.rule_name(rule.name) for name, rule in all_rules.items()}
    uses = [name for name, rule in all_rules.items() if (rule.on if new else before.id in rule.channels)]
    st.multiselect(
        _("Rules that use it"),
        list(all_rules),
        default=uses,
        format_func=names.__getitem__,
        key="form_rules",
    )


def _save_channel(before: Channel) -> None:
    now = st.session_state
    kind = now["form_kind"]
    kept = before.fields if kind == before.kind else {}
    typed = {field: str(now.get(f"form_{kind}_{field.key}") or "").strip() for field in FORMS[kind].fields}
    fields = {field.key: kept.get(field.key, "") if field.secret and not text else text for field, text in typed.items()}
    name = now["form_name"].strip() or _(FORMS[kind].title)
    channel = Channel(before.id, name, kind, fields, now["form_language"], int(now["form_per_hour"]))
    there = {each.id for each in ways.channels(state.store())}
    try:
        ways.save(state.store(), channel)
    except BadChannel as error:
        now[PROBLEM] = say(error.message)
        return
    _use(channel, set(now["form_rules"]))
    service.get().alerts.trials.pop(channel.id, None)
    service.get().alerts.wake()
    _saved(before, channel, there)


def _use(channel: Channel, wanted: set[str]) -> None:
    """Let these rules use a channel, and no others."""
    for rule in rules.rules(state.store()):
        others = tuple(each for each in rule.channels if each != channel.id)
        if (channel.id in rule.channels) != (rule.id in wanted):
            rules.save(state.store(), replace(rule, channels=(*others, channel.id) if rule.id in wanted else others))


def _rule(before: AlertRule) -> None:
    html.section(_("Edit a rule") if before.name else _("A new rule"))
    words = alerts.what_words()
    with st.form("alert", border=False):
        left, right = st.columns(2, gap="large")
        with left:
            st.text_input(_("Name"), alerts.rule_name(before.name), key="form_name", max_chars=rules.MAX_NAME)
            st.multiselect(
                _("What is told"),
                list(words),
                default=[each for each in before.what if each in words],
                format_func=words.__getitem__,
                key="form_what",
            )
            least = {str(each): _(look.word) for each, look in verdict.SEVERITIES.items()}
            st.selectbox(
                _("From which severity on"),
                list(least),
                index=list(least).index(before.least),
                format_func=least.__getitem__,
                key="form_least",
            )
            help_quiet = _("The same class of the same run is told again after so long, or at once when it is graver.")
            st.number_input(
                _("Not again within (minutes)"),
                0,
                MAX_QUIET_MINUTES,
                before.quiet_minutes,
                step=10,
                key="form_quiet",
                help=help_quiet,
            )
        with right:
            _which_runs(before)
            known = {channel.id: channel.name for channel in ways.channels(state.store())}
            kept = [each for each in before.channels if each in known]
            nobody = _("in the app only")
            st.multiselect(
                _("Channels"), list(known), default=kept, format_func=known.__getitem__, key="form_channels", placeholder=nobody
            )
        _buttons(lambda: _save_rule(before))


def _which_runs(before: AlertRule) -> None:
    everything = _("all")
    for label, key, kept, known in (
        (_("Only runs of these projects"), "form_projects", before.projects, alerts.projects()),
        (_("Only runs with one of these tags"), "form_tags", before.tags, alerts.known_tags()),
    ):
        options = sorted({*known, *kept})
        st.multiselect(label, options, default=list(kept), key=key, placeholder=everything, accept_new_options=True)
    globs = _("As in a shell, separated by blanks: one of them must match the name of the run.")
    st.text_input(
        _("Only runs with these names"), " ".join(before.names), key="form_names", placeholder="minimind* *64m*", help=globs
    )


def _save_rule(before: AlertRule) -> None:
    now = st.session_state
    if not now["form_what"]:
        now[PROBLEM] = _("Say what is told.")
        return
    named = now["form_name"].strip() or _("Rule")
    rule = replace(
        before,
        name=before.name if before.name and named == alerts.rule_name(before.name) else named,
        what=tuple(now["form_what"]),
        least=Severity(now["form_least"]),
        projects=tuple(now["form_projects"]),
        tags=tuple(now["form_tags"]),
        names=tuple(now["form_names"].split()),
        channels=tuple(now["form_channels"]),
        quiet_minutes=int(now["form_quiet"]),
    )
    there = {each.id for each in rules.rules(state.store())}
    try:
        rules.save(state.store(), rule)
    except ValueError:
        now[PROBLEM] = _("More than {most} rules are not kept.").format(most=rules.MOST_RULES)
        return
    _saved(before, rule, there)


def _saved(before: Channel | AlertRule, now: Channel | AlertRule, there: set[str]) -> None:
    """Close the form; say so where somebody had deleted meanwhile what was edited. there: the ids there were."""
    edit(None)
    if before.name and before.id not in there:
        st.session_state[BACK] = now.name


def _buttons(save: Callable[[], None]) -> None:
    # Of a form: a password that is left with Tab goes to the button that shows it, and Streamlit does not hear of what
    # was typed. Save sends every field as it stands.
    if problem := st.session_state.get(PROBLEM):
        html.warn(problem)
    with st.container(horizontal=True):
        st.form_submit_button(_("Save"), type="primary", key="save", on_click=save)
        st.form_submit_button(_("Cancel"), key="cancel", on_click=edit, args=(None,))
