"""Who is told when a live run goes wrong, by which channel, and what was told so far; it works while no page is open."""

from dataclasses import replace

import streamlit as st

from messages import N_
from server import service
from server.alerts import channels as ways
from server.alerts import rules
from server.alerts.channels import FORMS, Channel
from server.alerts.rules import AlertRule
from ui import alert_forms, alerts, html, state
from ui.text import _, number, say

TITLE = N_("Alerts")
ICON = ":material/notifications_active:"
SECTION = N_("Team")
ORDER = 510

LOOK_SECONDS, TRIAL_SECONDS = 5, 1
DELETED = "alert_deleted"  # in the session: the rule or channel that was deleted last


def page() -> None:
    """The form when one is open; what was alerted beside the channels and the rules."""
    read_only = service.get().settings.read_only
    with st.container(horizontal=True, vertical_alignment="center", key="bar"):
        html.title(_(TITLE))
        if not read_only:
            with st.container(horizontal=True, width="content"):
                st.button(_("Add a channel"), icon=":material/add_alert:", on_click=_new_channel)
                st.button(_("Add a rule"), icon=":material/rule:", on_click=_new_rule)
    if read_only:
        html.quiet(_("The store is open for reading only: nobody is told, and nothing can be set here."))
    else:
        html.quiet(alerts.standing())
    if warning := alerts.link_warning():
        html.warn(warning)
    _undo()
    alert_forms.show()
    left, right = st.columns([3, 2], gap="large")
    with left:
        html.section(_("What was alerted"))
        st.fragment(_history, run_every=LOOK_SECONDS, key="history")()
    with right:
        _channels(read_only)
        _rules(read_only)
    _when()


def _new_channel() -> None:
    alert_forms.edit(ways.new_channel())


def _new_rule() -> None:
    alert_forms.edit(rules.new_rule())


def _history() -> None:
    cards = alerts.history(alerts.SHOWN + 1)
    if not cards:
        html.empty(
            _("Nothing so far. When a live run goes wrong it stands here within a minute, whether or not a channel is set.")
        )
        return
    html.write(html.tag("div", "".join(cards[: alerts.SHOWN]), "rv-cards"))
    if len(cards) > alerts.SHOWN:
        html.quiet(_("These are the {n} newest.").format(n=number(alerts.SHOWN)))


def _channels(read_only: bool) -> None:
    found = ways.channels(state.store())
    html.section(_("Channels"), number(len(found)) if found else "")
    if not found:
        html.quiet(_("None yet: mail, Slack, Feishu, DingTalk, WeCom, a webhook, or any of a hundred others."))
    for channel in found:
        with st.container(border=True, key=f"channel-{channel.id}"):
            _name(FORMS[channel.kind].icon, channel.name)
            html.quiet(alerts.about_channel(channel))
            if not read_only:
                _channel_buttons(channel)
                trying = _trying(channel)
                every = TRIAL_SECONDS if trying else None
                st.fragment(_trial, run_every=every, key=f"trial-{channel.id}")(channel, trying)


def _name(sign: str, name: str) -> None:
    html.write(html.tag("p", html.icon(sign) + " " + html.tag("b", html.escape(name)), "rv-alert"))


def _channel_buttons(channel: Channel) -> None:
    with st.container(horizontal=True, key=f"buttons-{channel.id}"):
        key = channel.id
        st.button(_("Send a test"), icon=":material/send:", key=f"test-{key}", on_click=_try, args=(channel,))
        st.button(_("Edit"), type="tertiary", key=f"edit-{key}", on_click=alert_forms.edit, args=(channel,))
        st.button(_("Delete"), type="tertiary", key=f"delete-{key}", on_click=_delete, args=(channel,))


def _try(channel: Channel) -> None:
    service.get().alerts.try_out(channel)


def _trying(channel: Channel) -> bool:
    trial = service.get().alerts.trials.get(channel.id)
    return trial is not None and not trial.done


def _trial(channel: Channel, trying: bool) -> None:
    """Say what became of a test message; `trying`: it was on its way when the page was drawn, which stops looking now."""
    trial = service.get().alerts.trials.get(channel.id)
    if trial is None:
        return
    if trying and trial.done:
        st.rerun()
    if not trial.done:
        html.quiet(_("A test is on its way …"))
    elif trial.refused is None:
        html.write(html.tag("p", html.icon("check_circle") + html.escape(_("The test was accepted.")), "rv-done"))
    else:
        html.warn(say(trial.refused))


def _rules(read_only: bool) -> None:
    found = rules.rules(state.store())
    html.section(_("Rules"), number(len(found)))
    names = {channel.id: channel.name for channel in ways.channels(state.store())}
    for rule in found:
        with st.container(border=True, key=f"rule-{rule.id}"):
            with st.container(horizontal=True, vertical_alignment="center", key=f"head-{rule.id}"):
                _switch(rule, read_only)
                if not read_only:
                    _rule_buttons(rule)
            html.quiet(alerts.about(rule, names))


def _switch(rule: AlertRule, read_only: bool) -> None:
    key = f"on-{rule.id}"
    st.session_state[key] = rule.on  # somebody else may have switched it
    label = html.escape_markdown(alerts.rule_name(rule.name))
    st.toggle(f"**{label}**", key=key, on_change=_switched, args=(rule,), disabled=read_only)


def _switched(rule: AlertRule) -> None:
    rules.save(state.store(), replace(rule, on=st.session_state[f"on-{rule.id}"]))


def _rule_buttons(rule: AlertRule) -> None:
    with st.container(horizontal=True, horizontal_alignment="right", width="content"):
        st.button(_("Edit"), type="tertiary", key=f"edit-{rule.id}", on_click=alert_forms.edit, args=(rule,))
        st.button(_("Delete"), type="tertiary", key=f"delete-{rule.id}", on_click=_delete, args=(rule,))


def _delete(what: Channel | AlertRule) -> None:
    if isinstance(what, Channel):
        ways.delete(state.store(), what)
    else:
        rules.delete(state.store(), what)
    st.session_state[DELETED] = what
    alert_forms.edit(None)


def _take_back() -> None:
    what = st.session_state.pop(DELETED)
    if isinstance(what, Channel):
        ways.save(state.store(), what)
    else:
        rules.save(state.store(), what)


def _undo() -> None:
    what = st.session_state.get(DELETED)
    if what is None:
        return
    with st.container(horizontal=True, vertical_alignment="center", key="undo"):
        words = _("{name} was deleted.").format(name=alerts.rule_name(what.name))
        html.write(html.tag("p", html.escape(words), "rv-line"))
        st.button(_("Undo"), icon=":material/undo:", on_click=_take_back)


def _when() -> None:
    with st.expander(_("When an alert is raised, and when not"), icon=":material/help:"):
        html.quiet(
            _(
                "Only for live runs: those seen to grow since the server started, or whose log was written to after it was "
                "first read and within the last hour, or whose last line is of the last hour by its own clock. Uploads and "
                "old logs are history, and so is what was over when a log was read first."
            )
        )
        html.quiet(_("Muted findings raise none, nor do simulated runs. No page need be open: the server looks by itself."))
        html.quiet(
            _(
                "What counts as a spike, a stall or slow is set with the thresholds on Run health; they scale with the run. "
                "Runvitals never touches a run: the alert says what to do, and a webhook may do it."
            )
        )
        html.quiet(
            _(
                "A message that is not accepted is tried again with growing pauses for a day, also after a crash. It may come "
                "twice then, with the same id, but it is not lost."
            )
        )


page()
