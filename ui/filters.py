"""Over the table of runs: the search text, pickers that write terms into it, grouping, and views that are saved."""

from collections.abc import Mapping, Sequence

import streamlit as st

from messages import N_
from server import service
from server.board import Line, distinct
from ui import html, search, state
from ui.listing import Tags
from ui.search import Term
from ui.text import _
from ui.verdict import VERDICTS

SEARCH = "q"
VIEW = "view"  # the kind of a saved view
OF_PROJECT, OF_TAG = "project:", "tag:"  # groups beside the keys of the configuration
SIGNS = {"is": ":", "tag": ":", "project": ":"}
READY_MADE = {N_("Needs attention"): "is:attention", N_("Being checked"): "is:pending"}


def text() -> str:
    """Show the search field and return what it says; it is in the URL."""
    return st.text_input(
        _("Search"),
        key=SEARCH,
        bind="query-params",
        placeholder=_("Search: name, is:sick, tag:…, lr=5e-4, loss<2"),
        label_visibility="collapsed",
        width=320,
    )


def of_runs() -> str:
    """Show the search field of a page that is about other things than runs, and return of which runs it is asked."""
    return st.text_input(
        _("Of runs"),
        key="of",
        bind="query-params",
        placeholder=_("Of runs: name, tag:…, project:…"),
        label_visibility="collapsed",
        width=260,
    )


def pickers(lines: Sequence[Line], tags: Tags) -> None:
    """Offer the filters that these runs have; each choice is a term of the search text."""
    box = st.popover(_("Filter"), icon=":material/filter_alt:", key="filter", on_change="rerun")
    if not box.open:
        return
    with box:
        verdicts = {"attention": _("Needs attention")} | {name: _(look.word) for name, look in VERDICTS.items()}
        _picker("is", _("Verdict"), verdicts)
        _picker("project", _("Project"), _same(sorted({line.project for line in lines} - {""})))
        _picker("tag", _("Tag"), _same(sorted({tag for each in tags.values() for tag in each})))
        keys = distinct(lines)
        if not keys:
            html.quiet(_("No setting that a log prints differs between the runs."))
            return
        key = st.selectbox(_("Setting"), list(keys), key="filter_key", index=None, placeholder=_("Any"))
        if key:
            _picker(key, _("Its value"), _same(sorted(keys[key], key=_by_size)))


def _same(names: Sequence[str]) -> dict[str, str]:
    return {name: name for name in names}


def _by_size(value: str) -> tuple[float, str]:
    found = search.number(value)
    return (float("inf") if found is None or found != found else found, value)


def _picker(key: str, label: str, words: Mapping[str, str]) -> None:
    if not words:
        return
    widget, asked = f"filter-{key}", search.value_of(st.session_state.get(SEARCH, ""), key)
    st.session_state[widget] = asked if asked in words else None
    st.selectbox(
        label,
        list(words),
        format_func=lambda one: words[one],
        key=widget,
        placeholder=_("Any"),
        on_change=_picked,
        args=(key, widget),
    )


def _picked(key: str, widget: str) -> None:
    term = Term(key, SIGNS.get(key, "="), st.session_state[widget] or "")
    st.session_state[SEARCH] = search.with_term(st.session_state.get(SEARCH, ""), term)


def group(lines: Sequence[Line]) -> str:
    """Let a person choose by what runs are taken together; empty: not at all."""
    words = {"": _("Not grouped"), OF_PROJECT: _("By project"), OF_TAG: _("By tag")}
    asked = st.query_params.get("group", "")
    keys = [*distinct(lines), *([asked] if asked and asked not in words else [])]
    words |= {key: _("By {key}").format(key=key) for key in keys}
    return state.pick("group", _("Group"), words, "")


def views() -> None:
    """Offer the views that are saved, and to save this one."""
    box = st.popover(_("Views"), icon=":material/bookmark:", key="views", on_change="rerun")
    if not box.open:
        return
    with box:
        for name, words in READY_MADE.items():
            st.button(_(name), key=f"view-{words}", type="tertiary", on_click=_open, args=({"q": words, "group": ""},))
        for one in state.store().kept(VIEW, run=""):
            with st.container(horizontal=True, vertical_alignment="center"):
                label = html.escape_markdown(one.name)
                st.button(label, key=f"view-own-{one.name}", type="tertiary", on_click=_open, args=(one.data,))
                _forget(one.name)
        if service.get().settings.read_only:
            return
        st.text_input(_("Save this view as"), key="view_name", max_chars=80)
        st.button(_("Save"), key="save_view", on_click=_save)


def _forget(name: str) -> None:
    if not service.get().settings.read_only:
        words = _("Forget the view {name}").format(name=name)
        st.button(
            "",
            icon=":material/close:",
            key=f"forget-{name}",
            type="tertiary",
            help=html.escape_markdown(words),
            on_click=state.store().drop,
            args=(VIEW, name),
        )


def _open(data: Mapping[str, str]) -> None:
    st.session_state[SEARCH] = str(data.get("q", ""))
    st.session_state.pop("group_picker", None)
    state.set_param("group", str(data.get("group", "")) or None)


def _save() -> None:
    """Keep the view under the name that was typed; a button that waits for the name would lose the click that ends it."""
    if not (name := st.session_state["view_name"].strip()):
        st.toast(_("Give the view a name first."), icon=":material/edit:")
        return
    now = {"q": st.session_state.get(SEARCH, ""), "group": st.query_params.get("group", "")}
    state.store().keep(VIEW, name, now)
    st.session_state["view_name"] = ""
