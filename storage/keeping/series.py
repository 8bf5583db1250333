"""Reading the curves of a run: rows as they are, or buckets of a range for a chart, from the tier that fits its width."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import pyarrow as pa

from storage.keeping.schema import cells_table, first_row, metric_column
from storage.keeping.tiers import LARGE, PLACES, SMALL, STATS, TENS, Cells, Groups, numbers, printed, single
from storage.types import ROW_SCHEMA

BUCKET_COLUMNS = ("metric", "segment", "x", "x_last", *STATS)
# A tier is used when it has at least this many cells for each bucket: with fewer, buckets would be unequal.
CELLS_A_BUCKET = 2


@dataclass(frozen=True)
class RunHead:
    """What a reader needs to know of a run in its snapshot: numbers, how many rows, and its metrics' numbers by name.

    Of the rows before `thin` only those around findings are there, of the others cells of ten (none if `bare`).
    Those before `cold` are in Parquet files; `table` is the SQL to read all that there are.
    """

    id: str
    no: int
    metrics: Mapping[str, int]
    rows: int
    first_time: int | None
    archive: int
    version: int
    thin: int
    bare: bool
    cold: int
    table: str

    @property
    def state(self) -> list[Any]:
        """What can change of a run."""
        return [self.rows, self.first_time, self.archive, self.version, self.thin, self.bare, self.cold]


@dataclass(frozen=True)
class Axis:
    """How the x of a chart is had: SQL over a row, over the start and the end of a cell; `metric` if cells must be joined.

    `whole` says that x is a whole number; others can be NaN or infinite.
    """

    row: str
    cell_first: str
    cell_last: str
    whole: bool = False
    metric: int | None = None


def axis(x: str, run: RunHead) -> Axis | None:
    """Return how to get `x` (a place of a row, `elapsed_seconds`, or a metric), None where the run has no such thing.

    Elapsed seconds are those printed, else the wall clock since the first stamp of the run.
    """
    if x in PLACES:
        return Axis(x, f"first_{PLACES[x]}", f"last_{PLACES[x]}", whole=x != "epoch")
    if x in run.metrics:
        return Axis(metric_column(run.metrics[x]), "place.min", "place.max", metric=run.metrics[x])
    if x == "elapsed_seconds" and run.first_time is not None:
        since = f"({{}} - {run.first_time:d}) / 1000"
        return Axis(since.format("timestamp"), since.format("first_time"), since.format("last_time"))
    return None


def frame(
    cursor: duckdb.DuckDBPyConnection,
    run: RunHead,
    columns: Sequence[str] | None,
    *,
    kind: str | None,
    segment: int | None,
    first_step: int | None,
    last_step: int | None,
    skip: int | None = None,
    most: int | None = None,
) -> pa.Table:
    """Return rows in the order logged: the wanted columns that exist, all of them by default."""
    known = {name: name for name in ROW_SCHEMA.names} | {name: metric_column(no) for name, no in run.metrics.items()}
    names = list(known) if columns is None else [name for name in dict.fromkeys(columns) if name in known]
    until = None if most is None else (skip or 0) + most
    tests = {"kind = ?": kind, "segment = ?": segment, "step >= ?": first_step, "step <= ?": last_step}
    tests |= {"row >= ?": skip, "row < ?": until}
    tests = {test: value for test, value in tests.items() if value is not None}
    where = f" where {' and '.join(tests)}" if tests else ""
    sql = f"select line, {', '.join(known[name] for name in names) or 'row'} from {run.table}{where}"
    table = _by_line(cursor.sql(sql, params=list(tests.values())).to_arrow_table())
    if not names:
        return table.select([])
    table = table.rename_columns(names)
    if "timestamp" not in names:
        return table
    return table.set_column(names.index("timestamp"), "timestamp", table["timestamp"].cast(pa.timestamp("ms")))


def _by_line(table: pa.Table) -> pa.Table:
    """Return the table in the order of its first column, without it.

    DuckDB returns a plain scan in the order of insertion (its setting preserve_insertion_order). That is nearly always the
    order of the log: a reader may hold back rows that it can't place yet.
    """
    line, table = numbers(table[0]), table.select(range(1, table.num_columns))
    return table if (line[1:] >= line[:-1]).all() else table.take(pa.array(np.argsort(line, kind="stable")))


class Chart:
    """Buckets of one run over one axis, in the range `first`…`last`; every query on one cursor, in one transaction."""

    def __init__(
        self,
        cursor: duckdb.DuckDBPyConnection,
        run: RunHead,
        axis: Axis,
        *,
        segment: int | None = None,
        kind: str | None = None,
        first: float | None = None,
        last: float | None = None,
    ) -> None:
        self._cursor = cursor
        self.run = run
        self.axis = axis
        self._first, self._last = first, last
        self._lanes = "kind <> 'summary'" if kind is None else f"kind = {_quoted(kind)}"
        self._lanes += "" if segment is None else f" and segment = {segment:d}"
        self._whole = first is None and last is None and segment is None and kind is None

    def buckets(self, metrics: Sequence[str], width: int) -> pd.DataFrame:
        """Return one row a metric, segment and bucket that has values, columns BUCKET_COLUMNS; the range in `width` parts."""
        series = {name: cells for name, cells in self._series(metrics, width).items() if len(cells["count"])}
        low = min((cells["first_x"].min() for cells in series.values()), default=0)
        high = max((_largest(cells["last_x"], low) for cells in series.values()), default=0)
        low = low if self._first is None else max(low, self._first)
        high = high if self._last is None else min(high, self._last)
        return _frame({name: _bucketed(cells, low, (high - low) / width, width) for name, cells in series.items()})

    def windows(self, metrics: Sequence[str], size: float) -> pd.DataFrame:
        """Return the same for buckets from k·`size` to (k+1)·`size`, of the rows themselves."""
        return _frame({name: _bucketed(cells, 0, size, None) for name, cells in self._finest(metrics).items()})

    def _series(self, metrics: Sequence[str], width: int) -> dict[str, Cells]:
        """Return for each metric its cells in the range, from the coarsest tier that has enough of them."""
        tier = self._tier(metrics, width)
        if tier is None:
            return self._finest(metrics)
        rows = self._rows(metrics, self.run.rows // tier * tier)
        tails = {name: _row_cells(rows, name) for name in metrics}
        cells = self._cells(metrics, tier)
        return {name: _joined(_metric_cells(cells, self.run.metrics[name]), tail) for name, tail in tails.items()}

    def _finest(self, metrics: Sequence[str]) -> dict[str, Cells]:
        """Return for each metric what is finest in the range: its rows, and cells of ten in the place of rows that are gone."""
        rows = self._rows(metrics, 0)
        found = {name: _row_cells(rows, name) for name in metrics}
        if not self.run.thin or self.run.bare:
            return found
        cells = self._cells(metrics, TENS)
        return {name: _in_order(_metric_cells(cells, self.run.metrics[name]), left) for name, left in found.items()}

    def _tier(self, metrics: Sequence[str], width: int) -> int | None:
        rows = 0 if self.run.bare else self.run.rows
        if not self._whole and rows >= SMALL * width * CELLS_A_BUCKET:
            rows = self._rows_in_range(metrics)
        return next((tier for tier in (LARGE, SMALL) if rows >= tier * width * CELLS_A_BUCKET), None)

    def _rows_in_range(self, metrics: Sequence[str]) -> int:
        """Count the rows in the range, to a thousand."""
        source = self._cell_source(self._numbered(metrics), LARGE, [self.run.no])
        found = first_row(self._cursor, f"select count(distinct cell) from {source}")
        return LARGE * (found[0] if found else 0)

    def _within(self, start: str, end: str) -> str:
        """Return SQL that is true for what reaches into the range asked for."""
        tests = [f"{start} is not null" if self.axis.whole else f"isfinite({start})"]
        tests += [] if self._first is None else [f"{end} >= {_literal(self._first)}"]
        tests += [] if self._last is None else [f"{start} <= {_literal(self._last)}"]
        return " and ".join(tests)

    def _cell_source(self, metrics: Iterable[int], tier: int, runs: Iterable[int]) -> str:
        """Return a query over the stored cells that reach into the range, with their `first_x` and `last_x`."""
        x = self.axis
        mine = f"(select * from {cells_table(tier)} where run in ({_listed(runs)}) and {self._lanes} and metric"
        source, joined = f"{mine} in ({_listed(metrics)})) c", ""
        if x.metric is not None:
            joined = (
                f"join {mine} = {x.metric:d}) place on c.run = place.run and c.cell = place.cell "
                "and c.segment = place.segment and c.kind = place.kind and c.rank is not distinct from place.rank "
            )
        within = self._within(x.cell_first, x.cell_last)
        return f"(select c.*, {x.cell_first} as first_x, {x.cell_last} as last_x from {source} {joined}where {within})"

    def _cells(self, metrics: Sequence[str], tier: int) -> pa.Table:
        return self._cursor.sql(self.cells_sql(self._numbered(metrics), tier, [self.run.no])).to_arrow_table()

    def _numbered(self, metrics: Sequence[str]) -> list[int]:
        return [self.run.metrics[name] for name in metrics]

    def cells_sql(self, metrics: Iterable[int], tier: int, runs: Iterable[int], stats: Sequence[str] = STATS) -> str:
        """Return a query for the stored cells that reach into the range, of runs (numbers) whose charts have this axis."""
        columns = f"run, metric, cell * {tier:d} as row, segment, first_x, last_x, {', '.join(stats)}"
        # A join does not keep the order in which the cells were written.
        order = "" if self.axis.metric is None else " order by cell"
        return f"select {columns} from {self._cell_source(metrics, tier, runs)}{order}"

    def _rows(self, metrics: Sequence[str], start: int) -> pa.Table:
        """Return the rows from number `start` on that are in the range, metrics by name, with their `x`."""
        table = self._cursor.sql(self.rows_sql(metrics, start)).to_arrow_table()
        return table.rename_columns(["row", "segment", "step", "line", "x", *metrics])

    def rows_sql(self, metrics: Sequence[str], start: int) -> str:
        """Return a query for the rows from number `start` on that are in the range, with `x`; null for a metric it lacks."""
        known = self.run.metrics
        wanted = ", ".join(metric_column(known[name]) if name in known else "null::double" for name in metrics)
        x = self.axis.row
        return (
            f"select row, segment, step, line, {x} as x, {wanted} from {self.run.table} where row >= {start:d} "
            f"and {self._lanes} and {self._within(x, x)}{' order by row' if self.run.cold > start else ''}"
        )

    def source(self, width: int) -> tuple[int | None, int]:
        """Return which tier of cells a chart of the whole run reads (None: none), and from which row on it reads rows."""
        tier = self._tier((), width)
        if tier is None:
            return TENS if self.run.thin and not self.run.bare else None, 0
        return tier, self.run.rows // tier * tier


def _row_cells(rows: pa.Table, metric: str) -> Cells:
    position = rows.column_names.index(metric, 5)
    which = printed(rows, position)
    if which is None:
        rows, which = rows.slice(0, 0), slice(None)
    at = {name: numbers(rows[index])[which] for index, name in enumerate(("row", "segment", "step", "line", "x"))}
    cells = single(rows[position].drop_null().to_numpy(), at["step"], at["line"])
    return cells | {"row": at["row"], "segment": at["segment"], "first_x": at["x"], "last_x": at["x"]}


def _metric_cells(cells: pa.Table, metric: int) -> Cells:
    which = np.flatnonzero(numbers(cells["metric"]) == metric)
    return {name: numbers(cells[name])[which] for name in ("row", "segment", "first_x", "last_x", *STATS)}


def _joined(cells: Cells, tail: Cells) -> Cells:
    return {name: np.concatenate([array, tail[name]]) for name, array in cells.items()}


def _in_order(cells: Cells, rows: Cells) -> Cells:
    both = _joined(cells, rows)
    order = np.argsort(both["row"], kind="stable")
    return {name: array[order] for name, array in both.items()}


def _largest(values: np.ndarray, least: float) -> float:
    return np.fmax.reduce(values, where=np.isfinite(values), initial=least)


def _bucketed(cells: Cells, low: float, size: float, count: int | None) -> Cells:
    """Merge cells into buckets of `size` from `low` on; what lies outside of `count` buckets goes to the nearest."""
    with np.errstate(all="ignore"):
        bucket = np.floor((cells["first_x"] - low) / size) if size > 0 else np.zeros(len(cells["first_x"]))
    if count is None:
        starts, bucket = np.unique(bucket, return_inverse=True)
        count = len(starts)
    else:
        bucket = np.clip(np.nan_to_num(bucket), 0, count - 1).astype(np.int64)
    groups = Groups(cells["segment"].astype(np.int64) * count + bucket)
    places = {"segment": groups.first(cells["segment"])}
    places |= {"x": groups.smallest(cells["first_x"]), "x_last": groups.largest(cells["last_x"])}
    return groups.merge(cells) | places


def _frame(buckets: Mapping[str, Cells]) -> pd.DataFrame:
    if not buckets:
        return pd.DataFrame(columns=list(BUCKET_COLUMNS))
    # Codes for the names: a column of texts takes longer to make than all the others together.
    codes = np.repeat(np.arange(len(buckets)), [len(each["x"]) for each in buckets.values()])
    arrays = {name: np.concatenate([each[name] for each in buckets.values()]) for name in BUCKET_COLUMNS if name != "metric"}
    return pd.DataFrame({"metric": pd.Categorical.from_codes(codes, list(buckets)), **arrays})


def _listed(values: Iterable[int]) -> str:
    """Return whole numbers as a list in SQL."""
    return ", ".join(f"{value:d}" for value in values)


def _quoted(text: str) -> str:
    """Return a text as SQL."""
    return "'" + text.replace("'", "''") + "'"


def _literal(value: float) -> str:
    """Return a number as SQL. Whatever is not a number is an error here and never reaches the database."""
    return repr(int(value)) if isinstance(value, int | np.integer) else repr(float(value)) + "::double"
