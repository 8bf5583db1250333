"""Schedules are recognised by their shape, and the phases of a run follow each other without gaps."""

import numpy as np
import pytest

from analysis.phases import phases
from analysis.schedule import rates, schedule
from analysis.simulate import KINDS, simulate
from tests.analysis.losses_lab import run


@pytest.mark.parametrize("kind", KINDS)
def test_the_schedule_of_a_simulated_run_is_recognised(kind: str) -> None:
    known = schedule(simulate(rows=2000, seed=1, kind=kind).segment)
    assert known is not None
    assert known.shape == KINDS[kind].schedule
    every = KINDS[kind].log_every
    assert known.warmup_end == pytest.approx(KINDS[kind].warmup * 2000 * every, rel=0.1)


def test_a_schedule_that_is_not_over_is_told_from_its_beginning() -> None:
    segment = simulate(rows=3000, seed=1).segment
    assert schedule(segment.head(900)).shape == "cosine"  # type: ignore[union-attr]
    assert schedule(segment.head(900)).decay_end == pytest.approx(3000, rel=0.05)  # type: ignore[union-attr]
    assert schedule(segment.head(40)).shape == "warmup"  # type: ignore[union-attr]


def test_without_a_rate_there_is_no_schedule_and_odd_rates_are_other() -> None:
    assert schedule(run(loss=np.linspace(4, 3, 50))) is None
    assert rates(run(loss=np.linspace(4, 3, 50))) is None
    odd = run(loss=np.linspace(4, 3, 200), lr=1e-3 * (1.5 + np.sin(np.arange(200) / 9)))
    assert schedule(odd).shape == "other"  # type: ignore[union-attr]


@pytest.mark.parametrize("kind", KINDS)
def test_phases_cover_the_run_in_order(kind: str) -> None:
    segment = simulate(rows=2000, seed=2, kind=kind).segment
    found = phases(segment)
    order = ["warmup", "fast_fall", "slow_fall", "plateau"]
    kinds = [phase.kind for phase in found]
    assert kinds == [name for name in order if name in kinds]
    assert kinds[:2] == order[:2]
    assert all(one.last_step == two.first_step for one, two in zip(found, found[1:], strict=False))
    assert found[-1].last_step == segment.step(len(segment) - 1)
    assert all(phase.text.render() for phase in found)


def test_a_flat_run_has_no_fall_and_a_short_one_no_phases() -> None:
    rng = np.random.default_rng(1)
    assert [phase.kind for phase in phases(run(loss=3 + 0.05 * rng.standard_normal(500)))] == ["flat"]
    assert phases(run(loss=np.linspace(4, 3, 10))) == ()


def bent(rise: float, *, seed: int = 3) -> np.ndarray:
    """Return a loss that falls to 2 over 600 rows and is `rise` higher over the next 400, with noise of 2 %."""
    rows = np.arange(1000)
    level = np.where(rows < 600, 2 + 2 * np.exp(-rows / 80), 2 + rise * np.clip((rows - 600) / 100, 0, 1))
    return level * np.exp(0.02 * np.random.default_rng(seed).standard_normal(1000))


def test_a_rise_that_lasts_is_named_and_no_fall_covers_it() -> None:
    found = phases(run(loss=bent(1.5)))
    assert [phase.kind for phase in found][-1] == "rise"
    assert 500 <= found[-1].first_step <= 660
    assert "3.4" in found[-1].text.render() or "3.5" in found[-1].text.render()
    assert all(one.last_step == two.first_step for one, two in zip(found, found[1:], strict=False))


def test_a_rise_from_the_first_step_on_is_no_flat_run() -> None:
    assert [phase.kind for phase in phases(run(loss=np.linspace(2, 6, 400)))] == ["rise"]


def test_noise_and_a_spike_that_comes_back_are_no_rise() -> None:
    spiked = bent(0.0)
    spiked[700:760] *= 4
    for losses in (bent(0.0), spiked):
        assert "rise" not in [phase.kind for phase in phases(run(loss=losses))]
