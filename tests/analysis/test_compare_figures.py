"""The figures of a comparison: what each run needed and reached, at equal tokens and cost, groups as a band, known changes."""

import numpy as np
import pytest

from analysis.compare.align import Aligned, aligned
from analysis.compare.comparison import compare
from analysis.compare.conditions import conditions
from analysis.compare.group import band
from analysis.compare.target import Target
from tests.analysis.compare_lab import law, noisy, run, steps_of

ROWS = 400


def dear(name: str, shift: float, *, seconds: float = 2.0, seed: int = 0):
    """Return a run that tells its tokens, its time, its memory, and how many GPUs it has."""
    steps = steps_of(ROWS)
    return run(
        name,
        noisy(steps, shift=shift, sigma=0.01, seed=seed),
        config={"world_size": 4, "lr": 5e-4 if shift == 0 else 1e-3},
        tokens_seen=steps * 2048.0,
        elapsed_seconds=steps * seconds,
        step_time_seconds=seconds,
        tokens_per_second=1024.0,
        memory_peak_bytes=8e9,
    )


@pytest.fixture(scope="module")
def told():
    pair = [dear("a", 0.0), dear("b", -0.05, seed=1)]
    return compare(pair, price=2.0, reach=Target(3.0))


def test_what_it_took_to_a_loss_is_told_in_steps_tokens_hours_and_money_each_with_an_interval(told):
    steps = steps_of(ROWS)
    truth = float(np.interp(-3.0, -law(steps), steps))
    reached = told.numbers[0].reached
    for axis, a_step in {"step": 1.0, "tokens": 2048.0, "hours": 2 / 3600, "gpu_hours": 8 / 3600, "money": 16 / 3600}.items():
        low, middle, high = reached[axis]
        assert low < middle < high
        assert low <= truth * a_step * 1.05
        assert high >= truth * a_step * 0.95
        assert middle == pytest.approx(truth * a_step, rel=0.15)


def test_the_figures_are_those_that_the_log_prints(told):
    one = told.numbers[0]
    assert one.throughput == 1024.0
    assert one.unit == "tokens_per_second"
    assert one.memory == 8e9
    assert one.step_seconds[1] == pytest.approx(2.0)
    assert one.hours == pytest.approx(ROWS * 10 * 2 / 3600)
    assert one.gpu_hours == pytest.approx(4 * one.hours)
    assert one.money == pytest.approx(2 * one.gpu_hours)
    low, fall, high = one.fall
    assert low < fall < high
    assert fall == pytest.approx(1 - one.end / one.first)


@pytest.mark.parametrize("axis", ["tokens", "money", "gpu_hours"])
def test_the_loss_is_compared_at_equal_tokens_and_at_equal_cost(told, axis):
    found = told.pairs[0].differences[axis]
    low, high = found.interval
    assert low < -0.05 < high < 0
    assert found.distinguishable


def test_at_equal_cost_the_dearer_of_two_equal_runs_is_behind():
    pair = compare([dear("a", 0.0), dear("b", 0.0, seconds=8.0, seed=1)], price=2.0, axis="money").pairs[0]
    assert pair.differences["money"].value > 0.05
    assert abs(pair.differences["step"].value) < 0.01


def test_a_group_is_its_mean_between_its_lowest_and_highest():
    steps = steps_of(100)
    losses = [law(steps, shift=shift) for shift in (-0.02, 0.0, 0.05)]
    subjects = [run(str(n), loss) for n, loss in enumerate(losses)]
    curves = aligned(subjects, [conditions(one) for one in subjects], "loss", "step")
    assert isinstance(curves, Aligned)
    found = band(curves, range(3))
    assert np.exp(found.low) == pytest.approx(losses[0])
    assert np.exp(found.high) == pytest.approx(losses[2])
    assert found.mean == pytest.approx(np.log(losses).mean(axis=0))


@pytest.mark.parametrize(
    ("setting", "values", "columns", "metric", "way"),
    [
        ("global_batch_size", (32, 64), {}, "loss_noise", "down"),
        ("train_micro_batch_size_per_gpu", (4, 8), {"memory_peak_bytes": (8e9, 12e9)}, "memory", "up"),
        ("gradient_accumulation_steps", (1, 4), {"step_time_seconds": (1.0, 4.0)}, "step_seconds", "up"),
        ("precision", ("bf16", "fp32"), {"memory_peak_bytes": (8e9, 15e9)}, "memory", "up"),
        ("precision", ("fp32", "bf16"), {"step_time_seconds": (2.0, 1.0)}, "step_seconds", "down"),
    ],
)
def test_what_a_known_change_should_do_is_set_beside_what_it_did(setting, values, columns, metric, way):
    noises = (0.04, 0.02)
    pair = [
        run(
            "ab"[n],
            noisy(steps_of(ROWS), sigma=noises[n], seed=n),
            config={setting: values[n]},
            **{name: both[n] for name, both in columns.items()},
        )
        for n in range(2)
    ]
    found = {one.metric: one for one in compare(pair).pairs[0].expected}
    assert (found[metric].expected, found[metric].met) == (way, True)
