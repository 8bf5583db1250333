"""Beginner mode: one sentence under each chart, which says what it shows and what is normal."""

import streamlit as st

from messages import N_
from ui import html, state
from ui.text import _

KEY = "explain"
SENTENCES = {
    "loss": N_(
        "Loss: how wrong the model still is. It should fall fast at first, then ever more slowly; small wiggles are noise."
    ),
    "aux": N_("Routing loss: how unevenly the experts of a mixture are used. It should be small and stay level."),
    "rate": N_("Learning rate: how far each step moves the weights. It is planned: up in the warm-up, then down."),
    "gradient": N_(
        "Gradient norm: how hard the data pulls at the weights. It may wander, but a sudden peak often comes before a jump of "
        "the loss."
    ),
    "time": N_("Time: how long a step takes. It should be level; a step up means that something slows the run down."),
    "throughput": N_("Throughput: how much is learned from in a second. It should be level; a fall means a slower run."),
    "hardware": N_("Hardware: what the card is doing. Full use is good; memory near its limit is not."),
    "rl": N_("Reward learning: the reward should rise, while the distance to the first model (KL) grows only slowly."),
    "eval_loss": N_(
        "Evaluation: the loss on data that is not trained on. If it rises while the loss falls, the model memorises."
    ),
    "epochs": N_(
        "Each line is one pass over the data. A later one should lie below an earlier one; if it does not, little is learned."
    ),
    "ledger": N_("Each piece of the bar is time: green moved the run on, every other colour was lost."),
    "course": N_("A level line is good: steps take as long as ever. Peaks are pauses, a step up is a slower machine."),
    "forecast": N_("The line is the loss so far; the bar at its end is where it will probably be when the run is done."),
}


def switch() -> None:
    """Show the switch; the URL keeps it."""
    wanted = st.query_params.get(KEY) == "1"
    st.session_state.setdefault(KEY, wanted)
    on = st.toggle(_("Explain the charts"), key=KEY, help=_("One sentence under each chart: what it shows and what is normal."))
    state.set_param(KEY, "1" if on else None)


def is_on() -> bool:
    """Say whether charts are explained in this session."""
    return bool(st.session_state.get(KEY, st.query_params.get(KEY) == "1"))


def explain(chart: str) -> None:
    """Say in a sentence what a chart shows, if that is wanted; nothing for a chart that has no sentence."""
    if is_on() and chart in SENTENCES:
        html.write(html.tag("p", html.icon("school") + html.escape(_(SENTENCES[chart])), "rv-explained"))
