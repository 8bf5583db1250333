"""Which happenings in which runs a rule is about, how rules are kept, and what is history."""

from dataclasses import replace
from datetime import UTC, datetime

import pytest

from analysis.diagnose import Diagnosis
from analysis.findings import Finding, Severity
from analysis.registry import all_rules
from messages import Text
from server.alerts import rules
from server.alerts.occurrences import Occurrence, occurrences
from server.alerts.rules import SET_WORDS, SETS, STOCK, AlertRule, Subject
from storage.keeping.outbox import Alert
from storage.store import Store

WARNING, CRITICAL, INFO = Severity.WARNING, Severity.CRITICAL, Severity.INFO


@pytest.fixture
def store(tmp_path):
    with Store(tmp_path) as opened:
        yield opened


def test_the_sets_name_rules_that_exist():
    names = {rule.name for rule in all_rules()}
    assert {kind for name, kinds in SETS.items() if name not in ("verdict", "end") for kind in kinds} <= names
    assert SETS.keys() == SET_WORDS.keys()


def test_the_three_stock_rules_and_the_one_for_failures_are_there_from_the_start(store):
    assert [rule.id for rule in rules.rules(store)] == ["spike", "stall", "time", "failure"]
    assert all(rule.on and not rule.channels for rule in rules.rules(store))


def test_a_stock_rule_is_changed_deleted_and_brought_back(store):
    changed = replace(STOCK["spike"], on=False, channels=("mail",), least=CRITICAL, quiet_minutes=5, names=("a*",))
    rules.save(store, changed)
    assert rules.rules(store)[0] == changed
    rules.delete(store, changed)
    assert "spike" not in {rule.id for rule in rules.rules(store)}
    rules.save(store, changed)
    assert rules.rules(store)[0] == changed


def test_a_rule_of_ones_own_is_kept_and_deleted(store):
    mine = replace(rules.new_rule(), name="mine", what=("hang", "end"))
    rules.save(store, mine)
    assert rules.rules(store)[-1] == mine
    rules.delete(store, mine)
    assert len(rules.rules(store)) == len(STOCK)


@pytest.mark.parametrize(
    ("what", "least", "kind", "severity", "tells"),
    [
        (("spikes",), WARNING, "non_finite", CRITICAL, True),
        (("spikes",), WARNING, "spike", INFO, False),
        (("spikes",), INFO, "spike", INFO, True),
        (("spikes",), WARNING, "plateau", CRITICAL, False),
        (("grad_zero",), WARNING, "grad_zero", WARNING, True),
        (("verdict",), CRITICAL, "sick", CRITICAL, True),
        (("end",), CRITICAL, "ended", INFO, True),
        (("spikes",), INFO, "ended", INFO, False),
    ],
)
def test_what_a_rule_tells(what, least, kind, severity, tells):
    assert AlertRule("a", "a", what, least=least).tells(kind, severity) is tells


@pytest.mark.parametrize(
    ("chosen", "covers"),
    [
        ({}, True),
        ({"projects": ("llm",)}, True),
        ({"projects": ("other",)}, False),
        ({"tags": ("prod", "x")}, True),
        ({"tags": ("x",)}, False),
        ({"names": ("Mini*",)}, True),
        ({"names": ("gpt*", "*64m")}, True),
        ({"names": ("gpt*",)}, False),
        ({"projects": ("llm",), "names": ("gpt*",)}, False),
    ],
)
def test_which_runs_a_rule_covers(chosen, covers):
    assert AlertRule("a", "a", ("end",), **chosen).covers(Subject("minimind-64m", "llm", frozenset({"prod"}))) is covers


def finding(kind="spike", severity=WARNING, first=10, last=None, segment=0):
    return Finding(kind, severity, segment, first, last, Text(kind))


def diagnosis(*findings, verdict="watch"):
    return Diagnosis(verdict, Text("sentence"), findings=findings)


def told(one: Occurrence) -> Alert:
    return Alert("a", "run", one.to_dict(), datetime.now(UTC))


def kinds(before, now, alerts=(), new=None, **more):
    given = {"launch": 0, "over": False} | more
    return [one.kind for one in occurrences(before, now, now.findings if new is None else new, alerts, **given)]


def test_what_is_over_by_the_first_diagnosis_is_history():
    assert kinds(None, diagnosis(finding(last=20))) == []
    assert kinds(diagnosis(), diagnosis(finding(last=20))) == ["spike"]


def test_what_goes_on_is_told_once_even_when_the_server_stopped_in_between():
    now = diagnosis(finding())
    (one,) = occurrences(now, now, [], [], launch=0, over=False)
    assert kinds(now, now, [told(one)], new=[]) == []


def test_one_that_began_after_the_last_was_told_is_another_one():
    (one,) = occurrences(None, diagnosis(finding()), [], [], launch=0, over=False)
    before = told(replace(one, at_step=300))
    assert kinds(diagnosis(), diagnosis(finding(first=290)), [before], new=[]) == []
    assert kinds(diagnosis(), diagnosis(finding(first=500)), [before], new=[]) == ["spike"]


def test_what_goes_on_in_an_earlier_launch_is_history():
    assert kinds(None, diagnosis(finding()), launch=1) == []


def test_what_becomes_graver_is_told_again():
    (one,) = occurrences(None, diagnosis(finding()), [], [], launch=0, over=False)
    assert kinds(diagnosis(), diagnosis(finding(severity=CRITICAL)), [told(one)], new=[]) == ["spike"]


def test_a_muted_finding_raises_none_nor_the_verdict_that_rests_on_it():
    now = diagnosis(finding(severity=CRITICAL), verdict="sick")
    assert kinds(diagnosis(), now) == ["spike", "sick"]
    assert kinds(diagnosis(), now, muted=frozenset({"spike:0:10"})) == []


def test_the_verdict_and_the_end_are_told_once_a_launch():
    now = diagnosis(verdict="failed")
    first = list(occurrences(diagnosis(), now, [], [], launch=0, over=True))
    assert [one.kind for one in first] == ["failed", "ended"]
    assert kinds(now, now, [told(one) for one in first], over=True) == []
    assert kinds(now, now, [told(one) for one in first], over=True, launch=1) == ["failed", "ended"]


def test_an_occurrence_comes_back_as_it_was_kept():
    (one,) = occurrences(None, diagnosis(finding()), [], [], launch=0, over=False)
    whole = replace(one, cause=Text("x", {"a": 1}), standing="likely", rules=("r",), run_name="n", known_step=3, line_at=1.5)
    assert Occurrence.from_dict(whole.to_dict()) == whole
