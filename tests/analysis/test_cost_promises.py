"""What time and cost promise (docs/cost.md), on a few seeded runs; bench/cost.py measures the same on hundreds."""

import os
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from analysis.epoch_time import epoch_time
from analysis.pace import pace
from analysis.segment import Segment
from analysis.siblings import slow_siblings
from analysis.simulate_text import printed
from analysis.simulate_time import HABITS, timed
from analysis.time_left import time_left
from bench.cost import RARE, read, truth_left
from bench.cost_meanings import ask
from server.service import to_segments
from storage.reader import read_file

LOGS = Path(os.environ.get("RUNVITALS_SHARED_LOGS", Path(__file__).parents[3] / "shared" / "logs"))
SWEEP = [str(number) for number in range(300, 314)]


@cache
def estimates(share: float, fault: str | None = None) -> tuple[np.ndarray, np.ndarray]:
    """Return the errors of the time left (m,), and whether the 90 % range held the truth (m,)."""
    errors, held = [], []
    for habit in ("steady", "both") if fault else [name for name in HABITS if name not in RARE]:
        for seed in range(6 if fault else 3):
            whole = timed(plan=4000, seed=700 + seed, habit=habit, fault=fault)
            now = whole.until(share)
            left, found = truth_left(whole, now, 10), time_left(read(printed(now, "jsonl")))
            assert found is not None
            errors.append(abs(found.p50 / left - 1))
            held.append(found.p5 <= left <= found.p95)
    return np.array(errors), np.array(held)


@pytest.mark.parametrize(("share", "limit"), [(0.1, 0.02), (0.25, 0.01), (0.5, 0.01)])
def test_the_time_left_of_healthy_runs(share: float, limit: float) -> None:
    assert np.median(estimates(share)[0]) <= limit


def test_the_ninety_percent_range_holds_about_that_often() -> None:
    held = np.concatenate([estimates(share)[1] for share in (0.1, 0.25, 0.5)])
    assert 0.85 <= held.mean() <= 0.98  # of 99


@pytest.mark.parametrize("fault", ["hang", "restart"])
def test_a_hang_or_a_restart_does_not_spoil_the_time_left(fault: str) -> None:
    assert estimates(0.5, fault)[0].max() <= 0.1


def test_while_a_run_is_slow_both_ends_are_told() -> None:
    found = time_left(read(printed(timed(plan=4000, seed=1, fault="slow").until(0.42), "jsonl")))
    assert found is not None
    assert found.if_returns is not None
    assert found.if_lasts is not None
    assert found.if_returns < found.p50 < found.if_lasts
    healthy = time_left(read(printed(timed(plan=4000, seed=1).until(0.42), "jsonl")))
    assert healthy is not None
    assert (healthy.if_lasts, healthy.if_returns) == (None, None)


@pytest.mark.parametrize("faulty", [False, True])
def test_epoch_time_is_never_read_wrongly_and_undecided_only_where_another_run_prints_the_same(faulty: bool) -> None:
    answers, why = ask(40, faulty=faulty, explain=not faulty)
    told = {
        word: sum(n for (_kind, lines, said), n in answers.items() if said == word and lines) for word in ("right", "WRONG")
    }
    assert told["right"] > 60
    assert told["WRONG"] == 0
    assert not [name for _kind, name in why if name == "NOTHING FOUND"]


@cache
def first_launch(name: str) -> Segment:
    found = sorted(LOGS.glob(f"{name}-*"))
    if not found:
        pytest.skip("no real logs here")
    result = read_file(found[0])
    return to_segments(result.rows, result.events, dict(result.report.config))[0]


@pytest.mark.logs
@pytest.mark.parametrize("name", SWEEP[2:])
def test_an_epoch_of_the_sweep_takes_its_step_times_the_slope(name: str) -> None:
    segment = first_launch(name)
    known = epoch_time(segment)
    assert known is not None
    assert known.epoch_minutes is not None
    slope = np.median((segment.values("epoch_time_minutes") + 0.5) / (known.epoch_steps - segment.steps()))
    assert known.epoch_minutes[1] == pytest.approx(slope * known.epoch_steps, abs=1.0)


@pytest.mark.logs
def test_the_slow_one_of_the_sweep_is_told_from_its_siblings() -> None:
    seconds, plans = {}, {}
    for name in ("007", *SWEEP, "325"):
        segment = first_launch(name)
        clock = pace(segment)
        assert clock is not None
        seconds[name] = float(clock.running.sum() / clock.wall.steps.sum())
        plans[name] = segment.total_steps
    assert {name: round(found.ratio) for name, found in slow_siblings(seconds, plans).items()} == {
        "325": pytest.approx(67, abs=2)
    }
