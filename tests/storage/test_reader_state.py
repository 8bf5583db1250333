"""A reader goes on from a state only if it understands it; else the log is read again, or it is said."""

import json

import pytest

from storage.intake.ingest import ingest_file
from storage.intake.streams import Sending, Streams
from storage.reader import STATE_VERSION, LogReader, can_go_on
from storage.store import Store
from tests.storage.desk import Desk, lines, up_to


@pytest.fixture
def desk(tmp_path):
    found = Desk(tmp_path)
    yield found
    found.store.close()


def make_old(store: Store, **others: object) -> None:
    """Leave every run as an older version did: with a state of another form."""
    with store._warehouse.change() as cursor:
        state = json.dumps({"version": STATE_VERSION - 1, "offset": 7, "text": [], **others})
        cursor.execute("update runs set reader_state = ?", [state])


def test_a_state_of_this_version_alone_can_be_gone_on_from():
    reader = LogReader("a")
    reader.feed(lines(1, 3).encode())
    assert can_go_on(reader.state())
    assert not any(map(can_go_on, (None, {}, {"offset": 0}, {"fresh": True, "offset": 0}, {"version": STATE_VERSION + 1})))


def test_a_watched_log_of_an_older_version_is_read_again(desk):
    desk.write(lines(1, 30))
    desk.poll(2)
    make_old(desk.store)
    desk.restart()
    desk.write(lines(31, 40))
    desk.poll(2)
    assert desk.steps() == up_to(40)
    assert b"".join(desk.store.original(desk.run().id)) == desk.log.read_bytes()
    desk.write(lines(41, 45))
    desk.poll(2)
    assert desk.steps() == up_to(45)


def test_its_end_is_taken_too(desk):
    desk.write(lines(1, 30) + lines(31, 31).rstrip("\n"))
    desk.poll(2)
    make_old(desk.store)
    desk.restart()
    desk.watcher.drain()
    assert desk.steps() == up_to(31)


def test_a_log_that_can_neither_be_gone_on_with_nor_read_again_is_said(desk):
    desk.write(lines(1, 30))
    desk.poll(2)
    make_old(desk.store)
    with desk.store._warehouse.change() as cursor:
        cursor.execute("update frames set data = null, position = null")
    desk.restart()
    desk.write(lines(31, 40))
    desk.poll(2)
    assert "older version" in desk.problems()["no_log"]
    assert desk.steps() == up_to(30)


def test_a_file_of_an_older_version_that_has_grown_is_read_again(desk):
    desk.write(lines(1, 20))
    run = ingest_file(desk.store, desk.log).run_id
    make_old(desk.store)
    desk.write(lines(21, 25))
    again = ingest_file(desk.store, desk.log)
    assert (again.run_id, again.grown, desk.steps()) == (run, True, up_to(25))


@pytest.mark.parametrize("piece", [50_000, 1 << 30])
def test_a_document_that_is_sent_in_pieces_is_read_as_a_whole(desk, piece):
    history = [{"step": step, "loss": 9 - step / 1000, "learning_rate": 1e-4, "epoch": step / 100} for step in up_to(3000)]
    data = json.dumps({"global_step": 3000, "log_history": history, "max_steps": 3000}, indent=2).encode()
    assert len(data) > 200_000
    streams = Streams(desk.store)
    sending = Sending(desk.store, streams.get("state"))
    for start in range(0, len(data), piece):
        sending.add(data[start : start + piece])
    run, _ = streams.end(sending)
    assert run is not None
    assert desk.steps() == up_to(3000)
    assert b"".join(desk.store.original(run)) == data
