"""From buckets to what is drawn: smoothing, cutting, markers, and nothing that disappears."""

import numpy as np
import pandas as pd
import pytest

from analysis.findings import Finding, Severity
from messages import Text
from storage.types import Event
from ui import panels, series


def buckets(means, *, lows=None, highs=None, bad=None, segments=None, metric="loss") -> pd.DataFrame:
    means = np.asarray(means, float)
    n = len(means)
    return pd.DataFrame(
        {
            "metric": metric,
            "segment": np.zeros(n, int) if segments is None else segments,
            "x": np.arange(n) * 10,
            "x_last": np.arange(n) * 10 + 9,
            "mean": means,
            "last": means,
            "min": means if lows is None else lows,
            "max": means if highs is None else highs,
            "count": 10,
            "nonfinite": np.zeros(n, int) if bad is None else bad,
        }
    )


@pytest.mark.filterwarnings("error")
def test_infinite_values_are_drawn_as_they_are_without_a_warning():
    values = np.array([-np.inf, 1.0, np.inf, np.nan])
    assert np.array_equal(series.compact(pd.DataFrame({"y": values}))["y"].to_numpy(), values, equal_nan=True)


def test_smoothing_is_debiased():
    frame = series.series(buckets([4.0, 4.0, 4.0]), "loss", smoothing=0.9)
    assert frame["smooth"].tolist() == pytest.approx([4.0, 4.0, 4.0])
    two = series.series(buckets([4.0, 2.0]), "loss", smoothing=0.6)["smooth"].tolist()
    assert two == pytest.approx([4.0, (0.6 * 4 + 2) / 1.6])


def test_no_smoothing_is_the_mean_itself():
    frame = series.series(buckets([3.0, 1.0, 2.0]), "loss", smoothing=0.0)
    assert frame["smooth"].tolist() == [3.0, 1.0, 2.0]


def test_a_gap_of_non_finite_values_breaks_the_line_and_is_counted():
    frame = series.series(buckets([3.0, np.nan, 2.0], bad=[0, 10, 0]), "loss")
    assert np.isnan(frame["smooth"][1])
    assert frame["bad"].tolist() == [0, 10, 0]
    assert np.isfinite(frame["smooth"][2])


def test_each_launch_is_smoothed_on_its_own():
    frame = series.series(buckets([9.0, 9.0, 1.0, 1.0], segments=[0, 0, 1, 1]), "loss", smoothing=0.9)
    assert frame["smooth"].tolist() == pytest.approx([9.0, 9.0, 1.0, 1.0])


def test_huge_values_do_not_overflow():
    frame = series.series(buckets([1e308, 1.5e308]), "loss", smoothing=0.99)
    assert np.isfinite(frame["smooth"]).all()
    assert np.isfinite(series.compact(frame)["smooth"].to_numpy()).all()


def test_a_log_axis_leaves_out_what_it_cannot_show():
    frame = series.series(buckets([2.0, -1.0, 0.0]), "loss", log=True)
    assert frame["mean"].tolist()[0] == 2.0
    assert frame["mean"].isna().tolist() == [False, True, True]


def test_the_last_bucket_says_what_was_printed_last_even_if_that_is_no_number():
    frame = series.series(buckets([3.0, np.nan, 2.0]), "loss")
    assert frame["end"].tolist() == [False, False, True]
    assert frame["final"].to_numpy()[2] == 2.0
    lost = series.series(buckets([3.0, 2.0, np.nan]), "loss")
    assert lost["end"].tolist() == [False, False, True]
    assert lost["final"].isna().all()
    assert series.series(buckets([]), "loss").empty


def test_values_of_1e308_keep_a_scale_that_can_be_drawn():
    frame = series.series(buckets([1e308, 1e308, -1e308]), "loss")
    assert frame["high"].abs().max() == frame["smooth"].abs().max() == series.DRAWABLE
    assert frame["mean"].tolist()[0] == 1e308


def test_many_checkpoints_are_thinned_and_signs_are_numbered():
    events = [Event(line, "checkpoint_saved", "saved", line) for line in range(1, 521)]
    found = series.markers([], events, 520)
    assert len(found) <= series.MAX_PLANNED
    assert found["mark"].tolist() == list(range(len(found)))
    assert set(found["glyph"]) == {"◆"}


def test_a_value_without_a_neighbour_is_a_point():
    frame = series.series(buckets([3.0, np.nan, 2.0, 1.0, 5.0], segments=[0, 0, 0, 0, 1]), "loss")
    assert frame["alone"].tolist() == [True, False, False, False, True]
    assert series.series(buckets([3.0]), "loss")["alone"].tolist() == [True]


def test_a_spike_is_cut_and_its_height_kept_as_a_label():
    highs = np.full(200, 2.1)
    highs[77] = 27.5
    frame = series.series(buckets(np.full(200, 2.0), highs=highs), "loss")
    (cut,) = series.clamp([frame])
    assert cut["high"].max() < 3
    assert cut["clamped"].dropna().tolist() == [27.5]
    assert cut["clamped"].notna().idxmax() == 77


def test_an_ordinary_fall_is_never_cut():
    falling = 2 + 9 * np.exp(-np.arange(300) / 40)
    frame = series.series(buckets(falling), "loss")
    assert series.limits([frame]) == (-np.inf, np.inf)
    assert series.clamp([frame])[0]["clamped"].isna().all()


def test_cutting_survives_nothing_and_nan():
    empty = series.series(buckets([]), "loss")
    lost = series.series(buckets([np.nan, np.nan]), "loss")
    assert series.clamp([empty, lost])[1]["high"].isna().all()


def test_compact_halves_the_bytes_and_keeps_the_words():
    table = series.compact(series.series(buckets([2.0, 3.0]), "loss"))
    assert [str(table.schema.field(name).type) for name in ("mean", "x", "alone")] == ["float", "int32", "bool"]
    words = series.compact(series.markers([(0, finding(1, 2), "a sentence")], [], 0.0))
    assert words["label"].to_pylist() == ["a sentence"]


def finding(first, last, severity=Severity.CRITICAL) -> Finding:
    return Finding("spike", severity, 0, first, last, Text("x"))


def test_an_open_finding_reaches_to_the_end_and_one_without_a_step_is_not_drawn():
    marks = series.markers([(0, finding(10, None), "a"), (1, finding(None, None), "b")], [], 90.0)
    assert marks[["x", "x_last", "tone", "label"]].values.tolist() == [[10, 90.0, "red", "a"]]


def test_events_have_their_signs_and_many_of_a_kind_are_thinned():
    events = [Event(i, "checkpoint_saved", "saved", step=i) for i in range(5000)] + [Event(9, "out_of_memory", "OOM", step=7)]
    marks = series.markers([], events, 0.0)
    assert len(marks) <= series.MAX_MARKERS + 1
    assert set(marks["glyph"]) == {"◆", "✖"}


def test_the_trend_is_per_1000_steps_or_less_in_a_shorter_run():
    assert series.trend(buckets([1.0, 2.0])) is None
    change, steps = series.trend(buckets(np.linspace(4, 2, 100)))  # 1,000 steps
    assert steps == 100
    assert -0.12 < change < -0.05
    assert series.trend(buckets(np.geomspace(1, 1e300, 100))) is None


def test_the_trend_is_never_taken_across_a_jump():
    jumped = np.concatenate((np.linspace(4, 2, 60), np.linspace(6, 5.5, 40)))
    assert series.trend(buckets(jumped), since=590)[0] < 0
    assert series.trend(buckets(jumped), since=950) is None


def test_the_last_turn_is_that_of_the_launch_that_is_shown():
    turns = [Finding(kind, Severity.CRITICAL, segment, step, None, Text("x")) for kind, segment, step in TURNED]
    assert series.last_turn(turns, None) == 900
    assert series.last_turn(turns, 0) == 300
    assert series.last_turn([], None) is None


TURNED = [("spike_unrecovered", 0, 300), ("spike", 0, 500), ("level_shift", 1, 900), ("spike_unrecovered", 0, None)]


def test_numbers_that_are_close_to_each_other_keep_their_digits():
    table = series.compact(pd.DataFrame({"x": 1.7e12 + np.arange(5.0) * 1000, "mean": np.arange(5.0)}))
    assert [str(field.type) for field in table.schema] == ["double", "float"]


def test_one_absurd_value_does_not_bend_the_smoothed_line() -> None:
    values = np.full(300, 3.0) + 0.01 * np.sin(np.arange(300))
    values[50::50] = 1e308
    smooth = series.debiased_mean(series.fenced(values), np.zeros(300, dtype=int), 0.6)
    assert abs(smooth[-20] - 3.0) < 0.05
    assert np.array_equal(series.fenced(values[1:50]), values[1:50])


@pytest.mark.parametrize(("count", "smoothing", "raw"), [(1, 0.6, True), (1, 0.0, False), (9, 0.6, False)])
def test_single_rows_are_drawn_themselves_beside_their_smooth_line(count, smoothing, raw):
    values = np.array([3.0, 2.0, 9.0, 1.5, 1.4])
    buckets = pd.DataFrame({"metric": "loss", "segment": 0, "x": np.arange(5), "x_last": np.arange(5), "mean": values})
    buckets = buckets.assign(min=values, max=values, last=values, count=count, nonfinite=0)
    frame = series.series(buckets, "loss", smoothing=smoothing)
    assert series.is_raw(frame) is raw
    drawn = panels.spec({"loss": ("loss",)}, {"loss": [frame]}, marks_of_nothing(), log=False, domain=None)
    faint = [layer for layer in drawn["vconcat"][0]["layer"] if layer["mark"].get("opacity") == 0.45]
    assert [layer["encoding"]["y"]["field"] for layer in faint] == (["high"] if raw else [])


def marks_of_nothing() -> pd.DataFrame:
    return pd.DataFrame(columns=series.MARKER_COLUMNS)
