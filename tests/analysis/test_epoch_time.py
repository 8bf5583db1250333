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
    assert (known.meaning, known.proved) == (kind, True)
    if kind != "remaining" or lines > 3:
        assert known.epoch_minutes is not None
        assert known.epoch_minutes[1] == pytest.approx(60.84, abs=1.1)


@pytest.mark.parametrize("fault", [None, "hang", "slow"])
def test_no_run_is_ever_read_wrongly(fault: str | None) -> None:
    random = np.random.default_rng(3)
    for number in range(150):
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
            assert not known.proved or known.meaning == kind, (number, habit, kind)


def in_the_form_of_minimind(segment: Segment) -> Segment:
    return replace(segment, rows=segment.rows.assign(epochs=1.0, lr=5e-4), absent={})


def test_whole_minutes_are_read_as_what_is_left_until_the_course_can_tell() -> None:
    line = log(np.array([35.0]), np.array([100.0]), 9924)
    assert epoch_time(line).meaning is None  # type: ignore[union-attr]
    known = epoch_time(in_the_form_of_minimind(line))
    assert known is not None
    assert (known.meaning, known.proved) == ("remaining", False)
    assert "can't be proved yet" in known.text.render()
    assert known.epoch_minutes == pytest.approx((35.36, 35.86, 36.37), abs=0.01)


def test_decimals_alone_are_not_decided_and_rising_minutes_are_not_what_is_left() -> None:
    assert epoch_time(log(np.array([45.2]), np.array([1.0]), 1000)).meaning is None  # type: ignore[union-attr]
    assert epoch_time(log(np.array([2.0, 3.0]), np.array([100.0, 150.0]), 1000)).meaning is None  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("minutes", "done", "meaning"),
    [
        ([9, 9, 9, 9, 9, 8, 8, 8, 8, 8], np.arange(1, 11) * 100, "remaining"),  # falls by one of 0.8 due
        ([54, 54, 53, 53, 52, 51, 51, 50, 50, 49], np.arange(1, 11) * 100, "remaining"),
        ([349, 349, 349, 349], np.array([100, 200, 300, 400]), None),  # stands still where 11 are due
        ([36, 36, 36], np.array([10, 20, 30]), "remaining"),  # stands still where nothing is due
        ([2, 3], np.array([100, 200]), None),
        ([660, 492, 448, 418, 407, 395, 390, 383, 382, 377], np.arange(1, 11) * 50, None),  # a total that starts up fits better
        ([98765.4, 98654.3], np.array([10, 20]), None),  # no whole minutes, however large
    ],
)
def test_the_convention_serves_only_where_the_values_fall_as_what_is_left_does(
    minutes: list[float], done: np.ndarray, meaning: str | None
) -> None:
    known = epoch_time(in_the_form_of_minimind(log(np.array(minutes, dtype=float), done.astype(float), 9924)))
    assert known is not None
    assert (known.meaning, known.proved) == (meaning, False)


def test_the_form_with_two_floors_is_never_read_as_something_else() -> None:
    for size, each in ((1000, 0.09), (4000, 0.031), (9924, 0.0037)):
        for share in (0.05, 0.3, 1.0):
            done = np.arange(1, 41) * int(size * share) // 40
            minutes = np.floor(each * size) - np.floor(each * done)
            known = epoch_time(in_the_form_of_minimind(log(minutes, done - 1.0, size)))
            assert known is not None
            assert known.meaning in ("remaining", None)


def test_the_user_decides_and_an_unknown_word_is_refused() -> None:
    segment = log(np.full(4, 45.0), np.arange(1.0, 5), 1000)
    known = epoch_time(segment, "total")
    assert known is not None
    assert (known.meaning, known.proved) == ("total", True)
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


@pytest.mark.parametrize(("lines", "proved"), [(3, False), (10, True), (100, True)])
def test_an_estimated_total_that_falls_from_its_start_up_is_told_from_what_is_left_by_many_lines(
    lines: int, proved: bool
) -> None:
    size = 1000
    done = np.linspace(size / 2 / lines, size / 2, lines).round()
    passed = 20.0 + 0.2 * done  # minutes, the first twenty of them compilation
    total = (passed / done * size).round(1)
    known = epoch_time(log(total, done, size))
    assert known is not None
    assert (known.meaning, known.proved) == (("total", True) if proved else (None, False))
    left = (passed / done * (size - done)).round(1)
    other = epoch_time(log(left, done, size))
    assert other is not None
    assert other.meaning in ("remaining", None)
