"""The verdict: right about the end of a run, calm about a healthy one, and honest where there is too little to judge."""

import json
import re
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from analysis.diagnose import Diagnosis, diagnose
from analysis.segment import Segment
from analysis.simulate import simulate
from analysis.trends import trend

HEALTHY = simulate(rows=1200, seed=3).segment


def said(kind: str, line: int, text: str = "what the log says") -> pd.DataFrame:
    return pd.DataFrame([[line, None, kind, text]], columns=["line", "step", "kind", "text"])


def losses(*values: float, **columns: object) -> Segment:
    steps = np.arange(1, len(values) + 1)
    return Segment(0, pd.DataFrame({"line": steps, "step": steps, "loss": values, **columns}))


def test_a_healthy_run_gets_one_calm_sentence() -> None:
    diagnosis = diagnose([HEALTHY])
    assert diagnosis.verdict == "healthy"
    assert diagnosis.sentence.render().startswith("Loss ")
    assert "nothing unusual up to step 1,200" in diagnosis.sentence.render()
    assert diagnosis.since_step is None


@pytest.mark.parametrize("seed", range(4))
def test_the_rate_of_the_fall_is_that_of_the_end_with_its_interval(seed: int) -> None:
    steps = np.arange(1, 8001)
    noise = np.exp(0.01 * np.random.default_rng(seed).standard_normal(8000))
    falls = losses(*(9 * steps**-0.2 * noise))
    course = trend(falls)
    assert course is not None
    assert course.interval is not None
    true = -0.2 * 1000 / 7000  # the derivative of the logarithm in the middle of the last quarter
    assert course.interval[0] <= true <= course.interval[1]
    assert course.per_1000_steps == pytest.approx(true, rel=0.2)
    told = diagnose([falls]).sentence.render()
    assert re.match(r"Loss falls 2\.\d % per 1,000 steps in the last quarter \(\d", told)


@pytest.mark.parametrize("seed", range(4))
def test_a_run_that_is_flat_at_its_end_has_no_rate(seed: int) -> None:
    steps = np.arange(1, 8001)
    noise = np.exp(0.02 * np.random.default_rng(seed).standard_normal(8000))
    text = diagnose([losses(*((2 + 3 * np.exp(-steps / 900)) * noise))]).sentence.render()
    assert "per 1,000 steps" not in text


def test_notes_are_named_beside_a_quiet_verdict() -> None:
    loss = (2 + 3 * np.exp(-np.arange(3000) / 300)) * np.exp(0.02 * np.random.default_rng(1).standard_normal(3000))
    loss[2000] *= 1.6
    diagnosis = diagnose([losses(*loss)])
    assert diagnosis.verdict == "healthy"
    assert f"nothing that needs attention (notes: {len(diagnosis.findings)})" in diagnosis.sentence.render()
    assert "nothing unusual" not in diagnosis.sentence.render()


def test_a_diagnosis_survives_json() -> None:
    diagnosis = diagnose([simulate(rows=900, seed=4, fault="spike_unrecovered").segment])
    data = json.loads(json.dumps(diagnosis.to_dict(), allow_nan=False))
    assert Diagnosis.from_dict(data) == replace(diagnosis, verdict=str(diagnosis.verdict))


@pytest.mark.parametrize(
    ("fault", "verdict"),
    [("spike", "watch"), ("nan_once", "watch"), ("nan_to_end", "sick"), ("spike_unrecovered", "sick"), ("divergence", "sick")],
)
def test_what_came_back_is_watched_and_what_did_not_is_sick(fault: str, verdict: str) -> None:
    run = simulate(rows=1500, seed=8, fault=fault)
    diagnosis = diagnose([run.segment])
    assert diagnosis.verdict == verdict
    assert diagnosis.since_step is not None
    assert diagnosis.known_step is not None
    assert abs(diagnosis.since_step - run.labels[0].first_row) < 60


def test_a_crash_before_the_planned_end_is_a_failure_and_says_where() -> None:
    for kind in ("out_of_memory", "traceback", "killed"):
        diagnosis = diagnose([replace(HEALTHY.head(600), events=said(kind, 777, "CUDA out of memory"))])
        assert diagnosis.verdict == "failed"
        assert diagnosis.sentence.render() == "The run failed after step 600 of 1,200 (line 777): CUDA out of memory"


def test_an_error_in_the_middle_or_after_the_last_step_is_no_failure() -> None:
    assert diagnose([replace(HEALTHY, events=said("traceback", 300))]).verdict == "healthy"
    assert diagnose([replace(HEALTHY, events=said("traceback", 1300))]).verdict == "healthy"


def test_stopped_by_hand_is_as_healthy_as_its_rows_even_with_a_traceback_beside_it() -> None:
    events = pd.concat([said("interrupted", 700), said("traceback", 705)])
    diagnosis = diagnose([replace(HEALTHY.head(600), events=events)])
    assert diagnosis.verdict == "healthy"
    assert "stopped by hand after step 600" in diagnosis.sentence.render()
    assert [str(finding.severity) for finding in diagnosis.findings if finding.kind == "stopped"] == ["info"]
    early = diagnose([replace(HEALTHY.head(4), events=events)])
    assert early.verdict == "watch"  # four rows prove nothing
    assert early.sentence.render().startswith("The run was stopped by hand after step 4, too early to tell")


def test_a_log_without_steps_is_unreadable_or_failed_but_never_healthy() -> None:
    assert diagnose([]).verdict == "unreadable"
    empty = Segment(0, pd.DataFrame())
    assert diagnose([empty]).verdict == "unreadable"
    failed = diagnose([replace(empty, events=said("out_of_memory", 7016, "CUDA out of memory"))])
    assert failed.verdict == "failed"
    assert failed.sentence.render() == "No training step in this log. It ends at line 7,016 with: CUDA out of memory"


def test_too_few_rows_are_too_early_and_the_rules_say_what_they_need() -> None:
    diagnosis = diagnose([losses(3.0, 2.9)])
    assert diagnosis.verdict == "watch"
    assert diagnosis.sentence.render() == "Too early to tell; rows with a loss so far: 2."
    assert any("there are 2" in blind.text.render() for blind in diagnosis.not_assessable)
    assert diagnose([losses(*np.linspace(8, 5, 10))]).verdict == "healthy"
    assert diagnose([losses(*np.linspace(5, 5.2, 10))]).verdict == "watch"


def test_what_is_missing_is_named() -> None:
    blind = {item.rule: item for item in diagnose([losses(*np.linspace(8, 5, 200))]).not_assessable}
    assert blind["lr_anomaly"].missing == ("lr",)
    assert blind["lr_anomaly"].text.render() == "The log does not print: lr"


def test_rows_without_a_loss_can_not_be_healthy_unless_evaluation_tells() -> None:
    steps = np.arange(1, 101)
    rates = Segment(0, pd.DataFrame({"line": steps, "step": steps, "lr": np.full(100, 1e-4)}))
    assert diagnose([rates]).verdict == "watch"
    assert "No training loss" in diagnose([rates]).sentence.render()
    falling = pd.DataFrame({"line": np.arange(10), "step": np.arange(10), "eval_loss": np.linspace(4, 3, 10)})
    assert diagnose([replace(rates, evals=falling)]).verdict == "healthy"
    assert diagnose([replace(rates, evals=falling[::-1])]).verdict == "watch"


def test_the_last_launch_decides_and_earlier_trouble_is_not_forgotten() -> None:
    sick = simulate(rows=900, seed=4, fault="nan_to_end").segment
    later = replace(HEALTHY, number=1)
    diagnosis = diagnose([sick, later])
    assert diagnosis.verdict == "watch"
    assert diagnosis.sentence.render() == "Launch 2 shows nothing unusual; launch 1 before it did: see the findings."
    assert diagnose([replace(HEALTHY, number=0), replace(sick, number=1)]).verdict == "sick"


def test_the_total_alone_does_not_decide_where_its_parts_are_printed() -> None:
    segment = simulate(rows=1500, seed=9, kind="moe").segment
    segment.rows.loc[800:830, "aux_loss"] += 1.0
    segment.rows.loc[800:830, "loss"] += 1.0
    (finding,) = [f for f in diagnose([segment]).findings if f.severity != "info"]
    assert finding.kind == "spike"
    assert finding.causes[0].name == "router"


def test_thresholds_can_be_set_and_an_unknown_profile_is_refused() -> None:
    spike = simulate(rows=1500, seed=5, fault="spike").segment
    loose = {"spike": {"two_of_four": 500.0, "single": 500.0, "least_effect": 50.0}, "grad_explosion": {"two_of_four": 500.0}}
    assert diagnose([replace(spike)], thresholds=loose).verdict == "healthy"
    with pytest.raises(ValueError, match="no profile"):
        diagnose([spike], profile="wishful")


def test_non_finite_gradients_with_a_finite_loss_are_noted_and_nan_evaluations_are_watched() -> None:
    norm = np.ones(100)
    norm[3] = np.inf
    run = losses(*np.linspace(8, 5, 100), grad_norm=norm)
    (finding,) = diagnose([run]).findings
    assert (finding.kind, str(finding.severity), finding.first_step) == ("non_finite", "info", 4)
    evals = pd.DataFrame({"line": [50, 90], "step": [50, 90], "eval_loss": [5.0, np.nan]})
    (finding,) = [f for f in diagnose([replace(run, evals=evals)]).findings if f.severity != "info"]
    assert (finding.kind, finding.first_step, finding.last_step) == ("non_finite", 90, None)
    gaps = {"eval_loss": np.array([False, True])}
    assert [f.kind for f in diagnose([replace(run, evals=evals, evals_absent=gaps)]).findings] == ["non_finite"]


def test_a_column_that_only_telemetry_prints_is_no_reason_to_stumble() -> None:
    telemetry = pd.DataFrame({"line": [5], "lr": [1e-3], "loss": [2.0]})
    assert diagnose([replace(losses(*np.linspace(8, 5, 100)), telemetry=telemetry)]).verdict == "healthy"
    assert diagnose([replace(Segment(0, pd.DataFrame({"line": [1], "step": [1]})), telemetry=telemetry)]).verdict == "watch"


def test_a_loss_that_stands_still_is_never_healthy() -> None:
    diagnosis = diagnose([losses(*[2.0] * 300)])
    assert diagnosis.verdict != "healthy"
    assert "falls" not in diagnosis.sentence.render()
