"""Before launch, throughput, logging overhead, checkpoints, siblings (R101, R113, R156, R160–R163, R209)."""

from datetime import UTC, datetime

import numpy as np
import pandas as pd
import pytest

from analysis.before_launch import Launch, from_epoch, from_golden
from analysis.checkpoint_policy import checkpoint_policy
from analysis.cost import CostModel
from analysis.log_overhead import Overhead, log_size, overhead
from analysis.mfu import communication, throughput
from analysis.segment import Segment
from analysis.siblings import slow_siblings
from messages import Text


def steps(seconds: float = 2.0, count: int = 400, seed: int = 0, **columns: object) -> Segment:
    jitter = np.exp(0.02 * np.random.default_rng(seed).standard_normal(count))
    number = np.arange(1, count + 1)
    return Segment(0, pd.DataFrame({"line": number, "step": number, "step_time_seconds": seconds * jitter, **columns}))


def test_epochs_times_their_time_give_a_window() -> None:
    launch = from_epoch(45.2, 2)
    assert launch.time.p50 == pytest.approx(90.4 * 60)
    early, middle, late = launch.window(datetime(2026, 1, 1, tzinfo=UTC))
    assert early < middle < late
    with pytest.raises(ValueError, match="positive"):
        from_epoch(0, 2)


def test_a_golden_run_is_carried_to_other_gpus_and_another_batch() -> None:
    same = from_golden([steps()], steps=1000)
    assert isinstance(same, Launch)
    assert same.time.p50 == pytest.approx(2000, rel=0.02)
    more = from_golden([steps()], steps=1000, gpus=16, golden_gpus=8, batch=64, golden_batch=64)
    assert isinstance(more, Launch)
    assert more.time.p10 == pytest.approx(1000, rel=0.05)
    assert more.time.p90 == pytest.approx(1250, rel=0.05)
    bigger = from_golden([steps()], steps=1000, batch=128, golden_batch=64)
    assert isinstance(bigger, Launch)
    assert bigger.time.p50 == pytest.approx(4000, rel=0.02)
    assert any("grows with its batch (2×)" in text.render() for text in bigger.assumptions)


def test_fewer_gpus_take_at_least_as_long_as_perfect_scaling_says() -> None:
    fewer = from_golden([steps()], steps=1000, gpus=4, golden_gpus=8)
    assert isinstance(fewer, Launch)
    assert 2900 < fewer.time.p10 < fewer.time.p50 < fewer.time.p90 < 5200


def test_a_golden_run_without_time_is_refused() -> None:
    assert isinstance(from_golden([Segment(0, pd.DataFrame({"step": [1.0], "loss": [2.0]}))], steps=10), Text)
    with pytest.raises(ValueError, match="positive"):
        from_golden([steps()], steps=10, gpus=0, golden_gpus=8)


def test_mfu_shows_its_formula_or_what_is_missing() -> None:
    segment = Segment(0, steps(tokens_per_second=100_000.0).rows, config={"Model Params": "1.3B", "num_layers": 24,
        "hidden_size": 2048, "seq_length": 2048})  # fmt: skip
    model = CostModel(gpus=8, gpu="A100", peak_tflops=312)
    found = throughput([segment], model)
    assert found.mfu == pytest.approx(1e5 * (6 * 1.3e9 + 12 * 24 * 2048 * 2048) / (8 * 312e12))
    assert "÷ (8 × 312 TFLOP/s" in found.formula.render()
    assert (
        "not known are number of parameters, number of GPUs, peak of the GPU"
        in throughput([steps(tokens_per_second=1.0)], CostModel()).formula.render()
    )
    wrong = throughput([Segment(0, segment.rows.assign(tokens_per_second=1e9), config=segment.config)], model)
    assert wrong.mfu is None


def test_tokens_a_second_are_counted_where_they_are_not_printed() -> None:
    counted = throughput([steps(tokens_seen=np.arange(1, 401) * 1000.0)], CostModel())
    assert counted.tokens_per_second == pytest.approx(500, rel=0.02)
    told = Segment(0, steps().rows, config={"train_batch_tokens": 524_288})
    assert throughput([told], CostModel()).tokens_per_second == pytest.approx(262_144, rel=0.02)
    assert throughput([steps()], CostModel()).tokens_per_second is None


def test_compute_and_communication_from_the_timers() -> None:
    timers = pd.DataFrame({"forward-compute": [300.0], "backward-compute": [500.0], "forward-backward": [900.0],
        "backward-params-all-reduce": [200.0], "batch-generator": [5.0]})  # fmt: skip
    found = communication(Segment(0, steps().rows, telemetry=timers))
    assert found is not None
    assert found.ratio == pytest.approx(4)
    assert found.text.render() == "communication takes 20% of the timed part of a step"
    assert communication(steps()) is None


def test_what_a_log_weighs() -> None:
    size = log_size(lines=500, size=60_000, records=100, first_step=10, last_step=1000, format="jsonl")
    assert size is not None
    assert (size.lines_per_step, size.bytes_per_line, size.steps_per_record) == (0.5, 120, 10)
    alone = log_size(lines=3, size=161, records=1, first_step=100, last_step=100, format="minimind")
    assert alone is not None
    assert (alone.lines_per_step, alone.bytes_per_step) == (0.03, 1.61)
    assert log_size(lines=3, size=9, records=0, first_step=None, last_step=None, format="") is None


@pytest.mark.parametrize(("verbose", "verdict"), [(2.1, "perceptible"), (2.0, "imperceptible"), (2.012, None)])
def test_two_runs_tell_what_verbose_logging_costs(verbose: float, verdict: str | None) -> None:
    found = overhead(steps(verbose, 2000, 1), steps(2.0, 2000, 2))
    assert isinstance(found, Overhead)
    assert found.low <= found.share <= found.high
    if verdict:
        assert found.verdict == verdict
    assert bool(found.actions) == (found.verdict == "perceptible")
    if found.actions:
        assert [action.render().split(":")[0] for action in found.actions][0] == "print less often"
        assert len(found.actions) == 2


def test_runs_too_short_to_compare_are_not_compared() -> None:
    assert isinstance(overhead(steps(count=20), steps()), Text)


def test_the_last_five_checkpoints_are_kept_and_the_older_ones_thin_out() -> None:
    policy = checkpoint_policy(range(1000, 41_000, 1000))
    assert policy.keep[-5:] == (36_000, 37_000, 38_000, 39_000, 40_000)
    assert policy.keep[0] == 1000
    assert len(policy.keep) < 12
    assert sorted(policy.keep + policy.delete) == list(range(1000, 41_000, 1000))
    assert 17_000 in checkpoint_policy(range(1000, 41_000, 1000), best=17_000).keep
    assert checkpoint_policy(range(1000, 41_000, 1000), every=10_000).keep[:4] == (1000, 11_000, 21_000, 31_000)
    assert checkpoint_policy([]).keep == ()
    assert checkpoint_policy([5, 5, 3]).keep == (3, 5)
    with pytest.raises(ValueError, match="every must be positive"):
        checkpoint_policy([1], every=0)


def test_a_run_far_slower_than_its_siblings_is_found() -> None:
    pace = {"a": 0.23, "b": 0.22, "c": 0.25, "d": 15.2, "e": 15.0}
    found = slow_siblings(pace, {"a": 100, "b": 100, "c": 100, "d": 100, "e": 7})
    assert list(found) == ["d"]
    assert found["d"].ratio == pytest.approx(66, rel=0.01)
    assert slow_siblings({"a": 1.0, "d": 15.0}, {"a": 1, "d": 1}) == {}
    assert slow_siblings(pace, dict.fromkeys(pace)) == {}


def test_steps_between_records_are_those_that_the_log_prints():
    size = log_size(lines=47, size=4700, records=47, first_step=100, last_step=4700, format="minimind")
    assert size is not None
    assert size.steps_per_record == pytest.approx(100)
    assert size.bytes_per_step == pytest.approx(1)
