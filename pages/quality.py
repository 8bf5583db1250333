"""How much the log can tell: a grade with its reasons, what is impossible without which field, and the line that prints it."""

import streamlit as st

from analysis.log_lines import FRAMEWORKS, HARDWARE, hardware_command, snippet, wanted
from messages import N_
from server.quality import LogQuality
from storage.types import Run
from ui import html, quality, runbar, scenario, state
from ui.text import _, number, say

TITLE = N_("Log quality")
ICON = ":material/fact_check:"
SECTION = N_("Trust the log")
ORDER = 310


def page() -> None:
    """Pick a run; the grade; classes and dimensions; what to print; the form of the lines; what was read; what it weighs."""
    with runbar.bar():
        run = runbar.run_bar(_(TITLE))
        if run is None:
            return
        chosen = scenario.pick(run)
    found = quality.quality_of(run.id, run.version)
    known = found.quality
    with st.container(key="verdict"):
        html.write(quality.banner(known))
    scenario.show(run, chosen)
    if known.grade is not None:
        left, right = st.columns(2, gap="medium")
        with left:
            html.section(_("Four classes of fields"))
            html.write(quality.parts(known.classes, chosen.parts))
            html.section(_("Six things to watch"))
            html.write(quality.aspects(known.aspects, chosen.parts))
        with right:
            html.section(_("Six dimensions"))
            html.write(quality.parts(known.dimensions, chosen.parts))
    _what_to_print(found)
    if known.grade is not None:
        _form(found)
    _read(run, found)


def _what_to_print(found: LogQuality) -> None:
    html.section(_("What to print"), number(len(found.quality.wanted)))
    if not found.quality.wanted:
        html.quiet(_("Nothing is missing that a rule or a finding would need."))
        return
    html.write(quality.wanted(found.quality.wanted))
    words = {key: _(one.title) for key, one in FRAMEWORKS.items()}
    with st.container(horizontal=True, vertical_alignment="center"):
        html.label(_("Your script uses"))
        framework = state.pick("framework", _("Framework"), words, found.framework, width=240)
    printed = {column.name for column in found.report.columns}
    columns = wanted(printed, found.quality.missing)
    paste = snippet(framework, columns)
    html.quiet(say(paste.where))
    st.code(paste.code, language=paste.language, wrap_lines=True)
    if lines := quality.once(found.quality.wanted):
        html.quiet(_("And where the value is known, at the start or after an evaluation:"))
        st.code("\n".join(lines), language="python", wrap_lines=True)
    if command := hardware_command(columns):
        html.quiet(_("Beside it, into a log of its own that is brought in as well: use, memory, heat and power of the cards."))
        st.code(command, language="bash", wrap_lines=True)
    if left := [state.metric_title(name) for name in paste.left if name not in HARDWARE]:
        html.quiet(_("Not printed by this: {columns}.").format(columns=", ".join(left)))


def _form(found: LogQuality) -> None:
    known = found.quality
    html.section(_("The form of the lines"))
    for text in known.breaks:
        html.warn(say(text))
    if not known.breaks:
        html.quiet(_("Lines keep one form from the first record to the last."))
    html.quiet(" ".join(quality.clock(known)))
    column = st.column_config
    shown = {
        "title": column.TextColumn(_("Field"), pinned=True),
        "printed": column.TextColumn(_("As printed")),
        "share": column.ProgressColumn(_("Rows that print it"), format="%.1f%%", min_value=0, max_value=100),
        "rows": column.NumberColumn(_("Rows"), format="localized"),
        "first_line": column.NumberColumn(_("First line"), format="localized"),
        "last_line": column.NumberColumn(_("Last line"), format="localized"),
    }
    frame = quality.coverage(known, found.report)
    alt = _("The fields of the log and how many rows print each")
    st.dataframe(frame, hide_index=True, placeholder="–", column_config=shown, key="coverage", alt=alt)


def _read(run: Run, found: LogQuality) -> None:
    report = found.report
    diagnosis = state.diagnosis(run.id, run.version)
    html.section(_("From line to verdict"))
    drawn = len(state.columns(run.id, run.version))
    blind = len({one.rule for one in diagnosis.not_assessable})
    html.write(html.figures(quality.pipeline(found, drawn, len(diagnosis.findings), blind)))
    html.quiet(quality.counted(report))
    for note in report.notes:
        html.quiet(say(note))
    if report.unparsed:
        column = st.column_config
        shown = {
            "line": column.NumberColumn(_("Line"), format="localized"),
            "text": column.TextColumn(_("Text"), width="large"),
            "reason": column.TextColumn(_("Why it was not read")),
        }
        alt = _("Lines that look like records and could not be read")
        st.dataframe(quality.unparsed(report), hide_index=True, column_config=shown, key="unparsed", alt=alt)
    weight = list(quality.volume(found, run.total_steps))
    if weight:
        html.section(_("What the log weighs"))
        html.write(html.figures(weight))
        st.page_link(
            "pages/cost.py",
            label=_("What logging costs: compare two runs"),
            icon=":material/balance:",
            query_params={"run": run.id, "view": "logging"},
        )


page()
