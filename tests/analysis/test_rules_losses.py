"""Rules about the course of the loss: just inside and just outside of what they call a fault."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from analysis.diagnose import diagnose
from analysis.first_loss import first_loss, vocabulary_of
from analysis.simulate import simulate, with_evaluations, with_events
from tests.analysis.losses_lab import alarms, found, run


def noisy(rows: int, *, level: float = 2.5, sigma: float = 0.02, seed: int = 1) -> np.ndarray:
    return level * np.exp(sigma * np.random.default_rng(seed).standard_normal(rows))


def spikes(places: list[int], *, rows: int = 3000) -> np.ndarray:
    loss = noisy(rows)
    for place in places:
        loss[place : place + 5] *= 1.6
    return loss


def test_three_spikes_within_the_window_are_a_cluster_two_or_distant_ones_are_none() -> None:
    assert alarms("spike_cluster", run(loss=spikes([1000, 1060]))) == []
    assert alarms("spike_cluster", run(loss=spikes([600, 1400, 2300]))) == []
    (finding,) = alarms("spike_cluster", run(loss=spikes([1000, 1060, 1120])))
    assert (finding.first_step, str(finding.severity)) == (1001, "warning")
    (goes_on,) = alarms("spike_cluster", run(loss=spikes([2800, 2860, 2920])))
    assert str(goes_on.severity) == "critical"


def test_lone_hard_batches_are_no_cluster() -> None:
    loss = noisy(3000)
    loss[[1000, 1040, 1080, 1120]] *= 1.6
    assert alarms("spike_cluster", run(loss=loss)) == []


@pytest.mark.parametrize("period", [7, 24, 150])
def test_a_swing_is_found_with_its_period_and_amplitude(period: int) -> None:
    wave = np.sin(2 * np.pi * np.arange(6000) / period)
    finding = alarms("oscillation", run(every=10, loss=noisy(6000) * np.exp(0.05 * wave)))[0]
    assert finding.evidence[1].value == pytest.approx(10 * period, rel=0.1)
    assert finding.evidence[0].value == pytest.approx(0.05, rel=0.3)
    assert alarms("oscillation", run(loss=noisy(6000) * np.exp(0.004 * wave))) == []


def test_a_swing_with_each_epoch_is_noted_only() -> None:
    rows = np.arange(3000)
    loss = noisy(3000) * np.exp(0.08 * np.sin(2 * np.pi * rows / 50))
    said = found("oscillation", run(loss=loss, epoch=rows / 50))
    assert said
    assert {str(finding.severity) for finding in said} == {"info"}


def test_an_epoch_that_is_printed_with_two_digits_is_known_by_its_mean_pace() -> None:
    """Between two rows it grows by 0.04 or 0.05; the usual difference is off by a twelfth."""
    rows = np.arange(3000)
    loss = noisy(3000) * np.exp(0.08 * np.sin(2 * np.pi * rows / 21.6))
    said = found("oscillation", run(loss=loss, epoch=np.round(rows / 21.6, 2)))
    assert said
    assert {str(finding.severity) for finding in said} == {"info"}
    assert alarms("oscillation", run(loss=loss, epoch=np.round(rows / 30.0, 2)))


@pytest.mark.parametrize("seed", [11, 15, 21, 28, 30, 33])
def test_slow_wander_that_has_one_period_in_a_few_windows_does_not_swing(seed: int) -> None:
    rng = np.random.default_rng(seed)
    moves, wander = rng.standard_normal(7000), np.zeros(7000)
    for row in range(1, 7000):
        wander[row] = 0.98 * wander[row - 1] + 0.1 * moves[row]
    assert alarms("oscillation", run(loss=0.05 * np.exp(wander + 0.1 * rng.standard_normal(7000)))) == []


def test_growing_fluctuations_are_said_unless_only_the_logarithm_grows() -> None:
    rng = np.random.default_rng(3)
    sigma = np.where(np.arange(2000) < 1200, 0.03, 0.2)
    wild = alarms("oscillation", run(loss=2.5 * np.exp(sigma * rng.standard_normal(2000))))
    assert wild
    assert abs((wild[0].first_step or 0) - 1200) < 200
    vanishing = np.geomspace(2.5, 0.002, 2000) + 0.001 * np.abs(rng.standard_normal(2000))
    assert alarms("oscillation", run(loss=vanishing)) == []


def test_what_fell_while_steps_are_missing_is_no_dip() -> None:
    steps = np.r_[1:391, 700:1500]
    loss = noisy(len(steps)) * (4 - 0.0015 * steps) / 2.5
    assert alarms("dip", run(loss=loss)) != []
    segment = run(loss=loss)
    there = replace(segment, rows=segment.rows.assign(step=steps))
    assert alarms("dip", there) == []


def test_a_dip_needs_several_rows_and_an_effect() -> None:
    for rows, share, there in ((20, 0.8, True), (3, 0.8, False), (20, 0.99, False)):
        loss = noisy(1500, sigma=0.01)
        loss[900 : 900 + rows] *= share
        assert bool(alarms("dip", run(loss=loss))) == there, (rows, share)
    loss = noisy(1500, sigma=0.01)
    loss[900:920] *= 0.8
    (finding,) = alarms("dip", run(loss=loss))
    assert (finding.first_step, finding.last_step) == (901, 920)
    assert finding.causes[0].name == "repeats"


def test_a_drop_that_follows_the_rate_or_starts_an_epoch_is_noted_only() -> None:
    loss = noisy(1500, sigma=0.01)
    loss[900:] *= 0.9
    assert len(alarms("dip", run(loss=loss))) == 1
    rate = np.where(np.arange(1500) < 900, 1e-3, 1e-4)
    (by_rate,) = found("dip", run(loss=loss, lr=rate))
    assert str(by_rate.severity) == "info"
    assert by_rate.causes[0].name == "schedule_step"
    (by_epoch,) = found("dip", run(loss=loss, epoch=1.0 + (np.arange(1500) >= 900)))
    assert str(by_epoch.severity) == "info"


def test_a_loss_near_zero_of_an_untrained_model_is_implausible_not_success() -> None:
    loss = 0.05 + 10.7 * np.exp(-np.arange(600) / 12)
    (finding,) = alarms("dip", run(total=20_000, loss=loss))
    assert "Implausibly low" in finding.title.render()
    assert alarms("dip", run(total=20_000, loss=loss + 1.2)) == []
    assert alarms("dip", run(total=20_000, loss=loss[60:] + 0.01)) == []  # it did not begin untrained


def test_a_lasting_step_of_the_level_is_information() -> None:
    loss = noisy(4000, sigma=0.03)
    loss[2000:] *= 1.1
    (finding,) = found("level_shift", run(loss=loss))
    assert str(finding.severity) == "info"
    assert abs((finding.first_step or 0) - 2000) < 60
    loss[2000:] /= 1.09
    assert found("level_shift", run(loss=loss)) == []


def test_a_jump_that_the_log_announces_is_information() -> None:
    loss = noisy(1500, sigma=0.005)
    loss[800:] *= 1.3
    plain = run(loss=loss)
    assert [str(f.severity) for f in found("spike_unrecovered", plain)] == ["critical"]
    told = with_events(plain, (795, "dataset_change", "switching to the next dataset: code", {}))
    assert [str(f.severity) for f in found("spike_unrecovered", told)] == ["info"]
    sizes = np.where(np.arange(1500) < 800, 256.0, 32.0)
    assert [str(f.severity) for f in found("spike_unrecovered", run(loss=loss, batch_size=sizes))] == ["info"]


def test_a_smooth_curve_without_noise_raises_no_alarm() -> None:
    rows = np.arange(1, 1001)
    for loss in (9 * rows**-0.2, 2 + 6 * np.exp(-rows / 200), np.linspace(4, 2, 1000)):
        segment = run(total=1000, loss=np.round(loss, 4), lr=np.linspace(1e-3, 1e-5, 1000))
        assert [f.title.render() for f in diagnose([segment]).findings if f.severity != "info"] == []


def test_evaluations_that_get_worse_while_training_improves_are_overfitting() -> None:
    segment = with_evaluations(simulate(rows=2000, seed=4).segment, every=50, turns_at=0.5)
    (finding,) = alarms("overfit", segment)
    assert 800 <= (finding.first_step or 0) <= 1100
    assert finding.last_step is None
    assert alarms("overfit", with_evaluations(simulate(rows=2000, seed=4).segment, every=50)) == []


def test_evaluations_that_get_worse_together_with_training_are_not() -> None:
    base = simulate(rows=2000, seed=4, fault="divergence").segment
    segment = with_evaluations(base, every=50, turns_at=None)
    assert alarms("overfit", segment) == []


def test_without_evaluations_overfitting_can_not_be_told_and_memory_is_noted() -> None:
    rows = np.arange(1200)
    segment = run(loss=3 * np.exp(-rows / 150) + 0.002, epoch=1 + rows / 60)
    said = found("overfit", segment)
    assert [str(finding.severity) for finding in said] == ["info"]
    blind = {item.rule: item for item in diagnose([segment]).not_assessable}
    assert blind["overfit"].missing == ("eval_loss",)
    assert found("overfit", run(loss=3 * np.exp(-rows / 150) + 0.5, epoch=1 + rows / 60)) == []


def test_a_jump_of_the_evaluation_alone_is_said_up_and_down() -> None:
    for factor, cause in ((1.3, "evaluation_changed"), (0.7, "contamination")):
        segment = with_evaluations(simulate(rows=2000, seed=5).segment, every=50)
        segment.evals.loc[20:, "eval_loss"] *= factor
        (finding,) = alarms("eval_jump", segment)
        assert finding.first_step == 1050
        assert finding.causes[0].name == cause
    small = with_evaluations(simulate(rows=2000, seed=5).segment, every=50)
    small.evals.loc[20:, "eval_loss"] *= 1.03
    assert alarms("eval_jump", small) == []


def test_exactly_zero_twice_is_a_fault_once_or_nearly_zero_is_none() -> None:
    for zeros, there in ((1, 0), (2, 1)):
        loss = noisy(300)
        loss[200 : 200 + zeros] = 0
        assert len(alarms("loss_zero", run(loss=loss))) == there, zeros
    assert alarms("loss_zero", run(loss=np.where(np.arange(300) < 200, 2.5, 1e-9))) == []
    (finding,) = alarms("loss_zero", run(loss=np.zeros(50)))
    assert str(finding.severity) == "critical"


def test_zero_losses_of_policies_and_preferences_are_normal() -> None:
    loss = noisy(300)
    loss[200:] = 0
    assert alarms("loss_zero", run(loss=loss, reward=np.ones(300), kl=np.ones(300))) == []
    assert alarms("loss_zero", run(**{"loss": loss, "rewards/chosen": np.ones(300)})) == []


def test_a_first_loss_near_the_logarithm_of_the_vocabulary_is_normal() -> None:
    config = {"model/vocab_size": 6400}
    segment = run(config=config, loss=np.linspace(8.7523, 6, 200))
    begin = first_loss(segment)
    assert begin is not None
    assert begin.expected == pytest.approx(8.764, abs=0.001)
    assert found("initial_loss", segment) == []
    assert vocabulary_of({"vocab_size": "None"}) is None


def test_one_high_first_step_is_no_alarm_ten_high_rows_are() -> None:
    loss = np.linspace(9, 6, 200)
    loss[0] = 26.0
    assert found("initial_loss", run(loss=loss)) == []
    assert len(alarms("initial_loss", run(loss=np.linspace(30, 15, 200)))) == 1
    assert found("initial_loss", run(loss=np.linspace(13.9, 9, 200))) == []


def test_a_run_that_flew_apart_before_its_first_row_is_found_from_that_row() -> None:
    loss = np.array([31.0, 13.9, 8.1, 7.6, 7.6, 7.5])
    segment = run(every=100, loss=loss, step_printed=(np.arange(6) + 1) * 100.0)
    (finding,) = alarms("initial_loss", segment)
    assert (finding.first_step, finding.known_step) == (100, 100)


def test_a_known_vocabulary_sets_the_limit_and_a_low_start_is_noted() -> None:
    config = {"vocab_size": 6400}
    assert len(alarms("initial_loss", run(config=config, loss=np.linspace(11.5, 10.9, 200)))) == 1
    assert found("initial_loss", run(config=config, loss=np.linspace(10.5, 9, 200))) == []
    (note,) = found("initial_loss", run(config=config, loss=np.linspace(3, 2, 200)))
    assert str(note.severity) == "info"


def test_a_launch_that_goes_on_with_another_has_no_first_loss() -> None:
    later = replace(run(loss=np.linspace(30, 15, 200)), number=1)
    (finding,) = alarms("initial_loss", later)
    assert finding.title.render().startswith("Launch 2 starts with a loss of 30 (step 1);")
    resumed = replace(later, rows=later.rows.assign(step=later.rows["step"] + 5000))
    assert found("initial_loss", resumed) == []
    (blind,) = [item for item in diagnose([resumed]).not_assessable if item.rule == "initial_loss"]
    assert "goes on with an earlier one at step 5,001" in blind.text.render()
    again = run(loss=np.linspace(30, 15, 200))
    again.rows["line"] += 10
    assert found("initial_loss", with_events(again, (5, "resume", "resuming from step 400", {}))) == []


def test_the_first_loss_is_that_over_words_where_the_total_has_other_tasks_in_it() -> None:
    words, config = np.linspace(3.4, 3.2, 200), {"vocab_size": 30000}
    assert alarms("initial_loss", run(config=config, loss=words + 11.0, lm_loss=words)) == []
    (finding,) = alarms("initial_loss", run(config=config, loss=words + 11.7, lm_loss=words + 11.0))
    assert "a loss of 14.4" in finding.title.render()


def test_a_trained_start_is_told_by_its_first_value_and_without_causes_of_a_bad_one() -> None:
    loss = np.r_[4.0, np.full(199, 1.0)]
    segment = run(config={"vocab_size": 65024}, loss=loss)
    segment.rows["line"] += 10
    segment = with_events(segment, (5, "checkpoint_loaded", "loaded weights from base/model.bin", {}))
    (note,) = found("initial_loss", segment)
    assert "its loss at step 1 is 4;" in note.title.render()
    assert [(cause.name, len(cause.supports)) for cause in note.causes] == [("loaded", 1)]
    late = run(every=100, config={"vocab_size": 65024}, loss=loss, step_printed=(np.arange(200) + 1) * 100.0)
    (unsure,) = found("initial_loss", late)
    assert "or learned fast" in unsure.title.render()


def test_without_a_vocabulary_the_implied_one_is_named() -> None:
    blind = {item.rule: item for item in diagnose([run(loss=np.linspace(8.7523, 6, 200))]).not_assessable}
    assert blind["initial_loss"].missing == ("vocab_size",)
    assert "6,3" in blind["initial_loss"].text.render()


def test_no_fall_after_the_warm_up_is_critical_and_a_slow_fall_a_caution() -> None:
    rate = np.minimum(np.arange(1500) / 100, 1) * 1e-3
    stuck = alarms("no_learning", run(loss=noisy(1500, level=8.7), lr=rate))
    assert [str(f.severity) for f in stuck] == ["critical"]
    assert (stuck[0].known_step or 0) >= 200
    slow = alarms("no_learning", run(loss=noisy(1500, level=8.7) * np.linspace(1, 0.92, 1500), lr=rate))
    assert [str(f.severity) for f in slow] == ["warning"]
    assert "slowly" in slow[0].title.render()
    assert alarms("no_learning", run(loss=noisy(1500, level=8.7) * np.linspace(1, 0.5, 1500), lr=rate)) == []


def test_a_slow_beginning_that_is_over_is_no_alarm_any_more() -> None:
    course = np.r_[np.linspace(1, 0.93, 150), np.linspace(0.93, 0.92, 1350), np.linspace(0.92, 0.4, 1500)]
    segment = run(loss=noisy(3000, level=8.7) * course)
    assert [str(f.severity) for f in alarms("no_learning", segment.head(1500))] == ["warning"]
    assert alarms("no_learning", segment) == []
    (told,) = (f for f in diagnose([segment]).findings if f.kind == "no_learning")
    assert "until step" in told.title.render()


def test_no_fall_during_the_warm_up_or_of_a_resumed_run_is_normal() -> None:
    rate = np.minimum(np.arange(1500) / 1500, 1) * 1e-3
    assert alarms("no_learning", run(loss=noisy(1500, level=8.7), lr=rate)) == []
    resumed = run(loss=noisy(1500, level=2.0))
    resumed.rows["step"] += 30_000
    assert alarms("no_learning", resumed) == []


def test_a_log_too_noisy_to_tell_is_not_called_stuck() -> None:
    rng = np.random.default_rng(7)
    loss = 2.2 * np.exp(0.5 * rng.standard_normal(260)) * np.linspace(1, 0.9, 260)
    assert alarms("no_learning", run(loss=loss, lr=np.full(260, 1e-5))) == []


def test_a_median_of_rows_is_told_as_one_and_stands_at_no_line() -> None:
    (finding,) = alarms("overfit", with_evaluations(simulate(rows=2000, seed=4).segment, every=50, turns_at=0.5))
    levels = [item for item in finding.evidence if "the median of" in item.label.render()]
    assert len(levels) == 2
    assert {(item.step, item.line) for item in levels} == {(None, None)}
    assert "the median of the last 3" in finding.title.render()


def test_several_evaluations_of_a_step_are_told_as_their_mean() -> None:
    segment = with_evaluations(simulate(rows=2000, seed=4).segment, every=50, turns_at=0.5)
    twice = pd.concat([segment.evals, segment.evals.assign(eval_loss=segment.evals["eval_loss"] * 1.01)])
    (finding,) = alarms("overfit", replace(segment, evals=twice.sort_values("line", ignore_index=True)))
    assert finding.evidence[0].label.render() == "best evaluation, the mean of 2 that were printed"


@pytest.mark.parametrize("seed", [3, 6, 9, 11, 14])
def test_evaluations_that_turn_are_one_finding_however_noisy_they_are(seed: int) -> None:
    epochs = np.arange(200)
    evaluation = 0.5 + 1.8 * np.exp(-epochs / 17) + 0.0025 * np.maximum(epochs - 80, 0)
    evaluation *= np.exp(np.random.default_rng(seed).normal(0, 0.12, 200))
    (finding,) = found("overfit", run(loss=0.1 + 2 * np.exp(-epochs / 66), eval_loss=evaluation))
    assert finding.last_step is None


def falling(rows: int) -> np.ndarray:
    """A loss as it falls in pretraining: fast at first, ever more slowly."""
    return 2.6 + 8 * (1 + np.arange(rows) / 20) ** -1.0


def test_a_swing_of_a_few_slow_periods_is_found_in_a_run_of_two_thousand_rows() -> None:
    rows = np.arange(2000)
    wave = np.where(rows < 900, 0.0, np.sin(2 * np.pi * (rows - 900) / 84))
    finding = alarms("oscillation", run(loss=noisy(2000) * np.exp(0.12 * wave)))[0]
    assert finding.evidence[1].value == pytest.approx(84, rel=0.1)


def test_a_steep_rise_is_no_growing_fluctuation() -> None:
    loss = noisy(1100, sigma=0.01)
    loss[600:] += np.minimum(0.08 * np.expm1(np.arange(500) / 52), 8)
    assert alarms("oscillation", run(loss=loss)) == []
    assert alarms("divergence", run(loss=loss))


def test_how_a_fall_slows_down_does_not_hide_a_slow_rise() -> None:
    """The bend of the early course counted as wander of the loss, so a rise was known 700 rows later."""
    rise = np.maximum(np.arange(2500) - 1250, 0) / 1250
    loss = falling(2500) * noisy(2500, level=1.0) * (1 + 0.15 * rise)
    (finding,) = alarms("divergence", run(loss=loss))
    assert finding.known_step is not None
    assert finding.known_step < 1900
    assert alarms("divergence", run(loss=falling(2500) * noisy(2500, level=1.0))) == []


@pytest.mark.parametrize(("seed", "by"), [(2, 1500), (4, 1610)])
def test_a_clear_slope_is_said_before_the_level_is_far_above_the_best(seed: int, by: int) -> None:
    rise = np.maximum(np.arange(2500) - 1250, 0) / 1250
    loss = falling(2500) * noisy(2500, level=1.0, sigma=0.04, seed=seed) * (1 + 0.2 * rise)
    (finding,) = alarms("divergence", run(loss=loss))
    assert 1250 < (finding.known_step or 0) < by


def test_trained_weights_may_get_worse_while_the_rate_warms_up() -> None:
    rows = np.arange(2400)
    bump = 0.06 * np.minimum(rows / 120, 1) * np.exp(-np.maximum(rows - 120, 0) / 350)
    loss = noisy(2400, level=2.0, sigma=0.01) * (1 + bump) * (1 - 0.06 * (rows / 2400) ** 0.6)
    lr = 3e-4 * np.minimum((rows + 1) / 120, 1)
    assert alarms("divergence", run(loss=loss, lr=lr)) == []
    assert alarms("no_learning", run(loss=loss, lr=lr)) == []
    assert alarms("divergence", run(loss=loss[:180], lr=lr[:180])) == []


@pytest.mark.parametrize("seed", [0, 1, 3, 4])
def test_no_fall_is_told_in_large_noise_when_there_are_many_rows_and_lone_low_rows_do_not_end_it(seed: int) -> None:
    flat = noisy(6000, level=8.7, sigma=0.13, seed=seed)
    (finding,) = alarms("no_learning", run(loss=flat, lr=np.full(6000, 1e-4)))
    assert (str(finding.severity), finding.last_step) == ("critical", None)
    fast = flat * (0.8 + 0.2 * np.exp(-np.arange(6000) / 60))
    assert alarms("no_learning", run(loss=fast, lr=np.full(6000, 1e-4))) == []


def test_a_beginning_without_a_fall_is_only_noted_when_it_was_a_small_part_of_the_run() -> None:
    loss = np.r_[noisy(40, level=10.8, sigma=0.01), falling(3000) * noisy(3000, level=1.0)]
    assert [str(finding.severity) for finding in found("no_learning", run(every=10, loss=loss))] == ["info"]
    noise = noisy(1200, level=2.3, sigma=0.15)
    assert "info" not in [str(finding.severity) for finding in found("no_learning", run(every=10, loss=noise))]
    late = np.r_[noisy(900, level=10.8, sigma=0.01), falling(1200) * noisy(1200, level=1.0)]
    assert [str(finding.severity) for finding in found("no_learning", run(every=10, loss=late))] == ["warning"]


def test_rows_that_share_their_noise_do_not_dip() -> None:
    rng, shared = np.random.default_rng(8), np.zeros(4000)
    for row in range(1, 4000):
        shared[row] = 0.9 * shared[row - 1] + 0.03 * rng.standard_normal()
    loss = 2.5 * np.exp(shared + 0.02 * rng.standard_normal(4000))
    assert alarms("dip", run(loss=loss)) == []
    loss[2000:2030] *= 0.55
    assert [finding.first_step for finding in alarms("dip", run(loss=loss))] == [2001]


def test_a_steep_beginning_does_not_hide_a_dip() -> None:
    loss = falling(800) * noisy(800, level=1.0)
    loss[470:520] *= 0.92
    assert alarms("dip", run(loss=loss))


def test_trained_weights_that_lost_much_in_a_warm_up_regain_it_first() -> None:
    rows = np.arange(1200)
    bump = 0.03 * np.minimum(rows / 60, 1) * np.exp(-np.maximum(rows - 60, 0) / 180)
    loss = noisy(1200, level=2.0, sigma=0.012) * (1 + bump) * (1 - 0.06 * (rows / 1200) ** 0.8)
    lr = 3e-4 * np.minimum((rows + 1) / 60, 1)
    assert alarms("no_learning", run(every=50, loss=loss, lr=lr)) == []
    flat = noisy(1200, level=2.0, sigma=0.012)
    assert alarms("no_learning", run(every=50, loss=flat, lr=lr))


def test_a_fine_tuning_that_is_flat_after_a_quick_fall_is_only_noted() -> None:
    rows = np.arange(1500)
    fall = np.exp(-rows / 12)
    lr = 1e-4 * np.minimum((rows + 1) / 20, 1)
    tuned = run(loss=noisy(1500, level=1.0, sigma=0.05) * (1 + 0.6 * fall), lr=lr)
    assert [str(finding.severity) for finding in found("plateau", tuned)] == ["info"]
    untrained = run(loss=noisy(1500, level=7.0, sigma=0.05) * (1 + 0.6 * fall), lr=lr)
    assert alarms("plateau", untrained)


def test_where_a_sudden_drop_landed_is_no_plateau() -> None:
    loss = falling(1600) * noisy(1600, level=1.0)
    loss[600:] = noisy(1000, level=0.4 * float(loss[600]))
    lr = np.full(1600, 3e-4)
    assert alarms("dip", run(loss=loss, lr=lr))
    assert alarms("plateau", run(loss=loss, lr=lr)) == []


def test_a_loss_that_fell_and_then_rose_for_good_has_learned_and_one_that_rises_does_not_fall_slowly() -> None:
    rate = np.full(1500, 5e-4)
    fell = np.r_[np.linspace(8.7, 5.0, 300), np.linspace(5.0, 20.0, 1200)]
    assert alarms("no_learning", run(loss=noisy(1500, level=1.0) * fell, lr=rate)) == []
    rises = alarms("no_learning", run(loss=noisy(1500, level=8.7) * np.linspace(1, 2.0, 1500), lr=rate))
    assert len(rises) == 1
    assert "falls" not in rises[0].title.render()
