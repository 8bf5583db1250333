"""Files that grow are looked at between two polls, without a look at all the others."""

import os

import pytest

from storage.intake import follow, watch
from tests.storage.desk import Desk, line, lines, up_to


@pytest.fixture
def desk(tmp_path, monkeypatch):
    """A log that grows under watch, beside one at rest; logs come to rest only when a test says so."""
    monkeypatch.setattr(follow, "QUIET_SECONDS", 1e9)
    monkeypatch.setattr(follow, "QUIET_NEW_SECONDS", 1e9)
    desk = Desk(tmp_path)
    desk.write(lines(1, 5))
    desk.write(lines(1, 5), "rest/still.log")
    desk.poll()
    desk.write(lines(6, 10))
    desk.poll()
    yield desk
    desk.store.close()


def steps(desk):
    run = next(run for run in desk.store.runs() if run.name == "train.log")
    return desk.store.frame(run.id, ["step"], kind=None)["step"].to_pylist()


def test_a_line_of_a_log_that_grows_is_read_without_a_look_into_the_folder(desk, monkeypatch):
    desk.write(line(11))
    stats, original = [], os.stat
    with monkeypatch.context() as patch:
        patch.setattr(watch, "scan", None)
        patch.setattr(os, "stat", lambda path, *args, **options: stats.append(path) or original(path, *args, **options))
        desk.watcher.glance()
    assert stats == [str(desk.log)]
    assert steps(desk) == up_to(11)


def test_of_some_runs_only_theirs_is_read(desk):
    run = next(run.id for run in desk.store.runs() if run.name == "train.log")
    desk.write(line(11))
    desk.watcher.glance(["another"])
    assert steps(desk) == up_to(10)
    desk.watcher.glance([run])
    assert steps(desk) == up_to(11)


def test_what_is_looked_at_is_read_while_a_look_at_all_rests(desk, monkeypatch):
    """As in a log among many: their glance took so long that the next one is far away."""
    run = next(run.id for run in desk.store.runs() if run.name == "train.log")
    asked, rests = [], iter([1e9, 0.0, 0.0])
    monkeypatch.setattr(watch, "GLANCE_SECONDS", 0.0)
    monkeypatch.setattr(watch, "_rest", lambda used: next(rests))
    monkeypatch.setattr(desk.watcher, "_looked_at", lambda: [run])

    monkeypatch.setattr(desk.watcher, "glance", lambda runs=None: asked.append(runs) or len(asked) == 3)
    desk.watcher._glance_until(float("inf"))
    assert asked == [None, [run], [run]]


def test_a_poll_after_a_glance_reads_nothing_twice(desk):
    desk.write(line(11))
    desk.watcher.glance()
    version = desk.store.version()
    desk.watcher.glance()
    desk.poll(2)
    assert desk.store.version() == version
    desk.write(line(12))
    desk.poll()
    assert steps(desk) == up_to(12)


def test_a_file_that_turned_is_left_to_a_poll(desk):
    desk.write(line(11))
    desk.log.rename(desk.folder / "train.log.1")
    desk.write(lines(12, 40))
    desk.watcher.glance()
    assert steps(desk) == up_to(10)
    desk.poll()
    desk.watcher.glance()
    assert steps(desk) == up_to(11), "the new file waits as long as the old one may grow"
    desk.poll(2)
    assert steps(desk) == up_to(40)


def test_a_file_that_shrank_or_is_gone_is_left_to_a_poll(desk):
    content = desk.log.read_bytes()
    os.truncate(desk.log, 100)
    desk.watcher.glance()
    desk.log.unlink()
    desk.watcher.glance()
    desk.log.write_bytes(content + line(11).encode())
    desk.poll(3)
    assert steps(desk) == up_to(11)


def test_a_folder_that_is_watched_no_more_is_looked_at_no_more(desk):
    desk.watcher._fixed = {}
    desk.poll()
    desk.write(line(11))
    desk.watcher.glance()
    assert steps(desk) == up_to(10)


def test_a_file_that_has_not_grown_for_long_is_looked_at_by_polls_alone(desk, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr(watch, "GROWS_SECONDS", -1.0)
        desk.watcher.glance()
    desk.write(line(11))
    desk.watcher.glance()
    assert steps(desk) == up_to(10)
    desk.poll()
    assert steps(desk) == up_to(11)
