"""The profile of the articles: every threshold exactly as written, on both sides of its limit."""

import numpy as np
import pytest

from analysis.diagnose import diagnose
from analysis.simulate import simulate, with_evaluations
from tests.analysis.losses_lab import alarms, found, run


def swinging(share: float, rows: int = 60) -> np.ndarray:
    return 2.0 * (1 + share * np.where(np.arange(rows) % 2, 1.0, -1.0))


def jump(ratio: float, *, length: int = 3, rows: int = 400) -> np.ndarray:
    loss = np.full(rows, 2.0)
    loss[100 : 100 + length] *= ratio
    return loss


def test_a_swing_of_nine_percent_is_none_and_of_eleven_is_one() -> None:
    assert found("oscillation", run(loss=swinging(0.09)), "articles") == []
    (finding,) = found("oscillation", run(loss=swinging(0.11)), "articles")
    assert finding.severity == "warning"
    assert finding.evidence[0].value == pytest.approx(0.11, abs=0.01)
    names = [cause.name for cause in finding.causes]
    assert "rate_too_high" in names


def test_a_plateau_takes_a_thousand_steps_and_less_than_one_percent() -> None:
    falling = np.linspace(4, 2.1, 50)
    for steps, there in ((999, 0), (1000, 1)):
        loss = np.r_[falling, np.full(steps, 2.0)]
        assert len(found("plateau", run(loss=loss), "articles")) == there, steps
    for change, there in ((0.009, 1), (0.011, 0)):
        loss = np.linspace(2.0, 2.0 * (1 - change), 1000)
        assert len(found("plateau", run(loss=loss), "articles")) == there, change
    (finding,) = found("plateau", run(loss=np.r_[falling, np.full(1000, 2.0), np.full(50, 1.0)]), "articles")
    assert (finding.first_step, finding.known_step, finding.last_step) == (51, 1050, 1050)
    assert {"local_optimum", "data_distribution"} <= {cause.name for cause in finding.causes}


def test_the_thousand_steps_of_a_plateau_are_counted_in_steps_not_in_rows() -> None:
    assert len(found("plateau", run(every=100, loss=np.full(10, 2.0)), "articles")) == 1
    assert found("plateau", run(every=100, loss=np.full(9, 2.0)), "articles") == []


def test_a_tenfold_jump_is_critical_a_smaller_one_a_warning() -> None:
    open_end = {10.0: "critical", 9.9: "warning", 3.0: "warning"}
    for ratio, severity in open_end.items():
        (finding,) = found("spike", run(loss=jump(ratio, length=300)[:150]), "articles")
        assert (finding.first_step, str(finding.severity)) == (101, severity), ratio
    assert found("spike", run(loss=jump(2.9)), "articles") == []
    assert len(found("spike", run(loss=jump(2.9)), "articles", warning_ratio=2.5)) == 1


def test_a_jump_that_comes_back_is_a_recovered_spike_and_no_collapse() -> None:
    (finding,) = found("spike", run(loss=jump(12)), "articles")
    assert finding.title.render().startswith("Recovered spike")
    assert found("spike_unrecovered", run(loss=jump(12)), "articles") == []
    (collapse,) = found("spike_unrecovered", run(loss=jump(12, length=300)), "articles")
    assert (collapse.first_step, str(collapse.severity)) == (101, "critical")
    assert found("spike_unrecovered", run(loss=jump(9.9, length=300)), "articles") == []


def test_a_spike_names_exploding_gradients_and_says_to_pause_and_check_clipping() -> None:
    (finding,) = found("spike", run(loss=jump(12)), "articles")
    assert "Exploding gradients" in " ".join(cause.text.render() for cause in finding.causes)
    assert "Pause" in finding.advice[0].render()
    assert "clipping" in finding.advice[0].render()


def test_nan_is_an_error_with_step_count_last_value_and_rate() -> None:
    loss = np.linspace(4, 3, 50)
    loss[30:] = np.nan
    (finding,) = found("non_finite", run(loss=loss, lr=np.full(50, 1e-3)), "articles")
    assert (finding.first_step, str(finding.severity)) == (31, "critical")
    values = {item.label.template: item.value for item in finding.evidence}
    assert values["{column}: NaN or infinite rows"] == 20
    assert values["{column}: last finite value before"] == pytest.approx(loss[29])
    assert values["{column} at the first bad row"] == pytest.approx(1e-3)
    assert {"learning_rate", "gradients", "bad_values", "fp16"} <= {cause.name for cause in finding.causes}


def test_a_rate_that_never_changes_is_information_and_a_negative_one_an_error() -> None:
    loss = np.linspace(4, 3, 50)
    (finding,) = found("lr_anomaly", run(loss=loss, lr=np.full(50, 1e-3)), "articles")
    assert str(finding.severity) == "info"
    rate = np.linspace(1e-3, -1e-5, 50)
    assert [str(f.severity) for f in found("lr_anomaly", run(loss=loss, lr=rate), "articles")] == ["critical"]


def test_a_rate_that_falls_faster_than_declared_quotes_the_article_and_offers_the_schedule() -> None:
    done = np.arange(200) / 200
    config = {"lr_scheduler_type": "linear"}
    right = run(total=200, config=config, loss=np.linspace(4, 3, 200), lr=1e-3 * (1 - done))
    assert found("lr_anomaly", right, "articles") == []
    fast = run(total=200, config=config, loss=np.linspace(4, 3, 200), lr=1e-3 * (1 - done) ** 3)
    (finding,) = found("lr_anomaly", fast, "articles")
    assert [cause.name for cause in finding.causes][-1] == "weight_decay"
    assert "schedule" in {cause.name for cause in finding.causes}


def test_a_late_rise_counts_behind_half_of_the_plan_and_above_a_tenth() -> None:
    flat, level = np.full(300, 2.0), np.r_[np.linspace(4, 2, 200), np.full(100, 2.0)]
    for rise, there in ((1.09, 0), (1.12, 1)):
        assert len(found("divergence", run(total=600, loss=np.r_[level, flat * rise]), "articles")) == there, rise
    early = np.r_[np.linspace(4, 2, 100), np.full(100, 2.3), np.full(400, 1.9)]
    assert found("divergence", run(total=600, loss=early), "articles") == []


def test_a_loss_that_never_falls_is_said_after_a_thousand_steps() -> None:
    assert len(found("no_learning", run(loss=np.full(1100, 8.7) + 0.01 * np.sin(np.arange(1100))), "articles")) == 1
    assert found("no_learning", run(loss=np.full(900, 8.7)), "articles") == []
    assert found("no_learning", run(loss=np.linspace(8.7, 6, 1100)), "articles") == []


def test_training_that_falls_while_evaluation_worsens_names_both_causes_and_the_best_step() -> None:
    segment = with_evaluations(simulate(rows=2000, seed=3).segment, every=100, noise=0.0005, turns_at=0.5)
    (finding,) = found("overfit", segment, "articles")
    best = int(segment.evals["step"].iloc[int(segment.evals["eval_loss"].iloc[:12].argmin())])
    assert finding.first_step == best
    assert {"too_many_epochs", "contamination"} <= {cause.name for cause in finding.causes}
    assert found("overfit", with_evaluations(simulate(rows=2000, seed=3).segment, every=200, noise=0.0), "articles") == []


def test_the_profile_is_chosen_by_name_and_its_thresholds_can_be_edited() -> None:
    segment = run(loss=swinging(0.09))
    assert not [f for f in diagnose([segment], profile="articles").findings if f.kind == "oscillation"]
    loose = {"oscillation": {"fluctuation": 0.08}}
    again = run(loss=swinging(0.09))
    assert [f.kind for f in diagnose([again], profile="articles", thresholds=loose).findings if f.kind == "oscillation"]


def test_where_the_articles_give_no_number_the_robust_rule_holds() -> None:
    zero = run(loss=np.r_[np.linspace(4, 3, 100), np.zeros(50)])
    assert [f.first_step for f in alarms("loss_zero", zero, "articles")] == [101]
