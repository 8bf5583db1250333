"""What was found in all runs: open, acknowledged or muted, with causes, advice and how far each conclusion reaches."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

import streamlit as st

from analysis.findings import Severity
from messages import N_
from server import service
from server.board import Brief, Line
from ui import filters, finding_cards, finding_states, html, search, state, tags, verdict
from ui.finding_states import MUTED, OPEN, SEEN, Said
from ui.text import _, ngettext, number

TITLE = N_("Findings")
ICON = ":material/inbox:"
SECTION = N_("Runs")
ORDER = 130

A_PAGE = 20
ALL = "all"
SEVERITY_ORDER = (Severity.CRITICAL, Severity.WARNING, Severity.INFO)


@dataclass(frozen=True)
class Entry:
    """Findings of one class, severity and state in one run."""

    line: Line
    findings: tuple[Brief, ...]
    said: Said

    @property
    def rank(self) -> tuple[int, float]:
        """Return where it stands: the gravest first, then the newest."""
        updated: datetime = self.line.run.updated
        return SEVERITY_ORDER.index(self.findings[0].severity), -updated.timestamp()


def page() -> None:
    """Filters, kept in the URL; then the findings, twenty a page, each a card that opens."""
    with st.container(horizontal=True, vertical_alignment="center", key="bar"):
        html.title(_(TITLE))
        about = filters.of_runs()
        lines = service.get().board.lines()
        asked_run = st.query_params.get("run")
        known = {line.run.id: line for line in lines}
        if asked_run:
            _only(known.get(asked_run))
        chosen = [line for line in lines if asked_run in (None, line.run.id)]
        entries = _entries(search.found(chosen, about, tags.by_run()))
        shown = _filtered(entries)
    finding_states.undo()
    if not lines:
        html.empty(_("No run yet. What the rules find in your logs is gathered here, the gravest first."))
        st.page_link("pages/upload.py", label=_("Bring in a log"), icon=":material/upload:")
        return
    _waiting(lines)
    if not shown:
        html.empty(
            _("Nothing here. Every finding is acknowledged or muted, or there is none.") if entries else _("Nothing was found.")
        )
        return
    _cards(sorted(shown, key=lambda entry: entry.rank))


def _only(line: Line | None) -> None:
    """Say that only one run is shown, and offer all."""
    name = line.run.name if line else _("a run that is not here")
    st.button(
        _("Only {run}").format(run=html.escape_markdown(name)),
        icon=":material/close:",
        key="all_runs",
        type="tertiary",
        on_click=lambda: st.query_params.pop("run", None),
    )


def _waiting(lines: Sequence[Line]) -> None:
    count = sum(line.verdict is None for line in lines)
    if count and service.get().monitor is not None:
        html.quiet(ngettext("{n} run is being checked.", "{n} runs are being checked.", count))


def _entries(lines: Sequence[Line]) -> list[Entry]:
    said = finding_states.all_said()
    entries = []
    for line in lines:
        found: dict[tuple[str, str, str], list[Brief]] = {}
        for brief in line.findings:
            its = said.get((line.run.id, brief.key), Said())
            found.setdefault((brief.kind, brief.severity, its.state), []).append(brief)
        entries += [Entry(line, tuple(each), said.get((line.run.id, each[0].key), Said())) for each in found.values()]
    return entries


def _filtered(entries: Sequence[Entry]) -> list[Entry]:
    counts = {name: sum(entry.said.state == name for entry in entries) for name in (OPEN, SEEN, MUTED)}
    words = {name: f"{_(finding_states.WORDS[name])} · {number(count)}" for name, count in counts.items()}
    wanted = state.pick("state", _("State"), words | {ALL: _("All states")}, OPEN, width=170)
    severities = {ALL: _("All severities")} | {str(one): _(look.word) for one, look in verdict.SEVERITIES.items()}
    severity = state.pick("severity", _("Severity"), severities, ALL, width=150)
    titles = verdict.titles()
    kinds = sorted({entry.findings[0].kind for entry in entries}, key=lambda kind: _(titles.get(kind, kind)))
    classes = {ALL: _("All classes")} | {kind: _(titles.get(kind, kind)) for kind in kinds}
    kind = state.pick("class", _("Class"), classes, ALL, width=210)
    return [
        entry
        for entry in entries
        if wanted in (ALL, entry.said.state)
        and severity in (ALL, entry.findings[0].severity)
        and kind in (ALL, entry.findings[0].kind)
    ]


def _cards(entries: Sequence[Entry]) -> None:
    pages = -(-len(entries) // A_PAGE)
    at = min(int(st.session_state.get("at", 1)), pages)
    if pages > 1:
        at = st.pagination(pages, key="at", bind="query-params")
    for place, entry in enumerate(entries[(at - 1) * A_PAGE : at * A_PAGE]):
        _card(entry, place)


def _card(entry: Entry, place: int) -> None:
    first, run = entry.findings[0], entry.line.run
    look = verdict.SEVERITIES[first.severity]
    where = f"inbox-{run.id}-{first.kind}-{first.severity}-{entry.said.state}"
    with st.container(key=f"finding-{look.css}-{place}"):
        words = finding_cards.label(entry.findings, entry.said, run.name)
        card = st.expander(words, icon=f":material/{look.icon}:", key=where, on_change="rerun")
        if card.open:
            with card:
                _inside(entry, where)


def _inside(entry: Entry, where: str) -> None:
    """Show the findings as they are in the diagnosis that is kept; it may be newer than the board."""
    run = state.known(entry.line.run.id)
    if run is None:
        html.quiet(_("This run was deleted."))
        return
    version = state.store().version(run.id)
    diagnosis = state.diagnosis(run.id, version)
    wanted = {brief.key for brief in entry.findings}
    findings = tuple(one for one in diagnosis.findings if finding_cards.key_of(one) in wanted)
    if not findings:
        html.quiet(_("This was found in older rows; the newest diagnosis has it no more."))
        return
    shown = finding_cards.inside(run, version, diagnosis, finding_cards.Group(findings, entry.said), where)
    st.page_link(
        "pages/health.py",
        label=_("Run health of {run}").format(run=html.escape_markdown(run.name)),
        icon=":material/monitor_heart:",
        query_params={"run": run.id, "finding": finding_cards.key_of(shown)},
    )


page()
