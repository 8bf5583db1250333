"""The contract of every file in analysis/rules: it explains itself, finds its own, stays quiet, and never looks ahead."""

import inspect
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from analysis import simulate as lab
from analysis.diagnose import diagnose
from analysis.findings import Finding, Severity
from analysis.registry import Rule, all_rules, read_rule, split_docstring, thresholds_of
from analysis.segment import Segment

RULES = all_rules()
each_rule = pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.name)


def findings(rule: Rule, segment: Segment) -> list[Finding]:
    return list(rule.check(replace(segment)))


def alarms(found: list[Finding]) -> list[Finding]:
    return [finding for finding in found if finding.severity is not Severity.INFO]


def of(**columns: object) -> Segment:
    return Segment(0, pd.DataFrame(columns))


ODD = {
    "no rows": of(line=[], step=[], loss=[], lr=[], grad_norm=[]),
    "one row": of(line=[1], step=[1], loss=[2.0], lr=[1e-3]),
    "two rows": of(line=[1, 2], step=[1, 2], loss=[2.0, 1.9], lr=[1e-3, 1e-3]),
    "all NaN": of(step=np.arange(300), loss=np.full(300, np.nan), lr=np.full(300, np.nan), grad_norm=np.full(300, np.nan)),
    "infinite": of(step=np.arange(300), loss=np.full(300, np.inf), lr=np.full(300, np.inf)),
    "no loss": of(step=np.arange(300), lr=np.full(300, 1e-3)),
    "no rate": of(step=np.arange(300), loss=np.linspace(3, 2, 300)),
    "constant": of(step=np.arange(300), loss=np.full(300, 2.5), lr=np.full(300, 1e-3), grad_norm=np.full(300, 1.0)),
    "zero": of(step=np.arange(300), loss=np.zeros(300), lr=np.zeros(300), grad_norm=np.zeros(300)),
    "around zero": of(step=np.arange(300), loss=np.sin(np.arange(300.0)), lr=np.full(300, 1e-5)),
    "backwards": of(step=np.arange(300)[::-1], loss=np.linspace(3, 2, 300), lr=np.full(300, 1e-3)),
    "huge": of(step=np.arange(300), loss=np.geomspace(1e300, 1e-300, 300), lr=np.geomspace(1e-300, 1e300, 300)),
    "no step": of(loss=np.linspace(3, 2, 300), lr=np.full(300, 1e-3)),
    "same step": of(step=np.full(300, 7), loss=np.linspace(3, 2, 300), lr=np.full(300, 1e-3)),
    "gap in step": of(step=np.where(np.arange(300) % 9, np.arange(300.0), np.nan), loss=np.linspace(3, 2, 300)),
}


@each_rule
def test_a_rule_explains_itself(rule: Rule) -> None:
    assert rule.title
    assert not rule.title.endswith(".")
    assert all(len(part) > 40 for part in (rule.meaning, rule.causes, rule.advice, rule.source))
    assert rule.needs or rule.text
    for check in {rule.by("robust"), rule.by("articles")}:
        arguments = list(inspect.signature(check).parameters.values())
        assert [a.name for a in arguments if a.kind is not a.KEYWORD_ONLY] == ["segment"]
        assert all(a.default is not a.empty for a in arguments if a.kind is a.KEYWORD_ONLY)
        assert all(name in (check.__doc__ or "") for name in thresholds_of(check))


def test_a_docstring_without_its_parts_is_refused() -> None:
    assert split_docstring("Title.\n\nMeaning: a\nb\n\nSource: c")[1] == {"Meaning": "a b", "Source": "c"}
    module = type(inspect)("broken")
    module.__doc__ = "Title.\n\nMeaning: only this"
    with pytest.raises(ValueError, match="Causes, What to do, Source"):
        read_rule(module)


@each_rule
def test_a_rule_finds_its_own_kind_and_lets_the_near_miss_pass(rule: Rule) -> None:
    found, quiet = findings(rule, rule.sick()), findings(rule, rule.well())
    assert rule.name in {finding.kind for finding in (found if rule.informs else alarms(found))}
    assert not rule.missing(rule.sick())
    assert (quiet if rule.informs else alarms(quiet)) == []
    assert not rule.informs or alarms(found) == []


@each_rule
@pytest.mark.parametrize("kind", lab.KINDS)
def test_healthy_runs_raise_no_alarm(rule: Rule, kind: str) -> None:
    for rows in (60, 400, 3000):
        segment = lab.simulate(rows=rows, seed=11, kind=kind).segment
        assert [finding.title.render() for finding in alarms(findings(rule, segment))] == []


@pytest.mark.parametrize("name", ODD)
def test_no_rule_stumbles_over_odd_logs(name: str) -> None:
    segment = ODD[name]
    for rule in RULES:
        if not rule.missing(segment):
            for finding in findings(rule, segment):
                assert finding.title.render()
    diagnosis = diagnose([segment])
    assert diagnosis.sentence.render()
    if name in ("constant", "no rate", "no step", "backwards", "same step", "gap in step", "around zero"):
        assert not alarms(list(diagnosis.findings))


def test_losses_around_zero_are_not_judged_by_their_level_and_that_is_said() -> None:
    diagnosis = diagnose([ODD["around zero"]])
    assert {blind.rule for blind in diagnosis.not_assessable} >= {rule.name for rule in RULES if rule.level}
    assert all(blind.text.render() for blind in diagnosis.not_assessable)


@each_rule
def test_every_finding_is_whole(rule: Rule) -> None:
    segment = rule.sick()
    for finding in findings(rule, segment):
        assert finding.title.render()
        assert finding.evidence
        assert finding.causes
        assert finding.advice
        assert finding.known_step is not None
        assert finding.first_step is not None
        assert finding.first_line is not None
        assert finding.last_line is not None
        assert [cause.score for cause in finding.causes] == sorted((c.score for c in finding.causes), reverse=True)
        assert Finding.from_dict(finding.to_dict()) == finding


@pytest.mark.parametrize("fault", lab.FAULTS)
def test_a_growing_run_says_the_same_as_the_finished_one(fault: str) -> None:
    """A finding is there in the prefix that ends at its known step, not one row before, and in every later prefix."""
    segment = lab.simulate(rows=900, seed=21, fault=fault).segment
    for rule in RULES:
        for finding in findings(rule, segment):
            known = int(np.flatnonzero(segment.steps() == finding.known_step)[0])
            key = (finding.kind, finding.first_step)
            for rows, there in ((known + 1, True), (known, False), ((known + 900) // 2, True)):
                before = findings(rule, segment.head(rows))
                assert (key in {(f.kind, f.first_step) for f in before}) == there, (rule.name, rows, key)


@pytest.mark.parametrize("fault", lab.FAULTS)
def test_every_fault_of_the_simulator_is_found_in_its_class(fault: str) -> None:
    run = lab.simulate(rows=2500, seed=31, fault=fault)
    informs = {rule.name for rule in RULES if rule.informs}
    found = {f.kind for f in diagnose([run.segment]).findings if f.severity is not Severity.INFO or f.kind in informs}
    assert {label.kind for label in run.labels} <= found
