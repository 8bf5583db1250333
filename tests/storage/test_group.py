"""Runs that are written together: all of it or nothing, each line once, and nobody waits for ever."""

import threading

import pytest

from storage.store import Store, UnknownRun
from storage.types import Event
from tests.storage.test_store import batch


@pytest.fixture
def store(tmp_path):
    with Store(tmp_path) as opened:
        yield opened


def add(group, run, first, last, **commit):
    with group.writer(run) as writer:
        writer.append(batch(range(first, last + 1), loss=[9 - step / 100 for step in range(first, last + 1)]))
        writer.keep(b"line\n" * (last - first + 1))
        writer.commit(offset=5 * last, **commit)


def steps(store, run):
    return store.frame(run, ["step"])["step"].to_pylist()


def test_runs_of_a_group_are_seen_at_its_end_and_each_has_a_version_of_its_own(store):
    runs = [store.create_run(f"run {number}") for number in range(5)]
    with store.together() as group:
        for run in runs:
            add(group, run, 1, 120)
        assert [store.run(run).rows for run in runs] == [0] * 5
    assert [store.run(run).rows for run in runs] == [120] * 5
    assert [store.run(run).offset for run in runs] == [600] * 5
    assert len({store.version(run) for run in runs}) == 5
    assert all(b"".join(store.original(run)) == b"line\n" * 120 for run in runs)
    assert store.latest()["step"].tolist() == [120] * 5
    assert [store.buckets(run, ["loss"], width=1)["count"].item() for run in runs] == [120] * 5
    assert not store.verify()


def test_groups_go_on_where_groups_ended(store):
    runs = [store.create_run(f"run {number}") for number in range(3)]
    for first in range(1, 2001, 250):
        with store.together() as group:
            for run in runs:
                add(group, run, first, first + 249)
    assert all(steps(store, run) == list(range(1, 2001)) for run in runs)
    assert store.buckets(runs[0], ["loss"], width=2)["count"].sum() == 2000
    assert not store.verify()


def test_an_error_takes_back_all_of_a_group_and_it_can_be_done_again(store):
    one, other = store.create_run("one"), store.create_run("other")

    def fails() -> None:
        with store.together() as group:
            add(group, one, 1, 60)
            with group.writer(other) as writer:
                writer.append(batch([1], fresh=[1.0]))
                raise OSError("gone")

    with pytest.raises(OSError, match="gone"):
        fails()
    assert (store.run(one).rows, store.run(other).rows, store.columns(other)) == (0, 0, ())
    assert list(store.original(one)) == []
    with store.together() as group:
        add(group, one, 1, 60)
        add(group, other, 1, 2)
    assert (steps(store, one), steps(store, other)) == (list(range(1, 61)), [1, 2])


def test_a_writer_of_a_group_that_does_not_commit_is_an_error(store):
    run = store.create_run("one")
    with pytest.raises(RuntimeError), store.together() as group, group.writer(run) as writer:
        writer.append(batch([1], loss=[1.0]))
    assert store.run(run).rows == 0


def test_a_run_may_come_twice(store):
    one, other = store.create_run("one"), store.create_run("other")
    with store.together() as group:
        add(group, one, 1, 10)
        add(group, other, 1, 10)
        add(group, one, 11, 20)
    assert (steps(store, one), steps(store, other)) == (list(range(1, 21)), list(range(1, 11)))


def test_a_group_waits_for_a_run_that_is_written_elsewhere_and_holds_none_meanwhile(store):
    one, other = store.create_run("one"), store.create_run("other")
    writing, go_on = threading.Event(), threading.Event()

    def elsewhere() -> None:
        with store.writer(other) as writer:
            writing.set()
            go_on.wait(120)
            writer.append(batch([1, 2], loss=[2.0, 1.0]))
            writer.commit()

    thread = threading.Thread(target=elsewhere)
    thread.start()
    writing.wait(120)
    timer = threading.Timer(0.2, go_on.set)
    timer.start()
    with store.together() as group:
        add(group, one, 1, 10)
        add(group, other, 3, 4)
    thread.join()
    assert (steps(store, one), steps(store, other)) == (list(range(1, 11)), [1, 2, 3, 4])


def test_a_run_that_is_gone_takes_nothing_with_it_that_is_durable(store):
    one, gone = store.create_run("one"), store.create_run("gone")
    store.delete_run(gone)

    def fails() -> None:
        with store.together() as group:
            add(group, one, 1, 10)
            add(group, gone, 1, 10)

    with pytest.raises(UnknownRun):
        fails()
    assert store.run(one).rows == 0


def test_events_and_new_runs_can_be_in_a_group(store):
    with store.together() as group:
        for number in range(3):
            with group.writer(name=f"new {number}") as writer:
                writer.append(batch([1], events=(Event(7, "launch", "x"),), loss=[float(number)]))
                writer.commit()
    assert sorted(store.latest()["value"]) == [0.0, 1.0, 2.0]
    assert [store.events(run.id)[0].line for run in store.runs()] == [7, 7, 7]


def test_tables_have_the_columns_in_the_order_in_which_rows_are_given(store):
    from storage.keeping import originals, state, tiers, writer

    given = {
        "cells_10": tiers.CELL_SCHEMA.names,
        "cells_50": tiers.CELL_SCHEMA.names,
        "cells_1000": tiers.CELL_SCHEMA.names,
        "frames": originals.FRAME_COLUMNS,
        "metrics": state.metrics_rows(1, []).column_names,
        "events": writer.events_rows(1, []).column_names,
    }
    with store._warehouse.reading() as cursor:
        for table, names in given.items():
            assert [column[0] for column in cursor.execute(f"select * from {table} limit 0").description] == names, table
