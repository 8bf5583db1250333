"""JSON lines: a log with one object a line, also behind a prefix (`[2022-04-08 18:48:05][train][INFO] - {"loss": "9.2"}`)."""

import json
import re
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from messages import N_, Text
from storage.reading.containers import kinds
from storage.reading.containers.lines import Lines, Problems, sample_lines
from storage.reading.containers.objects import ObjectRows

METRIC = re.compile(
    r"loss|^(?:global_?)?steps?$|^current_steps$|iter|^epoch|^lr$|learning_rate|grad_?norm|accuracy|(?:^|[_/])acc(?:$|[_/])|reward|perplexity"
    r"|^ppl$|num_updates|throughput|tokens|samples?_per|per_sec|utili[sz]ation|temperature|power|memory",
    re.I,
)
_STAMP = r"(?P<timestamp>\d{4}[-/]\d\d[-/]\d\d[ T]\d\d:\d\d:\d\d(?:[.,]\d+)?)"
_PREFIX = rb"^[^{}]{1,300}?(?:- |\| |: ?|\] ?|\s)(\{\")"


class JsonLines:
    """Reads JSON lines block by block; `problems` collects the lines that are damaged, `units` the units of numbers in text."""

    name = "jsonl"

    def __init__(self) -> None:
        self.problems = Problems()
        self._objects = ObjectRows()
        self._rows = self._other = 0
        self._seen = False  # a loss

    @property
    def units(self) -> dict[str, str]:
        """Units of the columns whose numbers were printed as text with a unit: name -> `s`, `bytes`, `%`, …"""
        return self._objects.units

    @staticmethod
    def score(sample: bytes) -> float:
        """Return how sure it is (0…1) that the sample is JSON lines with measurements; a chat history or a corpus scores 0."""
        lines = sample_lines(sample)
        filled = int(np.count_nonzero(lines.ends > lines.starts))
        wanted, begins = _candidates(lines)
        keys: list[frozenset[str]] = []
        for index, begin in list(zip(wanted.tolist(), begins.tolist(), strict=True))[:500]:
            keys.append(_metric_keys(lines.block[begin : lines.ends[index]]))
        rows = [found for found in keys if found]
        if not rows:
            return 0.0
        known = sum(any(METRIC.search(key) for key in found) for found in rows)
        if 2 * known < len(keys):
            return 0.4 * (len(rows) == len(keys) and len(set(rows)) <= 3 and min(map(len, rows)) > 1)
        share = len(wanted) / max(filled, 1)
        return (0.6 if len(rows) > 1 else 0.2 + 0.4 * (filled == 1)) + 0.4 * share * (filled > 1)

    def feed(self, text: bytes, first_line: int, breaks: np.ndarray | None = None) -> pa.Table | None:
        """Return the rows of these whole lines; `first_line` is the number of the first."""
        lines = Lines(text, breaks)
        wanted, begins = _candidates(lines)
        self._strays(lines, wanted, begins, first_line)
        if not len(wanted):
            return None
        plain = bool((begins == lines.starts[wanted]).all())
        objects = (
            lines
            if plain and len(wanted) == len(lines)
            else Lines(lines.take(wanted) if plain else _cut(lines, wanted, begins))
        )
        table = self._objects.read(objects, first_line + wanted)
        self.problems += self._objects.problems
        self.problems.more += self._objects.problems.more
        self._objects.problems = Problems()
        if table is None:
            return None
        heads = None if plain else _heads(table, lines, first_line)
        summaries = np.zeros(table.num_rows, bool) if heads is None else _epoch_means(heads)
        table, self._seen = kinds.of_objects(table, summaries, self._seen)
        return table if heads is None else _with_stamps(table, heads)

    def finish(self) -> pa.Table | None:
        """Nothing is held back."""
        return None

    def state(self) -> dict[str, Any]:
        """Return what a later process needs to go on, JSON-able."""
        return {"rows": self._rows, "other": self._other, "seen": self._seen, "objects": self._objects.state()}

    def restore(self, state: dict[str, Any]) -> None:
        """Go on from what `state` returned."""
        self._rows, self._other, self._seen = state["rows"], state["other"], state["seen"]
        self._objects.restore(state["objects"])

    def _strays(self, lines: Lines, wanted: np.ndarray, begins: np.ndarray, first_line: int) -> None:
        """Report the lines that are no objects: all of them in a file of objects, only half objects in a console log."""
        other = np.ones(len(lines), bool)
        other[wanted] = False
        strays = np.flatnonzero(other & (lines.ends > lines.starts))
        self._rows += int(np.count_nonzero(begins == lines.starts[wanted]))
        self._other += len(strays)
        if self._rows < self._other:
            strays = strays[lines.first()[strays] == ord("{")]
            strays = np.array([i for i in strays if b'":' in lines.raw(i)[:2000]], np.int64)
        self.problems.of(lines, strays, first_line, Text(N_("not a JSON object")))


def _candidates(lines: Lines) -> tuple[np.ndarray, np.ndarray]:
    """Return the indices of lines that end with an object, and where (byte) each object begins."""
    closed = np.flatnonzero(lines.last() == ord("}"))
    direct = lines.first()[closed] == ord("{")
    begins = lines.starts[closed].copy()
    keep = direct.copy()
    for place in np.flatnonzero(~direct):
        index = closed[place]
        found = re.match(_PREFIX, lines.block[lines.starts[index] : min(lines.ends[index], lines.starts[index] + 400)])
        if found and not lines.raw(index).startswith(b":::MLLOG"):
            begins[place] += found.start(1)
            keep[place] = True
    return closed[keep], begins[keep]


def _cut(lines: Lines, wanted: np.ndarray, begins: np.ndarray) -> bytes:
    """Return the objects alone, without what stands before them."""
    spans = zip(begins.tolist(), lines.ends[wanted].tolist(), strict=True)
    return b"\n".join(lines.block[begin:end] for begin, end in spans) + b"\n"


def _metric_keys(text: bytes) -> frozenset[str]:
    """Return the keys of an object that hold a number, also one printed as text; empty for anything else."""
    if len(text) > 200_000:
        return frozenset()
    try:
        row = json.loads(text)
    except (ValueError, RecursionError):
        return frozenset()
    if not isinstance(row, dict):
        return frozenset()
    return frozenset(key for key, value in row.items() if isinstance(value, int | float) or _number_text(value))


def _number_text(value: object) -> bool:
    return isinstance(value, str) and bool(re.match(r"^[+-]?[\d.,]+(?:e[+-]?\d+)?(?:%|/\d+)?$", value, re.I))


def _heads(table: pa.Table, lines: Lines, first_line: int) -> pa.Array:
    """Return what is printed before each object."""
    return pa.array([lines.text(int(number) - first_line)[:100] for number in table["line"].to_numpy()], pa.string())


def _epoch_means(heads: pa.Array) -> np.ndarray:
    """Return which objects fairseq prints at the end of an epoch, beside those of `train_inner`."""
    return pc.match_substring_regex(heads, r"\[train\]\[INFO\]|\| INFO \| train \|").to_numpy(zero_copy_only=False)


def _with_stamps(table: pa.Table, heads: pa.Array) -> pa.Table:
    """Add the time printed before each object as text, where the objects have none of their own."""
    stamps = pc.struct_field(pc.extract_regex(heads, _STAMP), "timestamp")
    return (
        table
        if "timestamp" in table.column_names or stamps.null_count == len(stamps)
        else table.append_column("timestamp", stamps)
    )
