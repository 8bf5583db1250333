"""Tables among other text, as notebooks, fastai and spaCy print them and ultralytics draws them: a header, rows of numbers.

    epoch     train_loss  valid_loss  time
    0         2.500000    2.625000    00:12

Names stand apart by tabs or by two blanks; the first says the step or the epoch, and one is something that training is
judged by. A row has as many cells, all of them numbers; one that a progress bar ends counts when the bar is full.
"""

import re
from typing import Any

import numpy as np
import pyarrow as pa

from storage.reading import columns
from storage.reading.containers import prefix
from storage.reading.containers.flatten import MAX_COLUMNS
from storage.reading.containers.held import Held
from storage.reading.containers.jsonl import METRIC
from storage.reading.containers.lines import Lines, as_lines, sample_lines

_BEGINS = re.compile(rb"[#|]? *(?:epochs?|steps?|iter(?:ation)?s?|global_step|ep|e(?= +#))(?:\t| {2,})", re.IGNORECASE)
_MAYBE = r"(?i)(?:epochs?|steps?|iter(?:ation)?s?|global_step|ep|^e +#)(?:\t| {2,})"
_SHORT = {"E": "epoch", "#": "step"}  # as spaCy calls them
_APART = re.compile(r"\t| {2,}")
_NAME = re.compile(r"[A-Za-z][\w ./()@:%-]{0,40}")
_CELL = re.compile(
    r"[+-]?(?:[0-9][0-9.,]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?(?:%|[A-Za-z]{1,3})?|[+-]?(?:nan|inf)|[0-9:.]{4,12}", re.IGNORECASE
)
_ROW = r"[0-9](?:\t| {2,})\S.*[0-9a-zA-Z%-]\s*$|100%"
_PLACE = re.compile(r"(?P<place>[0-9]+)(?:/(?P<total>[0-9]+))?")
_BAR = re.compile(r":? +(?P<percent>[0-9]{1,3})%(?:\|| ?[\u2500-\u257f]).*")  # what a progress bar adds to a row
_NOTHING = re.compile(r"\bNo log\b|\bNone\b|(?<=\s)-(?=\s|$)", re.IGNORECASE)
MAX_LINE = 2000  # bytes of a row


class Headed(Held):
    """Reads the rows of such tables; one that goes on in the next block keeps its header."""

    name = "headed"

    def __init__(self) -> None:
        super().__init__()
        self._header: list[str] = []
        self._tabs = False
        self._drawn = ""  # the place of the last row with a full bar: it is drawn twice

    @property
    def inside(self) -> bool:
        """Whether a table has begun that may go on in the next block."""
        return bool(self._header)

    @staticmethod
    def score(sample: bytes) -> float:
        """Return how sure it is (0…1) that the sample holds such a table: 0.9 from the third row on."""
        return 0.9 if Headed().feed(sample_lines(sample[: 1 << 17]).block, 1) is not None else 0.0

    def feed(self, text: bytes | Lines, first_line: int, numbers: np.ndarray | None = None) -> pa.Table | None:
        """Return the rows in these whole lines, once there were enough of them."""
        lines = as_lines(text)
        headers = lines.fits(_MAYBE)
        begun = self._header or headers.any()
        for index in np.flatnonzero(headers | (_ends_of_rows(lines) if begun else False)).tolist():
            whole = lines.raw(index)[: MAX_LINE + 1]
            raw = whole[prefix.length(whole) :].strip()
            if _BEGINS.match(raw):
                self._begin(raw.decode("utf-8", "replace"))
            elif self._header and len(whole) <= MAX_LINE and (row := self._row(raw.decode("utf-8", "replace"))):
                stamp = prefix.stamp(whole)
                row |= {"timestamp": stamp} if stamp and "timestamp" not in row else {}
                self.take(int(numbers[index]) if numbers is not None else first_line + index, row)
        return self.release()

    def state(self) -> dict[str, Any]:
        """Return what a later process needs to go on, JSON-able."""
        return super().state() | {"header": self._header, "tabs": self._tabs, "drawn": self._drawn}

    def restore(self, state: dict[str, Any]) -> None:
        """Go on from what `state` returned."""
        super().restore(state)
        self._header, self._tabs, self._drawn = list(state["header"]), state["tabs"], state["drawn"]

    def _begin(self, line: str) -> None:
        """Take a line as the header of the rows that follow, if it is one."""
        names = [_SHORT.get(name.strip(), name.strip()) for name in _APART.split(line.lstrip("#| "))]
        if _is_header(names):
            self._header, self._tabs, self._drawn = names, "\t" in line, ""

    def _row(self, line: str) -> dict[str, Any] | None:
        """Return the cells of a row by name, None for anything else."""
        bar = _BAR.search(line)
        text = _NOTHING.sub("?", line[: bar.start()] if bar else line)
        cells = [cell.strip() for cell in (text.split("\t") if self._tabs else text.split())]
        place = _PLACE.fullmatch(cells[0])
        if place is None or len(cells) != len(self._header) or not all(c == "?" or _CELL.fullmatch(c) for c in cells[1:]):
            return None
        if bar and (bar["percent"] != "100" or self._drawn == cells[0]):
            return None
        self._drawn = cells[0] if bar else ""
        total = {_total(self._header[0]): place["total"]} if place["total"] else {}
        given = {name: cell for name, cell in zip(self._header[1:], cells[1:], strict=True) if cell != "?"}
        return {self._header[0]: place["place"]} | total | given if given else None


def _ends_of_rows(lines: Lines) -> np.ndarray:
    """Return which lines may be rows: they end with a number or its unit, or hold a full progress bar."""
    return lines.fits(_ROW)


def _total(name: str) -> str:
    return "epochs" if columns.resolve(name).position == "epoch" else "total_steps"


def _is_header(names: list[str]) -> bool:
    """Say whether these are the names of a record: where it is, and something that training is judged by."""
    if not 2 <= len(names) <= MAX_COLUMNS or len(set(names)) < len(names) or not all(map(_NAME.fullmatch, names)):
        return False
    placed = columns.resolve(names[0]).position in ("step", "epoch")
    measured = (name for name in names[1:] if columns.resolve(name).position is None)
    return placed and any(METRIC.search(name) or columns.is_known(name) for name in measured)
