"""Decimal commas and thousands: told from the numbers of the whole log, and said."""

from typing import Any

import pytest

from storage.reader import LogReader
from storage.types import ParseReport

LOSSES = ("2,345", "2,31", "2,2", "2,187", "1,999")


def read(text: str, chunk: int = 1 << 20) -> tuple[list[dict[str, Any]], ParseReport]:
    reader, data = LogReader("log"), text.encode()
    batches = [batch for start in range(0, len(data), chunk) for batch in reader.feed(data[start : start + chunk])]
    batches += reader.finish()
    return [row for batch in batches for row in batch.rows.to_pylist()], reader.report()


def losses(lines: list[str], chunk: int = 1 << 20) -> tuple[list[float | None], ParseReport]:
    rows, report = read("".join(f"{line}\n" for line in lines), chunk)
    return [row.get("loss") for row in rows], report


@pytest.mark.parametrize(
    "line",
    [
        "step: {i} loss: {loss} lr: 0,001",
        "step={i} loss={loss} grad_norm=0,75",
        "Epoch 1 | step {i} | loss {loss} | lr 0,0003",
        "步数：{i}，损失：{loss}，学习率：0,001",
    ],
)
@pytest.mark.parametrize("chunk", [1 << 20, 7])
def test_a_decimal_comma_is_told_and_said(line: str, chunk: int) -> None:
    found, report = losses([line.format(i=i, loss=loss) for i, loss in enumerate(LOSSES * 3)], chunk)
    assert found == [2.345, 2.31, 2.2, 2.187, 1.999] * 3
    assert any("decimal comma" in note.render() for note in report.notes)
    assert report.unparsed_count == 0


def test_a_table_with_semicolons_may_have_decimal_commas() -> None:
    found, report = losses(["step;loss;lr", *(f"{i};{loss};0,001" for i, loss in enumerate(LOSSES * 3))])
    assert found == [2.345, 2.31, 2.2, 2.187, 1.999] * 3
    assert report.unparsed_count == 0


def test_a_log_whose_first_lines_may_be_either_is_told_by_the_later_ones() -> None:
    lines = [f"step: {i} loss: {3 - i / 100:.3f}".replace(".", ",") for i in range(60)] + ["step: 60 loss: 2,31"] * 4
    found, _ = losses(lines)
    assert found[:2] == [3.0, 2.99]
    assert found[-1] == 2.31


def test_a_loss_with_three_digits_behind_every_comma_is_no_loss_of_thousands() -> None:
    found, report = losses([f"step: {i} loss: {loss}" for i, loss in enumerate(("2,345", "2,312", "2,187", "1,999"))])
    assert found == [2.345, 2.312, 2.187, 1.999]
    assert any("decimal comma" in note.render() for note in report.notes)


@pytest.mark.parametrize(
    "line", ["step: {i} loss: 2.5 tok/sec: 25,81{d}", "iter {i} | loss: 15,806.5 | lr: 0.001 | tokens: 1,00{d}"]
)
def test_thousands_stay_thousands_beside_a_point(line: str) -> None:
    rows, report = read("".join(line.format(i=i, d=i % 10) + "\n" for i in range(1, 60)))
    counted = "tokens_per_second" if "tok/sec" in line else "tokens_seen"
    assert [row[counted] for row in rows[:3]] == ([25811, 25812, 25813] if "tok/sec" in line else [1001, 1002, 1003])
    assert not any("decimal comma" in note.render() for note in report.notes)


def test_a_single_odd_number_is_damage_not_another_value() -> None:
    lines = [f"step: {i} loss: 2.5 lr: 0.001" for i in range(1, 60)]
    _, report = losses([*lines, "step: 60 loss: 2,31 lr: 0.001"])
    assert report.records == 59
    assert report.unparsed_count == 1


def test_a_sentence_with_a_comma_between_the_rows_of_a_table_is_no_new_header() -> None:
    lines = ["step,loss,lr", *(f"{i},2.5,0.001" if i % 3 else "reading a shard, prefetch is on" for i in range(1, 60))]
    found, report = losses(lines)
    assert (len(found), report.unparsed_count) == (40, 19)


def test_a_table_with_german_heads_is_one() -> None:
    rows, report = read("Schritt;Epoche;Verlust;Lernrate\n" + "".join(f"{i};1;{i % 10},25;0,0001\n" for i in range(1, 30)))
    assert [(row["step"], row["epoch"], row["loss"], row["lr"]) for row in rows[:2]] == [(1, 1, 1.25, 1e-4), (2, 1, 2.25, 1e-4)]
    assert (report.records, report.format) == (29, "csv")


def test_german_words_in_a_line_are_names() -> None:
    rows, _ = read("".join(f"Epoche 1 Schritt {i}: Verlust = {i % 10},25, Lernrate = 0,0001\n" for i in range(1, 30)))
    assert [(row["step"], row["epoch"], row["loss"], row["lr"]) for row in rows[:2]] == [(1, 1, 1.25, 1e-4), (2, 1, 2.25, 1e-4)]


def test_nothing_is_said_of_the_numbers_of_a_log_that_gives_no_row():
    reader = LogReader("bad.csv")
    reader.feed(b"step,loss\n1,2\n2\n3,4,5\n")
    reader.finish()
    assert not any("decimal comma" in note.render() for note in reader.report().notes)
