"""Simulated machines: every fault is found in its class, healthy ones raise no alarm, and a growing run says the same."""

from collections.abc import Iterator

import numpy as np
import pytest

from analysis.findings import Finding, Severity
from analysis.registry import all_rules
from analysis.segment import Segment
from analysis.simulate_hardware import ALL_FAULTS, KINDS, simulate

FAMILIES = (
    *("grad_explosion", "grad_clipped", "grad_vanishing", "grad_zero", "grad_creep"),
    *("slowdown", "step_time_spike", "periodic_pause", "step_time_jitter", "hang", "restart"),
    *("utilisation_low", "memory_near_limit", "memory_leak", "temperature_high", "rank_divergence", "rank_duplicate"),
)
RULES = [rule for rule in all_rules() if rule.name in FAMILIES]


def found(segment: Segment) -> Iterator[Finding]:
    for rule in RULES:
        if not rule.missing(segment):
            yield from rule.check(segment)


def known_row(segment: Segment, finding: Finding) -> int:
    """Return the row at which a finding was known; of steps done again the row at or after the finding."""
    same = segment.steps() == finding.known_step
    if not segment.has("rank") and finding.kind == "restart":
        same &= segment.rows["line"].to_numpy() >= (finding.first_line or 0)
        return int(np.flatnonzero(same)[0])
    return int(np.flatnonzero(same)[-1])


def test_all_families_are_there() -> None:
    assert {rule.name for rule in RULES} == set(FAMILIES)


@pytest.mark.parametrize("kind", KINDS)
def test_healthy_machines_raise_no_alarm(kind: str) -> None:
    for rows in (60, 400, 3000):
        segment = simulate(rows=rows, seed=11, kind=kind).segment
        assert [f.title.render() for f in found(segment) if f.severity is not Severity.INFO] == []


@pytest.mark.parametrize("fault", ALL_FAULTS)
def test_every_fault_is_found_in_its_class_soon(fault: str) -> None:
    run = simulate(rows=2500, seed=31, fault=fault)
    label = run.labels[0]
    rows = [known_row(run.segment, finding) for finding in found(run.segment) if finding.kind == label.kind]
    end = len(run.segment) if label.last_row is None else label.last_row
    assert any(label.first_row - 40 <= row <= end + 200 for row in rows), (label, rows)


@pytest.mark.parametrize("fault", ALL_FAULTS)
def test_a_growing_run_says_the_same_as_the_finished_one(fault: str) -> None:
    """A finding is there in the prefix that ends at its known row, not one row before, and in every later prefix."""
    segment = simulate(rows=900, seed=21, fault=fault).segment
    prefixes: dict[int, set[tuple[str, int | None]]] = {}

    def said(rows: int) -> set[tuple[str, int | None]]:
        if rows not in prefixes:
            prefixes[rows] = {(f.kind, f.first_step) for f in found(segment.head(rows))}
        return prefixes[rows]

    for finding in found(segment):
        known, key = known_row(segment, finding), (finding.kind, finding.first_step)
        assert key in said(known + 1), (known, key)
        assert key not in said(known), (known, key)
        assert key in said((known + 901) // 2), (known, key)


@pytest.mark.parametrize("fault", ["slow_loader", "throttling", "memory_leak", "hot_by_power", "restart_worse"])
def test_the_cause_that_was_put_in_comes_first(fault: str) -> None:
    run = simulate(rows=2500, seed=31, fault=fault)
    label = run.labels[0]
    finding = next(finding for finding in found(run.segment) if finding.kind == label.kind)
    assert finding.causes[0].name == label.cause
    assert finding.causes[0].supports


def test_the_same_arguments_give_the_same_run() -> None:
    first, second = (simulate(rows=200, seed=5, fault="hang").segment for _ in range(2))
    assert first.rows.equals(second.rows)
