"""Seconds a step, from whatever a log prints."""

import numpy as np
import pandas as pd
import pytest

from analysis.segment import Segment
from analysis.step_time import clock, restarts, steadiness, step_time

RNG = np.random.default_rng(1)
SECONDS = 0.5 * np.exp(0.02 * RNG.standard_normal(400))
START = np.datetime64("2026-02-03T04:05:06", "ms")


def of(count: int = 400, every: int = 1, **columns: object) -> Segment:
    steps = np.arange(1, count + 1) * every
    return Segment(0, pd.DataFrame({"line": np.arange(1, count + 1), "step": steps, **columns}))


def stamps(seconds: np.ndarray, unit: str = "ms") -> np.ndarray:
    return (
        (START + (1000 * np.cumsum(seconds)).astype("timedelta64[ms]")).astype(f"datetime64[{unit}]").astype("datetime64[ms]")
    )


@pytest.mark.parametrize(
    ("columns", "source", "exact"),
    [
        ({"step_time_seconds": SECONDS}, "step_time_seconds", True),
        ({"elapsed_seconds": np.cumsum(SECONDS)}, "elapsed_seconds", True),
        ({"timestamp": stamps(SECONDS)}, "timestamp", True),
        ({"steps_per_second": 1 / SECONDS}, "steps_per_second", True),
        ({"tokens_per_second": 1000 / SECONDS}, "tokens_per_second", False),
        ({"samples_per_second": 8 / SECONDS}, "samples_per_second", False),
        ({"time": SECONDS}, "time", False),
        ({"time": np.cumsum(SECONDS)}, "time", False),
    ],
)
def test_each_source_gives_the_time_of_a_step(columns: dict[str, object], source: str, exact: bool) -> None:
    known = step_time(of(**columns))
    assert known is not None
    assert (known.source, known.exact, known.together) == (source, exact, 1)
    assert known.text.render()
    scale = {"tokens_per_second": 1000, "samples_per_second": 8}.get(source, 1)
    assert np.median(known.series.values) * scale == pytest.approx(0.5, rel=0.02)
    assert len(known.series) >= 395


def test_nothing_is_known_without_a_time() -> None:
    assert step_time(of(loss=SECONDS)) is None
    assert step_time(of(2, step_time_seconds=[1.0, 1.0])) is None
    assert step_time(of(step_time_seconds=np.zeros(400))) is None
    assert steadiness(of(loss=SECONDS)) is None


def test_a_printed_step_time_goes_before_a_clock_and_a_fine_source_before_a_coarse_one() -> None:
    both = step_time(of(step_time_seconds=SECONDS, timestamp=stamps(SECONDS)))
    assert both is not None
    assert both.source == "step_time_seconds"
    coarse = step_time(of(timestamp=stamps(SECONDS, "s"), tokens_per_second=1 / SECONDS))
    assert coarse is not None
    assert coarse.source == "tokens_per_second"


def test_a_clock_in_whole_seconds_is_read_over_several_rows() -> None:
    known = step_time(of(timestamp=stamps(SECONDS, "s")))
    assert known is not None
    assert 39 <= known.together <= 42  # 20 seconds
    assert known.series.values == pytest.approx(0.5, rel=0.06)


def test_the_first_step_is_compilation_and_does_not_count() -> None:
    slow = SECONDS.copy()
    slow[0] = 60.0
    figures = steadiness(of(step_time_seconds=slow))
    assert figures is not None
    assert figures.first_excess_seconds == pytest.approx(59.5, abs=0.1)
    assert figures.seconds == pytest.approx(0.5, rel=0.01)
    assert 1 < figures.p95_over_p50 < 1.06
    assert figures.hidden < 0.02


def test_hidden_time_is_what_lies_above_the_usual_step() -> None:
    slow = np.full(403, 1.0)
    slow[100::100] = 21.0
    figures = steadiness(of(403, step_time_seconds=slow))
    assert figures is not None
    assert figures.hidden == pytest.approx(80 / 480, rel=0.02)


def test_a_row_that_covers_missing_lines_is_left_out() -> None:
    seconds = np.full(60, 130.0)
    seconds[30] = 262.0
    steps = np.arange(1, 61) * 250
    steps[30:] += 250
    known = step_time(Segment(0, pd.DataFrame({"line": np.arange(60), "step": steps, "time": seconds})))
    assert known is not None
    assert known.series.values.max() == 130.0


def test_the_mean_since_the_start_gives_way_to_the_clock_behind_it() -> None:
    seconds = np.where(np.arange(400) < 200, 0.5, 1.0)
    passed = np.cumsum(seconds)
    known = step_time(of(step_time_seconds=passed / np.arange(1, 401), elapsed_seconds=passed))
    assert known is not None
    assert known.source == "elapsed_seconds"
    assert known.series.values[-1] == pytest.approx(1.0)


def test_the_mean_since_the_start_of_the_epoch_counts_once_an_epoch() -> None:
    one = np.r_[6.0, np.full(49, 0.3)]
    mean = np.cumsum(one) / np.arange(1, 51)
    epoch, within = np.repeat(np.arange(8), 50), np.tile(np.arange(1, 51), 8)
    known = step_time(of(epoch=epoch, step_printed=within, time=np.tile(mean, 8)))
    assert known is not None
    assert len(known.series) <= 7
    assert known.series.values == pytest.approx(mean[-1])


def test_other_conditions_begin_a_new_section() -> None:
    batch = np.where(np.arange(400) < 250, 32.0, 8.0)
    known = step_time(of(step_time_seconds=SECONDS * batch / 32, batch_size=batch))
    assert known is not None
    assert [int(known.series.at[at]) for at in known.sections] == [3, 253]


def test_epoch_time_tells_the_step_time_where_the_print_is_fine_enough() -> None:
    steps = np.arange(1, 2001)
    remaining = np.round((20_000 - steps * 10) * 1.5 / 60, 1)
    columns = {"step": steps * 10, "epochs": 1.0, "steps_per_epoch": 20_000.0, "epoch": 1.0, "epoch_time_minutes": remaining}
    known = step_time(Segment(0, pd.DataFrame({"line": steps, **columns, "step_printed": steps * 10})))
    assert known is not None
    assert known.source == "epoch_time_minutes"
    assert np.median(known.series.values) == pytest.approx(1.5, rel=0.03)


def test_a_restart_is_a_step_that_falls() -> None:
    assert restarts(of()).tolist() == []
    steps = np.r_[1:101, 61:161]
    assert restarts(Segment(0, pd.DataFrame({"step": steps}))).tolist() == [100]


def test_lines_that_changed_places_and_uneven_epochs_are_no_restart() -> None:
    swapped = np.arange(1.0, 101)
    swapped[[50, 51]] = swapped[[51, 50]]
    assert restarts(Segment(0, pd.DataFrame({"step": swapped}))).tolist() == []
    assert restarts(Segment(0, pd.DataFrame({"step": np.arange(100)[::-1]})))[:1].tolist() == []
    uneven = pd.DataFrame({"step": np.r_[1:101, 97:197], "epoch": np.repeat([1.0, 2.0], 100)})
    assert restarts(Segment(0, uneven)).tolist() == []
    one_back = np.r_[1:51, 49:99]
    assert restarts(Segment(0, pd.DataFrame({"step": one_back}))).tolist() == [50]


def test_the_clock_is_elapsed_time_or_timestamps() -> None:
    assert clock(of(loss=SECONDS)) is None
    assert clock(of(time=SECONDS)) is None
    for columns in ({"elapsed_seconds": np.cumsum(SECONDS)}, {"timestamp": stamps(SECONDS)}, {"time": np.cumsum(SECONDS)}):
        known = clock(of(**columns))
        assert known is not None
        assert np.diff(known[1]) == pytest.approx(SECONDS[1:], abs=0.002)


def test_a_slow_first_step_before_noise_makes_no_mean_of_the_printed_time() -> None:
    """With a hundred steps between rows, differences of a percent looked like what is left of the first step."""
    seconds = 0.9 * np.exp(0.006 * np.random.default_rng(2).standard_normal(400))
    seconds[:4] = [2.7, 0.911, 0.906, 0.904]
    known = step_time(of(every=100, step_time_seconds=seconds))
    assert known is not None
    assert len(known.series) > 390
