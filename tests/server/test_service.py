"""The service: what it keeps in order by itself."""

from server.service import Service
from server.settings import Settings


def test_uploads_that_a_crash_cut_off_are_swept_when_the_store_opens(tmp_path):
    left = tmp_path / "spool" / "0123abcd"
    left.parent.mkdir()
    left.write_bytes(b"Epoch:[1/1](1/10), loss: 3.0\n")
    Service.open(Settings(data_dir=tmp_path, read_only=False)).close()
    assert not left.exists()
