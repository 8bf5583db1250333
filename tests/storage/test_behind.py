"""Whole row groups are inserted while the next rows come: nothing is lost by that, out of order, or half done."""

import numpy as np
import pyarrow as pa
import pytest

from messages import Text
from storage.keeping import writer as writing
from storage.keeping.changes import ROW_GROUP
from storage.store import Store, StoreError
from storage.types import Batch


@pytest.fixture
def store(tmp_path):
    with Store(tmp_path / "data") as store:
        yield store


@pytest.fixture
def inserted(monkeypatch) -> list[int]:
    """The numbers of rows that are inserted at a time."""
    counts, insert = [], writing.insert

    def noted(cursor, table, rows):
        counts.append(rows.num_rows)
        insert(cursor, table, rows)

    monkeypatch.setattr(writing, "insert", noted)
    return counts


def group(number, **metrics):
    lines = np.arange(number * ROW_GROUP, (number + 1) * ROW_GROUP)
    same = {name: pa.array(np.full(ROW_GROUP, value)) for name, value in metrics.items()}
    kind, segment = pa.array(["train"] * ROW_GROUP), np.zeros(ROW_GROUP, np.int32)
    return Batch(pa.table({"line": lines, "kind": kind, "segment": segment, "step": lines, **same}))


def write(store, groups, error=None):
    with store.writer(name="long") as writer:
        for number in range(groups):
            writer.append(group(number, loss=1.0))
        if error:
            raise error
        writer.commit()
    return writer.run_id


def test_rows_keep_their_order_and_a_metric_that_comes_meanwhile_its_place(store):
    with store.writer(name="long") as writer:
        for number in range(4):
            writer.append(group(number, loss=number, **({"late": 7.0} if number > 1 else {})))
        writer.append(Batch(group(4, later=1.0, loss=4.0).rows.slice(0, 10)))
        writer.commit()
    found = store.frame(writer.run_id)
    assert found["step"].to_pylist() == list(range(4 * ROW_GROUP + 10))
    assert [found[name].null_count for name in ("loss", "late", "later")] == [0, 2 * ROW_GROUP + 10, 4 * ROW_GROUP]
    assert store.buckets(writer.run_id, ["loss"], width=5)["count"].sum() == 4 * ROW_GROUP + 10


def test_what_fails_behind_is_raised_and_nothing_stays(store, monkeypatch):
    insert, calls = writing.insert, []

    def full(*where):
        calls.append(where)
        if len(calls) == 2:
            raise StoreError(Text("The disk is full.", {}))
        insert(*where)

    monkeypatch.setattr(writing, "insert", full)
    with pytest.raises(StoreError, match="disk is full"):
        write(store, 4)
    assert store.runs() == []
    assert store.run(write(store, 1)).rows == ROW_GROUP


def test_an_error_in_the_block_waits_for_what_is_behind(store, monkeypatch):
    done, insert = [], writing.insert

    def noted(*where):
        insert(*where)
        done.append(where)

    monkeypatch.setattr(writing, "insert", noted)
    with pytest.raises(ValueError, match="stop"):
        write(store, 2, ValueError("stop"))
    assert len(done) == 1, "before the transaction is taken back"
    assert store.runs() == []


def test_row_groups_that_are_inserted_together_are_whole_and_in_order(store, inserted):
    """DuckDB's threads make one each; of others than whole ones the next checkpoint would read all again to join them."""
    with store.writer(name="long") as writer:
        for number in range(3):
            writer.append(group(number, loss=number))
        writer.append(Batch(group(3, loss=3).rows.slice(0, 10)))
        writer.commit()
    assert inserted == [2 * ROW_GROUP, ROW_GROUP, 10]
    assert store.frame(writer.run_id)["step"].to_pylist() == list(range(3 * ROW_GROUP + 10))


def test_rows_of_many_columns_are_inserted_before_they_fill_two_row_groups(store, inserted, monkeypatch):
    monkeypatch.setattr(writing, "INSERT_BYTES", group(0, loss=1.0).rows.nbytes)
    with store.writer(name="wide") as writer:
        writer.append(Batch(group(0, loss=1.0).rows.slice(0, ROW_GROUP // 2)))
        writer.append(group(1, loss=1.0))
        writer.commit()
    assert inserted == [ROW_GROUP, ROW_GROUP // 2]
