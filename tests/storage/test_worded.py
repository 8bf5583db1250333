"""Records that go on in words are records; a loss among words is never passed over in silence; prose gives nothing."""

import math
from typing import Any

import pytest

from storage.reader import LogReader
from storage.types import Batch, ParseReport

TAILS = ("data queue full, gpu ok", "prefetch queue ok workers alive", "everything is fine, 3 workers of the loader wait")
FORMS = (
    "step {n} loss {v} lr 3.0e-04 | {tail}",
    "INFO iter {n} loss {v} - {tail}",
    "step={n} loss={v} {tail}",
    "[trainer] step {n}: loss {v}; {tail}",
    "2024-05-01 10:00:{n:02} main INFO step {n} loss {v} - {tail}",
    '{{"log":"step {n} loss {v} | {tail}\\n","stream":"stdout","time":"2024-05-01T10:00:{n:02}Z"}}',
    "10%|#   | {n}/100 [00:01<00:09, 1.0it/s, loss={v}] {tail}",
    "step {n} loss {v}，数据队列已满，显卡正常，一切都很好，训练继续进行",
)


def read(text: str, chunk: int = 1 << 20) -> tuple[list[dict[str, Any]], ParseReport, list[Batch]]:
    reader, data = LogReader("sample"), text.encode()
    batches = [batch for at in range(0, len(data), chunk) for batch in reader.feed(data[at : at + chunk])]
    batches += reader.finish()
    return [row for batch in batches for row in batch.rows.to_pylist()], reader.report(), batches


def records(count: int = 40) -> list[str]:
    return [f"step {n} loss {2 + n / 64} lr 3.0e-04" for n in range(1, count + 1)]


@pytest.mark.parametrize("tail", TAILS)
@pytest.mark.parametrize("form", FORMS)
def test_words_behind_every_record_hide_none(form: str, tail: str) -> None:
    rows, report, _ = read("".join(form.format(n=n, v=2 + n / 64, tail=tail) + "\n" for n in range(1, 41)))
    assert [(row["step"], row["loss"]) for row in rows] == [(n, 2 + n / 64) for n in range(1, 41)]
    assert (report.records, report.ignored, report.unparsed_count) == (40, 0, 0)
    assert ("time" in form) <= all(row["timestamp"] is not None for row in rows)


@pytest.mark.parametrize("chunk", [100, 1 << 20])
def test_words_behind_a_few_records_hide_none(chunk: int) -> None:
    lines = records()
    lines[9::10] = [f"{line} | checkpoint written, queue ok" for line in lines[9::10]]
    lines[4] = "step 5 loss nan lr 3.0e-04 | loss is not finite, skipping this batch"
    lines[5] = "step 6 loss nan | loss is not finite, skipping this batch"  # fewer names than its neighbours
    rows, report, _ = read("\n".join(lines) + "\n", chunk)
    assert [row["step"] for row in rows] == [*range(1, 41)]
    assert [row["step"] for row in rows if math.isnan(row["loss"])] == [5, 6]
    assert (report.ignored, report.unparsed_count) == (0, 0)


def test_a_short_log_of_nothing_else_is_read() -> None:
    assert read("".join(f"{line} | data queue full, gpu ok, workers alive\n" for line in records(4)))[1].records == 4


def test_the_numbers_among_the_words_are_no_metrics() -> None:
    rows, report, _ = read(
        "".join(f"{line} | checkpoint written after waiting 3 times for disk=4 of 5\n" for line in records())
    )
    assert len(rows) == 40
    assert [column.name for column in report.columns] == ["loss", "lr"]


def test_the_words_behind_a_record_may_tell_an_event() -> None:
    lines = records()
    lines[20] += " | RuntimeError: CUDA out of memory, this batch is tried again"
    rows, _, batches = read("\n".join(lines) + "\n")
    assert len(rows) == 40
    assert [event.line for batch in batches for event in batch.events if event.kind == "out_of_memory"] == [21]


def test_a_value_that_goes_on_in_words_is_not_taken() -> None:
    lines = records()
    lines[20] = "step 21 loss 2.5 → nothing that could be printed as a number"
    assert [one.line for one in read("\n".join(lines) + "\n")[1].unparsed] == [21]


def test_a_loss_among_words_beside_records_is_not_understood() -> None:
    lines = records()
    lines[20] = "WARNING a non-finite loss nan at step 21, the batch is skipped because of that"
    rows, report, _ = read("\n".join(lines) + "\n")
    assert len(rows) == 39
    assert [one.line for one in report.unparsed] == [21]
    assert (report.ignored, report.unparsed_count) == (0, 1)


PROSE = {
    "sentences": "At step {n} loss {v} would be a very good result for such a model, I think\nAnd then there is more\n",
    "a chat": "Ann: well?\nBob: step {n} loss {v}, I think that this is far too high for us\nAnn: yes, so what do we do now\n",
    "among words": "The loss {v} at step {n} is what I have seen in the last run of the model, and it was not nice\n",
    "a JSON chat": '{{"role": "user", "content": "step {n} loss {v} is what I have seen in the last run, and so on"}}\n',
}


@pytest.mark.parametrize("name", PROSE)
def test_prose_that_quotes_losses_is_no_log(name: str) -> None:
    rows, report, _ = read("".join(PROSE[name].format(n=n, v=2 + n / 64) for n in range(1, 10)))
    assert not rows
    assert not report.columns
    assert report.unparsed_count == 0
