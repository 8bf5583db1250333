"""CSV and its relatives: comma, tab, semicolon, bar or blanks between cells; with a header, or bare columns of numbers.

Cells are counted outside quotes for every line; a line with another number of cells is a problem, never shifted values.
Empty cells are null; units stand in headers (`memory.used [MiB]`) or cells (`32768 MiB`).
"""

import re
from dataclasses import asdict
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pcsv

from messages import N_, Text
from storage.reading import columns, shapes, threads
from storage.reading.arrays import whole
from storage.reading.containers import kinds
from storage.reading.containers.jsonl import METRIC
from storage.reading.containers.layout import (
    ALONE,
    STAMPED,
    Layout,
    cells,
    count_cells,
    find_layout,
    is_header,
    make_layout,
    numeric_names,
)
from storage.reading.containers.lines import Lines, Problems, sample_lines
from storage.reading.containers.objects import MAX_LINE_BYTES, MAX_TEXT, joined
from storage.reading.containers.values import fraction_names, looks_numeric, to_numbers

MANY = 100  # lines that may be a header
MAX_PATTERN = 10_000  # characters of names that are looked for at once
SHARE = 1 << 18  # bytes that are worth a thread
NULLS = ["", "null", "NULL", "None", "NA", "N/A", "n/a", "[N/A]", "-", "No log"]  # the last one: notebooks of Hugging Face


class Delimited:
    """Reads CSV-like text block by block; `problems` collects the lines that do not fit, `units` the units in cells."""

    name = "csv"

    def __init__(self) -> None:
        self.problems = Problems()
        self.units: dict[str, str] = {}
        self._layout: Layout | None = None
        self._numeric: set[str] = set()  # every cell so far was a plain number
        self._spelled: set[str] = set()  # numbers with a unit, a comma, a percent sign

    @staticmethod
    def score(sample: bytes) -> float:
        """Return how sure it is (0…1) that the sample is such a table of measurements; any other table scores below 0.5."""
        lines = sample_lines(sample[: 1 << 17])
        layout, share = find_layout(lines)
        if layout is None:
            return 0.0
        known = any(METRIC.search(name) or _trains(name) for name in numeric_names(lines, layout))
        if layout.header is None:
            return (0.6 if "loss" in layout.names or layout.names in (STAMPED, ALONE) else 0.3) * share
        return (0.95 if known and layout.delimiter != " " else 0.6 if known else 0.3) * share

    def feed(self, text: bytes, first_line: int, breaks: np.ndarray | None = None) -> pa.Table | None:
        """Return the rows of these whole lines; `first_line` is the number of the first."""
        lines = Lines(text, breaks, tabs=False)
        begins = self._layout is None
        if begins:
            self._layout, _ = find_layout(lines, least=0.2)
        headers = self._headers(lines)
        parts, begin = [], headers[0][0] if begins and headers else 0  # what stands before the table is none of its rows
        for place, layout in headers:
            parts.append(self._rows(lines, begin, place, first_line))
            self._layout, begin = layout, place + 1
        parts.append(self._rows(lines, begin, len(lines), first_line))
        tables = [part for part in parts if part is not None]
        return joined(tables) if tables else None

    @property
    def bare(self) -> bool:
        """Whether the columns have no names of their own."""
        return self._layout is not None and self._layout.names in (STAMPED, ALONE)

    def finish(self) -> pa.Table | None:
        """Nothing is held back."""
        return None

    def state(self) -> dict[str, Any]:
        """Return what a later process needs to go on, JSON-able."""
        layout = asdict(self._layout) if self._layout else None
        return {"layout": layout, "numeric": sorted(self._numeric), "spelled": sorted(self._spelled), "units": self.units}

    def restore(self, state: dict[str, Any]) -> None:
        """Go on from what `state` returned."""
        found = state["layout"]
        self._layout = Layout(found["delimiter"], tuple(found["names"]), found["header"]) if found else None
        self._numeric, self._spelled, self.units = set(state["numeric"]), set(state["spelled"]), dict(state["units"])

    def _headers(self, lines: Lines) -> list[tuple[int, Layout]]:
        """Return where a header stands in this block, and what it says: the first, repeated and changed ones."""
        layout = self._layout
        if layout is None or layout.header is None:
            return []
        first = lines.first()
        index = ord(layout.delimiter) if layout.header.startswith(layout.delimiter) else -1  # pandas' own column has no name
        letters = (
            ((first | 32) >= ord("a")) & ((first | 32) <= ord("z"))
            | (first == ord('"'))
            | (first == ord("#"))
            | (first >= 128)
            | (first == index)
        )
        places = np.flatnonzero(letters)
        if len(places) > max(100, len(lines) // 10):  # the first column is text: only an exact repeat counts
            places = places[(lines.ends - lines.starts)[places] == len(layout.header.encode())]
            places = np.array([place for place in places if lines.whole(place) == layout.header], np.int64)
        places = places[count_cells(lines, places, layout.delimiter)[0] > 1] if len(places) else places
        if len(places) > MANY:
            places = places[_names_one_of(lines, places, layout)]
        found = ((int(place), cells(lines.whole(place), layout.delimiter)) for place in places)
        headers = ((place, names) for place, names in found if is_header(names) and set(names) & set(layout.names))
        return [(place, make_layout(lines.whole(place), names, layout.delimiter)) for place, names in headers]

    def _rows(self, lines: Lines, begin: int, end: int, first_line: int) -> pa.Table | None:
        """Return the table of the lines `begin:end`, all under the present layout."""
        layout = self._layout
        filled = (lines.ends > lines.starts) & (lines.first() != ord("#"))
        filled = begin + np.flatnonzero(filled[begin:end])
        if layout is None or not len(filled):
            self.problems.of(lines, filled, first_line, Text(N_("no header and no columns of numbers")))
            return None
        if self._numeric and _uniform(lines, filled, layout):
            table = _read(lines.block, layout, self._numeric)
            if table is not None and table.num_rows == len(filled):
                return self._columns(table, lines, filled, first_line)
        counts, closed = count_cells(lines, filled, layout.delimiter)
        short = lines.ends[filled] - lines.starts[filled] <= MAX_LINE_BYTES
        alike = counts == len(layout.names)
        fits = alike & closed & short
        if not fits.all():
            self.problems.of(lines, filled[alike & ~fits], first_line, Text(N_("quote not closed")))
            odd, counts = filled[~alike], counts[~alike]
            for count in np.flatnonzero(np.bincount(counts)).tolist():
                differs = Text(N_("{count} cells, {wanted} expected"), {"count": count, "wanted": len(layout.names)})
                self.problems.of(lines, odd[counts == count], first_line, differs)
        wanted = filled if fits.all() else filled[fits]
        return self._table(lines, wanted, first_line, layout) if len(wanted) else None

    def _table(self, lines: Lines, wanted: np.ndarray, first_line: int, layout: Layout) -> pa.Table:
        data = lines.take(wanted)
        if layout.delimiter == " ":
            data = re.sub(rb"[ \t]+", b" ", re.sub(rb"(?m)^[ \t]+|[ \t\r]+$", b"", data))
        if not self._numeric and not self._spelled:
            self._learn(_read(data[: data.rfind(b"\n", 0, 1 << 16) + 1], layout, set()))
        table = _read(data, layout, self._numeric)
        if table is None:  # a cell of a numeric column is no number: read as text, find which
            table = _read(data, layout, set())
        if table is None or table.num_rows != len(wanted):
            table = _read_slowly(lines, wanted, layout)
        return self._columns(table, lines, wanted, first_line)

    def _columns(self, table: pa.Table, lines: Lines, wanted: np.ndarray, first_line: int) -> pa.Table:
        numbers = pa.array(first_line + wanted, pa.int64())
        columns: dict[str, pa.Array] = {"line": numbers}
        for name, column in zip(table.column_names, table.columns, strict=True):
            if name:
                columns |= self._typed(name, whole(column), lines, wanted, first_line)
        return kinds.of_cells(pa.table(columns), self._layout.names if self._layout else ())

    def _learn(self, head: pa.Table | None) -> None:
        """Note which columns of a first piece hold numbers, plain or spelled."""
        for name, column in zip(head.column_names, head.columns, strict=True) if head is not None else ():
            array = whole(column)
            if looks_numeric(array):
                (self._numeric if _casts(array) else self._spelled).add(name)

    def _typed(self, name: str, array: pa.Array, lines: Lines, wanted: np.ndarray, first_line: int) -> dict[str, pa.Array]:
        """Return the column as numbers where it holds numbers (`a/b` as two), else as text."""
        if not pa.types.is_string(array.type):
            return {name: array}
        if array.null_count == len(array):
            return {name: pa.nulls(len(array), pa.float64())}
        if name not in self._numeric and name not in self._spelled:
            if not looks_numeric(array):
                return {name: pc.utf8_slice_codeunits(pc.utf8_trim_whitespace(array), 0, MAX_TEXT)}
            (self._numeric if _casts(array) else self._spelled).add(name)
        read = to_numbers(array, name=name)
        if read.unit:
            self.units[name] = read.unit
        bad = np.flatnonzero(read.bad.to_numpy(zero_copy_only=False))
        self.problems.of(lines, wanted[bad], first_line, Text(N_("{value} is not a number"), {"value": name}))
        return (
            {name: read.values}
            if read.total is None
            else dict(zip(fraction_names(name), (read.values, read.total), strict=True))
        )


def _names_one_of(lines: Lines, places: np.ndarray, layout: Layout) -> np.ndarray:
    """Return which of these lines hold the name of a column, in whatever place; all of them where there are too many names."""
    names = "|".join(re.escape(name.replace('"', '""')) for name in layout.names if name)
    if len(names) > MAX_PATTERN:
        return np.ones(len(places), bool)
    return shapes.match(lines.texts().take(pa.array(places)), names)


def _casts(texts: pa.Array) -> bool:
    """Return whether every text is a plain number that Arrow reads by itself."""
    try:
        pc.cast(pc.utf8_trim_whitespace(texts), pa.float64())
    except pa.ArrowInvalid:
        return False
    return True


def _uniform(lines: Lines, wanted: np.ndarray, layout: Layout) -> bool:
    """Return whether all lines are wanted and their delimiters fit in sum; whether each line fits is then Arrow's to say."""
    if len(wanted) != len(lines) or layout.delimiter == " " or b'"' in lines.block:
        return False
    total = np.count_nonzero(lines.bytes == ord(layout.delimiter))
    return total == len(lines) * (len(layout.names) - 1) and int((lines.ends - lines.starts).max()) <= MAX_LINE_BYTES


def _read(data: bytes, layout: Layout, numeric: set[str]) -> pa.Table | None:
    """Return Arrow's reading of whole lines, these columns as float64 and the rest as text; None where a number is none.

    Arrow's own threads do not share the work of so few bytes, so the lines go to ours (no quoted cell goes over a line).
    """
    types = {name: pa.float64() if name in numeric else pa.string() for name in layout.names}
    size = max(2 * MAX_LINE_BYTES, len(data))
    read = pcsv.ReadOptions(column_names=list(layout.names), block_size=size, use_threads=False)
    parse = pcsv.ParseOptions(delimiter=layout.delimiter)
    convert = pcsv.ConvertOptions(column_types=types, null_values=NULLS, strings_can_be_null=True, check_utf8=False)
    try:
        tables = threads.each(lambda part: pcsv.read_csv(pa.py_buffer(part), read, parse, convert), _shares(data))
    except pa.ArrowInvalid:
        return None
    return pa.concat_tables(tables)


def _shares(data: bytes) -> list[memoryview]:
    """Return whole lines in as many pieces as there are threads; few lines in one."""
    count = min(threads.COUNT, len(data) // SHARE) or 1
    edges = [0, *(data.rfind(b"\n", 0, len(data) * place // count) + 1 for place in range(1, count)), len(data)]
    return [memoryview(data)[begin:end] for begin, end in zip(edges, edges[1:], strict=False) if begin < end]


def _read_slowly(lines: Lines, wanted: np.ndarray, layout: Layout) -> pa.Table:
    """Return the wanted lines read one by one, all cells as text: for quoting that Arrow takes in another way."""
    width = len(layout.names)
    columns: list[list[str | None]] = [[] for _ in range(width)]
    for index in wanted:
        row = cells(lines.whole(index), layout.delimiter)
        for column, cell in zip(columns, (row + [""] * width)[:width], strict=True):
            column.append(None if cell.strip() in NULLS else cell)
    return pa.table([pa.array(column, pa.string()) for column in columns], list(layout.names))


def _trains(name: str) -> bool:
    """Say whether a head in any language names a loss or a learning rate."""
    return columns.resolve(name).role in ("loss", "eval_loss", "rate")
