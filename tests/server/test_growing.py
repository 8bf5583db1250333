"""Long runs in the store are diagnosed from their new rows, with what the whole of them would give; silent ones hang."""

import os
import threading
import time
from collections import deque
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from analysis.diagnose import diagnose
from server import live as growing
from server.arrivals import Arrival
from server.live import Growing, segments_of
from server.service import Service
from server.settings import Settings
from server.thresholds import save
from storage.intake.watch import Watcher
from storage.keeping.sources import Watched
from storage.reader import LogReader
from tests.pages.helpers import canonical
from tests.serving import wait_for
from tests.storage.desk import line, lines

ROWS, PIECE = 24_000, 3000


def text(first: int, last: int, nan: int | None = None) -> str:
    found = []
    for step in range(first, last + 1):
        loss = "nan" if step == nan else f"{2 + 6 * (step + 20) ** -0.4 * 3 + 0.02 * ((step * 7919) % 13 - 6) / 6:.4f}"
        found.append(f"step {step}/40000 loss {loss} lr 0.0003 step_time 0.41\n")
    return "".join(found)


@pytest.fixture
def service(tmp_path):
    service = Service.open(Settings(data_dir=tmp_path / "data"))
    yield service
    service.close()


def test_a_long_run_is_read_once_and_then_only_its_new_rows(service, monkeypatch):
    reader, run, read = LogReader("a.log"), service.store.create_run("a.log"), []
    frame = service.store.frame

    def counted(*args, **named):
        rows = frame(*args, **named)
        read.append(rows.num_rows)
        return rows

    monkeypatch.setattr(service.store, "frame", counted)
    for first in range(1, ROWS, PIECE):
        part = text(first, first + PIECE - 1, nan=23_500)
        with service.store.writer(run) as writer:
            for batch in reader.feed(part.encode()):
                writer.append(batch)
            writer.commit(report=reader.report())
        read.clear()
        now = service.diagnosis(run)
    assert sum(read) <= PIECE + 2
    whole = diagnose(segments_of(service.store, run))
    assert [(f.kind, f.first_step) for f in now.findings] == [(f.kind, f.first_step) for f in whole.findings]
    assert ("non_finite", 23_500) in {(f.kind, f.first_step) for f in now.findings}
    assert now.verdict == whole.verdict


def test_a_long_run_that_gives_nothing_more_is_judged_in_one_go(service, monkeypatch):
    reader, run = LogReader("a.log"), service.store.create_run("a.log")
    for first, last in ((1, 21_000), (21_001, 22_000)):
        with service.store.writer(run) as writer:
            for batch in reader.feed(text(first, last).encode()):
                writer.append(batch)
            writer.commit(report=reader.report())
        service.diagnosis(run)
    assert 0 < service.growing.settles(run, "robust") <= growing.SETTLE_SECONDS
    monkeypatch.setattr(growing, "SETTLE_SECONDS", 0.0)
    settled = service.diagnosis(run)
    assert service.growing.settles(run, "robust") is None
    assert settled == diagnose(segments_of(service.store, run))
    assert service.diagnosis(run) == settled


def test_a_long_run_that_is_read_anew_is_not_taken_for_the_one_before(service, monkeypatch):
    monkeypatch.setattr(growing, "CHUNK_ROWS", 5000)
    run = service.ingest_upload("a.log", [text(1, 21_000).encode()]).run_id
    judge = Growing(service.store).judge
    assert judge(run, "robust", {}).diagnosis.findings == judge(run, "robust", {}).diagnosis.findings
    reader = LogReader("a.log")
    with service.store.writer(run, replace=True) as writer:
        for batch in reader.feed(("other\n" * 5 + text(1, 22_000, nan=700)).encode()):
            writer.append(batch)
        writer.commit(report=reader.report())
    assert "non_finite" in {f.kind for f in service.growing.judge(run, "robust", {}).diagnosis.findings}


@pytest.fixture
def watching(tmp_path):
    (tmp_path / "logs").mkdir()
    settings = Settings(data_dir=tmp_path / "data", watch=(tmp_path / "logs",), watch_seconds=0.05, diagnose_seconds=0.1)
    service = Service.open(settings)
    for project in ("", "logs"):
        save(service.store, project, "robust", {"hang": {"least_seconds": 1.0, "usual_times": 3.0}})
    service.start()
    yield service
    service.close()


def grow(log: Path, service: Service, until: int = 60) -> None:
    """Let a log grow until the server has seen it grow."""
    for step in range(1, until, 3):  # rows arrive about sixteen times a second
        with log.open("a") as file:
            file.write(lines(step, step + 2))
        time.sleep(0.06)
    wait_for(service.store.runs)


def test_a_followed_run_that_falls_silent_is_told_to_hang_and_no_longer_when_it_goes_on(watching, tmp_path):
    told, log = threading.Event(), tmp_path / "logs" / "train.log"
    for project in ("", "logs"):  # a busy machine may well hold up a log that grows for a second or two
        save(watching.store, project, "robust", {"hang": {"least_seconds": 8.0, "usual_times": 3.0}})
    watching.monitor.on_diagnosis.append(lambda run, before, now, new: told.set() if "hang" in {f.kind for f in new} else None)
    grow(log, watching)
    run = watching.store.runs()[0].id
    assert not told.is_set()
    assert told.wait(120)
    silent = watching.diagnosis(run)
    assert (silent.verdict, silent.findings[0].kind, silent.findings[0].last_step) == ("sick", "hang", None)
    with log.open("a") as file:
        file.write(line(61))
    wait_for(lambda: "hang" not in {f.kind for f in watching.diagnosis(run).findings if f.last_step is None})


def test_an_upload_and_a_log_that_was_read_once_never_hang(watching, tmp_path):
    (tmp_path / "logs" / "old.log").write_text(lines(1, 60))
    upload = watching.ingest_upload("a.log", [canonical(200).encode()]).run_id
    wait_for(lambda: len(watching.store.runs()) == 2)
    time.sleep(2.5)
    assert watching.arrivals.silent(upload) is None
    for run in watching.store.runs():
        assert "hang" not in {finding.kind for finding in watching.diagnosis(run.id).findings}


@pytest.mark.parametrize("written_since", [False, True])
def test_a_file_whose_rows_came_in_pieces_is_followed_only_if_it_was_written_since(service, tmp_path, written_since):
    log = tmp_path / "a.log"
    log.write_text(lines(1, 60))
    run = service.read_path(log)[0].run
    first = service.store.run(run).updated.timestamp()
    os.utime(log, (first, first + (5 if written_since else -7200)))
    service.arrivals._seen[run] = deque(Arrival(first + place, 20 * (place + 1), 20 * place) for place in range(3))
    assert (service.arrivals.silent(run) is not None) == written_since


def test_another_form_is_found_in_a_long_run_as_in_one_go(service):
    reader, run = LogReader("a.log"), service.store.create_run("a.log")
    other = [line.replace(" loss", ", loss").replace(" lr", ", lr") for line in text(22_990, ROWS).splitlines(keepends=True)]
    for part in (text(1, 21_000), text(21_001, 22_989) + "".join(other[:5]), "".join(other[5:])):
        with service.store.writer(run) as writer:
            for batch in reader.feed(part.encode()):
                writer.append(batch)
            writer.commit(report=reader.report())
        now = service.diagnosis(run)
    assert service.growing.settles(run, "robust") is not None
    assert [f.first_step for f in now.findings if f.kind == "format_change"] == [22_990]
    (whole,) = (f for f in diagnose(segments_of(service.store, run)).findings if f.kind == "format_change")
    assert [f.known_step for f in now.findings if f.kind == "format_change"] == [whole.known_step]


def told(first: int, last: int, began: datetime) -> str:
    """Rows a second apart, with the clock of their log."""
    return "".join(
        f"[{began + timedelta(seconds=step):%Y-%m-%d %H:%M:%S}] step: {step} loss: {9 - step / 100:.4f} lr: 0.0005\n"
        for step in range(first, last + 1)
    )


FINISHED, STOPPED = "Training completed.\n", "KeyboardInterrupt\n"
BROKEN = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.\n"


@pytest.mark.parametrize(("end", "hangs"), [("", True), (FINISHED, False), (BROKEN, False), (STOPPED, False)])
def test_a_log_that_grew_before_the_server_started_anew_counts_as_growing_from_its_last_write(tmp_path, end, hangs):
    log, began = tmp_path / "a.log", datetime.now(UTC) - timedelta(seconds=60)
    log.write_text(told(1, 50, began))
    with grown(tmp_path, log, told(51, 60, began) + end) as (first, again, run):
        assert first.arrivals.silent(run) is None  # one look more is not enough to follow it
        assert again.arrivals.silent(run) > 0
        assert again.arrivals._last_write(run) == log.stat().st_mtime
        again.arrivals.silent = lambda run: 400.0
        assert ("hang" in {finding.kind for finding in again.diagnosis(run).findings}) is hangs


@pytest.mark.parametrize("how", ["read once", "touched", "long ago", "of another day", "first read now"])
def test_an_old_log_never_counts_as_growing(tmp_path, how):
    log, began = tmp_path / "a.log", datetime.now(UTC) - timedelta(days=9 if how == "of another day" else 0, seconds=60)
    log.write_text(told(1, 50, began))
    more = "" if how in ("read once", "touched") else told(51, 60, began)
    with grown(tmp_path, log, more) as (first, again, run):
        if how == "touched":
            os.utime(log, (time.time() + 60, time.time() + 60))
        if how == "long ago":
            again.arrivals._started += 3700
        assert (first if how == "first read now" else again).arrivals.silent(run) is None


@contextmanager
def grown(tmp_path, log, more):
    """Two services, one after the other, and a run whose log got more rows after it was read first."""
    first = Service.open(Settings(data_dir=tmp_path / "data"))
    watcher = Watcher(first.store, [Watched(str(log.parent), include=("*.log",))], on_rows=first.got_rows)
    watcher.drain()
    run = first.store.runs()[0]
    os.utime(log, (run.created.timestamp() - 1, run.created.timestamp() - 1))
    if more:
        with log.open("a") as file:
            file.write(more)
        os.utime(log)  # by the exact clock: that of the file system may tick behind it
        watcher.drain()
    silent = first.arrivals.silent(run.id)
    first.close()
    first.arrivals.silent = lambda run: silent
    again = Service.open(Settings(data_dir=tmp_path / "data"))
    yield first, again, run.id
    again.close()
