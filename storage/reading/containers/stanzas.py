"""Records that stand under a heading: a line that says only where the training is, then names and values, one a line.

    ===== Step 100/1000 =====
    loss: 2.5
    lr: 3e-4

A heading holds nothing but a step, and the epoch perhaps (with `=` between, it belongs to another format). A value line
holds nothing but names and numbers, and none that says a place; headings of parts (`Timing:`) may stand between. `took` are
the numbers of the lines that were understood.
"""

import re
from typing import Any

import numpy as np
import pyarrow as pa

from storage.reading import columns, tokens
from storage.reading.containers.held import TIMES, Held
from storage.reading.containers.lines import Lines, as_lines, sample_lines
from storage.reading.template import number

MAX_LINES = 200  # of one record
SHORT_LOG = 0.1  # share of a log that must be value lines where there are too few records to repeat
_PLACE = r"(?:global[ _]?steps?|steps?|iterations?|iter|updates?|epochs?|batch)"
_NUMBER = r"[0-9][0-9,]*"
_PLACED = rf"(?:(?i:\b{_PLACE}\b)|步数|轮次|第)[ :#\[(]*{_NUMBER}(?: ?(?:/|of) ?{_NUMBER})?[ \])%]*"
_WORDS = r"(?:(?i:training|train|metrics|results|summary|report|stats|log|logs|completed?|finished|done|info)\b|[轮步])"
_STAMPED = r"(?:\[?[0-9]{4}[-/][0-9]{2}[-/][0-9]{2}[ T][0-9:.,]+\]?[ |-]*)?"
_BETWEEN = rf"(?:[^\pL\pN\n]|{_WORDS})*"
_HEADING = rf"^{_STAMPED}{_BETWEEN}(?:{_PLACED}{_BETWEEN})+\n?$"
_RULER = re.compile(r"\W*")
_ONE = re.compile(
    rf"(?i:(?P<name>{_PLACE})\b|第)[ :#\[(]*(?P<value>{_NUMBER})(?: ?(?:/|of) ?(?P<total>{_NUMBER}))? ?(?P<unit>[轮步])?"
)
_PART = re.compile(r"[^\d{}\[\]]{1,60}:\s*")  # `Timing:` between the values of a record
_PHASE = re.compile(r"^\W*(?P<phase>val|valid|validation|test|eval|dev)\b", re.IGNORECASE)


class Stanzas(Held):
    """Reads such records; one that the block cuts goes on in the next."""

    name = "stanzas"

    def __init__(self) -> None:
        super().__init__()
        self.took: list[int] = []
        self.lines = 0  # that were understood so far
        self.log_lines = 0  # of the whole log, once it is known
        self._row: dict[str, Any] = {}
        self._line = self._lines = 0

    @property
    def inside(self) -> bool:
        """Whether a record has begun that may go on in the next block."""
        return bool(self._row)

    @staticmethod
    def score(sample: bytes) -> float:
        """Return how sure it is (0…1) that the sample holds such records: 0.9 from the third on."""
        table = Stanzas().feed(sample_lines(sample[: 1 << 17]).block, 1)
        return 0.9 if table is not None else 0.0

    def feed(self, text: bytes | Lines, first_line: int, numbers: np.ndarray | None = None) -> pa.Table | None:
        """Return a row for each record that ends in these whole lines, at the line of its first value."""
        lines = as_lines(text)
        headings = lines.fits(_HEADING)
        own = numbers if numbers is not None else first_line + np.arange(len(lines))
        self.took, index = [], 0
        heads = np.flatnonzero(headings)
        while index < len(lines):
            if headings[index]:
                self._close()
                places = _places(lines.whole(index))
                self._row, self._line, self._lines = places if "step" in places else {}, 0, 0
            elif self._row and not self._value(lines.whole(index), int(own[index])):
                self._close()
            if not self._row:
                ahead = np.searchsorted(heads, index, "right")
                if ahead == len(heads):
                    break
                index = int(heads[ahead]) - 1
            index += 1
        return self.release()

    def finish(self) -> pa.Table | None:
        """Return the last record; of a run that just began one or two are enough, if the log is hardly more than they."""
        self._close()
        self._seen += TIMES * (self.lines >= SHORT_LOG * self.log_lines)
        return super().finish()

    def state(self) -> dict[str, Any]:
        """Return what a later process needs to go on, JSON-able."""
        return super().state() | {"row": self._row, "line": self._line, "of_row": self._lines, "lines": self.lines}

    def restore(self, state: dict[str, Any]) -> None:
        """Go on from what `state` returned."""
        super().restore(state)
        self._row, self._line, self._lines = dict(state["row"]), state["line"], state["of_row"]
        self.lines = state["lines"]

    def _value(self, line: str, number_: int) -> bool:
        """Take a line of a record; return whether it was one."""
        if _RULER.fullmatch(line):
            return bool(line.strip()) or not self._line  # a blank line ends it, once there was a value
        self._lines += 1
        if _PART.fullmatch(line) and self._lines <= MAX_LINES:
            return True
        found = _values(line)
        if not found or self._lines > MAX_LINES:
            return False
        self._line = self._line or number_
        if any(columns.resolve(name).role for name in found):
            self.took.append(number_)
            self.lines += 1
        self._row |= {name: value for name, value in found.items() if name not in self._row}
        return True

    def _close(self) -> None:
        row, self._row = self._row, {}
        if self._line and any(columns.resolve(name).role for name in row):
            self.take(self._line, row)


def _places(heading: str) -> dict[str, Any]:
    """Return step, epoch and their totals from a heading."""
    row: dict[str, Any] = {}
    for found in _ONE.finditer(heading):
        epoch = (found["name"] or found["unit"] or "")[:1].lower() in ("e", "轮")
        name, total = ("epoch", "epochs") if epoch else ("step", "total_steps")
        row.setdefault(name, float(found["value"].replace(",", "")))
        if found["total"]:
            row.setdefault(total, float(found["total"].replace(",", "")))
    if "epoch" in row and "total_steps" in row:
        row[columns.PLANNED] = row.pop("total_steps")
    return row


def _values(line: str) -> dict[str, float]:
    """Return the names (with their units) and numbers of a line that holds nothing else."""
    if line.startswith(("{", "|")):
        return {}
    clear = re.sub(r"(?<=[A-Za-z)]) {2,}(?=[+-]?[0-9.])", ": ", tokens.plain(line).replace("\t", "  ")).lstrip("•*-> ")
    found = tokens.tokens(clear, 64)
    understood = tokens.pairs(clear, found)
    named = [pair for pair in understood.pairs if pair.name]
    if not named or len(named) < len(understood.pairs) or understood.loose > 2 or understood.broken:
        return {}
    phase = _PHASE.match(clear)
    row: dict[str, float] = {}
    for pair in named:
        if columns.resolve(str(pair.name)).position:
            return {}
        prefix = f"{phase['phase']} " if phase and not _PHASE.match(str(pair.name)) else ""
        unit = f" ({pair.unit})" if pair.unit else ""
        row.setdefault(f"{prefix}{pair.name}{unit}", number(found[pair.token]))
    return row
