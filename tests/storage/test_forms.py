"""Records in forms of their own: under headings, in Markdown, rows of GPUs; long, in pieces, and what only looks so."""

import pytest

from storage.reader import LogReader
from storage.types import ParseReport


def read(text: str, chunk: int = 1 << 20) -> tuple[list[dict], ParseReport]:
    data, reader = text.encode(), LogReader("log")
    batches = [batch for at in range(0, len(data), chunk) for batch in reader.feed(data[at : at + chunk])]
    batches += reader.finish()
    return [row for batch in batches for row in batch.rows.to_pylist()], reader.report()


def stanzas(count: int) -> str:
    text = "Step {i}:\n  loss: {loss}\n  lr: 3e-4\n  note: none\n"
    return "".join(text.format(i=i * 10, loss=3 - i / 1000) for i in range(1, count + 1))


def table(count: int) -> str:
    return "| step | loss |\n|---|---|\n" + "".join(f"| {i * 10} | {3 - i / 1000} |\n" for i in range(1, count + 1))


def devices(count: int) -> str:
    return "".join(f"{i % 8}, NVIDIA H100 80GB HBM3, {i % 100} %, 81559 MiB, {i} MiB, 5{i % 10}\n" for i in range(1, count + 1))


@pytest.mark.parametrize("chunk", [997, 1 << 20])
def test_hundreds_of_records_under_headings(chunk: int) -> None:
    rows, report = read(stanzas(400), chunk)
    assert [(row["step"], row["loss"], row["lr"]) for row in rows] == [(i * 10, 3 - i / 1000, 3e-4) for i in range(1, 401)]
    assert (report.records, report.segments, report.unparsed_count, report.format) == (400, 1, 0, "stanzas")
    assert report.ignored == 800  # headings and notes


@pytest.mark.parametrize("chunk", [997, 1 << 20])
def test_hundreds_of_rows_of_a_table_among_text(chunk: int) -> None:
    head = "Reading a shard\n" * 20 + "Step  Train Loss\n"
    text = head + "".join(f"{i * 10}   {3 - i / 1000}\nSaving nothing yet\n" for i in range(1, 401))
    rows, report = read(text, chunk)
    assert [(row["step"], row["loss"]) for row in rows] == [(i * 10, 3 - i / 1000) for i in range(1, 401)]
    assert (report.records, report.segments, report.unparsed_count, report.format) == (400, 1, 0, "headed")


@pytest.mark.parametrize("chunk", [997, 1 << 20])
def test_hundreds_of_rows_of_a_markdown_table(chunk: int) -> None:
    rows, report = read(table(400), chunk)
    assert [(row["step"], row["loss"]) for row in rows] == [(i * 10, 3 - i / 1000) for i in range(1, 401)]
    assert (report.records, report.format) == (400, "markdown")


@pytest.mark.parametrize("chunk", [997, 1 << 20])
def test_hundreds_of_rows_of_devices(chunk: int) -> None:
    rows, report = read(devices(400), chunk)
    assert [(row["index"], row["gpu_utilization_percent"]) for row in rows] == [(i % 8, i % 100) for i in range(1, 401)]
    assert {row["memory_total_bytes"] for row in rows} == {81559 * 2**20}
    assert {row["kind"] for row in rows} == {"telemetry"}
    assert report.records == 0


def test_a_run_that_just_began_shows_its_first_record_under_a_heading() -> None:
    rows, _ = read(stanzas(1))
    assert [(row["step"], row["loss"]) for row in rows] == [(10, 2.999)]


@pytest.mark.parametrize(
    "text",
    [
        "# How to train\n\n" + stanzas(5),
        "# Results\n\nOurs is better:\n\n" + table(5),
        "| model | loss |\n|---|---|\n" + "".join(f"| tiny-{i} | 2.{i} |\n" for i in range(5)),
        "".join(f"Step {i}: install the package\n  size: {i}\n" for i in range(5)),
        "".join(f"Step {i}\n  width: {i}\n  height: 3\n" for i in range(5)),
        "".join(f"{i}, NVIDIA H100 80GB HBM3, ready\n" for i in range(5)),
    ],
    ids=["headings in a document", "table in a document", "table of models", "instructions", "no metric", "list of devices"],
)
def test_what_only_looks_like_such_a_record_gives_none(text: str) -> None:
    rows, report = read(text)
    assert rows == []
    assert report.format is None


def test_sizes_that_do_not_tell_what_they_are_have_no_name() -> None:
    rows, _ = read("".join(f"{i}, Tesla T4, 5 %, 900 MiB, 700 MiB, 300 MiB\n" for i in range(4)))
    assert not any(row.get("memory_bytes") or row.get("memory_total_bytes") for row in rows)
    assert [row["gpu_utilization_percent"] for row in rows] == [5.0] * 4


def test_a_key_with_a_number_in_its_name_is_no_value() -> None:
    rows, _ = read("".join(f"step={i} loss=2.5 grad_norm={{'0_default': 1.{i}}} lr=0.5\n" for i in range(1, 5)))
    assert [row["grad_norm"] for row in rows] == [1.1, 1.2, 1.3, 1.4]
    assert "_default" not in rows[0]


@pytest.mark.parametrize(("start", "step"), [("[{i}00/900] ", True), ("x.py:48] [{i}00] ", True), ("[{i}] ", False)])
def test_a_number_alone_in_brackets_is_the_step_where_nothing_else_is(start: str, step: bool) -> None:
    rows, _ = read("".join(start.format(i=i) + f"loss: 2.{i} acc: 0.5\n" for i in range(1, 6)))
    assert [row["step_printed"] for row in rows] == ([i * 100 for i in range(1, 6)] if step else [None] * 5)
    rows, _ = read("".join(start.format(i=i) + f"step {i} loss: 2.{i} acc: 0.5\n" for i in range(1, 6)))
    assert [row["step_printed"] for row in rows] == [1, 2, 3, 4, 5]


LINES = {
    "Epoch 1, Batch {i}00, Loss: 2.{i}": {"epoch": 1, "step_printed": "{i}00"},
    "Epoch [1/5], Batch [{i}00/938], Loss: 2.{i}": {"epoch": 1, "epochs": 5, "step_printed": "{i}00", "steps_per_epoch": 938},
    "2022-03-01 10:00:0{i},123 INFO [train.py:895] (0/4) Epoch 3, batch {i}0, loss[loss=2.{i}, over 5.00 frames.]": {
        "epoch": 3, "step_printed": "{i}0", "epochs": None,
    },
    "INFO:tensorflow:loss = 2.{i}, step = {i}00 (12.5 sec)": {"step_printed": "{i}00"},
    "[NeMo I 2024-03-01 10:00:0{i} nemo_logging:393] step: {i}0, train_loss: 2.{i}, lr: 0.5": {
        "step_printed": "{i}0", "nemo_logging": None,
    },
    "epoch: 2 step: {i}0, loss is 2.{i}": {"epoch": 2, "step_printed": "{i}0"},
    "iter {i}: loss 2.{i}, time: 250.5ms, speed: 1234 toks/s/device": {"tokens_per_second": 1234, "steps_per_second": None},
    "Epoch 1 batch size 32 step {i}0 loss 2.{i}": {"epoch": 1, "step_printed": "{i}0"},
}  # fmt: skip


@pytest.mark.parametrize("line", LINES)
def test_lines_of_many_programs(line: str) -> None:
    rows, report = read("".join(line.format(i=i) + "\n" for i in range(1, 7)))
    assert report.unparsed_count == 0
    assert [row["loss"] for row in rows] == [float(f"2.{i}") for i in range(1, 7)]
    for i, row in enumerate(rows, 1):
        wanted = {name: float(value.format(i=i)) if isinstance(value, str) else value for name, value in LINES[line].items()}
        assert {name: row.get(name) for name in wanted} == wanted


def test_an_apostrophe_in_a_json_object_over_lines_is_no_quote() -> None:
    text = "".join(f'{{\n  "step": {i},\n  "loss": {3 - i / 10},\n  "note": "it\'s fine"\n}}\n' for i in range(1, 6))
    rows, report = read(text)
    assert [(row["step"], row["loss"]) for row in rows] == [(i, 3 - i / 10) for i in range(1, 6)]
    assert report.format == "json_blocks"


@pytest.mark.parametrize("width", [10, 60, 250])
@pytest.mark.parametrize(("full", "empty"), [("█", " "), ("#", "-"), ("=", ".")])
@pytest.mark.parametrize(
    "line", ["Epoch 3: 50%|{bar}| {i}/40 [00:05<00:30,  1.20it/s, loss={loss}]", "step {i}/40 [{bar}] loss: {loss}"]
)
def test_the_width_of_a_progress_bar_says_nothing(line: str, full: str, empty: str, width: int) -> None:
    filled = [width * i // 40 for i in range(40)]
    bars = [full * count + empty * (width - count) for count in filled]
    rows, report = read("\r".join(line.format(i=i, bar=bar, loss=3 - i / 64) for i, bar in enumerate(bars)) + "\n")
    assert [row["loss"] for row in rows] == [3 - i / 64 for i in range(40)]
    assert not report.drifts
