"""Shapes of curves that come up again and again: what each looks like, what is behind it, what to do about it."""

import streamlit as st

from analysis.cases import CASES, FIRST_AID, SYMPTOMS, Case, Symptom
from messages import N_
from ui import cases, html, seen, state
from ui.html import escape, tag
from ui.text import _, number

TITLE = N_("Case library")
ICON = ":material/local_library:"
SECTION = N_("Learn")
ORDER = 610

TABLES = "tables"  # in the URL: the quick tables alone


def page() -> None:
    """Show the case that the URL names, beside a finding if it names one too; else all of them."""
    asked = st.query_params.get("case", "")
    case = next((case for case in CASES if case.key == asked), None)
    with st.container(horizontal=True, vertical_alignment="center", key="bar"):
        html.title(_(TITLE))
        if case is not None or TABLES in st.query_params:
            st.page_link("pages/cases.py", label=_("All cases"), icon=":material/arrow_back:")
    if case is not None:
        _one(case)
    elif TABLES in st.query_params:
        _tables()
    else:
        _all()


def _one(case: Case) -> None:
    html.write(tag("h2", escape(_(case.title)), "rv-head"))
    left, right = st.columns(2, gap="medium")
    with left:
        cases.show(case)
    with right:
        beside = cases.show_finding(state.store(), st.query_params.get("run"), st.query_params.get("finding"), case)
        if not beside:
            html.write(cases.words(case))
    if beside:
        html.write(cases.words(case))
    seen.show(case.rules)


def _all() -> None:
    html.quiet(_("These runs are simulated, and every rule is tested on them. The red shade is where a rule speaks."))
    parts = (
        (_("Five shapes to beware of"), [case for case in CASES if case.warned]),
        (_("Other shapes that mean something"), [case for case in CASES if not case.warned and not case.healthy]),
        (_("Shapes that only look like trouble"), [case for case in CASES if case.healthy]),
    )
    for title, chosen in parts:
        html.section(title, number(len(chosen)))
        for start in range(0, len(chosen), 3):
            for place, case in zip(st.columns(3, gap="medium"), chosen[start : start + 3], strict=False):
                with place:
                    cases.show(case)
                    html.write(cases.card(case))
    _tables()


def _tables() -> None:
    """Show the two quick tables."""
    left, right = st.columns(2, gap="medium")
    with left:
        html.section(_("First aid"))
        html.write(_symptoms(FIRST_AID))
    with right:
        html.section(_("Symptoms and what to try"))
        html.write(_symptoms(SYMPTOMS))


def _symptoms(rows: tuple[Symptom, ...]) -> str:
    heads = (_("What you see"), _("Usual cause"), _("What to try first"))
    head = tag("tr", "".join(tag("th", escape(word), scope="col") for word in heads))
    return html.grid(head + "".join(map(_symptom, rows)), "rv-kinds")


def _symptom(row: Symptom) -> str:
    link = tag("a", escape(_(row.symptom)), href=f"handbook?rule={row.rule}", target="_self")
    cells = tag("td", escape(_(row.causes))) + tag("td", escape(_(row.remedy)))
    return tag("tr", tag("th", link, scope="row") + cells)


page()
