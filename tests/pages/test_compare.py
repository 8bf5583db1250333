"""Compare: the sentence, may one say so, curves, settings, exports, sweeps, what people add, and odd requests."""

import io
import json
import math
import re
from dataclasses import replace

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from messages import Text
from server import baselines, compare, subjects, sweep
from server.monitor import Monitor
from tests.pages.helpers import canonical, take, words
from ui import compare as compare_words
from ui import compare_charts, compare_export, compare_frames, compare_sweep, state


def log(rate: str = "0.0005", *, rows: int = 300, shift: float = 1.0, power: float = 1.0, batch: int = 32, **more) -> str:
    """Return a log with a header, its losses times `shift`, falling `power` times as fast."""
    extra = "".join(f", {key}={value}" for key, value in more.items())
    header = f"Namespace(learning_rate={rate}, batch_size={batch}, world_size=1, max_seq_len=512, seed=42{extra})\n"
    lines = []
    for line in canonical(rows).splitlines():
        head, _sep, tail = line.partition("loss: ")
        loss, _sep, tail = tail.partition(",")
        value = f"{float(loss) ** power * shift:.4f}"
        lines.append(
            f"{head}loss: {value}, logits_loss: {value}, aux_loss: 0.0000, lr: {rate}{tail[tail.index(', epoch_time') :]}"
        )
    return header + "\n".join(lines) + "\n"


def two(shop, **second) -> tuple[str, str]:
    return take(shop, log(), "a.log"), take(shop, log(**second), "b.log")


def test_the_better_run_is_named_with_its_interval(shop, app):
    a, b = two(shop, rate="0.001", shift=0.9)
    test = app("compare", runs=f"{a},{b}")
    said = words(test)
    assert not test.exception
    assert "b is better than a by 10" in said
    assert "Learning rate is what differs from a: 5e-4 → 1e-3" in said
    assert "Batch and sequence" in said
    assert "Step to" in said


def test_of_losses_that_mean_something_else_none_is_headed_as_better(shop, app):
    a, b = (take(shop, log(vocab_size=size, power=power), f"{size}.log") for size, power in ((6400, 0.8), (32000, 1.0)))
    said = words(app("compare", runs=f"{a},{b}"))
    assert "Only the fall compares" in said
    assert 'rv-badge">Better' not in said
    assert "rv-verdict rv-good" not in said


def test_a_verdict_that_is_still_being_made_is_named_and_taken_up(shop, app):
    a, b = two(shop, rate="0.001", shift=0.9)
    shop.monitor = Monitor(lambda run: (None, shop.diagnosis(run)))  # has not come to these runs yet
    test = app("compare", runs=f"{a},{b}")
    assert "2 runs are still being judged" in words(test)
    assert "b is better than a by 10" in words(test)
    for run in (a, b):
        shop.diagnosis(run)
    assert "still being judged" not in words(test.run())


def test_equal_runs_are_not_distinguishable(shop, app):
    a, b = two(shop, rate="0.001", shift=1.0001)
    assert "not distinguishable" in words(app("compare", runs=f"{a},{b}"))


def test_steps_of_other_batches_are_refused_and_an_axis_offered(shop, app):
    a, b = two(shop, batch=8, shift=0.9)
    test = app("compare", runs=f"{a},{b}", x="step")
    assert "A step of b is not a step of a" in words(test)
    assert "Not comparable" in words(test)
    test.button[0].click().run()
    assert test.query_params["x"] in (["tokens"], "tokens")
    assert "better than" in words(test)


def test_other_data_is_compared_by_its_relative_fall(shop, app):
    a, b = take(shop, log(dataset="'one'"), "a.log"), take(shop, log(dataset="'two'"), "b.log")
    assert "only its relative fall is compared" in words(app("compare", runs=f"{a},{b}"))


def test_a_link_keeps_the_base_that_was_shown(shop, app):
    a, b = two(shop, rate="0.001")
    test = app("compare", runs=f"{a},{b}")
    assert test.query_params["base"] == a
    few = take(shop, log(rows=900), "later.log")
    assert app("compare", runs=f"{few},{a},{b}", base=test.query_params["base"]).query_params["base"] == a


def test_the_base_can_be_chosen_in_the_url(shop, app):
    a, b = two(shop, rate="0.001", shift=0.9)
    test = app("compare", runs=f"{a},{b}", base=b)
    assert "Beside Learning rate 1e-3 · b" in words(test)


@pytest.mark.parametrize("view", ["overlay", "difference", "ratio"])
def test_curves_differences_and_ratios_are_drawn(shop, app, view):
    a, b = two(shop, rate="0.001")
    assert not app("compare", runs=f"{a},{b}", view=view).exception


@pytest.mark.parametrize(("view", "value"), [("difference", 10.0), ("ratio", 1.1)])
def test_a_difference_is_in_percent_and_a_ratio_is_a_factor(shop, view, value):
    told = compare.comparison(shop, list(two(shop, shift=1.1)))
    frame = compare_frames.lines(told, view, smooth=False)
    assert frame.loc[frame["order"] == 1, "y"].to_numpy() == pytest.approx(value, rel=0.01)


def test_more_than_eight_runs_become_small_multiples(shop, app):
    runs = [take(shop, log(rate=f"0.000{n}", shift=1 + n / 100), f"{n}.log") for n in range(1, 10)]
    test = app("compare", runs=",".join(runs))
    assert not test.exception
    assert "leads" in words(test)
    assert "(3 of 8)" in words(test)
    assert words(test).count("first differ") == 3 + 8


def test_one_run_says_what_to_do(shop, app):
    a = take(shop, log(), "a.log")
    test = app("compare", runs=a)
    assert not test.exception
    assert "One run alone has nothing to be compared with: it takes two runs or more." in words(test)


def test_hostile_names_and_values_are_shown_as_they_are(shop, app):
    name = "<img src=x onerror=alert(1)> **b** [l](javascript:alert(1)) {loss}.log"
    a, b = take(shop, log(), "a.log"), take(shop, log(shift=-1e307, rate="0.001"), name)
    test = app("compare", runs=f"{a},{b}")
    assert not test.exception
    assert "<img" not in words(test)
    baselines.save_baseline(shop.store, "<b>{name}</b> %s", [a])
    health = app("health", run=b)
    assert not health.exception
    assert "<b>{name}" not in words(health)
    assert not app("overview").exception


def test_no_run_says_what_to_do(shop, app):
    take(shop, log(), "a.log")
    assert "Choose two runs or more" in words(app("compare"))


def test_an_unknown_run_is_named_and_the_rest_shown(shop, app):
    a, b = two(shop, rate="0.001")
    said = words(app("compare", runs=f"{a},nobody,{b}"))
    assert "Not here: nobody" in said
    assert "May one say so?" in said


def test_the_same_run_twice_is_one(shop, app):
    a = take(shop, log(), "a.log")
    test = app("compare", runs=f"{a},{a}")
    assert not test.exception
    assert "One run alone" in words(test)


def test_runs_without_anything_in_common_are_a_sentence(shop, app):
    a = take(shop, log(), "a.log")
    b = take(shop, "".join(f'{{"step": {n}, "reward": {n / 50}}}\n' for n in range(1, 60)), "b.jsonl")
    test = app("compare", runs=f"{a},{b}")
    assert not test.exception
    assert "no metric in common" in words(test)


def epochs(shift: float) -> str:
    """Return a log that prints epochs and no steps."""
    return "".join(f"{{'loss': {shift * (3 - n / 40):.4f}, 'learning_rate': 1e-05, 'epoch': {n / 20}}}\n" for n in range(1, 60))


def test_ten_thousand_settings_and_types_that_clash_are_a_page(shop, app):
    kinds = (lambda n: n, lambda n: f"'{n}'" if n % 3 else f"[{n}]")
    extras = [{f"key_{n}": kind(n) for n in range(10_000)} for kind in kinds]
    runs = [take(shop, log(rows=60, **extra), f"{n}.log") for n, extra in enumerate(extras)]
    test = app("compare", runs=",".join(runs))
    assert not test.exception
    assert "variables" in words(test)
    assert "further settings are not listed" in words(test)


def test_a_run_that_grows_is_compared_as_far_as_it_is(shop, app, monkeypatch):
    a, b = two(shop, rate="0.001")
    monkeypatch.setattr(state, "growing", lambda runs: {a})
    test = app("compare", runs=f"{a},{b}")
    assert not test.exception
    assert "a is still growing: what is said here holds for its steps so far" in words(test)


def test_methods_and_shapes_are_told_where_runs_have_them(shop, app):
    one = take(shop, log(lora_rank=0), "one.log")
    other = take(shop, log(lora_rank=8).replace("world_size=1", "world_size=4"), "other.log")
    test = app("compare", runs=f"{one},{other}")
    assert not test.exception
    said = words(test)
    assert "Tuning methods" in said
    assert "One GPU and several" in said


def test_runs_without_steps_are_compared_over_their_epochs(shop, app):
    a, b = take(shop, epochs(1.0), "a.txt"), take(shop, epochs(1.1), "b.txt")
    told = compare.comparison(shop, [a, b])
    assert told.view.axis == "epochs"
    assert told.pairs[0].differences["epochs"].relative == pytest.approx(0.1, abs=0.01)
    assert not app("compare", runs=f"{a},{b}").exception


def test_lines_are_never_compared_with_steps(shop, app):
    a = take(shop, log(), "a.log")
    b = take(shop, "".join(f"{{'loss': {3 - n / 50:.3f}, 'learning_rate': 1e-05}}\n" for n in range(60)), "b.txt")
    told = compare.comparison(shop, [a, b])
    assert "step" not in told.view.axes
    assert not app("compare", runs=f"{a},{b}").exception


@pytest.mark.parametrize("query", [{"x": "nonsense"}, {"metric": "'; drop"}, {"view": "?"}, {"base": "nobody"}, {"mode": "x"}])
def test_nonsense_in_the_url_is_ignored(shop, app, query):
    a, b = two(shop, rate="0.001")
    assert not app("compare", runs=f"{a},{b}", **query).exception


def test_chinese(shop, app):
    a, b = two(shop, rate="0.001", shift=0.9)
    test = app("compare", runs=f"{a},{b}", lang="zh_CN")
    assert not test.exception
    assert "学习率" in words(test)


def validated(rows: int, *, trained: bool) -> str:
    """Return a table whose column `loss` holds the losses of validations; those of the training only where `trained`."""
    kept = [f"{n},train,{3 - n / rows:.4f}" if trained else f"{n},train," for n in range(1, rows + 1)]
    lines = [line if (n + 1) % 10 else f"{line}\n{n + 1},val,{3.2 - n / rows:.4f}" for n, line in enumerate(kept)]
    return "step,type,loss,cumulative_time_ms\n" + "".join(
        part + f",{1000 * int(part.split(',')[0])}\n" for line in lines for part in line.split("\n")
    )


def test_losses_of_evaluations_are_not_compared_with_those_of_the_training(shop, app):
    a, b = take(shop, log(), "a.log"), take(shop, validated(400, trained=False), "b.csv")
    told = compare.comparison(shop, [a, b])
    assert (told.verdict, told.fair.reasons[0].code) == ("refused", "another_loss")
    said = words(app("compare", runs=f"{a},{b}"))
    assert "another kind of loss" in said
    assert "too few common points" not in said


def test_training_and_evaluation_rows_of_one_column_are_told_apart(shop):
    both = subjects.subject_of(shop.store, take(shop, validated(400, trained=True), "b.csv"))
    assert {name: len(both.curves[name]) for name in ("loss", "eval_loss")} == {"loss": 400, "eval_loss": 40}
    assert both.curves["eval_loss"].value[0] == pytest.approx(3.2 - 9 / 400)


# What people add


def test_a_condition_by_hand_counts(shop, app):
    a, b = take(shop, canonical(), "a.log"), take(shop, canonical(rows=200), "b.log")
    subjects.set_condition(shop.store, a, "dataset", "one")
    subjects.set_condition(shop.store, b, "dataset", "two")
    said = words(app("compare", runs=f"{a},{b}"))
    assert "differ in Data (two, one)" in said
    subjects.set_condition(shop.store, b, "dataset", "")
    assert subjects.given_conditions(shop.store, b) == {}


def test_a_condition_needs_a_name(shop):
    a = take(shop, canonical(), "a.log")
    with pytest.raises(ValueError, match="name"):
        subjects.set_condition(shop.store, a, " ", "x")


def test_a_baseline_holds_its_run_and_tells_deltas(shop, app):
    a, b = two(shop, shift=1.1)
    baselines.save_baseline(shop.store, "good", [a])
    assert shop.store.holds() == {a: ["baseline"]}
    found = baselines.baseline(shop.store, b)
    assert found is not None
    assert found.beside.loss == pytest.approx(0.1, abs=0.01)
    assert baselines.baseline(shop.store, a) is None
    assert "Beside a" in words(app("compare", runs=b, baseline="good"))
    baselines.drop_baseline(shop.store, "good")
    assert shop.store.holds() == {}
    assert baselines.baseline(shop.store, b) is None


# Sweeps


def test_a_sweep_names_the_setting_that_explains_it(shop, app):
    for n in range(12):
        take(shop, log(rate=f"{(n + 1) / 10_000:.4f}", shift=1 + n / 50, dropout=n % 3 / 10, rows=40), f"{n}.log")
    test = app("compare", mode="sweep")
    assert not test.exception
    assert "Learning rate explains the result best" in words(test)
    assert len(test.get("vega_lite_chart")) == 2  # runs through their settings, one setting against the result


def test_a_sweep_is_of_the_runs_that_the_url_names_and_of_no_others(shop, app):
    runs = [take(shop, log(rate=f"0.000{n + 1}", rows=40 + n), f"{n}.log") for n in range(4)]
    gone = app("compare", mode="sweep", runs="bogus,nope")
    assert "Not here: bogus, nope" in words(gone)
    assert not gone.dataframe
    one = app("compare", mode="sweep", runs=f"{runs[0]},bogus")
    assert "Not here: bogus " in words(one)
    assert "1 run" in words(one)
    (button,) = [button for button in one.button if button.label == "The latest 4 runs"]
    assert "4 runs" in words(button.click().run())


def test_the_runs_of_a_sweep_can_be_chosen_and_taken_along(shop, app):
    runs = [take(shop, log(rate=f"0.000{n + 1}", rows=40 + n), f"{n}.log") for n in range(4)]
    test = app("compare", mode="sweep")
    test.multiselect(key="sweep_picker").set_value(runs[:2]).run()
    assert test.query_params["runs"] == ",".join(runs[:2])
    assert len(test.dataframe[0].value) == 2
    test.button[0].click().run()
    assert "runs" not in test.query_params
    assert len(test.dataframe[0].value) == 4
    table = pd.read_csv(io.BytesIO(compare_sweep.to_csv(sweep.sweep_of(shop, runs)[1], "loss")))
    assert table["name"].tolist() == [f"{n}.log" for n in range(4)]
    assert table["loss"].notna().all()
    assert table["setting: lr"].tolist() == [0.0001, 0.0002, 0.0003, 0.0004]
    assert not table["broke_down"].any()


def test_a_sweep_of_few_runs_says_so(shop, app):
    two(shop)
    assert "Too few" in words(app("compare", mode="sweep"))


# What can be taken along


@pytest.fixture
def told(shop):
    a, b = two(shop, rate="0.001", shift=0.9)
    return compare.comparison(shop, [a, b])


def test_the_table_is_a_csv_with_plain_numbers(told):
    frame = pd.read_csv(io.BytesIO(compare_export.to_csv(told)))
    assert frame["verdict"].tolist() == ["base", "better"]
    assert frame["difference_to_base"].iloc[1] == pytest.approx(-0.1, abs=0.01)
    assert frame["setting: lr"].tolist() == [0.0005, 0.001]


def test_the_json_is_that_of_the_command_line(told):
    assert {"differs", "comparable", "reasons", "metrics", "verdict"} <= set(json.loads(compare_export.to_json(told)))


def test_the_whole_configuration_can_be_taken_along(told):
    found = json.loads(compare_export.to_configs(told))
    assert {"environment", "data", "training", "metrics"} <= set(next(iter(found.values())))


def test_the_report_is_one_page_and_nothing_in_it_is_executed(shop):
    a, b = (
        take(shop, log(), "<script>alert(1)</script>"),
        take(shop, log(rate="0.001", note="'<img src=x onerror=alert(1)>'"), "b.log"),
    )
    report = compare_export.to_html(compare.comparison(shop, [a, b]), b"<svg/>").decode()
    assert "<script>" not in report
    assert "<img src=x" not in report
    assert "data:image/svg+xml;base64" in report
    assert "May one say so?" in report
    assert "To the base" in report


def test_the_charts_compile_with_their_data(told):
    frame = compare_frames.lines(told, "overlay")
    assert isinstance(frame, pd.DataFrame)
    spec = compare_charts.curves((0, 1), "Step", "Loss", "Run", log=False, names=tuple(compare_frames.labels(told)))
    assert spec["layer"]
    drawn = compare_export._spec(told, frame, compare_frames.bands(told, [0, 1]), "Step", "Loss", log=True)
    assert compare_export.picture_of(told, drawn, "dark", "svg").startswith(b"<svg")


def test_small_multiples_can_be_taken_along_too(shop):
    runs = [take(shop, log(rate=f"0.000{n}"), f"{n}.log") for n in range(1, 5)]
    told = compare.comparison(shop, runs)
    frame = compare_frames.lines(told, "overlay")
    assert isinstance(frame, pd.DataFrame)
    facets = compare_frames.facets(told, frame)
    drawn = compare_export._spec(told, facets, facets.iloc[:0], "Step", "Loss", log=False)
    assert compare_export.picture_of(told, drawn, "light", "svg").startswith(b"<svg")


def test_the_picture_of_small_multiples_has_whole_titles_and_says_which_line_is_which(shop):
    runs = [take(shop, log(rate=f"0.000{n}"), f"{'long_name_' * 6}{n}.log") for n in range(1, 4)]
    told = compare.comparison(shop, runs)
    facets = compare_frames.facets(told, compare_frames.lines(told, "overlay"))
    drawn = compare_export._spec(told, facets, facets.iloc[:0], "Step", "Loss of mine", log=False)
    svg = compare_export.picture_of(told, drawn, "light", "svg").decode()
    shown = "".join(re.findall(r"<text[^>]*>([^<]*)</text>", svg))
    assert "Loss of mine" in shown
    assert "Base: " in shown
    for label in compare_frames.labels(told)[1:]:
        assert label.replace(" ", "") in shown.replace(" ", "").replace("\u00a0", "")


def test_the_line_of_a_group_names_its_repeats(shop):
    runs = [take(shop, log(shift=1 + n / 1000), f"{n}.log") for n in range(3)]
    told = compare.comparison(shop, runs)
    assert told.groups == ((0, 1, 2),)
    assert compare_frames.with_repeats(told, compare_frames.one_a_group(told)) == {0: "0, with its repeats 1, 2"}


@pytest.mark.parametrize("spikes", [[50], [50, 51]])
def test_a_lone_spike_is_no_step_of_the_smooth_line(spikes):
    values = 3 - np.arange(100) / 100 + 0.01 * np.sin(np.arange(100.0) * 7)
    spiked = values.copy()
    spiked[spikes] = 40.0
    assert np.abs(compare_frames.without_spikes(spiked) - values).max() < 0.05
    assert np.array_equal(compare_frames.without_spikes(values), values)


def test_a_steep_start_is_kept_in_the_smooth_line():
    values = 3 + 30 * 0.4 ** np.arange(100.0)
    assert np.array_equal(compare_frames.without_spikes(values), values)


def test_a_step_of_the_loss_is_kept_in_the_smooth_line():
    values = np.r_[np.full(50, 3.0), np.full(50, 9.0)] + 0.01 * np.sin(np.arange(100.0) * 7)
    assert np.array_equal(compare_frames.without_spikes(values), values)


def test_what_is_not_surely_reached_has_no_infinite_interval():
    assert compare_words._span((19.6, 34.1, math.inf)) == "at least 19.6"


def test_labels_tell_what_differs(told):
    assert compare_frames.labels(told) == ["Learning rate 5e-4 · a", "Learning rate 1e-3 · b"]
    assert "Learning rate" in compare_words.settings_frame(told).to_string()


@pytest.mark.parametrize(
    ("value", "written"),
    [(63_910_000, "63.9M"), (True, "on"), (5e-4, "5e-4"), (9924, "9,924"), (None, "–"), ("cosine", "cosine")],
)
def test_a_setting_is_written_as_a_person_does(value, written):
    assert compare_frames.value_words(value) == written


def test_a_run_of_a_few_rows_is_not_what_the_others_stand_beside_unless_it_is_asked_for(shop, app):
    few, many = take(shop, log(rows=3), "few.log"), two(shop, rate="0.001", shift=0.9)
    runs = [shop.store.run(run) for run in (few, *many)]
    assert compare.usual_base(shop, runs) == many[0]
    said = words(app("compare", runs=",".join([few, *many])))
    assert "b is better than a by 10" in said
    assert app("compare", runs=",".join([few, *many]), base=few).query_params["base"] in (few, [few])


def test_the_loss_to_reach_can_be_chosen_as_a_loss_or_a_share_of_the_first(shop, app):
    a, b = two(shop, rate="0.001")
    assert "Step to 3.5" in words(app("compare", bound={"reach": "3.5"}, runs=f"{a},{b}"))
    assert "Step to 60% of the first loss" in words(app("compare", bound={"reach": "60 %"}, runs=f"{a},{b}"))
    wrong = app("compare", bound={"reach": "<b>soon</b>"}, runs=f"{a},{b}")
    assert not wrong.exception
    assert "This is no loss to reach: &lt;b&gt;soon&lt;/b&gt;." in words(wrong)


def test_places_of_logs_without_steps_are_told_in_epochs(shop, app):
    """A run whose loss starts far above the others', in a log that numbers epochs: no word of steps."""
    ids = [take(shop, epochs(shift), f"{shift}.txt") for shift in (1.0, 1.01, 20.0)]
    state = next(state for state in compare.comparison(shop, ids).states if state.code == "diverged")
    assert "at epoch" in state.text.render()
    test = app("compare", runs=",".join(ids))
    frame = test.expander[0].dataframe[0].value
    assert "Epochs" in frame.columns
    assert "Steps" not in frame.columns


def test_sentences_end_as_the_language_has_it(shop, app):
    a, b = two(shop, rate="0.001", shift=0.9)
    said = words(app("compare", bound={"lang": "zh_CN"}, runs=f"{a},{b}"))
    assert "持续分开。" in said
    assert "持续分开." not in said


def test_the_columns_are_named_by_what_is_compared(shop, app):
    a, b = two(shop, rate="0.001")
    said = words(app("compare", runs=f"{a},{b}", metric="lr"))
    assert "Learning rate at the start" in said
    assert "Loss at the start" not in said


def test_the_best_runs_of_a_reward_are_the_highest(shop, app):
    for n in range(10):
        rows = "".join(f'{{"step": {k}, "reward": {n + k / 50}, "lr": 0.00{n + 1}}}\n' for k in range(1, 30))
        take(shop, rows, f"{n}.jsonl")
    test = app("compare", mode="sweep", result="reward")
    assert not test.exception
    assert sweep.lower_is_better("loss")
    assert not sweep.lower_is_better("reward")
    assert not sweep.lower_is_better("tokens_per_second")
    lines = next(data for chart in test.get("vega_lite_chart") for data in chart.proto.datasets if data.name == "lines")
    frame = pa.ipc.open_stream(lines.data.data).read_all().to_pandas()
    assert set(frame.loc[frame["best"], "label"]) == {"9.jsonl"}


# Nothing false


def diverging(rows: int = 300) -> str:
    lines = log(rate="0.002", rows=rows).splitlines(keepends=True)
    parts = [line.partition("loss: ") for line in lines]
    return "".join(
        line
        if n <= rows // 2 or not part[1]
        else f"{part[0]}loss: {5 * 1.03 ** (n - rows // 2):.4f}, {line[line.index('lr:') :]}"
        for n, (line, part) in enumerate(zip(lines, parts, strict=True))
    )


@pytest.mark.parametrize("base", [0, 1])
def test_a_run_that_broke_down_stands_there_without_an_interval(shop, app, base):
    runs = [take(shop, log(), "good.log"), take(shop, diverging(), "bad.log")]
    for run in runs:
        shop.diagnosis(run)
    told = compare.comparison(shop, runs, base=runs[base])
    drawn = compare_words.forest(told)
    assert ("the base broke down" if base else "broke down") in drawn
    assert not any(word in drawn for word in ("rv-span", "rv-dot", "%", "too few"))
    assert compare_words.spread_words(told) == compare_words.equal_table(told) == ""
    assert "nan" not in compare_export.to_csv(told).decode().lower()
    said = words(app("compare", runs=",".join(runs), base=runs[base]))
    assert "good is better: bad broke down" in said


def test_better_never_stands_beside_too_few_common_points(shop):
    runs = [take(shop, log(), "good.log"), take(shop, diverging(), "bad.log"), take(shop, log(rate="0.003", rows=3), "few.log")]
    for run in runs:
        shop.diagnosis(run)
    for base in runs:
        rows = compare_frames.forest(compare.comparison(shop, runs, base=base)).to_dict("records")
        assert not [row for row in rows if row["kind"] in ("better", "worse") and row["text"] == "too few common points"]


def test_runs_that_do_not_overlap_have_no_common_points(shop):
    lines = log(rate="0.001").splitlines(keepends=True)
    runs = [take(shop, "".join(lines[:100]), "early.log"), take(shop, "".join([lines[0], *lines[150:]]), "late.log")]
    frame = compare_frames.forest(compare.comparison(shop, runs, axis="step"))
    assert frame["text"].tolist() == ["no common points"]


def test_what_says_nothing_has_no_number(told):
    pair = told.pairs[0]
    wide = {axis: replace(one, value=0.0, error=6.0, distinguishable=False) for axis, one in pair.differences.items()}
    hidden = replace(told, pairs=(replace(pair, kind="not_distinguishable", text=Text("x"), differences=wide),))
    drawn = compare_words.forest(hidden) + compare_words.equal_table(hidden)
    assert "hidden by the noise" in drawn
    assert "rv-span" not in drawn
    assert "%" not in drawn
    assert compare_frames.interval_words(190.0, 800.0, 2700.0) == "× 9 (2.9 to 28)"
    assert compare_frames.interval_words(-0.58, 1.07e-4, 0.583) == "0 % (-0.58 to +0.58)"  # not more exact than it is known


def test_as_the_base_is_only_what_is_known_to_be(shop):
    """A label of conditions must not hide a setting that differs."""
    base = {"dropout": 0.1, "zero_stage": 0}
    others = [{**base, "rate": "0.001", "batch": 16}, {**base, "zero_stage": 2}, {**base, "shift": 1.01}]
    runs = [take(shop, log(**more), f"{name}.log") for name, more in zip("abcd", [base, *others], strict=True)]
    told = compare.comparison(shop, runs)
    assert compare_frames.labels(told)[2:] == ["DeepSpeed 2 · c", "as the base · d"]


def test_what_is_said_of_the_data_is_the_same_twice(shop):
    told = compare.comparison(shop, list(two(shop, rate="0.001")))
    chips = compare_words.chips(told)
    data = [part for part in chips.split("<span") if "<b>Data</b>" in part]
    assert len(data) == 2
    assert len({part.partition("<b>")[2] for part in data}) == 1


def test_a_headline_has_short_names_and_the_whole_ones_beside_it(shop, app):
    long = "an experiment with a name that goes on and on " * 3
    runs = [take(shop, log(), f"{long} 🚀one\u202egol.txt"), take(shop, log(rate="0.001", shift=0.9), f"{long} two.log")]
    told = compare.comparison(shop, runs)
    drawn = compare_words.verdict(told)
    heading = drawn.partition("rv-sentence")[2].partition(">")
    assert long.strip() in heading[0]
    assert long.strip() not in heading[2]
    test = app("compare", runs=",".join(runs))
    assert not test.exception
    shown = [*test.multiselect[0].options, *(option for box in test.selectbox for option in box.options), words(test)]
    assert not any("\u202e" in one for one in shown)


def test_a_sweep_of_few_runs_is_listed_and_drawn(shop, app):
    for n in range(3):
        take(shop, log(rate=f"{(n + 1) / 1000:.4f}", shift=1 + n / 10, rows=40), f"{n}.log")
    take(
        shop,
        "".join(json.dumps({"step": n, "loss": 9.0 - n / 9, "kl": 0.1, "grad_norm": 1.0}) + "\n" for n in range(40)),
        "x.jsonl",
    )
    test = app("compare", mode="sweep")
    assert not test.exception
    said = words(test)
    assert "Too few comparable runs" in said
    assert "Left out: x" in said
    assert len(test.dataframe[0].value) == 3
    assert "Learning rate" in test.dataframe[0].value
    assert "One setting against the result" in said


def test_a_name_at_the_beginning_of_a_sentence_keeps_its_letters(told):
    assert compare_words.partings(told)[0].startswith("b and a first differ")
    assert compare_words.partings(told)[0].endswith(".")


def test_an_interval_that_holds_zero_does_not_look_narrower_than_it_is(told):
    """A tiny difference between two runs does not stretch the picture until it looks like a large one."""
    frame = pd.DataFrame({"run": [1, 1], "value": [0.01, 0.02], "low": [-1.0, -1.2], "high": [1.0, 1.2]})
    assert compare_frames.reach(told, frame) == 1.2
