"""Verify finds a flipped byte; backup and back; compacting; what a crash cost is said; old stores are migrated."""

import os
from datetime import UTC, datetime, timedelta

import duckdb
import numpy as np
import pyarrow as pa
import pytest

from storage.intake.ingest import ingest_file
from storage.keeping import care, schema
from storage.keeping.archive import compress
from storage.keeping.retention import Policy
from storage.store import Store, StoreError, StoreLocked
from storage.types import ROW_SCHEMA, Batch

LATER = datetime.now(UTC) + timedelta(days=40)


def log_of(first, last):
    return "".join(f"step: {n} loss: {3 - n / 10_000:.4f} lr: 0.0001\n" for n in range(first, last + 1))


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A store with a run in files and one in the warehouse, closed."""
    monkeypatch.setattr("storage.keeping.archive.FRAME_BYTES", 5000)
    monkeypatch.setattr("storage.keeping.originals.FRAME_BYTES", 5000)
    with Store(tmp_path / "data") as store:
        for name, rows in (("a", 2600), ("b", 700)):
            (tmp_path / name).write_text(log_of(1, rows))
            ingest_file(store, tmp_path / name)
        store.cool(1, at=LATER)
    return tmp_path / "data"


def rows_of(loss):
    places = {"line": np.arange(len(loss)) + 1, "kind": ["train"] * len(loss), "step": np.arange(len(loss))}
    arrays = [pa.array(places[f.name], f.type) if f.name in places else pa.nulls(len(loss), f.type) for f in ROW_SCHEMA]
    return pa.table([*arrays, pa.array(loss)], names=[*ROW_SCHEMA.names, "loss"])


def content(folder):
    with Store(folder) as store:
        return {run.name: (run, store.frame(run.id), b"".join(store.original(run.id))) for run in store.runs()}


def test_a_sound_store_has_no_fault(folder):
    with Store(folder) as store:
        assert store.verify() == []
        assert store.notes() == []


@pytest.mark.parametrize("pattern", ["archive/*.zst", "parquet/run=*/rows-*", "parquet/run=*/cells_50-*"])
def test_a_flipped_byte_is_found(folder, pattern):
    for path in folder.glob(pattern):
        whole = bytearray(path.read_bytes())
        for place in (10, len(whole) // 2, len(whole) - 10):
            damaged = bytearray(whole)
            damaged[place] ^= 1
            path.write_bytes(damaged)
            with Store(folder) as store:
                [fault] = store.verify()
            assert path.name in fault.file
        path.write_bytes(whole)
        with Store(folder) as store:
            assert store.verify() == []
        path.unlink()
        with Store(folder) as store:
            assert store.verify()
        path.write_bytes(whole)


def test_wrong_numbers_are_found(folder):
    with Store(folder) as store:
        names = {run.name: run.id for run in store.runs()}
        with store._warehouse.change() as cursor:
            no = cursor.execute("select no from runs where id = ?", [names["b"]]).fetchall()[0][0]
            cursor.execute(f"delete from rows_{no} where row = 5")
            cursor.execute("delete from frames where run <> ? and first_line = 1", [no])
        faults = {fault.run: fault.message.render() for fault in store.verify()}
    assert "699 rows of this run where 700" in faults[names["b"]]
    assert "gap at line 1, byte 0" in faults[names["a"]]


def test_an_aged_store_has_no_fault(folder):
    with Store(folder) as store:
        for run in store.runs():
            store.save_diagnosis(run.id, "robust", run.version, {"findings": [{"first_line": 300, "last_line": 300}]})
        store.retention(Policy(rows_days=30, around=20), at=LATER)
        assert store.verify() == []


def test_a_backup_is_the_store_and_goes_on_like_it(folder, tmp_path):
    before = content(folder)
    with Store(folder) as store:
        store.backup(tmp_path / "backup")
        with pytest.raises(StoreError, match="already there"):
            store.backup(tmp_path / "backup")
    care.restore(tmp_path / "backup", tmp_path / "again")
    assert content(tmp_path / "again") == before
    (tmp_path / "b").write_text(log_of(1, 900))
    (tmp_path / "c").write_text(log_of(2, 50))
    with Store(tmp_path / "again") as store:
        assert store.verify() == []
        assert ingest_file(store, tmp_path / "b").grown
        assert ingest_file(store, tmp_path / "c").run_id not in {run.id for run, *_ in before.values()}
        assert len({run.version for run in store.runs()}) == len(store.runs()) == 3
    with pytest.raises(StoreError, match="a store in"):
        care.restore(tmp_path / "backup", tmp_path / "again")


def test_a_damaged_or_unfinished_backup_is_refused(folder, tmp_path):
    with Store(folder) as store:
        store.backup(tmp_path / "backup")
    path = next((tmp_path / "backup").glob("archive/*"))
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(StoreError, match=path.name):
        care.restore(tmp_path / "backup", tmp_path / "again")
    (tmp_path / "backup" / "manifest.json").unlink()
    with pytest.raises(StoreError, match="no complete backup"):
        care.restore(tmp_path / "backup", tmp_path / "again")
    assert not (tmp_path / "again" / schema.FILE).exists()


def test_compacting_gives_back_what_was_freed(folder):
    with Store(folder) as store:
        run, behind = store.create_run("big"), store.create_run("behind it in the file: that is not cut off then")
        for each, count in ((run, 600_000), (behind, 130_000)):
            with store.writer(each) as writer:
                writer.append(Batch(rows_of(np.random.default_rng(0).random(count))))
                writer.commit()
        store.delete_run(run)
        store.purge(deleted_days=0)
        with pytest.raises(StoreLocked):
            care.compact(folder)
    before = content(folder)
    large, small = care.compact(folder)
    assert small < large / 2
    assert content(folder) == before
    with Store(folder) as store:
        assert store.verify() == []


def test_after_a_torn_write_ahead_log_the_store_says_so(tmp_path):
    pid = os.fork()
    if pid == 0:
        store = Store(tmp_path / "data")
        for rows in (100, 200, 300):
            (tmp_path / "a").write_text(log_of(1, rows))
            ingest_file(store, tmp_path / "a")
        os._exit(0)
    os.waitpid(pid, 0)
    wal = tmp_path / "data" / (schema.FILE + ".wal")
    os.truncate(wal, wal.stat().st_size - 100)
    with Store(tmp_path / "data") as store:
        assert store.run(store.runs()[0].id).rows == 200
        [note] = store.notes()
        assert (note.kind, store.verify()) == ("torn", [])
        assert "write-ahead log is damaged" in note.message.render()
        assert ingest_file(store, tmp_path / "a").grown
    with Store(tmp_path / "data") as store:
        assert len(store.notes()) == 1


def test_a_kill_alone_costs_nothing_and_needs_no_note(tmp_path):
    pid = os.fork()
    if pid == 0:
        store = Store(tmp_path / "data")
        (tmp_path / "a").write_text(log_of(1, 100))
        ingest_file(store, tmp_path / "a")
        os._exit(0)
    os.waitpid(pid, 0)
    with Store(tmp_path / "data") as store:
        assert store.runs()[0].rows == 100
        assert store.notes() == []


def test_a_store_of_the_first_version_is_brought_up_to_date(tmp_path):
    with duckdb.connect(str(tmp_path / schema.FILE), config={"default_block_size": "65536"}) as old:
        schema.migrate(old, schema.MIGRATIONS[:1])
        values = "'0123abcd', nextval('run_numbers'), 'old', null, 'f', null, null, now()::timestamp, now()::timestamp, null"
        old.execute(f"insert into runs values ({values}, nextval('versions'), 120, 1, 0, 119, null, null, 9, 9, 0, null, null)")
        places = "row bigint, line bigint, kind varchar, segment integer, step bigint, step_printed bigint, epoch double"
        old.execute(f"create table rows_1 ({places}, timestamp bigint, rank integer, m0 double)")
        old.execute("insert into rows_1 select i, i + 1, 'train', 0, i, i, null, null, null, i / 10 from range(120) t(i)")
        old.execute("insert into metrics values (1, 0, 'loss', 'loss', '', null, 119, 11.9, 120, 0, ?, 2)", [bytes(240)])
        old.execute("insert into frames values (1, 1, 1, 0, 9, null, 5, ?)", [compress(b"step: 1!\n")])
    with Store(tmp_path) as store:
        [run] = store.runs()
        np.testing.assert_allclose(store.frame(run.id)["loss"].to_numpy(), np.arange(120) / 10)
        assert store.lines(run.id, 1, 1) == ["step: 1!"]
        assert store.sparklines()[run.id].shape == (3, 60)
        assert store.verify() == []
        store.save_diagnosis(run.id, "robust", run.version, {"findings": []})
        assert {step.what for step in store.retention(Policy(around=0), dry_run=True, at=LATER).steps} <= {"lines"}
