"""The object store: everything gets there once, nothing is lost while it can't be reached, evicted rows come back."""

import os
from datetime import UTC, datetime, timedelta
from urllib.request import Request, urlopen

import numpy as np
import pytest
from pyarrow import fs

from storage.intake.ingest import ingest_file
from storage.store import Store, StoreError

moto_server = pytest.importorskip("moto.server", reason="moto is not installed (requirements-dev.txt)")

LATER = datetime.now(UTC) + timedelta(days=40)


@pytest.fixture
def s3(monkeypatch):
    """A stand-in for S3 on a free port, with an empty bucket `runs`."""
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "test")
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    server = served(0)
    monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{server.get_host_and_port()[1]}")
    urlopen(Request(f"{os.environ['AWS_ENDPOINT_URL']}/moto-api/reset", method="POST")).close()
    client().create_dir("runs")
    yield server
    server.stop()


def served(port):
    server = moto_server.ThreadedMotoServer(ip_address="127.0.0.1", port=port, verbose=False)
    server.start()
    return server


def client():
    place = os.environ["AWS_ENDPOINT_URL"].removeprefix("http://")
    return fs.S3FileSystem(endpoint_override=place, scheme="http", allow_bucket_creation=True)


def there():
    found = client().get_file_info(fs.FileSelector("runs/team", recursive=True, allow_not_found=True))
    return {info.path.removeprefix("runs/team/"): info.size for info in found if info.is_file}


@pytest.fixture
def store(tmp_path, monkeypatch):
    monkeypatch.setattr("storage.keeping.archive.FRAME_BYTES", 5000)
    monkeypatch.setattr("storage.keeping.originals.FRAME_BYTES", 5000)
    log = tmp_path / "a.log"
    log.write_text("".join(f"step: {n} loss: {3 - n / 10_000:.4f} lr: 0.0001\n" for n in range(1, 2601)))
    with Store(tmp_path / "data") as opened:
        opened.run_id = ingest_file(opened, log).run_id
        opened.mirror_to("s3://runs/team", pauses=(0.01,))
        yield opened


def test_everything_gets_there_once_and_what_is_new_later(s3, store, tmp_path):
    waiting = store.mirror_status()
    assert (waiting.waiting, waiting.sent, waiting.problem) == (1, 0, None)
    done = store.mirror()
    assert (done.waiting, done.waiting_bytes, done.problem) == (0, 0, None)
    assert done.sent == 4
    local = {str(p.relative_to(store.data_dir)): p.stat().st_size for f in ("archive", "parquet") for p in _files(store, f)}
    assert there() == local
    with (tmp_path / "a.log").open("a") as log:
        log.writelines(f"step: {n} loss: 1.5 lr: 0.0001\n" for n in range(2601, 3001))
    assert ingest_file(store, tmp_path / "a.log").grown
    assert store.mirror().waiting == 0
    assert len(there()) == 7


def _files(store, folder):
    return [path for path in (store.data_dir / folder).rglob("*") if path.is_file()]


def test_nothing_is_lost_while_it_cannot_be_reached(s3, store):
    s3.stop()
    before = store.frame(store.run_id)
    failed = store.mirror()
    assert failed.waiting == 4
    assert "can't be reached" in failed.problem.render()
    assert "sent later" in failed.problem.render()
    assert store.frame(store.run_id) == before
    again = served(s3.get_host_and_port()[1])
    try:
        done = store.mirror()
        assert (done.waiting, done.problem, len(there())) == (0, None, 4)
    finally:
        again.stop()


def test_the_queue_survives_a_restart(s3, store, tmp_path):
    s3.stop()
    waiting = store.mirror().waiting
    store.close()
    with Store(tmp_path / "data") as again:
        again.mirror_to("s3://runs/team", pauses=())
        assert again.mirror_status().waiting == waiting == 4


def test_evicted_rows_are_fetched_when_they_are_needed(s3, store):
    before = store.frame(store.run_id, ["step", "loss"])
    store.cool(1, at=LATER)
    assert store.evict(store.run_id) == 0
    store.mirror()
    assert store.evict(store.run_id) > 0
    assert list(store.data_dir.glob("parquet/run=*/rows-*")) == []
    assert store.frame(store.run_id, ["step", "loss"]) == before
    assert store.verify() == []
    store.evict(store.run_id)
    s3.stop()
    with pytest.raises(StoreError, match="can't be fetched from s3://runs/team"):
        store.frame(store.run_id)
    assert store.latest()["step"].max() == 2600
    assert np.isfinite(store.sparklines()[store.run_id]).all()


def test_what_is_no_object_store_is_said(tmp_path):
    with Store(tmp_path) as store:
        assert store.mirror() is None
        with pytest.raises(StoreError, match="no object store"):
            store.mirror_to("nonsense://x y")
        store.mirror_to((tmp_path / "elsewhere").as_uri())
        assert store.mirror().problem is None
