"""A comparison says nothing false: what is not known is not called equal, what broke down has no interval, what is unlike does
not win.
"""

from dataclasses import replace

import numpy as np
import pytest

from analysis.compare.as_dict import as_dict
from analysis.compare.comparison import compare
from analysis.compare.conditions import conditions, light_conditions
from analysis.compare.config_diff import DIFFERENT, EQUAL, UNKNOWN
from analysis.compare.judged import Judged, judged
from analysis.compare.names import LONGEST
from analysis.diagnose import diagnose
from analysis.simulate import simulate
from messages import Text
from tests.analysis.compare_lab import noisy, run, steps_of
from tests.analysis.test_compare import codes, differing

# The course of the learning rate


def falling(rows: int, plan: int, peak: float = 3e-4, every: int = 10) -> np.ndarray:
    return peak * (1 + np.cos(np.pi * np.minimum(steps_of(rows, every), plan) / plan)) / 2


def test_a_constant_rate_and_one_that_falls_are_two_configurations():
    told = compare([run("a", lr=np.full(400, 3e-4)), run("b", lr=falling(400, 4000))])
    assert [row.key for row in told.pairs[0].varied] == ["schedule"]
    assert "one_variable" in codes(told)
    assert told.groups == ((0,), (1,))
    assert told.diff.row("schedule").values == ("constant 3e-4", "cosine 3e-4…0")


def test_a_rate_that_is_higher_throughout_is_no_other_course():
    told = compare([run("a", lr=falling(400, 4000)), run("b", lr=falling(400, 4000, peak=3e-3))])
    assert [row.key for row in told.pairs[0].varied] == ["lr"]
    both = compare([run("a", lr=np.full(400, 3e-4)), run("b", lr=falling(400, 4000, peak=3e-3))])
    assert {row.key for row in both.pairs[0].varied} == {"lr", "schedule"}


def test_a_short_log_proves_no_other_course_and_no_equal_one():
    """The beginning of a cosine is flat, and a part of one looks like another shape."""
    short = run("a", lr=falling(40, 4000), rows=40)
    told = compare([short, run("b", lr=falling(400, 4000))])
    row = told.diff.row("schedule")
    assert (row.status, row.values) == (UNKNOWN, (None, "cosine"))
    assert told.diff.groups["training"][0] == UNKNOWN
    assert "nothing_differs" not in codes(told)


def test_what_several_runs_do_not_show_is_said_once():
    short = [run(name, lr=falling(40, 4000), rows=40) for name in "bc"]
    told = compare([run("a", lr=falling(400, 4000)), *short])
    (reason,) = [reason for reason in told.fair.reasons if reason.code == "one_sided"]
    assert reason.text.render().startswith("b, c and a: ")
    pair = compare([run("a", lr=falling(400, 4000)), short[0]])
    (reason,) = [reason for reason in pair.fair.reasons if reason.code == "one_sided"]
    assert reason.text.render().endswith("one alone shows Learning-rate schedule")


def test_a_course_of_another_plan_follows_from_its_batch_or_differs():
    longer = falling(400, 40_000)
    plans = {"total_steps": 4000}, {"total_steps": 40_000}
    plain = compare([run("a", lr=falling(400, 4000), **plans[0]), run("b", lr=longer, **plans[1])])
    assert [row.key for row in plain.pairs[0].varied] == ["schedule"]
    sizes = [{"steps_per_epoch": 4000.0}, {"steps_per_epoch": 40_000.0}]
    whole = [run("a", lr=falling(400, 4000), **plans[0], **sizes[0]), run("b", lr=longer, **plans[1], **sizes[1])]
    whole[1] = run("b", lr=falling(400, 40_000, every=100), every=100, **plans[1], **sizes[1])
    assert [row.key for row in compare(whole).pairs[0].varied] == ["steps_per_epoch"]


def test_the_same_header_beside_other_rates_is_a_difference():
    config = {"lr_scheduler_type": "cosine", "learning_rate": 3e-4}
    told = compare([run("a", lr=falling(400, 4000), config=config), run("b", lr=falling(400, 2000), config=config)])
    assert [row.key for row in told.pairs[0].varied] == ["schedule"]
    assert len(set(told.diff.row("schedule").values)) == 2
    settings = [config | {"warmup_steps": n} for n in (10, 2000)]
    told = compare([run("a", lr=falling(400, 4000), config=settings[0]), run("b", lr=falling(400, 2000), config=settings[1])])
    assert told.diff.variables == 1  # the setting says it already


def test_a_rate_that_fell_before_the_first_line_tells_no_peak():
    late = falling(300, 4000)[100:]
    assert "lr" not in conditions(run("a", lr=late, rows=200, first=1010))
    assert conditions(run("a", lr=falling(400, 40_000)))["lr"].value == 3e-4


# Classes and groups


def test_a_class_is_not_equal_because_something_small_of_it_is():
    diff = differing([run("a", config={"vocab_size": 100, "seed": 1}), run("b", config={"vocab_size": 100, "seed": 1})])
    assert {diff.six["data"][0], diff.groups["data"][0], diff.groups["software"][0]} == {UNKNOWN}
    diff = differing([run("a", lr=1e-3), run("b", lr=1e-3)])
    assert diff.groups["training"][0] == UNKNOWN  # by one learning rate
    diff = differing([run("a", config={"gpu": "A100"}), run("b", config={"gpu": "A100", "nnodes": 2})])
    assert diff.six["scale"] == (UNKNOWN, ("Nodes",))


@pytest.mark.parametrize("key", ["dataset", "max_seq_len", "steps", "data_seed"])
def test_what_is_said_of_the_data_is_said_once(key):
    def one(name: str, value: int):
        return run(name, steps_per_epoch=1000.0 * value) if key == "steps" else run(name, config={key: value, "dataset": "x"})

    diff = differing([one("a", 1), one("b", 2)])
    assert diff.six["data"] == diff.groups["data"]


def test_the_batch_of_a_trainer_is_that_of_one_device_and_that_of_its_tests_is_none():
    assert "effective_batch" not in conditions(run("a", config={"train_batch_size": 1}))
    deepspeed = {"train_batch_size": 1024, "gradient_accumulation_steps": 4}
    assert conditions(run("a", config=deepspeed))["effective_batch"].value == 1024
    sizes = {"TEST/BATCH_SIZE_PER_GPU": 1, "TRAIN/BATCH_SIZE_PER_GPU": 6}
    assert conditions(run("a", config=sizes))["batch"].value == 6
    assert light_conditions(sizes, None) == {"batch": 6}


@pytest.mark.parametrize(
    ("one", "other", "status"),
    [
        ("/root/code/data/tokenizers/bpe.model", "./data/tokenizers/bpe.model", EQUAL),
        ("/a/x/bpe.model", "/b/y/bpe.model", DIFFERENT),
        ("bpe.model", "/a/bpe.model", DIFFERENT),
        ("['/a/wiki/text']", "wiki/text", EQUAL),
    ],
)
def test_a_file_is_the_same_wherever_its_folder_is(one, other, status):
    diff = differing([run("a", config={"tokenizer": one}), run("b", config={"tokenizer": other})])
    assert diff.row("tokenizer").status == status


# Programs


def test_logs_of_no_known_program_that_print_other_things_are_of_other_programs():
    a, b = run("a", form="generic", lr=1e-3), run("b", form="generic", lr=2e-3, grad_norm=1.0, tokens_per_second=9.0, kl=1.0)
    assert "other_program" in codes(compare([a, b]))
    assert compare([a, b]).verdict != "better"
    like = run("c", form="generic", lr=2e-3, eval_loss=3.0)
    assert "other_program" not in codes(compare([a, like]))
    assert "other_program" in codes(compare([a, run("d", form="jsonl", lr=2e-3)]))


def test_a_run_of_another_program_is_not_called_better_for_its_fall():
    steps = steps_of(400)
    told = compare([run("a", noisy(steps), program="MiniMind"), run("b", noisy(steps, seed=2) ** 3, program="llm.c")])
    assert told.pairs[0].kind == "unexplained"
    assert "relative to its start" in told.sentence.render()


def test_the_axis_is_that_over_which_most_runs_compare():
    steps = {"steps_per_epoch": 1000.0}
    runs = [run("a", **steps), run("b"), run("c"), run("d", steps_per_epoch=5000.0)]
    assert compare(runs).view.axis == "step"
    assert compare(runs).comparable
    assert compare([runs[0], runs[3]]).view.axis == "epochs"


# Runs that broke down


@pytest.mark.parametrize("base", [0, 1])
@pytest.mark.parametrize("how", ["diverged", "not_finite", "collapsed"])
def test_a_run_that_broke_down_loses_without_an_interval(base, how):
    bad = {"rows": 400} if how != "not_finite" else {"loss": np.r_[noisy(steps_of(200)), np.full(200, np.nan)]}
    kept = {"b": Judged(since=500, said=Text("It broke"), how=how), "a": Judged()}
    told = compare([run("a", noisy(steps_of(400), seed=3), lr=1e-3), run("b", lr=2e-3, **bad)], base=base, judged=kept)
    pair = told.pairs[0]
    assert (pair.kind, pair.broke) == (("worse", "better")[base], True)
    assert told.sentence.render() == "a is better: b broke down"
    assert all(found.error is None and not found.distinguishable for found in pair.differences.values())
    answer = as_dict(told)
    assert answer["verdict"]["percent"] is None
    assert {found["low"] for found in answer["pairs"][0]["differences"].values()} == {None}
    assert [state.code for state in told.states] == [how]


def test_of_two_runs_that_broke_down_none_is_better():
    kept = {name: Judged(since=500, said=Text("It broke")) for name in "ab"}
    told = compare([run("a", lr=1e-3), run("b", noisy(steps_of(400), shift=-0.3), lr=2e-3)], judged=kept)
    assert told.verdict == "unknown"
    assert told.sentence.render() == "b and a both broke down: neither is better"


def test_a_run_of_another_program_is_not_better_because_one_broke_down():
    told = compare(
        [run("a", program="MiniMind"), run("b", program="llm.c")], judged={"b": Judged(since=500, said=Text("It broke"))}
    )
    assert told.verdict == "unknown"
    assert "neither is called better" in told.sentence.render()


@pytest.mark.parametrize("kind", ["divergence", "spike_unrecovered", "non_finite", "reward_collapse", "loss_zero"])
def test_a_kept_diagnosis_tells_whatever_broke_a_run_down(kind):
    first = {"class": kind, "severity": "critical", "segment": 0, "first_step": 40, "last_step": None}
    found = diagnose([simulate(rows=2000, seed=7, fault="divergence").segment]).to_dict()["findings"][0] | first
    told = judged({"findings": [found], "not_assessable": []}, 0, None)
    assert (told.since, told.said is not None) == (40, True)
    well = judged({"findings": [found | {"last_step": 50}], "not_assessable": []}, 0, None)
    assert well.said is None


@pytest.mark.parametrize("base", [0, 1])
def test_a_loss_that_is_lower_than_it_can_be_does_not_win(base):
    steps, said = steps_of(400), Text("Implausibly low loss")
    runs = [run("a", noisy(steps, seed=3), lr=1e-3), run("b", noisy(steps, shift=-0.3), lr=2e-3)]
    told = compare(runs, base=base, judged={"b": Judged(doubt=said)})
    assert told.verdict == "unknown"
    assert told.sentence.render().endswith("before it is explained: Implausibly low loss")
    assert compare(runs, base=base, judged={"a": Judged(doubt=said)}).verdict == ("better", "worse")[base]


def test_a_kept_diagnosis_tells_of_a_loss_that_is_too_low():
    found = diagnose([simulate(rows=2000, seed=7, fault="divergence").segment]).to_dict()["findings"][0]
    low = found | {"class": "dip", "severity": "warning", "segment": 0, "first_step": 40, "last_step": None}
    assert judged({"findings": [low], "not_assessable": []}, 0, None).doubt is not None
    assert judged({"findings": [low | {"last_step": 50}], "not_assessable": []}, 0, None).doubt is None


def test_steps_and_starts_are_those_of_one_program():
    usual = [run(name, program="MiniMind", step_time_seconds=0.1) for name in "ab"]
    strange = run("c", np.linspace(30, 25, 400), program="llm.c", step_time_seconds=9.0)
    assert compare([*usual, strange]).states == ()


def test_a_run_that_is_not_behind_is_not_called_slow():
    """The lowest of many noisy losses of the base lies below the last ones of a run that ends where it does."""
    steps = steps_of(400)
    flat = [run(name, noisy(np.maximum(steps, 3000), sigma=0.1, seed=n)) for n, name in enumerate("ab")]
    told = compare(flat)
    assert told.verdict == "not_distinguishable"
    assert told.states == ()


def test_without_a_common_axis_the_metric_is_not_what_is_missing():
    one = run("a", lr=1e-3)
    told = compare([one, replace(run("b", lr=2e-3), unit="epoch")])
    assert told.view.metric == "loss"
    assert told.sentence.render().startswith("the runs have no x axis in common")
    assert "logging_interval" not in codes(told)


# Labels and names


def test_a_run_is_told_by_all_that_it_differs_in_from_the_base():
    """A setting outside of the table of conditions is not hidden by those of other runs that are in it."""
    config = {"batch_size": 8, "max_seq_len": 512, "dtype": "bf16"}
    others = [run(name, config={**config, key: 4}) for name, key in zip("bcd", config, strict=True)]
    told = compare([run("a", config={**config, "zero_stage": 0}), *others, run("e", config={**config, "zero_stage": 1})])
    assert told.labels[4] == (("DeepSpeed", 1),)
    assert told.labels[0] == ()


def test_long_names_are_cut_where_they_do_not_tell_the_runs_apart():
    name = "anexperimentthatsomebodygaveaverylongname{}ontheverylargedatasetofwebpages.log"
    long = [name.format(part) for part in ("LR3e4", "LR1e4", "🚀")]
    runs = [run(str(n), title=title) for n, title in enumerate([*long, "short.log"])]
    told = [side.name for side in compare(runs).sides]
    assert len(set(told)) == 4
    assert all(len(one) <= LONGEST for one in told)
    assert [part in one for part, one in zip(("LR3", "LR1", "🚀", "short"), told, strict=True)] == [True] * 4
    alike = [run("abcdefgh1", title="x" * 90), run("zbcdefgh1", title="x" * 90)]
    assert len({side.name for side in compare(alike).sides}) == 2
    said = compare([run("1", title=long[0], reward=1.0), run("2", title=long[1])]).fair.reasons
    assert all("longname" not in one.text.render() for one in said)
