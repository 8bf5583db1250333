"""Published rows: whole files that anybody reads, the same values from there as from the warehouse, no half of anything."""

import os
from datetime import UTC, datetime, timedelta

import duckdb
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from storage.keeping import parquet
from storage.keeping.retention import Policy
from storage.store import Store, StoreError
from storage.types import ROW_SCHEMA, Batch

LATER = datetime.now(UTC) + timedelta(days=40)


def rows_of(first, stop, **metrics):
    count = stop - first
    steps = np.arange(first, stop)
    places = {"line": steps + 1, "kind": ["train"] * count, "segment": np.zeros(count, int), "step": steps}
    places |= {"timestamp": 1_700_000_000_000 + 500 * steps}
    arrays = [pa.array(places[f.name], f.type) if f.name in places else pa.nulls(count, f.type) for f in ROW_SCHEMA]
    return pa.table([*arrays, *(pa.array(v, pa.float64()) for v in metrics.values())], names=[*ROW_SCHEMA.names, *metrics])


def add(store, run, first, stop, **metrics):
    with store.writer(run) as writer:
        writer.append(Batch(rows_of(first, stop, **metrics)))
        writer.commit()


@pytest.fixture
def store(tmp_path):
    with Store(tmp_path / "a [data] 'dir'") as opened:
        yield opened


@pytest.fixture
def run(store):
    """5,500 rows with null, NaN and infinity, under names that differ in case, of a place, and of no file."""
    run = store.create_run("a")
    loss = np.random.default_rng(1).normal(2, 0.1, 5500)
    loss[1000:1004] = np.nan, np.inf, -np.inf, 99
    add(store, run, 0, 3000, loss=loss[:3000], LOSS=[None] * 1500 + [1.0] * 1500)
    add(store, run, 3000, 5500, loss=loss[3000:], row=np.arange(2500.0), **{'a"; drop table runs; --': loss[3000:]})
    return run


def answers(store, run):
    """What pages ask of a run, as text: NaN and null are told apart in it."""
    frame = store.frame(run)
    asked = [
        str(frame.to_pydict()),
        frame.schema,
        store.frame(run, ["step", "row"], first_step=2990, last_step=3010).to_pydict(),
    ]
    for options in ({}, {"width": 9999}, {"first": 990, "last": 1010}, {"x": "timestamp"}, {"x": "elapsed_seconds"}):
        asked.append(store.buckets(run, ["loss", "LOSS", "row"], **options).to_csv())
    return [*asked, store.windows(run, ["loss"], 10).to_csv(), store.windows(run, ["loss"], 60, x="timestamp").to_csv()]


def test_rows_read_from_files_are_the_same_rows(store, run):
    before = [str(answer) for answer in answers(store, run)]
    version = store.version(run)
    assert store.cool(30, at=LATER) == {run: 5000}
    assert store.version(run) == version
    assert [str(answer) for answer in answers(store, run)] == before
    assert store.cool(30, at=LATER) == {}
    assert store.cool(0.001) == {}


def test_a_cold_run_goes_on_growing_and_cools_again(store, run):
    store.cool(30, at=LATER)
    add(store, run, 5500, 8000, loss=np.ones(2500), fresh=np.arange(2500.0))
    assert store.frame(run, ["step"])["step"].to_pylist() == list(range(8000))
    assert store.frame(run, ["fresh"])["fresh"].null_count == 5500
    assert store.buckets(run, ["loss"], width=7)["count"].sum() == 8000
    before = [str(answer) for answer in answers(store, run)]
    assert store.cool(30, at=LATER) == {run: 3000}
    assert [str(answer) for answer in answers(store, run)] == before
    assert store.frame(run, ["fresh"])["fresh"].null_count == 5500


def test_files_are_appended_to_by_files_and_read_by_anybody(store, run):
    first = store.publish(run)
    assert {piece.kind for piece in first} == {"rows", "cells_50", "cells_1000"}
    assert store.publish(run) == []
    add(store, run, 5500, 6000, loss=np.ones(500))
    second = store.publish(run)
    assert {(piece.kind, piece.first, piece.count) for piece in second} == {
        ("rows", 5500, 500),
        ("cells_50", 5500, 500),
        ("cells_1000", 5000, 1000),
    }
    os.chdir(store.data_dir)  # the name of the folder itself looks like a pattern
    files = "parquet/run=*/{}-*.parquet"
    found = duckdb.sql(f"select count(*), count(distinct row), max(run) from read_parquet('{files.format('rows')}')").fetchall()
    assert found == [(6000, 6000, run)]
    total = duckdb.sql(f"select sum(count) from '{files.format('cells_1000')}' where metric = 'loss'").fetchall()
    assert total == [(6000,)]
    frame = pd.read_parquet(store.data_dir / first[0].path if first[0].kind == "rows" else store.data_dir / first[-1].path)
    assert {"loss", "LOSS_2", "row_2", "timestamp"} <= set(frame.columns) | {"timestamp"}
    assert all(parquet.sha256(store.data_dir / piece.path) == piece.sha256 for piece in [*first, *second])


def test_rows_that_age_leave_the_files_too(store, run):
    store.save_diagnosis(run, "robust", store.version(run), {"findings": [{"first_line": 2000, "last_line": 2000}]})
    store.cool(30, at=LATER)
    store.retention(Policy(rows_days=30, around=20), at=LATER)
    assert store.verify() == []  # no file is expected that is gone
    assert list(store.data_dir.glob("parquet/run=*/rows-*")) == []
    steps = store.frame(run, ["step"])["step"].to_pylist()
    assert set(range(1979, 2019)) <= set(steps)
    found = store.buckets(run, ["loss"], width=9999)
    assert (found["count"].sum(), found["nonfinite"].sum(), found["max"].max()) == (5500, 3, 99)


def test_a_replaced_or_purged_run_has_no_old_files(store, run):
    store.cool(30, at=LATER)
    with store.writer(run, replace=True) as writer:
        writer.append(Batch(rows_of(0, 10, loss=np.ones(10))))
        writer.commit()
    assert store.frame(run).num_rows == 10
    assert list(store.data_dir.glob("parquet/run=*/*")) == []
    store.publish(run)
    store.delete_run(run)
    store.purge(deleted_days=0)
    assert list(store.data_dir.glob("parquet/run=*/*")) == []


def test_what_a_crash_left_is_removed_and_a_missing_file_is_said(tmp_path):
    with Store(tmp_path) as store:
        run = store.create_run("a")
        add(store, run, 0, 3000, loss=np.ones(3000))
        store.cool(1, at=LATER)
    folder = tmp_path / "parquet" / f"run={run}"
    (folder / "rows-9-000000000000.parquet").write_bytes(b"renamed, not committed")
    (folder / "rows-9-000000000000.tmp").write_bytes(b"half")
    with Store(tmp_path) as store:
        assert len(list(folder.iterdir())) == 3
        assert store.frame(run).num_rows == 3000
    next(folder.glob("rows-*")).unlink()
    with Store(tmp_path) as store, pytest.raises(StoreError, match=r"rows-0-0+.parquet is missing"):
        store.frame(run)


@pytest.mark.parametrize("phase", ["rename", "publish"])
def test_a_kill_while_cooling_loses_and_doubles_nothing(tmp_path, phase):
    with Store(tmp_path) as store:
        run = store.create_run("a")
        add(store, run, 0, 3500, loss=np.arange(3500.0))
    pid = os.fork()
    if pid == 0:
        store, publish = Store(tmp_path), parquet.publish
        if phase == "rename":
            type(tmp_path).rename = lambda *_: os._exit(9)
        else:
            parquet.publish = lambda *given: (publish(*given), os._exit(9))
        store.cool(1, at=LATER)
    assert os.WEXITSTATUS(os.waitpid(pid, 0)[1]) == 9
    with Store(tmp_path) as store:
        assert list(tmp_path.glob("parquet/run=*/*")) == []
        assert store.frame(run, ["loss"])["loss"].to_pylist() == list(range(3500))
        assert store.cool(1, at=LATER) == {run: 3000}
        assert store.frame(run, ["loss"])["loss"].to_pylist() == list(range(3500))


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_a_run_is_exported_whole(store, run, tmp_path, kind):
    store.cool(30, at=LATER)
    path = tmp_path / f"out.{kind}"
    assert store.export(run, path) == 5500
    found = pd.read_csv(path) if kind == "csv" else pd.read_parquet(path)
    assert found["step"].tolist() == list(range(5500))
    np.testing.assert_array_equal(found["loss"], store.frame(run, ["loss"])["loss"].to_numpy())
    with pytest.raises(ValueError, match="csv"):
        store.export(run, tmp_path / "out.xlsx")
