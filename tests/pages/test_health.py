"""Run health: the verdict in words, the figures, the chart, the findings with their lines, all from the URL."""

import json
import math
import re
from dataclasses import replace

import pytest

from tests.pages.helpers import canonical, take, words
from ui import evaluations, finding_cards, panels, state, verdict


def spec(test):
    (chart,) = test.get("vega_lite_chart")
    return json.loads(chart.proto.spec)


def panel(drawn, number=0):
    """Return a panel of the stack; above the first stands the band of the phases."""
    return next(view for view in drawn["vconcat"] if view["layer"][0].get("name") == f"panel{number}")


def test_a_sick_run_says_what_and_since_when_and_what_to_do(shop, app):
    run = take(shop, canonical(1000, spike=400), "jump.log")
    text = words(app("health", run=run))
    assert "Sick" in text
    assert "since step 4,0" in text
    assert "Do now" in text


OOM = "torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB."


def test_a_failed_run_says_why_and_what_to_do_and_leads_to_its_finding(shop, app):
    run = take(shop, canonical(400, plan=20_000) + OOM + "\n", "oom.log")
    test = app("health", run=run)
    banner = next(part.proto.body for part in test.get("html") if "rv-verdict" in part.proto.body)
    assert "Failed" in banner
    assert "too large for the memory" in banner
    assert "Do now" in banner
    test.button(key="to_finding").click().run()
    assert not test.exception
    assert test.query_params["finding"].startswith("out_of_memory:")
    assert "What to do" in words(test)
    assert ".st-key-finding-rv-bad-out_of_memory-" in words(test)  # what is brought into view is the card, by its key
    assert 'class="rv-said">torch.cuda' in words(test)  # a text may break, a number may not


def test_of_several_failures_the_verdict_rests_on_the_one_it_names(shop):
    rows = canonical(400, plan=20_000).splitlines()
    log = [*rows[:200], OOM, *rows[200:], "KeyError: 'x'", "Traceback (most recent call last):", "KeyError: 'x'"]
    diagnosis = shop.diagnosis(take(shop, "\n".join(log) + "\n", "twice.log"))
    ends = [finding for finding in diagnosis.findings if finding.kind in ("out_of_memory", "crash")]
    assert len(ends) == 2
    assert verdict.leading(diagnosis).kind == "crash"
    assert verdict.leading(replace(diagnosis, verdict="failed", findings=())) is None


def test_a_healthy_run_says_so_in_one_line(shop, app):
    run = take(shop, canonical(600), "calm.log")
    text = words(app("health", run=run))
    assert "Healthy" in text
    assert "Do now" not in text


def test_chinese_is_chinese(shop, app):
    run = take(shop, canonical(600), "calm.log")
    text = words(app("health", run=run, lang="zh_CN"))
    assert "健康" in text
    assert "Healthy" not in text
    assert "Time left" not in text


def test_the_figures_know_the_plan(shop, app):
    run = take(shop, canonical(400), "a.log")
    text = words(app("health", run=run))
    assert "100%" in text
    assert "4,000 of 4,000 steps" in text


def test_the_parameters_of_the_view_make_the_chart(shop, app):
    run = take(shop, canonical(400), "a.log")
    test = app("health", {"smooth": 0.9, "log": True, "x0": 500, "x1": 1500}, run=run)
    assert not test.exception
    assert test.slider(key="smooth").value == 0.9
    assert test.number_input(key="x0").value == 500
    drawn = spec(test)
    first = panel(drawn)["layer"][0]["encoding"]
    assert first["x"]["scale"]["domain"] == [500, 1500]
    assert first["y"]["scale"]["type"] == "log"


def test_a_run_with_a_single_nan_shows_it(shop, app):
    run = take(shop, canonical(300, nan=150), "nan.log")
    buckets = shop.store.buckets(run, ["loss"], width=panels.BUCKETS)
    assert buckets["nonfinite"].sum() == 1
    assert not app("health", run=run).exception


def test_a_log_without_metrics_but_with_a_reason_shows_its_end(shop, app):
    text = "loading\nTraceback (most recent call last):\n  File <x>\ntorch.OutOfMemoryError: CUDA out of memory.\n"
    run = take(shop, text, "oom.log")
    shown = words(app("health", run=run))
    assert "CUDA out of memory" in shown
    assert "The end of the log" in shown
    assert "&lt;x&gt;" in shown


def test_values_of_1e308_and_negative_losses_are_drawn(shop, app):
    lines = [f"step: {i} loss: {value}" for i, value in enumerate([1e308, -1e308, -3.0, math.inf, 2.0] * 20, 1)]
    run = take(shop, "\n".join(lines), "wild.log")
    assert not app("health", run=run).exception
    assert not app("health", {"log": True}, run=run).exception


def test_a_finding_in_the_url_is_open_with_its_lines(shop, app):
    run = take(shop, canonical(1000, spike=400), "jump.log")
    key = finding_cards.key_of(shop.diagnosis(run).findings[0])
    assert 'class="rv-log"' in words(app("health", run=run, finding=key))
    assert 'class="rv-log"' not in words(app("health", run=run))


def test_a_deleted_run_is_explained(shop, app):
    run = take(shop, canonical(), "a.log")
    shop.store.delete_run(run)
    assert run in words(app("health", run=run))


def test_the_curves_of_a_long_log_do_not_wait_for_its_first_diagnosis(shop, app, monkeypatch):
    run = take(shop, canonical(200_000), "long.log")
    drawn = []
    monkeypatch.setattr(panels, "spec", lambda *args, spec=panels.spec, **named: drawn.append(judged()) or spec(*args, **named))

    def judged() -> bool:
        return shop.store.diagnosis(run, "robust") is not None

    text = words(app("health", run=run))
    assert drawn[0] is False
    assert drawn[-1] is True
    assert "Being checked" not in text
    assert any(word in text for word in ("Healthy", "Watch", "Sick"))


def test_who_looks_at_the_same_rows_in_the_same_way_shares_one_drawing(shop, app, monkeypatch):
    run, made = take(shop, canonical(), "a.log"), []
    monkeypatch.setattr(panels, "spec", lambda *args, spec=panels.spec, **named: made.append(1) or spec(*args, **named))
    first = app("health", run=run)
    again = app("health", run=run)
    assert (len(made), spec(first), spec(again)) == (1, spec(first), spec(first))
    app("health", run=run, lang="zh_CN")
    app("health", {"log": True}, run=run)
    assert len(made) == 3
    rows = canonical(400).splitlines(keepends=True)
    take(shop, "".join(rows[:399]), "b.log")
    app("health", run=run)
    assert len(made) == 3


def test_a_drawing_is_made_anew_when_rows_come_and_when_they_are_judged_anew(shop, app, monkeypatch):
    run, made = take(shop, canonical(), "a.log"), []
    monkeypatch.setattr(panels, "spec", lambda *args, spec=panels.spec, **named: made.append(1) or spec(*args, **named))
    app("health", run=run)
    shop.store.rename_run(run, "another name")  # another version of the run
    app("health", run=run)
    assert len(made) == 2
    shop._editions[run] += 1
    app("health", run=run)
    assert len(made) == 3


def test_a_long_log_in_a_store_that_keeps_no_diagnosis_is_judged_all_the_same(shop, app):
    run = take(shop, canonical(200_000), "long.log")
    shop.settings = replace(shop.settings, read_only=True)
    text = words(app("health", run=run))
    assert "Being checked" not in text
    assert any(word in text for word in ("Healthy", "Watch", "Sick"))


def test_a_run_that_is_deleted_while_it_is_watched_is_explained(shop, app):
    run = take(shop, canonical(), "a.log")
    test = app("health", run=run)
    shop.store.delete_run(run)
    test.run()
    assert not test.exception
    assert run in words(test)


def phases(rows: int = 600) -> str:
    """Return a log whose evaluations, every 50 steps, are rows of their own with a `loss` that lies higher."""
    lines = []
    for step in range(1, rows + 1):
        loss = 2 + 6 * 0.985**step + 0.01 * (step * 7919 % 13 - 6) / 6
        lines.append(f'{{"phase": "train", "step": {step}, "loss": {loss:.4f}, "lr": 0.0005}}')
        if step % 50 == 0:
            lines.append(f'{{"phase": "eval", "step": {step}, "loss": {loss + 1.5:.4f}, "lr": 0.0005}}')
    return "\n".join(lines) + "\n"


@pytest.mark.parametrize("log_x", [False, True])
def test_evaluations_under_the_name_of_a_training_metric_are_a_series_of_their_own(shop, app, log_x):
    run = take(shop, phases(), "a.jsonl")
    assert state.told_apart(run, 1) == {"loss"}
    kept = shop.store.run(run)
    course = next(iter(state.courses(run, kept.version).values()))
    buckets = state.drawn(run, kept.version, ("loss", "lr"), course, None, None, 500, log=log_x)
    chosen = panels.with_evaluations({"loss": ("loss",), "rate": ("lr",)}, buckets)
    assert [evaluations.label(name) for name in chosen["loss"]] == ["loss", "eval loss"]
    assert chosen["rate"] == ("lr",)
    training, evaluated = panels.frames_of(buckets, chosen, smoothing=0.6, log=False, cut=True)["loss"]
    assert evaluated["count"].sum() == 12
    assert log_x or training["count"].sum() == 600
    assert training["high"].diff().max() < 0.2
    assert (evaluated["smooth"] == evaluated["mean"]).all()
    test = app("health", {"logx": log_x}, run=run)
    assert not test.exception
    assert "eval loss" in json.dumps(panel(spec(test)))


def test_the_last_loss_is_that_of_training(shop, app):
    run = take(shop, phases(), "a.jsonl")
    for page in ("health", "wall"):
        (value,) = re.findall(r'Last loss</dt><dd><span class="rv-value">([^<]*)<', words(app(page, run=run)))
        assert float(value) < 2.1


def test_a_live_page_is_drawn_whole_once_its_run_has_another_name(shop, app, monkeypatch):
    run = take(shop, canonical(60), "before.log")
    test = app("health", run=run)
    with monkeypatch.context() as patch:
        patch.setattr(state.st, "session_state", {state.CALLED: test.session_state[state.CALLED]})
        assert not state.renamed(shop.store.run(run))
        shop.store.rename_run(run, "after.log")
        assert state.renamed(shop.store.run(run))
    assert not test.run().exception  # draws the bar with the new name, so that it does so once
    assert test.session_state[state.CALLED] == "after.log"
