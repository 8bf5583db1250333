"""The handbook: the rules' own words as pages, found by a word in either language, with pictures and thresholds."""

from collections.abc import Sequence

import streamlit as st

from analysis.cases import FIRST_AID, SYMPTOMS, Symptom, case_of
from analysis.diagnose import PROFILES
from analysis.registry import Rule, all_rules
from messages import N_
from storage.reading.columns import canonical
from ui import html, pictures, seen, state
from ui.html import escape, tag
from ui.text import _, number
from ui.words import first_up

GROUPS = {
    "loss": N_("The loss"),
    "eval_loss": N_("Evaluation"),
    "aux_loss": N_("Routing of experts"),
    "gradient": N_("Gradients"),
    "rate": N_("Learning rate"),
    "rl": N_("Reward learning"),
    "time": N_("Time"),
    "hardware": N_("Hardware"),
    "rank": N_("Several processes"),
    "text": N_("What the text says"),
    "log": N_("The log itself"),
}
PROFILE_WORDS = {"robust": N_("In the run's own noise"), "articles": N_("Fixed numbers of the articles")}
QUICK = (*FIRST_AID, *SYMPTOMS)
LINES = 6  # of an example of a rule that reads text


def group_of(rule: Rule) -> str:
    """Return the group of a rule (GROUPS), told by what it reads."""
    if rule.text:
        return "text"
    names = [name for need in rule.needs for name in need.split("|")]
    if any(name in ("rank", "eval_loss") for name in names):
        return "rank" if "rank" in names else "eval_loss"
    known = canonical()
    roles = [known[name].role for name in names if name in known]
    if "time" in roles or names == ["step"]:
        return "time"
    first = next((str(role) for role in roles if role), "log")
    return {"main_loss": "loss"}.get(first, first) if names[0] != "step" else "log"


def found(query: str) -> dict[str, list[Rule]]:
    """Return by group the rules in whose words, in English or the reader's language, every word of a query stands."""
    words = query.casefold().split()
    groups: dict[str, list[Rule]] = {name: [] for name in GROUPS}
    for rule in all_rules():
        if all(word in _all_words(rule) for word in words):
            groups[group_of(rule)].append(rule)
    return {name: rules for name, rules in groups.items() if rules}


def _all_words(rule: Rule) -> str:
    parts = (rule.title, rule.meaning, rule.causes, rule.advice, rule.source)
    names = " ".join((rule.name, rule.name.replace("_", " "), *rule.needs, *rule.thresholds))
    return " ".join([names, *parts, *map(_, parts)]).casefold()


def cards(rules: Sequence[Rule]) -> str:
    """Return rules as cards, each a link to its page."""
    return tag("div", "".join(map(_card, rules)), "rv-grid")


def _card(rule: Rule) -> str:
    words = tag("b", escape(_(rule.title))) + tag("span", escape(_(rule.meaning)), "rv-clamp")
    return tag("a", words, "rv-tile", href=f"handbook?rule={rule.name}", target="_self")


def links(rule: str, run: str, finding: str) -> str:
    """Return links from a finding (its rule, its run, its key) to the page of its rule and to the case that shows it beside
    the run; empty for an unknown rule."""
    if rule not in {one.name for one in all_rules()}:
        return ""
    found = [tag("a", escape(_("Handbook")), href=f"handbook?rule={rule}", target="_self")]
    if (case := case_of(rule)) is not None:
        found.append(
            tag("a", escape(_("Cases like this")), href=f"cases?case={case.key}&run={run}&finding={finding}", target="_self")
        )
    if any(row.rule == rule for row in QUICK):
        found.append(tag("a", escape(_("Quick tables")), href="cases?tables=1", target="_self"))
    return tag("p", " · ".join(found), "rv-links")


def page(rule: Rule) -> None:
    """Show a rule: what it means, pictures, causes, what to do, where it comes from, what it needs, its thresholds."""
    html.write(tag("h2", escape(_(rule.title)), "rv-head"), tag("p", escape(_(rule.meaning)), "rv-prose"))
    if rule.text:
        _example(rule)
    else:
        _pictures(rule)
    pairs = ((_("Usual causes"), rule.causes), (_("What to do"), rule.advice), (_("Where it comes from"), rule.source))
    for title, words in pairs:
        html.section(title)
        quick = "".join(_quick(row) for row in QUICK if row.rule == rule.name) if words == rule.advice else ""
        html.write(tag("p", escape(first_up(_(words))), "rv-prose"), quick)
    if (case := case_of(rule.name)) is not None:
        link = tag("a", escape(_(case.title)), href=f"cases?case={case.key}", target="_self")
        html.write(tag("p", escape(_("In the case library:")) + " " + link, "rv-links"))
    seen.show((rule.name,))
    html.section(_("What it reads"))
    html.write(tag("p", escape(needs(rule)), "rv-prose"))
    _thresholds(rule)


def _quick(row: Symptom) -> str:
    """Return a row of the quick tables in a line: symptom, usual cause, what to try first."""
    return tag("p", tag("b", escape(_(row.symptom))) + escape(f": {_(row.causes)} → {_(row.remedy)}"), "rv-caption")


def needs(rule: Rule) -> str:
    """Return in words what a log must print for a rule."""
    if rule.text:
        return _("The text of the log: it needs no numbers.")
    several = [_(" or ").join(state.metric_title(name) for name in need.split("|")) for need in rule.needs]
    words = _("It needs: {columns}.").format(columns="; ".join(several))
    if rule.rows:
        words += " " + _("It can say little before {n} rows.").format(n=number(rule.rows))
    if rule.level:
        words += " " + _("It does not apply to losses around zero and to reward learning, which hold no level.")
    return words


def _pictures(rule: Rule) -> None:
    sides = ((True, _("It finds this")), (False, _("It leaves this alone")))
    for place, (sick, title) in zip(st.columns(2, gap="medium"), sides, strict=True):
        drawn = pictures.of_rule(rule.name, sick=sick)
        with place:
            show(drawn, title, f"{rule.name}-{sick}", _(rule.title) if sick else _("A run that only looks like it"))


def show(drawn: pictures.Picture | None, title: str, key: str, alt: str) -> None:
    """Show a picture under its title and the name of what it shows."""
    if drawn is None:
        return
    html.write(tag("p", tag("b", escape(title)) + " · " + escape(state.metric_title(drawn.column)), "rv-caption"))
    st.vega_lite_chart(spec=drawn.spec, key=f"picture-{key}", alt=alt, width="stretch")


def _example(rule: Rule) -> None:
    segment = rule.sick()
    lines = [str(text) for text in segment.events["text"].head(LINES)]
    if lines:
        html.write(tag("p", tag("b", escape(_("Lines that it reads"))), "rv-caption"))
        html.write(html.log_lines(lines, 1, range(0)))


def _thresholds(rule: Rule) -> None:
    """Show the thresholds of both profiles beside each other, and what each means."""
    html.section(_("Thresholds"))
    robust, fixed = (rule.thresholds_by(profile) for profile in PROFILES)
    if not robust and not fixed:
        html.write(tag("p", escape(_("It has none: it reads what the log says.")), "rv-prose"))
        return
    if not rule.articles:
        html.quiet(_("The articles give no number of their own for this, so both profiles use the same."))
        _values(PROFILE_WORDS["robust"], rule, robust, head=False)
        return
    for place, profile, values in zip(st.columns(2, gap="medium"), PROFILES, (robust, fixed), strict=True):
        with place:
            _values(PROFILE_WORDS[profile], rule, values, head=True, profile=profile)


def _values(title: str, rule: Rule, values: dict, *, head: bool, profile: str = "robust") -> None:
    if head:
        html.write(tag("p", tag("b", escape(_(title))), "rv-caption"))
    rows = "".join(
        tag("tr", tag("th", tag("code", escape(name)), scope="row") + tag("td", escape(_value(value)), "rv-number"))
        for name, value in values.items()
    )
    notes = "".join(tag("p", escape(_(words)), "rv-quiet") for words in rule.threshold_words(profile))
    if rows:
        html.write(html.grid(rows, "rv-thresholds"), notes)
    else:
        html.quiet(_("It has none: it reads what the log says."))


def _value(value: object) -> str:
    return number(value) if isinstance(value, int | float) and not isinstance(value, bool) else str(value)
