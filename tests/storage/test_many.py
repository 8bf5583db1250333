"""One curve of many runs in one call is what each run's own call gives."""

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from storage.keeping import many
from storage.store import Store, UnknownRun
from storage.types import ROW_SCHEMA, Batch


def rows(count: int, seed: int, names: list[str]) -> pa.Table:
    """Rows of two launches, some of kind summary, with NaN, inf and gaps; `names` are the metrics in their order."""
    rng = np.random.default_rng(seed)
    step = np.concatenate([np.arange(count // 2), np.arange(count - count // 2)])
    places = {
        "line": np.arange(count) + 1,
        "kind": np.where(rng.random(count) < 0.01, "summary", "train"),
        "segment": np.repeat([0, 1], [count // 2, count - count // 2]),
        "step": step,
        "timestamp": 1_700_000_000_000 + 1000 * np.arange(count),
    }
    arrays = [pa.array(places[f.name], f.type) if f.name in places else pa.nulls(count, f.type) for f in ROW_SCHEMA]
    for number, name in enumerate(names):
        values = rng.normal(2, 0.1, count)
        values[rng.integers(0, count, 3 if count else 0)] = [np.nan, np.inf, 99][: 3 if count else 0]
        gaps = rng.random(count) < 0.2 if number % 2 else np.zeros(count, bool)
        arrays.append(pa.array(step * 2048.0 if name == "tokens_seen" else values, mask=gaps & (name != "tokens_seen")))
    return pa.table(arrays, names=[*ROW_SCHEMA.names, *names])


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    """Runs of every length: without rows, seen row by row, from cells of 50 and of 1,000; one is read from Parquet."""
    with Store(tmp_path_factory.mktemp("store")) as store:
        for number, count in enumerate([0, 1, 3, 700, 5_001, 24_999, 90_000]):
            names = ["lr", "loss", "tokens_seen"] if number % 2 else ["loss", "grad_norm", "tokens_seen"]
            with store.writer(name=f"run {number}") as writer:
                writer.append(Batch(rows(count, number, names)))
                writer.commit()
        store.cool(-1)
        with store.writer(name="no such metric") as writer:
            writer.append(Batch(rows(10, 1, ["reward"])))
            writer.commit()
        yield store


METRICS = ["grad_norm", "loss", "nothing_prints_this", "lr"]


@pytest.mark.parametrize("x", ["step", "line", "timestamp", "elapsed_seconds", "tokens_seen", "epoch", "no_such_x"])
@pytest.mark.parametrize("width", [1, 40, 1000])
def test_many_runs_are_what_each_run_is(store, x, width):
    ids = [run.id for run in store.runs()]
    found = store.buckets_many(ids, METRICS, x=x, width=width)
    wanted = {run: store.buckets(run, METRICS, x=x, width=width) for run in ids}
    assert list(found) == ids
    assert any(map(len, wanted.values())) or x in ("epoch", "no_such_x")
    for run, one in wanted.items():
        mine = found[run].reset_index(drop=True).astype({"metric": object})
        one = one.astype({"metric": object})[list(many.COLUMNS)]
        np.testing.assert_allclose(mine.pop("mean").astype(float), one.pop("mean").astype(float), rtol=1e-12)
        pd.testing.assert_frame_equal(mine, one, check_dtype=False, check_exact=True)


def test_runs_come_in_the_order_asked_for_and_once(store):
    ids = [run.id for run in store.runs() if run.rows > 1][::-1]
    found = store.buckets_many([*ids, ids[0]], ["loss"])
    prints = {run for run in ids if any(column.name == "loss" for column in store.columns(run))}
    assert list(found) == ids
    assert {run for run, one in found.items() if len(one)} == prints
    assert store.buckets_many([], ["loss"]) == {}
    assert not any(map(len, store.buckets_many(ids, []).values()))


def test_a_run_that_is_not_there_is_said(store):
    with pytest.raises(UnknownRun):
        store.buckets_many([store.runs()[0].id, "nobody"], ["loss"])
    with pytest.raises(UnknownRun):
        store.printed_steps(["nobody"], 50)


def test_which_rows_print_their_step_is_told_of_many_runs_at_once(store):
    """Half of the first rows of one run print it, none of the others'; a run without rows is not there."""
    with store.writer(name="half") as writer:
        table = rows(8, 3, ["loss"])
        printed = pa.array([None, 1, None, 3, None, 5, None, 7], pa.int64())
        place = table.column_names.index("step_printed")
        table = table.set_column(place, "step_printed", printed)
        table = table.set_column(table.column_names.index("kind"), "kind", pa.array(["train"] * 8))
        writer.append(Batch(table))
        writer.commit()
    ids = [run.id for run in store.runs()]
    told = store.printed_steps(ids, 4)
    assert told.pop(writer.run_id) == 0.5
    assert set(told.values()) == {0.0}
    assert set(told) == {run.id for run in store.runs() if run.rows} - {writer.run_id}


def test_reports_of_many_runs_are_those_of_each(store):
    ids = [run.id for run in store.runs()]
    assert store.reports([*ids, "nobody"]) == {run: store.report(run) for run in ids}
