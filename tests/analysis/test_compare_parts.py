"""What stands beside a comparison: stages of a run, one GPU and several, tuning methods, sweeps, baselines."""

import numpy as np
import pytest

from analysis.compare.baseline import Baseline, beside, deltas, made_of
from analysis.compare.comparison import compare
from analysis.compare.conditions import conditions, light_conditions
from analysis.compare.curve_shape import Shape, curve_shape
from analysis.compare.methods import method_of, methods
from analysis.compare.stages import EPOCH, PHASE, THIRD, stages
from analysis.compare.sweep import LEAST, sweep
from messages import Text
from tests.analysis.compare_lab import law, noisy, run, steps_of

# Stage to stage


@pytest.mark.parametrize(("by", "count"), [(THIRD, 3), (EPOCH, 4)])
def test_a_run_is_cut_into_stages_that_fall_less_and_less(by, count):
    found = stages(run("a", law(steps_of(400)), steps_per_epoch=1000, lr=5e-4), by)
    assert len(found) == count
    assert found[0].fall > found[-1].fall > 0
    assert found[-1].last == 4000
    assert found[0].lr == 5e-4


def test_stages_may_be_the_phases_of_the_run():
    found = stages(run("a", noisy(steps_of(400), sigma=0.005)), PHASE)
    assert [one.name.template for one in found][0] == "Fast fall"


def test_a_run_without_a_loss_has_no_stages():
    assert stages(run("a", np.full(400, np.nan)), THIRD) == ()


# One GPU and several


def shape(b_loss, **columns):
    a = run("one", law(steps_of(200)), config={"world_size": 1, "batch_size": 8, "seed": 1}, **columns)
    b = run("many", b_loss, config={"world_size": 4, "batch_size": 8, "seed": 1}, **columns)
    return curve_shape(a, b, (conditions(a), conditions(b)), ("one", "many"))


def test_curves_that_fall_alike_have_the_same_shape():
    # On four GPUs a step is four times the data.
    found = shape(law(steps_of(200) * 4.0))
    assert isinstance(found, Shape)
    assert found.axis == "samples"
    assert found.score > 0.9
    assert found.suspicions == ()


def test_curves_that_do_not_are_suspected_in_the_order_data_seeds_communication():
    found = shape(np.linspace(4.3, 4.1, 200), steps_per_epoch=1000)
    assert isinstance(found, Shape)
    assert found.score < 0.9
    assert [each.cause for each in found.suspicions] == ["data", "seed", "communication"]
    assert "250" in found.suspicions[0].evidence.render()


def test_two_few_points_have_no_shape():
    assert isinstance(shape(law(steps_of(3))), Text)


# Tuning methods


@pytest.mark.parametrize(
    ("config", "method"),
    [
        ({"lora_rank": 8}, "lora"),
        ({"lora_rank": 8, "load_in_4bit": True}, "qlora"),
        ({"lora_rank": 0}, "full"),
        ({"finetuning_type": "full"}, "full"),
        ({"finetuning_type": "lora", "quantization_bit": 4}, "qlora"),
        ({"trainable params": 4_000_000, "all params": 7_000_000_000}, "lora"),
        ({"Model Params": 63_910_000, "Trainable Params": 63_912_000}, "full"),
        ({}, "full"),
    ],
)
def test_the_tuning_method_is_read_from_the_configuration(config, method):
    assert method_of(run("a", config=config))[0] == method


def test_methods_are_set_beside_full_tuning():
    runs = [
        run("f", config={"finetuning_type": "full"}, memory_peak_bytes=60e9, tokens_per_second=1000),
        run("l", config={"lora_rank": 8}, memory_peak_bytes=20e9, tokens_per_second=1500),
    ]
    told = compare(runs)
    found = methods(runs, told.numbers)
    assert found[1].memory_share == pytest.approx(1 / 3)
    assert found[1].speed_ratio == pytest.approx(1.5)
    assert methods(runs[:1], told.numbers[:1]) == ()


# Sweeps


def configs(count: int, seed: int = 0) -> list[dict]:
    rng = np.random.default_rng(seed)
    return [
        {"lr": float(10 ** rng.uniform(-5, -2)), "wd": float(rng.uniform()), "act": str(rng.choice(["gelu", "silu"])), "n": n}
        for n in range(count)
    ]


def test_a_best_rate_in_the_middle_is_found_though_its_rank_correlation_is_nothing():
    told = configs(60)
    results = [2 + (np.log10(one["lr"]) + 3.5) ** 2 + 0.1 * np.sin(37 * n) for n, one in enumerate(told)]
    found = sweep(told, results)
    assert found.keys[0].name == "lr"
    assert found.keys[0].sure
    assert found.keys[0].share > 0.5
    assert found.text.values["what"].template == "Learning rate"


def test_a_word_may_explain_the_result():
    told = configs(40)
    found = sweep(told, [2 + 0.3 * (one["act"] == "silu") + 0.05 * np.sin(11 * n) for n, one in enumerate(told)])
    assert (found.keys[0].name, found.keys[0].sure, found.keys[0].rank) == ("act", True, None)


def test_chance_explains_nothing():
    claims = 0
    for seed in range(60):
        results = np.random.default_rng(1000 + seed).normal(size=30)
        claims += any(key.sure for key in sweep(configs(30, seed), list(results)).keys)
    assert claims <= 8


def test_too_few_runs_say_so():
    found = sweep(configs(LEAST - 1), [1.0] * (LEAST - 1))
    assert found.keys == ()
    assert "too few" in found.text.render()


@pytest.mark.parametrize(("count", "said"), [(3, "and no setting varies"), (9, "no setting varies among the 9 runs")])
def test_where_no_setting_varies_nothing_is_said_to_be_drawn(count, said):
    found = sweep([{"lr": 1e-3}] * count, [2.0 + n for n in range(count)])
    assert said in found.text.render()
    assert "drawn" not in found.text.render()


def test_settings_that_vary_together_are_said_to():
    rng = np.random.default_rng(2)
    told = [{"lr": float(x), "weight_decay": float(2 * x)} for x in rng.uniform(size=30)]
    found = sweep(told, [one["lr"] + 0.01 * rng.normal() for one in told])
    assert found.keys[0].confused
    assert "can't be told apart" in found.notes[0].render()


def test_results_that_are_missing_or_not_finite_are_left_out():
    results = [float(n) for n in range(20)]
    results[3], results[4] = None, float("nan")
    assert sweep(configs(20), results).runs == 18


def test_settings_get_the_names_of_the_table():
    assert light_conditions({"learning_rate": 1e-3, "foo": 1}, 5e-4) == {"lr": 1e-3, "foo": 1}
    assert light_conditions({"foo": 1}, 4.9989e-4) == {"lr": 5e-4, "foo": 1}


# Baselines


def test_a_baseline_is_kept_and_read_back():
    made = made_of("good", [run("a", step_time_seconds=0.4, memory_peak_bytes=8e9, config={"batch_size": 8})])
    again = Baseline.from_dict("good", made.to_dict())
    assert again == made
    assert again.first == pytest.approx(law([10])[0], rel=0.1)
    assert (again.step_seconds, again.memory) == (0.4, 8e9)


def test_deltas_tell_loss_pace_and_memory_at_the_last_common_step():
    base = made_of("good", [run("a", noisy(steps_of(400), seed=1), lr=5e-4, step_time_seconds=0.4, memory_peak_bytes=8e9)])
    found = deltas(
        base, run("b", noisy(steps_of(200), shift=0.1, seed=2), lr=1e-3, step_time_seconds=0.5, memory_peak_bytes=12e9)
    )
    assert found.beside.kind == "worse"
    assert found.beside.end == pytest.approx(2000, abs=20)
    assert found.beside.loss == pytest.approx(0.1, abs=0.02)
    assert found.beside.text.render().startswith("worse than the baseline “good” by ")
    assert found.step_seconds == pytest.approx(0.25)
    assert found.memory == pytest.approx(0.5)
    assert found.stale is None


def test_a_baseline_of_repeats_is_their_mean():
    runs = [run("a", law(steps_of(100))), run("b", law(steps_of(100), shift=0.1))]
    made = made_of("both", runs)
    assert made.losses[0] == pytest.approx(law([10], shift=0.05)[0])
    assert made.runs == ("a", "b")


def test_a_baseline_of_another_batch_is_stale():
    base = made_of("good", [run("a", config={"global_batch_size": 8})])
    found = deltas(base, run("b", config={"global_batch_size": 16}))
    assert "stale" in found.stale.render()
    assert found.beside.kind == "refused"


def test_a_baseline_of_another_vocabulary_is_not_comparable():
    found = deltas(made_of("good", [run("a", config={"vocab_size": 6400})]), run("b", config={"vocab_size": 32000}))
    assert (found.beside.kind, found.stale) == ("refused", None)
    assert "not comparable with the baseline" in found.beside.text.render()


@pytest.mark.parametrize(("rise", "repeat"), [(np.ones(400), True), (np.geomspace(1, 200, 400), False)])
def test_only_a_run_that_did_not_break_is_a_repeat_of_a_baseline(rise, repeat):
    one = run("a", noisy(steps_of(400), seed=1), lr=5e-4, config={"batch_size": 8})
    again = run("b", noisy(steps_of(400), seed=2) * rise, lr=5e-4, config={"batch_size": 8})
    assert beside(made_of("good", [one]), [one], again).repeat is repeat


def test_repeats_of_a_baseline_are_not_told_apart():
    base = made_of("good", [run("a", noisy(steps_of(400), seed=1))])
    assert deltas(base, run("b", noisy(steps_of(300), seed=2))).beside.kind == "not_distinguishable"


def test_a_run_without_a_loss_has_no_delta_of_it():
    base = made_of("good", [run("a")])
    assert deltas(base, run("b", np.full(30, np.nan))).beside.kind == "refused"
    assert deltas(made_of("none", [run("c", np.full(30, np.nan))]), run("d")).beside.kind == "refused"
