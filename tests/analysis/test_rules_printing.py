"""Fields that vanish and lines that change their form; what to log, and the early verdict."""

from dataclasses import replace

import numpy as np

from analysis.diagnose import Diagnosis, diagnose
from analysis.segment import Segment
from analysis.simulate import simulate, with_events
from tests.analysis.losses_lab import alarms, found


def without(column: str, gaps: np.ndarray, *, rows: int = 400) -> Segment:
    segment = simulate(rows=rows, seed=4).segment
    segment.rows.loc[gaps, column] = np.nan
    return replace(segment, absent={column: gaps})


def test_a_field_must_be_gone_in_twenty_of_twenty_five_rows_after_good_cover() -> None:
    rows = np.arange(400)
    for missing, there in (((rows >= 200) & (rows < 219), 0), ((rows >= 200) & (rows < 225), 1)):
        assert len(found("field_missing", without("grad_norm", missing))) == there
    half = (rows % 2 == 0) | (rows >= 200)
    assert found("field_missing", without("grad_norm", half)) == []


def test_a_missing_field_names_the_rules_that_are_blind() -> None:
    (finding,) = alarms("field_missing", without("grad_norm", np.arange(400) >= 200))
    assert (finding.first_step, finding.known_step) == (201, 220)
    assert "grad_explosion" in str(finding.evidence[1].value)


def test_a_field_that_comes_back_is_noted_only() -> None:
    rows = np.arange(400)
    (finding,) = found("field_missing", without("grad_norm", (rows >= 200) & (rows < 260)))
    assert str(finding.severity) == "info"
    assert finding.last_step is not None


def test_what_vanishes_while_something_else_appears_is_another_form() -> None:
    gaps = np.arange(400) >= 200
    segment = without("grad_norm", gaps)
    segment.rows["tokens_per_second"] = np.where(gaps, 1e5, np.nan)
    both = replace(segment, absent={"grad_norm": gaps, "tokens_per_second": ~gaps})
    (finding,) = alarms("format_change", both)
    assert finding.evidence[0].line == 200
    assert finding.evidence[1].line == 201
    assert found("format_change", segment) == []


def test_what_to_log_names_the_line_that_prints_it() -> None:
    segment = simulate(rows=1500, seed=5, fault="spike").segment
    bare = replace(segment, rows=segment.rows.drop(columns=["grad_norm", "lr"]))
    wanted = {item.column: item for item in diagnose([bare]).to_log()}
    assert "gradients" in wanted["grad_norm"].causes
    assert "clip_grad_norm_" in wanted["grad_norm"].line
    assert "lr_anomaly" in wanted["lr"].rules


def test_the_early_verdict_knows_the_first_thousand_steps_only() -> None:
    sick_later = simulate(rows=3000, seed=6, fault="nan_to_end", at=0.6).segment
    diagnosis = diagnose([sick_later])
    assert diagnosis.verdict == "sick"
    assert diagnosis.early is not None
    assert (diagnosis.early.verdict, diagnosis.early.step) == ("healthy", 1000)
    assert Diagnosis.from_dict(diagnosis.to_dict()).early == replace(diagnosis.early, verdict="healthy")
    sick_early = diagnose([simulate(rows=3000, seed=6, fault="nan_to_end", at=0.2).segment])
    assert sick_early.early is not None
    assert (sick_early.early.verdict, sick_early.early.known_step) == ("sick", 601)
    assert diagnose([simulate(rows=900, seed=6).segment]).early is None


def test_what_the_reader_says_about_the_form_is_found_at_its_line() -> None:
    change = (200, "form_change", "step=200 loss=2.1", {"read": True})
    (finding,) = alarms("format_change", with_events(simulate(rows=400, seed=4).segment, change))
    assert (finding.first_step, finding.known_step, finding.first_line) == (200, 209, 200)
    assert finding.evidence[1].value == "step=200 loss=2.1"
    gaps = np.arange(400) >= 199
    (finding,) = alarms("format_change", with_events(without("grad_norm", gaps), change))
    assert finding.title.values["gone"] == "grad_norm"


def test_a_launch_in_another_form_than_the_one_before_is_noted_and_one_of_another_launch_is_not() -> None:
    segment = simulate(rows=400, seed=4).segment
    (finding,) = found("format_change", with_events(segment, (1, "form_change", "step=1", {"read": True})))
    assert str(finding.severity) == "info"
    assert found("format_change", with_events(segment, (401, "form_change", "step=1", {"read": True}))) == []


def test_a_log_that_goes_on_unread_has_not_stopped() -> None:
    segment = simulate(rows=400, seed=4).segment.head(200)
    assert len(found("stopped", segment)) == 1
    unread = with_events(segment, (201, "form_change", "step=201 loss=2.1", {"read": False}))
    assert found("stopped", unread) == []
    (finding,) = alarms("format_change", unread)
    assert (finding.first_step, finding.first_line, finding.last_line) == (200, 201, 201)
    assert diagnose([unread]).sentence == finding.title
