"""The store: what is written is read back whole, at once or not at all, by one owner."""

import contextlib
import multiprocessing
import threading
import time

import duckdb
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from storage.keeping import changes, schema
from storage.keeping.changes import ROW_GROUP
from storage.keeping.schema import migrate
from storage.keeping.spark import Spark
from storage.keeping.writer import MAX_METRICS, events_rows
from storage.store import Store, StoreError, StoreLocked, UnknownRun
from storage.types import ROW_SCHEMA, Batch, Event


def batch(steps, *, kind="train", segment=0, events=(), first_line=None, rank=None, **metrics):
    """Rows for the given steps, one a line; a metric is a list with None where the line did not print it."""
    steps = list(steps)
    line = steps[0] + 1 if first_line is None and steps else first_line or 1
    places = {
        "line": range(line, line + len(steps)),
        "kind": [kind] * len(steps),
        "segment": [segment] * len(steps),
        "step": steps,
        "step_printed": steps,
        "epoch": [None] * len(steps),
        "timestamp": [None if step is None else 1_700_000_000_000 + 1000 * step for step in steps],
        "rank": [rank] * len(steps),
    }
    arrays = [pa.array(list(places[field.name]), field.type) for field in ROW_SCHEMA]
    table = pa.table(
        [*arrays, *(pa.array(list(v), pa.float64()) for v in metrics.values())], names=[*ROW_SCHEMA.names, *metrics]
    )
    return Batch(table, tuple(events))


def write(store, run, *batches, **commit):
    with store.writer(run) as writer:
        for each in batches:
            writer.append(each)
        return writer.commit(**commit)


@pytest.fixture
def store(tmp_path):
    with Store(tmp_path) as opened:
        yield opened


def test_rows_come_back_as_written_with_null_nan_and_inf_told_apart(store):
    run = store.create_run("a")
    values = [1.5, None, float("nan"), float("inf"), float("-inf")]
    write(store, run, batch(range(5), loss=values, lr=[1e-3] * 5))
    rows = store.frame(run)
    assert rows.schema.names == [*ROW_SCHEMA.names, "loss", "lr"]
    assert rows["loss"].is_null().to_pylist() == [False, True, False, False, False]
    assert repr(rows["loss"].to_pylist()) == repr(values)
    assert rows["step"].to_pylist() == list(range(5))


def test_a_metric_that_appears_later_is_null_before(store):
    run = store.create_run("a")
    write(store, run, batch(range(2), loss=[1, 2]))
    write(store, run, batch(range(2, 4), loss=[3, 4], grad_norm=[0.1, 0.2]))
    assert store.frame(run, ["step", "grad_norm"])["grad_norm"].to_pylist() == [None, None, 0.1, 0.2]
    assert [column.name for column in store.columns(run)] == ["loss", "grad_norm"]


@pytest.mark.parametrize("name", ['a"; drop table runs; --', "row", "step'", "LOSS", "select", "ünï", "x" * 5000, "a\x00b"])
def test_a_hostile_metric_name_is_only_a_name(store, name):
    run = store.create_run("a")
    write(store, run, batch(range(3), loss=[1, 2, 3], **{name: [4, 5, 6]}))
    assert store.columns(run)[1].name == name
    assert store.frame(run, [name])[name].to_pylist() == [4, 5, 6]
    assert store.buckets(run, [name])["mean"].tolist() == [4, 5, 6]


def test_a_run_that_began_without_a_row_takes_rows_later(store):
    with store.writer(name="begins with an event") as writer:
        writer.append(batch([], events=(Event(1, "launch", "x"),)))
        writer.commit()
    run = writer.run_id
    assert store.frame(run).num_rows == 0
    write(store, run, batch([1], loss=[1.0]), batch([2], lr=[1e-3]))
    assert store.frame(run).select(["step", "loss", "lr"]).to_pydict() == {
        "step": [1, 2],
        "loss": [1.0, None],
        "lr": [None, 1e-3],
    }


def test_the_table_of_a_new_run_is_made_with_its_metrics(store):
    """Each column that is added to a table costs as much as the table."""
    with store.writer(name="new") as writer:
        writer.append(batch([1], loss=[1.0]))
        writer.append(batch([2], lr=[1e-3]))
        assert writer.run.columns == []
        writer.commit()
    assert writer.run.columns[-2:] == ["m0", "m1"]


def groups(cursor, table, column):
    """Return how many rows each row group of a table of the warehouse has."""
    sql = f"""
        select sum(count)::bigint from pragma_storage_info('{table}')
        where column_name = '{column}' and segment_type <> 'VALIDITY' group by row_group_id order by row_group_id
    """
    return [count for (count,) in cursor.execute(sql).fetchall()]


def test_a_long_log_fills_whole_row_groups(store):
    # Halves of groups are joined by the next checkpoint, which took 0.9 GB of memory for 9 million rows.
    piece, pieces = 50_000, 6
    with store.writer(name="long") as writer:
        for first in range(0, pieces * piece, piece):
            writer.append(batch(range(first, first + piece), loss=np.arange(piece, dtype=float)))
        writer.commit()
    with store._warehouse.reading() as cursor:
        assert groups(cursor, "rows_1", "line") == [ROW_GROUP, ROW_GROUP, pieces * piece - 2 * ROW_GROUP]
    assert store.frame(writer.run_id, ["step"])["step"].to_pylist() == list(range(pieces * piece))


def test_a_long_log_leaves_little_in_the_cache(store, monkeypatch):
    monkeypatch.setattr(schema, "CACHE_MIB", 1)
    values = np.random.default_rng(0).normal(size=(3, ROW_GROUP))
    with store.writer(name="long") as writer:
        for number, loss in enumerate(values):
            writer.append(batch(range(number * ROW_GROUP, (number + 1) * ROW_GROUP), loss=loss))
        writer.commit()
    with store._warehouse.reading() as cursor:
        sql = "select memory_usage_bytes from duckdb_memory() where tag = 'BASE_TABLE'"
        assert cursor.execute(sql).fetchall()[0][0] < values.nbytes / 2
        limit = cursor.execute("select value from duckdb_settings() where name = 'memory_limit'").fetchall()[0][0]
    assert limit == f"{schema.MEMORY_MIB / 1024:.1f} GiB"


def test_what_shared_tables_are_given_in_between_fills_whole_row_groups(store, monkeypatch):
    inserted, count = [], ROW_GROUP + 1000
    monkeypatch.setattr(changes, "insert", lambda cursor, table, rows: inserted.append(rows["line"].to_pylist()))
    with store._warehouse.change() as cursor:
        given = changes.Changes(cursor)
        for first in (0, count):
            given.add("events", events_rows(1, [Event(line, "note", "") for line in range(first, first + count)]))
            given.save_groups()
        given.save_rows()
    assert [len(lines) for lines in inserted] == [ROW_GROUP, ROW_GROUP, 2000]
    assert sum(inserted, []) == list(range(2 * count))


def test_an_id_is_given_once(store, monkeypatch):
    ids = iter(["0000000a", "0000000a", "0000000b"])
    monkeypatch.setattr("secrets.token_hex", lambda _: next(ids))
    assert [store.create_run("one"), store.create_run("other")] == ["0000000a", "0000000b"]


def test_rows_that_the_reader_held_back_are_in_their_place(store):
    run = store.create_run("a")
    write(store, run, batch([10, 11], first_line=5, loss=[1, 2]), batch([1, 2], first_line=1, loss=[3, 4]))
    assert store.frame(run, ["step", "line"]).to_pydict() == {"step": [1, 2, 10, 11], "line": [1, 2, 5, 6]}


def test_nothing_is_seen_before_the_commit_and_nothing_stays_without_it(store):
    run = store.create_run("a")
    before = store.version()
    with store.writer(run) as writer:
        writer.append(batch(range(10), loss=range(10), events=[Event(1, "traceback", "x")]))
        writer.keep(b"x\n" * 10)
        assert store.frame(run).num_rows == 0
    assert store.frame(run).num_rows == 0
    assert store.run(run).rows == 0
    assert store.events(run) == ()
    assert store.lines(run, 1, 10) == []
    assert store.version() == before


def test_an_error_in_the_block_takes_back_even_the_run(store):
    def fail():
        with store.writer(name="new") as writer:
            writer.append(batch(range(10), loss=range(10)))
            writer.keep(b"x\n" * 1_000_000)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert store.runs() == []
    assert list((store.data_dir).glob("archive/*")) == []


def test_the_version_grows_with_every_change(store):
    run = store.create_run("a")
    versions = [store.version(run)]
    write(store, run, batch(range(2), loss=[1, 2]))
    versions.append(store.version(run))
    store.rename_run(run, "b")
    versions.append(store.version(run))
    assert versions == sorted(set(versions))
    assert store.version() == versions[-1]
    store.save_diagnosis(run, "robust", versions[-1], {"verdict": "healthy"})
    assert store.version(run) == versions[-1]
    assert store.diagnosis(run) == (versions[-1], {"verdict": "healthy"})
    assert store.diagnosis(run, "articles") is None


def test_a_deleted_run_is_gone_until_it_is_restored_or_purged(store):
    run, other = store.create_run("a", fingerprint="f"), store.create_run("b")
    write(store, run, batch(range(100), loss=range(100)))
    store.delete_run(run)
    assert [r.id for r in store.runs()] == [other]
    assert store.find_by_fingerprint("f") is None
    assert store.latest().empty
    for ask in (store.run, store.frame, store.report, store.version, store.events, store.delete_run):
        with pytest.raises(UnknownRun, match=run):
            ask(run)
    store.restore_run(run)
    assert store.frame(run).num_rows == 100
    store.delete_run(run)
    assert store.purge(deleted_days=1) == []
    assert store.purge(deleted_days=0) == [run]
    with pytest.raises(UnknownRun):
        store.restore_run(run)


def test_runs_say_what_they_hold(store):
    run = store.create_run("a", source="/x/a.log")
    write(store, run, batch([100, 200], loss=[2.0, 1.0], total_steps=[1000, 1000]), offset=77)
    write(store, run, batch([50], segment=1, loss=[1.5]), batch([60], kind="eval", segment=1, eval_loss=[1.1]))
    found = store.run(run)
    assert (found.name, found.source, found.rows, found.segments) == ("a", "/x/a.log", 4, 2)
    assert (found.first_step, found.last_step, found.total_steps, found.offset) == (100, 50, 1000, 77)
    assert store.runs() == [found]


def test_latest_and_sparklines(store):
    one, two = store.create_run("a"), store.create_run("b")
    write(store, one, batch(range(1000), loss=range(1000)))
    write(store, one, batch(range(1000, 1003), loss=[5, None, None], lr=[None, 1, None]))
    write(store, two, batch(range(3), lr=[1, float("nan"), float("nan")]))
    latest = store.latest()
    assert latest[latest.run == one].set_index("metric")[["step", "value"]].T.to_dict("list") == {
        "loss": [1000, 5],
        "lr": [1001, 1],
    }
    assert np.isnan(store.latest([two])["value"].item())
    sparks = store.sparklines()
    assert list(sparks) == [one]
    mean, low, high = sparks[one]
    assert len(mean) <= 64
    assert mean[0] < mean[-2]
    assert (low.min(), high.max()) == (0, 999)


def test_a_summary_row_is_no_last_value(store):
    run = store.create_run("a")
    write(store, run, batch([1], loss=[2.0]), batch([1], kind="summary", loss=[9.0]))
    assert store.latest()["value"].tolist() == [2.0]
    assert store.buckets(run, ["loss"])["mean"].tolist() == [2.0]


def test_more_metric_names_than_a_run_keeps_are_said_in_an_event(store):
    run = store.create_run("a")
    names = {f"m.{i}": [i] for i in range(MAX_METRICS + 500)}
    write(store, run, batch([1], **names))
    assert len(store.columns(run)) == MAX_METRICS
    [event] = store.events(run)
    assert (event.kind, event.data["names"]) == ("too_many_metrics", 500)
    assert store.frame(run, [f"m.{MAX_METRICS - 1}"]).to_pydict() == {f"m.{MAX_METRICS - 1}": [MAX_METRICS - 1]}


def test_events_come_back_in_the_order_of_the_log(store):
    run = store.create_run("a")
    events = [Event(9, "out_of_memory", "CUDA \ud800", 3, 1, {"gib": 1.5}), Event(2, "traceback", "x")]
    write(store, run, batch([1], loss=[1], events=events))
    assert store.events(run) == (events[1], Event(9, "out_of_memory", "CUDA ?", 3, 1, {"gib": 1.5}))


def test_a_replaced_run_keeps_its_id_and_nothing_else(store):
    run = store.create_run("a")
    with store.writer(run) as writer:
        writer.append(batch(range(200), loss=range(200), lr=range(200), events=[Event(1, "x", "y")]))
        writer.keep(b"old\n" * 300_000)
        writer.commit()
    with store.writer(run, replace=True) as writer:
        writer.append(batch(range(3), grad_norm=range(3)))
        writer.keep(b"new\n")
        writer.commit()
    assert store.frame(run).num_rows == store.run(run).rows == 3
    assert [column.name for column in store.columns(run)] == ["grad_norm"]
    assert store.lines(run, 1, 99) == ["new"]
    assert store.events(run) == ()
    assert list((store.data_dir / "archive").iterdir()) == []


def test_everything_is_there_after_closing_and_opening_again(tmp_path):
    with Store(tmp_path) as store:
        run = store.create_run("a")
        version = write(store, run, batch(range(120), loss=range(120)), reader_state={"tail": "x"})
    with Store(tmp_path, read_only=True) as store:
        assert store.frame(run).num_rows == 120
        assert store.version() == version
        assert store.reader_state(run) == {"tail": "x"}
        for change in (lambda: store.create_run("b"), lambda: store.rename_run(run, "b"), lambda: write(store, run)):
            with pytest.raises(StoreError, match="reading only"):
                change()


def test_a_second_store_in_the_same_process_is_refused(store):
    with pytest.raises(StoreLocked, match="in use by process"):
        Store(store.data_dir)


def _open_elsewhere(folder, read_only, answers):
    try:
        Store(folder, read_only=read_only).close()
        answers.put("opened")
    except StoreLocked as error:
        answers.put(str(error))


@pytest.mark.parametrize("read_only", [False, True])
def test_a_second_process_is_told_who_holds_the_store(tmp_path, read_only):
    context = multiprocessing.get_context("spawn")
    answers = context.Queue()
    with Store(tmp_path):
        process = context.Process(target=_open_elsewhere, args=(tmp_path, read_only, answers))
        process.start()
        answer = answers.get(timeout=300)
        process.join()
    assert f"process {multiprocessing.current_process().pid}" in answer


def test_a_file_that_is_no_store_is_refused_in_a_sentence(tmp_path):
    (tmp_path / "runvitals.duckdb").write_bytes(b"not a database" * 1000)
    with pytest.raises(StoreError, match="can't be opened"):
        Store(tmp_path)


def test_reading_where_there_is_no_store_makes_none(tmp_path):
    with pytest.raises(StoreError, match="no store"):
        Store(tmp_path / "nowhere", read_only=True)
    assert not (tmp_path / "nowhere").exists()


def test_another_duckdb_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(duckdb, "__version__", "1.5.5")
    with pytest.raises(StoreError, match=r"found 1\.5\.5"):
        Store(tmp_path)


def test_migrations_are_applied_once_in_order_and_all_or_none():
    connection = duckdb.connect()
    assert migrate(connection, ["create table a (x integer)"]) == (0, 1)
    scripts = ["never run again", "create table b (x integer)", "insert into b values (7)"]
    assert migrate(connection, scripts) == (1, 3)
    assert migrate(connection, scripts) == (3, 3)
    with pytest.raises(duckdb.Error):
        migrate(connection, [*scripts, "create table c (x integer)", "nonsense"])
    assert migrate(connection, scripts) == (3, 3)
    assert connection.execute("select table_name from duckdb_tables() order by 1").fetchall() == [
        ("a",),
        ("b",),
        ("schema_version",),
    ]
    with pytest.raises(StoreError, match="newer version"):
        migrate(connection, scripts[:2])
    with pytest.raises(StoreError, match="older version"):
        migrate(connection, [*scripts, "select 1"], read_only=True)


def test_readers_beside_a_writer_see_whole_transactions_only(store):
    run = store.create_run("a")
    stop = time.monotonic() + 2.5
    reads, wrong = [], []

    def read():
        last = 0
        while time.monotonic() < stop:
            try:
                rows = store.frame(run, ["step"]).num_rows
                found = store.buckets(run, ["loss"], width=10)
                count = int(found["count"].sum())
                state = store.run(run)
            except Exception as error:
                wrong.append(repr(error))
                return
            if rows % 70 or count % 70 or state.rows % 70 or not last <= rows <= count <= state.rows:
                wrong.append((last, rows, count, state.rows))
            last = rows
            reads.append(rows)

    threads = [threading.Thread(target=read) for _ in range(20)]
    for thread in threads:
        thread.start()
    written = 0
    while not written or time.monotonic() < stop:
        write(store, run, batch(range(written, written + 70), loss=range(70)))
        written += 70
    for thread in threads:
        thread.join()
    assert wrong == []
    assert reads
    assert store.frame(run).num_rows == written > 0


def test_writers_of_different_runs_do_not_hinder_each_other(store):
    runs = [store.create_run(str(number)) for number in range(8)]
    errors = []

    def work(run):
        try:
            for number in range(10):
                write(store, run, batch(range(number * 60, number * 60 + 60), loss=range(60)))
                store.save_diagnosis(run, "robust", number, {})
        except Exception as error:
            errors.append(error)

    threads = [threading.Thread(target=work, args=(run,)) for run in runs]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    assert {run.rows for run in store.runs()} == {600}
    assert len({run.version for run in store.runs()}) == 8


def test_two_writers_of_one_run_take_turns(store):
    run = store.create_run("a")
    threads = [threading.Thread(target=write, args=(store, run, batch(range(60), loss=range(60)))) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert store.frame(run).num_rows == 360
    assert store.buckets(run, ["loss"], width=1)["count"].sum() == 360


@given(st.lists(st.lists(st.one_of(st.floats(0, 1), st.just(float("nan"))), max_size=90), max_size=12))
@settings(deadline=None)
def test_a_sparkline_that_grew_is_near_one_made_at_once(pieces):
    grown, whole = Spark.empty(), Spark.empty()
    for piece in pieces:
        grown.add(np.array(piece, float))
    values = np.concatenate([np.array(piece, float) for piece in pieces] or [np.empty(0)])
    whole.add(values)
    assert (grown.count, grown.stride, grown.points.shape) == (whole.count, whole.stride, whole.points.shape)
    assert len(grown.points.T) <= 64
    assert (np.isnan(grown.points) == np.isnan(whole.points)).all()
    np.testing.assert_array_equal(grown.points[1:], whole.points[1:])
    if np.isfinite(values).all():
        np.testing.assert_allclose(grown.points, whole.points, atol=1e-5)


@given(st.lists(st.floats(width=32), min_size=1, max_size=700), st.integers(1, 100))
@settings(deadline=None)
def test_a_sparkline_keeps_the_extremes_of_each_stretch(values, piece):
    spark = Spark.empty()
    for start in range(0, len(values), piece):
        spark.add(np.array(values[start : start + piece], float))
    for place, (_mean, low, high) in enumerate(spark.points.T):
        stretch = [value for value in values[place * spark.stride : (place + 1) * spark.stride] if np.isfinite(value)]
        if stretch:
            assert (low, high) == (min(stretch), max(stretch))
        else:
            assert np.isnan([low, high]).all()


def test_a_store_can_be_closed_while_others_ask_something_of_it(tmp_path):
    """DuckDB refuses to close a connection of which a cursor is being made."""
    for _ in range(20):
        connection, asked, stop = schema.connect(tmp_path, read_only=False), threading.Event(), threading.Event()

        def ask(connection=connection, asked=asked, stop=stop):
            with contextlib.suppress(duckdb.Error):
                while not stop.is_set():
                    connection.cursor().execute("select count(*) from runs").fetchall()
                    asked.set()

        threads = [threading.Thread(target=ask) for _ in range(2)]
        for thread in threads:
            thread.start()
        asked.wait()
        schema.disconnect(connection, tmp_path)
        stop.set()
        for thread in threads:
            thread.join()
        with pytest.raises(duckdb.ConnectionException):
            connection.execute("select 1")
    with Store(tmp_path) as store:  # its owner gave it up
        assert store.runs() == []
