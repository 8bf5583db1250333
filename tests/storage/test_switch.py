"""A log that goes on in another form, sizes printed as used/total, lines of formats that are not this log's."""

import json
from typing import Any

import pytest

from storage.reader import LogReader
from storage.reading import formats, teach
from storage.types import ParseReport


def read(text: str, chunk: int = 1 << 20, *, again: bool = False) -> tuple[list[dict[str, Any]], ParseReport]:
    """Return the rows (without empty cells) and the report; `again`: a new reader after every chunk."""
    reader, data, batches = LogReader("log"), text.encode(), []
    for start in range(0, len(data), chunk):
        batches += reader.feed(data[start : start + chunk])
        if again:
            reader = LogReader("log", state=json.loads(json.dumps(reader.state())))
    batches += reader.finish()
    rows = [row for batch in batches for row in batch.rows.to_pylist()]
    return [{key: value for key, value in row.items() if value is not None} for row in rows], reader.report()


def canonical(steps: range) -> str:
    line = "Epoch:[1/1]({}/900), loss: 2.5000, logits_loss: 2.5000, aux_loss: 0.0000, lr: 0.00050000, epoch_time: 9.0min\n"
    return "".join(line.format(step) for step in steps)


OTHERS = ("step={} total_loss=2.25 lr=0.0003\n", "step {} | train loss 2.25 | lr 0.0003 | tok/s 1,200\n")


@pytest.mark.parametrize("other", OTHERS)
@pytest.mark.parametrize(("first", "count"), [(60, 80), (60, 5), (6, 400)])
def test_a_log_that_goes_on_in_another_form_loses_no_line(other: str, first: int, count: int) -> None:
    text = canonical(range(1, first)) + "".join(other.format(step) for step in range(first, first + count))
    rows, report = read(text)
    assert [row["step"] for row in rows if row["kind"] == "train"] == list(range(1, first + count))
    assert report.records == first + count - 1
    assert any(f"line {first} on" in note.render() for note in report.notes)
    assert {row["loss"] for row in rows} == {2.5, 2.25}


@pytest.mark.parametrize("chunk", [700, 4000])
@pytest.mark.parametrize("again", [False, True])
def test_pieces_make_no_difference_to_a_switch(chunk: int, again: bool) -> None:
    text = canonical(range(1, 60)) + "".join(OTHERS[0].format(step) for step in range(60, 140)) + canonical(range(140, 160))
    whole, report = read(text)
    pieces, of_pieces = read(text, chunk, again=again)
    assert pieces == whole
    assert (of_pieces.records, of_pieces.notes) == (report.records, report.notes)
    assert report.records == 159


def test_lines_beside_the_records_are_still_no_records() -> None:
    text = "".join(canonical(range(step, step + 1)) + f"step={step} total_loss=1.5 lr=0.1\n" for step in range(1, 80))
    text += "".join(f"worker {step} loss: 0.25\n" for step in range(80)) + "".join(
        f"eval step={n} loss=1.5\n" for n in range(80)
    )
    rows, report = read(text)
    assert report.records == 79
    assert {row["loss"] for row in rows if row["kind"] == "train"} == {2.5}
    assert report.eval_records == 80


def test_evaluations_of_no_declared_form_are_read_beside_a_declared_one() -> None:
    text = "".join(canonical(range(step, step + 5)) + f"step {step + 4} val_loss 2.75\n" for step in range(1, 60, 5))
    rows, report = read(text)
    assert report.eval_records == 12
    assert [row["step"] for row in rows if row["kind"] == "eval"] == list(range(5, 65, 5))


@pytest.mark.parametrize(
    ("size", "used", "total"), [("55GB/80GB", 55, 80), ("55.5/80.0 GB", 55.5, 80), ("55.5 GiB / 80 GiB", 55.5, 80)]
)
def test_used_and_total_memory_are_both_read(size: str, used: float, total: float) -> None:
    rows, _ = read("".join(f"step {step} loss 2.5 lr 0.001 mem {size}\n" for step in range(40)))
    assert {(row["memory_bytes"], row["memory_total_bytes"]) for row in rows} == {(used * 2**30, total * 2**30)}


def test_a_line_that_only_looks_like_another_format_is_no_damage() -> None:
    settings = "  model: gpt\n  loss: CrossEntropy\n"
    rows, report = read(settings + canonical(range(1, 40)))
    assert (report.records, report.unparsed_count) == (39, 0)
    assert read(canonical(range(1, 40)).replace("loss: 2.5000, logits", "loss: 2.5.00, logits", 1))[1].unparsed_count == 1
    assert read("Epoch:[1/1](3/900), loss: what\n" * 3)[1].unparsed_count == 3


def test_nan_behind_a_word_that_only_an_own_pattern_knows_is_kept() -> None:
    found = teach.draft([r"^iter {step} qloss {qloss} zed {zed}"], pairs=False)
    text = "".join(f"iter {i} qloss {'nan' if i % 3 == 0 else '2.5'} zed {'-inf' if i % 4 == 0 else i}\n" for i in range(1, 90))
    with formats.trying(found):
        rows, _ = read(text)
        pieces, _ = read(text, 37)
    assert repr(pieces) == repr(rows)
    assert [repr(row["qloss"]) for row in rows[:6]] == ["2.5", "2.5", "nan", "2.5", "2.5", "nan"]
    assert [row["zed"] for row in rows[:4]] == [1, 2, 3, float("-inf")]
