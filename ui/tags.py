"""The tags of runs, to be chosen and made."""

from collections.abc import Iterable, Sequence

import streamlit as st

from server import tags as kept
from storage.types import Run
from ui import state
from ui.text import _

MAX_CHARS = 40


def by_run() -> dict[str, list[str]]:
    """Return the tags of each run that has some."""
    return kept.by_run(state.store())


def editor(runs: Sequence[Run], tags: dict[str, list[str]]) -> None:
    """Let a person choose the tags that all of these runs have, or make new ones."""
    known = sorted({tag for each in tags.values() for tag in each})
    shared = set.intersection(*(set(tags.get(run.id, ())) for run in runs))
    key = "tags-" + "-".join(run.id for run in runs[:8])
    st.multiselect(
        _("Tags"),
        known,
        default=sorted(shared),
        accept_new_options=True,
        key=key,
        placeholder=_("Add a tag"),
        on_change=_set,
        args=(key, [run.id for run in runs], shared),
        width=300,
    )


def _set(key: str, runs: Iterable[str], before: set[str]) -> None:
    wanted = {tag.strip()[:MAX_CHARS] for tag in st.session_state[key] if tag.strip()}
    for run in runs:
        for tag in wanted - before:
            state.store().keep(kept.KIND, tag, True, run=run)
        for tag in before - wanted:
            state.store().drop(kept.KIND, tag, run=run)
