"""Tables of name and value in a box of dashes, one box a record, as stable-baselines3 and others print them.

    | rollout/           |             |
    |    ep_len_mean     | 200         |

A name that ends with `/` opens a section: its name stands before those below it.
"""

import re
from typing import Any

import numpy as np
import pyarrow as pa

from messages import N_, Text
from storage.reading.containers.flatten import MAX_COLUMNS
from storage.reading.containers.lines import Lines, Problem, sample_lines
from storage.reading.containers.objects import ObjectRows
from storage.reading.containers.values import to_numbers

_EDGE = re.compile(rb"^\s*[-=+]{5,}\s*$")
_ROW = re.compile(rb"^\s*\|(\s*)([A-Za-z_][\w ./()%-]{0,100}?)\s*\|\s*([^|]{0,60}?)\s*\|\s*$")


class Boxes:
    """Reads boxes; a box that the block cuts is held back until its end."""

    own_numbers = True  # `feed` takes the lines' own numbers: a row may be whole only blocks later
    name = "boxes"

    def __init__(self) -> None:
        self.problems: list[Problem] = []
        self._objects = ObjectRows()
        self._box: dict[str, str] = {}
        self._section = ""
        self._begin = 0

    @property
    def units(self) -> dict[str, str]:
        """Units of the columns whose numbers were printed as text with a unit."""
        return self._objects.units

    @staticmethod
    def score(sample: bytes) -> float:
        """Return how sure it is (0…1) that the sample holds such boxes: two whole ones with numbers."""
        reader = Boxes()
        lines = sample_lines(sample[: 1 << 17])
        table = reader.feed(lines.block, 1)
        return 0.0 if table is None else 0.9 if table.num_rows > 1 else 0.5

    def feed(self, text: bytes, first_line: int, own: np.ndarray | None = None) -> pa.Table | None:
        """Return one row for each box that ends in these whole lines, at the line where it begins."""
        if b"|" not in text and not self._box:
            return None
        lines = Lines(text)
        barred = lines.first() == ord("|")
        behind = np.concatenate(([bool(self._box)], barred[:-1]))
        rows: list[dict[str, Any]] = []
        numbers: list[int] = []
        for index in np.flatnonzero(barred | behind).tolist():
            raw = lines.raw(index)
            if barred[index] and (found := _ROW.match(raw)):
                self._take(found, int(own[index]) if own is not None else first_line + index)
            elif self._box:
                row = self._close() if _EDGE.match(raw) else None
                if row:
                    rows.append(row)
                    numbers.append(self._begin)
                self._box, self._section = {}, ""
        return self._objects.from_rows(rows, numbers) if rows else None

    def finish(self) -> pa.Table | None:
        """Nothing more: a box without its lower edge is not whole."""
        if self._box:
            self.problems.append(Problem(self._begin, " | ".join(self._box)[:300], Text(N_("the box is not closed"))))
        return None

    def state(self) -> dict[str, Any]:
        """Return what a later process needs to go on, JSON-able."""
        return {"box": self._box, "section": self._section, "begin": self._begin, "objects": self._objects.state()}

    def restore(self, state: dict[str, Any]) -> None:
        """Go on from what `state` returned."""
        self._box, self._section, self._begin = dict(state["box"]), state["section"], state["begin"]
        self._objects.restore(state["objects"])

    def _take(self, found: re.Match[bytes], line: int) -> None:
        """Take a line `| name | value |` of a box."""
        indent, name, value = (group.decode("utf-8", "replace") for group in found.groups())
        if not self._box and not self._section:
            self._begin = line
        if name.endswith("/") and not value:
            self._section = name
        elif len(self._box) < MAX_COLUMNS:
            self._box[f"{self._section if len(indent) > 1 else ''}{name.strip()}"] = value

    def _close(self) -> dict[str, Any] | None:
        """Return the box as a row if most of its values are numbers: any other table is no record."""
        read = to_numbers(pa.array(list(self._box.values()), pa.string()))
        numbers = dict(zip(self._box, read.values.to_pylist(), strict=True))
        given = {name: value for name, value in numbers.items() if value is not None}
        return given if len(given) >= 2 and 2 * len(given) >= len(numbers) else None
