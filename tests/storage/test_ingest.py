"""Files into the store: recognised, continued, refused, and never half stored."""

import contextlib
import gzip
import json
import os
import threading
import time
from pathlib import Path

import pyarrow as pa
import pytest

from storage.intake import ingest
from storage.intake.ingest import ingest_file
from storage.keeping import archive
from storage.keeping.writer import RunWriter
from storage.reader import LogReader, read_file
from storage.store import Store
from storage.types import Batch, UnreadableLog


def log(steps, *, first=1):
    return "".join(
        f"Epoch:[1/1]({step}/9000) loss:{3 - step / 5000:.4f} lr:{5e-4 * (1 - step / 9000):.8f} epoch_time:{9000 - step}.0min\n"
        for step in range(first, first + steps)
    ).encode()


@pytest.fixture
def store(tmp_path):
    with Store(tmp_path / "data") as opened:
        yield opened


@pytest.fixture
def path(tmp_path):
    return tmp_path / "train.log"


def everything(store, run):
    """All that a reader of the store can see of a run, but its id, name and times."""
    found = store.run(run)
    return {
        "rows": store.frame(run, kind=None),
        "report": store.report(run),
        "events": store.events(run),
        "lines": store.lines(run, 1, 10**9),
        "bytes": b"".join(store.original(run)),
        "run": (found.rows, found.segments, found.first_step, found.last_step, found.total_steps, found.bytes, found.offset),
        "chart": store.buckets(run, ["loss", "lr"], width=50).to_dict(),
        "latest": store.latest([run])[["metric", "step", "value"]].to_dict(),
    }


def state_of(store):
    """What must not change when a file is refused."""
    return (store.runs(), store.version(), sorted((store.data_dir / "archive").glob("*")))


def test_a_file_becomes_a_run_with_what_the_reader_read(store, path):
    path.write_bytes(log(3000))
    seen = []
    done = ingest_file(store, path, name="mine", progress=lambda *numbers: seen.append((*numbers, threading.current_thread())))
    read = read_file(path)
    run = store.run(done.run_id)
    assert (done.known, done.grown, run.name, run.source) == (False, False, "mine", str(path))
    assert (run.rows, run.first_step, run.last_step) == (3000, 1, 3000)
    assert run.bytes == run.offset == path.stat().st_size
    assert store.frame(done.run_id, kind=None).select(read.rows.column_names).equals(read.rows)
    assert store.report(done.run_id) == done.report == read.report
    assert {column.name for column in store.columns(done.run_id)} == {column.name for column in read.report.columns}
    assert b"".join(store.original(done.run_id)) == path.read_bytes()
    assert seen[-1] == (path.stat().st_size, path.stat().st_size, 3000, threading.current_thread())


def test_the_same_bytes_under_another_name_are_recognised(store, path, tmp_path):
    path.write_bytes(log(300))
    first = ingest_file(store, path)
    before = state_of(store)
    path.rename(tmp_path / "copy.txt")
    again = ingest_file(store, tmp_path / "copy.txt", name="other")
    assert (again.run_id, again.known, again.report) == (first.run_id, True, first.report)
    assert state_of(store) == before


@pytest.mark.parametrize("cut", ["line end", "within a line", "tiny"])
@pytest.mark.parametrize("pieces", [1, 3])
def test_a_log_that_has_grown_continues_its_run(store, path, tmp_path, cut, pieces):
    whole = log(3000)
    line_end = whole.index(b"\n", len(whole) // 3) + 1
    start = {"line end": line_end, "within a line": line_end + 40, "tiny": whole.index(b"\n", 100) + 1}[cut]
    steps = [start + (len(whole) - start) * number // pieces for number in range(pieces + 1)]
    for number, stop in enumerate(steps):
        path.write_bytes(whole[:stop])
        done = ingest_file(store, path)
        assert (done.known, done.grown) == (False, number > 0)
    assert len(store.runs()) == 1
    path.write_bytes(whole)
    assert ingest_file(store, path).known
    with Store(tmp_path / "fresh") as fresh:
        assert everything(store, done.run_id) == everything(fresh, ingest_file(fresh, path).run_id)


def test_a_log_of_another_name_that_begins_like_a_known_one_is_a_run_of_its_own(store, path, tmp_path):
    path.write_bytes(log(100))
    first = ingest_file(store, path)
    other = tmp_path / "other.log"
    other.write_bytes(log(100) + log(300)[len(log(100)) :].replace(b"loss: 2", b"loss: 9"))
    assert ingest_file(store, other).run_id != first.run_id
    assert store.run(first.run_id).rows == 100
    again = tmp_path / f"{path.stem} (1){path.suffix}"
    again.write_bytes(log(200))
    assert ingest_file(store, again).run_id == first.run_id


def test_only_the_new_part_of_a_grown_log_is_parsed(store, path, monkeypatch):
    path.write_bytes(log(1000))
    ingest_file(store, path)
    fed = []
    feed = LogReader.feed
    monkeypatch.setattr(LogReader, "feed", lambda self, data: fed.append(len(data)) or feed(self, data))
    more = log(10, first=1001)
    path.write_bytes(log(1000) + more)
    assert ingest_file(store, path).grown
    assert sum(fed) == len(more)


def test_a_log_with_the_same_beginning_and_another_content_is_a_run_of_its_own(store, path):
    header = b"config: hidden 512 layers 8\n" * 300
    path.write_bytes(header + log(100))
    first = ingest_file(store, path)
    path.write_bytes(header + log(100, first=500) + log(10))
    second = ingest_file(store, path)
    assert second.run_id != first.run_id
    assert (store.run(first.run_id).rows, store.run(second.run_id).rows) == (100, 110)


@pytest.mark.parametrize("size", [0, 3, 100, 5000])
def test_a_packed_log_keeps_its_text(store, path, size):
    path.write_bytes(gzip.compress(log(size), mtime=0))
    if size == 0:
        with pytest.raises(UnreadableLog):
            ingest_file(store, path)
        return
    done = ingest_file(store, path)
    assert store.run(done.run_id).rows == size
    assert b"".join(store.original(done.run_id)) == log(size)
    assert store.lines(done.run_id, size, size + 5) == [log(1, first=size).decode().strip()]
    assert ingest_file(store, path).known


def test_a_deleted_run_is_no_obstacle_to_its_file(store, path):
    path.write_bytes(log(10))
    first = ingest_file(store, path)
    store.delete_run(first.run_id)
    again = ingest_file(store, path)
    assert (again.known, again.run_id == first.run_id) == (False, False)


@pytest.mark.parametrize(
    ("content", "code"),
    [
        (b"", "empty"),
        (b"\x89PNG\r\n\x1a\n" + bytes(range(256)) * 40, "binary"),
        (bytes(5000), "binary"),
        (b"nothing here to measure\nat all\n" * 50, "no_metrics"),
    ],
)
def test_what_is_no_training_log_leaves_the_store_as_it_was(store, path, content, code):
    path.write_bytes(log(50))
    ingest_file(store, path)
    before = state_of(store)
    path.write_bytes(content)
    with pytest.raises(UnreadableLog) as refused:
        ingest_file(store, path)
    assert refused.value.code == code
    assert state_of(store) == before


def test_a_missing_file_and_an_error_in_the_middle_leave_the_store_as_it_was(store, path, monkeypatch):
    before = state_of(store)
    with pytest.raises(FileNotFoundError):
        ingest_file(store, path)
    monkeypatch.setattr(ingest, "CHUNK_BYTES", 10_000)
    path.write_bytes(log(3000))

    def stop(done, total, rows):
        if done > total / 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        ingest_file(store, path, progress=stop)
    assert state_of(store) == before
    assert ingest_file(store, path).report.records == 3000


def test_a_cut_last_line_is_read_and_the_rest_said(store, path):
    path.write_bytes(log(10)[:-25])
    done = ingest_file(store, path)
    assert store.run(done.run_id).rows + done.report.unparsed_count >= 10


def test_the_same_file_by_two_at_once_is_one_run(store, path):
    path.write_bytes(log(5000))
    answers = []
    threads = [threading.Thread(target=lambda: answers.append(ingest_file(store, path))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(store.runs()) == 1
    assert sorted(answer.known for answer in answers) == [False, True, True, True]
    assert len({answer.run_id for answer in answers}) == 1
    assert store.runs()[0].rows == 5000


def test_several_files_at_once(store, tmp_path):
    for number in range(6):
        (tmp_path / f"{number}.log").write_bytes(log(2000, first=1 + number))
    threads = [threading.Thread(target=ingest_file, args=(store, tmp_path / f"{number}.log")) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(run.first_step for run in store.runs()) == list(range(1, 7))
    assert {run.rows for run in store.runs()} == {2000}


def test_rows_of_any_type_the_reader_might_give_are_taken(store):
    with store.writer(name="a") as writer:
        rows = pa.table(
            {"line": [1, 2], "kind": ["train"] * 2, "segment": [0, 0], "step": [1, 2], "loss": pa.array([1, None], pa.int8())}
        )
        writer.append(Batch(rows))
        writer.commit()
    assert store.frame(writer.run_id, ["loss"])["loss"].to_pylist() == [1.0, None]


REAL = Path(os.environ.get("RUNVITALS_SHARED_LOGS", Path(__file__).parents[3] / "shared" / "logs"))
SMALL_LOGS = [path for path in sorted(REAL.glob("[0-9]*")) if path.stat().st_size < 250_000] if REAL.is_dir() else []


@pytest.mark.logs
@pytest.mark.skipif(not SMALL_LOGS, reason="no real logs here")
@pytest.mark.parametrize("real", SMALL_LOGS, ids=lambda real: real.name[:3])
def test_a_real_log_is_stored_as_read_and_continued_as_if_it_had_come_at_once(store, path, real):
    content, path = real.read_bytes(), path.with_name(real.name)
    try:
        rows = read_file(real).rows
        whole = ingest_file(store, real)
    except UnreadableLog:
        return
    assert store.frame(whole.run_id, kind=None).num_rows == rows.num_rows
    if not whole.report.compression:
        assert b"".join(store.original(whole.run_id)) == content
    path.write_bytes(content + b"\n")
    assert ingest_file(store, path).grown
    store.delete_run(whole.run_id)
    path.write_bytes(content[: len(content) // 2])
    with contextlib.suppress(UnreadableLog):
        ingest_file(store, path)
    path.write_bytes(content)
    grown = store.frame(ingest_file(store, path).run_id, kind=None)
    in_order = continued(content).to_pandas().sort_values("line", kind="stable", ignore_index=True)
    assert grown.select(list(in_order.columns)).to_pandas().equals(in_order)


def continued(content):
    """The rows the reader itself gives when it goes on in the middle with its state, or reads all again where it must."""
    half = len(content) // 2
    first = LogReader("train.log")
    try:
        batches, state = first.feed(content[:half]), json.loads(json.dumps(first.state()))
        again = first.finish() or state["offset"] != half or not any(b.rows.num_rows or b.events for b in batches)
    except UnreadableLog:
        again = True
    second = LogReader("train.log", state=None if again else state)
    batches = ([] if again else batches) + second.feed(content if again else content[half:]) + second.finish()
    return pa.concat_tables([batch.rows for batch in batches], promote_options="default")


@pytest.mark.parametrize("encoding", ["utf-16", "gb18030", "utf-8"])
@pytest.mark.parametrize("pack", [bytes, gzip.compress])
def test_bytes_that_are_kept_ahead_of_the_parser_have_their_lines(store, tmp_path, monkeypatch, encoding, pack):
    """The encoding is known from the first bytes: line ends of two bytes are found before a line was read."""
    monkeypatch.setattr(ingest, "CHUNK_BYTES", 512)
    monkeypatch.setattr(archive, "FRAME_BYTES", 2048)
    text = log(300).decode() + "".join(f"第 {n} 轮\n" for n in range(300))
    (tmp_path / "run.log").write_bytes(pack(text.encode(encoding)))
    run = ingest_file(store, tmp_path / "run.log").run_id
    lines = text.splitlines()
    assert store.lines(run, 1, 600) == lines
    assert store.lines(run, 299, 302) == lines[298:302]


def test_an_error_in_the_thread_of_the_bytes_is_told_and_nothing_stays(store, tmp_path, monkeypatch):
    def broken(self, data, encoding="utf-8"):
        raise OSError("no space left")

    monkeypatch.setattr(RunWriter, "keep", broken)
    (tmp_path / "run.log").write_bytes(log(50))
    with pytest.raises(OSError, match="no space left"):
        ingest_file(store, tmp_path / "run.log")
    assert not store.runs()


def test_the_bytes_that_are_being_kept_are_waited_for_before_all_is_taken_back(store, tmp_path, monkeypatch):
    began, failed, order = threading.Event(), threading.Event(), []
    close = RunWriter.close

    def slow(self, data, encoding="utf-8"):
        began.set()
        failed.wait()
        time.sleep(0.2)
        order.append("kept")

    def broken(self, data):
        began.wait()
        failed.set()
        raise OSError("a fault")

    def closed(self, *, keep):
        order.append("closed")
        close(self, keep=keep)

    monkeypatch.setattr(RunWriter, "keep", slow)
    monkeypatch.setattr(RunWriter, "close", closed)
    monkeypatch.setattr(LogReader, "feed", broken)
    (tmp_path / "run.log").write_bytes(log(50))
    with pytest.raises(OSError, match="a fault"):
        ingest_file(store, tmp_path / "run.log")
    assert order == ["kept", "closed"]
    assert not store.runs()
