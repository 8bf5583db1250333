"""TensorBoard's event files: binary records of (wall time, step, tag, value), read without TensorFlow.

The format: each record is a length (8 bytes), a checksum of it (4), a protocol-buffer message `Event` and its checksum (4).
Source: the TFRecord and event.proto definitions of TensorFlow. Scalars are read in both writings, `simple_value` (older)
and `tensor`; pictures, histograms and texts are passed over. Events of one step that follow each other are one row.
"""

from base64 import b64decode, b64encode
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import google_crc32c
import pyarrow as pa

from messages import N_, Text
from storage.reading.containers.event_message import scalars
from storage.reading.containers.flatten import MAX_COLUMNS
from storage.reading.containers.lines import Problem
from storage.reading.containers.objects import ObjectRows

MAX_RECORD = 16 << 20  # bytes; a larger record is a picture or a model graph and passed over
_VERSION = b"brain.Event:"
_OTHER_AXIS = (" vs samples", " vs steps", " vs tokens")  # Megatron writes each value twice, once with samples as the step


class TfEvents:
    """Reads the bytes of an event file in pieces of any size; `line` of a row is the number of its first record."""

    name = "tfevents"
    raw = True  # it wants the bytes of the file, not lines of text

    def __init__(self) -> None:
        self.problems: list[Problem] = []
        self.units: dict[str, str] = {}
        self._objects = ObjectRows()
        self._held = b""
        self._skip = 0  # bytes of a large record that are still to come
        self._records = 0
        self._row: dict[str, Any] = {}
        self._line = 0
        self._broken = False

    @staticmethod
    def score(sample: bytes) -> float:
        """Return how sure it is (0…1) that a file beginning so is an event file: its first record names its version."""
        return 1.0 if len(sample) > 24 and _VERSION in sample[12:64] and _sound(sample[:12]) else 0.0

    def feed(self, data: bytes, first_line: int = 1) -> pa.Table | None:
        """Return the rows that are complete with these bytes."""
        rows: list[dict[str, Any]] = []
        numbers: list[int] = []
        for message in self._messages(data):
            self._records += 1
            for step, seconds, tag, value in self._scalars(message):
                if tag.endswith(_OTHER_AXIS):
                    continue
                if self._row and (self._row["step"] != step or tag in self._row):
                    rows.append(self._row)
                    numbers.append(self._line)
                    self._row = {}
                if not self._row:
                    self._row, self._line = {"step": step, "timestamp": _stamp(seconds)}, self._records
                if len(self._row) < MAX_COLUMNS:
                    self._row[tag] = value
        return self._table(rows, numbers)

    def finish(self) -> pa.Table | None:
        """Return the last row; a cut record is a problem."""
        if self._held or self._skip:
            self.problems.append(Problem(self._records + 1, "", Text(N_("the last record is cut"))))
        row, self._row = self._row, {}
        return self._table([row], [self._line]) if row else None

    def state(self) -> dict[str, Any]:
        """Return what a later process needs to go on, JSON-able."""
        kept = {"skip": self._skip, "records": self._records, "row": self._row, "line": self._line, "broken": self._broken}
        return {**kept, "held": b64encode(self._held).decode()}

    def restore(self, state: dict[str, Any]) -> None:
        """Go on from what `state` returned."""
        self._held, self._skip, self._records = b64decode(state["held"]), state["skip"], state["records"]
        self._row, self._line, self._broken = dict(state["row"]), state["line"], state["broken"]

    def _table(self, rows: list[dict[str, Any]], numbers: list[int]) -> pa.Table | None:
        if not rows:
            return None
        for row in rows:
            row["kind"] = _kind(row)
        return self._objects.from_rows(rows, numbers)

    def _scalars(self, message: bytes) -> list[tuple[int, float, str, float]]:
        try:
            return list(scalars(message))
        except ValueError:
            self.problems.append(Problem(self._records, "", Text(N_("this record is no event"))))
            return []

    def _messages(self, data: bytes) -> Iterator[bytes]:
        """Yield the messages that are complete; hold the rest back. Behind a damaged length nothing can be read any more."""
        if self._broken:
            return
        passed = min(self._skip, len(data))
        self._skip -= passed
        data = self._held + data[passed:]
        place = 0
        while place + 12 <= len(data):
            if not _sound(data[place : place + 12]):
                self._broken = True
                self.problems.append(
                    Problem(self._records + 1, "", Text(N_("the length of this record is damaged: the rest is not read")))
                )
                place = len(data)
                break
            length = int.from_bytes(data[place : place + 8], "little")
            end = place + 16 + length
            if length > MAX_RECORD:
                self._skip = max(0, end - len(data))
                self._records += 1
                place = min(end, len(data))
            elif end > len(data):
                break
            else:
                message = data[place + 12 : end - 4]
                if _masked(message) == data[end - 4 : end]:
                    yield message
                else:
                    self._records += 1
                    self.problems.append(Problem(self._records, "", Text(N_("the checksum of this record does not hold"))))
                place = end
        self._held = data[place:]


def _stamp(seconds: float) -> str:
    """Return a wall time as text, empty where it is none."""
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds") if 0 < seconds < 4e9 else ""


def _kind(row: dict[str, Any]) -> str:
    """Return eval where every tag of the row says so, else train."""
    tags = [tag.lower() for tag in row if tag not in ("step", "timestamp", "kind")]
    return (
        "eval"
        if tags and all(tag.startswith(("eval", "val", "test", "dev", "lm loss validation")) for tag in tags)
        else "train"
    )


def _sound(head: bytes) -> bool:
    """Return whether the checksum of a record's length holds."""
    return _masked(head[:8]) == head[8:12]


def _masked(data: bytes) -> bytes:
    """Return the checksum as TFRecord writes it: CRC-32C, rotated and shifted."""
    crc = google_crc32c.value(data)
    return ((((crc >> 15) | (crc << 17)) + 0xA282EAD8) & 0xFFFFFFFF).to_bytes(4, "little")
