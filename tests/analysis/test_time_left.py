"""Time left comes from the best source in the log, with a range, or not at all and with the reason."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from analysis.epoch_time import epoch_time
from analysis.segment import Segment
from analysis.simulate_time import timed
from analysis.time_left import time_left, why_unknown


def run(rows: int = 100, total: int | None = 400, **columns: object) -> Segment:
    steps = np.arange(1, rows + 1)
    return Segment(0, pd.DataFrame({"line": steps, "step": steps, **columns}), total_steps=total)


def epochs(minutes: np.ndarray, *, size: int, printed: np.ndarray, epoch: int = 1, plan: int = 1) -> Segment:
    frame = {"step": printed + (epoch - 1) * size, "step_printed": printed, "epoch": float(epoch)}
    frame |= {"epochs": float(plan), "steps_per_epoch": float(size), "epoch_time_minutes": minutes}
    return Segment(0, pd.DataFrame(frame), total_steps=size * plan)


def test_a_printed_remaining_time_serves_where_nothing_else_does() -> None:
    left = (400 - np.arange(1, 101)) * 2.0
    estimate = time_left([run(remaining_seconds=left)])
    assert estimate is not None
    assert (estimate.p10, estimate.p50, estimate.p90) == pytest.approx((600, 600, 600))
    assert estimate.source.render() == "remaining time as printed"
    unplanned = time_left([run(total=None, remaining_seconds=left, step_time_seconds=9.0)])
    assert unplanned is not None
    assert unplanned.p50 == 600


def test_step_time_leaves_out_the_first_rows_and_gives_a_range() -> None:
    seconds = np.where(np.arange(100) < 2, 60.0, 1.5 + 0.2 * np.sin(np.arange(100)))
    estimate = time_left([run(step_time_seconds=seconds)])
    assert estimate is not None
    assert estimate.p50 == pytest.approx(450, rel=0.01)
    assert estimate.p5 < estimate.p10 < estimate.p50 < estimate.p90 < estimate.p95
    assert "failures to come" in estimate.notes[-1].render()


def test_timestamps_give_the_pace_where_nothing_else_does() -> None:
    stamps = pd.Timestamp("2024-03-01") + pd.to_timedelta(np.arange(100) * 3.0, unit="s")
    estimate = time_left([run(timestamp=stamps)])
    assert estimate is not None
    assert estimate.p50 == pytest.approx(900, rel=0.01)


@pytest.mark.parametrize("whole", [True, False])
@pytest.mark.parametrize("meaning", ["remaining", "elapsed", "total"])
def test_the_course_of_epoch_time_tells_its_meaning(meaning: str, whole: bool) -> None:
    size, each = 1000, 0.09
    done = np.arange(20, 700, 20)
    minutes = {"remaining": (size - done) * each, "elapsed": done * each, "total": np.full(len(done), size * each)}[meaning]
    segment = epochs(np.floor(minutes) if whole else minutes.round(1), size=size, printed=done, plan=2)
    known = epoch_time(segment)
    assert known is not None
    assert known.meaning == meaning
    estimate = time_left([segment])
    assert estimate is not None
    truth = 60 * each * (2 * size - done[-1])
    assert estimate.p10 <= truth <= estimate.p90
    assert estimate.p50 == pytest.approx(truth, rel=0.02)


def test_a_meaning_that_the_print_can_not_show_yet_is_not_named() -> None:
    segment = epochs(np.full(4, 45.2), size=10_000, printed=np.arange(1, 5) * 10)
    assert epoch_time(segment).meaning is None  # type: ignore[union-attr]
    assert time_left([segment]) is None
    assert "can't be told yet" in str(why_unknown([segment]).render())  # type: ignore[union-attr]


def test_where_there_is_no_estimate_there_is_a_reason() -> None:
    assert "no training step" in why_unknown([]).render()  # type: ignore[union-attr]
    assert "planned" in why_unknown([run(total=None, step_time_seconds=1.0)]).render()  # type: ignore[union-attr]
    assert "prints no time" in why_unknown([run()]).render()  # type: ignore[union-attr]
    end = pd.DataFrame([[999, None, "killed", "Killed"]], columns=["line", "step", "kind", "text"])
    ended = replace(run(step_time_seconds=1.0), events=end)
    assert time_left([ended]) is None
    assert why_unknown([ended]).render() == "the run has ended after 100 of 400 planned steps"  # type: ignore[union-attr]
    planless = replace(ended, total_steps=None)
    assert why_unknown([planless]).render() == "the run has ended"  # type: ignore[union-attr]


def event(kind: str) -> pd.DataFrame:
    return pd.DataFrame([[999, None, kind, kind]], columns=["line", "step", "kind", "text"])


@pytest.mark.parametrize(
    ("total", "kind", "words"),
    [
        (100, None, "the last planned step is done"),
        (100, "traceback", "the last planned step is done"),
        (400, "training_finished", "the log says that training is finished after 100 of 400 planned steps"),
        (None, "training_finished", "the log says that training is finished"),
    ],
)
def test_a_run_that_is_over_says_how(total: int | None, kind: str | None, words: str) -> None:
    segment = run(total=total, step_time_seconds=1.0)
    estimate = time_left([replace(segment, events=event(kind)) if kind else segment])
    assert estimate is not None
    assert (estimate.p90, estimate.source.render()) == (0, words)


@pytest.mark.parametrize(("total", "left"), [(20_011, 0), (20_200, 200), (20_100, 100)])
def test_a_plan_that_is_no_multiple_of_the_lines_is_done_with_its_last_line(total: int, left: int) -> None:
    steps = np.arange(1, 201) * 100
    segment = Segment(0, pd.DataFrame({"line": steps, "step": steps, "step_time_seconds": 1.0}), total_steps=total)
    estimate = time_left([segment])
    assert estimate is not None
    assert estimate.p50 == pytest.approx(left, rel=0.02)


def test_a_finished_run_has_nothing_left_and_odd_values_do_not_break() -> None:
    assert time_left([run(total=100)]).p50 == 0  # type: ignore[union-attr]
    nan = np.full(100, np.nan)
    assert time_left([run(step_time_seconds=nan, remaining_seconds=nan, elapsed_seconds=nan)]) is None
    assert time_left([run(elapsed_seconds=np.zeros(100))]) is None


def test_what_real_logs_drift_by_is_in_the_range_of_the_smoothest_past() -> None:
    smooth = [run(rows=100, step_time_seconds=1 + 0.001 * np.sin(np.arange(100.0)))]
    estimate = time_left(smooth)
    assert estimate is not None
    assert 0.005 < (estimate.p95 - estimate.p5) / 2 / estimate.p50 < 0.03


def test_a_pace_that_grows_slowly_widens_the_range_and_is_not_carried_on() -> None:
    random, widths = np.random.default_rng(3), []
    for growth in (0.0, 0.02):
        seconds = (1 + growth * np.arange(100) / 100) * np.exp(0.02 * random.standard_normal(100))
        estimate = time_left([run(rows=100, step_time_seconds=seconds)])
        assert estimate is not None
        assert estimate.p50 == pytest.approx(300 * seconds[3:].mean(), rel=0.01)
        widths.append(estimate.p95 - estimate.p5)
    assert widths[1] > widths[0]


def test_growth_by_a_twentyfifth_is_held_in_most_runs() -> None:
    held = 0
    for seed in range(12):
        launch = timed(plan=2000, seed=900 + seed, habit="slowly_slower").launches[0]
        estimate = time_left([run(rows=1000, total=2000, step_time_seconds=launch.step_s[:1000])])
        assert estimate is not None
        held += estimate.p5 <= launch.step_s[1000:].sum() <= estimate.p95
    assert held >= 6


def test_the_first_line_of_a_log_with_a_clock_is_not_asked_for_a_clock() -> None:
    stamps = pd.DataFrame({"line": [1], "step": [1], "timestamp": [pd.Timestamp("2026-03-01")]})
    assert "only the first steps" in why_unknown([Segment(0, stamps, total_steps=600)]).render()  # type: ignore[union-attr]
