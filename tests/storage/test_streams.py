"""Logs that are sent: resumed at the right byte, sent again without harm, one sender at a time."""

import pytest

from storage.intake.streams import Refused, Sending, Streams
from storage.keeping.sources import Source
from storage.store import Store, UnknownRun
from tests.storage.desk import line, lines, up_to


@pytest.fixture
def store(tmp_path):
    with Store(tmp_path) as opened:
        yield opened


def send(store, streams, data, offset=None, name="job", **lane):
    sending = Sending(store, streams.get(name, **lane), offset)
    sending.add(data.encode())
    return sending.source


def steps(store):
    (run,) = store.runs()
    return store.frame(run.id, ["step"])["step"].to_pylist()


def test_pieces_that_break_anywhere_give_each_line_once_also_after_a_restart(store):
    content, at = lines(1, 50), 0
    for size in [10, 400, 1, 2000, 37] * 20:
        source = send(store, Streams(store), content[at : at + size], at)
        at = source.offset
    assert at == len(content)
    assert steps(store) == up_to(50)
    (run,) = store.runs()
    assert (run.name, run.source, run.offset, run.bytes) == ("job", "stream:job", at, at)
    assert b"".join(store.original(run.id)).decode() == content


def test_without_an_offset_it_goes_on_at_the_end(store):
    streams = Streams(store)
    send(store, streams, lines(1, 10))
    send(store, streams, lines(11, 20))
    assert steps(store) == up_to(20)


def test_an_offset_beyond_what_is_here_is_refused_and_says_where_to_go_on(store):
    streams = Streams(store)
    send(store, streams, lines(1, 10))
    with pytest.raises(Refused) as refused:
        send(store, streams, line(12), len(lines(1, 11)))
    assert (refused.value.code, refused.value.offset) == ("wrong_offset", len(lines(1, 10)))
    assert steps(store) == up_to(10)


@pytest.mark.parametrize("start", [0, 7, 1000])
def test_what_is_sent_again_is_not_stored_again(store, start):
    streams = Streams(store)
    content = lines(1, 20)
    send(store, streams, content, 0)
    version = store.version()
    assert send(store, streams, content[start:], start).offset == len(content)
    assert store.version() == version
    send(store, streams, content[start:] + lines(21, 25), start)
    assert steps(store) == up_to(25)


def test_what_is_sent_again_and_differs_is_refused(store):
    streams = Streams(store)
    send(store, streams, lines(1, 20), 0)
    with pytest.raises(Refused) as refused:
        send(store, streams, lines(2, 40), 0)
    assert refused.value.code == "differs"
    assert steps(store) == up_to(20)


def test_a_later_sender_takes_over(store):
    streams = Streams(store)
    stream = streams.get("job")
    first = Sending(store, stream, 0)
    first.add(lines(1, 10).encode())
    second = Sending(store, stream, len(lines(1, 10)))
    second.add(line(11).encode())
    with pytest.raises(Refused, match="taken over"):
        first.add(line(11).encode())
    assert steps(store) == up_to(11)


def test_the_end_is_taken_at_rest_and_it_can_go_on(store):
    streams = Streams(store)
    content = lines(1, 10)
    send(store, streams, content[:-1], 0)
    assert steps(store) == up_to(9)
    assert streams.rest() == []
    (run,) = store.runs()
    assert streams.rest(at_once=True) == [run.id]
    assert steps(store) == up_to(10)
    send(store, Streams(store), "\n" + lines(11, 12), len(content) - 1)
    assert steps(store) == up_to(12)


def test_ranks_and_hosts_are_lanes_of_one_run(store):
    streams = Streams(store)
    for rank in range(3):
        send(store, streams, lines(1, 10 + rank), 0, rank=rank, host=f"node{rank}")
    (run,) = store.runs()
    assert [(lane.rank, lane.host, lane.rows) for lane in store.lanes(run.id)] == [
        (0, "node0", 10),
        (1, "node1", 11),
        (2, "node2", 12),
    ]
    send(store, Streams(store), line(11), len(lines(1, 10)), rank=0, host="node0")
    assert store.lanes(run.id)[0].rows == 11


def test_a_run_is_named_by_its_id_too(store):
    streams = Streams(store)
    send(store, streams, lines(1, 10), 0)
    (run,) = store.runs()
    assert streams.get(run.id) is streams.get("job")


def test_a_run_that_is_read_from_a_file_takes_nothing(store):
    with store.writer(name="train.log") as writer:
        writer.came_from(Source("", 0, None, "/logs/train.log", "/logs/train.log", offset=5))
        writer.commit()
    (run,) = store.runs()
    with pytest.raises(Refused) as refused:
        Streams(store).get(run.id)
    assert (refused.value.code, refused.value.offset) == ("claimed", 5)


def test_packed_bytes_are_refused_with_the_way_out(store):
    with pytest.raises(Refused, match="Content-Encoding"):
        Sending(store, Streams(store).get("job"), 0).add(b"\x1f\x8b\x08" + bytes(30))
    assert store.runs() == []


def test_a_deleted_run_takes_nothing(store):
    streams = Streams(store)
    send(store, streams, lines(1, 10), 0)
    store.delete_run(store.runs()[0].id)
    with pytest.raises(UnknownRun):
        send(store, streams, line(11), len(lines(1, 10)))


def test_text_that_is_no_log_yet_is_kept_as_well(store):
    streams = Streams(store)
    send(store, streams, "loading\n" * 3, 0)
    (run,) = store.runs()
    assert (run.rows, run.offset) == (0, 24)
    send(store, streams, lines(1, 10), 24)
    assert steps(store) == up_to(10)
