"""An epoch on a line of its own is that of the records below it that print none."""

import json

import pytest

from storage.reader import LogReader
from tests.storage.test_families import read

HEADINGS = [
    "Epoch {e}/3\n----------\n",
    "===== Epoch {e} =====\n",
    "[2024-03-05 10:20:30] INFO Epoch: {e}/3\n",
    "INFO:root:Epoch {e}\n",
    "Starting epoch {e} of 3\n",
    "Epoch {e} started\n",
    "第 {e}/3 轮\n",
]


def text(heading: str, *, plan: str = "/100") -> str:
    steps = [(e, s) for e in range(1, 4) for s in range(10, 101, 10)]
    return "".join((heading.format(e=e) if s == 10 else "") + f"step {s}{plan} loss {3 - s / 128} lr 0.5\n" for e, s in steps)


@pytest.mark.parametrize("heading", HEADINGS)
@pytest.mark.parametrize("plan", ["/100", ""])
@pytest.mark.parametrize("chunk", [1 << 20, 97])
def test_records_below_a_heading_are_of_its_epoch(heading: str, plan: str, chunk: int) -> None:
    rows, report = read(text(heading, plan=plan), chunk)
    assert [row["step"] for row in rows] == list(range(10, 301, 10))
    assert [row["epoch"] for row in rows] == [1.0] * 10 + [2.0] * 10 + [3.0] * 10
    assert {row.get("total_steps") for row in rows} == {None}
    assert rows[-1].get("steps_per_epoch") == (100 if plan else None)
    assert report.segments == 1


def test_a_step_that_runs_on_below_headings_keeps_the_plan_of_the_run() -> None:
    lines = [f"Epoch {1 + s // 100}/3\n" * (s % 100 == 0) + f"step {s}/300 loss {3 - s / 128}\n" for s in range(0, 300, 10)]
    rows, report = read("".join(lines))
    assert [row["step"] for row in rows] == list(range(0, 300, 10))
    assert (rows[-1]["total_steps"], report.segments) == (300, 1)


@pytest.mark.parametrize("line", ["Epoch {e} finished in 50 s\n", "Epoch {e}: saved\n", "epochs 3\n"])
def test_a_line_that_says_more_is_no_heading(line: str) -> None:
    rows, _ = read(text(line))
    assert {row["epoch"] for row in rows} == {None}


def test_an_epoch_that_a_record_prints_goes_before_the_heading() -> None:
    rows, _ = read("Epoch 7\n" + "".join(f"epoch 2 step {s} loss {3 - s / 128}\n" for s in range(1, 9)))
    assert {row["epoch"] for row in rows} == {2.0}


def test_a_reader_that_stops_below_a_heading_goes_on() -> None:
    data = text(HEADINGS[0]).encode()
    reader = LogReader("log")
    found = [row for batch in reader.feed(data[:200]) for row in batch.rows.to_pylist()]
    reader = LogReader("log", state=(state := json.loads(json.dumps(reader.state()))))
    batches = reader.feed(data[state["offset"] :]) + reader.finish()
    found += [row for batch in batches for row in batch.rows.to_pylist()]
    assert [(row["step"], row["epoch"]) for row in found] == [(10 * i, 1 + (i - 1) // 10) for i in range(1, 31)]


@pytest.mark.parametrize("chunk", [1 << 20, 97])
def test_a_line_with_the_time_of_an_epoch_is_a_heading_where_the_first_stands_above_all_records(chunk: int) -> None:
    took, losses = "Epoch: 0{e} | Time: 1m 5s\n", "".join(f"\tTrain Loss: 2.{i} | Train PPL: 9.{i}\n" for i in range(3))
    above = "".join(took.format(e=e) + losses for e in range(1, 4))
    below = "".join(losses + took.format(e=e) for e in range(1, 4))
    assert [row["epoch"] for row in read(above, chunk)[0]] == [1.0] * 3 + [2.0] * 3 + [3.0] * 3
    assert {row["epoch"] for row in read(below, chunk)[0]} == {None}
