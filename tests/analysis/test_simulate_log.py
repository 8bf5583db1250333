"""Printed runs come back through the reader as they were, in every form; stories are the same for the same numbers."""

from pathlib import Path

import numpy as np
import pytest

from analysis.segment import Segment, split_segments
from analysis.simulate import simulate, simulate_policy, with_evaluations
from analysis.simulate_cases import CASES, story
from analysis.simulate_healthy import HEALTHY, healthy
from analysis.simulate_log import FORMS, print_log, spoiled
from analysis.verdict import Verdict
from storage.reader import read_file


def read_back(lines: list[str], path: Path) -> list[Segment]:
    log = path / "run.log"
    log.write_text("\n".join(lines) + "\n", encoding="utf-8")
    result = read_file(log)
    names = ("line", "kind", "text", "step", "segment", "data")
    events = [{name: getattr(event, name) for name in names} for event in result.events]
    return split_segments(result.rows, events=events, config=dict(result.report.config))


@pytest.mark.parametrize("form", [name for name in FORMS if name != "verl"])
def test_a_printed_run_comes_back(form: str, tmp_path: Path) -> None:
    run = with_evaluations(simulate(rows=300, seed=3, kind="moe").segment, every=50)
    (segment,) = read_back(print_log(run, form), tmp_path)
    assert np.array_equal(segment.steps(), run.steps())
    for name in ("loss", "lr", "aux_loss", "step_time_seconds"):
        if name in FORMS[form].cells:
            assert segment.values(name) == pytest.approx(run.values(name), rel=1e-3, abs=1e-8), name
    assert len(segment.evals) == (len(run.evals) if FORMS[form].evals else 0)


def test_a_printed_policy_comes_back(tmp_path: Path) -> None:
    run = simulate_policy(rows=80, seed=3)
    (segment,) = read_back(print_log(run, "verl"), tmp_path)
    for name in ("reward", "kl", "entropy", "response_length"):
        assert segment.values(name) == pytest.approx(run.values(name), rel=1e-2, abs=1e-4), name


def test_rubbish_and_halves_cost_no_more_than_the_lines_cut(tmp_path: Path) -> None:
    run = simulate(rows=2000, seed=3).segment
    lines = spoiled(print_log(run, "pipes"), np.random.default_rng(1), rubbish=0.05, halves=0.01)
    (segment,) = read_back(lines, tmp_path)
    assert 1960 <= len(segment) <= 2000


@pytest.mark.parametrize("kind", CASES)
def test_every_class_has_cases_that_name_it_and_stay_the_same(kind: str) -> None:
    one, two = (story(kind, 1, 900, hard=True) for _ in range(2))
    assert one.lines == two.lines
    assert one.label is not None
    assert one.label.kind == kind
    assert 0 <= one.label.first_row < len(one.segment)


def test_there_are_enough_healthy_kinds_and_they_have_no_label() -> None:
    assert len(HEALTHY) >= 16
    told = healthy("text: words", 0, 900)
    assert told.label is None
    assert any("memory" in line or "timeout" in line.lower() or "checkpoint" in line.lower() for line in told.lines)
    assert Verdict.HEALTHY
