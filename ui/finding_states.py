"""What people have said of findings: seen (acknowledged), or not wanted here (muted, with a reason). Open: nothing said."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import streamlit as st

from messages import N_
from server import service
from server.finding_states import KIND, MUTED, OPEN, SEEN
from storage.keeping.kept import Kept
from ui import html, state
from ui.text import _, ago, ngettext

WORDS = {OPEN: N_("Open"), SEEN: N_("Acknowledged"), MUTED: N_("Muted")}
ICONS = {OPEN: "inbox", SEEN: "done", MUTED: "notifications_off"}
DONE = "states_before"  # in the session: what an action replaced
MAX_REASON = 300


@dataclass(frozen=True)
class Said:
    """What is said of a finding: state, why, by whom and when in words."""

    state: str = OPEN
    reason: str = ""
    note: str = ""


Key = tuple[str, str]  # run, finding


def all_said(run: str | None = None) -> dict[Key, Said]:
    """Return what is said, of the findings of one run or of all, by run and key of the finding."""
    return {(one.run, one.name): _said(one) for one in state.store().kept(KIND, run)}


def _said(one: Kept) -> Said:
    found = str(one.data.get("state", OPEN)) if isinstance(one.data, dict) else OPEN
    reason = str(one.data.get("reason", "")) if isinstance(one.data, dict) else ""
    note = " · ".join(part for part in (_(WORDS.get(found, found)), one.who, ago(one.made), reason) if part)
    return Said(found if found in WORDS else OPEN, reason, note)


def buttons(keys: list[Key], said: Said, where: str) -> None:
    """Offer to acknowledge, mute with a reason, or open these findings again."""
    if service.get().settings.read_only:
        return
    with st.container(horizontal=True, vertical_alignment="center", key=f"states-{where}"):
        if said.state == OPEN:
            st.button(_("Acknowledge"), icon=":material/done:", key=f"seen-{where}", on_click=_set, args=(keys, SEEN, ""))
            _mute(keys, where)
        else:
            st.button(_("Open again"), icon=":material/undo:", key=f"open-{where}", on_click=_set, args=(keys, OPEN, ""))
            html.quiet(said.note)


def _mute(keys: list[Key], where: str) -> None:
    box = st.popover(_("Mute"), icon=":material/notifications_off:", key=f"mute-{where}", on_change="rerun")
    if not box.open:
        return
    with box:
        field = f"reason-{where}"
        st.text_input(_("Why is it no problem here?"), key=field, max_chars=MAX_REASON)
        st.button(_("Mute"), key=f"do-mute-{where}", on_click=_muted, args=(keys, field))


def _muted(keys: list[Key], field: str) -> None:
    """Mute for the reason that was typed; a button that waits for the reason would lose the click that ends it."""
    if reason := st.session_state[field].strip():
        _set(keys, MUTED, reason)
    else:
        st.toast(_("Say first why it is no problem here."), icon=":material/edit:")


def _set(keys: Iterable[Key], wanted: str, reason: str) -> None:
    before = all_said()
    st.session_state[DONE] = {key: before.get(key, Said()) for key in keys}
    for key in keys:
        _keep(key, Said(wanted, reason))


def _keep(key: Key, said: Said) -> None:
    run, name = key
    if said.state == OPEN:
        state.store().drop(KIND, name, run=run)
    else:
        state.store().keep(KIND, name, {"state": said.state, "reason": said.reason}, run=run)


def undo() -> None:
    """Offer to take the last action back."""
    before: Mapping[Key, Said] = st.session_state.get(DONE, {})
    if not before:
        return
    with st.container(horizontal=True, vertical_alignment="center", key="undo"):
        html.quiet(ngettext("{n} finding was changed.", "{n} findings were changed.", len(before)))
        st.button(_("Undo"), icon=":material/undo:", key="undo_states", on_click=_undo)


def _undo() -> None:
    for key, said in st.session_state.pop(DONE, {}).items():
        _keep(key, said)
