"""Tables in Markdown whose rows are records: a notebook prints them, and so do some loops.

    | step | loss |
    |-----:|------|
    |   10 | 2.5  |

Only a table with a column that says the step or the epoch, and one that training is judged by, is a log.
"""

import re
from typing import Any

import numpy as np
import pyarrow as pa

from storage.reading import columns
from storage.reading.containers.flatten import MAX_COLUMNS
from storage.reading.containers.held import Held
from storage.reading.containers.jsonl import METRIC
from storage.reading.containers.lines import Lines, sample_lines

_RULE = re.compile(r"\|?\s*:?-{2,}:?\s*(?:\|\s*:?-{2,}:?\s*)*\|?")
_NUMBER = re.compile(r"[+-]?[0-9][0-9.,]*(?:[eE][+-]?[0-9]+)?(?:\s*/\s*[0-9][0-9,]*)?|nan|[+-]?inf", re.IGNORECASE)
_CELL = re.compile(_NUMBER.pattern + r"|[+-]?[0-9][0-9.,]*\s*[%A-Za-z/]{1,12}|[0-9:]{4,}", re.IGNORECASE)


class Markdown(Held):
    """Reads the rows of such tables; one that goes on in the next block keeps its header."""

    name = "markdown"

    def __init__(self) -> None:
        super().__init__()
        self._header: list[str] = []
        self._before: list[str] = []  # the cells of the line before, which may be a header

    @staticmethod
    def score(sample: bytes) -> float:
        """Return how sure it is (0…1) that the sample holds such a table: 0.9 from the third row on."""
        table = Markdown().feed(sample_lines(sample[: 1 << 17]).block, 1)
        return 0.9 if table is not None else 0.0

    def feed(self, text: bytes, first_line: int, numbers: np.ndarray | None = None) -> pa.Table | None:
        """Return the rows in these whole lines, once there were enough of them."""
        lines = Lines(text)
        barred = np.flatnonzero(lines.first() == ord("|"))
        for index in barred.tolist():
            line = lines.whole(index)
            cells = [cell.strip() for cell in line.strip("|").split("|")]
            if _RULE.fullmatch(line):
                self._header = self._before if len(self._before) == len(cells) and _is_header(self._before) else []
            elif len(cells) == len(self._header) and (row := self._row(cells)):
                self.take(int(numbers[index]) if numbers is not None else first_line + index, row)
            self._before = cells if len(cells) <= MAX_COLUMNS else []
        return self.release()

    def state(self) -> dict[str, Any]:
        """Return what a later process needs to go on, JSON-able."""
        return super().state() | {"header": self._header, "before": self._before}

    def restore(self, state: dict[str, Any]) -> None:
        """Go on from what `state` returned."""
        super().restore(state)
        self._header, self._before = list(state["header"]), list(state["before"])

    def _row(self, cells: list[str]) -> dict[str, Any] | None:
        given = {name: cell for name, cell in zip(self._header, cells, strict=True) if _CELL.fullmatch(cell)}
        places = [name for name in given if _is_place(name) and _NUMBER.fullmatch(given[name])]
        return given if places and len(given) > len(places) else None


def _is_place(name: str) -> bool:
    return columns.resolve(name).position in ("step", "epoch")


def _is_header(cells: list[str]) -> bool:
    measured = any(METRIC.search(cell) and not _is_place(cell) for cell in cells)
    return len(set(cells)) == len(cells) and measured and any(map(_is_place, cells))
