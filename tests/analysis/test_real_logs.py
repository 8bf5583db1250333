"""Real logs beside the repository: healthy ones raise no alarm, and what is known to have happened is found."""

import os
from functools import cache
from pathlib import Path

import pytest

from analysis.diagnose import Diagnosis
from analysis.findings import Severity
from bench import incidents
from server.service import diagnose_file
from storage.reader import read_file

LOGS = Path(os.environ.get("RUNVITALS_SHARED_LOGS", Path(__file__).parents[3] / "shared" / "logs"))
pytestmark = [pytest.mark.logs, pytest.mark.skipif(not LOGS.is_dir(), reason="no real logs beside the repository")]


@cache
def diagnosed(number: str) -> Diagnosis:
    found = list(LOGS.glob(f"{number}-*"))
    if not found:
        pytest.skip(f"log {number} is not there")
    return diagnose_file(read_file(found[0]))


@pytest.mark.parametrize("number", ["006", "007", "020", "021", "033", "050", "133", "151", "167", "200", "210"])
def test_healthy_training_losses_raise_no_alarm(number: str) -> None:
    alarms = [f for f in diagnosed(number).findings if f.severity is not Severity.INFO]
    assert [f.title.render() for f in alarms if f.kind in incidents.LOSS_KINDS] == []


@pytest.mark.parametrize("number", sorted(incidents.EXPECTED))
def test_every_known_incident_is_found_in_its_class_and_the_verdict_is_right(number: str) -> None:
    for outcome in incidents.outcomes(number, diagnosed(number)):
        assert outcome.found, outcome
        assert outcome.verdict_right, outcome


@pytest.mark.parametrize(
    ("number", "kind", "first", "verdicts"),
    [
        ("012", "spike", 3, {"watch", "failed"}),
        ("015", "divergence", 33, {"sick"}),
        ("016", "spike", 3, {"watch"}),
        ("096", "non_finite", 9, {"sick"}),
        ("152", "spike_unrecovered", 6819, {"sick"}),
        ("205", "spike", 5, {"sick", "failed"}),
        ("221", "non_finite", 2183, {"watch"}),
    ],
)
def test_known_incidents_are_found_where_they_began(number: str, kind: str, first: int, verdicts: set[str]) -> None:
    diagnosis = diagnosed(number)
    alarms = {(f.kind, f.first_step) for f in diagnosis.findings if f.severity is not Severity.INFO}
    assert (kind, first) in alarms
    assert diagnosis.verdict in verdicts


def test_lone_hard_batches_are_noted_each_at_its_step() -> None:
    known = {
        3962,
        5964,
        7799,
        8246,
        8542,
        10664,
        10989,
        11607,
        13144,
        14515,
        14675,
        14738,
        14758,
        16439,
        17992,
        18087,
        18647,
        20133,
    }
    noted = {f.first_step for f in diagnosed("021").findings if f.kind == "spike"}
    assert len(known - noted) <= 1
    assert len(noted - known) <= 4
