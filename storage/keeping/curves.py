"""The curves of runs as readers ask for them: rows, buckets of a chart, windows, all rows as a file."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import duckdb
import pandas as pd
import pyarrow as pa

from storage.keeping import many, parquet, series
from storage.keeping.published import Published
from storage.keeping.schema import first_row, known
from storage.keeping.series import RunHead
from storage.keeping.warehouse import Warehouse


class Curves:
    """What was logged step by step. What takes the id of a run raises UnknownRun. `published`: cold rows."""

    def __init__(self, warehouse: Warehouse, published: Published) -> None:
        self._warehouse = warehouse
        self._published = published
        self._heads: dict[int, RunHead] = {}

    def frame(
        self,
        run_id: str,
        columns: Sequence[str] | None = None,
        *,
        kind: str | None = "train",
        segment: int | None = None,
        first_step: int | None = None,
        last_step: int | None = None,
        skip: int | None = None,
        most: int | None = None,
    ) -> pa.Table:
        """Return rows in the order logged; null = not printed, NaN and ±inf = printed as such.

        By default the ROW_SCHEMA columns and every metric; of `columns`, those the run has. `kind=None` gives all kinds.
        The step range is inclusive. `skip`: without the rows (of any kind) that were stored first; `most`: of those behind
        them, as many at most.
        """
        with self._warehouse.reading() as cursor:
            run = self._head(cursor, run_id)
            limits = {"segment": segment, "first_step": first_step, "last_step": last_step, "skip": skip, "most": most}
            return series.frame(cursor, run, columns, kind=kind, **limits)

    def buckets(
        self,
        run_id: str,
        metrics: Sequence[str],
        *,
        x: str = "step",
        first: float | datetime | None = None,
        last: float | datetime | None = None,
        width: int = 1000,
        segment: int | None = None,
        kind: str | None = None,
    ) -> pd.DataFrame:
        """Return at most `width` buckets a metric and segment between `first` and `last` (inclusive, in units of x).

        One row a bucket that has values, by metric (as asked for), segment and x: `metric, segment, x, x_last` (where its
        values start and end), `mean, min, max` over finite values (NaN where there are none), `first, last, count` over
        all values, `nonfinite` of them NaN or infinite, and the `step` and `line` of min and max. Long ranges come from
        aggregates, so a bucket may reach a little beyond the range, and no value in it is ever left out.
        `x`: step, line, epoch, timestamp (UTC), elapsed_seconds, or any metric (tokens_seen); rows without it are not in
        the chart, nor are those of kind `summary`; `kind`: rows of that kind alone. A metric or an x that the run has not
        gives no rows.
        """
        with self._warehouse.reading() as cursor:
            run = self._head(cursor, run_id)
            wanted, axis = _wanted(run, metrics), series.axis(x, run)
            if axis is None or not wanted:
                return pd.DataFrame(columns=list(series.BUCKET_COLUMNS))
            low, high = (_milliseconds(limit) if isinstance(limit, datetime) else limit for limit in (first, last))
            chart = series.Chart(cursor, run, axis, segment=segment, kind=kind, first=low, last=high)
            return _timed(chart.buckets(wanted, max(1, width)), x)

    def buckets_many(
        self, ids: Iterable[str], metrics: Sequence[str], *, x: str = "step", width: int = 1000
    ) -> dict[str, pd.DataFrame]:
        """Return `buckets` of many runs at once, of their columns `many.COLUMNS`: by run in the order of `ids`, each cut by its
        own length.
        """
        wanted = list(dict.fromkeys(metrics))
        with self._warehouse.reading() as cursor:
            heads = self._heads_of(cursor, list(dict.fromkeys(ids)))
            axes = {run.id: (run, series.axis(x, run)) for run in heads if not run.metrics.keys().isdisjoint(wanted)}
            charts = {run_id: series.Chart(cursor, run, axis) for run_id, (run, axis) in axes.items() if axis is not None}
            found = many.buckets_many(cursor, charts, wanted, max(1, width))
        nothing = pd.DataFrame(columns=list(many.COLUMNS))
        return {run.id: _timed(found[run.id], x) if run.id in found else nothing for run in heads}

    def printed_steps(self, ids: Iterable[str], most: int) -> dict[str, float]:
        """Return which share of the first `most` rows of each run (of kind train) print their step; by run with such rows."""
        with self._warehouse.reading() as cursor:
            return many.printed_steps(cursor, self._heads_of(cursor, list(dict.fromkeys(ids))), most)

    def windows(
        self, run_id: str, metrics: Sequence[str], size: float, *, x: str = "step", segment: int | None = None
    ) -> pd.DataFrame:
        """Return aggregates over equal stretches of x, as `buckets` does: from k·size up to (k+1)·size.

        10, 50 or 1,000 steps, one epoch (`x="epoch", size=1`), an hour (`x="timestamp"`, size in seconds).
        """
        with self._warehouse.reading() as cursor:
            run = self._head(cursor, run_id)
            wanted, axis = _wanted(run, metrics), series.axis(x, run)
            if axis is None or not wanted:
                return pd.DataFrame(columns=list(series.BUCKET_COLUMNS))
            scale = 1000 if x == "timestamp" else 1
            return _timed(series.Chart(cursor, run, axis, segment=segment).windows(wanted, size * scale), x)

    def export(self, run_id: str, path: str | Path) -> int:
        """Write every row that is kept of a run to one file, CSV or Parquet by its name; return how many.

        Raises UnknownRun, OSError, and ValueError for another kind of file.
        """
        path = Path(path)
        if path.suffix.lower() not in (".csv", ".parquet"):
            raise ValueError(f"{path.name}: the name must end in .csv or .parquet.")
        with self._warehouse.reading() as cursor:
            run = self._head(cursor, run_id)
            parquet.export(parquet.row_parts(cursor, run.no, run.table), path)
            found = first_row(cursor, f"select count(*) from {run.table}")
            return found[0] if found else 0

    def _head(self, cursor: duckdb.DuckDBPyConnection, run_id: str) -> RunHead:
        return self._heads_of(cursor, [run_id])[0]

    def _heads_of(self, cursor: duckdb.DuckDBPyConnection, ids: Sequence[str]) -> list[RunHead]:
        names = "id, no, rows, first_time, archive, version, thin, bare, cold"
        sql = f"select {names} from runs where list_contains(?, id) and deleted is null"
        found = {run_id: tuple(values) for run_id, *values in cursor.execute(sql, [list(ids)]).fetchall()}
        there = {run_id: known(found.get(run_id), run_id) for run_id in ids}
        for no, *_others, cold in there.values():
            if cold:
                self._published.fetch_missing(cursor, no, cold)
        kept = {run_id: self._heads.get(no) for run_id, (no, *_others) in there.items()}
        heads = {run_id: head for run_id, head in kept.items() if head and head.state == list(there[run_id][1:])}
        heads |= self._new_heads(cursor, {run_id: values for run_id, values in there.items() if run_id not in heads})
        return [heads[run_id] for run_id in ids]

    def _new_heads(self, cursor: duckdb.DuckDBPyConnection, there: Mapping[str, tuple[Any, ...]]) -> dict[str, RunHead]:
        """Return and remember the heads of runs by id, as the store has them: no, rows, first_time, archive, …, cold."""
        if not there:
            return {}
        sql = "select run, name, no from metrics where run in ? order by run, no"
        names: dict[int, dict[str, int]] = {no: {} for no, *_others in there.values()}
        for no, name, number in cursor.execute(sql, [list(names)]).fetchall():
            names[no][name] = number
        made = {}
        for run_id, (no, rows, first_time, archive, version, thin, bare, cold) in there.items():
            table = parquet.source(cursor, no, cold, self._warehouse.data_dir)
            head = RunHead(run_id, no, names[no], rows, first_time, archive, version, thin, bare, cold, table)
            made[run_id] = self._heads[no] = head
        return made


def _wanted(run: RunHead, metrics: Sequence[str]) -> list[str]:
    return [name for name in dict.fromkeys(metrics) if name in run.metrics]


def _timed(buckets: pd.DataFrame, x: str) -> pd.DataFrame:
    return buckets.assign(**{name: buckets[name].astype("datetime64[ms]") for name in ("x", "x_last") if x == "timestamp"})


def _milliseconds(time: datetime) -> int:
    """Return a UTC time (without a zone: taken as UTC) as milliseconds since 1970."""
    return round((time if time.tzinfo else time.replace(tzinfo=UTC)).timestamp() * 1000)
