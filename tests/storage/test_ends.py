"""Lines that break off in a number: 2.3 of 2.3456 is no value."""

import gzip
import json
from collections.abc import Callable

import pytest
from backports import zstd

from storage.reader import LogReader
from storage.types import ParseReport


def read(data: bytes, chunk: int = 1 << 20) -> tuple[list[dict], ParseReport]:
    reader = LogReader("log")
    batches = [batch for at in range(0, len(data), chunk) for batch in reader.feed(data[at : at + chunk])] + reader.finish()
    return [row for batch in batches for row in batch.rows.to_pylist()], reader.report()


FORMS = {
    "pairs": "step {i} lr 0.0003 loss {loss}",
    "declared": "step {i}: train loss 3.1234, val loss {loss}",
    "table": "{i},0.0003,{loss}",
}
HEADS = {"table": "step,lr,loss\n"}


def log(form: str, last: str, count: int = 12) -> bytes:
    lines = [FORMS[form].format(i=i, loss=f"{3 - i / 100:.4f}") for i in range(1, count)]
    return (HEADS.get(form, "") + "\n".join([*lines, FORMS[form].format(i=count, loss=last)])).encode()


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("chunk", [7, 1 << 20])
@pytest.mark.parametrize(("last", "kept"), [("2.3", None), ("2.345", None), ("2", None), ("2.", None), ("2.3456", 2.3456)])
def test_the_last_number_of_a_log_without_a_last_line_end(form: str, chunk: int, last: str, kept: float | None) -> None:
    name = "eval_loss" if form == "declared" else "loss"
    rows, report = read(log(form, last), chunk)
    assert [row.get(name) for row in rows[:11]] == [pytest.approx(3 - i / 100) for i in range(1, 12)]
    assert [row.get(name) for row in rows[11:]] == [kept]
    assert sum("breaks off" in note.render() for note in report.notes) == (kept is None)
    rows, report = read(log(form, last) + b"\n", chunk)
    assert rows[-1][name] == float(last)
    assert not report.notes


@pytest.mark.parametrize("pack", [gzip.compress, zstd.compress])
def test_a_packed_log_that_breaks_off_gives_no_part_of_a_number(pack: Callable[[bytes], bytes]) -> None:
    packed = pack(b"".join(b"step %d lr 0.0003 loss %.6f\n" % (i, 2 + i * 7919 % 9973 / 9973) for i in range(40_000)))
    rows, report = read(packed[: len(packed) * 2 // 3])
    assert len(rows) > 10_000
    assert all(row["loss"] is None or row["loss"] == round(2 + row["step"] * 7919 % 9973 / 9973, 6) for row in rows)
    assert any("damaged" in note.render() for note in report.notes)


@pytest.mark.parametrize("size", [4095, 4096, 8192])
def test_a_line_that_ends_where_a_buffer_ends_is_cut(size: int) -> None:
    start = "step:{i} - loss:2.5 - " + " - ".join(f"part/{n}:0.12345" for n in range(200))
    text = ""
    for i in range(100, 130):
        line = start.format(i=i)
        text += (line[: size - 8] + " - z:1.5" if i % 10 == 0 else line[: size - 9]) + "\n"
    line = (start.format(i=130) + " - " + " - ".join(f"more/{n}:0.12345" for n in range(500)))[:size]
    while not line[-1].isdigit():
        line = line[:-1] + "7"
    rows, report = read((text + line + "\n").encode())
    assert len(rows) == report.records + report.eval_records
    assert rows[-1]["loss"] == 2.5
    assert any("break" in note.render() for note in report.notes) or report.unparsed_count


def test_a_log_that_grows_gets_the_number_when_it_is_whole() -> None:
    whole = log("pairs", "2.3456") + b"\n"
    reader = LogReader("log")
    kept = [row for batch in reader.feed(whole[:-4]) for row in batch.rows.to_pylist()]
    again = LogReader("log", state=reader.state())
    kept += [row for batch in again.feed(whole[-4:]) + again.finish() for row in batch.rows.to_pylist()]
    assert [row["loss"] for row in kept][-1] == 2.3456
    assert not again.report().notes


def test_a_progress_bar_that_ends_with_a_return_is_whole() -> None:
    rows, report = read(log("pairs", "2.3") + b"\r")
    assert rows[-1]["loss"] == 2.3
    assert not report.notes


@pytest.mark.parametrize("chunk", [333, 1 << 20])
@pytest.mark.parametrize(("whole", "cut"), [("410.50ms", ["410.50m", "410.50", "410.", "4"]), ("0.41s", ["0.41", "0."])])
def test_a_line_in_the_middle_that_lacks_the_unit_of_its_last_number_gives_none(whole: str, cut: list[str], chunk: int) -> None:
    texts = [whole] * 80
    for at, text in enumerate(cut):
        texts[9 + 20 * at] = text
    data = "".join(f"step: {i} | loss: 2.5{i:03} | step_time: {text}\n" for i, text in enumerate(texts, 1)).encode()
    reader = LogReader("log")
    batches = []
    for at in range(0, len(data), chunk):
        batches += reader.feed(data[at : at + chunk])
        reader = LogReader("log", state=json.loads(json.dumps(reader.state())))
    rows = [row for batch in [*batches, *reader.finish()] for row in batch.rows.to_pylist()]
    missing = [row["step"] for row in rows if row["step_time_seconds"] is None]
    assert (len(rows), missing) == (80, [10 + 20 * at for at in range(len(cut))])
    assert {row["step_time_seconds"] for row in rows} == {None, 0.4105 if "ms" in whole else 0.41}
    assert sum("last number" in note.template for note in reader.report().notes) == 1


def test_units_that_change_from_line_to_line_are_no_cuts() -> None:
    texts = ["950ms", "1.2s", "3m", "12%"] * 5
    rows, report = read("".join(f"step: {i} | loss: 2.5 | took: {text}\n" for i, text in enumerate(texts)).encode())
    assert len(rows) == 20
    assert [row["took"] for row in rows].count(None) == 0
