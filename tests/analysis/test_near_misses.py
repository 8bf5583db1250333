"""What looks like a fault and is another one, or none: each rule leaves to the others what is theirs."""

from dataclasses import replace

import numpy as np
import pytest

from analysis.diagnose import diagnose
from analysis.findings import Severity
from analysis.segment import Segment
from analysis.simulate import simulate, with_evaluations, with_events
from analysis.simulate_hardware import simulate as simulate_machine
from tests.analysis.losses_lab import alarms, found, run


@pytest.mark.parametrize(("rows", "seed"), [(800, 4), (2000, 5), (6000, 6)])
def test_a_loss_that_comes_back_from_a_dip_does_not_diverge(rows: int, seed: int) -> None:
    segment = simulate(rows=rows, seed=seed, fault="dip").segment
    assert alarms("dip", segment)
    assert alarms("divergence", segment) == []
    assert alarms("oscillation", segment) == []


def test_a_run_that_diverges_is_no_series_of_steps() -> None:
    segment = simulate(rows=4000, seed=7, fault="divergence").segment
    assert alarms("divergence", segment)
    assert len(found("level_shift", segment)) <= 1


def test_a_jump_to_another_level_is_no_swing() -> None:
    segment = simulate(rows=4000, seed=9, fault="spike_unrecovered").segment
    assert alarms("spike_unrecovered", segment)
    assert alarms("oscillation", segment) == []


def test_two_lucky_rows_of_a_raised_course_are_no_return() -> None:
    segment = simulate(rows=2000, seed=12).segment
    segment.rows.loc[1000:, "loss"] *= 1.35
    segment.rows.loc[1040:1041, "loss"] /= 1.3
    (finding,) = alarms("spike_unrecovered", segment)
    assert finding.first_step == 1001


@pytest.mark.parametrize("up", [True, False])
def test_an_evaluation_that_jumps_is_no_overfitting(up: bool) -> None:
    segment = with_evaluations(simulate(rows=2000, seed=15).segment, every=25, noise=0.005)
    segment.evals.loc[40:, "eval_loss"] *= 1.3 if up else 0.7
    assert len(alarms("eval_jump", segment)) == 1
    assert alarms("overfit", segment) == []


def test_an_evaluation_that_turns_is_known_within_a_twentieth_of_the_run() -> None:
    segment = with_evaluations(simulate(rows=6000, seed=3).segment, every=60, noise=0.005, turns_at=0.4, steepness=0.6)
    (finding,) = alarms("overfit", segment)
    assert 2400 <= (finding.known_step or 0) <= 2700


@pytest.mark.parametrize("seed", [3, 13])
def test_evaluations_that_stand_still_do_not_get_worse_by_the_luck_of_the_best(seed: int) -> None:
    segment = with_evaluations(simulate(rows=2000, seed=seed).segment, every=20)
    luck = np.random.default_rng(seed).standard_normal(len(segment.evals))
    assert alarms("overfit", replace(segment, evals=segment.evals.assign(eval_loss=2.5 * np.exp(0.01 * luck)))) == []


@pytest.mark.parametrize("seed", [1, 6, 7])
def test_a_clear_divergence_of_a_short_run_is_known_within_a_twentieth_of_it(seed: int) -> None:
    told = simulate(rows=800, seed=seed, fault="divergence")
    (finding,) = alarms("divergence", told.segment)
    assert 0 < (finding.known_step or 0) - told.labels[0].first_row <= 40


def test_a_plateau_is_counted_in_steps_not_in_rows() -> None:
    """A log that prints its first steps one by one and later every fiftieth has its whole fall in few rows."""
    whole = simulate(rows=12_000, seed=4, kind="constant").segment
    keep = np.r_[np.arange(30), np.arange(49, 12_000, 50)]
    assert alarms("plateau", Segment(0, whole.rows.iloc[keep].reset_index(drop=True))) == []


def test_a_plateau_is_found_before_the_run_is_three_times_as_long() -> None:
    run = simulate(rows=6000, seed=8, fault="plateau")
    finding = alarms("plateau", run.segment)[0]
    assert (finding.known_step or 0) < 3 * run.labels[0].first_row


@pytest.mark.parametrize(("fault", "seed"), [("plateau", 9), ("plateau", 12), ("plateau_labels", 37)])
def test_a_plateau_is_not_over_because_its_level_was_not_yet_known_exactly(fault: str, seed: int) -> None:
    (finding,) = found("plateau", simulate(rows=800, seed=seed, kind="averaged", fault=fault).segment)
    assert finding.severity is Severity.WARNING
    assert finding.last_step is None


def test_noise_between_the_parts_of_a_flat_stretch_is_no_fall() -> None:
    """The usual move from part to part, times their number, is far noisier than the gain that it was to confirm."""
    run = simulate(rows=2000, seed=6, kind="averaged", fault="plateau_labels").segment
    (finding,) = alarms("plateau", run)
    assert (finding.known_step or 0) < 0.18 * 200_000
    stepped = simulate(rows=2000, seed=6, kind="curriculum").segment
    assert alarms("plateau", stepped) == []


def test_a_loss_that_has_not_fallen_at_all_has_no_plateau_besides() -> None:
    rows = np.arange(6000)
    noise = 0.004 * np.random.default_rng(2).standard_normal(6000)
    still = run(loss=8.7 * np.exp(noise) * (1 - 0.014 * np.minimum(rows / 200, 1)), lr=np.full(6000, 1e-4))
    assert alarms("no_learning", still)
    assert alarms("plateau", still) == []


def test_a_rhythm_survives_lost_lines_and_its_pauses_are_no_surprises() -> None:
    segment = simulate_machine(rows=3000, seed=5, kind="checkpoints").segment
    lost = np.delete(np.arange(3000), [333, 777, 1500, 2222])
    thinned = replace(segment, rows=segment.rows.iloc[lost].reset_index(drop=True), absent={})
    (rhythm,) = found("periodic_pause", thinned)
    assert rhythm.last_step is None
    late = [item for item in found("step_time_spike", thinned) if (item.first_step or 0) % 200 == 0]
    assert all((item.first_step or 0) <= (rhythm.known_step or 0) for item in late)


def test_a_checkpoint_loaded_counts_as_a_resume_only_where_the_step_does_not_rise() -> None:
    segment = simulate(rows=400, seed=5).segment
    assert found("restart", with_events(segment, (200, "checkpoint_loaded", "loaded checkpoint for evaluation", {}))) == []
    frame = segment.rows.iloc[np.r_[np.arange(200), np.arange(199, 400)]].reset_index(drop=True)
    frame["line"] = np.arange(len(frame)) * 2 + 1
    again = with_events(replace(segment, rows=frame, absent={}), (400, "checkpoint_loaded", "loaded checkpoint", {}))
    assert len(found("restart", again)) == 1


def test_a_resume_at_once_is_compared_at_the_same_steps() -> None:
    segment = simulate(rows=400, seed=6).segment
    frame = segment.rows.iloc[np.r_[np.arange(40), np.arange(36, 400)]].reset_index(drop=True)
    frame["line"] = np.arange(len(frame)) + 1
    assert alarms("restart", replace(segment, rows=frame, absent={})) == []


def test_a_small_constant_term_in_the_total_is_seen_rounding_is_not() -> None:
    segment = simulate(rows=400, seed=6, kind="moe").segment
    assert found("decomposition", segment) == []
    segment.rows.loc[200:, "loss"] += 0.0006
    (finding,) = alarms("decomposition", replace(segment))
    assert 200 <= (finding.known_step or 0) <= 225


def test_a_loss_that_falls_all_the_same_is_not_said_to_stand() -> None:
    rows = np.arange(1, 1001)
    noise = 0.1 * np.random.default_rng(5).standard_normal(1000)
    falling = run(every=50, total=100_000, loss=np.exp(np.log(7 * (1 + rows / 10) ** -0.25 + 0.3) + noise))
    (finding,) = found("plateau", falling)
    assert finding.title.template.startswith("Loss fell only slowly")
    assert finding.title.values["before"] > 1.1 * finding.title.values["now"]
    standing = simulate(rows=4000, seed=8, fault="plateau").segment
    assert found("plateau", standing)[0].title.template.startswith("Loss has stood")


def test_a_jump_that_takes_several_steps_is_told_from_its_start_to_its_peak() -> None:
    for rises, words in (([3.0], "at step 501 and was back"), ([2.0, 2.5, 3.0], "from step 501 to step 503 and was back")):
        loss = 2.5 * np.exp(0.02 * np.random.default_rng(3).standard_normal(1000))
        loss[500 : 500 + len(rises) + 2] *= [*rises, 1.8, 1.5]
        (finding,) = alarms("spike", run(loss=loss))
        assert words in finding.title.render()


def test_advice_fits_what_is_known_of_a_jump() -> None:
    def advice(loss: np.ndarray) -> str:
        (finding,) = found("spike", run(loss=loss))
        return " ".join(text.render() for text in finding.advice)

    calm = 2.5 * np.exp(0.02 * np.random.default_rng(3).standard_normal(1000))
    back, still = calm.copy(), calm.copy()
    back[500:506] *= 2.0
    still[990:] *= 2.0
    start = 12 * np.exp(-np.arange(60) / 30)
    start[2:8] *= [3.5, 3.6, 3.2, 2.8, 2.2, 1.5]
    assert "Note the batch" in advice(back)
    assert "Pause" in advice(still)
    assert "Check initialisation" in advice(start)
    assert "Note the batch" not in advice(start)
    assert "Pause" not in advice(start)


def test_steps_that_are_done_again_are_no_jump_unless_they_are_higher_than_the_first_time() -> None:
    rng = np.random.default_rng(4)
    steps = np.r_[np.arange(1, 301), np.arange(201, 801)]
    loss = 9 * (1 + steps / 20) ** -0.4 * np.exp(0.01 * rng.standard_normal(len(steps)))
    assert found("spike", at_steps(steps, loss)) == []
    loss[320:326] *= 1.5
    (finding,) = alarms("spike", at_steps(steps, loss))
    assert 216 <= finding.first_step <= 221


def at_steps(steps: np.ndarray, loss: np.ndarray) -> Segment:
    segment = run(loss=loss)
    return replace(segment, rows=segment.rows.assign(step=steps))


def names(segment: Segment) -> set[str]:
    return {finding.kind for finding in diagnose([segment]).findings}


@pytest.mark.parametrize("seed", [1, 4, 6, 7])
def test_the_start_of_a_rise_is_no_step(seed: int) -> None:
    assert names(simulate(rows=6000, seed=seed, fault="divergence").segment) >= {"divergence"}
    assert "level_shift" not in names(simulate(rows=6000, seed=seed, fault="divergence").segment)


@pytest.mark.parametrize("seed", [1, 4, 8])
def test_a_small_step_that_stays_is_no_jump_that_came_back(seed: int) -> None:
    found = names(simulate(rows=2000, seed=seed, kind="large_batch", fault="level_shift").segment)
    assert "level_shift" in found
    assert not found & {"spike", "spike_unrecovered"}


@pytest.mark.parametrize("seed", [2, 6, 7])
def test_a_step_up_in_a_steep_fall_is_one_and_the_end_of_the_fall_is_none(seed: int) -> None:
    run = simulate(rows=800, seed=seed, kind="linear", fault="level_shift")
    (finding,) = found("level_shift", run.segment)
    assert abs((finding.first_step or 0) - run.labels[0].first_row) <= 40
    assert found("level_shift", simulate(rows=800, seed=seed, kind="linear").segment) == []


def test_jumps_and_dips_of_a_swing_are_the_swing_and_a_higher_jump_is_not() -> None:
    rows = np.arange(2500)
    loss = 2.5 * np.exp(0.01 * np.random.default_rng(2).standard_normal(2500))
    loss[800:] *= np.exp(0.1 * np.sin(2 * np.pi * rows[800:] / 40))
    swings = run(loss=loss)
    assert names(swings) & {"oscillation", "spike", "dip", "spike_cluster"} == {"oscillation"}
    higher = loss.copy()
    higher[1500:1504] *= 3
    assert "spike" in names(run(loss=higher))


def test_steps_that_are_done_again_are_no_step_of_the_level() -> None:
    steps = np.r_[np.arange(1, 1001), np.arange(601, 3001)]
    loss = 9 * (1 + steps / 200) ** -0.6 * np.exp(0.08 * np.random.default_rng(4).standard_normal(len(steps)))
    assert found("level_shift", at_steps(steps, loss)) == []


@pytest.mark.parametrize(("rows", "seed"), [(800, 0), (800, 5), (2000, 4), (2000, 12)])
def test_the_end_of_a_dip_is_no_step(rows: int, seed: int) -> None:
    found = names(simulate(rows=rows, seed=seed, fault="dip", hard=True).segment)
    assert found & {"dip", "level_shift"} == {"dip"}
