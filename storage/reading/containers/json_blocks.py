"""JSON objects that go over several lines, one after the other or among other text, as `json.dumps(…, indent=2)` prints them.

An object begins with a line that is `{` alone and ends with a `}` as far to the right; `took` are the numbers of its lines.
A Python dict as `pprint` breaks it over lines, from `{'accuracy': 0.5,` to `'step': 10}`, is one too.
"""

import json
import re
from typing import Any

import numpy as np
import pyarrow as pa

from storage.reading import columns
from storage.reading.containers.held import Held
from storage.reading.containers.hf_dict import as_json
from storage.reading.containers.jsonl import METRIC
from storage.reading.containers.lines import sample_lines

_PRINTED = re.compile(r"\{ *'[\w./ -]{1,80}': [^{}]{1,200},\r?$")
MAX_LINES, MAX_LINE = 500, 4096  # lines of one object, characters of a line


class JsonBlocks(Held):
    """Reads such objects, those with a metric and a place; one that the block cuts goes on in the next."""

    name = "json_blocks"

    def __init__(self) -> None:
        super().__init__()
        self.took: list[int] = []
        self._open: list[tuple[int, str]] = []  # number and text of the lines of the object that has begun

    @property
    def inside(self) -> bool:
        """Whether an object has begun that may go on in the next block."""
        return bool(self._open)

    @staticmethod
    def score(sample: bytes) -> float:
        """Return how sure it is (0…1) that the sample holds such objects: 0.9 from the third on."""
        table = JsonBlocks().feed(sample_lines(sample[: 1 << 17]).block, 1)
        return 0.9 if table is not None else 0.0

    def feed(self, text: bytes, first_line: int, numbers: np.ndarray | None = None) -> pa.Table | None:
        """Return a row for each object that ends in these whole lines, at the line where it begins."""
        lines = text.decode("utf-8", "replace").split("\n")[: text.count(b"\n")]
        own = numbers if numbers is not None else first_line + np.arange(len(lines))
        self.took = []
        for number, line in zip(own.tolist(), lines, strict=False):
            if self._open or _begins(line):
                self._line(number, line.rstrip("\r "))
        return self.release()

    def _line(self, number: int, line: str) -> None:
        if _begins(line):  # one that began before never ended
            self._open = []
        self._open.append((number, line))
        python = len(self._open[0][1].strip()) > 1
        if line.endswith("}") if python else line.rstrip(",") == self._open[0][1].replace("{", "}"):
            self._close(python=python)
        elif len(self._open) > MAX_LINES or len(line) > MAX_LINE:
            self._open = []

    def _close(self, *, python: bool) -> None:
        lines, self._open = self._open, []
        text = "\n".join(line for _, line in lines).rstrip(",")
        try:
            found = json.loads(as_json(text.encode()) if python else text)
        except (ValueError, RecursionError):
            return
        if any(METRIC.search(key) and columns.resolve(key).position is None for key in found) and _placed(found):
            self.take(lines[0][0], found)
            self.took += [number for number, _ in lines]

    def state(self) -> dict[str, Any]:
        """Return what a later process needs to go on, JSON-able."""
        return super().state() | {"open": self._open}

    def restore(self, state: dict[str, Any]) -> None:
        """Go on from what `state` returned."""
        super().restore(state)
        self._open = [(number, text) for number, text in state["open"]]


def _placed(row: dict[str, Any]) -> bool:
    return any(columns.resolve(key).position in ("step", "epoch") for key in row)


def _begins(line: str) -> bool:
    """Say whether an object that goes over several lines begins here: `{` alone, or a dict as `pprint` breaks it."""
    return line.strip() == "{" or _PRINTED.match(line) is not None
