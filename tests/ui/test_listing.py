"""What a list of runs tells them apart by."""

from dataclasses import replace
from datetime import UTC, datetime

import pytest

from server.board import Line
from storage.types import Run
from ui.listing import differences

NOW = datetime.now(UTC)
RUN = Run("a", "a.log", None, NOW, NOW, 10, 1, 1, 10, None, 100, 100, 1)


def lines(*configs: dict[str, str]) -> list[Line]:
    return [Line(replace(RUN, id=str(place)), config=config) for place, config in enumerate(configs)]


def test_two_names_of_one_setting_are_told_once_and_what_is_tuned_comes_first():
    found = differences(
        lines(
            {"Model Params": "25.83M", "Trainable Params": "25.830M", "dropout": "0.1", "learning_rate": "5e-4"},
            {"Model Params": "63.91M", "Trainable Params": "63.910M", "dropout": "0.2", "learning_rate": "1e-3"},
        )
    )
    assert found == [
        "Learning rate 5e-4 · Parameters 25.8M · dropout 0.1",
        "Learning rate 1e-3 · Parameters 63.9M · dropout 0.2",
    ]


def test_a_run_that_prints_none_of_the_common_settings_is_told_by_its_own():
    found = differences(lines({"lr": "1e-3"}, {"lr": "2e-3"}, {"lr": "3e-3"}, {"zero_stage": "2"}, {"zero_stage": "3"}))
    assert found[0] == "Learning rate 1e-3"
    assert found[3:] == ["zero_stage 2", "zero_stage 3"]


@pytest.mark.parametrize("configs", [[{}, {}], [{"lr": "1"}, {"lr": "1"}]])
def test_runs_that_are_alike_are_told_apart_by_nothing(configs):
    assert differences(lines(*configs)) == [None, None]
