"""The diagnosis in words and HTML: the banner, the findings, and what the log cannot tell."""

from dataclasses import dataclass

from analysis.diagnose import Diagnosis
from analysis.findings import Cause, Evidence, Finding, Severity
from analysis.registry import all_rules
from analysis.verdict import TOLD
from messages import N_, Text
from server.words import SEVERITIES as SEVERITY_WORDS
from server.words import STANDINGS
from server.words import VERDICTS as VERDICT_WORDS
from ui.html import escape, icon, tag
from ui.text import _, number, say


@dataclass(frozen=True)
class Look:
    """How a verdict or severity is shown: a word and a sign, and only then a colour (a CSS class, a theme colour)."""

    word: str
    icon: str
    sign: str
    css: str
    colour: str


VERDICTS = {
    "healthy": Look(VERDICT_WORDS["healthy"], "check_circle", "✔", "rv-good", "green"),
    "watch": Look(VERDICT_WORDS["watch"], "visibility", "◉", "rv-warn", "orange"),
    "sick": Look(VERDICT_WORDS["sick"], "error", "✖", "rv-bad", "red"),
    "failed": Look(VERDICT_WORDS["failed"], "dangerous", "⊘", "rv-bad", "red"),
    "unreadable": Look(VERDICT_WORDS["unreadable"], "help", "?", "rv-none", "gray"),
}
SEVERITIES = {
    Severity.CRITICAL: Look(SEVERITY_WORDS[Severity.CRITICAL], "error", "✖", "rv-bad", "red"),
    Severity.WARNING: Look(SEVERITY_WORDS[Severity.WARNING], "warning", "⚠", "rv-warn", "orange"),
    Severity.INFO: Look(SEVERITY_WORDS[Severity.INFO], "info", "ℹ", "rv-none", "gray"),
}
PENDING = Look(N_("Being checked"), "hourglass_empty", "…", "rv-none", "gray")
UNJUDGED = Look(N_("Not judged"), "hourglass_disabled", "–", "rv-none", "gray")  # and nobody is about to
URGENCY = ("failed", "sick", "watch", "unreadable", "healthy")  # needs attention first


def pending(rows: int) -> Diagnosis:
    """Return what stands in the place of a diagnosis while the first one of a long log is made."""
    return Diagnosis("pending", Text(N_("Rows read and drawn: {rows:,}; the rules are being applied to them."), {"rows": rows}))


def leading(diagnosis: Diagnosis) -> Finding | None:
    """Return the finding on which the verdict rests, None where it rests on none.

    Its title is the verdict's sentence; the sentence of a run that failed names a line, and its finding is the one nearest.
    """
    if diagnosis.verdict == "failed":
        line = int(diagnosis.sentence.values.get("line", 0))
        ends = [finding for finding in diagnosis.findings if finding.kind in TOLD]
        return min(ends, key=lambda finding: abs((finding.first_line or 0) - line), default=None)
    return next((finding for finding in diagnosis.findings if finding.title == diagnosis.sentence), None)


def banner(diagnosis: Diagnosis, said: str = "") -> str:
    """Return the verdict: sign and word, since when, the sentence; below it the likely cause and what to do now.

    `said`: what people have said of the finding it rests on.
    """
    look = VERDICTS.get(diagnosis.verdict, PENDING)
    badge = tag("span", icon(look.icon) + escape(_(look.word)), "rv-badge")
    since = ""
    if diagnosis.since_step is not None and diagnosis.verdict != "healthy":
        since = tag("span", escape(_("since step {step}").format(step=number(diagnosis.since_step))), "rv-since")
    line = tag("p", badge + since + tag("span", escape(say(diagnosis.sentence)), "rv-sentence"), "rv-line")
    noted = tag("p", icon("done") + escape(said), "rv-quiet") if said else ""
    return tag("section", line + _advice(leading(diagnosis)) + noted, f"rv-verdict {look.css}", role="status")


def _advice(finding: Finding | None) -> str:
    if finding is None:
        return ""
    pairs = []
    if finding.causes:
        cause = finding.causes[0]
        pairs.append((_(STANDINGS[cause.standing]), " · ".join([say(cause.text), *map(say, cause.supports[:1])])))
    if finding.advice:
        pairs.append((_("Do now"), say(finding.advice[0])))
    return definitions(pairs)


def definitions(pairs: list[tuple[str, str]]) -> str:
    """Return pairs of name and plain text as a two-column list."""
    rows = "".join(tag("dt", escape(name)) + tag("dd", escape(value)) for name, value in pairs if value)
    return tag("dl", rows, "rv-pairs") if rows else ""


def span(finding: Finding) -> str:
    """Return where a finding is, in words: `5,120–now`, `step 812`."""
    if finding.first_step is None:
        return ""
    first = number(finding.first_step)
    if finding.last_step is None:
        return _("step {first} until now").format(first=first)
    if finding.last_step == finding.first_step:
        return _("step {first}").format(first=first)
    return _("steps {first}–{last}").format(first=first, last=number(finding.last_step))


def proof(finding: Finding) -> str:
    """Return what the finding means, the evidence, the ranked causes with what speaks for and against each, the advice."""
    meaning = next((_(rule.meaning) for rule in all_rules() if rule.name == finding.kind), "")
    parts = [tag("p", escape(meaning), "rv-meaning")] if meaning else []
    if finding.evidence:
        rows = "".join(_evidence_row(item) for item in finding.evidence)
        parts.append(_heading(_("Measured")) + tag("table", rows, "rv-table"))
    if finding.causes:
        parts.append(_heading(_("Causes, the likeliest first")) + tag("ol", "".join(map(_cause, finding.causes)), "rv-causes"))
    if finding.advice:
        items = "".join(tag("li", escape(say(item))) for item in finding.advice)
        parts.append(_heading(_("What to do")) + tag("ul", items, "rv-causes"))
    return tag("div", "".join(parts), "rv-proof")


def _heading(words: str) -> str:
    return tag("h4", escape(words))


def _evidence_row(item: Evidence) -> str:
    value, css = str("–" if item.value is None else item.value), "rv-said"
    if isinstance(item.value, int | float):
        value, css = number(item.value), "rv-number"
    where = [_("step {first}").format(first=number(item.step))] if item.step is not None else []
    where += [_("line {line}").format(line=number(item.line))] if item.line is not None else []
    cells = tag("td", escape(f"{value} {item.unit}".strip()), css) + tag("td", escape(", ".join(where)))
    return tag("tr", tag("th", escape(say(item.label)), scope="row") + cells)


def _cause(cause: Cause) -> str:
    notes = [(_("for"), "; ".join(map(say, cause.supports))), (_("against"), "; ".join(map(say, cause.contradicts)))]
    notes.append((_("not in the log"), ", ".join(cause.unobservable)))
    words = say(cause.text)
    if cause.untold:
        words = _("{cause} (nothing in the log for or against it)").format(cause=words)
    return tag("li", tag("b", escape(_(STANDINGS[cause.standing]))) + escape(f" · {words}") + definitions(notes))


def titles() -> dict[str, str]:
    """Return the title of each class of finding, to be translated."""
    return {rule.name: rule.title for rule in all_rules()}


def unknown(diagnosis: Diagnosis) -> str:
    """Return what could not be judged: the rule's title, and which field is missing or why."""
    if not diagnosis.not_assessable:
        return tag("p", escape(_("Every rule could be applied.")), "rv-quiet")
    rows = [(_(titles().get(blind.rule, blind.rule)), say(blind.text)) for blind in diagnosis.not_assessable]
    return tag("ul", "".join(tag("li", tag("b", escape(name)) + " — " + escape(why)) for name, why in rows), "rv-unknown")
