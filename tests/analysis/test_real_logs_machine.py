"""Real logs beside the repository: every alarm about time, hardware, gradients and ranks was read by hand and is true."""

import os
from pathlib import Path

import pytest

from analysis.findings import Severity
from analysis.registry import all_rules
from server.service import to_segments
from storage.reader import read_file
from storage.types import UnreadableLog

LOGS = Path(os.environ.get("RUNVITALS_SHARED_LOGS", Path(__file__).parents[3] / "shared" / "logs"))
pytestmark = [pytest.mark.logs, pytest.mark.skipif(not LOGS.is_dir(), reason="no real logs beside the repository")]
OURS = (
    *("grad_explosion", "grad_clipped", "grad_vanishing", "grad_zero", "grad_creep", "slowdown", "step_time_spike"),
    *("periodic_pause", "step_time_jitter", "hang", "restart", "utilisation_low", "memory_near_limit", "memory_leak"),
    *("temperature_high", "rank_divergence", "rank_duplicate"),
)
# What happened there: 110 its policy collapsed at step 12; 151 the epochs from 123 on took a tenth longer; 165 an idle GPU;
# 190 steps took an eighth longer for a while; 210 steps took 2 to 4 times as long for thousands of steps, and were unsteady.
TRUE = {
    "110": {("grad_vanishing", 16)},
    "151": {("slowdown", 60885)},
    "165": {("utilisation_low", None)},
    "190": {("slowdown", 214)},
    "210": {("slowdown", 869), ("step_time_jitter", 2824), ("step_time_jitter", 5149)},
}
NUMBERS = sorted(path.name[:3] for path in LOGS.glob("[0-9]*")) if LOGS.is_dir() else ["none"]


def alarms(number: str) -> set[tuple[str, int | None]]:
    try:
        result = read_file(next(LOGS.glob(f"{number}-*")))
    except UnreadableLog:
        return set()
    found = set()
    for segment in to_segments(result.rows, result.events, dict(result.report.config)):
        for rule in all_rules():
            if rule.name in OURS and not rule.missing(segment) and (len(segment) or len(segment.telemetry)):
                found |= {(f.kind, f.first_step) for f in rule.check(segment) if f.severity is not Severity.INFO}
    return found


@pytest.mark.parametrize("number", NUMBERS)
def test_every_alarm_is_a_true_one(number: str) -> None:
    assert alarms(number) == TRUE.get(number, set())
