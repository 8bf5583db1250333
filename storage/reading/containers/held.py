"""Rows that wait until enough of their kind came: once a table or a block comes again and again, it is a log."""

from typing import Any

import pyarrow as pa

from storage.reading.containers.lines import Problem
from storage.reading.containers.objects import ObjectRows

TIMES = 3  # rows that make a log
MAX_HELD = 100_000


class Held:
    """Holds rows back until TIMES of them came; from then on they pass at once."""

    own_numbers = True  # `feed` takes the lines' own numbers: a row may be released only blocks later

    def __init__(self) -> None:
        self.problems: list[Problem] = []
        self.rows = ObjectRows()
        self._held: list[tuple[int, dict[str, Any]]] = []
        self._seen = 0

    @property
    def units(self) -> dict[str, str]:
        """Units of the columns whose numbers were printed as text with a unit."""
        return self.rows.units

    def take(self, line: int, row: dict[str, Any]) -> None:
        """Add a row that was printed in this line."""
        self._seen += 1
        if len(self._held) < MAX_HELD:
            self._held.append((line, row))

    def release(self) -> pa.Table | None:
        """Return the rows that wait, once there were enough; else None."""
        if not self._held or self._seen < TIMES:
            return None
        lines, rows = [line for line, _ in self._held], [row for _, row in self._held]
        self._held = []
        return self.rows.from_rows(rows, lines)

    def finish(self) -> pa.Table | None:
        """Drop what came too seldom."""
        table, self._held = self.release(), []
        return table

    def state(self) -> dict[str, Any]:
        """Return what a later process needs to go on, JSON-able."""
        return {"held": self._held, "seen": self._seen, "rows": self.rows.state()}

    def restore(self, state: dict[str, Any]) -> None:
        """Go on from what `state` returned."""
        self._held = [(line, dict(row)) for line, row in state["held"]]
        self._seen = state["seen"]
        self.rows.restore(state["rows"])
