"""The checklist: unknown never counts as a pass, a person answers where the log does not, and each item has its evidence."""

from dataclasses import replace

import numpy as np
import pytest

from analysis.checklist import Checklist, State, Tick, checklist, together
from analysis.diagnose import diagnose
from analysis.log_overhead import log_size
from analysis.log_quality import LogFacts, quality
from analysis.segment import Segment
from analysis.simulate import simulate, with_events


def answers(*segments: Segment, ticks: dict[str, Tick] | None = None, alerts: int | None = None) -> Checklist:
    diagnosis = diagnose(segments)
    rows = sum(map(len, segments))
    size = log_size(lines=rows, size=rows * 90, records=rows, first_step=1, last_step=rows, format="jsonl")
    known = quality(segments, LogFacts(rows, rows, 0, 0, "jsonl", size), diagnosis)
    return checklist(segments, diagnosis, known, ticks=ticks, alerts=alerts)


def state(found: Checklist, key: str) -> State:
    items = (*found.conditions, *found.items, *found.dimensions, *found.production)
    return next(item.state for item in items if item.key == key)


@pytest.fixture(scope="module")
def well() -> Segment:
    return simulate(rows=900, seed=3).segment


def with_a_checkpoint(segment: Segment) -> Segment:
    return with_events(
        segment, (400, "checkpoint_saved", "saved", {}), (1, "resume", "resumed from step 400", {}), (5, "note", "x", {})
    )


def test_there_are_four_conditions_eleven_items_seven_dimensions_and_three_of_production(well):
    found = answers(well)
    assert [len(part) for part in (found.conditions, found.items, found.dimensions, found.production)] == [4, 11, 7, 3]
    keys = [item.key for part in (found.conditions, found.items, found.dimensions, found.production) for item in part]
    assert len(set(keys)) == len(keys)


def test_a_good_run_without_a_checkpoint_is_not_shown_to_go_from_end_to_end(well):
    found = answers(well)
    assert [item.state for item in found.conditions] == [State.PASS, State.PASS, State.PASS, State.UNKNOWN]
    assert found.verdict is State.UNKNOWN


def test_saved_and_resumed_from_is_a_pass_of_all_four(well):
    assert answers(with_a_checkpoint(well)).verdict is State.PASS


def test_saved_alone_is_not_resumable(well):
    found = answers(with_events(well, (400, "checkpoint_saved", "saved", {})))
    assert state(found, "checkpoint") is State.UNKNOWN


@pytest.mark.parametrize(
    ("fault", "key"),
    [("nan_to_end", "finite"), ("divergence", "falls"), ("spike_unrecovered", "falls"), ("no_learning", "falls")],
)
def test_a_fault_fails_its_condition(fault, key):
    found = answers(simulate(rows=1500, seed=5, fault=fault).segment)
    assert state(found, key) is State.FAIL
    assert found.verdict is State.FAIL


def test_an_error_with_the_data_fails_the_first_condition(well):
    found = answers(with_events(well, (300, "traceback", "JSONDecodeError: Expecting value: line 1 column 1", {})))
    assert state(found, "data") is State.FAIL


def test_a_rate_above_the_declared_one_fails_the_arguments(well):
    assert state(answers(replace(well, config={"learning_rate": 1e-4})), "arguments") is State.FAIL
    assert state(answers(replace(well, config={"learning_rate": 5e-4})), "arguments") is State.UNKNOWN


def test_the_structure_is_judged_by_what_is_declared():
    moe = simulate(rows=600, seed=3, kind="moe").segment
    assert state(answers(replace(moe, config={"use_moe": True})), "structure") is State.PASS
    assert state(answers(replace(moe, config={"use_moe": False})), "structure") is State.FAIL
    assert state(answers(simulate(rows=600, seed=3).segment), "structure") is State.UNKNOWN


def test_a_person_answers_what_the_log_does_not_and_only_that(well):
    ticks = {"sample": Tick(State.PASS, "tried with one sentence", "Kim"), "finite": Tick(State.FAIL, "no")}
    found = answers(well, ticks=ticks)
    item = next(item for item in found.items if item.key == "sample")
    assert item.state is State.PASS
    assert item.tick.note == "tried with one sentence"
    assert state(found, "finite") is State.PASS
    assert found.passed == answers(well).passed + 1


def test_unknown_never_counts_as_a_pass(well):
    assert together(answers(well, ticks={"checkpoint": Tick(State.UNKNOWN)}).conditions) is State.UNKNOWN


def test_alerts_are_known_or_not(well):
    assert state(answers(well), "production_alerts") is State.UNKNOWN
    assert state(answers(well, alerts=0), "production_alerts") is State.FAIL
    assert state(answers(well, alerts=2), "production_alerts") is State.PASS


def test_how_it_ended(well):
    assert "to its end" in answers(replace(well, total_steps=900)).outcome.render()
    open_ = replace(well, total_steps=5000)
    assert "breaks off" in answers(open_).outcome.render()
    crashed = with_events(open_, (901, "out_of_memory", "CUDA out of memory", {}))
    assert "clear error in line 901" in answers(crashed).outcome.render()
    assert "stopped" in answers(with_events(open_, (901, "interrupted", "KeyboardInterrupt", {}))).outcome.render()
    nan = simulate(rows=900, seed=3, fault="nan_to_end").segment
    assert "NaN to the end" in answers(replace(nan, total_steps=5000)).outcome.render()


def test_nothing_at_all_is_unknown_everywhere():
    found = answers()
    states = {item.state for item in (*found.conditions, *found.items)}
    assert states == {State.UNKNOWN}


def test_absurd_values_are_no_crash(well):
    rows = well.rows.assign(loss=np.where(np.arange(900) % 7 == 0, 1e308, -1e308), lr=np.inf)
    assert answers(replace(well, rows=rows)).outcome.render()


def test_steps_that_a_scaler_skips_are_noted_and_no_failure():
    rows = 900
    segment = simulate(rows=rows, seed=3).segment
    skipped = np.zeros(rows)
    skipped[[200, 500]] = 1
    found = answers(replace(segment, rows=segment.rows.assign(skipped_iterations=skipped, loss_scale=65536.0)))
    assert state(found, "finite") is State.PASS
