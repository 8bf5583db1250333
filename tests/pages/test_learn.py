"""Case library and handbook: everything is there, found, linked and drawn."""

import json

import pytest
import vl_convert

from analysis.cases import CASES
from analysis.diagnose import PROFILES
from analysis.registry import all_rules
from server.board import finding_key
from tests.pages.helpers import canonical, take, words
from ui import cases, handbook, pictures

RULES = [rule.name for rule in all_rules()]


def drawn(spec: dict) -> str:
    datasets = {name: json.loads(frame.to_json(orient="records")) for name, frame in spec["datasets"].items()}
    return vl_convert.vegalite_to_svg(json.dumps({**spec, "datasets": datasets, "width": 400}))


def test_all_rules_stand_in_the_handbook_in_groups(shop, app):
    said = words(app("handbook"))
    assert all(f"handbook?rule={name}" in said for name in RULES)
    assert sum(map(len, handbook.found("").values())) == len(RULES)


@pytest.mark.parametrize("name", RULES)
def test_every_rule_has_a_page(shop, app, name):
    test = app("handbook", rule=name)
    assert not test.exception
    said = words(test)
    assert "What to do" in said
    assert "Thresholds" in said


@pytest.mark.parametrize("sick", [True, False])
@pytest.mark.parametrize("rule", [rule for rule in all_rules() if not rule.text], ids=lambda rule: rule.name)
def test_every_rule_with_numbers_has_pictures_that_compile(rule, sick):
    picture = pictures.of_rule(rule.name, sick=sick)
    assert picture is not None
    assert "<path" in drawn(picture.spec)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.key)
def test_every_case_has_a_picture(case):
    assert "<path" in drawn(cases.picture_of(case.key).spec)


def test_the_search_finds_words_of_rules_and_says_when_there_are_none(shop, app):
    test = app("handbook", bound={"q": "overfit tiny batch"})
    assert "handbook?rule=plateau" in words(test)
    assert "handbook?rule=hang" not in words(test)
    assert "No rule has these words" in words(app("handbook", bound={"q": "zzzz"}))


def test_both_profiles_stand_beside_each_other(shop, app):
    said = words(app("handbook", rule="spike"))
    assert "two_of_four" in said
    assert "critical_ratio" in said


def test_the_library_shows_all_cases_and_the_quick_tables(shop, app):
    said = words(app("cases"))
    assert all(f"cases?case={case.key}" in said for case in CASES)
    assert "turn on pin_memory" in said
    assert "raise num_workers" in said


def test_a_case_stands_beside_the_run_whose_finding_led_there(shop, app):
    run = take(shop, canonical(spike=200), "a.log")
    finding = next(one for one in shop.diagnosis(run).findings if one.kind in ("spike", "spike_unrecovered"))
    case = next(case for case in CASES if finding.kind in case.rules)
    key = finding_key(finding.kind, finding.segment, finding.first_step)
    test = app("cases", case=case.key, run=run, finding=key)
    assert "a.log" in words(test)
    assert len(test.get("vega_lite_chart")) == 2


@pytest.mark.parametrize(
    "query", [{"case": "nan", "run": "nobody", "finding": "x"}, {"case": "nothing"}, {"rule": "<b>"}], ids=str
)
def test_links_that_lead_nowhere_are_no_error(shop, app, query):
    assert not app("cases", **query).exception
    assert not app("handbook", **query).exception


def test_a_finding_links_to_its_rule_and_its_case():
    said = handbook.links("spike", "abc", "spike:0:12")
    assert "handbook?rule=spike" in said
    assert "cases?case=spike&amp;run=abc&amp;finding=spike:0:12" in said
    assert not handbook.links("no_such_rule", "abc", "x")


@pytest.mark.parametrize("profile", PROFILES)
@pytest.mark.parametrize("rule", all_rules(), ids=lambda rule: rule.name)
def test_every_threshold_is_explained(rule, profile):
    words = " ".join(rule.threshold_words(profile))
    assert [name for name in rule.thresholds_by(profile) if name not in words] == []


def test_the_quick_tables_are_linked_from_findings_and_stand_in_the_rules(shop, app):
    assert "cases?tables=1" in handbook.links("non_finite", "abc", "x")
    assert "cases?tables=1" not in handbook.links("spike", "abc", "x")
    said = words(app("cases", tables="1"))
    assert "turn on pin_memory" in said
    assert "cases?case=spike" not in said
    assert "raise num_workers" in words(app("handbook", rule="utilisation_low"))
