"""Watched folders: what is written to a log is in the store once, in order, whatever happens to the file."""

import gzip
import os
import shutil
import threading
from dataclasses import replace

import pytest

from storage.intake import files, follow
from storage.intake.watch import Watcher
from storage.keeping.sources import Watched
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


def test_a_line_that_is_appended_is_in_the_store_after_the_next_poll(desk):
    desk.write(lines(1, 10))
    desk.poll()
    desk.write(line(11))
    desk.poll()
    assert desk.steps() == up_to(11)
    run = desk.run()
    assert (run.name, run.source, run.rows) == ("train.log", str(desk.log), 11)
    assert run.offset == run.bytes == desk.log.stat().st_size


def test_a_line_without_an_end_waits_for_it(desk):
    desk.write(lines(1, 10) + line(11)[:40])
    desk.poll()
    assert desk.steps() == up_to(10)
    desk.write(line(11)[40:])
    desk.poll()
    assert desk.steps() == up_to(11)


def test_after_a_restart_it_goes_on_where_it_stopped(desk):
    desk.write(lines(1, 10))
    desk.poll()
    desk.restart()
    desk.poll()
    desk.write(lines(11, 20))
    desk.poll()
    desk.restart()
    desk.write(lines(21, 30))
    desk.poll()
    assert desk.steps() == up_to(30)
    assert b"".join(desk.store.original(desk.run().id)) == desk.log.read_bytes()


def test_nothing_is_read_and_nothing_is_written_when_nothing_changed(desk):
    desk.write(lines(1, 10))
    desk.poll()
    version = desk.store.version()
    desk.poll(3)
    desk.restart()
    desk.poll(3)
    assert desk.store.version() == version


def test_rotation_by_rename_loses_no_line_written_before_it(desk):
    desk.write(lines(1, 10))
    desk.poll()
    desk.write(lines(11, 15))
    desk.log.rename(desk.folder / "train.log.1")
    desk.write(lines(16, 20))
    desk.poll(3)
    assert desk.steps() == up_to(20)
    assert desk.run().offset == desk.log.stat().st_size


def test_rotation_before_the_new_file_is_there(desk):
    desk.write(lines(1, 10))
    desk.poll()
    desk.log.rename(desk.folder / "train.log.1")
    desk.poll(2)
    desk.write(lines(11, 20))
    desk.poll(2)
    assert desk.steps() == up_to(20)


def test_lines_that_come_late_to_a_rotated_file_are_read_too(desk):
    desk.write(lines(1, 10))
    desk.poll()
    desk.log.rename(desk.folder / "train.log.1")
    desk.write(lines(14, 20))
    desk.write(lines(11, 12), "train.log.1")
    desk.poll()
    assert desk.steps() == up_to(12), "the new file waits as long as the old one grows"
    desk.write(line(13), "train.log.1")
    desk.poll(2)
    assert desk.steps() == up_to(20)
    desk.write(line(1000), "train.log.1")
    desk.poll(2)
    assert sorted(desk.steps()) == [*up_to(20), 1000]
    assert desk.run().offset == desk.log.stat().st_size


def test_rotation_by_copy_and_truncation(desk):
    desk.write(lines(1, 10))
    desk.poll()
    desk.write(lines(11, 15))
    shutil.copy(desk.log, desk.folder / "train.log.1")
    os.truncate(desk.log, 0)
    desk.write(lines(16, 18))
    desk.poll(4)
    assert desk.steps() == up_to(18)


def test_a_truncated_file_that_grew_larger_than_before_is_known_by_its_content(desk):
    desk.write(lines(1, 10))
    desk.poll()
    os.truncate(desk.log, 0)
    desk.write(lines(11, 40))
    desk.poll(3)
    assert desk.steps() == up_to(40)


def test_a_truncated_file_whose_writer_goes_on_at_its_old_place(desk, monkeypatch):
    monkeypatch.setattr(follow, "LATE_SECONDS", 0.0)
    desk.write(lines(1, 10))
    desk.poll()
    size = desk.log.stat().st_size
    os.truncate(desk.log, 0)
    with desk.log.open("r+b") as file:
        file.seek(size)
        file.write(lines(11, 20).encode())
    desk.poll(5)
    assert desk.steps() == up_to(20)


def test_rotation_with_packing(desk):
    desk.write(lines(1, 10))
    desk.poll()
    desk.write(lines(11, 15))
    (desk.folder / "train.log.1.gz").write_bytes(gzip.compress(desk.log.read_bytes(), mtime=0))
    desk.log.unlink()
    desk.write(lines(16, 20))
    desk.poll(4)
    assert desk.steps() == up_to(20)


def test_packing_of_a_piece_that_was_read_changes_nothing(desk):
    desk.write(lines(1, 10))
    desk.poll()
    desk.log.rename(desk.folder / "train.log.1")
    desk.write(lines(11, 20))
    desk.poll(3)
    (desk.folder / "train.log.1.gz").write_bytes(gzip.compress((desk.folder / "train.log.1").read_bytes(), mtime=0))
    (desk.folder / "train.log.1").unlink()
    desk.poll(3)
    desk.restart()
    desk.write(line(21))
    desk.poll(3)
    assert desk.steps() == up_to(21)


def test_two_rotations_while_nobody_looked(desk):
    desk.write(lines(1, 10))
    desk.poll()
    desk.log.rename(desk.folder / "train.log.2")
    desk.write(lines(11, 20), "train.log.1")
    os.utime(desk.folder / "train.log.2", (1, 1))
    desk.write(lines(21, 30))
    desk.restart()
    desk.poll(4)
    assert desk.steps() == up_to(30)


def test_older_pieces_that_lie_there_from_the_start_are_read_first(desk):
    desk.write(lines(11, 20), "train.log.1")
    (desk.folder / "train.log.2.gz").write_bytes(gzip.compress(lines(1, 10).encode(), mtime=0))
    for age, name in enumerate(["train.log.1", "train.log.2.gz"]):
        os.utime(desk.folder / name, (1000 - age, 1000 - age))
    desk.write(lines(21, 30))
    desk.poll(5)
    assert desk.steps() == up_to(30)
    assert desk.run().name == "train.log"


def test_a_file_that_is_made_again_goes_on_as_another_launch(desk):
    desk.write(lines(1, 50))
    desk.poll()
    desk.log.unlink()
    desk.poll()
    desk.write(lines(1, 3))
    desk.poll(3)
    frame = desk.store.frame(desk.run().id)
    assert frame["segment"].to_pylist() == [0] * 50 + [1] * 3
    assert frame["step"].to_pylist() == [*up_to(50), 1, 2, 3]


def test_a_renamed_log_is_the_same_run(desk):
    desk.write(lines(1, 10))
    desk.poll()
    (desk.folder / "old").mkdir()
    desk.log.rename(desk.folder / "old" / "renamed.log")
    desk.poll(2)
    desk.write(lines(11, 20), "old/renamed.log")
    desk.poll(2)
    assert desk.steps() == up_to(20)


def test_a_rename_while_nobody_looked_and_to_another_device(desk):
    """A new inode with the old content, as `mv` to another file system or a copy from elsewhere leaves it."""
    desk.write(lines(1, 200))
    desk.poll()
    desk.store.close()
    content = desk.log.read_text()
    desk.log.unlink()
    desk.write(content + lines(201, 210), "moved.log")
    desk.restart()
    desk.poll(2)
    assert desk.steps() == up_to(210)


def test_a_file_replaced_by_a_longer_copy_of_itself_goes_on(desk):
    """As rsync does: a new file under the old name."""
    desk.write(lines(1, 100))
    desk.poll()
    desk.write(lines(1, 110), "copy.tmp")
    (desk.folder / "copy.tmp").rename(desk.log)
    desk.poll(2)
    assert desk.steps() == up_to(110)


def other_middle(desk):
    """Return what lies in the log with one digit in its middle changed: its first and its last bytes are as they were."""
    content = desk.log.read_bytes()
    middle = len(content) // 2 + content[len(content) // 2 :].index(b"loss: ") + len(b"loss: ")
    assert files.HEAD_BYTES < middle < len(content) - files.TAIL_BYTES
    return content[:middle] + b"%d" % (9 - int(content[middle : middle + 1])) + content[middle + 1 :]


def test_another_file_that_differs_in_its_middle_alone_is_another_launch(desk):
    desk.write(lines(1, 1000))
    desk.poll()
    (desk.folder / "copy.tmp").write_bytes(other_middle(desk) + line(1001).encode())
    (desk.folder / "copy.tmp").rename(desk.log)
    desk.poll(4)
    assert desk.steps() == [*up_to(1000), *up_to(1001)]
    desk.restart()
    desk.write(line(1002))
    desk.poll(2)
    assert desk.steps() == [*up_to(1000), *up_to(1002)]


def test_a_short_log_that_was_written_anew_in_its_place_is_another_launch(desk):
    desk.write(lines(1, 200))
    desk.poll()
    desk.log.write_bytes(other_middle(desk) + line(201).encode())
    desk.poll(4)
    assert desk.steps() == [*up_to(200), *up_to(201)]


def test_what_was_read_before_all_of_it_was_compared_goes_on(desk):
    """Sources of a store of an older version."""
    desk.write(lines(1, 200))
    desk.poll()
    (source,) = desk.store.sources()
    desk.store.note_source(replace(source, crc=None))
    desk.restart()
    desk.write(line(201))
    desk.poll(2)
    content = desk.log.read_bytes()
    desk.log.unlink()
    desk.log.write_bytes(content + line(202).encode())
    desk.poll(3)
    assert desk.steps() == up_to(202)


def test_the_middle_of_a_packed_log_counts_too(desk):
    packed = desk.folder / "train.log.gz"
    content = lines(1, 200)
    packed.write_bytes(gzip.compress(content.encode(), mtime=0))
    desk.poll()
    desk.log.write_bytes(content.encode())
    packed.write_bytes(gzip.compress(other_middle(desk) + line(201).encode(), mtime=0))
    desk.log.unlink()
    desk.poll(4)
    assert desk.steps() == [*up_to(200), *up_to(201)]


def test_a_log_renamed_by_its_own_logger_is_no_second_run(desk):
    """As loguru does: the old piece gets a name of its own."""
    desk.write(lines(1, 10))
    desk.poll()
    desk.write(lines(11, 12))
    desk.log.rename(desk.folder / "train.2024-05-01_10-00-00_123456.log")
    desk.write(lines(13, 20))
    desk.poll(4)
    assert desk.steps() == up_to(20)
    desk.restart()
    desk.poll(3)
    assert desk.steps() == up_to(20)


def test_a_part_that_shows_as_zeros_is_waited_for(desk):
    """What a network file system may show before the data has arrived."""
    desk.write(lines(1, 10))
    desk.poll()
    size = desk.log.stat().st_size
    with desk.log.open("r+b") as file:
        file.seek(size + len(line(11)))
        file.write(line(12).encode())
    desk.poll(3)
    assert desk.steps() == up_to(10)
    with desk.log.open("r+b") as file:
        file.seek(size)
        file.write(line(11).encode())
    desk.poll(3)
    assert desk.steps() == up_to(12)


def test_a_size_that_falls_back_for_a_moment_changes_nothing(desk):
    desk.write(lines(1, 10))
    desk.poll()
    content = desk.log.read_bytes()
    os.truncate(desk.log, 100)
    desk.poll()
    with desk.log.open("r+b") as file:
        file.write(content + line(11).encode())
    desk.poll(3)
    assert desk.steps() == up_to(11)


def test_the_end_of_a_log_that_came_to_rest_is_read_and_if_it_goes_on_read_rightly(desk):
    desk.write(lines(1, 20) + line(21).rstrip())
    desk.poll()
    assert desk.steps() == up_to(20)
    desk.watcher.drain()
    assert desk.steps() == up_to(21)
    assert desk.run().offset == desk.log.stat().st_size
    desk.restart()
    desk.write("\n" + lines(22, 30))
    desk.poll(2)
    assert desk.steps() == up_to(30)
    assert b"".join(desk.store.original(desk.run().id)) == desk.log.read_bytes()


def test_a_log_of_two_lines_is_stored_when_it_came_to_rest(desk):
    desk.write(lines(1, 2))
    desk.watcher.drain()
    assert desk.steps() == [1, 2]
    desk.write(lines(3, 9))
    desk.poll(2)
    assert desk.steps() == up_to(9)


def test_what_is_no_log_makes_no_run_and_is_counted(desk):
    desk.write("Dear diary, today was quiet.\n" * 50, "diary.txt")
    desk.write("", "empty.log")
    desk.watcher.drain()
    assert desk.store.runs() == []
    (status,) = desk.watcher.status
    assert (status.logs, status.silent) == (2, 2)


def test_a_text_that_becomes_a_log_is_stored_whole(desk):
    desk.write("loading the data\n" * 30)
    desk.poll(2)
    desk.write("building the model\n" * 30)
    desk.poll(2)
    assert desk.store.runs() == []
    desk.write(lines(1, 40))
    desk.poll(2)
    assert desk.steps() == up_to(40)
    assert desk.store.lines(desk.run().id, 1, 1) == ["loading the data"]
    assert desk.store.lines(desk.run().id, 61, 61) == [line(1).rstrip()]


def test_rows_are_there_at_every_moment_once_a_short_log_was_stored(desk):
    desk.write("loading the data\n" * 20 + lines(1, 3))
    desk.watcher.drain()
    for step in range(4, 12):
        assert desk.steps() == up_to(step - 1)
        desk.write(line(step))
        desk.poll()
    assert desk.steps() == up_to(11)


def test_a_deleted_run_does_not_come_back_and_goes_on_when_it_is_restored(desk):
    desk.write(lines(1, 10))
    desk.poll()
    run = desk.run().id
    desk.store.delete_run(run)
    desk.write(lines(11, 12))
    desk.poll(2)
    desk.restart()
    desk.poll(2)
    assert desk.store.runs() == []
    desk.store.restore_run(run)
    desk.write(line(13))
    desk.poll(2)
    assert desk.steps() == up_to(13)


def test_the_log_of_a_run_that_was_purged_begins_anew_and_other_logs_are_met(desk):
    desk.write(lines(1, 10))
    desk.poll()
    purged = desk.run().id
    desk.store.delete_run(purged)
    desk.store.purge(deleted_days=0)
    desk.write(lines(11, 1000))  # more than is read together with others
    desk.poll(2)
    desk.write(lines(1, 5), "other.log")
    desk.poll(2)
    desk.write(line(1001))
    desk.poll(2)
    assert {run.name: run.rows for run in desk.store.runs()} == {"train.log": 1001, "other.log": 5}
    assert purged not in {source.run for source in desk.store.sources()}


def test_a_log_that_was_uploaded_is_known_and_goes_on(desk, tmp_path):
    from storage.intake.ingest import ingest_file

    upload = tmp_path / "upload"
    upload.write_text(lines(1, 30))
    run = ingest_file(desk.store, upload, name="mine").run_id
    upload.unlink()
    desk.write(lines(1, 30))
    desk.poll(2)
    desk.write(lines(31, 35))
    desk.poll(2)
    desk.restart()
    desk.write(lines(36, 40))
    desk.poll(2)
    assert desk.run().id == run
    assert desk.steps() == up_to(40)


def test_a_document_that_is_written_anew_replaces_what_its_run_held(desk):
    def document(steps):
        records = ", ".join(f'{{"loss": {5 - s / 100}, "step": {s}, "epoch": 0.1, "learning_rate": 1e-4}}' for s in steps)
        return f'{{"log_history": [{records}], "global_step": {len(steps)}, "max_steps": 1000, "epoch": 0.1}}'

    desk.write(document(range(1, 20)), "trainer_state.json")
    desk.watcher.drain()
    assert desk.steps() == up_to(19)
    desk.write(document(range(1, 31)), "trainer_state.json", mode="w")
    desk.watcher.drain()
    assert desk.steps() == up_to(30)


def test_a_large_log_comes_in_several_transactions_and_small_ones_are_not_kept_waiting(desk, monkeypatch):
    monkeypatch.setattr(follow, "BUDGET_BYTES", 20_000)
    monkeypatch.setattr(follow, "PROBE_BYTES", 10_000)
    desk.write(lines(1, 2000))
    desk.write(lines(1, 10), "small.log")
    assert desk.watcher.poll()
    assert {run.name for run in desk.store.runs()} == {"train.log", "small.log"}
    desk.poll()
    assert {run.name: run.rows for run in desk.store.runs()} == {"train.log": 2000, "small.log": 10}


def test_the_thread_starts_and_stops(desk):
    heard = threading.Event()
    desk.watcher = Watcher(desk.store, [desk.watched], seconds=0.05, on_rows=lambda runs: heard.set())
    desk.watcher.start()
    try:
        desk.write(lines(1, 10))
        assert heard.wait(120)
    finally:
        desk.watcher.stop()
    assert desk.steps() == up_to(10)
    desk.write(lines(11, 12))
    assert desk.steps() == up_to(10)


def test_folders_are_kept_in_the_store_and_can_be_taken_away(desk):
    desk.watcher = Watcher(desk.store)
    desk.store.watch(Watched(str(desk.folder), include=("*.log",), exclude=("old*",)))
    desk.write(lines(1, 10))
    desk.write(lines(1, 10), "old.log")
    desk.poll(2)
    assert desk.run().name == "train.log"
    desk.store.close()
    desk.store = Store(desk.data)
    desk.watcher = Watcher(desk.store)
    desk.write(lines(11, 12))
    desk.poll(2)
    assert desk.steps() == up_to(12)
    desk.store.unwatch(str(desk.folder))
    desk.write(lines(13, 14))
    desk.poll(2)
    assert desk.steps() == up_to(12)
    assert desk.watcher.status == ()


def test_a_paused_folder_is_left_alone_and_goes_on_where_it_stopped(desk):
    desk.watcher = Watcher(desk.store)
    desk.store.watch(desk.watched)
    desk.write(lines(1, 10))
    desk.poll()
    desk.store.watch(replace(desk.watched, paused=True))
    assert desk.store.watched() == [replace(desk.watched, paused=True)]
    desk.write(lines(11, 20))
    desk.poll(2)
    assert desk.steps() == up_to(10)
    assert desk.watcher.status == ()
    desk.store.watch(desk.watched)
    desk.poll(2)
    assert desk.steps() == up_to(20)
