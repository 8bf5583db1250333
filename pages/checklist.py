"""Does this run go from end to end, and is it ready for more: answered from the log, and by people where it is silent."""

from collections.abc import Iterable
from datetime import UTC, datetime

import streamlit as st

from analysis.checklist import Checklist, Item, State, Tick
from messages import N_
from server import checklist as answers
from server import service
from server.alerts.channels import used
from storage.types import Run
from ui import checklist, html, runbar, scenario, state
from ui.text import _, number, say

TITLE = N_("Checklist")
ICON = ":material/checklist:"
SECTION = N_("Trust the log")
ORDER = 320


def page() -> None:
    """Pick a run; the verdict; conditions, items, dimensions, production; take it along on paper."""
    with runbar.bar():
        run = runbar.run_bar(_(TITLE))
        if run is None:
            return
        chosen = scenario.pick(run)
    ticks = tuple(sorted(answers.ticks_of(service.get(), run.id).items()))
    found = _found(run.id, run.version, ticks, tuple(sorted(used(state.store()))))
    with st.container(key="verdict"):
        html.write(checklist.banner(found))
    _early(run)
    scenario.show(run, chosen)
    _take_along(found, run)
    left, right = st.columns(2, gap="medium")
    with left:
        html.section(_("Runs from end to end: four conditions"))
        _items(run, found.conditions, "c")
        html.section(_("Seven dimensions"))
        _items(run, found.dimensions, "d", [f"dimension_{key}" for key in chosen.parts])
        html.section(_("Ready for production"))
        _items(run, found.production, "p")
    with right:
        html.section(_("Eleven items"), f"{number(found.passed)}/{number(len(found.items))}")
        _items(run, found.items, "i", numbered=True)
    html.section(_("What this holds for"))
    for words in _conditions(run):
        html.quiet(words)


@state.cached
def _found(run_id: str, version: int, ticks: tuple[tuple[str, Tick], ...], told_by: tuple[str, ...]) -> Checklist:
    """Return the answers about this version of a run, what people answered, and by which channels they are told."""
    return answers.run_checklist(service.get(), run_id, ticks=dict(ticks))


def _early(run: Run) -> None:
    """Say what was known after the first 1,000 steps of the launch, where it went on from there."""
    early = state.diagnosis(run.id, run.version).early
    if early is None:
        return
    words = _("After the first 1,000 steps it could be said: {sentence}").format(sentence=say(early.sentence))
    if early.known_step is not None:
        words += " " + _("(known from step {step} on)").format(step=number(early.known_step))
    html.quiet(words)


def _take_along(found: Checklist, run: Run) -> None:
    made = datetime.now(UTC)
    st.download_button(
        _("Checklist to print"),
        lambda: checklist.paper(found, run, made, list(_conditions(run))).encode(),
        f"checklist-{run.id}.html",
        "text/html",
        icon=":material/print:",
        on_click="ignore",
    )


def _items(run: Run, items: Iterable[Item], kind: str, stressed: list[str] | None = None, *, numbered: bool = False) -> None:
    for place, one in enumerate(items, 1):
        with st.container(key=f"item-{kind}-{one.key}"):
            html.write(checklist.item(one, place if numbered else None, stressed=one.key in (stressed or ())))
            if not service.get().settings.read_only:
                _ask(run, one)


def _ask(run: Run, one: Item) -> None:
    """Let a person answer what the log does not, or take an answer back."""
    if one.tick is not None:
        st.button(
            _("Take back"),
            icon=":material/undo:",
            type="tertiary",
            key=f"back-{run.id}-{one.key}",
            on_click=answers.take_back,
            args=(service.get(), run.id, one.key),
        )
    elif one.state is State.UNKNOWN:
        box = st.popover(_("Answer"), icon=":material/edit:", type="tertiary", key=f"ask-{run.id}-{one.key}", on_change="rerun")
        if box.open:
            with box:
                _form(run, one)


def _form(run: Run, one: Item) -> None:
    with st.form(f"form-{run.id}-{one.key}", border=False):
        html.quiet(_(one.how) if one.how else _(one.title))
        words = {State.PASS: _("Pass"), State.FAIL: _("Fail")}
        chosen = st.radio(_("Answer"), list(words), format_func=lambda key: words[key], horizontal=True)
        note = st.text_input(_("Note: what was tried, and what came out"), max_chars=answers.MAX_NOTE)
        if st.form_submit_button(_("Keep the answer"), type="primary"):
            answers.answer(service.get(), run.id, one.key, chosen, note.strip())
            st.rerun()


def _conditions(run: Run) -> Iterable[str]:
    """Yield under which conditions the answers hold."""
    report = state.report(run.id, run.version)
    yield _("This run, as far as it is logged: up to step {step}, rows: {rows}.").format(
        rows=number(run.rows), step=number(run.last_step)
    )
    words = _("Settings of its configuration that are printed: {n}; what is not printed may differ.")
    yield words.format(n=number(len(report.config)))
    yield _(
        "A log is a sample of a training: look at the hardware, the gradients and an evaluation as well before you rely on it. "
        "Passing at this scale says little about a larger one."
    )


page()
