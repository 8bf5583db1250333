"""A log with far too many metrics, and a metric that is no number any more: what is kept, and what is said of the rest."""

import json

import numpy as np
import pyarrow as pa
import pytest

from storage.intake.ingest import ingest_file
from storage.keeping.writer import MAX_METRICS
from storage.reading.containers.flatten import MAX_COLUMNS, spread
from storage.store import Store

NAMES = 10_000


@pytest.fixture
def store(tmp_path):
    with Store(tmp_path / "data") as store:
        yield store


def test_of_10000_names_a_thousand_are_curves_and_the_run_says_so(store, tmp_path):
    log = tmp_path / "wide.jsonl"
    rows = [{"step": step, "loss": 3 - step / 10} | {f"m{n}": n + step for n in range(NAMES)} for step in (1, 2, 3)]
    log.write_text("".join(json.dumps(row) + "\n" for row in rows))
    run = ingest_file(store, log).run_id
    assert store.run(run).rows == 3
    assert len(store.columns(run)) == MAX_METRICS
    assert store.frame(run, ["loss", "m0"]).to_pydict() == {"loss": [2.9, 2.8, 2.7], "m0": [1.0, 2.0, 3.0]}
    (event,) = store.events(run)
    assert event.kind == "too_many_metrics"
    assert {"count": NAMES + 3, "kept": MAX_COLUMNS} in [dict(line.reason.values) for line in store.report(run).unparsed]
    assert b"".join(store.original(run)) == log.read_bytes()  # in the archive there is all of it


def test_a_field_that_is_missing_is_null_however_the_object_around_it_is():
    inner = pa.StructArray.from_arrays([pa.array([1.0, 2.0])], ["b"], mask=pa.array([False, True]))
    columns: dict[str, pa.Array] = {}
    spread(
        {"a": {"b": "DOUBLE"}, "c": "DOUBLE"}, pa.StructArray.from_arrays([inner, pa.array([3.0, None])], ["a", "c"]), columns
    )
    assert {name: column.to_pylist() for name, column in columns.items()} == {"a/b": [1.0, None], "c": [3.0, None]}


FORMS = {
    "log": lambda step, loss: f"step={step} loss={loss} lr=0.0001 grad_norm=1.5\n",
    "jsonl": lambda step, loss: f'{{"step": {step}, "loss": {loss if loss != "high" else json.dumps(loss)}, "lr": 0.0001}}\n',
    "csv": lambda step, loss: ("step,loss,lr\n" if step == 1 else "") + f"{step},{loss},0.0001\n",
}


@pytest.mark.parametrize("form", FORMS)
def test_a_metric_that_becomes_a_word_is_told_line_by_line_and_goes_on(form, store, tmp_path):
    log = tmp_path / f"run.{form}"
    words = range(31, 41)
    log.write_text("".join(FORMS[form](step, "high" if step in words else f"{3 - step / 50:.2f}") for step in range(1, 61)))
    run = ingest_file(store, log).run_id
    loss = store.frame(run, ["step", "loss"])
    kept = dict(zip(loss["step"].to_pylist(), loss["loss"].to_pylist(), strict=True))
    assert {step for step, value in kept.items() if value is not None} == set(range(1, 61)) - set(words)
    assert np.isclose(kept[60], 1.8)
    report = store.report(run)
    assert report.unparsed_count == len(words)
    assert all(line.reason.template == "{value} is not a number" for line in report.unparsed)
    assert [line.line for line in report.unparsed] == [step + (form == "csv") for step in words][: len(report.unparsed)]
