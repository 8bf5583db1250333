"""MLPerf's `:::MLLOG {…}` lines: one JSON object a line, with a key, a value and metadata, among anything else.

A line with a place in the training (`samples_count`, `step`, `epoch_num` in its metadata) is a row; MLPerf counts samples
there, so the value is kept as `samples_seen` too. A single value without a place is configuration; readings of power or
temperature are telemetry.
"""

import json
import re
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import numpy as np
import pyarrow as pa

from messages import N_, Text
from storage.reading.containers.lines import Lines, Problem, Problems, sample_lines
from storage.reading.containers.objects import MAX_LINE_BYTES, ObjectRows

MARK = b":::MLLOG"
MAX_CONFIG = 500
_PLACES = ("samples_count", "step", "step_num", "epoch_count", "epoch_num", "curr_global_step")
_READING = re.compile(r"power|watt|temperature|utili[sz]ation|energy", re.I)
_LOSS = re.compile(r"loss", re.I)
_EVALUATION = re.compile(r"^eval|^val|accuracy|map_", re.I)
_NO_METRIC = {"file", "lineno"}
_CLEARER = {"throughput": "samples_per_second"}  # MLPerf counts samples everywhere


class Mllog:
    """Reads MLLOG lines; adds `kind`, `step` (as printed: samples), `samples_seen`, `timestamp` (UTC); `config`: the rest."""

    name = "mllog"

    def __init__(self) -> None:
        self.problems: list[Problem] = []
        self.config: dict[str, str | int | float | bool] = {}
        self._objects = ObjectRows()

    @property
    def units(self) -> dict[str, str]:
        """Units of columns; MLPerf prints power in watts."""
        return {**self._objects.units, "power_reading": "W"}

    @staticmethod
    def score(sample: bytes) -> float:
        """Return how sure it is (0…1) that the sample has such lines: the mark says it."""
        lines = sample_lines(sample[: 1 << 16])
        marked = sum(b"MLLOG {" in lines.raw(index) for index in range(len(lines)))
        return min(0.97, 0.5 + 0.2 * marked) if marked else 0.0

    def feed(self, text: bytes, first_line: int, breaks: np.ndarray | None = None) -> pa.Table | None:
        """Return the rows of these whole lines; `first_line` is the number of the first."""
        if MARK not in text:
            return None
        lines = Lines(text, breaks)
        rows: list[dict[str, Any]] = []
        numbers: list[int] = []
        for index, record in self._records(lines, first_line):
            row = self._row(record)
            if row:
                rows.append(row)
                numbers.append(first_line + index)
        table = self._objects.from_rows(rows, numbers) if rows else None
        self._objects.problems = Problems()
        return table

    def finish(self) -> pa.Table | None:
        """Nothing is held back."""
        return None

    def state(self) -> dict[str, Any]:
        """Return what a later process needs to go on, JSON-able."""
        return {"config": self.config, "objects": self._objects.state()}

    def restore(self, state: dict[str, Any]) -> None:
        """Go on from what `state` returned."""
        self.config = dict(state["config"])
        self._objects.restore(state["objects"])

    def _records(self, lines: Lines, first_line: int) -> Iterator[tuple[int, dict[str, Any]]]:
        """Yield (index, object) of the marked lines; what is broken becomes a problem."""
        colons = np.flatnonzero(lines.bytes[: len(lines.bytes) - len(MARK)] == ord(":"))
        places = [place for place in colons.tolist() if lines.block.startswith(MARK, place)]
        owners, firsts = np.unique(np.searchsorted(lines.ends, places, side="right"), return_index=True)
        for place, index in zip((places[first] for first in firsts), owners.tolist(), strict=True):
            end = int(lines.ends[index])
            begin = lines.block.find(b"{", place, end)
            if begin < 0 or end - begin > MAX_LINE_BYTES:
                continue
            try:
                record = json.loads(lines.block[begin:end])
            except (ValueError, RecursionError):
                self.problems.append(Problem(first_line + index, lines.text(index), Text(N_("not valid JSON behind :::MLLOG"))))
                continue
            if (
                isinstance(record, dict)
                and isinstance(record.get("key"), str)
                and "INTERVAL" not in str(record.get("event_type"))
            ):
                yield index, record

    def _row(self, record: dict[str, Any]) -> dict[str, Any] | None:
        """Return the columns of one record, None where it is configuration or only marks an interval."""
        key, value, metadata = record["key"], record.get("value"), record.get("metadata")
        metadata = metadata if isinstance(metadata, dict) else {}
        values = value if isinstance(value, dict) else {key: value}
        numbers = {name: item for name, item in values.items() if isinstance(item, int | float) and not isinstance(item, bool)}
        place = next((metadata[name] for name in _PLACES if isinstance(metadata.get(name), int | float)), None)
        if place is None and not _READING.search(key):
            self._remember(key, value)
            return None
        if not numbers:
            return None
        kind = "eval" if _EVALUATION.search(key) else "train" if any(map(_LOSS.search, numbers)) else "telemetry"
        numbers |= {k: v for k, v in metadata.items() if k not in (*_NO_METRIC, *_PLACES) and isinstance(v, int | float)}
        numbers = {_CLEARER.get(name, name): item for name, item in numbers.items()}
        row: dict[str, Any] = {"kind": kind, **numbers} | ({"step": place, "samples_seen": place} if place is not None else {})
        stamp = _stamp(record.get("time_ms"))
        return {**row, "timestamp": stamp} if stamp else row

    def _remember(self, key: str, value: Any) -> None:
        if isinstance(value, str | int | float | bool) and (key in self.config or len(self.config) < MAX_CONFIG):
            self.config[key[:120]] = value[:300] if isinstance(value, str) else value


def _stamp(milliseconds: object) -> str | None:
    """Return a time as text in UTC, None where it is none."""
    if not isinstance(milliseconds, int | float) or not 0 < milliseconds < 4e12:
        return None
    return datetime.fromtimestamp(milliseconds / 1000, UTC).isoformat(timespec="milliseconds")
