"""A run that was deleted is gone everywhere at once, and comes back when somebody asks for its file by name."""

import os
import socket
import threading

import pytest

from server.address import Address
from server.desk import There
from server.service import Service
from server.settings import Settings
from storage.store import StoreError
from tests.pages.helpers import canonical


@pytest.fixture
def service(tmp_path):
    opened = Service.open(Settings(data_dir=tmp_path / "data"))
    yield opened
    opened.close()


@pytest.fixture
def log(tmp_path):
    path = tmp_path / "logs" / "a.log"
    path.parent.mkdir()
    path.write_text("".join(canonical(150).splitlines(keepends=True)[:100]))
    return path


def test_the_board_has_it_no_more(service, log):
    run = service.read_path(log)[0].run
    assert [line.run.id for line in service.board.lines()] == [run]
    service.store.delete_run(run)
    assert service.board.lines() == []
    service.store.restore_run(run)
    assert [line.run.id for line in service.board.lines()] == [run]


@pytest.mark.parametrize("grown", [False, True])
def test_its_file_brings_it_back(service, log, grown):
    run = service.read_path(log)[0].run
    service.store.delete_run(run)
    if grown:
        log.write_text(canonical(150))
    (again,) = service.read_path(log)
    assert (again.run, again.error) == (run, None)
    assert service.store.run(run).rows == (150 if grown else 100)


def test_the_folder_of_its_file_does_not_and_says_so(service, log):
    run = service.read_path(log)[0].run
    service.store.delete_run(run)
    (log.parent / "b.log").write_text(canonical(120))
    found = {read.file.rpartition("/")[2]: read for read in service.read_path(log.parent)}
    assert (found["a.log"].run, found["a.log"].error) == (None, "deleted")
    assert "name the file alone" in found["a.log"].message.render()
    assert found["b.log"].run
    assert [one.id for one in service.store.runs()] == [found["b.log"].run]


def test_a_server_that_dies_while_it_is_asked_is_a_sentence():
    with socket.create_server(("127.0.0.1", 0)) as listening:
        threading.Thread(target=lambda: listening.accept()[0].close(), daemon=True).start()
        port = listening.getsockname()[1]
        there = There(Address(f"http://127.0.0.1:{port}", "token", os.getpid()))
        with pytest.raises(StoreError, match="went away"):
            there.runs()
