"""What goes first: rows and pages before diagnoses, and never for ever."""

import threading

import pytest

from analysis.diagnose import Diagnosis
from messages import Text
from server import precedence
from server.monitor import Monitor
from server.precedence import Precedence
from server.service import Service
from server.settings import Settings
from tests.storage.desk import lines


@pytest.fixture
def patience(monkeypatch):
    monkeypatch.setattr(precedence, "MOST_SECONDS", 120.0)


def test_a_diagnosis_begins_when_rows_and_pages_are_done(patience):
    order, went_on = Precedence(), threading.Event()
    seen: list[str] = []

    def diagnose(run):
        seen.append(run)
        went_on.set()
        return None, Diagnosis("watch", Text("x"))

    waits = threading.Event()

    def give_way():
        waits.set()
        order.give_way()

    monitor = Monitor(diagnose, seconds=0.0, give_way=give_way)
    with order.first():
        with order.first():
            monitor.start()
            monitor.changed("a")
            assert waits.wait(120)
        assert seen == []  # one of the two still goes first
    assert went_on.wait(120)
    monitor.stop()


def test_who_gives_way_does_not_wait_for_ever(monkeypatch):
    monkeypatch.setattr(precedence, "MOST_SECONDS", 0.01)
    order, waited = Precedence(), []
    with order.first():
        order.give_way()
        waited.append("and goes on while another is still first")
    assert waited


def test_who_fails_is_first_no_more(patience):
    order = Precedence()
    with pytest.raises(ZeroDivisionError), order.first():
        raise ZeroDivisionError
    order.give_way()


def test_rows_are_read_before_they_are_judged(tmp_path, monkeypatch):
    (tmp_path / "logs").mkdir()
    settings = Settings(data_dir=tmp_path / "data", watch=(tmp_path / "logs",), watch_seconds=0.05, diagnose_seconds=0.05)
    service, first = Service.open(settings), threading.Event()
    enter = service.precedence.first
    monkeypatch.setattr(service.precedence, "first", lambda: (first.set(), enter())[1])
    service.start()
    try:
        (tmp_path / "logs" / "a.log").write_text(lines(1, 20))
        assert first.wait(120)
    finally:
        service.close()


def test_who_hears_of_rows_can_not_take_them_back(tmp_path):
    service, heard = Service.open(Settings(data_dir=tmp_path / "data")), []
    service.on_rows += [lambda runs: 1 / 0, heard.extend]
    run = service.ingest_upload("a.log", [lines(1, 20).encode()]).run_id
    assert heard == [run]
    service.close()
