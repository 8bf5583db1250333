"""The archive and the Parquet files once more in an object store (`s3://bucket/folder`, or any URI that Arrow knows).

There is no queue that could be lost: what is to be sent is what the warehouse knows less what `mirrored` says was sent. So
a place that can't be reached costs nothing but time: everything is sent when it is there again. Files are sent whole, and
seen there only when whole. Published rows that are no longer in the local folder are fetched back when they are needed.
"""

import logging
import os
import threading
import time
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import duckdb
from pyarrow import fs

from messages import N_, Text
from storage.keeping import runs
from storage.keeping.schema import StoreError, now

LOG = logging.getLogger("runvitals.mirror")
CHUNK = 1 << 20
PAUSES = (1.0, 2.0, 4.0)  # seconds between the tries of one file
CONNECT_SECONDS, REQUEST_SECONDS = 5.0, 60.0


@dataclass(frozen=True)
class MirrorStatus:
    """How far the copy in the object store is: files and bytes that wait, the last success (UTC) and what hinders it now."""

    place: str
    waiting: int
    waiting_bytes: int
    sent: int
    last_sent: datetime | None
    problem: Text | None


def file_system(uri: str) -> tuple[fs.FileSystem, str]:
    """Return the object store of a URI and the folder in it. Raises StoreError for what is no such URI.

    Keys, region and endpoint come from the environment as for every S3 client (`AWS_…`, `AWS_ENDPOINT_URL`) or the URI.
    """
    try:
        if not uri.startswith("s3://") or "?" in uri:
            return fs.FileSystem.from_uri(uri)
        endpoint = os.environ.get("AWS_ENDPOINT_URL_S3") or os.environ.get("AWS_ENDPOINT_URL") or ""
        scheme, _, host = endpoint.rpartition("://")
        options: dict[str, Any] = {"connect_timeout": CONNECT_SECONDS, "request_timeout": REQUEST_SECONDS}
        options |= {"endpoint_override": host, "scheme": scheme or "https"} if host else {}
        return fs.S3FileSystem(**options), uri.removeprefix("s3://").rstrip("/")
    except (ValueError, OSError) as error:
        raise StoreError(Text(N_("{place} is no object store: {error}"), {"place": uri, "error": str(error)})) from error


def wanted(cursor: duckdb.DuckDBPyConnection) -> dict[str, int]:
    """Return the files that belong into the object store, with their committed bytes; by path in the data directory."""
    sql = "select p.path, p.bytes from pieces p join runs r on p.run = r.no where r.deleted is null"
    files = dict(cursor.execute(sql).fetchall())
    return files | {f"archive/{name}": size for name, size in runs.archived(cursor).items() if size}


def waiting(cursor: duckdb.DuckDBPyConnection) -> dict[str, int]:
    """Return the files of which the object store does not have all bytes yet."""
    sent = dict(cursor.execute("select path, bytes from mirrored").fetchall())
    return {path: size for path, size in wanted(cursor).items() if sent.get(path) != size}


def note_sent(cursor: duckdb.DuckDBPyConnection, path: str, size: int) -> None:
    """Note that the first `size` bytes of a file are in the object store."""
    cursor.execute("delete from mirrored where path = ?", [path])
    cursor.execute("insert into mirrored values (?, ?, ?)", [path, size, now()])


def send(target: tuple[fs.FileSystem, str], data_dir: Path, path: str, size: int) -> None:
    """Send the first `size` bytes of a file. Raises OSError; the object store has then the file as it was before."""
    files, folder = target
    name = f"{folder}/{path}"
    if not isinstance(files, fs.S3FileSystem):
        files.create_dir(name.rpartition("/")[0], recursive=True)
    left = size
    # Not compressed: by default Arrow compresses what is called .zst once more.
    with (data_dir / path).open("rb") as source, files.open_output_stream(name, compression=None) as stream:
        while left and (data := source.read(min(CHUNK, left))):
            stream.write(data)
            left -= len(data)
    if left:
        raise OSError(f"{path} ends {left} bytes too early")
    found = files.get_file_info(name)
    if found.size != size:
        raise OSError(f"{name} has {found.size} of {size} bytes after sending")


def fetch(target: tuple[fs.FileSystem, str], data_dir: Path, path: str) -> None:
    """Put a file from the object store into the data directory, whole or not at all. Raises OSError."""
    files, folder = target
    local = data_dir / path
    local.parent.mkdir(parents=True, exist_ok=True)
    unfinished = local.with_name(f"{local.name}.{threading.get_ident()}.fetched")
    try:
        with files.open_input_stream(f"{folder}/{path}", compression=None) as stream, unfinished.open("wb") as file:
            while data := stream.read(CHUNK):
                file.write(data)
        unfinished.rename(local)
    finally:
        unfinished.unlink(missing_ok=True)


class Problem(Exception):
    """The object store does not take or give something; `message` is the sentence."""

    def __init__(self, place: str, error: Exception) -> None:
        gaps = {"place": place, "error": str(error)[:300]}
        self.message = Text(N_("{place} can't be reached: {error}. Everything is kept here and sent later."), gaps)
        super().__init__(self.message.render())


class Mirror:
    """Sends what waits to the object store `place`, one file after the other; a file that fails is tried again."""

    def __init__(self, place: str, data_dir: Path, *, pauses: tuple[float, ...] = PAUSES) -> None:
        self.place = place
        self._target = file_system(place)
        self._data_dir = data_dir
        self._pauses = pauses
        self.problem: Text | None = None

    def send(self, path: str, size: int) -> bool:
        """Send one file, trying again with pauses; say whether it is there. `problem` says why not."""
        for pause in (*self._pauses, None):
            try:
                send(self._target, self._data_dir, path, size)
                self.problem = None
                return True
            except OSError as error:  # pyarrow's errors of the network are OSError too
                if not (self._data_dir / path).exists():
                    return False  # aged or replaced since it was looked up: not wanted any more
                self.problem = Problem(self.place, error).message
                LOG.warning("%s was not sent: %s", path, error)
            if pause is not None:
                time.sleep(pause)
        return False

    def fetch(self, path: str) -> None:
        """Bring a file back that is not here. Raises StoreError with the reason when it can't be had."""
        try:
            fetch(self._target, self._data_dir, path)
        except OSError as error:
            gaps = {"file": path, "place": self.place, "error": str(error)[:300]}
            message = N_("{file} is not here and can't be fetched from {place}: {error}")
            raise StoreError(Text(message, gaps)) from error


def status(cursor: duckdb.DuckDBPyConnection, place: str, problem: Text | None) -> MirrorStatus:
    """Return how far the copy is."""
    left = waiting(cursor)
    count, last = cursor.execute("select count(*), max(made) from mirrored").fetchall()[0]
    return MirrorStatus(place, len(left), sum(left.values()), count, last and last.replace(tzinfo=UTC), problem)
