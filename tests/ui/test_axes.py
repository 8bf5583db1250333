"""Which x a run has, and ranges and marks on each."""

from datetime import UTC, datetime

import numpy as np
import pandas as pd
import pytest

from storage.types import Run
from ui import axes


def run(**given) -> Run:
    now = datetime.now(UTC)
    usual = {"first_step": 1, "last_step": 100, "total_steps": None}
    return Run("a", "a", None, now, now, 100, 1, **{**usual, **given}, bytes=0, offset=0, version=1)


def test_only_what_a_log_has_is_offered():
    assert list(axes.courses(run(), {"loss": 1.0}, fractions=0, stamped=False)) == ["step"]
    assert list(axes.courses(run(last_step=None), {}, fractions=0, stamped=False)) == ["line"]
    every = axes.courses(run(), {"tokens_seen": 1.0}, fractions=8, stamped=True)
    assert list(every) == ["step", "epoch", "tokens", "clock", "elapsed"]
    assert list(axes.courses(run(), {"elapsed_seconds": 9.0}, fractions=2, stamped=False)) == ["step", "elapsed"]


def test_whole_epochs_become_fractions_where_their_length_is_known():
    epoch = axes.courses(run(), {"steps_per_epoch": 50.0}, fractions=0, stamped=False)["epoch"]
    frame = axes.drawn(pd.DataFrame({"x": [0, 25], "x_last": [24, 50]}), epoch)
    assert frame["x_last"].tolist() == [0.48, 1.0]
    assert epoch.stored((0.5, 1.0)) == (25, 50)


@pytest.mark.parametrize("length", [0.0, -1.0, float("nan"), float("inf"), 1e300])
def test_an_absurd_length_of_the_epoch_gives_no_axis(length):
    assert list(axes.courses(run(), {"steps_per_epoch": length}, fractions=0, stamped=False)) == ["step"]


def test_times_are_drawn_in_milliseconds():
    stamps = pd.DataFrame({"x": pd.to_datetime(["2024-05-01 10:00:00"]).astype("datetime64[ms]")})
    drawn = axes.drawn(stamps.assign(x_last=stamps["x"]), axes.TIME)
    assert drawn["x"].tolist() == [datetime(2024, 5, 1, 10, tzinfo=UTC).timestamp() * 1000]
    since = axes.drawn(pd.DataFrame({"x": [1.5], "x_last": [2.0]}), axes.SINCE)
    assert since["x"].tolist() == [1500.0]


def test_marks_stand_where_their_step_was():
    buckets = pd.DataFrame({"x": [0.0, 10.0, 20.0], "min_step": [100, 200, np.nan]})
    marks = pd.DataFrame({"x": [150, 900], "x_last": [150, 900], "label": ["a", "b"]})
    placed = axes.at_steps(marks, buckets, axes.TOKENS)
    assert placed["x"].tolist() == [5.0, 10.0]
    assert axes.at_steps(marks, buckets.iloc[:0], axes.TOKENS).empty
    assert axes.at_steps(marks, buckets, axes.STEP)["x"].tolist() == [150, 900]


def test_a_range_in_the_url():
    assert axes.parse_span(axes.write_span((1.7e12, 1.7000001e12))) == (1.7e12, 1.7000001e12)
    for wrong in ("", "5", "9~5", "a~b", "nan~1", "1~inf", "~", "-1e300~1"):
        assert axes.parse_span(wrong) is None
