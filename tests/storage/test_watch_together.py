"""Logs that share a transaction: as many as may, each line once, and what goes wrong with one takes none with it."""

import pytest

from storage.intake import follow, turns
from storage.intake.watch import Watcher
from storage.keeping.group import Group
from storage.keeping.schema import first_row
from storage.keeping.writer import RunWriter
from storage.store import Store
from tests.storage.desk import Desk, line, lines, up_to


@pytest.fixture
def desk(tmp_path, monkeypatch):
    """Logs come to rest only when a test says so."""
    monkeypatch.setattr(follow, "QUIET_SECONDS", 1e9)
    monkeypatch.setattr(follow, "QUIET_NEW_SECONDS", 1e9)
    desk = Desk(tmp_path)
    yield desk
    desk.store.close()


@pytest.fixture
def commits(monkeypatch):
    """The number of runs in each transaction."""
    found = []
    original = Group.commit

    def counted(group):
        if group._writers:
            found.append(len(group._writers))
        original(group)

    monkeypatch.setattr(Group, "commit", counted)
    return found


def rows(desk):
    return {run.name: desk.store.frame(run.id, ["step"], kind=None)["step"].to_pylist() for run in desk.store.runs()}


def kept_whole(desk):
    return all(b"".join(desk.store.original(run.id)) == (desk.folder / run.name).read_bytes() for run in desk.store.runs())


def test_new_logs_that_have_little_share_transactions(desk, commits, monkeypatch):
    monkeypatch.setattr(turns, "GROUP_LOGS", 3)
    for number in range(7):
        desk.write(lines(1, 10 + number), f"{number}.log")
    desk.poll()
    assert commits == [3, 3, 1]
    for number in range(7):
        desk.write(line(11 + number), f"{number}.log")
    desk.poll()
    assert commits == [3, 3, 1, 3, 3, 1]
    assert rows(desk) == {f"{number}.log": up_to(11 + number) for number in range(7)}
    assert kept_whole(desk)
    desk.restart()
    desk.write(line(12), "0.log")
    desk.poll()
    assert rows(desk)["0.log"] == up_to(12)


def test_a_transaction_that_is_shared_takes_so_many_bytes(desk, commits, monkeypatch):
    monkeypatch.setattr(turns, "GROUP_BYTES", 2 * len(lines(1, 10)))
    for number in range(5):
        desk.write(lines(1, 10), f"{number}.log")
    desk.poll()
    assert commits == [2, 2, 1]


def test_new_lanes_share_none(desk, commits):
    for rank in range(3):
        desk.write(lines(1, 10), f"rank_{rank}.log")
    desk.poll()
    assert commits == [1, 1, 1]
    assert len(desk.store.lanes(desk.run().id)) == 3


def test_what_is_no_log_takes_no_other_with_it(desk, commits):
    desk.write(lines(1, 10), "a.log")
    (desk.folder / "b.log").write_bytes(bytes(range(256)) * 20)
    desk.write(lines(1, 10), "c.log")
    desk.poll()
    assert commits == [2]
    assert rows(desk) == {"a.log": up_to(10), "c.log": up_to(10)}
    assert "binary" in desk.problems()["no_log"]


def test_a_log_at_rest_whose_end_gives_nothing_opens_no_transaction(desk, monkeypatch):
    for name in ("a.log", "b.log"):
        desk.write(lines(1, 10), name)
    desk.poll()
    version = desk.store.version()
    monkeypatch.setattr(Store, "writer", None)
    desk.watcher.poll(at_rest=True)
    assert (desk.store.version(), desk.problems()) == (version, {})


def fail_once(monkeypatch, target, name, wrong):
    """Let a method fail the first time that it is called with what is `wrong`."""
    original, failed = getattr(target, name), []

    def fails(self, *args, **options):
        if not failed and wrong(self):
            failed.append(self)
            raise OSError(28, "No space left on device")
        return original(self, *args, **options)

    monkeypatch.setattr(target, name, fails)


@pytest.mark.parametrize("name", ["a.log", "b.log", "c.log"])
def test_new_logs_whose_transaction_failed_are_read_one_by_one(desk, commits, monkeypatch, name):
    heard = []
    desk.watcher = Watcher(desk.store, [desk.watched], on_rows=heard.extend)
    for each in ("a.log", "b.log", "c.log"):
        desk.write(lines(1, 10), each)
    fail_once(monkeypatch, RunWriter, "commit", lambda writer: name_of(writer) == name)
    desk.watcher.poll()
    assert sum(commits) == 3
    assert rows(desk) == dict.fromkeys(("a.log", "b.log", "c.log"), up_to(10))
    assert sorted(heard) == sorted(run.id for run in desk.store.runs())
    for each in ("a.log", "b.log", "c.log", "d.log"):
        desk.write(line(11), each)
    desk.poll()
    assert rows(desk) == {"a.log": up_to(11), "b.log": up_to(11), "c.log": up_to(11), "d.log": [11]}
    assert {source.run for source in desk.store.sources()} == {run.id for run in desk.store.runs()}


def name_of(writer):
    """Return the name of a run that only its own transaction sees."""
    return first_row(writer._cursor, "select name from runs where id = ?", [writer.run_id])[0]


def test_what_was_durable_before_a_transaction_failed_is_told(desk, monkeypatch):
    """A run that another thread writes makes durable what there is before it."""
    for each in ("a.log", "b.log", "c.log"):
        desk.write(lines(1, 10), each)
    desk.poll()
    ids = {run.name: run.id for run in desk.store.runs()}
    heard = []
    desk.watcher = Watcher(desk.store, [desk.watched], on_rows=heard.extend)
    desk.poll()
    for each in ids:
        desk.write(line(11), each)
    elsewhere = desk.store._warehouse.run_locks[ids["b.log"]]
    elsewhere.acquire()
    original = Group.commit

    def commit_and_go_on(group):
        original(group)
        if elsewhere.locked() and ids["b.log"] not in group._writers:
            elsewhere.release()

    with monkeypatch.context() as patch:
        patch.setattr(turns, "_turn", lambda log: log.base)
        patch.setattr(Group, "commit", commit_and_go_on)
        fail_once(patch, RunWriter, "commit", lambda writer: writer.run_id == ids["c.log"])
        desk.poll()
    assert rows(desk) == dict.fromkeys(ids, up_to(11))
    assert sorted(heard) == sorted(ids.values())
    assert kept_whole(desk)
