"""The charts of epochs, checkpoints and pictures compile: a wrong spec is a silent blank."""

import json

import pandas as pd
import pytest
import vl_convert

from analysis.epochs import board
from analysis.simulate import simulate
from ui import epoch_charts, epochs, pictures


def svg(spec: dict, **data: pd.DataFrame) -> str:
    datasets = {name: json.loads(frame.to_json(orient="records")) for name, frame in data.items()}
    return vl_convert.vegalite_to_svg(json.dumps({**spec, "datasets": datasets, "width": 400}))


@pytest.mark.parametrize("log", [False, True])
def test_parts_over_each_other(log):
    known = board([simulate(rows=1200, seed=3).segment], window=100)
    curves = epochs.drawn(known, 100)
    drawn = svg(epoch_charts.overlay("way", "part", "mean", "low", "high", log=log), **{epoch_charts.CURVES: curves})
    assert drawn.count("<path") > 8
    assert epochs.far_first(known, epochs.parts_drawn(known))  # the start of learning would flatten all others
    assert curves["part"].min() > 1
    assert curves["part"].nunique() == epochs.DRAWN - 1
    assert curves["newest"].any()


def test_parts_of_one_row_are_drawn():
    known = board([simulate(rows=60, seed=3).segment], window=1)
    assert epochs.one_point_each(known)
    points = epochs.by_part(known, 1, {"mean": "Loss"})
    drawn = svg(epoch_charts.by_part("Step", ("Loss",)), **{epoch_charts.CURVES: points})
    assert drawn.count("<path") > 60


def test_a_part_of_one_row_beside_others_is_a_point():
    known = board([simulate(rows=1200, seed=3).segment], window=100)
    one_row = epochs.drawn(known, 100).query("newest").head(1).assign(alone=True)
    point = [
        svg(epoch_charts.overlay("way", "part", "mean", "low", "high"), **{epoch_charts.CURVES: data})
        for data in (one_row, one_row.assign(alone=False))
    ]
    assert point[0].count("<path") > point[1].count("<path")


def test_far_apart_curves_want_a_logarithm():
    assert epochs.wants_log(pd.DataFrame({"low": [0.1, 2.0], "mean": [0.2, 3.0]}))
    assert not epochs.wants_log(pd.DataFrame({"low": [1.0, 2.0], "mean": [1.5, 3.0]}))
    assert not epochs.wants_log(pd.DataFrame({"low": [-1.0, 2.0], "mean": [1.5, 3.0]}))


def test_checkpoints_on_a_line():
    points = pd.DataFrame({"step": [1, 2, 3], "kept": [True, False, True], "label": ["a", "b", "a"]})
    assert "<path" in svg(pictures.strip("Step", "Checkpoint"), strip=points)


def test_a_picture_keeps_the_extremes_of_what_it_draws_in_few_points():
    segment = simulate(rows=5000, seed=3, fault="lone_spike").segment
    drawn = pictures.picture(segment, None, marked=False)
    lines = drawn.spec["datasets"][pictures.LINES]
    assert len(lines) <= pictures.POINTS
    assert lines["high"].max() == pytest.approx(segment.values("loss").max())
