"""The scenario of a run on a page: told from the log, changed by a person, kept in the URL; it sets what is emphasised."""

from collections.abc import Sequence

import streamlit as st

from analysis.scenarios import GROUPS, SCENARIOS, Scenario, detect
from messages import Text
from storage.types import Run
from ui import html, state
from ui.html import escape, icon, tag
from ui.text import _, say

LOSSES = ("logits_loss", "loss")
PARAM, KEY = "scenario", "scenario_picker"
PLAIN = ("rl", "preference")  # where the usual curves say little


def detected(run: Run) -> tuple[str, Text]:
    """Return the kind of training that the log of a run shows, and why."""
    return _detected(run.id, tuple(column.name for column in state.columns(run.id, run.version)))


@state.cached
def _detected(run_id: str, columns: tuple[str, ...]) -> tuple[str, Text]:
    """What is trained does not change while a run grows; it is told anew when the run has other columns."""
    main = next((name for name in LOSSES if name in columns), None)
    return detect(columns, state.store().report(run_id).config, _first_loss(run_id, main) if main else None)


def _first_loss(run_id: str, column: str) -> float | None:
    found = state.store().buckets(run_id, [column], width=1)["first"].dropna()
    return float(found.iloc[0]) if len(found) else None


def chosen(run: Run) -> Scenario:
    """Return the scenario that the URL names, else the one that the log shows."""
    asked = st.query_params.get(PARAM, "")
    return SCENARIOS.get(asked) or SCENARIOS[detected(run)[0]]


def pick(run: Run) -> Scenario:
    """Show which scenario a run is looked at in and return it."""
    found = chosen(run)
    words = {key: f"{_(GROUPS[one.group])}: {_(one.title)}" for key, one in SCENARIOS.items()}
    st.session_state[KEY] = found.key
    st.selectbox(
        _("Scenario"),
        list(words),
        format_func=lambda key: words[key],
        key=KEY,
        label_visibility="collapsed",
        on_change=_chosen,
        args=(detected(run)[0],),
        width=280,
    )
    return found


def _chosen(usual: str) -> None:
    """Write the choice into the URL before the page is drawn; what the log shows anyway is left out."""
    picked = st.session_state[KEY]
    state.set_param(PARAM, picked if picked != usual else None)


def stressed(run: Run, chosen: Scenario, drawn: Sequence[str]) -> tuple[str, ...]:
    """Return the columns that are drawn in addition to the usual ones: what a person's choice asks for, or where those say
    little."""
    if chosen.key == detected(run)[0] and chosen.key not in PLAIN:
        return ()
    names = {column.name for column in state.columns(run.id, run.version)}
    return tuple(name for name in chosen.columns if name in names and name not in drawn)


def show(run: Run, chosen: Scenario) -> None:
    """Say in a line what matters most, and why the run is taken for what it is."""
    usual, why = detected(run)
    because = f" ({say(why)})" if chosen.key == usual else ""
    words = tag("b", escape(_(chosen.title) + because + ": ")) + escape(_(chosen.focus))
    html.write(tag("p", icon("center_focus_strong") + words, "rv-focus"))
