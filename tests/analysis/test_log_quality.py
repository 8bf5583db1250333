"""How much a log can tell: scores fall with what is missing, and every missing thing is named."""

from dataclasses import replace

import numpy as np
import pytest

from analysis.diagnose import diagnose
from analysis.log_overhead import log_size
from analysis.log_quality import LogFacts, Quality, quality
from analysis.segment import Segment
from analysis.simulate import simulate, with_events


def facts(rows: int, **named) -> LogFacts:
    size = log_size(lines=rows, size=rows * 150, records=rows, first_step=1, last_step=rows, format="jsonl")
    return replace(LogFacts(rows, rows, 0, 0, "jsonl", size), **named)


def graded(segment: Segment, **named) -> Quality:
    return quality([segment], facts(len(segment), **named), diagnose([segment]))


def without(segment: Segment, *columns: str) -> Segment:
    return replace(segment, rows=segment.rows.drop(columns=list(columns)))


def score(found: Quality, key: str) -> float:
    return next(part.score for part in (*found.classes, *found.dimensions) if part.key == key)


@pytest.fixture(scope="module")
def whole() -> Segment:
    segment = simulate(rows=900, seed=3, kind="moe").segment
    config = {"use_moe": True, "batch_size": 32, "seed": 1, "lr": 5e-4, "epochs": 1, "vocab_size": 6400}
    return replace(segment, config=config)


def test_a_full_log_has_a_good_grade_and_no_class_missing(whole):
    found = graded(whole)
    assert found.grade in ("A", "B")
    assert all(part.score for part in found.classes)


@pytest.mark.parametrize(
    ("columns", "key"),
    [
        (("lr",), "rate"),
        (("step_time_seconds",), "time"),
        (("loss", "logits_loss", "aux_loss"), "losses"),
    ],
)
def test_each_missing_class_lowers_the_score_and_says_what_is_impossible(whole, columns, key):
    full, found = graded(whole), graded(without(whole, *columns))
    part = next(part for part in found.classes if part.key == key)
    assert part.score == 0
    assert part.lost
    assert score(found, "completeness") < score(full, "completeness")
    assert found.score < full.score
    assert set(columns) & set(found.missing) or key == "losses"


def test_a_loss_that_is_not_layered_is_a_partial_answer(whole):
    found = graded(without(whole, "logits_loss", "aux_loss"))
    losses = next(part for part in found.classes if part.key == "losses")
    assert 0 < losses.score < 1
    assert "constraint" in losses.lost[0].render()


def test_a_dense_model_needs_no_layers():
    segment = replace(simulate(rows=600, seed=2).segment, config={"use_moe": False})
    assert next(part for part in graded(segment).classes if part.key == "losses").score == 1.0


def test_the_six_things_to_watch_are_there_or_missing(whole):
    found = {part.key: part for part in graded(whole).aspects}
    assert len(found) == 6
    assert found["loss"].columns
    assert not found["hardware"].score
    assert found["hardware"].lost


def test_nan_and_faults_make_numbers_less_plausible():
    good = graded(simulate(rows=900, seed=3).segment)
    bad = graded(simulate(rows=900, seed=3, fault="nan_to_end").segment)
    assert score(bad, "plausibility") < score(good, "plausibility")


def test_long_lines_and_much_text_cost(whole):
    heavy = log_size(lines=90_000, size=90_000 * 5000, records=900, first_step=1, last_step=900, format="generic")
    found = graded(whole, lines=90_000, size=heavy)
    assert score(found, "overhead") < score(graded(whole), "overhead")


def test_lines_that_were_not_understood_are_seen(whole):
    assert score(graded(whole, unparsed=90), "observability") < score(graded(whole), "observability")


def test_what_does_not_concern_the_run_is_not_missed():
    found = graded(simulate(rows=900, seed=3).segment)
    assert not {"reward", "rank", "aux_loss"} & set(found.missing)


def test_without_a_row_there_is_no_grade():
    found = quality([], facts(0, size=None), diagnose([]))
    assert found.grade is None
    assert not found.classes


def test_lines_of_another_form_are_no_form_that_is_kept(whole):
    changed = with_events(whole, (400, "form_change", "step=400 loss=2.1", {"read": True}))
    for segment, kept in ((whole, True), (changed, False)):
        found = next(part for part in graded(segment).dimensions if part.key == "comparability")
        assert any("keep one form" in text.template for text in found.seen) is kept
        assert any("change their form" in text.template for text in found.lost) is not kept


def test_a_warm_up_before_a_constant_rate_is_named(whole):
    rate = np.minimum(np.arange(1, 901) / 50, 1) * 3e-4
    for lr, words in ((rate, "warm-up to step 50, then constant"), (np.full(900, 3e-4), "its course: constant")):
        part = next(part for part in graded(replace(whole, rows=whole.rows.assign(lr=lr))).classes if part.key == "rate")
        assert words in part.seen[-1].render()
