"""Every fault of the injection lab is found in a calm run that prints what it needs, and else says what is missing."""

import pandas as pd
import pytest

from analysis import simulate as lab
from analysis import simulate_hardware as machine
from analysis.diagnose import diagnose
from analysis.inject import FAULTS, MOST_ROWS, base, inject, try_all, try_one
from analysis.segment import Segment
from messages import Text


@pytest.fixture(scope="module")
def runs() -> list[Segment]:
    experts = lab.simulate(rows=2500, seed=3, kind="moe").segment
    return [machine.simulate(rows=2500, seed=3).segment, experts]


@pytest.mark.parametrize("name", FAULTS)
def test_every_fault_is_found_soon_in_a_calm_run(runs: list[Segment], name: str) -> None:
    run = runs[1] if name == "router" else runs[0]
    launch = base(run)
    assert isinstance(launch, Segment)
    outcome = try_one(launch, diagnose([launch]), name)
    assert outcome.found is not None, outcome.why
    assert outcome.delay is not None
    assert outcome.delay <= 300
    assert outcome.found.kind in FAULTS[name].kinds


def test_the_run_itself_stays_as_it_was(runs: list[Segment]) -> None:
    before = runs[0].rows.copy()
    for name in FAULTS:
        if name != "router":
            inject(runs[0], name)
    pd.testing.assert_frame_equal(runs[0].rows, before)


def test_a_column_that_is_not_printed_is_named(runs: list[Segment]) -> None:
    found = {outcome.name: outcome for outcome in try_all(runs[1])}
    assert found["memory"].step is None
    assert "memory_bytes" in found["memory"].why[0].render()


def test_short_and_lossless_runs_say_why_and_long_ones_give_their_last_rows() -> None:
    assert isinstance(base(Segment(0, pd.DataFrame())), Text)
    assert isinstance(base(lab.simulate(rows=100).segment), Text)
    long = base(lab.simulate(rows=MOST_ROWS + 500).segment)
    assert isinstance(long, Segment)
    assert len(long) == MOST_ROWS


def test_what_a_run_had_before_does_not_count_as_found() -> None:
    launch = base(lab.simulate(rows=2000, seed=1, fault="nan_to_end").segment)
    assert isinstance(launch, Segment)
    outcome = try_one(launch, diagnose([launch]), "nan", since=0.9)
    assert outcome.found is None
    assert outcome.why
