"""The checklist as HTML, on the page and on paper: every answer with its word, its sign and what it rests on."""

from collections.abc import Sequence
from datetime import datetime

from analysis.checklist import Checklist, Item, State
from messages import N_
from storage.types import Run
from ui.html import escape, icon, tag
from ui.quality import stress
from ui.text import _, ago, moment, number, say
from ui.words import as_sentence, joined

WORDS = {State.PASS: N_("Pass"), State.FAIL: N_("Fail"), State.UNKNOWN: N_("Unknown")}
ICONS = {State.PASS: "check_circle", State.FAIL: "cancel", State.UNKNOWN: "help"}
SIGNS = {State.PASS: "✔", State.FAIL: "✖", State.UNKNOWN: "?"}
LOOKS = {State.PASS: "rv-good", State.FAIL: "rv-bad", State.UNKNOWN: "rv-none"}
VERDICTS = {
    State.PASS: N_("The run goes from end to end: all four conditions are shown."),
    State.FAIL: N_("The run does not go from end to end: {failed}."),
    State.UNKNOWN: N_("It is not shown yet that the run goes from end to end: {open}."),
}


def verdict(found: Checklist) -> str:
    """Return the verdict over the four conditions in a sentence."""
    named = [_(item.title) for item in found.conditions if item.state is found.verdict]
    key = {State.FAIL: "failed", State.UNKNOWN: "open"}.get(found.verdict, "")
    return _(VERDICTS[found.verdict]).format(**{key: joined(named)}) if key else _(VERDICTS[found.verdict])


def banner(found: Checklist) -> str:
    """Return the verdict with how many items are passed and how the run ended."""
    badge = tag("span", icon(ICONS[found.verdict]) + escape(_(WORDS[found.verdict])), "rv-badge")
    line = tag("p", badge + tag("span", escape(verdict(found)), "rv-sentence"), "rv-line")
    words = _("{passed} of {all} items are passed.").format(passed=number(found.passed), all=number(len(found.items)))
    quiet = tag("p", escape(f"{words} {say(found.outcome)}"), "rv-quiet")
    return tag("section", line + quiet, f"rv-verdict {LOOKS[found.verdict]} rv-alone", role="status")


def item(one: Item, place: int | None = None, *, stressed: bool = False) -> str:
    """Return an item: its answer in a word, the question, what it rests on, and where it is open, how to find out."""
    word = tag("span", icon(ICONS[one.state]) + escape(_(WORDS[one.state])), "rv-answer")
    title = f"{place}. {_(one.title)}" if place is not None else _(one.title)
    head = tag("p", word + tag("b", escape(title)) + stress(stressed))
    return tag("div", head + "".join(_lines(one)), f"rv-item {LOOKS[one.state]}")


def _lines(one: Item, *, paper: bool = False) -> list[str]:
    found = []
    if one.criterion:
        found.append(tag("p", escape(_("Passed when: {criterion}").format(criterion=_(one.criterion))), "rv-quiet"))
    if one.tick is not None:
        found.append(tag("p", icon("person") + escape(ticked(one, paper=paper)), "rv-quiet"))
    if one.seen:
        found.append(tag("p", escape(as_sentence(joined(say(text) for text in one.seen))), "rv-quiet"))
    if one.how and one.state is State.UNKNOWN:
        found.append(tag("p", escape(_("To find out: {how}").format(how=_(one.how))), "rv-quiet"))
    return found


def ticked(one: Item, *, paper: bool = False) -> str:
    """Return who answered, when (on paper as a date), and the note."""
    if one.tick is None:
        return ""
    who = one.tick.who or _("somebody")
    told = moment if paper else ago
    when = told(datetime.fromisoformat(one.tick.when)) if one.tick.when else ""
    words = _("answered by {who}, {when}").format(who=who, when=when)
    return f"{words}: {one.tick.note}" if one.tick.note else words


PAPER = """
body { font: 15px/1.5 system-ui, "Noto Sans", "Noto Sans CJK SC", "PingFang SC", "Microsoft YaHei", sans-serif; color: #1b2129;
  max-width: 52rem; margin: 2rem auto; padding: 0 1rem; }
h1 { font-size: 1.4rem; margin: 0; } h2 { font-size: 1.05rem; border-bottom: 1px solid #ccd2d9; margin: 1.6rem 0 0.4rem; }
p { margin: 0.1rem 0; } .quiet { color: #566170; font-size: 0.88rem; } li { margin: 0.5rem 0; break-inside: avoid; }
ol, ul { padding-left: 1.4rem; } .box { border: 1px solid #ccd2d9; border-radius: 8px; padding: 0.7rem 1rem; margin: 0.8rem 0; }
.pass { color: #00714f; } .fail { color: #b3300f; } .unknown { color: #566170; } b.word { margin-right: 0.5rem; }
"""


def paper(found: Checklist, run: Run, made: datetime, conditions: Sequence[str]) -> str:
    """Return the whole checklist as a page of HTML that needs nothing else, to print or to send.

    conditions: under which it holds, in sentences.
    """
    title = _("Checklist of {run}").format(run=run.name)
    head = tag("title", escape(title)) + f"<style>{PAPER}</style>"
    parts = [tag("h1", escape(title)), tag("p", escape(_("Made {when}").format(when=moment(made))), "quiet")]
    summary = f"{SIGNS[found.verdict]} {_(WORDS[found.verdict])} — {verdict(found)}"
    parts.append(tag("div", tag("p", escape(summary)) + tag("p", escape(say(found.outcome)), "quiet"), "box"))
    sections = (
        (_("Four conditions"), found.conditions, "ul"),
        (_("Eleven items"), found.items, "ol"),
        (_("Seven dimensions"), found.dimensions, "ul"),
        (_("Ready for production"), found.production, "ul"),
    )
    for name, items, kind in sections:
        parts += [tag("h2", escape(name)), tag(kind, "".join(_on_paper(one) for one in items))]
    parts += [tag("h2", escape(_("What this holds for"))), *(tag("p", escape(words), "quiet") for words in conditions)]
    return f'<!doctype html><html><head><meta charset="utf-8">{head}</head><body>{"".join(parts)}</body></html>'


def _on_paper(one: Item) -> str:
    word = tag("b", escape(f"{SIGNS[one.state]} {_(WORDS[one.state])}"), f"word {one.state}")
    lines = "".join(line.replace('class="rv-quiet"', 'class="quiet"') for line in _lines(one, paper=True))
    return tag("li", word + escape(_(one.title)) + lines)
