"""The monitor: runs that got rows are diagnosed again, not too often, and whoever listens hears what is new once."""

import threading
import time
from datetime import UTC, datetime, timedelta

import pytest

from analysis.diagnose import Diagnosis
from analysis.findings import Finding, Severity
from messages import Text
from server.monitor import Monitor, heartbeats, new_findings
from server.service import Service
from server.settings import Settings
from storage.store import UnknownRun
from tests.serving import wait_for
from tests.storage.desk import line, lines


def finding(kind="spike", severity=Severity.WARNING, first=10, last=None, segment=0):
    return Finding(kind, severity, segment, first, last, Text("x"))


def diagnosis(*findings):
    return Diagnosis("watch", Text("x"), findings=findings)


@pytest.mark.parametrize(
    ("before", "now", "new"),
    [
        (None, [finding()], 1),
        (diagnosis(), [], 0),
        (diagnosis(finding()), [finding()], 0),
        (diagnosis(finding(first=10)), [finding(first=12)], 0),
        (diagnosis(finding(first=10, last=20)), [finding(first=10, last=20), finding(first=50)], 1),
        (diagnosis(finding()), [finding(severity=Severity.CRITICAL)], 1),
        (diagnosis(finding()), [finding(kind="plateau")], 1),
        (diagnosis(finding()), [finding(segment=1)], 1),
    ],
)
def test_what_is_new_in_a_diagnosis(before, now, new):
    assert len(new_findings(before, diagnosis(*now))) == new


class Runs:
    """Diagnoses that count and can be slow."""

    def __init__(self, seconds=0.0):
        self.seen: list[tuple[str, float]] = []
        self._seconds = seconds

    def __call__(self, run):
        if run == "gone":
            raise UnknownRun("gone")
        if run == "broken":
            raise ZeroDivisionError
        self.seen.append((run, time.monotonic()))
        time.sleep(self._seconds)
        return None, diagnosis(finding())


@pytest.fixture
def monitored():
    started = []

    def start(runs, seconds):
        started.append(Monitor(runs, seconds=seconds))
        started[-1].start()
        return started[-1]

    yield start
    for monitor in started:
        monitor.stop()


def test_rows_that_come_quickly_are_taken_together_those_during_a_diagnosis_too(monitored):
    runs = Runs(seconds=0.1)  # a diagnosis of 0.1 s has ten times that, however busy the machine: it only makes this longer
    monitor = monitored(runs, 0.4)
    while len(runs.seen) < 3:
        monitor.changed("a")
        time.sleep(0.01)
    times = [when for _, when in runs.seen]
    assert all(later - earlier >= 1.0 for earlier, later in zip(times, times[1:], strict=False))


def test_the_last_rows_are_never_forgotten(monitored):
    runs = Runs()
    monitor = monitored(runs, 0.2)
    monitor.changed("a")
    wait_for(lambda: runs.seen)
    monitor.changed("a")
    assert wait_for(lambda: [name for name, _when in runs.seen] == ["a", "a"])


def test_telling_of_rows_never_waits_for_a_diagnosis(monitored):
    begun, end = threading.Event(), threading.Event()

    def diagnose(_run):
        begun.set()
        end.wait(120)
        return None, diagnosis()

    monitor = monitored(diagnose, 0.1)
    monitor.changed("slow")
    assert begun.wait(120)
    telling = threading.Thread(target=lambda: [monitor.changed(f"run {number}") for number in range(1000)])
    telling.start()
    telling.join(100)
    assert not telling.is_alive()
    end.set()


def test_an_error_in_one_run_or_listener_hinders_no_other(monitored):
    runs, heard = Runs(), []
    monitor = monitored(runs, 0.1)
    monitor.on_diagnosis.append(lambda run, before, now, new: 1 / 0)
    monitor.on_diagnosis.append(lambda run, before, now, new: heard.append((run, len(new))))
    for run in ("gone", "broken", "fine"):
        monitor.changed(run)
    wait_for(lambda: heard)
    assert heard == [("fine", 1)]


@pytest.fixture
def service(tmp_path):
    (tmp_path / "logs").mkdir()
    settings = Settings(data_dir=tmp_path / "data", watch=(tmp_path / "logs",), watch_seconds=0.05, diagnose_seconds=0.1)
    service = Service.open(settings)
    service.start()
    yield service
    service.close()


def test_a_nan_in_a_watched_log_is_told_without_anybody_opening_a_page(service, tmp_path):
    heard = threading.Event()
    told: list[str] = []

    def hear(run, before, now, new):
        told.extend(finding.kind for finding in new)
        if "non_finite" in told:
            heard.set()

    service.monitor.on_diagnosis.append(hear)
    log = tmp_path / "logs" / "train.log"
    log.write_text(lines(1, 200))
    wait_for(service.store.runs)
    with log.open("a") as file:
        file.write(line(201).replace("loss: 8.7990", "loss: nan").replace("logits_loss: 8.1", "logits_loss: nan"))
        file.write(lines(202, 230).replace("loss: 8.", "loss: nan #"))
    assert heard.wait(120)
    run = service.store.runs()[0].id
    kept = service.store.diagnosis(run, "robust")
    assert kept is not None
    assert told.count("non_finite") == 1


def test_the_heartbeat_of_each_lane_counts_from_when_its_lines_arrived(service, tmp_path):
    ahead = datetime.now(UTC) + timedelta(hours=2)
    for rank in range(2):
        stamp = ahead.strftime("%Y-%m-%d %H:%M:%S,000 ") if rank else ""
        text = "".join(stamp + line(step) for step in range(1, 20))
        (tmp_path / "logs" / f"rank_{rank}.log").write_text(text)
    wait_for(lambda: service.store.runs() and len(service.store.lanes(service.store.runs()[0].id)) == 2)
    beats = heartbeats(service.store, service.store.runs()[0].id)
    assert [beat.rank for beat in beats] == [0, 1]
    assert all(0 <= beat.age_seconds < 30 for beat in beats)
    assert beats[0].clock_ahead_seconds == 0
    assert beats[1].clock_ahead_seconds == pytest.approx(7200, abs=60)
