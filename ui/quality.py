"""What the page Log quality says: the grade, the parts behind it, what can't be told without which field."""

from collections.abc import Iterator, Sequence

import pandas as pd

from analysis.log_fields import Part
from analysis.log_quality import Quality
from analysis.registry import all_rules
from analysis.to_log import Wanted
from messages import N_
from server import service
from server.quality import LogQuality, log_quality
from storage.types import ParseReport
from ui import state
from ui.html import bar, escape, figure, grid, icon, tag
from ui.text import _, ngettext, number, percent, say, size_words
from ui.words import as_sentence, first_up, format_title, joined

LOOKS = {"A": "rv-good", "B": "rv-good", "C": "rv-warn", "D": "rv-bad", "E": "rv-bad"}
SENTENCES = {
    "A": N_("This log tells nearly everything that can be told."),
    "B": N_("This log tells most; a few fields more would answer what it leaves open."),
    "C": N_("This log leaves much open: add the line below to the training script."),
    "D": N_("This log tells little: without the line below most trouble can't be found."),
    "E": N_("This log tells next to nothing: add the line below to the training script."),
}
MOST_WANTED, MOST_RULES = 14, 4
PLACES = {
    "epoch": N_("Epoch"),
    "step": N_("Step"),
    "timestamp": N_("Clock of the line"),
    "rank": N_("Number of the process (rank)"),
    "vocab_size": N_("Size of the vocabulary"),
    "use_moe": N_("Whether the model routes (use_moe)"),
    "total_steps": N_("Steps planned"),
}


@state.cached
def quality_of(run_id: str, version: int) -> LogQuality:
    """Return the quality of the log of this version of a run."""
    return log_quality(service.get(), run_id)


def banner(known: Quality) -> str:
    """Return the grade with what it means, and what it is made of."""
    if known.grade is None or known.score is None:
        words = _("No training step was read, so there is nothing to grade. Below is what was read, and what to print.")
        badge = tag("span", icon("help") + escape(_("Not graded")), "rv-badge")
        return tag("section", tag("p", badge + tag("span", escape(words), "rv-sentence"), "rv-line"), "rv-verdict rv-none")
    grade = _("Grade {grade}").format(grade=known.grade)
    badge = tag("span", icon("grade") + escape(grade), "rv-badge")
    line = tag("p", badge + tag("span", escape(_(SENTENCES[known.grade])), "rv-sentence"), "rv-line")
    note = _("{share} of what the six dimensions ask for. Every score below is a plain share with its reasons.")
    quiet = tag("p", escape(note.format(share=percent(known.score))), "rv-quiet")
    return tag("section", line + quiet, f"rv-verdict {LOOKS[known.grade]} rv-alone", role="status")


def parts(found: Sequence[Part], stressed: Sequence[str] = ()) -> str:
    """Return graded parts as a list: name, score as a bar and in words, what was seen, what can't be told.

    stressed: keys of the parts that matter most here.
    """
    return tag("ul", "".join(_part(part, part.key in stressed) for part in found), "rv-parts")


def stress(wanted: bool) -> str:
    """Return the mark of what matters most in the chosen scenario."""
    return tag("span", icon("center_focus_strong") + escape(_("matters here")), "rv-stress") if wanted else ""


def _part(part: Part, stressed: bool) -> str:
    score = percent(part.score) if part.score is not None else _("unknown")
    head = tag("b", escape(_(part.title))) + stress(stressed) + tag("span", escape(score), "rv-number")
    seen = "".join(tag("li", icon("check") + escape(first_up(say(text))), "rv-has") for text in part.seen)
    lost = "".join(tag("li", icon("close") + escape(first_up(say(text))), "rv-lacks") for text in part.lost)
    return tag("li", tag("p", head) + (bar(part.score) if part.score is not None else "") + tag("ul", seen + lost))


def aspects(found: Sequence[Part], stressed: Sequence[str] = ()) -> str:
    """Return the six things to watch as tiles: there, with the columns, or missing, with what can't be told."""
    return tag("div", "".join(_aspect(part, part.key in stressed) for part in found), "rv-grid")


def _aspect(part: Part, stressed: bool) -> str:
    there = bool(part.score)
    sign = icon("check_circle" if there else "do_not_disturb_on") + escape(_("there") if there else _("missing"))
    words = ", ".join(map(state.metric_title, part.columns)) or joined(
        _("can't be told: {what}").format(what=say(text)) for text in part.lost
    )
    head = tag("b", escape(_(part.title))) + stress(stressed) + tag("span", sign, "rv-mark")
    look = "rv-good" if there else "rv-warn"
    return tag("div", tag("p", head) + tag("p", escape(words), "rv-quiet"), f"rv-tile rv-aspect {look}")


def wanted(found: Sequence[Wanted]) -> str:
    """Return the fields that are missed as a table: each with what it would tell."""
    titles = {rule.name: rule.title for rule in all_rules()}
    heads = (_("Field that is missing"), _("What can't be told without it"))
    head = tag("tr", "".join(tag("th", escape(word), scope="col") for word in heads))
    rows = "".join(_wanted(one, titles) for one in found[:MOST_WANTED])
    return grid(head + rows, "rv-kinds")


def _wanted(one: Wanted, titles: dict[str, str]) -> str:
    rules = [
        tag("a", escape(_(titles[name])), href=f"handbook?rule={name}", target="_self") for name in one.rules if name in titles
    ]
    cells = escape(_("; ")).join(rules[:MOST_RULES])
    if len(rules) > MOST_RULES:
        cells += escape(" " + _("and {n} more").format(n=number(len(rules) - MOST_RULES)))
    if one.causes:
        why = escape(_("it would decide what caused a finding of this run"))
        cells = why + (escape(_("; ")) + cells if cells else "")
    name = field_title(one.column)
    return tag("tr", tag("th", escape(name), scope="row") + tag("td", cells))


def once(found: Sequence[Wanted]) -> list[str]:
    """Return the lines that print what no training step knows: said once, or after each evaluation."""
    return [one.line for one in found if one.line and one.column in ("vocab_size", "use_moe", "eval_loss")]


def field_title(column: str) -> str:
    """Return what a person calls a field of a log, metric or not."""
    return _(PLACES[column]) if column in PLACES else state.metric_title(column)


def coverage(known: Quality, report: ParseReport) -> pd.DataFrame:
    """Return the columns of a log as they are shown: what they are called, as printed, how many rows print them, from where."""
    printed = {column.name: column.printed for column in report.columns}
    found = known.coverage
    return pd.DataFrame(
        {
            "title": [state.metric_title(name) for name in found["column"]],
            "printed": [printed.get(name, name) for name in found["column"]],
            "share": 100 * found["share"].to_numpy(),
            "rows": found["printed"].to_numpy(),
            "first_line": found["first_line"].to_numpy(),
            "last_line": found["last_line"].to_numpy(),
        }
    )


def clock(known: Quality) -> Iterator[str]:
    """Yield in sentences what the clock of the lines is like."""
    stamps = known.stamps
    if stamps is None:
        yield _("No line carries a clock. Hangs are then only seen live, and times are worked out from other fields.")
        return
    yield _("{share} of the rows carry a clock.").format(share=percent(stamps.share, digits=1))
    if stamps.unit_seconds:
        yield _("It is printed to {seconds} s.").format(seconds=number(stamps.unit_seconds))
    if not stamps.dated:
        yield _("It has no date, so runs over midnight are guessed.")
    for note in stamps.notes:
        yield as_sentence(say(note))


def pipeline(found: LogQuality, drawn: int, findings: int, blind: int) -> Iterator[str]:
    """Yield the four stages that a log passes, with what each has: collected, read, drawn, judged."""
    report = found.report
    yield figure(_("1 Collected"), ngettext("{n} line", "{n} lines", report.lines), size_words(report.bytes))
    note = ngettext("{n} evaluation", "{n} evaluations", report.eval_records) if report.eval_records else ""
    yield figure(_("2 Read"), ngettext("{n} record", "{n} records", report.records), note)
    yield figure(_("3 Drawn"), ngettext("{n} column", "{n} columns", drawn))
    rules = len(all_rules())
    yield figure(
        _("4 Judged"),
        ngettext("{n} finding", "{n} findings", findings),
        _("{applied} of {all} rules applied").format(applied=number(rules - blind), all=number(rules)),
    )


def volume(found: LogQuality, total_steps: int | None) -> Iterator[str]:
    """Yield what a log weighs."""
    size = found.facts.size
    if size is None:
        return
    whole = ""
    if total_steps:
        whole = _("{size} for the whole plan").format(size=size_words(round(size.bytes_per_step * total_steps)))
    yield figure(_("Bytes a step"), number(size.bytes_per_step, digits=3), whole)
    yield figure(_("Lines a step"), number(size.lines_per_step, digits=3))
    yield figure(_("Bytes a line"), number(size.bytes_per_line, digits=3))
    yield figure(_("Steps between records"), number(size.steps_per_record, digits=3))
    yield figure(_("Written as"), format_title(found.report) or "–", found.report.encoding)


def counted(report: ParseReport) -> str:
    """Return in a sentence what became of every line."""
    words = _("Training records: {records}, evaluations: {evals}, nothing to measure: {ignored}, not understood: {bad}.")
    return words.format(
        records=number(report.records),
        evals=number(report.eval_records),
        ignored=number(report.ignored),
        bad=number(report.unparsed_count),
    )


def unparsed(report: ParseReport) -> pd.DataFrame:
    """Return the lines that look like records and could not be read, as they stand in the log."""
    rows = [(one.line, one.text[:400], say(one.reason)) for one in report.unparsed]
    return pd.DataFrame(rows, columns=["line", "text", "reason"])
