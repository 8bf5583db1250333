"""What a log cannot tell: the fields that would help most first, everything else behind a click."""

import streamlit as st

from analysis.diagnose import Diagnosis
from messages import N_
from ui import html, state, verdict
from ui.text import _, ngettext, number

SHOWN = 3
PLACES = {"timestamp": N_("Time of each line"), "rank": N_("Rank"), "use_moe": N_("Mixture of experts"), "epoch": N_("Epoch")}


def section(diagnosis: Diagnosis) -> None:
    """Show the three fields that are missed most, with the line of code that prints each; then, on demand, every rule."""
    html.section(_("What this log cannot tell"), number(len(diagnosis.not_assessable)))
    if not diagnosis.not_assessable:
        html.quiet(_("Every rule could be applied."))
        return
    titles = verdict.titles()
    wanted = diagnosis.to_log()
    for field in wanted[:SHOWN]:
        rules = [_(titles[name]) for name in field.rules if name in titles]
        words = ngettext("{n} rule needs it", "{n} rules need it", len(rules)) if rules else _("it would decide about a cause")
        title = _(PLACES[field.column]) if field.column in PLACES else state.metric_title(field.column)
        name = html.tag("b", html.escape(title))
        about = html.tag("span", html.escape(f" — {_('not in the log')}; {words}"), title=" · ".join(rules))
        html.write(html.tag("p", name + about, "rv-quiet"))
        if field.line:
            html.write(html.tag("pre", html.tag("code", html.escape(field.line)), "rv-line", tabindex="0"))
    rest = st.expander(
        ngettext("{n} rule could not be applied", "All {n} rules that could not be applied", len(diagnosis.not_assessable)),
        key="blind",
        on_change="rerun",
    )
    if rest.open:
        with rest:
            html.write(verdict.unknown(diagnosis))
