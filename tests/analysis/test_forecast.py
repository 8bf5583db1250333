"""The loss at the end: foretold within its interval, refused while too early (issue 7)."""

import os
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from analysis.forecast import Forecast, forecast
from analysis.running_mean import undone
from analysis.segment import Segment
from analysis.simulate import simulate
from messages import Text
from server.service import to_segments
from storage.reader import read_file

LOGS = Path(os.environ.get("RUNVITALS_SHARED_LOGS", Path(__file__).parents[3] / "shared" / "logs"))


def end_of(segment: Segment) -> float:
    loss = undone(segment, "loss")
    loss = loss[np.isfinite(loss)]
    return float(np.median(loss[-max(len(loss) // 50, 3) :]))


@pytest.mark.parametrize("kind", ["pretrain", "linear", "constant", "large_batch", "small_batch", "long_warmup"])
def test_half_a_run_foretells_its_end(kind: str) -> None:
    misses, held = [], []
    for seed in range(6):
        whole = simulate(rows=6000, seed=seed, kind=kind).segment
        found = forecast(whole.head(3000), total_steps=int(whole.steps()[-1]))
        assert isinstance(found, Forecast), found
        truth = end_of(whole)
        misses.append(abs(found.final / truth - 1))
        held.append(found.low <= truth <= found.high)
    assert np.median(misses) < 0.04
    assert sum(held) >= 5


def test_a_falling_rate_is_part_of_the_law_and_an_unknown_one_is_said_to_be_left_out() -> None:
    annealed = forecast(simulate(rows=4000, seed=1, kind="pretrain").segment.head(2000), total_steps=4000)
    assert isinstance(annealed, Forecast)
    assert annealed.annealed
    segment = simulate(rows=4000, seed=1, kind="constant").segment
    plain = forecast(Segment(0, segment.rows.drop(columns="lr"), total_steps=8000))
    assert isinstance(plain, Forecast)
    assert not plain.annealed
    assert "is not in it" in plain.text.render()


def test_what_the_money_buys() -> None:
    found = forecast(simulate(rows=4000, seed=2).segment.head(2000), total_steps=4000)
    assert isinstance(found, Forecast)
    assert found.gain_per_gpu_hour(10) == pytest.approx((found.now - found.final) / 10)
    assert found.gain_per_gpu_hour(None) is None
    assert found.gain_per_gpu_hour(0) is None


def refused(segment: Segment, total: int | None = None) -> str:
    found = forecast(segment, total_steps=total)
    assert isinstance(found, Text)
    return found.render()


def test_it_is_refused_while_it_would_be_a_guess() -> None:
    whole = simulate(rows=6000, seed=3).segment
    assert "10% at least" in refused(whole.head(300), 6000)
    assert "warming up" in refused(simulate(rows=6000, seed=3, kind="long_warmup").segment.head(700), 6000)
    assert "too few rows" in refused(whole.head(40), 100)
    assert "planned" in refused(Segment(0, whole.rows))
    assert "prints no loss" in refused(Segment(0, whole.rows.drop(columns="loss")), 6000)
    assert "rising" in refused(Segment(0, whole.rows.assign(loss=2 + 0.001 * np.arange(6000))), 9000)
    flat = pd.DataFrame({"step": np.arange(1, 401), "loss": np.r_[np.full(200, 1.0), np.full(200, 0.2)]})
    assert "falling power law" in refused(Segment(0, flat), 3000) or "too many ends" in refused(Segment(0, flat), 3000)


@pytest.mark.logs
@pytest.mark.parametrize("name", ["020-llmc-main.log", "021-87bd51fd-6203-4c88-b3aa-8a849a6a83ca.txt"])
def test_the_first_half_of_real_runs_foretells_their_end(name: str) -> None:
    if not (LOGS / name).exists():
        pytest.skip("no real logs here")
    result = read_file(LOGS / name)
    whole = to_segments(result.rows, result.events, {})[0]
    found = forecast(whole.head(len(whole) // 2), total_steps=int(whole.steps()[-1]))
    assert isinstance(found, Forecast)
    assert found.final == pytest.approx(end_of(whole), rel=0.03)
    assert found.low <= end_of(whole) <= found.high
