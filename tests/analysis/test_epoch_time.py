"""The meaning of epoch_time: right or undecided, never wrong (R6, R156)."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from analysis.epoch_time import epoch_clock, epoch_time
from analysis.segment import Segment
from analysis.simulate_time import HABITS, timed


def log(minutes: np.ndarray, done: np.ndarray, size: int) -> Segment:
    frame = {"line": np.arange(1, len(done) + 1), "step": done, "step_printed": done, "epoch": 1.0, "steps_per_epoch": size}
    return Segment(0, pd.DataFrame(frame).astype(float).assign(epoch_time_minutes=minutes), total_steps=size)


def printed(kind: str, passed: np.ndarray, done: np.ndarray, size: int) -> np.ndarray:
    left = size - done
    values = {"remaining": passed / done * left, "elapsed": passed, "total": np.full(len(done), passed[-1] / done[-1] * size)}
    return values[kind]


@pytest.mark.parametrize("whole", [True, False])
@pytest.mark.parametrize("kind", ["remaining", "elapsed", "total"])
@pytest.mark.parametrize("lines", [3, 4, 10, 100])
def test_three_lines_over_an_epoch_prove_the_meaning(kind: str, lines: int, whole: bool) -> None:
    size = 1200
    done = np.linspace(size / lines, size, lines).round()
    minutes = printed(kind, 0.0507 * done, done, size)
    known = epoch_time(log(np.floor(minutes) if whole else minutes.round(1), done, size))
    assert known is not None
    assert known.meaning == kind
    if kind != "remaining" or lines > 3:
        assert known.epoch_minutes is not None
        assert known.epoch_minutes[1] == pytest.approx(60.84, abs=1.1)


@pytest.mark.parametrize("fault", [None, "hang", "slow"])
def test_no_run_is_ever_read_wrongly(fault: str | None) -> None:
    random = np.random.default_rng(3)
    for number in range(60):
        habit = str(random.choice(list(HABITS)))
        run = timed(plan=int(random.choice([300, 1000])), seed=number, habit=habit, fault=fault)
        launch, scale = run.launches[0], float(random.choice([1, 5, 30]))
        rows = (
            np.unique(np.linspace(9, run.plan * random.choice([0.2, 0.5, 1]), int(random.choice([3, 5, 20]))).astype(int)) - 1
        )
        done, passed = launch.steps[rows].astype(float), launch.ends[rows] * scale / 60
        for kind in ("remaining", "elapsed", "total"):
            minutes = printed(kind, passed, done, run.plan)
            known = epoch_time(log(np.floor(minutes) if number % 2 else minutes.round(1), done, run.plan))
            assert known is not None
            assert known.meaning in (kind, None), (number, habit, kind)


def in_the_form_of_minimind(segment: Segment) -> Segment:
    return replace(segment, rows=segment.rows.assign(epochs=1.0, lr=5e-4), absent={})


def test_one_line_is_not_decidable_and_taken_as_what_is_left_in_the_form_of_minimind() -> None:
    line = log(np.array([35.0]), np.array([100.0]), 9924)
    bare = epoch_time(line)
    assert bare is not None
    assert (bare.meaning, bare.assumed, bare.step_minutes) == (None, None, None)
    known = epoch_time(in_the_form_of_minimind(line))
    assert known is not None
    assert (known.meaning, known.assumed) == (None, "remaining")
    assert known.possible == ("remaining", "elapsed", "total")
    assert "can't be told yet (lines so far: 1); it is taken as what is left" in known.text.render()
    assert known.epoch_minutes == pytest.approx((35.00, 35.68, 36.37), abs=0.01)  # by one floor or by two
    assert known.other_minutes == pytest.approx((35 / 9924, 36 / 100), rel=0.01)


@pytest.mark.parametrize("first", [0, 1], ids=["steps from 0", "steps from 1"])
@pytest.mark.parametrize("header", [{}, {"总参数量": 25.83}], ids=["bare", "header"])
def test_two_floors_tell_the_pace_as_well_as_one(header: dict, first: int) -> None:
    size, done, errors = 1200, np.arange(10.0, 900, 10), []
    for whole in np.arange(20.05, 21.05, 0.1):
        minutes = np.floor(whole) - np.floor(whole * done / size)
        known = epoch_time(replace(in_the_form_of_minimind(log(minutes, done - 1 + first, size)), config=header))
        assert known is not None
        assert known.meaning == "remaining"
        assert known.epoch_minutes is not None
        errors.append(known.epoch_minutes[1] / whole - 1)
    assert np.mean(errors) == pytest.approx(0, abs=0.01)  # 0.05 for one who takes them for one floor


@pytest.mark.parametrize("header", [{"Model Params": 25830000, "Trainable Params": 25830000}, {"总参数量": 25.83}])
def test_the_header_of_minimind_tells_what_its_course_can_not_yet(header: dict) -> None:
    line = log(np.array([35.0]), np.array([100.0]), 9924)
    known = epoch_time(replace(in_the_form_of_minimind(line), config=header))
    assert known is not None
    assert (known.meaning, known.assumed) == ("remaining", None)
    assert "header" in known.text.render()
    assert known.epoch_minutes is not None
    assert known.epoch_minutes[1] == pytest.approx(35.9, abs=0.6)
    bare = epoch_time(replace(line, config=header))  # another form
    assert bare is not None
    assert bare.meaning is None


def test_a_course_that_contradicts_the_header_of_minimind_counts_more() -> None:
    done = np.arange(1, 21) * 50.0
    rising = replace(in_the_form_of_minimind(log(np.floor(done * 0.1), done, 1000)), config={"总参数量": 25.83})
    known = epoch_time(rising)
    assert known is not None
    assert known.meaning == "elapsed"


@pytest.mark.parametrize("each", [0.225, 0.23, 0.19])
def test_two_floors_near_the_end_of_an_epoch_make_no_hours(each: float) -> None:
    size = 9924
    done = np.r_[np.arange(100, size, 100), size].astype(float)
    spent = done * each
    minutes = spent / (done + 1) * size // 60 - spent // 60
    clock = epoch_clock(in_the_form_of_minimind(log(minutes, done, size)))
    assert clock is not None
    assert clock[1][-1] == pytest.approx(each * size, rel=0.08)


def test_decimals_alone_are_not_decided_and_rising_minutes_are_not_what_is_left() -> None:
    assert epoch_time(log(np.array([45.2]), np.array([1.0]), 1000)).meaning is None  # type: ignore[union-attr]
    assert epoch_time(log(np.array([2.0, 3.0]), np.array([100.0, 150.0]), 1000)).meaning is None  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("minutes", "done", "assumed"),
    [
        ([9, 9, 9, 9, 9, 8, 8, 8, 8, 8], np.arange(1, 11) * 100, "remaining"),  # falls by one of 0.8 due
        ([349, 349, 349, 349], np.array([100, 200, 300, 400]), None),  # stands still where 11 are due
        ([36, 36, 36], np.array([10, 20, 30]), "remaining"),  # stands still where nothing is due
        ([660, 492, 448, 418, 407, 395, 390, 383, 382, 377], np.arange(1, 11) * 50, None),  # a total that starts up fits better
        ([98765.4, 98654.3], np.array([10, 20]), None),  # no whole minutes, however large
    ],
)
def test_what_is_left_is_assumed_only_where_the_values_fall_as_it_does(
    minutes: list[float], done: np.ndarray, assumed: str | None
) -> None:
    known = epoch_time(in_the_form_of_minimind(log(np.array(minutes, dtype=float), done.astype(float), 9924)))
    assert known is not None
    assert (known.meaning, known.assumed) == (None, assumed)


@pytest.mark.parametrize(
    ("minutes", "done", "meaning"),
    [
        ([54, 54, 53, 53, 52, 51, 51, 50, 50, 49], np.arange(1, 11) * 100, "remaining"),  # a tenth of the epoch, no start-up
        ([0, 0, 1, 1, 2], np.array([100, 200, 300, 400, 500]), "elapsed"),
        ([7, 5, 2, 0], np.array([2500, 5000, 7500, 9924]), "remaining"),  # nothing left when nothing is
    ],
)
def test_whole_minutes_tell_where_no_steady_run_of_another_meaning_prints_them(
    minutes: list[float], done: np.ndarray, meaning: str
) -> None:
    known = epoch_time(log(np.array(minutes, dtype=float), done.astype(float), 9924))
    assert known is not None
    assert known.meaning == meaning


@pytest.mark.parametrize("meaning", ["remaining", "elapsed", "total"])
@pytest.mark.parametrize("name", ["elapsed_seconds", "timestamp", "step_time_seconds"])
def test_a_clock_beside_it_tells_what_the_values_alone_do_not(name: str, meaning: str) -> None:
    size, each = 1000, 6.0  # 100 minutes an epoch
    done = np.arange(20.0, 161, 20)
    minutes = np.floor(printed(meaning, done * each / 60, done, size))
    clock = {
        "elapsed_seconds": done * each,
        "timestamp": pd.to_datetime(1.7e9 + done * each, unit="s"),
        "step_time_seconds": np.full(len(done), each),
    }
    segment = log(minutes, done, size)
    known = epoch_time(replace(segment, rows=segment.rows.assign(**{name: clock[name]})))
    assert known is not None
    assert known.meaning == meaning


def test_the_form_with_two_floors_is_never_read_as_something_else() -> None:
    for size, each in ((1000, 0.09), (4000, 0.031), (9924, 0.0037)):
        for share in (0.05, 0.3, 1.0):
            done = np.arange(1, 41) * int(size * share) // 40
            minutes = np.floor(each * size) - np.floor(each * done)
            known = epoch_time(in_the_form_of_minimind(log(minutes, done - 1.0, size)))
            assert known is not None
            assert known.meaning in ("remaining", None)


def test_an_outage_in_many_lines_does_not_hide_the_meaning() -> None:
    done = np.arange(20.0, 1001, 20)
    passed = 0.06 * done + np.where(done > 400, 45.0, 0.0)
    for kind in ("remaining", "elapsed"):
        known = epoch_time(log(printed(kind, passed, done, 1000).round(1), done, 1000))
        assert known is not None
        assert known.meaning == kind


def test_the_user_decides_and_an_unknown_word_is_refused() -> None:
    segment = log(np.full(4, 45.0), np.arange(1.0, 5), 1000)
    known = epoch_time(segment, "total")
    assert known is not None
    assert known.meaning == "total"
    assert known.epoch_minutes == pytest.approx((45, 45, 45), abs=1)
    assert "as you chose" in known.text.render()
    with pytest.raises(ValueError, match="can't mean 'left'"):
        epoch_time(segment, "left")


def test_start_up_is_told_from_the_pace() -> None:
    done = np.arange(20.0, 1000, 20)
    passed = 5 + 0.04 * done
    known = epoch_time(log(np.floor(printed("remaining", passed, done, 1000)), done, 1000))
    assert known is not None
    assert known.epoch_minutes is not None
    assert known.epoch_minutes[1] == pytest.approx(40, rel=0.03)
    assert known.startup_minutes == pytest.approx(5, abs=0.6)


def test_the_clock_that_follows_from_it_runs_over_epochs() -> None:
    done = np.arange(50.0, 1001, 50)
    minutes = np.floor(printed("remaining", 0.06 * done, done, 1000))
    frame = pd.concat([log(minutes, done, 1000).rows] * 2, ignore_index=True)
    frame["step"] = np.r_[done, done + 1000]
    frame["epoch"] = np.repeat([1.0, 2.0], len(done))
    clock = epoch_clock(replace(log(minutes, done, 1000), rows=frame, total_steps=2000))
    assert clock is not None
    assert np.all(np.diff(clock[1]) >= 0)
    assert clock[1][-1] == pytest.approx(2 * 60 * 60, rel=0.03)


def test_without_the_column_there_is_no_meaning_and_absurd_values_are_not_read() -> None:
    assert epoch_time(Segment(0, pd.DataFrame({"step": [1.0]}))) is None
    assert epoch_time(log(np.array([np.nan, np.inf, -1, 1e300]), np.arange(1.0, 5), 10)) is None


@pytest.mark.parametrize(("lines", "told"), [(3, False), (10, True), (100, True)])
def test_an_estimated_total_that_falls_from_its_start_up_is_told_from_what_is_left_by_many_lines(
    lines: int, told: bool
) -> None:
    size = 1000
    done = np.linspace(size / 2 / lines, size / 2, lines).round()
    passed = 20.0 + 0.2 * done  # minutes, the first twenty of them compilation
    total = (passed / done * size).round(1)
    known = epoch_time(log(total, done, size))
    assert known is not None
    assert known.meaning == ("total" if told else None)
    left = (passed / done * (size - done)).round(1)
    other = epoch_time(log(left, done, size))
    assert other is not None
    assert other.meaning in ("remaining", None)
