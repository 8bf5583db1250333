"""Where the cells of a CSV-like text lie: delimiter, header, number of cells of every line."""

import re
from dataclasses import dataclass

import numpy as np

from storage.reading.containers.lines import Lines

DELIMITERS = ",\t;| "
HEADER_SEARCH = 10  # lines: a comment or a command may stand before the header
MAX_COLUMNS = 2000
STAMPED = ("timestamp", "value", "step")
ALONE = ("value",)  # one number a line
ENOUGH_ALONE = 10  # lines of one number that make a list of values
_NUMBER = re.compile(r"^[+-]?(?:\d[\d.,]*(?:e[+-]?\d+)?\s*(?:%|[a-z]{1,3})?|nan|inf(?:inity)?)$", re.I)
OF_EXPORT = re.compile(r"^(?P<run>.+) - (?P<metric>.+?)(?P<bound>__(?:MIN|MAX))?$")  # `mild-sun-3 - train/loss__MIN`
_NAME = re.compile(r"^[^\W\d][^=:\"{}|\t]{0,79}$")


@dataclass(frozen=True)
class Layout:
    """How the cells lie: the delimiter, the column names, and the header as printed (None: two bare columns of numbers)."""

    delimiter: str
    names: tuple[str, ...]
    header: str | None


def find_layout(lines: Lines, *, least: float = 0.5) -> tuple[Layout | None, float]:
    """Return the layout that most lines follow and their share; None where fewer than `least` of them follow any."""
    filled = np.flatnonzero(lines.ends > lines.starts)[:2000]
    best: tuple[Layout | None, float] = (None, 0.0)
    for delimiter in DELIMITERS:
        layout, place = _header_layout(lines, filled, delimiter)
        if layout is None:
            layout, place = _bare_layout(lines, filled, delimiter), -1
        if layout is None:
            continue
        rows = filled[filled > place]
        share = _numeric_share(lines, rows, layout) if len(rows) else 0.0
        if share > best[1] + 0.05:
            best = layout, share
    return best if best[1] >= least else (None, 0.0)


def _header_layout(lines: Lines, filled: np.ndarray, delimiter: str) -> tuple[Layout | None, int]:
    for place in filled[:HEADER_SEARCH].tolist():
        text = lines.whole(place)
        names = cells(text, delimiter)
        if len(names) <= MAX_COLUMNS and is_header(names):
            rows = filled[filled > place][:50]
            counts = count_cells(lines, rows, delimiter)[0]
            if len(rows) and 2 * np.count_nonzero((counts == len(names)) | (counts == len(names) + 1)) >= len(rows):
                wide = 2 * np.count_nonzero(counts == len(names) + 1) > len(rows)  # a delimiter ends each row
                return make_layout(text, [*names, ""] if wide else names, delimiter), place
    return None, -1


def make_layout(text: str, names: list[str], delimiter: str) -> Layout:
    seen: dict[str, int] = {}
    unique = []
    for name in names:
        seen[name] = seen.get(name, 0) + 1
        unique.append(name if seen[name] == 1 and name != "line" or not name else f"{name}_{seen[name] + (name == 'line')}")
    return Layout(delimiter, tuple(unique), text)


def _bare_layout(lines: Lines, filled: np.ndarray, delimiter: str) -> Layout | None:
    """Return (step, loss | value) for two bare columns, the first of growing whole numbers; `loss` if positive and falling.

    One column of fractions is a list of values, which only the name of the file can name.
    Three of which the first is milliseconds since 1970 and the last a whole number are what MLflow keeps of a metric.
    """
    rows = [cells(lines.whole(place), delimiter) for place in filled[:200].tolist()]
    if len(rows) >= 3 and all(map(_is_stamped, rows)):
        return Layout(delimiter, STAMPED, None)
    if len(rows) >= ENOUGH_ALONE and all(len(row) == 1 and _NUMBER.match(row[0]) for row in rows):
        return Layout(delimiter, ALONE, None) if sum("." in row[0] for row in rows) > len(rows) / 2 else None
    if len(rows) < 3 or any(len(row) != 2 or not all(_NUMBER.match(cell) for cell in row) for row in rows):
        return None
    steps, values = [row[0] for row in rows], [row[1] for row in rows]
    if not all(step.isdigit() for step in steps) or any(int(a) >= int(b) for a, b in zip(steps, steps[1:], strict=False)):
        return None
    numbers = np.array([_value(value) for value in values])
    part = max(1, len(numbers) // 4)
    falls = bool(np.nanmin(numbers, initial=np.inf) > 0 and np.mean(numbers[:part]) > np.mean(numbers[-part:]))
    return Layout(delimiter, ("step", "loss" if falls else "value"), None)


def _is_stamped(row: list[str]) -> bool:
    """Say whether these are the cells of a metric file of MLflow: `1893492000250 2.5 10`."""
    return len(row) == 3 and row[0].isdigit() and row[2].isdigit() and len(row[0]) == 13 and _NUMBER.match(row[1]) is not None


def _value(text: str) -> float:
    try:
        return float(text.rstrip("%").replace(",", ""))
    except ValueError:
        return np.nan


def _numeric_share(lines: Lines, rows: np.ndarray, layout: Layout) -> float:
    """Return the share of rows that have the layout's number of cells, 0 where hardly one of their cells is a number."""
    counts, closed = count_cells(lines, rows, layout.delimiter)
    fits = (counts == len(layout.names)) & closed
    head = [cells(lines.whole(place), layout.delimiter) for place in rows[fits][:50].tolist()]
    numeric = sum(any(_NUMBER.match(cell) for cell in row) for row in head)
    return float(np.mean(fits)) if head and numeric >= 0.7 * len(head) else 0.0


def numeric_names(lines: Lines, layout: Layout) -> list[str]:
    """Return the names of the columns that hold a number in most of the first rows that fit."""
    rows = [cells(lines.whole(place), layout.delimiter) for place in np.flatnonzero(lines.ends > lines.starts)[:200]]
    rows = [row for row in rows if len(row) == len(layout.names) and not is_header(row)]
    given = [[row[place] for row in rows if row[place]] for place in range(len(layout.names))]
    numbers = [sum(bool(_NUMBER.match(cell)) for cell in column) for column in given]
    return [name for name, column, count in zip(layout.names, given, numbers, strict=True) if count and 2 * count > len(column)]


def is_header(names: list[str]) -> bool:
    named = [name for name in names if name]
    exported = any(name.endswith(("__MIN", "__MAX")) for name in named)
    return (
        len(named) >= 2
        and len(named) >= len(names) - 1
        and all(_NAME.match(name) and not _NUMBER.match(name) or exported and _is_of_run(name) for name in named)
    )


def _is_of_run(name: str) -> bool:
    """Say whether this is the name of a run, which may be called anything, and of a metric."""
    found = OF_EXPORT.match(name)
    return found is not None and _NAME.match(found["metric"].lstrip("_")) is not None


def cells(text: str, delimiter: str) -> list[str]:
    """Return the trimmed, unquoted cells of one line."""
    text = text.lstrip("#").strip() if text.startswith("#") else text.strip(" \r")
    if delimiter == " ":
        return text.split()
    if '"' not in text:
        return [cell.strip() for cell in text.split(delimiter)]
    quoted = re.findall(rf'(?:^|{re.escape(delimiter)})\s*("(?:[^"]|"")*"|[^{re.escape(delimiter)}]*)', text)
    return [cell.strip().removeprefix('"').removesuffix('"').replace('""', '"').strip() for cell in quoted]


def count_cells(lines: Lines, wanted: np.ndarray, delimiter: str) -> tuple[np.ndarray, np.ndarray]:
    """Return the number of cells of each wanted line, quoted delimiters not counted, and whether its quotes are closed."""
    if delimiter == " ":
        counts = np.array([len(lines.raw(index).split()) for index in wanted], np.int64)
        return counts, np.ones(len(wanted), bool)
    if b'"' not in lines.block:
        return lines.counts(ord(delimiter))[wanted] + 1, np.ones(len(wanted), bool)
    starts, ends = lines.starts[wanted], lines.ends[wanted]
    places, quotes = lines.places(ord(delimiter)), lines.places(ord('"'))
    owner = np.searchsorted(lines.ends, places, side="right")
    before = np.searchsorted(quotes, places) - np.searchsorted(quotes, lines.starts[np.minimum(owner, len(lines) - 1)])
    places = places[before % 2 == 0]
    closed = (np.searchsorted(quotes, ends) - np.searchsorted(quotes, starts)) % 2 == 0
    return np.searchsorted(places, ends) - np.searchsorted(places, starts) + 1, closed
