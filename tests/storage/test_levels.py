"""What a logger puts in front of a message is no part of a name: its level, its own name, a place in source code."""

import pytest

from tests.storage.test_families import read

LEVELS = ["INFO", "WARNING", "WARN", "DEBUG", "NOTICE", "TRACE", "ERROR", "CRITICAL", "I", "W", "E"]


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize(
    "first", ["step={step} loss={loss}", "loss={loss} step={step}", "lr=0.5 loss={loss} global_step={step}"]
)
def test_a_level_in_front_of_a_name_is_no_part_of_it(level: str, first: str) -> None:
    lines = [f"{level} {first.format(step=step, loss=3 - step / 8)}\n" for step in range(1, 9)]
    rows, report = read("".join(lines))
    assert [(row["step"], row["loss"]) for row in rows] == [(step, 3 - step / 8) for step in range(1, 9)]
    assert {column.name for column in report.columns} <= {"loss", "lr"}


@pytest.mark.parametrize(
    "prefix",
    [
        "INFO:root:", "INFO:trainer.core:", "WARNING:root: ", "[INFO] ", "INFO - ", "INFO | ", "INFO train ", "level=info ",
        "2024-03-05 10:20:30,123 INFO train ", "2024-03-05 10:20:30\tinfo\ttrain/loop.go:88\t", "INFO train.py:88 ",
    ],
)  # fmt: skip
@pytest.mark.parametrize("pair", ["step={}, loss={}", "step: {} loss: {}", "step {} loss {}"])
def test_the_prefix_of_a_logger_is_no_part_of_a_name(prefix: str, pair: str) -> None:
    rows, report = read("".join(prefix + pair.format(step, 3 - step / 8) + "\n" for step in range(1, 9)))
    assert [(row["step"], row["loss"]) for row in rows] == [(step, 3 - step / 8) for step in range(1, 9)]
    assert [column.name for column in report.columns] == ["loss"]


def test_a_word_that_is_also_a_level_stays_in_a_name() -> None:
    rows, _ = read("".join(f"step={step} info loss={step / 8} error rate={step / 4} loss=2.5\n" for step in range(1, 9)))
    assert [(row["info_loss"], row["error_rate"], row["loss"]) for row in rows[:2]] == [
        (1 / 8, 1 / 4, 2.5),
        (2 / 8, 2 / 4, 2.5),
    ]
