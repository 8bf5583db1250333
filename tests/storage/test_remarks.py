"""Words behind the last field of a declared record: a remark in a whole line, or a name whose number was cut off."""

import json

import pytest

from storage.reader import LogReader
from storage.reading.tails import MOST
from tests.storage.test_families import read

MINIMIND = "Epoch:[1/1]({step}/900), loss: 2.{step}, aux_loss: 0.0, lr: 0.0005, epoch_time: 4.5min"
MEGATRON = (
    " iteration {step:8d}/ 900 | consumed samples: {step} | elapsed time per iteration (ms): 500.0 | learning rate: 1.0E-05 |"
    " lm loss: 2.{step} | grad norm: 1.25 | number of nan iterations:   0 |"
)


def log(line: str, remarks: list[str]) -> str:
    return "".join(f"{line.format(step=step)}{remark}\n" for step, remark in enumerate(remarks, 11))


@pytest.mark.parametrize("line", [MINIMIND, MEGATRON])
@pytest.mark.parametrize(
    "remarks", [[" | saved"] * 4, ["", "", " | saved", " | best so far"], [" | saved", "", "", ""], [" (saved)"] * 60]
)
def test_a_line_with_a_remark_is_a_record(line: str, remarks: list[str]) -> None:
    rows, report = read(log(line, remarks))
    assert [(row["step"], row["loss"]) for row in rows] == [(s, float(f"2.{s}")) for s in range(11, 11 + len(remarks))]
    assert report.unparsed_count == 0


@pytest.mark.parametrize("line", [MINIMIND, MEGATRON])
@pytest.mark.parametrize("place", [0, 2])
def test_a_line_that_breaks_off_in_a_name_is_none(line: str, place: int) -> None:
    lines = log(line, [""] * 4).splitlines()
    lines[place] = lines[place][: lines[place].rindex("0") if line is MEGATRON else lines[place].index("lr:") + 1]
    rows, report = read("\n".join(lines) + "\n")
    assert [row["step"] for row in rows] == [step for step in range(11, 15) if step != 11 + place]
    assert [one.line for one in report.unparsed] == [place + 1]


def test_lines_that_wait_are_remembered() -> None:
    lines = log(MINIMIND, [" | saved"] * 3).encode().splitlines(keepends=True)
    first = LogReader("log")
    first.feed(b"".join(lines[:2]))
    second = LogReader("log", state=json.loads(json.dumps(first.state())))
    rows = [row for batch in [*second.feed(lines[2]), *second.finish()] for row in batch.rows.to_pylist()]
    assert [row["step"] for row in rows] == [11, 12, 13]


def test_lines_that_wait_are_bounded_and_none_is_lost() -> None:
    """Each line has a field of its own, so that none shows the words behind another to be a remark."""
    lines = [f"Epoch:[1/1]({n}/900), loss: 2.{n}, f{n}: 0.1, lr: 0.0005, epoch_time: 4.5min | saved\n" for n in range(11, 411)]
    reader = LogReader("log")
    rows = [row for batch in reader.feed("".join(lines).encode()) for row in batch.rows.to_pylist()]
    waiting = len(reader.state()["text"]["tailed"])
    rows += [row for batch in reader.finish() for row in batch.rows.to_pylist()]
    assert waiting <= MOST
    assert len(rows) + reader.report().unparsed_count == len(lines)
