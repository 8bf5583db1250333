"""What a crash left, found and put in order when the store is opened: said in a note, never silently.

The warehouse's write-ahead log is replayed up to its last whole transaction. The mark, a small file, says up to which version
was committed in the life of the machine: where the warehouse is behind it, whole transactions were lost from a torn log.
What is followed is read on from the offsets that the warehouse knows, so nothing of it is lost.
"""

import json
import os
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import duckdb

from messages import N_, Text
from storage.keeping import parquet, runs
from storage.keeping.archive import clean
from storage.keeping.schema import now

FILE = "mark"
CLOSED = b"closed"


@dataclass(frozen=True)
class Note:
    """Something a person should know of the store: when it was found (UTC), one word for it, and a sentence."""

    made: datetime
    kind: str
    message: Text


class Mark:
    """The version committed last, in a file of its own; not synced: it must survive the process, not the machine."""

    def __init__(self, data_dir: Path) -> None:
        self._file = os.open(data_dir / FILE, os.O_RDWR | os.O_CREAT, 0o644)
        found = os.pread(self._file, 40, 0).split()
        self.version = int(found[0]) if found and found[0].isdigit() else 0
        self.closed = not found or found[-1] == CLOSED

    def set(self, version: int) -> None:
        """Note a version that was committed."""
        self.version = max(self.version, version)
        self._write(b"open  ")

    def close(self) -> None:
        """Note that the store was closed as it should be."""
        self._write(CLOSED)
        os.close(self._file)

    def _write(self, state: bytes) -> None:
        os.pwrite(self._file, b"%020d %s" % (self.version, state), 0)


def recover(cursor: duckdb.DuckDBPyConnection, data_dir: Path, mark: Mark) -> None:
    """Remove what was written and never committed, and note what a crash has cost; the caller commits."""
    cut = clean(data_dir / "archive", runs.archived(cursor)) + parquet.clean(cursor, data_dir)
    version = runs.newest_version(cursor)
    if mark.version > version:
        message = N_(
            "The store was not closed properly and the end of its write-ahead log is damaged: it is as it was at change "
            "{version} of {last}. Followed logs are read on from there; give files that were read once to it again."
        )
        _note(cursor, "torn", Text(message, {"version": version, "last": mark.version}))
    elif cut and not mark.closed:
        message = N_(
            "The store was not closed properly. {files} unfinished files were cut back; every whole transaction is there."
        )
        _note(cursor, "cut", Text(message, {"files": len(cut)}))
    mark.version = version
    mark.set(version)


def _note(cursor: duckdb.DuckDBPyConnection, kind: str, message: Text) -> None:
    cursor.execute("insert into notes values (?, ?, ?, ?)", [now(), kind, message.template, json.dumps(dict(message.values))])


def load_notes(cursor: duckdb.DuckDBPyConnection) -> list[Note]:
    """Return all notes, the newest first."""
    found = cursor.execute('select made, kind, template, "values" from notes order by made desc').fetchall()
    return [Note(made.replace(tzinfo=UTC), kind, Text(template, json.loads(values))) for made, kind, template, values in found]
