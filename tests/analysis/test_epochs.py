"""The board of a run by epochs: where a row belongs, what is told of each, and when nothing can be told."""

import numpy as np
import pandas as pd
import pytest

from analysis.epochs import FRACTION, STEPS, WHOLE, WINDOW, board, sentence
from analysis.segment import Segment


def run(rows: int, **columns) -> Segment:
    frame = pd.DataFrame({"line": np.arange(rows) + 1, "step": np.arange(rows) + 1, **columns})
    return Segment(0, frame)


def falling(rows: int) -> np.ndarray:
    return 2 + np.exp(-np.arange(rows) / 50)


def test_the_row_at_a_whole_fraction_is_the_end_of_its_epoch():
    segment = run(30, loss=falling(30), epoch=(np.arange(30) + 1) / 10)
    found = board([segment])
    assert found.how == FRACTION
    assert found.table["rows"].tolist() == [10, 10, 10]
    assert found.table["last_step"].tolist() == [10, 20, 30]
    assert found.table["last"].iloc[0] == pytest.approx(falling(30)[9])


def test_epochs_printed_as_whole_numbers():
    segment = run(40, loss=falling(40), epoch=np.repeat([0.0, 1.0], [25, 15]), steps_per_epoch=np.full(40, 25.0))
    found = board([segment])
    assert found.how == WHOLE
    assert found.table["part"].tolist() == [0, 1]
    assert found.table["share"].tolist() == pytest.approx([1.0, 0.6])
    assert found.table["change"].iloc[1] < 0


def test_epochs_are_counted_from_the_steps_of_one():
    found = board([run(40, loss=falling(40), steps_per_epoch=np.full(40, 20.0))])
    assert found.how == STEPS
    assert found.table["last_step"].tolist() == [20, 40]


def test_without_any_epoch_there_is_no_board_but_stretches_of_steps():
    segment = run(40, loss=falling(40))
    assert board([segment]) is None
    found = board([segment], window=10)
    assert found.how == WINDOW
    assert found.table["rows"].tolist() == [10] * 4


def test_a_metric_that_is_not_there_gives_no_board():
    assert board([run(40, loss=falling(40), epoch=np.ones(40))], metric="grad_norm") is None
    assert board([]) is None


def test_the_length_of_the_only_epoch_is_not_guessed():
    found = board([run(40, loss=falling(40), epoch=np.ones(40))])
    assert np.isnan(found.table["share"].iloc[0])


def test_a_finished_run_has_a_finished_last_epoch():
    frame = pd.DataFrame(
        {"line": np.arange(29) + 1, "step": np.arange(29) + 1, "loss": falling(29), "epoch": (np.arange(29) + 1) / 10}
    )
    assert board([Segment(0, frame, total_steps=29)]).table["share"].iloc[-1] == 1.0


def test_time_so_far_gives_the_time_of_the_whole_epoch():
    segment = run(15, loss=falling(15), epoch=(np.arange(15) + 1) / 10, step_time_seconds=np.full(15, 2.0))
    table = board([segment]).table
    assert table["seconds"].tolist() == pytest.approx([20.0, 10.0])
    assert table["projected"].iloc[1] == pytest.approx(20.0)


def test_an_evaluation_belongs_to_the_epoch_before_it_and_the_best_one_is_named():
    lines = np.arange(50) * 2 + 1
    frame = pd.DataFrame({"line": lines, "step": np.arange(50) + 1, "loss": falling(50), "epoch": (np.arange(50) + 1) / 10})
    evals = pd.DataFrame({"line": lines[9::10] + 1, "eval_loss": [2.5, 2.2, 2.4, 2.5, 2.6]})
    found = board([Segment(0, frame, evals=evals)])
    assert found.table["eval"].tolist() == [2.5, 2.2, 2.4, 2.5, 2.6]
    assert "best in epoch 2" in sentence(found).render()


def test_numbers_that_are_none_are_counted_and_never_averaged():
    loss = falling(20)
    loss[3], loss[4], loss[15] = np.nan, np.inf, 1e308
    found = board([run(20, loss=loss, epoch=np.repeat([1.0, 2.0], 10))])
    assert found.table["nonfinite"].tolist() == [2, 0]
    assert np.isfinite(found.table["mean"].iloc[0])
    assert sentence(found).render()


def test_the_curves_have_a_bounded_number_of_points():
    found = board([run(20_000, loss=falling(20_000), epoch=(np.arange(20_000) + 1) / 10_000)])
    assert found.curves.groupby("part").size().max() <= 120
    assert found.curves["x"].between(0, 1).all()
