"""For the screen on the wall: the runs that need attention, one after the other, readable from afar."""

import time
from collections.abc import Sequence

import streamlit as st

from messages import N_
from server import service
from server.board import Line
from storage.types import Run
from ui import figures, filters, html, judging, listing, marks, panels, search, state, tags, verdict
from ui.search import ATTENTION
from ui.text import _, ngettext, say

TITLE = N_("Wall")
ICON = ":material/tv:"
SECTION = N_("Runs")
ORDER = 190

SECONDS = (5, 10, 20, 60)
MOST = 12  # runs in the round, the worst


def page() -> None:
    """The round and its pace; everything else is drawn anew at each turn."""
    with st.container(horizontal=True, vertical_alignment="center", key="bar"):
        html.title(_(TITLE))
        about = filters.of_runs()
        words = {str(n): _("Every {n} s").format(n=n) for n in SECONDS}
        every = int(state.pick("every", _("Pace"), words, "10"))
        st.page_link("pages/overview.py", label=_("Leave the wall"), icon=":material/close:")
    st.fragment(turn, run_every=every, key="wall_turn")(about, every)


def turn(about: str, every: int) -> None:
    """Show the run whose turn it is. The clock says which: all screens show the same, and a reload changes nothing."""
    lines = search.found(service.get().board.lines(), about, tags.by_run())
    round_ = _round(lines)
    with st.container(key="wall"):
        html.write(_counts(lines))
        if not round_:
            html.empty(_("No run here yet.") if not lines else _("Every run is well."))
            return
        place = int(time.time() // every) % len(round_)
        _show(round_[place])
        html.write(_others(round_, place))


def _round(lines: Sequence[Line]) -> list[Line]:
    """Return the runs that take turns: those that need attention; where none does, those that changed last."""
    worst = [line for line in listing.ranked(lines) if line.verdict in ATTENTION]
    return (worst or list(lines))[:MOST]


def _counts(lines: Sequence[Line]) -> str:
    """Return how many runs there are of each verdict."""
    parts = []
    for name, look in verdict.VERDICTS.items():
        count = sum(line.verdict == name for line in lines)
        if count:
            badge = html.tag("span", html.escape(f"{look.sign} {count} {_(look.word)}"), "rv-badge")
            parts.append(html.tag("span", badge, look.css))
    whole = ngettext("{n} run", "{n} runs", len(lines))
    return html.tag("p", "".join(parts) + html.tag("span", html.escape(whole), "rv-quiet"), "rv-line rv-counts")


def _show(line: Line) -> None:
    run = state.known(line.run.id)
    if run is None:  # deleted since the board was read
        return
    version = state.store().version(run.id)
    judged = judging.judged(run, version)
    html.write(html.tag("p", html.escape(run.name), "rv-head"))
    if judged is None:
        html.write(verdict.banner(verdict.pending(run.rows)))
        return
    with st.container(key="verdict"):
        html.write(verdict.banner(judged.diagnosis))
    chosen = panels.metrics_of(state.columns(run.id, version))
    panel = next(iter(chosen), None)
    metrics = chosen[panel] if panel else ()
    loss = figures.Loss(metrics[0], state.of_evaluations(run.id, version, metrics[0])) if panel == "loss" else None
    printed = state.last_printed(run.id, version, run.last_step)
    html.write(figures.strip(run, state.trained(run.id, version), loss=loss, glance=judged.glance, printed=printed))
    if panel:
        _chart(run, version, judged, panel, metrics)


def _chart(run: Run, version: int, judged: judging.Judged, panel: str, metrics: tuple[str, ...]) -> None:
    course = next(iter(state.courses(run.id, version).values()))
    buckets = state.drawn(run.id, version, metrics, course, None, None, panels.BUCKETS)
    chosen = panels.with_evaluations({panel: metrics}, buckets)
    frames = panels.frames_of(buckets, chosen, smoothing=0.6, log=False, cut=True)
    signs = marks.frame(run, version, judged.diagnosis, None, buckets, course)
    spec = panels.spec(chosen, frames, signs, log=False, domain=None, axis=course.axis())
    title = ", ".join(state.metric_title(name) for name in metrics)
    alt = _("Curves of {metrics} over the steps of the run {run}. {sentence}").format(
        metrics=title, run=run.name, sentence=say(judged.diagnosis.sentence)
    )
    with st.container(key="panels-wall"):
        st.vega_lite_chart(spec=spec, key="wall_chart", alt=alt, width="stretch")


def _others(round_: Sequence[Line], place: int) -> str:
    """Return the round as a row of names, the one that is shown set off."""
    items = []
    for number, line in enumerate(round_):
        look = listing.look_of(line.verdict)
        name = html.tag("span", html.escape(look.sign), "rv-badge") + html.escape(line.run.name)
        css = f"{look.css} rv-here" if number == place else look.css
        items.append(html.tag("a", name, css, href=f"health?run={line.run.id}", target="_self"))
    return html.tag("nav", "".join(items), "rv-round", title=_("The runs of this round"))


page()
