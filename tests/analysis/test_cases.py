"""The case library: every picture shows what its words say, and every rule of a case is there."""

import pytest

from analysis.cases import CASES, FIRST_AID, SYMPTOMS, case_of
from analysis.diagnose import diagnose
from analysis.findings import Severity
from analysis.registry import all_rules

RULES = {rule.name for rule in all_rules()}


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.key)
def test_the_picture_of_a_case_is_found_by_its_rule_or_is_healthy(case):
    found = {one.kind for one in diagnose([case.segment()]).findings if one.severity is not Severity.INFO}
    if case.healthy:
        assert not found & {"spike", "divergence", "plateau", "oscillation", "no_learning"}
    else:
        assert case.rules[0] in {one.kind for one in diagnose([case.segment()]).findings}


def test_five_shapes_are_warned_of_and_keys_are_unique():
    assert sum(case.warned for case in CASES) == 5
    assert len({case.key for case in CASES}) == len(CASES)


def test_every_rule_that_is_named_exists():
    assert {rule for case in CASES for rule in case.rules} <= RULES
    assert {row.rule for row in (*FIRST_AID, *SYMPTOMS)} <= RULES
    assert (len(FIRST_AID), len(SYMPTOMS)) == (4, 6)


def test_a_finding_leads_to_its_case():
    assert case_of("spike").key == "spike"
    assert case_of("stopped") is None
