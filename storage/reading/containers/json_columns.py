"""One JSON document of lists, a list for each metric: `{"step": [1, 2], "loss": [2.5, 2.25]}`, as a history is saved.

Lists as long as that of the training loss are columns of one table; a list of another length is reported, not shifted.
"""

import json
import re
from collections.abc import Iterator
from typing import Any

import pyarrow as pa

from messages import N_, Text
from storage.reading import columns
from storage.reading.containers.jsonl import METRIC
from storage.reading.containers.lines import TEXT_LIMIT, Problem
from storage.reading.containers.objects import ObjectRows
from storage.types import UnreadableLog

MAX_BYTES = 64 << 20  # of a document
MAX_DEPTH, MAX_LISTS = 4, 2000
_NUMBER = r"\s*(?:-?[\d.]+(?:[eE][-+]?\d+)?|NaN|-?Infinity|null)\s*"
_LIST = re.compile(rf'"([^"\n]{{1,100}})"\s*:\s*\[{_NUMBER},{_NUMBER},{_NUMBER}[,\]]')
_TOO_LARGE = N_("The JSON document is larger than {size} MB.")


class JsonColumns:
    """Reads a document as a whole; `config` holds the single numbers and words that stand beside the lists."""

    name = "json_columns"

    def __init__(self) -> None:
        self.problems: list[Problem] = []
        self.config: dict[str, str | float] = {}
        self._objects = ObjectRows()
        self._text = b""
        self._line = 1

    @property
    def units(self) -> dict[str, str]:
        """Units of the columns whose numbers were printed as text with a unit."""
        return self._objects.units

    @staticmethod
    def score(sample: bytes) -> float:
        """Return how sure it is (0…1) that the sample begins such a document; of JSON lines each has a record of its own."""
        if sample[:1] != b"{" or sample.count(b"\n{"):
            return 0.0
        names = _LIST.findall(sample[: 1 << 20].decode("utf-8", "replace"))
        return 0.9 if any(METRIC.search(name) for name in names) else 0.0

    def feed(self, text: bytes, first_line: int) -> None:
        """Take whole lines; the rows come from `finish`. Raises UnreadableLog where the document is absurdly large."""
        self._line = self._line if self._text else first_line
        self._text += text
        if len(self._text) > MAX_BYTES:
            raise UnreadableLog("too_large", Text(_TOO_LARGE, {"size": MAX_BYTES >> 20}))

    def finish(self) -> pa.Table | None:
        """Return a row for each place of the lists."""
        try:
            document = json.loads(self._text)
        except (ValueError, RecursionError):
            shown = self._text[:TEXT_LIMIT].decode("utf-8", "replace")
            self.problems.append(Problem(self._line, shown, Text(N_("not valid JSON"))))
            return None
        lists = dict(list(self._lists(document, ""))[:MAX_LISTS])
        if not (count := _rows(lists)):
            return None
        for name, values in lists.items():
            if len(values) != count:
                differs = Text(N_("{count} values, {wanted} expected"), {"count": len(values), "wanted": count})
                self.problems.append(Problem(self._line, name[:TEXT_LIMIT], differs))
        taken = {name: values for name, values in lists.items() if len(values) == count}
        rows = [dict(zip(taken, record, strict=True)) for record in zip(*taken.values(), strict=True)]
        return self._objects.from_rows(rows, [self._line] * count)

    def state(self) -> None:
        """A document is read whole or not at all: there is nothing to go on from, the file is read again."""
        return None

    def _lists(self, value: Any, path: str, depth: int = 0) -> Iterator[tuple[str, list[Any]]]:
        if isinstance(value, dict) and depth < MAX_DEPTH:
            for key, inner in value.items():
                yield from self._lists(inner, f"{path}/{key}" if path else str(key), depth + 1)
        elif isinstance(value, list) and value and all(isinstance(one, int | float | None) for one in value):
            yield path, value
        elif isinstance(value, str | int | float) and len(self.config) < MAX_LISTS:
            self.config[path] = value if isinstance(value, int | float) else value[:TEXT_LIMIT]


def _rows(lists: dict[str, list[Any]]) -> int:
    """Return how many rows the table has: as long as the training loss, else as the first metric; 0 = no metric at all."""
    losses = [name for name in lists if columns.resolve(name).role == "loss"]
    named = [*losses, *(name for name in lists if METRIC.search(name))]
    return len(lists[named[0]]) if named else 0
