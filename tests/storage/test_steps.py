"""Steps that do not simply rise: the newest lines first, several processes at once, restarts, numbers that are no steps."""

import json
import random
from collections.abc import Iterable

import pytest

from storage.reader import LogReader
from storage.types import Event, ParseReport


def lines(steps: Iterable[int], prefix: str = "") -> str:
    return "".join(f"{prefix}step {step} loss {2 + 1 / (1 + step % 1000):.4f} lr 0.001\n" for step in steps)


def read(
    text: str, chunk: int = 1 << 20, *, again: bool = False
) -> tuple[list[int | None], list[int], list[Event], ParseReport]:
    """Return the steps and segments of the rows, the events and the report; `again`: a new reader after every chunk."""
    reader, data, batches = LogReader("log"), text.encode(), []
    for start in range(0, len(data), chunk):
        batches += reader.feed(data[start : start + chunk])
        if again:
            reader = LogReader("log", state=json.loads(json.dumps(reader.state())))
    batches += reader.finish()
    rows = [row for batch in batches for row in batch.rows.select(["step", "segment"]).to_pylist()]
    events = [event for batch in batches for event in batch.events]
    return [row["step"] for row in rows], [row["segment"] for row in rows], events, reader.report()


def interleaved(ranks: int, seed: int) -> list[int]:
    """Return steps as processes print them that run side by side, each a little ahead or behind."""
    draw = random.Random(seed)
    return [step for _, step in sorted((step + draw.random() * 1.5, step) for step in range(1, 400) for _ in range(ranks))]


@pytest.mark.parametrize("every", [1, 10, 500])
@pytest.mark.parametrize("chunk", [1 << 20, 997])
def test_the_newest_lines_first_are_one_launch_and_a_note(every: int, chunk: int) -> None:
    wanted = list(range(300 * every, 0, -every))
    steps, segments, events, report = read(lines(wanted), chunk)
    assert steps == wanted
    assert set(segments) == {0}
    assert report.segments == 1
    assert events == []
    assert any("back and forth" in note.render() for note in report.notes)


def test_processes_without_a_name_do_not_make_a_launch_of_every_line() -> None:
    wanted = interleaved(8, 3)
    steps, _, events, report = read(lines(wanted))
    assert steps == wanted
    assert report.segments <= 3
    assert len(events) <= 12
    assert any("back and forth" in note.render() for note in report.notes)


def test_of_several_ranks_the_first_tells_where_the_training_stands() -> None:
    text = "".join(f"[rank{rank}]: step {step - rank % 2} loss 2.5 lr 0.001\n" for step in range(2, 60) for rank in (3, 0, 1))
    steps, segments, events, report = read(text)
    assert steps == [step - rank % 2 for step in range(2, 60) for rank in (3, 0, 1)]
    assert set(segments) == {0}
    assert report.segments == 1
    assert events == []
    assert not any("back and forth" in note.render() for note in report.notes)


@pytest.mark.parametrize(
    ("parts", "segments", "kinds"),
    [
        ([(1, 100), (1, 100), (1, 100)], 3, ["launch", "launch"]),
        ([(1, 100), (90, 150), (140, 200)], 1, ["resume", "resume"]),
        ([(10, 12), (10, 13), (10, 100)], 3, ["launch", "launch"]),
        ([(5000, 5001), (1, 100)], 2, ["launch"]),
    ],
)
def test_restarts_are_still_told(parts: list[tuple[int, int]], segments: int, kinds: list[str]) -> None:
    _, _, events, report = read("".join(lines(range(*part)) for part in parts))
    assert report.segments == segments
    assert [event.kind for event in events] == kinds
    assert not any("back and forth" in note.render() for note in report.notes)


def test_a_restart_among_processes_without_a_name_is_a_launch() -> None:
    _, segments, _, report = read(lines(interleaved(8, 3)) + lines(interleaved(8, 4)))
    assert report.segments == len(set(segments))
    assert segments.count(segments[-1]) == 8 * 399


@pytest.mark.parametrize("seed", range(3))
def test_pieces_and_a_restart_of_the_reader_make_no_difference(seed: int) -> None:
    draw = random.Random(seed)
    text = lines(draw.choice((interleaved(4, seed), range(200, 0, -1), [draw.randrange(1, 50) for _ in range(300)])))
    whole = read(text)
    for chunk in (503, 4001):
        for again in (False, True):
            assert read(text, chunk, again=again) == whole


def test_a_number_that_is_too_large_for_a_step_is_said_and_moves_nothing() -> None:
    steps = [1, 2, 3, 2**63, 4, 10**25, 5]
    found, segments, events, report = read("".join(f"step={step} loss=2.5 lr=0.001\n" for step in steps))
    assert found == [1, 2, 3, 3, 4, 4, 5]
    assert set(segments) == {0}
    assert events == []
    assert any("line 4" in note.render() and "too large" in note.render() for note in report.notes)


@pytest.mark.parametrize(
    "form", ["step {:,}/100,000 loss 2.5", "Iteration {:,} / 100,000, loss=2.5", "step: {:,} of 100,000 - loss: 2.5"]
)
def test_a_plan_printed_with_thousands_is_the_whole_plan(form):
    reader = LogReader("log")
    batches = reader.feed("".join(form.format(step) + "\n" for step in range(100, 3100, 100)).encode()) + reader.finish()
    rows = [row for batch in batches for row in batch.rows.select(["step", "total_steps", "loss"]).to_pylist()]
    assert [row["step"] for row in rows] == list(range(100, 3100, 100))
    assert {(row["total_steps"], row["loss"]) for row in rows} == {(100_000.0, 2.5)}


@pytest.mark.parametrize(
    "form",
    [
        "Iteration {s}/100 000, loss: 2.5",
        "step {u}/100_000 loss=2.5",
        "step: {k}k/100k | loss: 2.5",
        "Step [{g}/100,000], Loss: 2.5",
        " 10%|# | {g}/100,000 [00:10<10:00, 1.0it/s, loss=2.5]",
    ],
)
def test_every_way_to_print_thousands_gives_the_same_plan(form: str) -> None:
    numbers = range(1000, 9000, 1000)
    lines = [form.format(g=f"{n:,}", s=f"{n:,}".replace(",", " "), u=f"{n:_}", k=n // 1000) for n in numbers]
    reader = LogReader("log")
    batches = reader.feed("\n".join([*lines, ""]).encode()) + reader.finish()
    rows = [row for batch in batches for row in batch.rows.select(["step", "total_steps", "loss"]).to_pylist()]
    assert [row["step"] for row in rows] == list(numbers)
    assert {(row["total_steps"], row["loss"]) for row in rows} == {(100_000.0, 2.5)}


def test_the_steps_of_an_epoch_may_have_thousands_too() -> None:
    reader = LogReader("log")
    line = "Epoch:[2/3]({:,}/39,695), loss: 2.5, lr: 0.0005, epoch_time: 3.0min\n"
    batches = reader.feed("".join(line.format(n) for n in (1, 999, 1000, 39_695)).encode()) + reader.finish()
    rows = [row for batch in batches for row in batch.rows.to_pylist()]
    assert [row["step"] for row in rows] == [39_696, 40_694, 40_695, 79_390]
    assert {(row["epoch"], row["epochs"], row["steps_per_epoch"]) for row in rows} == {(2.0, 3.0, 39_695.0)}


@pytest.mark.parametrize(
    ("train", "evaluation"),
    [
        (
            "Epoch {e}: 50%|###   | {s}/600 [00:10<00:10, 2.00it/s, loss=2.5]",
            "Validating: 50%|##  | {s}/60 [00:10<00:10, 2.00it/s, val_loss=2.5]",
        ),
        ("Train: epoch {e} step {s}/600 loss 2.5", "Val: epoch {e} step {s}/60 loss 2.5"),
    ],
)
@pytest.mark.parametrize("chunk", [1 << 20, 211])
def test_an_evaluation_that_counts_its_own_batches_stands_where_the_training_does(
    train: str, evaluation: str, chunk: int
) -> None:
    lines = [
        line.format(e=e, s=s)
        for e in range(1, 4)
        for line, steps in ((train, range(100, 601, 100)), (evaluation, range(20, 61, 20)))
        for s in steps
    ]
    reader, data = LogReader("log"), "".join(line + "\n" for line in lines).encode()
    batches = [
        batch for start in range(0, len(data), chunk) for batch in reader.feed(data[start : start + chunk])
    ] + reader.finish()
    rows = [row for batch in batches for row in batch.rows.to_pylist()]
    steps = [row["step"] for row in rows]
    assert steps == sorted(steps)
    assert [row["step"] for row in rows if row["kind"] == "eval"] == [600] * 3 + [1200] * 3 + [1800] * 3
    assert {row.get("steps_per_epoch") for row in rows} <= {None, 600}


@pytest.mark.parametrize("chunk", [1 << 20, 97])
def test_rows_that_are_believed_late_are_no_resume(chunk: int) -> None:
    records = [f"iter {s} | loss {4 - s / 1024} | lr 0.5\n" for s in range(0, 1000, 100)]
    for at, step in ((9, 800), (6, 500), (3, 200)):
        records.insert(at, f"\n--- Iteration {step} ---\nTrain loss: 2.{at}\nVal loss: 2.{at}5\n\n")
    steps, segments, events, report = read("".join(records), chunk)
    assert sorted(step for step in steps if step is not None) == sorted([*range(0, 1000, 100), 200, 500, 800])
    assert (set(segments), events, report.segments) == ({0}, [], 1)
