"""The bar of a page about one run: its title, the run, the launch."""

import streamlit as st

from storage.types import Run
from ui import html, state
from ui.text import _


def run_bar(title: str) -> Run | None:
    """Show the title and the run picker, to be called in a container `bar`; None after saying why there is no run."""
    html.title(title)
    return state.pick_run()


def pick_launch(run: Run) -> int | None:
    """Show which launch is meant where a run has several and return its number, None for all of them."""
    if run.segments < 2:
        return None
    words = {"0": _("All launches")} | {
        str(n): _("Launch {n} of {all}").format(n=n, all=run.segments) for n in range(1, run.segments + 1)
    }
    chosen = int(state.pick("segment", _("Launch"), words, str(state.usual_launch(run.id, run.version)), width=150))
    return chosen - 1 if chosen else None


def bar() -> st.delta_generator.DeltaGenerator:
    """Return the container of the bar."""
    return st.container(horizontal=True, vertical_alignment="center", key="bar")
