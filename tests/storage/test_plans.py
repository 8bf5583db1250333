"""What a plan is the plan of: steps of an epoch or of the run, told from what follows; epochs that are not equally long."""

import json
from collections.abc import Iterable
from typing import Any

import pytest

from storage.reader import LogReader
from tests.storage.test_families import read

PLANS = ("steps_planned", "steps_per_epoch", "total_steps")


def plans(rows: Iterable[dict[str, Any]]) -> list[tuple[str, float]]:
    """Return under which name each row has its plan, and the plan, without what is said again."""
    said = [(name, row[name]) for row in rows for name in PLANS if row.get(name) is not None]
    return [one for one, before in zip(said, [None, *said], strict=False) if one != before]


FORMS = [
    "epoch {e}/{E}, step {s}/{S}, loss {loss}",
    "Epoch [{e}/{E}], Step [{s}/{S}], Loss: {loss}",
    "step {s}/{S} epoch {e}/{E} loss {loss}",
]


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("chunk", [1 << 20, 997])
def test_a_step_that_runs_on_through_the_epochs_has_the_plan_of_the_run(form: str, chunk: int) -> None:
    lines = [form.format(e=1 + (s - 1) // 50, E=4, s=s, S=200, loss=3 - s / 128) + "\n" for s in range(1, 201)]
    rows, report = read("".join(lines), chunk)
    assert [row["step"] for row in rows] == list(range(1, 201))
    assert plans(rows) == [("steps_planned", 200), ("total_steps", 200)]
    assert rows[50]["total_steps"] == 200
    assert report.segments == 1


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("chunk", [1 << 20, 997])
def test_a_step_that_starts_again_has_the_plan_of_an_epoch(form: str, chunk: int) -> None:
    lines = [form.format(e=e, E=4, s=s, S=200, loss=3 - s / 128) + "\n" for e in range(1, 5) for s in range(1, 201)]
    rows, report = read("".join(lines), chunk)
    assert [row["step"] for row in rows] == list(range(1, 801))
    assert plans(rows) == [("steps_planned", 200), ("steps_per_epoch", 200)]
    assert rows[60]["steps_per_epoch"] == 200  # in the first of four epochs, no run of 200 steps has done 61
    assert report.segments == 1


@pytest.mark.parametrize("form", FORMS)
def test_as_long_as_nothing_tells_what_the_plan_is_of_none_is_claimed(form: str) -> None:
    rows, report = read("".join(form.format(e=1, E=4, s=s, S=200, loss=3 - s / 128) + "\n" for s in range(1, 41)))
    assert plans(rows) == [("steps_planned", 200)]
    assert [column.name for column in report.columns if column.role == "plan"] == [
        "epochs",
        "steps_planned",
    ] or form.startswith("step")


def test_a_run_of_one_epoch_has_its_plan_from_the_first_line_on() -> None:
    rows, report = read("".join(f"Epoch 1/1, step {s}/200, loss {3 - s / 128}\n" for s in range(1, 9)))
    assert plans(rows) == [("steps_per_epoch", 200)]
    assert "steps_planned" not in {column.name for column in report.columns}


def test_a_counter_that_is_called_global_is_that_of_the_run() -> None:
    rows, _ = read("".join(f"epoch 1/4, global step {s}/200, loss {3 - s / 128}\n" for s in range(1, 9)))
    assert plans(rows) == [("total_steps", 200)]


def test_a_fraction_without_a_name_that_runs_on_is_found_out() -> None:
    rows, report = read("".join(f"Epoch: [{1 + (s - 1) // 50}][{s}/200] loss: {3 - s / 128}\n" for s in range(1, 201)))
    assert plans(rows)[-1] == ("total_steps", 200)
    assert ([row["step"] for row in rows], report.segments) == (list(range(1, 201)), 1)


def test_a_reader_that_stops_and_goes_on_finds_the_same() -> None:
    text = "".join(f"epoch {1 + (s - 1) // 50}/4, step {s}/200, loss {3 - s / 128}\n" for s in range(1, 201))
    text += "".join(
        f"epoch {e}/3, step {s}/{60 + e % 2}, loss {3 - s / 128}\n" for e in range(1, 4) for s in range(1, 61 + e % 2)
    )
    whole, _ = read(text)
    found, reader, data = [], LogReader("log"), text.encode()
    for start in range(0, len(data), 1009):
        found += [row for batch in reader.feed(data[start : start + 1009]) for row in batch.rows.to_pylist()]
        reader = LogReader("log", state=json.loads(json.dumps(reader.state())))
    found += [row for batch in reader.finish() for row in batch.rows.to_pylist()]
    keys = ("line", "step", "segment", "epoch", *PLANS)
    assert [[row.get(key) for key in keys] for row in found] == [[row.get(key) for key in keys] for row in whole]


def test_json_that_says_the_steps_of_an_epoch_is_believed() -> None:
    lines = [{"epoch": 1 + (s - 1) // 50, "step": s, "steps_per_epoch": 50, "loss": 3 - s / 128} for s in range(1, 201)]
    rows, report = read("".join(json.dumps(line) + "\n" for line in lines))
    assert [row["step"] for row in rows] == list(range(1, 201))
    assert plans(rows) == [("steps_per_epoch", 50)]
    assert report.segments == 1


@pytest.mark.parametrize(
    "form", ["Epoch {e} iteration {s:04d}/{S:04d}: training loss {loss}", "Epoch: [{e}][{s}/{S}] loss: {loss}"]
)
@pytest.mark.parametrize("chunk", [1 << 20, 997])
def test_epochs_that_differ_by_a_few_steps_overlap_nowhere(form: str, chunk: int) -> None:
    sizes = [187, 188, 187, 186, 188, 187]
    places = [(e, s, S) for e, S in enumerate(sizes) for s in range(0, S, 20)]
    text = "".join(form.format(e=e, s=s, S=S, loss=3 - s / 128) + "\n" for e, s, S in places)
    text = text.replace("0100/0187", "0100/0188").replace("[100/187]", "[100/188]")  # within an epoch, too
    reader, data = LogReader("log"), text.encode()
    batches = [
        batch for start in range(0, len(data), chunk) for batch in reader.feed(data[start : start + chunk])
    ] + reader.finish()
    rows = [row for batch in batches for row in batch.rows.to_pylist()]
    steps = [row["step"] for row in rows]
    assert steps == sorted(set(steps))
    begins = [row["step"] for row in rows if row["step_printed"] == 0]
    assert begins[0] == 0
    assert all(abs(b - a - S) <= 1 for a, b, S in zip(begins, begins[1:], sizes, strict=False))
    assert not [event for batch in batches for event in batch.events]
    assert reader.report().segments == 1


def test_one_line_an_epoch_at_the_same_step_counts_every_epoch() -> None:
    rows, report = read("".join(f"Epoch [{e}/9], Step [200/200], loss: {3 - e / 8}\n" for e in range(1, 10)))
    assert [row["step"] for row in rows] == list(range(200, 2000, 200))
    assert report.segments == 1


@pytest.mark.parametrize("step", [0, 1000])
def test_one_line_an_epoch_without_a_plan_counts_every_epoch_too(step: int) -> None:
    rows, report = read("".join(f"epoch: {e} step: {step}, loss is {3 - e / 8}\n" for e in range(1, 10)))
    each = step or 1
    assert [row["step"] for row in rows] == list(range(step, step + 9 * each, each))
    assert report.segments == 1


@pytest.mark.parametrize(
    ("record", "wanted"),
    [
        ({"step": "{s}/100"}, [("total_steps", 100)]),
        ({"epoch": "{e}/3", "step": "{s}/100"}, [("steps_planned", 100), ("steps_per_epoch", 100)]),
        ({"epoch": "{e}.5", "step": "{s}/100"}, [("total_steps", 100)]),
    ],
)
def test_fractions_in_json_are_plans(record: dict[str, str], wanted: list[tuple[str, float]]) -> None:
    epochs = range(1, 4) if len(wanted) > 1 else range(1, 2)
    lines = [
        {k: v.format(e=e, s=s) for k, v in record.items()} | {"loss": 3 - s / 128} for e in epochs for s in range(10, 101, 10)
    ]
    rows, report = read("".join(json.dumps(line) + "\n" for line in lines))
    assert plans(rows) == wanted
    assert [row["step"] for row in rows] == list(range(10, 100 * len(epochs) + 1, 10))
    assert not [column.name for column in report.columns if column.name.endswith("_total")]
