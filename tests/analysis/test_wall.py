"""The wall clock: every source, and clocks that can't be believed."""

import numpy as np
import pandas as pd
import pytest

from analysis.segment import Segment
from analysis.wall import wall


def rows(count: int = 100, **columns: object) -> Segment:
    steps = np.arange(1, count + 1)
    return Segment(0, pd.DataFrame({"line": steps, "step": steps, **columns}), total_steps=4 * count)


def stamps(seconds: np.ndarray, start: str = "2024-03-01T10:00:00") -> np.ndarray:
    return np.datetime64(start, "ms") + (1000 * np.asarray(seconds)).astype("timedelta64[ms]")


TIMES = np.arange(1.0, 101) * 2.5


@pytest.mark.parametrize(
    ("columns", "seconds"),
    [
        ({"timestamp": stamps(TIMES)}, 99 * 2.5),
        ({"elapsed_seconds": TIMES}, 250),
        ({"step_time_seconds": 2.5}, 250),
        ({"interval_runtime": 2.5}, 250),
        ({"time": TIMES}, 250),
        ({"time": 2.5 + 0.01 * np.sin(TIMES)}, 250),
        ({"steps_per_second": 0.4}, 99 * 2.5),
        ({"tokens_per_second": 400.0, "tokens_seen": np.arange(1, 101) * 1000.0}, 99 * 2.5),
        ({"samples_per_second": 3.2, "batch_size": 8.0}, 99 * 2.5),
    ],
    ids=lambda value: "+".join(value) if isinstance(value, dict) else "",
)
def test_each_source_tells_the_time(columns: dict, seconds: float) -> None:
    known = wall(rows(**columns))
    assert known is not None
    assert known.seconds.sum() == pytest.approx(seconds, rel=0.01)
    assert not known.notes


def test_timestamps_come_before_step_time() -> None:
    known = wall(rows(timestamp=stamps(TIMES), step_time_seconds=1.0))
    assert known is not None
    assert known.source == "timestamp"


def test_a_clock_without_a_date_passes_midnight() -> None:
    day = (23.5 * 3600 + np.arange(100) * 60) % 86_400
    known = wall(rows(timestamp=stamps(day, "1970-01-01")))
    assert known is not None
    assert known.seconds.sum() == pytest.approx(99 * 60)
    assert known.first is None
    assert "passed midnight 1 times" in known.notes[0].render()


@pytest.mark.parametrize(("start", "midnights"), [(23.9, 1), (14.0, 0)])
def test_a_bare_time_may_be_the_time_of_the_day(start: float, midnights: int) -> None:
    day = (start * 3600 + np.arange(100) * 10.0) % 86_400
    known = wall(rows(time=day))
    assert known is not None
    assert known.seconds.sum() == pytest.approx(990)
    assert [note.render() for note in known.notes] == ["the clock has no date and passed midnight 1 times"] * midnights


def test_a_bare_time_that_starts_afresh_with_a_restart_passed_no_midnight() -> None:
    steps = np.r_[np.arange(1, 61), np.arange(41, 101)]
    time = np.r_[np.arange(1, 61) * 1400.0, np.arange(1, 61) * 1400.0]
    known = wall(Segment(0, pd.DataFrame({"line": np.arange(1, 121), "step": steps, "time": time})))
    assert known is not None
    assert known.seconds.sum() == pytest.approx(120 * 1400)
    assert not known.notes


def test_a_clock_that_was_set_back_or_leapt_is_not_believed() -> None:
    seconds = TIMES.copy()
    seconds[40:] -= 3600
    seconds[70:] += 40 * 86_400
    known = wall(rows(timestamp=stamps(seconds)))
    assert known is not None
    assert known.seconds.sum() == pytest.approx(99 * 2.5)
    told = [note.render() for note in known.notes]
    assert "ran back 1 times (first at line 41)" in told[0]
    assert "leapt by more than 30 days 1 times (first at line 71)" in told[1]


def test_elapsed_time_starts_afresh_after_a_restart() -> None:
    steps = np.r_[np.arange(1, 61), np.arange(41, 101)]
    elapsed = np.r_[np.arange(1.0, 61), np.arange(1.0, 61)]
    frame = pd.DataFrame({"line": np.arange(1, 121), "step": steps, "elapsed_seconds": elapsed})
    known = wall(Segment(0, frame))
    assert known is not None
    assert known.seconds.sum() == pytest.approx(120)
    assert known.opening.sum() == 2


def test_a_time_of_unknown_meaning_is_no_clock() -> None:
    steps = np.arange(1, 101) * 10
    frame = pd.DataFrame({"line": np.arange(1, 101), "step": steps, "time": 2 + 0.01 * np.sin(steps)})
    assert wall(Segment(0, frame)) is None
    frame.loc[50:, "step"] += 10  # lines are missing: the time doubles with the steps, so it is that of an interval
    frame.loc[60:, "step"] += 10
    frame.loc[70:, "step"] += 10
    frame.loc[[50, 60, 70], "time"] *= 2
    known = wall(Segment(0, frame))
    assert known is not None
    assert known.seconds.sum() == pytest.approx(frame["time"].sum(), rel=0.01)


def test_one_slow_step_of_ten_counts_once() -> None:
    seconds = np.where(np.arange(100) == 50, 60.0, 1.0)
    frame = pd.DataFrame({"line": np.arange(1, 101), "step": np.arange(1, 101) * 10, "step_time_seconds": seconds})
    assert wall(Segment(0, frame)).seconds.sum() == pytest.approx(1059, abs=1)  # type: ignore[union-attr]
    mean = frame.assign(skipped_iterations=0.0)
    assert wall(Segment(0, mean)).seconds.sum() == pytest.approx(990 + 600, abs=1)  # type: ignore[union-attr]


def test_no_time_negative_time_and_time_that_stands_still_are_no_clock() -> None:
    assert wall(rows()) is None
    assert wall(rows(step_time_seconds=-1.0)) is None
    assert wall(rows(elapsed_seconds=0.0)) is None
    assert wall(rows(step_time_seconds=np.nan, elapsed_seconds=1e300)) is None
    assert wall(Segment(0, pd.DataFrame({"step": [], "elapsed_seconds": []}))) is None


@pytest.mark.parametrize("hours", [-3, 3])
def test_a_clock_that_is_set_and_set_right_again_invents_no_hang(hours: int) -> None:
    stamps = pd.Timestamp("2026-03-01") + pd.to_timedelta(np.arange(200) * 10.0, unit="s")
    moved = stamps + pd.to_timedelta(np.where((np.arange(200) > 99) & (np.arange(200) < 110), hours, 0), unit="h")
    steps = np.arange(1, 201)
    told = wall(Segment(0, pd.DataFrame({"line": steps, "step": steps, "timestamp": moved})))
    assert told is not None
    assert told.seconds.sum() == pytest.approx(1990, rel=0.02)
    assert any("set right again" in note.render() for note in told.notes)


def test_a_hang_after_a_clock_was_set_back_stays_a_hang() -> None:
    stamps = pd.Timestamp("2026-03-01") + pd.to_timedelta(np.arange(200) * 10.0, unit="s")
    later = np.where(np.arange(200) > 49, -3.0, 0.0) + np.where(np.arange(200) > 149, 1.0, 0.0)
    steps = np.arange(1, 201)
    told = wall(
        Segment(0, pd.DataFrame({"line": steps, "step": steps, "timestamp": stamps + pd.to_timedelta(later, unit="h")}))
    )
    assert told is not None
    assert told.seconds.max() == pytest.approx(3610)
