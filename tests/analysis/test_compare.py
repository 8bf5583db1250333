"""Comparisons: what differs, what may be said, how large the difference is, what became of the runs."""

import json
import math
import re
from dataclasses import replace

import numpy as np
import pytest

from analysis.compare.align import Aligned, aligned, common_axes
from analysis.compare.as_dict import as_dict
from analysis.compare.comparison import compare
from analysis.compare.conditions import conditions, rounded, same
from analysis.compare.config_diff import DIFFERENT, EQUAL, UNKNOWN, config_diff
from analysis.compare.difference import Difference, difference, paired_digits, sentence, student_quantile
from analysis.compare.expected import rules
from analysis.compare.group import groups
from analysis.compare.judged import Judged, judged
from analysis.compare.state import parting
from analysis.compare.subject import Curve
from analysis.compare.target import Target, target_of
from analysis.diagnose import diagnose
from analysis.simulate import simulate
from messages import Text
from tests.analysis.compare_lab import law, noisy, run, steps_of


def codes(told) -> set[str]:
    return {reason.code for reason in told.fair.reasons}


# What differs


@pytest.mark.parametrize(
    ("one", "other", "alike"),
    [
        (5e-4, "0.0005", True),
        (True, 1, True),
        ("None", "none", True),
        (0.1, [0.1], False),
        ("cosine", "Cosine ", True),
        (1, 2, False),
        ("nan", float("nan"), True),
    ],
)
def test_settings_mean_the_same_whatever_their_type(one, other, alike):
    assert same(one, other) is alike


def test_the_effective_batch_is_batch_times_accumulation_times_devices():
    one = run("a", config={"batch_size": 8, "gradient_accumulation_steps": 4, "world_size": 2})
    other = run("b", config={"per_device_train_batch_size": 16, "accumulation_steps": 2, "num_gpus": 2})
    assert conditions(one)["effective_batch"].value == conditions(other)["effective_batch"].value == 64
    told = compare([one, other])
    assert told.fair.by_step
    assert "batch" not in codes(told)


def test_without_a_number_of_devices_the_effective_batch_is_not_guessed():
    assert "effective_batch" not in conditions(run("a", config={"batch_size": 8}))


def test_a_tensor_parallel_job_shares_its_batch_among_fewer_devices():
    one = run(
        "a",
        config={"micro_batch_size": 4, "world_size": 64, "tensor_model_parallel_size": 4, "pipeline_model_parallel_size": 8},
    )
    assert conditions(one)["effective_batch"].value == 8


def test_a_log_without_a_header_tells_its_conditions_by_its_numbers():
    lr = 5e-4 * (1 + np.cos(np.pi * steps_of(400) / 4000)) / 2
    said = conditions(run("a", lr=lr, steps_per_epoch=4000))
    assert said["lr"].value == 5e-4
    assert said["schedule"].value == "cosine"
    assert said["steps_per_epoch"].value == 4000
    assert said["lr"].source == "log"


@pytest.mark.parametrize(("seen", "typed"), [(4.9989e-4, 5e-4), (2.9993e-4, 3e-4), (1.234e-3, 1.23e-3), (0.04998873, 0.05)])
def test_a_peak_is_the_rate_that_somebody_typed(seen, typed):
    assert rounded(seen) == pytest.approx(typed)


def differing(subjects):
    return config_diff(subjects, [conditions(one) for one in subjects])


def test_classes_and_groups_are_equal_different_or_unknown():
    config = {"batch_size": 8, "max_seq_len": 512, "dtype": "bfloat16", "seed": 1, "gpu": "A100"}
    diff = differing([run("a", config=config), run("b", config={**config, "dtype": "float32", "gpu": "A100"})])
    status = {name: found for name, (found, _what) in diff.six.items()}
    assert status == {
        "scale": EQUAL,
        "parallel": UNKNOWN,
        "batch": EQUAL,
        "accumulation": UNKNOWN,
        "data": UNKNOWN,
        "precision": DIFFERENT,
    }
    assert diff.groups["hardware"][0] == EQUAL
    assert [row.key for row in diff.varied] == ["precision"]


def test_a_setting_that_only_one_log_prints_is_unknown_and_no_variable():
    diff = differing([run("a", config={"x": 1, "dropout": 0.1}), run("b", config={"x": 1})])
    assert [(row.key, row.status) for row in diff.rows] == [("dropout", UNKNOWN)]
    assert not diff.varied
    assert diff.equal == 1


def test_nested_settings_compare_by_their_whole_name():
    diff = differing([run("a", config={"model/act": "gelu"}), run("b", config={"model/act": "silu"})])
    assert [(row.key, row.values) for row in diff.varied] == [("model/act", ("gelu", "silu"))]


def test_folders_and_names_are_no_variables_and_families_count_once():
    one = {"output_dir": "x", "run_name": "p", "deepspeed": False, "zero_stage": 1, "deepspeed_config": "a"}
    other = {"output_dir": "y", "run_name": "q", "deepspeed": True, "zero_stage": 0, "deepspeed_config": "b"}
    varied = differing([run("a", config=one), run("b", config=other)]).varied
    assert [row.title for row in varied] == ["DeepSpeed"]


def test_parameters_follow_from_layers_and_are_no_variable_of_their_own():
    one, other = ({"num_layers": n, "model_params": 10_000_000 * n} for n in (4, 8))
    varied = differing([run("a", config=one), run("b", config=other)]).varied
    assert [row.key for row in varied] == ["layers"]


def test_a_condition_added_by_hand_counts_like_one_in_the_log():
    told = compare([run("a", given={"dataset": "one"}), run("b", given={"dataset": "two"})])
    assert not told.fair.absolute
    assert "differs_dataset" in codes(told)


def test_ten_thousand_settings_and_types_that_clash_are_compared():
    one = {f"key_{n}": n for n in range(10_000)}
    other = {f"key_{n}": (str(n) if n % 3 else [n]) for n in range(10_000)}
    told = compare([run("a", config=one), run("b", config=other)])
    assert len(told.diff.rows) == 500
    assert told.diff.more > 2000
    assert told.diff.variables == told.diff.more + len(told.diff.rows)
    said = next(reason for reason in told.fair.reasons if reason.code == "several_variables").text.render()
    assert f"in {told.diff.variables:,} variables" in said
    json.dumps(as_dict(told), default=str)


# May one say so


@pytest.mark.parametrize(
    ("key", "code"),
    [("vocab_size", "differs_vocabulary"), ("max_seq_len", "differs_sequence"), ("label_smoothing", "differs_loss_definition")],
)
def test_what_changes_the_meaning_of_the_level_bars_it(key, code):
    told = compare([run("a", config={key: 1024}), run("b", config={key: 2048})])
    assert not told.fair.absolute
    assert told.view.relative
    assert code in codes(told)


def test_other_data_bars_the_level_and_relative_falls_are_compared():
    a = run("a", noisy(steps_of(600), seed=1), config={"dataset": "x"})
    b = run("b", 1.2 * noisy(steps_of(600), seed=2), config={"dataset": "y"})
    told = compare([a, b])
    assert told.verdict == "not_distinguishable"
    assert abs(told.pairs[0].differences["step"].relative) < 0.03


@pytest.mark.parametrize(("times", "verdict"), [(15, "better"), (25, "refused")])
def test_losses_that_lie_as_far_apart_as_no_configuration_sets_them_are_refused(times, verdict):
    a = run("a", noisy(steps_of(600), seed=1), config={"lr": 1e-4})
    b = run("b", noisy(steps_of(600), seed=2) / times, config={"lr": 5e-5})
    told = compare([a, b])
    assert told.verdict == verdict
    assert ("25 times the other" in told.pairs[0].text.render()) == (verdict == "refused")


def test_steps_of_other_batches_are_refused_and_samples_offered():
    a = run("a", config={"global_batch_size": 128}, lr=5e-4)
    b = run("b", config={"global_batch_size": 32}, lr=5e-4)
    told = compare([a, b], axis="step")
    assert told.verdict == "refused"
    assert not told.comparable
    assert "samples" in told.view.axes
    assert compare([a, b]).view.axis == "samples"
    assert "lr_not_scaled" in codes(told)


def test_other_steps_an_epoch_are_another_batch_or_other_data():
    told = compare([run("a", steps_per_epoch=1000, lr=5e-4), run("b", steps_per_epoch=4000, lr=5e-4)], axis="step")
    assert told.verdict == "refused"
    assert "steps an epoch 4,000, there 1,000: another batch or other data" in told.sentence.render()
    assert "lr_not_scaled" not in codes(told)
    assert compare([told.sides[0].subject, told.sides[1].subject]).view.axis == "epochs"


def test_more_than_one_variable_is_said():
    told = compare([run("a", config={"lr": 1e-3, "dropout": 0.0}), run("b", config={"lr": 2e-3, "dropout": 0.1})])
    assert not told.fair.single
    assert "several_variables" in codes(told)


def test_runs_of_other_programs_with_unknown_data_have_no_one_cause_and_no_common_level():
    programs = [run("a", program="Megatron-LM", lr=1e-3), run("b", program="MiniMind", lr=2e-3)]
    told = compare(programs)
    assert not told.fair.single
    assert not told.fair.absolute
    assert "other_program" in codes(told)
    assert "one_variable" not in codes(told)
    assert "other_program" in codes(compare([run("a", program="MiniMind", lr=1e-3), run("b", lr=2e-3)]))
    same = compare([run("a", program="MiniMind", lr=1e-3), run("b", program="MiniMind", lr=2e-3)])
    assert same.fair.single
    known = {"dataset": "x", "vocab_size": 100}
    told = compare([run("a", program="Megatron-LM", config=known), run("b", program="MiniMind", config=known)])
    assert told.fair.absolute


def test_a_baseline_made_with_another_parallelism_is_stale():
    told = compare(
        [run("a", config={"tensor_model_parallel_size": 1}), run("b", config={"tensor_model_parallel_size": 2})],
        is_baseline=True,
    )
    assert "stale_baseline" in codes(told)


def test_other_logging_intervals_are_noted_and_compared():
    a = run("a", law(steps_of(400, 10)), every=10, lr=1e-3)
    b = run("b", law(steps_of(40, 100), shift=-0.1), every=100, lr=2e-3)
    told = compare([a, b])
    assert "logging_interval" in codes(told)
    assert told.verdict == "better"


def test_an_auxiliary_loss_in_only_one_of_the_totals_bars_the_level():
    assert "aux_loss" in codes(compare([run("a", aux_loss=0.02), run("b", aux_loss=0.0)]))


def test_a_mean_over_the_epoch_is_not_compared_with_single_values():
    rows = 400
    epoch = np.arange(rows) // 100 + 1
    values = law(steps_of(rows)) * np.exp(0.1 * np.random.default_rng(3).standard_normal(rows))
    mean = np.concatenate([np.cumsum(part) / np.arange(1, 101) for part in values.reshape(-1, 100)])
    told = compare([run("a", mean, epoch=epoch), run("b", values, epoch=epoch)])
    assert "window_average" in codes(told)
    assert not told.fair.absolute


def test_an_evaluation_loss_is_another_kind_than_a_training_loss():
    told = compare([run("a"), run("b", np.full(400, np.nan), eval_loss=law(steps_of(400)))])
    assert told.verdict == "refused"
    assert [(reason.code, reason.level) for reason in told.fair.reasons[:1]] == [("another_loss", "refuse")]
    assert "another kind of loss (the evaluation loss) than a (the training loss)" in told.sentence.render()
    both = compare([run("a", eval_loss=law(steps_of(400))), told.sides[1].subject])
    assert (both.view.metric, codes(both) & {"another_loss"}) == ("eval_loss", set())


def test_a_run_with_another_kind_of_loss_leaves_the_others_compared():
    evaluated = run("b", np.full(400, np.nan), eval_loss=law(steps_of(400)), lr=1e-3)
    told = compare([run("a", lr=1e-3, eval_loss=3.0), evaluated, run("c", law(steps_of(400), shift=0.1), lr=2e-3)])
    assert (told.view.metric, [pair.kind for pair in told.pairs][1]) == ("loss", "worse")


# How large the difference is


@pytest.mark.parametrize(
    ("value", "error", "printed"),
    [(3.123, 0.41, (3.1, 0.4)), (24.2, 1.3, (24.2, 1.3)), (35.2, 18.0, (35, 18)), (0.0, 0.0, (0, 0))],
)
def test_a_value_is_printed_as_exactly_as_its_error(value, error, printed):
    assert paired_digits(value, error) == printed


@pytest.mark.parametrize(("freedom", "quantile"), [(1, 12.7062), (2, 4.3027), (4.1, 2.7499), (10, 2.2281), (1000, 1.9623)])
def test_quantiles_of_students_t(freedom, quantile):
    assert student_quantile(0.975, freedom) == pytest.approx(quantile, abs=2e-4)


def test_a_difference_of_three_percent_is_found_with_its_size():
    steps = steps_of(1000)
    told = compare([run("a", noisy(steps, seed=1), lr=1e-3), run("b", noisy(steps, shift=0.03, seed=2), lr=2e-3)])
    found = told.pairs[0].differences["step"]
    assert told.pairs[0].kind == "worse"
    low, high = found.interval
    assert low < 0.03 < high
    assert found.relative == pytest.approx(0.03, abs=0.01)
    assert told.sentence.render().startswith("a is better than b by 3")
    assert told.sentence.render().endswith("at equal steps")


@pytest.mark.parametrize(("shift", "said"), [(0.1, "8.9 % ± 0.7"), (0.5, "33"), (1.4, "a factor of 2.39")])
def test_a_lower_loss_is_said_as_it_can_be_whichever_run_is_the_base(shift, said):
    a = run("a", noisy(steps_of(600), seed=1), config={"lr": 1e-3})
    b = run("b", noisy(steps_of(600), shift=shift, seed=2), config={"lr": 2e-3})
    told, turned = compare([a, b]), compare([a, b], base=1)
    assert told.sentence.render() == turned.sentence.render()
    assert told.sentence.render().startswith(f"a is better than b by {said}")
    verdict, other = as_dict(told)["verdict"], as_dict(turned)["verdict"]
    assert verdict["percent"] == pytest.approx(100 * (1 - 1 / (1 + shift)), abs=1)
    assert verdict["error"] < 2
    assert (verdict["kind"], other["kind"]) == ("worse", "better")
    assert verdict | {"kind": ""} == other | {"kind": ""}


def test_an_interval_that_is_wide_is_no_percentage_either():
    found = Difference("step", "loss", -math.log(9), math.log(3.1), 30, True, True)
    assert found.amount.render() == "a factor of 9 (2.9 to 28)"


@pytest.mark.parametrize("averages", [False, True])
def test_an_interval_that_says_nothing_is_no_amount(averages):
    found = Difference("step", "loss", 0.0, math.log(577), 300, False, None, averages=averages)
    said = sentence(found, ("a", "b")).render()
    assert "not distinguishable" in said
    assert "factor" not in said
    assert not re.search(r"\d", said.replace("300", ""))
    assert found.hidden
    assert not Difference("step", "loss", 0.0, 0.05, 300, False, None).hidden


@pytest.mark.parametrize(("config", "kind"), [({"batch_size": 8, "lr": 1e-3}, "repeats"), ({}, "unexplained")])
def test_runs_apart_that_nothing_tells_apart_are_repeats_only_if_both_say_what_they_are(config, kind):
    steps = steps_of(1000)
    told = compare([run("a", noisy(steps, seed=1), config=config), run("b", noisy(steps, shift=0.03, seed=2), config=config)])
    assert told.verdict == told.pairs[0].kind == kind
    assert "nothing in the logs tells the two apart" in told.sentence.render()
    assert ("nothing_known" in codes(told)) == (kind == "unexplained")


def test_runs_apart_without_a_cause_are_not_counted_as_not_distinguishable():
    steps = steps_of(1000)
    runs = [run("a", noisy(steps, seed=1)), *(run(name, noisy(steps, shift=0.05, seed=n)) for n, name in enumerate("bc", 2))]
    told = compare(runs)
    assert told.verdict == "unexplained"
    assert told.sentence.render() == (
        "no run is better than a: 0 not distinguishable; apart from it, and nothing in the logs says why: 2"
    )


def test_no_difference_is_not_distinguishable():
    steps = steps_of(1000)
    told = compare([run("a", noisy(steps, seed=1)), run("b", noisy(steps, seed=2))])
    assert told.verdict == "not_distinguishable"


@pytest.mark.parametrize("rows", [60, 300, 2000])
def test_better_is_seldom_said_of_runs_that_are_equal(rows):
    claims = 0
    for seed in range(120):
        y = np.log([noisy(steps_of(rows), sigma=0.03, seed=[seed, n]) for n in (0, 1)])
        y = y if rows < 400 else y.reshape(2, 400, -1).mean(axis=2)
        claims += difference(Aligned("loss", "step", np.arange(y.shape[1]), y, True, (rows, rows)), 0, 1).distinguishable
    assert claims <= 12  # 5 % of 120 is 6; more than 12 of them comes once in a hundred times


@pytest.mark.parametrize("past", [0.9, 0.99])
@pytest.mark.parametrize("rows", [100, 400])
def test_averages_that_were_printed_are_no_independent_points(rows, past):
    claims, said = 0, 0
    for seed in range(40):
        y = np.log([noisy(steps_of(rows), sigma=0.03, seed=[seed, n]) for n in (0, 1)])
        for place in range(1, rows):
            y[:, place] = past * y[:, place - 1] + (1 - past) * y[:, place]
        found = difference(Aligned("loss", "step", np.arange(rows), y, True, (rows, rows)), 0, 1)
        claims, said = claims + found.distinguishable, said + found.averages
    assert claims <= 4  # 5 % of 40 is 2
    assert said >= 8  # of the rest the noise is told by its correlation


def test_a_difference_of_averages_says_why_it_is_not_told():
    y = np.log([noisy(steps_of(200), sigma=0.03, seed=n) for n in (0, 1)])
    for place in range(1, 200):
        y[:, place] = 0.95 * y[:, place - 1] + 0.05 * y[:, place]
    found = difference(Aligned("loss", "step", np.arange(200), y, True, (200, 200)), 0, 1)
    assert "the printed losses are averages, and 200 such points are too few" in sentence(found, ("a", "b")).render()


def test_repeats_at_hand_widen_the_intervals():
    steps = steps_of(600)
    repeats = [run(f"r{n}", noisy(steps, shift=0.03 * n, seed=n), lr=5e-4, config={"batch_size": 8}) for n in range(4)]
    other = run("o", noisy(steps, shift=-0.02, seed=9), lr=1e-3, config={"batch_size": 8})
    told = compare([*repeats, other])
    assert told.repeats == 6
    assert told.view.spread > 0.03
    assert told.pairs[-1].kind == "not_distinguishable"


@pytest.mark.parametrize("rise", [np.geomspace(1, 200, 400), np.r_[np.ones(200), np.full(200, np.nan)]])
def test_a_repeat_that_broke_down_says_nothing_of_how_far_repeats_lie_apart(rise):
    steps = steps_of(400)
    sound = [run(f"a{n}", noisy(steps, seed=n), lr=5e-4, config={"batch_size": 8}) for n in range(2)]
    other = run("b", noisy(steps, shift=-0.1, seed=9), lr=1e-3, config={"batch_size": 8})
    broken = run("a3", noisy(steps, seed=3) * rise, lr=5e-4, config={"batch_size": 8})
    without, told = compare([*sound, other]), compare([*sound, other, broken])
    assert (told.broken, told.repeats) == ({"a3"}, 1)
    assert told.view.spread == without.view.spread
    assert told.winner[0] == 2
    assert compare([*sound, broken]).repeats == 0


@pytest.mark.parametrize(("rows", "verdict"), [(3, "unknown"), (5, "better")])
def test_nothing_is_claimed_that_rests_on_fewer_than_four_common_points(rows, verdict):
    a = run("a", noisy(steps_of(rows, 100), shift=0.5, seed=1), every=100, lr=1e-3)
    b = run("b", noisy(steps_of(rows * 100, 1), seed=2), every=1, lr=5e-4)
    told = compare([a, b])
    assert told.verdict == verdict
    assert ("too few common points" in told.sentence.render()) == (verdict == "unknown")


def test_a_run_that_broke_after_two_points_is_worse_all_the_same():
    told = compare([run("a", lr=1e-3), run("b", [5.0, 4.9, np.nan, np.nan], lr=5e-4)])
    assert told.sentence.render() == "a is better: b broke down"
    assert as_dict(told)["verdict"]["percent"] is None


def test_curves_overlap_on_the_points_of_the_run_with_the_fewest():
    a, b = run("a", law(steps_of(100, 10))), run("b", law(steps_of(10, 100)), every=100)
    curves = aligned([a, b], [conditions(a), conditions(b)], "loss", "step")
    assert isinstance(curves, Aligned)
    assert curves.x.tolist() == steps_of(10, 100).tolist()
    assert np.abs(curves.y[0] - curves.y[1]).max() < 0.05


def test_axes_are_those_that_both_logs_tell():
    a = run("a", tokens_seen=steps_of(400) * 2048.0, elapsed_seconds=steps_of(400) * 0.5)
    b = run("b", config={"global_batch_size": 4, "max_seq_len": 512})
    axes = common_axes([a, b], [conditions(a), conditions(b)])
    assert "tokens" in axes
    assert "hours" not in axes


# What became of them


def test_a_run_that_blew_up_before_its_first_line_diverged():
    loss = np.linspace(7.3, 4.5, 10)
    high = np.r_[31.0, 14.0, 8.0, np.linspace(7.6, 7.2, 7)]
    told = compare([run("a", loss, lr=5e-4), run("b", high, lr=5e-2)])
    assert [state.code for state in told.states] == ["diverged"]
    assert "0.05" in told.states[0].text.render()
    assert told.pairs[0].kind == "worse"


def test_a_run_whose_loss_keeps_rising_diverged_since_its_lowest():
    loss = np.r_[np.linspace(12, 8, 30), np.linspace(8, 20, 30)]
    told = compare([run("a", loss), run("b", np.linspace(12, 7, 60))])
    assert told.states[0].code == "diverged"
    assert 250 <= told.states[0].step <= 350
    assert told.pairs[0].kind == "better"


def test_a_run_that_became_nan_is_named():
    loss = np.linspace(7, 5, 50)
    loss[30:] = np.nan
    told = compare([run("a", np.linspace(7, 5, 50)), run("b", loss)])
    assert told.states[0].code == "not_finite"
    assert told.states[0].step == 310


def test_a_slow_fall_and_slow_steps_are_named():
    a = run("a", np.linspace(7.3, 4.5, 40), lr=5e-4, step_time_seconds=0.2)
    b = run("b", np.linspace(7.3, 6.2, 40), lr=5e-3, step_time_seconds=14.0)
    states = {state.code: state for state in compare([a, b]).states}
    assert set(states) == {"slow_fall", "slow_step"}
    assert "on the x axis “Step”" in states["slow_fall"].text.render()  # by the clock it may be another


def _slow(**second):
    """Return what is said of a run whose steps take four times as long as those of two others; second: what it prints."""
    sizes = {"model_params": 10e6, "global_batch_size": 32}
    others = [run(name, config=sizes, step_time_seconds=0.1) for name in "ab"]
    told = compare([*others, run("c", config=sizes | second, step_time_seconds=0.4)])
    return [state.text.render() for state in told.states if state.code == "slow_step"]


def test_a_larger_model_is_not_called_slow():
    assert _slow()[0].startswith("c is slow: for what it computes, a step takes 4× as long as usual among these runs (0.4 s)")
    assert _slow(model_params=40e6) == []
    assert _slow(model_params="12M")[0].startswith("c is slow: for what it computes, a step takes 3.3×")
    assert _slow(global_batch_size=128) == []
    assert _slow(model_params=1e6)[0].startswith("c is slow")


def test_a_slow_step_tells_what_may_explain_it():
    assert _slow()[0].endswith("not all logs say what may explain it: Sequence length, GPUs")
    assert "is slow" not in _slow(model_params=None)[0]
    assert _slow(model_params=None)[0].endswith("what may explain it: Parameters, Sequence length, GPUs")


def test_where_curves_part_is_located():
    base = law(steps_of(100))
    other = base * np.r_[np.ones(40), np.linspace(1, 1.4, 60)]
    a, b = run("a", base), run("b", other)
    curves = aligned([a, b], [conditions(a), conditions(b)], "loss", "step")
    found = parting(curves, 0, 1, ("a", "b"))
    assert 400 < found.first <= 450
    assert 400 < found.lasting <= 480


def test_curves_that_differ_at_their_last_points_are_not_said_to_stay_apart():
    base = law(steps_of(100))
    other = base * np.r_[np.ones(99), 1.3]
    a, b = run("a", base), run("b", other)
    curves = aligned([a, b], [conditions(a), conditions(b)], "loss", "step")
    found = parting(curves, 0, 1, ("a", "b"))
    assert (found.first, found.lasting) == (1000, None)
    assert found.text.render().endswith("they are apart from 1000 on, too few points to say that they stay so")


@pytest.mark.parametrize(
    ("printed", "ending"),
    [
        ({"steps_per_epoch": 40_000}, "over the first 10 % of an epoch only"),
        ({"total_steps": 16_000}, "over the first 25 % of the plan only"),
        ({"steps_per_epoch": 5_000, "total_steps": 50_000}, "at equal steps"),
        ({}, "at equal steps"),
    ],
)
def test_what_holds_for_a_small_part_of_an_epoch_says_so(printed, ending):
    plan = printed.pop("total_steps", None)
    runs = [run(name, shift, lr=rate, total_steps=plan, **printed) for name, shift, rate in _three_apart()]
    assert compare(runs[:2]).sentence.render().endswith(ending)
    assert compare(runs).sentence.render().endswith(ending.replace("at equal steps", "2 worse, 0 not distinguishable"))


def test_a_condition_of_one_run_is_said_of_that_run_alone():
    runs = [run(name, loss, lr=rate, total_steps=8_000) for name, loss, rate in _three_apart()]
    runs[2] = run("c", runs[2].curves["loss"].value[:200], lr=3e-3, total_steps=8_000)
    told = compare(runs).sentence.render()
    assert told == "a leads: 2 worse, 0 not distinguishable (c over the first 25 % of the plan only)"


def test_conditions_stand_behind_the_runs_they_are_about_and_not_behind_those_of_which_nothing_is_told():
    runs = [run(name, loss, lr=rate, total_steps=8_000) for name, loss, rate in _three_apart()]
    runs[2] = run("c", runs[2].curves["loss"].value[:200], lr=3e-3, total_steps=8_000)
    told = compare([*runs, run("d", [5.0], total_steps=8_000)]).sentence.render()
    assert told == "a leads: 2 worse, 0 not distinguishable (c over the first 25 % of the plan only); 1 can't be told"


def test_a_run_of_one_row_is_no_condition_for_the_others():
    told = compare([run(name, loss, steps_per_epoch=5_000) for name, loss in (("a", None), ("b", None), ("c", [5.0]))])
    assert "of an epoch" not in told.sentence.render()


def _three_apart():
    return [(name, noisy(steps_of(400), shift=n / 5, seed=n), 1e-3 * (n + 1)) for n, name in enumerate("abc")]


def test_restarts_are_stitched():
    first, second = law(np.arange(1, 61) * 10.0), law(np.arange(41, 101) * 10.0)
    steps = np.r_[np.arange(1, 61), np.arange(41, 101)] * 10
    one = run("a", np.r_[first, second], segments=np.r_[np.zeros(60), np.ones(60)].astype(int))
    # The lab numbers steps evenly; give the buckets their true ones.
    from analysis.compare.subject import subject as make

    frame = _frame(steps, np.r_[first, second], np.r_[np.zeros(60), np.ones(60)].astype(int))
    one = make("a", "a", {}, frame, launches=2)
    curve = one.curves["loss"]
    assert np.all(np.diff(curve.step) > 0)
    assert curve.step[-1] == 1000
    assert len(curve) == 100
    assert "stitched" in codes(compare([one, run("b")]))


def _frame(steps, values, segments):
    import pandas as pd

    return pd.DataFrame(
        {
            "metric": "loss",
            "segment": segments,
            "x": steps,
            "x_last": steps,
            "mean": values,
            "last": values,
            "count": 1,
            "nonfinite": 0,
        }
    )


# Expectations


def test_longer_sequences_should_take_memory():
    a = run("a", config={"max_seq_len": 512}, memory_peak_bytes=8e9)
    b = run("b", config={"max_seq_len": 1024}, memory_peak_bytes=13e9)
    found = {one.metric: one for one in compare([a, b]).pairs[0].expected}
    assert found["memory"].met is True
    assert found["step_seconds"].met is None


def test_fewer_layers_are_quicker_and_begin_higher():
    a = run("a", law(steps_of(300)), config={"num_hidden_layers": 8}, step_time_seconds=0.4)
    b = run("b", law(steps_of(300), shift=0.1), config={"num_hidden_layers": 4}, step_time_seconds=0.25)
    found = {one.metric: one for one in compare([a, b]).pairs[0].expected}
    assert found["step_seconds"].expected == "down"
    assert found["step_seconds"].met
    assert found["early_loss"].expected == "up"
    assert found["early_loss"].met


def test_compilation_costs_the_first_step_and_quickens_the_rest():
    slow, quick = np.full(100, 0.5), np.full(100, 0.4)
    slow[0], quick[0] = 1.0, 30.0
    a = run("a", law(steps_of(100, 1)), every=1, config={"use_compile": 0}, step_time_seconds=slow)
    b = run("b", law(steps_of(100, 1)), every=1, config={"use_compile": 1}, step_time_seconds=quick)
    found = {one.metric: one.met for one in compare([a, b]).pairs[0].expected}
    assert found == {"first_step_seconds": True, "step_seconds": True}


def test_several_variables_expect_nothing():
    a, b = run("a", config={"max_seq_len": 512, "lr": 1}), run("b", config={"max_seq_len": 256, "lr": 2})
    assert compare([a, b]).pairs[0].expected == ()


def test_the_table_of_expectations_names_known_conditions():
    from analysis.compare.conditions import kinds

    assert {condition for condition, _metric, _goes, _within in rules()} <= set(kinds())


def test_a_last_loss_that_can_not_be_told_apart_has_not_fallen_as_expected():
    steps = steps_of(120)
    a = run("a", noisy(steps, seed=1, sigma=0.2), config={"model_params": 8_000_000})
    b = run("b", noisy(steps, shift=-0.04, seed=2, sigma=0.2), config={"model_params": 16_000_000})
    (pair,) = compare([a, b]).pairs
    assert pair.kind == "not_distinguishable"
    found = {one.metric: one for one in pair.expected}
    assert found["last_loss"].observed is None
    assert found["last_loss"].text.render().endswith("the logs do not tell enough to say")


@pytest.mark.parametrize(("rate", "expected", "met"), [(1e-3, "down", True), (5e-3, "either", None), (5e-5, "either", None)])
def test_a_rate_far_from_the_other_has_no_expected_direction(rate, expected, met):
    a = run("a", law(steps_of(300)), config={"lr": 5e-4})
    b = run("b", law(steps_of(300), shift=-0.1), config={"lr": rate})
    (found,) = compare([a, b]).pairs[0].expected
    assert (found.metric, found.expected, found.met) == ("early_loss", expected, met)
    assert ("no expected direction" in found.text.render()) == (expected == "either")


def test_every_title_of_the_tables_can_be_translated():
    from analysis.compare.conditions import _TABLE, TITLES, kinds

    used = {kind.title for kind in kinds().values()} | {title for title, _six, _pattern in _TABLE["family"].values()}
    assert used == set(TITLES)


# Requests that can't be answered as they are


def test_one_run_alone_says_so():
    told = compare([run("a")])
    assert told.verdict == "unknown"
    assert "it takes two runs or more" in told.sentence.render()
    assert told.fair.reasons == ()
    json.dumps(as_dict(told), default=str)


def test_the_same_run_twice_says_so():
    one = run("a")
    told = compare([one, one, run("b")])
    assert len(told.sides) == 2
    assert "more than once" in told.notes[0].render()


def test_no_run_is_an_error():
    with pytest.raises(ValueError, match="no run"):
        compare([])


def test_runs_without_a_common_metric_compare_their_settings():
    a = run("a", config={"lr": 1e-3})
    from analysis.compare.subject import subject as make

    b = make("b", "b", {"lr": 2e-3}, _frame(steps_of(50), law(steps_of(50)), 0).assign(metric="reward"))
    told = compare([a, b])
    assert told.view.metric is None
    assert "no metric in common" in told.sentence.render()
    assert [row.key for row in told.diff.varied] == ["lr"]
    json.dumps(as_dict(told), default=str)


def test_runs_that_do_not_overlap_say_so():
    told = compare([run("a", law(steps_of(50))), run("b", law(steps_of(50)), first=10_000)], axis="step")
    assert told.pairs[0].kind == "unknown"
    assert "overlap" in told.pairs[0].text.render()


def test_a_growing_run_is_compared_as_far_as_it_is():
    told = compare([run("a"), run("b", rows=100, growing=True)])
    assert "growing" in codes(told)
    assert told.pairs[0].differences["step"].points == 100


def test_more_runs_than_fit_are_cut_and_said():
    told = compare([run(f"r{n}", rows=8) for n in range(60)], base=59)
    assert len(told.sides) == 51
    assert told.sides[told.base].name == "r59"
    assert "too many" in told.notes[0].render()


def test_losses_that_are_not_positive_are_compared_as_they_are():
    steps = steps_of(200)
    a, b = run("a", np.sin(steps)), run("b", np.sin(steps) + 1)
    told = compare([a, b])
    assert not told.fair.absolute
    json.dumps(as_dict(told), default=str)


@pytest.mark.parametrize("values", [[], [math.nan] * 5, [math.inf, 1.0, 2.0], [0.0, 0.0, 0.0], [1e308, 1e-308, 5.0]])
def test_absurd_losses_do_not_break_a_comparison(values):
    values = np.array(values, dtype=float)
    told = as_dict(compare([run("a"), run("b", values)]))
    assert set(told) >= {"differs", "comparable", "reasons", "metrics", "verdict"}
    assert json.loads(json.dumps(told, default=str))["verdict"]


def test_groups_are_runs_that_nothing_tells_apart():
    config = {"batch_size": 8}
    runs = [run("a", lr=5e-4, config=config), run("b", lr=1e-3, config=config), run("c", lr=5e-4, config={**config, "seed": 2})]
    assert groups(runs, [conditions(one) for one in runs]) == [(0, 2), (1,)]


def test_runs_of_different_programs_are_no_repeats():
    config = {"lr": 1e-3, "batch_size": 8}
    told = compare([run("a", config=config, program="MiniMind"), run("b", config=config), run("c", config=config)])
    assert told.groups == ((0,), (1, 2))


def test_runs_that_state_nothing_are_no_repeats():
    runs = [run("a"), run("b")]
    assert groups(runs, [conditions(one) for one in runs]) == [(0,), (1,)]


def test_every_sentence_can_be_rendered():
    told = compare([run("a", config={"global_batch_size": 8}), run("b", config={"global_batch_size": 4}), run("c")])
    texts = [told.sentence, *told.notes, *(r.text for r in told.fair.reasons), *(p.text for p in told.pairs)]
    assert all(isinstance(text, Text) and "{" not in text.render() for text in texts)


def test_a_loss_of_another_task_is_no_divergence():
    a, b = run("a", np.linspace(2.3, 0.9, 40)), run("b", np.linspace(7.3, 4.5, 40))
    assert compare([a, b]).states == ()


# What the diagnosis and the ledger say of a run


def rising() -> list:
    return [run("a", np.r_[np.linspace(12, 8, 30), np.linspace(8, 20, 30)]), run("b", np.linspace(12, 7, 60))]


def test_a_divergence_is_told_as_the_diagnosis_tells_it():
    said = Text("Loss rises since step {step}", {"step": 333})
    told = compare(rising(), judged={"a": Judged(since=333, said=said), "b": Judged()})
    assert [(state.code, state.run, state.step) for state in told.states] == [("diverged", "a", 333)]
    assert told.states[0].text.render() == "a diverged: Loss rises since step 333"
    assert told.pairs[0].kind == "better"


def test_a_run_that_was_judged_not_to_have_diverged_did_not():
    assert not any(state.code == "diverged" for state in compare(rising(), judged={"a": Judged()}).states)


def test_where_no_rule_could_judge_it_the_comparison_names_the_lowest_level_as_what_it_is():
    told = compare(rising(), judged={"a": Judged(assessed=False)})
    assert "its loss was lowest" in told.states[0].text.render()


def test_the_productive_share_is_that_of_the_ledger():
    told = compare(rising(), judged={"a": Judged(goodput=0.25)})
    assert [one.goodput for one in told.numbers] == [0.25, None]


def test_a_kept_diagnosis_tells_whether_a_loss_went_up_for_good():
    kept = simulate(rows=2000, seed=7, fault="divergence")
    found = diagnose([kept.segment]).to_dict()
    first = next(one["first_step"] for one in found["findings"] if one["class"] == "divergence")
    assert judged(found, kept.segment.number, 0.5) == Judged(0.5, first, judged(found, 0, None).said, True)
    assert judged(found, kept.segment.number + 1, None).said is None  # another launch
    blind = {"findings": [], "not_assessable": [{"rule": "divergence"}]}
    assert judged(blind, 0, None) == Judged(assessed=False)


# What it took


def test_a_target_is_a_loss_or_a_share_of_the_first():
    assert target_of("4.5") == Target(4.5)
    assert target_of(" 60 % ") == target_of("60%") == target_of("60％") == Target(0.6, of_first=True)
    assert target_of("") is target_of(None) is target_of("  ") is None
    for bad in ("x", "-1", "0", "nan", "inf", "1e999", "5 5", "%", "6" * 60, "٣"):
        with pytest.raises(ValueError, match="no loss to reach"):
            target_of(bad)


def test_what_it_took_is_about_the_fall_where_levels_do_not_compare():
    """Twice the loss at every step, as another vocabulary has it: the same share of the first is reached at the same step."""
    steps = steps_of(400)
    a = run("a", law(steps), config={"vocab_size": 100})
    b = run("b", 2 * law(steps), config={"vocab_size": 900})
    told = compare([a, b])
    assert told.target is not None
    assert told.target.of_first
    ends = [one.reached["step"][1] for one in told.numbers]
    assert ends[0] == pytest.approx(ends[1], rel=1e-6)
    most = compare([a, b], reach=Target(0.6, of_first=True)).numbers
    early = law(steps) <= 0.6 * law(steps)[0]
    assert most[0].reached["step"][1] == pytest.approx(steps[early][0], abs=2 * 10)
    assert compare([a, b], reach=Target(1e-3)).numbers[0].reached == {}


def test_a_place_on_an_axis_of_whole_numbers_is_one():
    """Means over a bucket stand at half steps."""
    a = run("a", law(steps_of(300)), first=5)
    b = run("b", law(steps_of(300), shift=0.1), first=5)
    moved = [replace(one, curves={"loss": Curve(one.curves["loss"].step + 0.5, *_rest(one.curves["loss"]))}) for one in (a, b)]
    told = compare(moved).pairs[0].parting
    assert "Step 6 " in told.text.render() or "Step 5 " in told.text.render()


def _rest(curve: Curve) -> tuple[np.ndarray, np.ndarray]:
    return curve.value, curve.count


def test_one_line_is_neither_an_early_nor_a_last_loss():
    a, b = run("a", law(steps_of(50)), config={"lr": 1e-3}), run("b", law(steps_of(1)), config={"lr": 1e-2})
    assert {one.observed for one in compare([a, b]).pairs[0].expected if "loss" in one.metric} <= {None}


# What is not above zero, not finite, or not there


def test_a_difference_of_rewards_is_told_in_their_units():
    """A reward of 2 beside one of 1 is no percentage."""
    wave = 0.01 * np.sin(np.arange(200.0))
    told = compare([run(name, level + wave, metric="reward", config={"lr": level}) for name, level in (("a", 1), ("b", 2))])
    assert told.sentence.render().startswith("b is better than a by 1.0")
    assert "%" not in told.sentence.render()
    verdict = as_dict(told)["verdict"]
    assert verdict["percent"] is None
    assert verdict["difference"] == pytest.approx(1, abs=0.01)


def test_a_loss_below_zero_has_no_fall_relative_to_its_start():
    told = compare([run("a"), run("b", -noisy(steps_of(400)))])
    assert told.verdict == "unknown"
    assert "no fall relative to its start" in told.sentence.render()


def test_a_loss_that_was_never_a_number_is_printed_all_the_same():
    told = compare([run("a"), run("b", np.full(400, np.nan)), run("c")])
    assert [(state.code, state.run) for state in told.states] == [("not_finite", "b")]
    said = [reason.text.render() for reason in told.fair.reasons]
    assert "b prints no finite loss" in said
    assert "b prints no loss" not in said
    assert "b prints no finite loss" in told.pairs[0].text.render()


def test_where_nothing_can_be_told_the_reason_is_the_sentence_and_stands_there_once():
    told = compare([run("a", metric="reward", loss=np.arange(50.0)), run("b"), run("c")])
    assert told.verdict == "unknown"
    assert "no metric in common" in told.sentence.render()
    assert told.notes == ()


def test_a_choice_that_the_runs_do_not_allow_is_said():
    notes = [note.render() for note in compare([run("a"), run("b")], axis="hours", metric="kl").notes]
    assert any("kl: loss is compared" in note for note in notes)
    assert any("(Hours): they are compared over Step" in note for note in notes)
    assert compare([run("a"), run("b")], axis="step", metric="loss").notes == ()


def averages(seed: int, rows: int = 10) -> np.ndarray:
    """Return a loss of ten lines behind a long exponential average that was begun at its first row."""
    raw = noisy(steps_of(rows), sigma=0.03, seed=seed)
    out = [raw[0]]
    for value in raw[1:]:
        out.append(0.98 * out[-1] + 0.02 * value)
    return np.array(out)


def test_ten_averages_of_equal_runs_are_seldom_told_apart():
    """Nothing in ten points shows that they are averages; without a bound nine of ten such pairs were called different."""
    claims = 0
    for seed in range(200):
        a, b = (run(name, averages(2 * seed + n), config={"lr": n + 1}) for n, name in enumerate("ab"))
        claims += compare([a, b]).pairs[0].kind in ("better", "worse")
    assert claims <= 10
    told = compare([a, b])
    assert "below 9 % are not claimed" in next(one for one in told.fair.reasons if one.code == "few_points").text.render()


def test_few_evaluations_are_told_apart_by_their_own_noise():
    """An evaluation loss is no average over the rows before it."""
    level = np.linspace(3, 2, 12)
    told = compare([run("a", level, metric="eval_loss"), run("b", 0.95 * level, metric="eval_loss", config={"lr": 1})])
    assert told.pairs[0].differences["step"].distinguishable
    assert "few_points" not in codes(told)


def test_nothing_is_expected_of_losses_whose_levels_do_not_compare():
    """Other programs: a first loss that is higher tells nothing about the learning rate."""
    a = run("a", config={"lr": 1e-3}, program="one")
    b = run("b", 2 * law(steps_of(400)), config={"lr": 1e-4}, program="other")
    told = compare([a, b])
    assert "other_program" in codes(told)
    assert not any("loss" in one.metric and one.metric != "loss_noise" for one in told.pairs[0].expected)


@pytest.mark.parametrize(("rows", "first"), [(300, 1), (5000, 10)])
def test_the_start_of_a_long_run_is_said_to_be_a_mean(rows, first):
    steps = steps_of(500)
    one = run("a", law(steps))
    one.curves["loss"].count[:] = first
    assert compare([one, run("b")]).numbers[0].first_rows == first
