"""A time of the day without a date, in front of a line or as a field: seconds of the day under `time`, also over midnight."""

import json

import pytest

from tests.storage.test_families import read

TIMES = ["23:59:40", "23:59:50", "00:00:00", "00:00:10"]
SECONDS = [86_380, 86_390, 0, 10]
PREFIXES = [
    "[{}] ",
    "{} ",
    "{} INFO ",
    "[{} INFO] ",
    "INFO {} ",
    "{} | ",
    "I0305 {} 4711 train.py:88] ",
    "Mar  5 {} ",
    "03/05 {} - ",
    "03/05/2024 {} - INFO - ",
]


@pytest.mark.parametrize("prefix", PREFIXES)
def test_a_time_in_front_of_a_line_is_read(prefix: str) -> None:
    lines = [f"{prefix.format(time)}step {step} loss {3 - step / 8} lr 0.5\n" for step, time in enumerate(TIMES)]
    rows, report = read("".join(lines))
    assert [(row["step"], row["time"], row["loss"]) for row in rows] == [(i, t, 3 - i / 8) for i, t in enumerate(SECONDS)]
    assert {column.name: column.unit for column in report.columns}["time"] == "s"
    assert {row["timestamp"] for row in rows} == {None}


@pytest.mark.parametrize("name", ["timestamp", "ts", "time"])
@pytest.mark.parametrize("fraction", ["", ".250"])
def test_a_time_without_a_date_in_json_and_tables_is_read(name: str, fraction: str) -> None:
    lines = [{name: time + fraction, "step": step, "loss": 3 - step / 8} for step, time in enumerate(TIMES)]
    tables = ["step,loss," + name, *(f"{one['step']},{one['loss']},{one[name]}" for one in lines)]
    for text in ("\n".join(map(json.dumps, lines)), "\n".join(tables)):
        rows, _ = read(text + "\n")
        assert [row["time"] for row in rows] == [second + float(fraction or 0) for second in SECONDS]


@pytest.mark.parametrize(
    "line", ["step {} loss 2.5 eta 0:01:{}", "[00:{}] step {} loss 2.5", "2024-03-05 10:20:{} step {} loss 2.5"]
)
def test_what_is_no_time_of_the_day_is_none(line: str) -> None:
    rows, _ = read("".join(line.format(step, step) + "\n" for step in range(10, 19)))
    assert [row["loss"] for row in rows] == [2.5] * 9
    assert "time" not in rows[0]


def test_a_time_that_the_line_names_goes_before_the_one_in_front() -> None:
    rows, _ = read("".join(f"[10:20:{step}] step {step} loss 2.5 time: 0.5\n" for step in range(10, 19)))
    assert {row["time"] for row in rows} == {0.5}
