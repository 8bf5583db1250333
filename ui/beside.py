"""How runs stand beside the pinned baseline, in words and as a thin grey curve: what Overview and Run health show of it."""

from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

import numpy as np
import pandas as pd
import streamlit as st

from analysis.compare.baseline import Baseline, Beside
from analysis.compare.pairs import ALIKE, BETTER, REFUSED, REPEATS, UNEXPLAINED, WORSE
from messages import N_
from server import service
from storage.types import Run
from ui import html, series, state
from ui.text import _, number, say
from ui.words import as_sentence

GHOST = "baseline"  # the dataset of the curve
SHORT = {  # sign and word, with the difference where there is one
    BETTER: N_("▼ better, {loss} %"),
    WORSE: N_("▲ worse, {loss} %"),
    ALIKE: N_("≈ not distinguishable"),
    REPEATS: N_("? {loss} %, cause unknown"),
    UNEXPLAINED: N_("? {loss} %, cause unknown"),
    REFUSED: N_("⊘ not comparable"),
}
BROKE = {BETTER: N_("▼ better: the baseline broke down"), WORSE: N_("▲ worse: it broke down")}
LOOKS = {BETTER: "trending_down", WORSE: "trending_up", ALIKE: "drag_handle", REPEATS: "content_copy", REFUSED: "block"}
LOOKS |= {UNEXPLAINED: "help"}


def pinned() -> Baseline | None:
    """Return the baseline that the URL names, else the newest one, None where there is none."""
    return service.get().standings.baseline(st.query_params.get("baseline"))


def pick() -> Baseline | None:
    """Show which baseline is meant, where there are several, and return it; the choice is in the URL."""
    base, names = pinned(), service.get().standings.names()
    if base is None or len(names) < 2:
        return base
    words = {name: _("Baseline: {name}").format(name=name) for name in names}
    chosen = state.pick("baseline", _("Baseline"), words, names[0], width=200)
    return service.get().standings.baseline(chosen)


def short(found: Beside | None) -> str | None:
    """Return the standing of a run in two words, None where there is none to tell."""
    if found is None or found.kind not in SHORT:
        return None
    if found.loss is None and found.kind in BROKE:
        return _(BROKE[found.kind])
    share = 100 * (found.loss or 0.0)
    return _(SHORT[found.kind]).format(loss=number(abs(share), digits=2) if share >= 0 else f"−{number(-share, digits=2)}")


def of_run(run: Run, base: Baseline | None) -> Beside | None:
    """Return how one run stands beside a baseline, None without one, or for a run of it."""
    return service.get().standings.beside([run], base).get(run.id) if base is not None else None


def line(run: Run, base: Baseline, found: Beside) -> None:
    """Show the standing of a run as one quiet line that leads to the comparison."""
    if found.kind not in LOOKS:
        return
    ids = ",".join([*base.runs, run.id])
    where = f"compare?runs={quote(ids)}&baseline={quote(base.name)}"
    words = html.tag("a", html.escape(as_sentence(say(found.text))), href=where, target="_self", style="color: inherit")
    drawn = "" if found.kind == REFUSED else " " + html.escape(_("The dashed grey line is its loss."))
    html.write(html.tag("p", html.icon(LOOKS[found.kind]) + " " + words + drawn, "rv-quiet"))


def overlay(
    spec: dict[str, Any], found: Beside, panel: int, base: Baseline, reach: tuple[float, float] | None, *, log: bool
) -> dict[str, Any]:
    """Return a stack of panels with the curve of the baseline, as far as the run reaches, thin and grey in one of them.

    panel: counted from the last one (1). Only of a run that compares with the baseline.
    """
    if reach is None or found.kind not in (BETTER, WORSE, ALIKE, REPEATS, UNEXPLAINED):
        return spec
    step, loss = np.asarray(base.steps), np.asarray(base.losses)
    inside = (step >= reach[0]) & (step <= reach[1]) & ((loss > 0) | (not log))
    if inside.sum() < 2:
        return spec
    views = list(spec["vconcat"])
    place = len(views) - panel
    layer = {
        "data": {"name": GHOST},
        "mark": {"type": "line", "clip": True, "strokeWidth": 1.2, "opacity": 0.75, "strokeDash": [4, 3]},
        "encoding": {
            "x": {"field": "x", "type": "quantitative"},
            "y": {"field": "loss", "type": "quantitative", "title": None},
            "color": {"value": "gray"},
        },
    }
    views[place] = views[place] | {"layer": [*views[place]["layer"], layer]}
    frame = series.compact(pd.DataFrame({"x": step[inside], "loss": loss[inside]}))
    return spec | {"vconcat": views, "datasets": spec["datasets"] | {GHOST: frame}}


def standings(runs: list[Run], base: Baseline | None) -> Mapping[str, str | None]:
    """Return the standing of each run in two words, by id; "…" of those that are being looked at."""
    if base is None:
        return {}
    known = service.get().standings.beside(runs, base)
    own = set(base.runs)
    return {run.id: _("the baseline") if run.id in own else short(known[run.id]) if run.id in known else "…" for run in runs}
