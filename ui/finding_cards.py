"""A card for findings of one class: what it means, the evidence, causes, advice, limits, the lines of the log, its state."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import streamlit as st

from analysis.diagnose import Diagnosis
from analysis.findings import Finding
from server.board import Brief, finding_key
from storage.types import Run
from ui import finding_states, handbook, html, state, verdict
from ui.finding_states import MUTED, OPEN, Said
from ui.limits import limits
from ui.text import _, number, say

LINES_AROUND = 8


@dataclass(frozen=True)
class Group:
    """Findings of one class, severity and state, in their order; `said`: of the first."""

    findings: tuple[Finding, ...]
    said: Said = Said()

    @property
    def first(self) -> Finding:
        """Return the finding that stands for all."""
        return self.findings[0]

    @property
    def name(self) -> str:
        """Return what tells it from the other groups of its run, fit for the key of a widget."""
        return f"{self.first.kind}-{self.first.severity}-{self.said.state}"


def key_of(finding: Finding) -> str:
    """Return the name of a finding among those of its run."""
    return finding_key(finding.kind, finding.segment, finding.first_step)


def grouped(run: str, findings: Iterable[Finding], said: Mapping[finding_states.Key, Said]) -> list[Group]:
    """Return findings of equal class, severity and state together, in the order of the first; muted ones last."""
    found: dict[tuple[str, str, str], list[Finding]] = {}
    for finding in findings:
        its = said.get((run, key_of(finding)), Said())
        found.setdefault((finding.kind, finding.severity, its.state), []).append(finding)
    groups = [Group(tuple(each), said.get((run, key_of(each[0])), Said())) for each in found.values()]
    return sorted(groups, key=lambda group: group.said.state == MUTED)


def label(findings: Sequence[Finding] | Sequence[Brief], said: Said, about: str = "") -> str:
    """Return the line of a card: severity, title of the first, how many, state, and the run where that is not known."""
    first = findings[0]
    words = f"**{html.escape_markdown(_(verdict.SEVERITIES[first.severity].word))}** · {html.escape_markdown(say(first.title))}"
    if len(findings) > 1:
        words += f" **×{number(len(findings))}**"
    if said.state != OPEN:
        words += f" · *{html.escape_markdown(_(finding_states.WORDS[said.state]))}*"
    return words + (f" — {html.escape_markdown(about)}" if about else "")


def inside(run: Run, version: int, diagnosis: Diagnosis, group: Group, where: str, chosen: str = "") -> Finding:
    """Show what is inside of an open card and return the finding that is shown; `chosen`: the key of the one asked for."""
    finding = _which(group, where, chosen)
    html.quiet(verdict.span(finding))
    html.write(verdict.proof(finding), handbook.links(finding.kind, run.id, key_of(finding)))
    with st.expander(_("How far this reaches"), key=f"limits-{where}", on_change="rerun") as box:
        if box.open:
            html.write(limits(run, state.report(run.id, version), diagnosis, finding))
    lines(run, finding.first_line, finding.last_line)
    finding_states.buttons([(run.id, key_of(one)) for one in group.findings], group.said, where)
    return finding


def _which(group: Group, where: str, chosen: str) -> Finding:
    """Let a person choose one of several."""
    if len(group.findings) == 1:
        return group.first
    by_key = {key_of(one): one for one in group.findings}
    widget = f"which-{where}"
    if chosen in by_key:
        st.session_state[widget] = chosen
    picked = st.selectbox(
        _("Which of {n}").format(n=number(len(by_key))),
        list(by_key),
        format_func=lambda key: f"{verdict.span(by_key[key]) or '–'} · {say(by_key[key].title)}",
        key=widget,
    )
    return by_key[picked]


def lines(run: Run, first: int | None, last: int | None) -> None:
    """Show the lines of the log around a finding."""
    if first is None:
        return
    until = min(last or first, first + LINES_AROUND)
    start = max(1, first - LINES_AROUND)
    found: Sequence[str] = state.store().lines(run.id, start, until + LINES_AROUND)
    html.quiet(_("The log from line {line} on").format(line=number(start)))
    html.write(html.log_lines(found, start, range(first, until + 1)))
