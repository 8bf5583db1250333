"""JSON objects, one a line, as a table: by DuckDB's JSON reader where lines are alike, by Python's where they are odd.

The first lines of each kind (same number and length of keys) are read by Python and teach the structure; the rest of
that kind is read strictly by it: a line that lacks a key, has one twice or a value of another type is refused and then
read by Python. So nothing is lost and nothing guessed. Depth, width, line length and cells of a block have limits.
"""

import json
from collections import defaultdict
from collections.abc import Iterator
from functools import cache
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from messages import N_, Text
from storage.reading.containers.flatten import MAX_COLUMNS, Structure, build, count_keys, join, spread, widen
from storage.reading.containers.lines import Lines, Problem, Problems, arrow_texts
from storage.reading.containers.values import fraction_names, looks_numeric, to_numbers

MAX_DEPTH = 16
MAX_CELLS = 16_000_000  # of one block's table: 128 MB of float64
MAX_LINE_BYTES = 1 << 20
MAX_TEXT = 256  # characters kept of a value that is text
MAX_KINDS = 256
KEY_BITS = 32  # of a kind: the summed length of keys; the number of keys above
FEW = 64  # lines that Python reads to learn from


class ObjectRows:
    """Turns lines that each hold one JSON object into tables; remembers structures and units between blocks."""

    def __init__(self, broken: str = N_("not valid JSON")) -> None:
        self._broken = broken
        self.units: dict[str, str] = {}
        self.problems = Problems()
        self._structures: dict[int, Structure] = {}  # by kind of line
        self._mixed: set[int] = set()  # kinds (numbers of keys) that need the length of the keys too
        self._numeric: set[str] = set()

    def state(self) -> dict[str, Any]:
        """Return what must be remembered between blocks, JSON-able."""
        return {"numeric": sorted(self._numeric), "units": self.units}

    def restore(self, state: dict[str, Any]) -> None:
        """Go on from what `state` returned."""
        self._numeric, self.units = set(state["numeric"]), dict(state["units"])

    def read(self, lines: Lines, numbers: np.ndarray) -> pa.Table | None:
        """Return a table of these lines, each one object; `numbers` are their line numbers. Bad lines become problems."""
        good = self._sound(lines, numbers)
        whole = len(good) == len(lines)
        parts = self._uniform(lines, numbers, int(np.count_nonzero(lines.bytes == ord(":")))) if whole else []
        if not parts:
            keys = _key_ends(lines)
            parts = self._uniform(lines, numbers, int(np.count_nonzero(keys))) if parts is None else []
            parts = parts or self._by_kind(lines, good, numbers, keys)
        if not parts:
            return None
        table = joined(self._widest(parts))
        if len(parts) > 1:
            table = table.take(pc.sort_indices(table["line"]))
        return self._typed(table.combine_chunks(), lines, numbers)

    def from_rows(self, rows: list[dict[str, Any]], numbers: list[int]) -> pa.Table:
        """Return a table of objects that were read already."""
        none = Lines(b"\n" * len(rows))
        return self._typed(self._widest([build(rows, numbers)])[0], none, np.array(numbers))

    def _sound(self, lines: Lines, numbers: np.ndarray) -> np.ndarray:
        """Return the indices of lines that are neither too long nor too deep; the others become problems."""
        long = lines.ends - lines.starts > MAX_LINE_BYTES
        deep = _depths(lines) > MAX_DEPTH
        for mask, reason in ((long, N_("line too long for a record")), (deep & ~long, N_("nested too deeply"))):
            places = np.flatnonzero(mask)
            self.problems.add(lines, places, numbers[places], Text(reason))
        return np.flatnonzero(~(long | deep))

    def _uniform(self, lines: Lines, numbers: np.ndarray, total: int) -> list[pa.Table] | None:
        """Return one table where all lines have the same known keys: each has all of them and there are no more in sum.

        `total` = keys (or colons, which are at least as many) in sum. None where no known structure has so many.
        """
        for kind, structure in self._structures.items():
            if total == count_keys(structure) * len(lines):
                table = self._fast(lines, np.arange(len(lines)), numbers, kind)
                return [] if table is None else [table]
        return None

    def _by_kind(self, lines: Lines, good: np.ndarray, numbers: np.ndarray, keys: np.ndarray) -> list[pa.Table]:
        """Return the tables of the good lines, the lines of each number of keys on their own."""
        places = np.flatnonzero(keys)
        counts = (np.searchsorted(places, lines.ends) - np.searchsorted(places, lines.starts))[good] << KEY_BITS
        parts: list[pa.Table] = []
        for kind in np.unique(counts).tolist():
            parts += self._alike(lines, good[counts == kind], numbers, kind)
        return parts

    def _alike(self, lines: Lines, wanted: np.ndarray, numbers: np.ndarray, kind: int) -> Iterator[pa.Table]:
        """Yield tables of lines of one kind: by the structure of that kind, and where it fails by ever smaller parts."""
        if kind in self._mixed:
            lengths = _key_lengths(lines)[wanted]
            for length in np.unique(lengths).tolist():
                yield from self._alike(lines, wanted[lengths == length], numbers, kind + length)
            return
        if len(wanted) > FEW and kind not in self._structures:
            yield from self._slow(lines, wanted[:FEW], numbers, kind)
            wanted = wanted[FEW:]
        table = self._fast(lines, wanted, numbers, kind) if kind in self._structures else None
        if table is not None:
            yield table
        elif len(wanted) <= FEW:
            yield from self._slow(lines, wanted, numbers, kind)
        elif (
            kind & ((1 << KEY_BITS) - 1) == 0
            and len(self._mixed) < MAX_KINDS
            and len(np.unique(_key_lengths(lines)[wanted])) > 1
        ):
            self._mixed.add(kind)
            yield from self._alike(lines, wanted, numbers, kind)
        else:
            for part in np.array_split(wanted, 8):
                yield from self._alike(lines, part, numbers, kind)

    def _fast(self, lines: Lines, wanted: np.ndarray, numbers: np.ndarray, kind: int) -> pa.Table | None:
        """Return DuckDB's strict reading, None where a line does not have exactly this structure."""
        structure = self._structures[kind]
        query = "select from_json_strict(text, {}) as row from texts"
        texts = pa.table({"text": arrow_texts(lines, wanted)})
        literal = "'" + json.dumps(structure).replace("'", "''") + "'"
        try:
            cursor = _engine().cursor()
            rows = cursor.register("texts", texts).sql(query.format(literal)).to_arrow_table()["row"].combine_chunks()
        except duckdb.Error:
            return None
        columns: dict[str, pa.Array] = {"line": pa.array(numbers[wanted], pa.int64())}
        spread(structure, rows, columns)
        return pa.table(columns)

    def _slow(self, lines: Lines, wanted: np.ndarray, numbers: np.ndarray, kind: int) -> Iterator[pa.Table]:
        """Read each line by Python's own reader, learn the structure from them and report every broken line."""
        rows: list[dict[str, Any]] = []
        kept: list[int] = []
        for index in wanted.tolist():
            try:
                row = json.loads(lines.raw(index))
            except (ValueError, RecursionError):
                self.problems.append(Problem(int(numbers[index]), lines.text(index), Text(self._broken)))
                continue
            if isinstance(row, dict):
                rows.append(row)
                kept.append(int(numbers[index]))
        if rows:
            self._learn(rows, kind)
            yield build(rows, kept)

    def _learn(self, rows: list[dict[str, Any]], kind: int) -> None:
        """Remember the structure of the rows if it has exactly the number of keys that lines of this kind have."""
        structure: Structure = {}
        for row in rows:
            widen(structure, row)
        known = self._structures.get(kind)
        if known is not None:
            join(structure, known)
        if count_keys(structure) == kind >> KEY_BITS and (known is not None or len(self._structures) < MAX_KINDS):
            self._structures[kind] = structure

    def _widest(self, parts: list[pa.Table]) -> list[pa.Table]:
        """Return the parts with only as many columns as the block may have, the fullest; a problem says so."""
        rows = sum(part.num_rows for part in parts)
        filled: dict[str, int] = defaultdict(int)
        for part in parts:
            for name, column in zip(part.column_names, part.columns, strict=True):
                filled[name] += part.num_rows - column.null_count
        width = max(1, min(MAX_COLUMNS, MAX_CELLS // max(rows, 1)))
        if len(filled) <= width:
            return parts
        keep = {"line", *sorted(filled, key=lambda name: -filled[name])[:width]}
        reason = Text(N_("{count} fields, {kept} kept"), {"count": len(filled), "kept": len(keep)})
        self.problems.append(Problem(int(parts[0]["line"][0].as_py()), "", reason))
        return [part.select([name for name in part.column_names if name in keep]) for part in parts]

    def _typed(self, table: pa.Table, lines: Lines, numbers: np.ndarray) -> pa.Table:
        """Return the table with text that holds numbers as numbers, one fraction as two columns."""
        columns: dict[str, pa.Array] = {}
        for name, column in zip(table.column_names, table.columns, strict=True):
            array = column.combine_chunks()
            if name == "line" or not pa.types.is_string(array.type):
                columns[name] = array
            elif name in self._numeric or looks_numeric(array):
                self._numeric.add(name)
                columns.update(self._numbers(name, array, table["line"], lines, numbers))
            else:
                columns[name] = pc.utf8_slice_codeunits(array, 0, MAX_TEXT)
        return pa.table(columns)

    def _numbers(
        self, name: str, texts: pa.Array, line: pa.ChunkedArray, lines: Lines, numbers: np.ndarray
    ) -> dict[str, pa.Array]:
        read = to_numbers(texts, name=name)
        if read.unit:
            self.units[name] = read.unit
        bad = pc.filter(line, read.bad).to_numpy()
        differs = Text(N_("{value} is not a number"), {"value": name})
        self.problems.add(lines, np.searchsorted(numbers, bad), bad, differs)
        return (
            {name: read.values}
            if read.total is None
            else dict(zip(fraction_names(name), (read.values, read.total), strict=True))
        )


def joined(tables: list[pa.Table]) -> pa.Table:
    """Return the tables one below the other; a column that is text in one of them is text in all."""
    texts = {field.name for table in tables for field in table.schema if pa.types.is_string(field.type)}
    for place, table in enumerate(tables):
        for index, field in enumerate(table.schema):
            if field.name in texts and not pa.types.is_string(field.type):
                table = table.set_column(index, field.name, pc.cast(table.column(index), pa.string()))
        tables[place] = table
    return pa.concat_tables(tables, promote_options="permissive")


@cache
def _engine() -> duckdb.DuckDBPyConnection:
    """Return the in-memory DuckDB that parses; it stores nothing."""
    return duckdb.connect(":memory:")


def _key_ends(lines: Lines) -> np.ndarray:
    """Return for each byte whether a key ends there: a quote before a colon (in texts too: such a line goes to Python)."""
    data = lines.bytes
    closing = np.zeros(len(data), bool)
    closing[:-1] = (data[:-1] == ord('"')) & (data[1:] == ord(":"))
    closing[:-2] |= (data[:-2] == ord('"')) & (data[1:-1] == ord(" ")) & (data[2:] == ord(":"))
    return closing


def _key_lengths(lines: Lines) -> np.ndarray:
    """Return the summed length of the keys of each line: it tells lines with the same number of keys apart."""
    data = lines.bytes
    quotes = np.flatnonzero(data[:-2] == ord('"'))
    behind = data[quotes + 1]
    closing = np.flatnonzero((behind == ord(":")) | ((behind == ord(" ")) & (data[quotes + 2] == ord(":"))))
    closing = closing[closing > 0]
    lengths = np.concatenate(([0], np.cumsum(quotes[closing] - quotes[closing - 1])))
    ends = quotes[closing]
    return lengths[np.searchsorted(ends, lines.ends)] - lengths[np.searchsorted(ends, lines.starts)]


def _depths(lines: Lines) -> np.ndarray:
    """Return the deepest nesting of each line, braces in strings counted too (an upper bound); flat lines cost nothing."""
    data = lines.bytes
    if b"[" not in lines.block and np.count_nonzero(data == ord("{")) <= len(lines):
        return np.zeros(len(lines), np.int64)
    places = np.flatnonzero((data == 123) | (data == 125) | (data == 91) | (data == 93))
    level = np.concatenate(([0], np.cumsum(np.where((data[places] == 123) | (data[places] == 91), 1, -1))))
    first, last = np.searchsorted(places, lines.starts), np.searchsorted(places, lines.ends)
    deepest = np.zeros(len(lines), np.int64)
    inside = np.flatnonzero(first < last)
    if len(inside):
        deepest[inside] = np.maximum.reduceat(level[1:], first[inside]) - level[first[inside]]
    return deepest


def _varied(numbers: np.ndarray) -> bool:
    return bool((numbers != numbers[0]).any())
