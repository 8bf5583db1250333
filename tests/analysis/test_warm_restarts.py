"""A learning rate that rises back by design takes the loss with it: that is noted once, and real faults beside it are told."""

import numpy as np
import pandas as pd
import pytest

from analysis.diagnose import diagnose
from analysis.findings import Finding, Severity
from analysis.segment import Segment
from analysis.simulate import with_events
from analysis.warm_restarts import warm_restarts
from tests.analysis.losses_lab import found, run


def cycles(
    *, rows: int = 2400, length: int = 600, jump: float = 0.2, peak_again: float = 1.0, noise: float = 0.01, seed: int = 1
) -> tuple[np.ndarray, np.ndarray]:
    """Return the rate of a cosine schedule that starts again every `length` rows, and a loss that is higher with the rate."""
    at = np.arange(rows)
    wave = (1 + np.cos(np.pi * (at % length) / length)) / 2
    again = at >= length
    rate = np.where(again, peak_again, 1.0) * (1e-5 + 1e-3 * wave)
    loss = (2.5 + 2.5 * np.exp(-at / 400)) * (1 + jump * wave * again)
    return rate, loss * np.exp(noise * np.random.default_rng(seed).standard_normal(rows))


def warned(segment: Segment) -> list[Finding]:
    return [finding for finding in diagnose([segment]).findings if finding.severity is not Severity.INFO]


@pytest.mark.parametrize("rows", [700, 900, 1300, 2400])
@pytest.mark.parametrize("jump", [0.08, 0.2, 0.4])
def test_jumps_with_warm_restarts_belong_to_the_schedule_the_first_like_the_last(rows: int, jump: float) -> None:
    rate, loss = cycles(rows=rows, jump=jump)
    segment = run(loss=loss, lr=rate, total=2400)
    assert [finding.title.render() for finding in warned(segment)] == []
    assert len(warm_restarts(segment)) == (rows - 1) // 600
    (note,) = found("spike", segment)
    assert "this belongs to the schedule" in note.title.render()
    assert [cause.name for cause in note.causes] == ["schedule_step"]


def test_one_row_an_epoch_and_five_epochs_a_cycle_are_enough() -> None:
    rate, loss = cycles(rows=60, length=5, jump=0.3)
    segment = run(loss=loss, lr=rate, total=60)
    assert len(warm_restarts(segment)) == 11
    assert warned(segment) == []


def test_the_end_of_a_short_cycle_is_no_collapse_of_the_rate() -> None:
    rate, loss = cycles(rows=4000, length=100, jump=0.0)
    assert found("lr_anomaly", run(loss=loss, lr=rate, total=4000)) == []


def test_a_jump_that_stays_when_the_rate_is_low_again_is_no_schedule() -> None:
    rate, loss = cycles(jump=0.0)
    loss[600:] *= 1.4
    kinds = {finding.kind for finding in warned(run(loss=loss, lr=rate, total=2400))}
    assert "spike_unrecovered" in kinds


def test_a_spike_within_a_cycle_and_a_huge_one_at_its_start_are_told() -> None:
    rate, loss = cycles()
    loss[850:856] *= 2.0
    (spike,) = warned(run(loss=loss, lr=rate, total=2400))
    assert "from step 601 to step 854" in spike.title.render()
    rate, loss = cycles()
    loss[601:640] *= 5.0
    assert any(finding.kind == "spike" for finding in warned(run(loss=loss, lr=rate, total=2400)))


@pytest.mark.parametrize("case", ["resumed", "stands", "higher", "at once"])
def test_what_is_no_warm_restart(case: str) -> None:
    length = 1000 if case == "at once" else 600
    rate, loss = cycles(rows=1000, length=length, peak_again=1.5 if case == "higher" else 1.0)
    if case == "stands":
        rate[600:] = 1e-3
    if case == "at once":  # falls and comes back at one row each: a hole
        rate[300:400] /= 30
    segment = run(loss=loss, lr=rate, total=2400)
    if case == "resumed":
        segment.rows["line"] = np.arange(1000) * 2
        segment = with_events(segment, (1199, "resume", "resuming from step 590", {}))
    assert warm_restarts(segment) == ()


def test_a_rise_that_ends_where_the_next_one_begins_is_one() -> None:
    lr = np.array([1, 0.9, 0.8, 0.7, 0.6, 0.5, 0.4, 0.3, 0.6, 0.55, 0.9, 0.85, 0.8, 0.7, 0.6, 0.5, 0.4, 0.3, 0.2])
    segment = Segment(0, pd.DataFrame({"step": np.arange(len(lr)), "lr": 1e-3 * lr, "loss": 2.0}))
    assert [(restart.row, restart.top) for restart in warm_restarts(segment)] == [(8, 10)]
