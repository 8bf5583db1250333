"""Every rule in plain words: what it means, what usually causes it, what to do, and at which numbers it speaks."""

import streamlit as st

from analysis.registry import all_rules
from messages import N_
from ui import handbook, html
from ui.text import _, number

TITLE = N_("Handbook")
ICON = ":material/menu_book:"
SECTION = N_("Learn")
ORDER = 620


def page() -> None:
    """Show the rule that the URL names, else all of them by group, those that a search leaves."""
    asked = st.query_params.get("rule", "")
    rule = next((rule for rule in all_rules() if rule.name == asked), None)
    with st.container(horizontal=True, vertical_alignment="center", key="bar"):
        html.title(_(TITLE))
        if rule is not None:
            st.page_link("pages/handbook.py", label=_("All rules"), icon=":material/arrow_back:")
    if rule is not None:
        handbook.page(rule)
    else:
        _all()


def _all() -> None:
    query = st.text_input(
        _("Search"),
        key="q",
        bind="query-params",
        placeholder=_("a word: spike, memory, 学习率 …"),
        icon=":material/search:",
        width=420,
        label_visibility="collapsed",
    )
    groups = handbook.found(query)
    if not groups:
        html.empty(_("No rule has these words: {query}. Try a single word, or clear the search.").format(query=query))
        return
    for group, rules in groups.items():
        html.section(_(handbook.GROUPS[group]), number(len(rules)))
        html.write(handbook.cards(rules))


page()
