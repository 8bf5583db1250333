"""Records that are printed over several lines: what the lines behind a training record add goes into its row.

The last such record waits until the next one comes, so that nothing is lost where a log is read as it grows.
"""

from base64 import b64decode, b64encode
from typing import Any

import numpy as np
import pyarrow as pa

from storage.reading import rows

MAX_HELD = 500  # rows that wait at most


class Merger:
    """Joins `more` rows to the training row before them; rows of formats that print one line a record pass at once."""

    def __init__(self) -> None:
        self._held: pa.Table | None = None
        self.joined = 0  # lines that were joined to a row

    def feed(self, parts: list[pa.Table], *, final: bool = False) -> pa.Table | None:
        """Return the rows that are complete, in the order of the log; None where there are none."""
        parts = ([self._held] if self._held is not None else []) + ([rows.joined(parts)] if parts else [])
        self._held = None
        if not parts:
            return None
        table = parts[0] if len(parts) == 1 else pa.concat_tables(parts, promote_options="default").combine_chunks()
        begins = np.flatnonzero(rows.flags(table, "open") & rows.is_kind(table, "train"))
        if not len(begins):
            return _alone(table)
        before = table.num_rows
        table, begins = _merged(table, begins)
        self.joined += before - table.num_rows
        last = int(begins[-1])
        if final or table.num_rows - last > MAX_HELD:
            return table
        self._held = table.slice(last)
        return table.slice(0, last) if last else None

    @property
    def held_line(self) -> int | None:
        """The line of the first row that waits, None if none does."""
        return None if self._held is None else int(self._held["line"][0].as_py())

    def state(self) -> dict[str, Any]:
        """Return what must be remembered, JSON-able: the rows that wait are text."""
        return {"held": self._written(), "joined": self.joined}

    def _written(self) -> str | None:
        if self._held is None:
            return None
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, self._held.schema) as stream:
            stream.write_table(self._held)
        return b64encode(sink.getvalue()).decode()

    def restore(self, state: dict[str, Any]) -> None:
        """Go on from what `state` returned."""
        held, self.joined = state["held"], state["joined"]
        self._held = None if held is None else pa.ipc.open_stream(b64decode(held)).read_all().combine_chunks()


def _alone(table: pa.Table) -> pa.Table:
    """Return the rows with those that have no record to join as telemetry."""
    joins = rows.is_kind(table, "more")
    return rows.as_telemetry(table, joins) if joins.any() else table


def _merged(table: pa.Table, begins: np.ndarray) -> tuple[pa.Table, np.ndarray]:
    """Return the table with `more` rows joined to the record before them, and where the records are in it."""
    joins = np.flatnonzero(rows.is_kind(table, "more"))
    joins = joins[joins > begins[0]]
    if not len(joins):
        return _alone(table), begins
    target = begins[np.searchsorted(begins, joins) - 1]
    for name in rows.metrics(table):
        column = table[name].combine_chunks()
        valid = column.is_valid().to_numpy(zero_copy_only=False)
        wanted = valid[joins] & ~valid[target]
        if not wanted.any():
            continue
        values = column.fill_null(0.0).to_numpy(zero_copy_only=False).copy()
        into, sources = target[wanted][::-1], joins[wanted][::-1]  # the first of two lines wins
        values[into] = values[sources]
        valid = valid.copy()
        valid[into] = True
        table = table.set_column(table.column_names.index(name), name, pa.array(values, mask=~valid))
    keep = np.ones(table.num_rows, bool)
    keep[joins] = False
    return _alone(table.filter(pa.array(keep))), np.cumsum(keep)[begins] - 1
