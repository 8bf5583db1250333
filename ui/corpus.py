"""The data check in words, figures and tables."""

import csv
import io
from collections import Counter
from collections.abc import Iterable, Iterator

import pandas as pd

from messages import N_
from storage.reading.corpus import CorpusReport, Problem
from ui import histogram, html
from ui.text import _, ngettext, number, percent, size_words

SHOWN = 300  # problem lines in the table; all that are kept are in the CSV
MARK_ROW_PX = 14
# What a problem is called, what it means for the training, and whether it is bad (else it wants a look).
KINDS = {
    "broken": (N_("Not JSON"), N_("The loader stops here or drops the line: correct it or take it out."), True),
    "not_object": (N_("No object"), N_("The line is JSON but not an object such as {example}: no sample can be read."), True),
    "missing": (N_("Field missing"), N_("The sample has no field “{field}”: it trains on nothing, or the loader fails."), True),
    "not_text": (N_("Not a text"), N_("The field “{field}” holds a number, a list or an object: the tokenizer fails."), True),
    "empty": (
        N_("Empty"),
        N_("Nothing but blanks: a wasted place in a batch, and NaN where a loss is divided by 0 tokens."),
        True,
    ),
    "encoding": (
        N_("Broken characters"),
        N_("Bytes that are wrong in {encoding}, or � in the text: it was saved badly."),
        True,
    ),
    "long": (N_("Over-long"), N_("More than {limit} characters: cut or left out, as your loader does it. Check which."), False),
    "duplicate": (
        N_("Repeated"),
        N_("The same text stands in an earlier line: it is learnt by heart rather than from."),
        False,
    ),
}


def bad(report: CorpusReport) -> int:
    """Return how many lines are of no use as they are."""
    return sum(report.counts[kind] for kind, (_name, _why, is_bad) in KINDS.items() if is_bad)


def verdict(report: CorpusReport) -> str:
    """Return the result in one sentence, with sign and word, in HTML."""
    count, look = bad(report), sum(report.counts.values())
    if not report.texts:
        css, sign, word, sentence = "rv-bad", "error", _("No text"), _("No line holds a text in the field “{field}”.")
    elif count:
        css, sign, word = "rv-bad", "error", _("Faulty")
        sentence = ngettext("{n} line is of no use as it is", "{n} lines are of no use as they are", count) + _(", of {all}.")
    elif look:
        css, sign, word, sentence = "rv-warn", "warning", _("Usable"), _("Every line holds a text; {look} want a look.")
    else:
        whole = ngettext("{n} line: it holds a text.", "{n} lines: all hold a text, none is repeated.", report.records)
        css, sign, word, sentence = "rv-good", "check_circle", _("Sound"), whole
    said = sentence.format(field=report.field, all=number(report.records), look=number(look))
    badge = html.tag("span", html.icon(sign) + html.escape(word), "rv-badge")
    line = html.tag("p", badge + html.tag("span", html.escape(said), "rv-sentence"), "rv-line")
    return html.tag(
        "div", line + "".join(html.tag("p", html.escape(hint), "rv-quiet") for hint in hints(report)), f"rv-outcome {css}"
    )


def hints(report: CorpusReport) -> Iterator[str]:
    """Yield what explains the result as a whole."""
    others = [name for name in report.fields if name != report.field][:6]
    if report.counts["missing"] > report.texts and others:
        yield _("The objects have these fields: {names}. Is the text in one of them?").format(names=", ".join(others))
    if report.counts["broken"] > report.texts:
        yield _("A file that is one JSON document has to be cut into lines first: jq -c '.[]' FILE > FILE.jsonl")
    if report.damaged:
        yield _("The packed file breaks off or is damaged: what stands behind is missing.")
    if report.duplicates_of > 1:
        words = _("Of so many texts one in {share} was compared: the number of repeated ones is an estimate.")
        yield words.format(share=number(report.duplicates_of))


def figures(report: CorpusReport) -> str:
    """Return the figures of a corpus as a strip of HTML."""
    chars = _("characters")
    share = percent(report.texts / report.records, digits=1) if report.records else ""
    note = _("{share} of the records ({n})").format(share=share, n=number(report.records))
    items = [
        html.figure(_("Texts"), number(report.texts), note),
        html.figure(_("All texts"), short(report.characters), chars, title=number(report.characters)),
        html.figure(_("Median length"), number(report.p50), chars),
        html.figure(_("95 % are below"), number(report.p95), chars),
        html.figure(_("99 % are below"), number(report.p99), chars),
        html.figure(_("Longest"), number(report.longest), chars),
    ]
    return html.figures(items)


def form(report: CorpusReport) -> str:
    """Return how the file is written, in a few words."""
    parts = [report.encoding.upper(), *([report.compression] if report.compression else []), size_words(report.bytes)]
    parts.append(ngettext("{n} line", "{n} lines", report.lines))
    if report.blank:
        parts.append(ngettext("{n} of them blank", "{n} of them blank", report.blank))
    return " · ".join(parts)


def short(value: int) -> str:
    """Return a large number in a few characters: `1.23 M`."""
    for unit, size in (("G", 1e9), ("M", 1e6), ("k", 1e3)):
        if value >= size:
            return f"{number(value / size, digits=3)} {unit}"
    return number(value)


def table(report: CorpusReport) -> str:
    """Return every kind of problem with its number, the first lines, and what it means, as HTML."""
    rows = [html.tag("tr", "".join(html.tag("th", html.escape(head), scope="col") for head in _heads()))]
    first: dict[str, list[int]] = {}
    for problem in report.problems:
        first.setdefault(problem.kind, []).append(problem.line)
    for kind, (name, why, is_bad) in KINDS.items():
        count = report.counts[kind]
        css = ("rv-bad" if is_bad else "rv-warn") if count else "rv-none"
        lines = ", ".join(map(number, first.get(kind, [])[:5])) + (" …" if count > 5 else "")
        said = _(why).format(
            field=report.field, limit=number(report.limit), encoding=report.encoding.upper(), example='{"text": "…"}'
        )
        cells = [html.tag("th", html.escape(_(name)), scope="row"), html.tag("td", html.escape(number(count)), "rv-number")]
        cells += [html.tag("td", html.escape(lines)), html.tag("td", html.escape(said if count else ""))]
        rows.append(html.tag("tr", "".join(cells), css))
    return html.grid("".join(rows), "rv-kinds")


def _heads() -> tuple[str, ...]:
    return _("What"), _("Lines"), _("The first of them"), _("What it means")


def chart(report: CorpusReport) -> dict:
    """Return the histogram of the lengths with its data; the spec is cached."""
    bars = pd.DataFrame(report.bars, columns=["first", "last", "count"])
    bars = bars.assign(first=bars["first"].clip(lower=1), until=bars["last"] + 1)
    places = [(report.p50, _("half"), "gray"), (report.p95, "95 %", "gray"), (report.p99, "99 %", "gray")]
    places += [(report.limit, _("limit"), "red")] if report.limit <= report.longest else []
    marks = pd.DataFrame(
        [(at, label, tone, row * MARK_ROW_PX) for row, (at, label, tone) in enumerate(places) if at],
        columns=["at", "label", "tone", "row"],
    )
    spec = histogram.lengths(_("Characters of a text"), _("Texts"), _("From"), _("to"))
    return {**spec, "datasets": {histogram.BARS: bars, histogram.MARKS: marks}}


def alt_text(report: CorpusReport) -> str:
    """Return what the histogram shows, in words."""
    words = _("Lengths in characters (texts: {texts}): half at most {p50}, 99 % at most {p99}, the longest {longest}.")
    return words.format(
        texts=number(report.texts), p50=number(report.p50), p99=number(report.p99), longest=number(report.longest)
    )


def problem_lines(report: CorpusReport) -> pd.DataFrame:
    """Return the first problem lines as a table."""
    rows = [(p.line, _(KINDS[p.kind][0]), _detail(p), p.text) for p in report.problems[:SHOWN]]
    return pd.DataFrame(rows, columns=[_("Line"), _("What"), _("Detail"), _("Begins with")])


def kept(report: CorpusReport) -> Counter[str]:
    """Return how many lines of each kind are listed."""
    return Counter(problem.kind for problem in report.problems)


def _detail(problem: Problem) -> str:
    if problem.kind == "duplicate":
        return _("as line {line}").format(line=number(int(problem.detail)))
    if problem.kind == "long":
        return ngettext("{n} character", "{n} characters", int(problem.detail))
    return _(problem.detail) if problem.detail else ""


def to_csv(problems: Iterable[Problem]) -> bytes:
    """Return problem lines as CSV (with a byte order mark, so that a spreadsheet reads Chinese), kinds by their plain names."""
    out = io.StringIO()
    written = csv.writer(out)
    written.writerow(["line", "problem", "detail", "begins_with"])
    written.writerows((p.line, p.kind, p.detail, _harmless(p.text)) for p in problems)
    return out.getvalue().encode("utf-8-sig")


def _harmless(text: str) -> str:
    """Return a text that no spreadsheet takes for a formula."""
    return f"'{text}" if text.startswith(("=", "+", "-", "@", "\t")) else text
