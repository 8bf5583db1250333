"""Objects as columns: their structure for a strict reader, nested names joined with `/`, short lists spread over columns."""

import math
from collections import defaultdict
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

MAX_COLUMNS = 2000
MAX_LIST = 8  # elements of a list of numbers that become columns `name/0`, `name/1`, …

Structure = dict[str, Any]  # key -> "DOUBLE", "VARCHAR", "JSON" (passed over), ["DOUBLE"] or a Structure


def widen(structure: Structure, row: dict[str, Any]) -> None:
    """Widen the structure so that it holds the row."""
    for key, value in row.items():
        known = structure.get(key)
        if isinstance(value, dict):
            inner = known if isinstance(known, dict) else {}
            widen(inner, value)
            structure[key] = inner
        elif isinstance(value, list):
            structure[key] = ["DOUBLE"] if _few_numbers(value) and known in (None, ["DOUBLE"]) else "JSON"
        elif isinstance(value, str):
            structure[key] = "VARCHAR"
        else:
            structure[key] = known or "DOUBLE"


def join(structure: Structure, known: Structure) -> None:
    """Widen the structure by what was known: a key that was text once stays text."""
    for key, value in known.items():
        if isinstance(value, dict) and isinstance(structure.get(key), dict):
            join(structure[key], value)
        elif value in ("VARCHAR", "JSON") or key not in structure:
            structure[key] = value


def count_keys(structure: Structure) -> int:
    return sum(1 + (count_keys(value) if isinstance(value, dict) else 0) for value in structure.values())


def _few_numbers(items: list[Any]) -> bool:
    return 0 < len(items) <= MAX_LIST and all(isinstance(item, int | float) for item in items)


def spread(structure: Structure, rows: pa.StructArray, columns: dict[str, pa.Array], prefix: str = "") -> None:
    """Add the fields of a struct to the columns, nested ones joined with `/`, lists of numbers as `name/0`, …"""
    for (key, kind), array in zip(structure.items(), rows.flatten(), strict=True):
        name = f"{prefix}{key}"
        if isinstance(kind, dict):
            spread(kind, array, columns, f"{name}/")
        elif isinstance(kind, list):
            longest = pc.max(pc.list_value_length(array)).as_py() or 0
            for place in range(min(longest, MAX_LIST)):
                items = [None if item is None or len(item) <= place else item[place] for item in array.to_pylist()]
                columns[_free(name if longest == 1 else f"{name}/{place}", columns)] = pa.array(items, pa.float64())
        elif kind != "JSON":
            columns[_free(name, columns)] = array


def _free(name: str, taken: dict[str, Any]) -> str:
    """Return the name, with a number behind where it is taken (`a/b` beside a nested `b` in `a`, or our `line`)."""
    if name not in taken:
        return name
    return next(f"{name}_{n}" for n in range(2, len(taken) + 4) if f"{name}_{n}" not in taken)


def build(rows: list[dict[str, Any]], numbers: list[int]) -> pa.Table:
    columns: dict[str, dict[int, Any]] = defaultdict(dict)
    for index, row in enumerate(rows):
        for name, value in _leaves(row):
            if name in columns or len(columns) < MAX_COLUMNS:
                columns[name][index] = value
    arrays = {name: _column(cells, len(rows)) for name, cells in columns.items()}
    return pa.table({"line": pa.array(numbers, pa.int64()), **arrays})


def _leaves(row: dict[str, Any], prefix: str = "") -> Iterator[tuple[str, float | str | None]]:
    """Yield (name, value) of the numbers and texts of an object, nested ones joined with `/`."""
    for key, value in row.items():
        name = f"{prefix}{key}"
        if isinstance(value, dict):
            yield from _leaves(value, f"{name}/")
        elif isinstance(value, list):
            if _few_numbers(value):
                yield from ((name if len(value) == 1 else f"{name}/{i}", _float(item)) for i, item in enumerate(value))
        else:
            yield name if name != "line" else "line_2", value if value is None or isinstance(value, str) else _float(value)


def _float(value: int | float) -> float:
    try:
        return float(value)
    except OverflowError:
        return math.inf if value > 0 else -math.inf


def _column(cells: dict[int, float | str | None], rows: int) -> pa.Array:
    """Return a float64 column, or text where one cell is text."""
    values = [cells.get(row) for row in range(rows)]
    if not any(isinstance(value, str) for value in values):
        return pa.array(values, pa.float64(), from_pandas=False)
    texts = [value if value is None or isinstance(value, str) else repr(value) for value in values]
    return pa.array([None if text is None else text.encode("utf-8", "replace").decode() for text in texts], pa.string())
