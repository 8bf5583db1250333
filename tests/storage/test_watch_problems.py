"""What can be wrong with a watched folder: each has a sentence, and everything else is read as usual."""

import os
import socket
import time
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from storage.intake import folders, follow
from storage.intake.files import LogFile
from storage.intake.scan import scan
from storage.intake.watch import Watcher
from storage.keeping.sources import Watched
from tests.storage.desk import Desk, line, lines, up_to


@pytest.fixture
def desk(tmp_path, monkeypatch):
    """Logs come to rest only when a test says so."""
    monkeypatch.setattr(follow, "QUIET_SECONDS", 1e9)
    monkeypatch.setattr(follow, "QUIET_NEW_SECONDS", 1e9)
    desk = Desk(tmp_path)
    yield desk
    desk.store.close()


def test_a_folder_that_vanishes_is_said_and_found_again(desk):
    desk.write(lines(1, 10))
    desk.poll(2)
    away = desk.folder.with_name("away")
    desk.folder.rename(away)
    desk.poll(2)
    assert str(desk.folder) in desk.problems()["missing"]
    assert desk.run().rows == 10
    away.rename(desk.folder)
    desk.write(line(11))
    desk.poll(2)
    assert desk.problems() == {}
    assert desk.steps() == up_to(11)


def test_a_folder_that_was_never_there(desk):
    desk.watcher = Watcher(desk.store, [Watched(str(desk.folder / "nowhere")), desk.watched])
    desk.write(lines(1, 10))
    desk.poll(2)
    assert "nowhere" in desk.problems()["missing"]
    assert desk.run().rows == 10


def refuse(monkeypatch, target, name, path):
    original = getattr(target, name)

    def refused(asked, *args, **options):
        if str(asked) == str(path):
            raise PermissionError(13, "Permission denied", str(path))
        return original(asked, *args, **options)

    monkeypatch.setattr(target, name, refused)


@pytest.mark.parametrize("known", [False, True])
def test_an_unreadable_file_is_said_and_read_once_it_may_be(desk, monkeypatch, known):
    secret = desk.write(lines(1, 10), "secret.log")
    desk.write(lines(1, 10))
    if known:
        desk.poll(2)
        desk.write(line(11), "secret.log")
    with monkeypatch.context() as patch:
        refuse(patch, os, "open", secret)
        desk.poll(2)
        assert "secret.log may not be read" in desk.problems()["unreadable"]
        assert {run.name: run.rows for run in desk.store.runs()}["train.log"] == 10
    desk.write(line(12 if known else 11), "secret.log")
    desk.poll(2)
    assert {run.name: run.rows for run in desk.store.runs()}["secret.log"] == 11 + known
    assert desk.problems() == {}


def test_an_unreadable_folder_is_said(desk, monkeypatch):
    desk.write(lines(1, 10), "closed/a.log")
    desk.write(lines(1, 10))
    refuse(monkeypatch, os, "scandir", desk.folder / "closed")
    desk.poll(2)
    assert "closed may not be read" in desk.problems()["unreadable"]
    assert desk.run().name == "train.log"


def test_a_loop_of_links_is_entered_once_and_said(desk):
    desk.write(lines(1, 10), "a/train.log")
    (desk.folder / "a" / "back").symlink_to(desk.folder)
    desk.poll(2)
    assert "leads back" in desk.problems()["loop"]
    assert len(desk.store.runs()) == 1


def test_links_to_one_file_or_folder_are_read_once_under_the_real_name(desk):
    desk.write(lines(1, 10), "z/train.log")
    (desk.folder / "latest.log").symlink_to(desk.folder / "z" / "train.log")
    (desk.folder / "a-link").symlink_to(desk.folder / "z")
    desk.poll(2)
    assert desk.run().name == "z/train.log"
    assert "read once" in desk.problems()["same_file"]


def test_a_link_to_a_folder_elsewhere_is_followed(desk, tmp_path):
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "far.log").write_text(lines(1, 10))
    (desk.folder / "link").symlink_to(elsewhere)
    desk.poll(2)
    assert desk.run().name == "link/far.log"


def test_a_link_that_leads_nowhere_is_said(desk):
    (desk.folder / "latest.log").symlink_to(desk.folder / "gone.log")
    desk.poll(2)
    assert "nowhere" in desk.problems()["broken_link"]


def test_a_pipe_and_a_socket_are_never_opened_and_said(desk):
    os.mkfifo(desk.folder / "pipe.log")
    server = socket.socket(socket.AF_UNIX)
    server.bind(str(desk.folder / "socket.log"))
    desk.write(lines(1, 10))
    desk.poll(2)
    server.close()
    assert "is a pipe" in desk.problems()["no_file"]
    assert desk.run().rows == 10


def test_a_pipe_that_takes_the_place_of_a_file_does_not_stop_the_watch(desk):
    desk.write(lines(1, 10))
    desk.poll(2)
    desk.log.unlink()
    os.mkfifo(desk.log)
    with pytest.raises(OSError, match="not a regular file"):
        LogFile(str(desk.log))
    desk.poll(2)
    assert desk.steps() == up_to(10)


def test_more_files_than_are_watched_are_said_and_those_changed_last_are_read(desk, monkeypatch):
    monkeypatch.setattr(folders, "MAX_FILES", 5)
    for number in range(9):
        path = desk.write(lines(1, 10 + number), f"{number}.log")
        os.utime(path, (1000 + number, 1000 + number))
    desk.poll(2)
    assert desk.problems()["too_many"].startswith("4 files")
    assert {run.name for run in desk.store.runs()} == {f"{number}.log" for number in (4, 5, 6, 7, 8)}
    (desk.folder / "8.log").unlink()
    desk.poll(3)
    assert {run.name for run in desk.store.runs()} == {f"{number}.log" for number in (3, 4, 5, 6, 7, 8)}


def test_a_folder_of_100000_tiny_files(monkeypatch):
    """None of them a log: looked at once, nothing stored, counted, and a line elsewhere still comes."""
    monkeypatch.setattr(folders, "MAX_FILES", 1000)
    # In memory where there is such a place: making the files is most of the test.
    with TemporaryDirectory(dir=next(filter(os.path.isdir, ["/dev/shm"]), None)) as place:
        desk = Desk(Path(place))
        tiny = desk.folder / "tiny"
        tiny.mkdir()
        for number in range(100_000):
            os.close(os.open(tiny / f"{number}.txt", os.O_CREAT | os.O_WRONLY))
        desk.write(lines(1, 10))
        desk.poll()
        assert desk.run().rows == 10
        assert "more match here" in desk.problems()["too_many"]
        (status,) = desk.watcher.status
        assert status.logs == folders.MAX_FILES
        desk.store.close()


def test_two_files_that_claim_one_lane(tmp_path):
    desk = Desk(tmp_path, rule=r"(?P<run>[^/]+)/")
    desk.write(lines(1, 10), "exp/a.log")
    desk.write(lines(1, 10), "exp/b.log")
    desk.poll(2)
    assert "same lane of the run exp" in desk.problems()["claimed"]
    assert desk.run().rows == 10
    (desk.folder / "exp" / "a.log").unlink()
    desk.poll(3)
    assert "claimed" not in desk.problems()
    desk.store.close()


def test_a_file_in_two_watched_folders_is_read_once(desk):
    desk.watcher = Watcher(desk.store, [desk.watched, Watched(str(desk.folder / "sub"))])
    desk.write(lines(1, 10), "sub/train.log")
    desk.poll(2)
    desk.write(lines(11, 12), "sub/train.log")
    desk.poll(2)
    assert desk.run().rows == 12


def test_a_clock_that_jumps_loses_nothing_and_is_said(desk, monkeypatch):
    desk.write(lines(1, 10))
    desk.poll(2)
    desk.write(line(11))
    os.utime(desk.log, (time.time() + 7200, time.time() + 7200))
    desk.poll(2)
    assert "in the future" in desk.problems()["clock"]
    desk.write(line(12))
    os.utime(desk.log, (1000, 1000))
    desk.poll(2)
    monkeypatch.setattr(time, "time_ns", lambda: 0)
    desk.write(line(13))
    desk.poll(2)
    assert desk.steps() == up_to(13)


def test_a_binary_file_is_said_to_be_no_log(desk):
    (desk.folder / "core.out").write_bytes(bytes(range(256)) * 400)
    desk.write(lines(1, 10))
    desk.poll(2)
    assert desk.problems()["no_log"]
    assert desk.run().name == "train.log"


def test_what_can_not_be_stored_is_said_and_read_again_later(desk, monkeypatch):
    desk.write(lines(1, 10))
    desk.poll(2)
    desk.write(lines(11, 12))
    with monkeypatch.context() as patch:

        def full(*_: object) -> None:
            raise OSError(28, "No space left on device")

        patch.setattr("storage.keeping.changes.Changes.save_runs", full)
        desk.watcher.poll()
        assert "No space left" in next(iter(desk.problems().values()))
        assert desk.steps() == up_to(10)
    desk.poll(2)
    desk.write(line(13))
    desk.poll(2)
    assert desk.steps() == up_to(13)
    assert b"".join(desk.store.original(desk.run().id)) == desk.log.read_bytes()


def test_the_data_folder_inside_a_watched_folder_is_left_out(tmp_path):
    desk = Desk(tmp_path)
    desk.watcher = Watcher(desk.store, [Watched(str(tmp_path), include=("*",))])
    desk.write(lines(1, 10))
    desk.poll(3)
    assert [run.name for run in desk.store.runs()] == ["logs/train.log"]
    desk.store.close()


def test_looking_into_a_folder_opens_no_file(desk, monkeypatch):
    desk.write(lines(1, 10))
    monkeypatch.setattr(os, "open", None)
    assert list(scan(str(desk.folder), lambda path: False).files) == [str(desk.log)]
