"""What one transaction of a run is made of: rows, aggregates, last values, events, original bytes, report and offset."""

import threading
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import duckdb
import numpy as np
import pyarrow as pa

from storage.keeping.behind import Behind
from storage.keeping.changes import ROW_GROUP, Changes, insert
from storage.keeping.originals import Originals
from storage.keeping.reports import clean_text, dump_json, dump_report
from storage.keeping.runs import make_rows_table
from storage.keeping.schema import cells_table, metric_column, rows_table, shrink_cache
from storage.keeping.sources import Source
from storage.keeping.state import Metric, RunState, metrics_rows
from storage.keeping.tiers import LARGE, SMALL, Cells, cells_rows, first_row_needed, pyramid
from storage.types import ROW_SCHEMA, Batch, Column, Event, ParseReport

AT_ONCE = 2 * ROW_GROUP  # rows: DuckDB packs as many row groups at a time as it has threads
INSERT_BYTES = 48 << 20  # of rows that wait at most
INSERT_CELLS = ROW_GROUP // 20 * 21  # about 27 MB of aggregates wait at most: of 21 cells 20 are of 50 rows
Result = TypeVar("Result")
# More metric names than this in one run are not kept as columns: the archive has the lines, an event says so.
MAX_METRICS = 1_000


class AlreadyKnown(Exception):
    """The same content was stored while this transaction was being prepared; `run_id` says as which run."""

    def __init__(self, run_id: str) -> None:
        super().__init__(run_id)
        self.run_id = run_id


class RunWriter:
    """Collects what belongs together of a run; made by `Store.writer`, or by `Store.together` for several runs.

    Nothing can be seen by others before `commit`; leaving the block without it takes everything back. One thread may call
    `append` while another calls `keep`.
    """

    def __init__(
        self,
        cursor: duckdb.DuckDBPyConnection,
        run: RunState,
        archive: Path,
        changes: Changes,
        at_once: Callable[[], None] | None,
    ) -> None:
        self.run = run
        self.committed = False
        self._cursor = cursor
        self._changes = changes
        self._at_once = at_once
        self._use = threading.Lock()  # of the cursor
        self._behind = Behind("insert")
        self._originals = Originals(cursor, run.no, archive, run.end, self._use)
        self._pending: list[pa.Table] = []
        self._pending_rows = self._pending_bytes = 0
        self._last: pa.Table | None = None  # the last LARGE rows, if they came at once
        self._cells: dict[int, list[Cells]] = {SMALL: [], LARGE: []}
        self._cell_rows = 0
        self._events: list[Event] = []
        self._dropped: set[str] = set()
        self._sources: list[Source] = []

    @property
    def run_id(self) -> str:
        """The id of the run that is written."""
        return self.run.id

    @property
    def rows(self) -> int:
        """Rows of the run, those of this transaction included."""
        return self.run.rows + self._pending_rows

    @property
    def events(self) -> int:
        """Events taken in this transaction."""
        return len(self._events)

    def append(self, batch: Batch) -> None:
        """Take rows (ROW_SCHEMA columns and float64 metrics) and events, in the order of the log."""
        self._events.extend(batch.events)
        if not batch.rows.num_rows:
            return
        self._pending.append(self._normalise(batch.rows))
        self._pending_rows += batch.rows.num_rows
        self._pending_bytes += self._pending[-1].nbytes
        if self._pending_rows >= AT_ONCE or self._pending_bytes >= INSERT_BYTES:
            self._insert_rows(self._pending_rows // ROW_GROUP * ROW_GROUP or self._pending_rows)

    def keep(self, data: bytes, encoding: str = "utf-8") -> None:
        """Keep the next original bytes of the log. `encoding` says where its lines end."""
        self._originals.feed(data, encoding)

    def came_from(self, source: Source) -> None:
        """Note what was read of which source, once a transaction; its `run` is filled in here."""
        self._sources.append(replace(source, run=self.run.id))

    def commit(
        self,
        *,
        report: ParseReport | None = None,
        offset: int | None = None,
        reader_state: Mapping[str, Any] | None = None,
        fingerprint: str | None = None,
        head: tuple[str, int] | None = None,
    ) -> int:
        """Make everything durable and visible at once (of several runs that are written together: with the last of them).

        Returns the run's version, the new one if it is durable. None leaves a value as it was. `offset` and `report.bytes` are
        bytes of the source; `fingerprint` is the SHA-256 of all of them, `head` that of its first bytes and their number.
        Raises AlreadyKnown when another run has that fingerprint by now.
        """
        if self.committed:
            raise RuntimeError("a writer commits once")
        frames = self._originals.finish()  # on disk while what came before is inserted
        self._insert_rows(self._pending_rows // ROW_GROUP * ROW_GROUP)
        self._insert_rows(self._pending_rows)
        self._behind.wait()
        self._hand_over(report, frames)
        values = self.run.kept() | {
            "bytes": None if report is None else report.bytes,
            "offset": offset,
            "report": None if report is None else dump_report(report),
            "reader_state": None if reader_state is None else dump_json(reader_state),
            "fingerprint": fingerprint,
            "head": head and head[0],
            "head_bytes": head and head[1],
        }
        self._changes.run(self.run, values)
        self.committed = True
        if self._at_once:
            self._at_once()
        return self.run.version

    def close(self, *, keep: bool) -> None:
        """Let go of the archive file; unless `keep`, it is again as it was."""
        self._behind.close()
        self._originals.close(keep=keep)

    def _hand_over(self, report: ParseReport | None, frames: pa.Table | None) -> None:
        """Leave to the transaction what goes into shared tables."""
        self._hand_over_cells()
        self._save_metrics(report)
        if self._dropped:
            text = f"{len(self._dropped)} metric names beyond the first {MAX_METRICS} are not kept as curves"
            self._events.append(Event(0, "too_many_metrics", text, data={"names": len(self._dropped)}))
        if self._events:
            self._changes.add("events", events_rows(self.run.no, self._events))
        if frames is not None:
            self._changes.add("frames", frames)
        self._changes.sources(self._sources)
        self.run.end = self._originals.end

    def _normalise(self, rows: pa.Table) -> pa.Table:
        """Return rows under the names and types of the warehouse, places that are missing as nulls."""
        columns: dict[str, pa.ChunkedArray] = {}
        for field in ROW_SCHEMA:
            known = field.name in rows.column_names
            column = _cast(rows[field.name], field.type) if known else pa.nulls(rows.num_rows, field.type)
            columns[field.name] = column.cast(pa.int64()) if pa.types.is_timestamp(field.type) else column
        for name, column in zip(rows.column_names, rows.columns, strict=True):
            if name not in ROW_SCHEMA.names and (metric := self._metric(clean_text(name))) is not None:
                columns.setdefault(metric_column(metric.no), _cast(column, pa.float64(), safe=False))
        return pa.table(columns)

    def _metric(self, name: str) -> Metric | None:
        metrics = self.run.metrics
        if name not in metrics and len(metrics) >= MAX_METRICS:
            self._dropped.add(name)
            return None
        if name not in metrics:
            metrics[name] = Metric(len(metrics), Column(name, name))
            column = metric_column(metrics[name].no)
            if self.run.columns:
                self._now(partial(self._cursor.execute, f"alter table {rows_table(self.run.no)} add column {column} double"))
                self.run.columns.append(column)
        return metrics[name]

    def _insert_rows(self, count: int) -> None:
        """Insert the first `count` rows of those that wait."""
        if not self.run.columns:
            self._now(partial(make_rows_table, self._cursor, self.run))
        if not count:
            return
        in_cells = self._taken(count)
        rows = in_cells.slice(in_cells.num_rows - count)
        job = partial(insert, self._cursor, rows_table(self.run.no), self._in_order(rows))
        if count >= ROW_GROUP:
            self._later(job)
        self._grow_cells(in_cells)
        self.run.follow(rows)
        if count < ROW_GROUP:
            self._hand_over_cells()  # made while what came before is inserted
            self._now(job)
            return
        if self._cell_rows >= INSERT_CELLS:
            self._hand_over_cells()
            self._later(self._changes.save_groups)

    def _now(self, job: Callable[[], Result]) -> Result:
        """Do what uses the cursor, when what was left to do `_later` is done."""
        self._behind.wait()
        with self._use:
            return job()

    def _later(self, job: Callable[[], None]) -> None:
        """Do what uses the cursor while the next rows come; DuckDB then forgets what it has written."""

        def whole() -> None:
            with self._use:
                job()
                shrink_cache(self._cursor)

        self._behind.do(whole)

    def _taken(self, count: int) -> pa.Table:
        """Take the first rows of those that wait; return them behind the earlier ones of the cells that they complete."""
        waiting = pa.concat_tables(self._pending, promote_options="default")
        rows, rest = waiting.slice(0, count), waiting.slice(count)
        rows = rows.append_column("row", pa.array(np.arange(self.run.rows, self.run.rows + count)))
        rows = pa.concat_tables([*self._earlier(count), rows], promote_options="default").combine_chunks()
        self._last = _copied(rows, LARGE) if count >= LARGE else None
        self._pending, self._pending_rows, self._pending_bytes = [rest], rest.num_rows, rest.nbytes
        return _coded(rows)

    def _in_order(self, rows: pa.Table) -> pa.Table:
        """Return rows with the columns of their table, in its order."""
        missing = pa.nulls(rows.num_rows, pa.float64())
        names = self.run.columns
        return pa.table([rows[name] if name in rows.column_names else missing for name in names], names=names)

    def _grow_cells(self, rows: pa.Table) -> None:
        """Aggregate the cells that `rows` complete, which begin with the first row that these need."""
        before, after = self.run.rows, rows["row"][-1].as_py() + 1
        metrics = {column: m.no for m in self.run.metrics.values() if (column := metric_column(m.no)) in rows.column_names}
        for tier, cells in pyramid(rows, metrics, before, after) if before // SMALL < after // SMALL else ():
            self._cells[tier].append(cells)
            self._cell_rows += len(cells["cell"])

    def _earlier(self, count: int) -> list[pa.Table]:
        """Return the last rows of the run that are in a cell which the next `count` rows complete."""
        before, after = self.run.rows, self.run.rows + count
        start = first_row_needed(before, after)
        if start == before or before // SMALL == after // SMALL:
            return []
        if self._last is not None:
            return [self._last.slice(LARGE - (before - start))]
        sql = f"select * from {rows_table(self.run.no)} where row >= {start:d} and row < {before:d}"
        return [self._now(lambda: self._cursor.sql(sql).to_arrow_table())]

    def _hand_over_cells(self) -> None:
        for tier, waiting in self._cells.items():
            if waiting:
                self._changes.add(cells_table(tier), cells_rows(self.run.no, waiting))
        self._cells, self._cell_rows = {SMALL: [], LARGE: []}, 0

    def _save_metrics(self, report: ParseReport | None) -> None:
        for column in report.columns if report else ():
            if metric := self.run.metrics.get(clean_text(column.name)):
                metric.column = column
        fresh = [metric for metric in self.run.metrics.values() if not metric.stored]
        kept = [metric for metric in self.run.metrics.values() if metric.stored]
        if fresh:
            self._changes.add("metrics", metrics_rows(self.run.no, fresh))
        if kept:
            self._changes.metrics(metrics_rows(self.run.no, kept))
        for metric in fresh:
            metric.stored = True


def _copied(rows: pa.Table, last: int) -> pa.Table:
    """Return a copy of the last rows: a slice would hold all of them."""
    return rows.take(np.arange(rows.num_rows - last, rows.num_rows))


def _coded(rows: pa.Table) -> pa.Table:
    """Return rows with their kind as numbers of its words."""
    return rows.set_column(rows.column_names.index("kind"), "kind", rows["kind"].combine_chunks().dictionary_encode())


def _cast(column: pa.ChunkedArray, kind: pa.DataType, *, safe: bool = True) -> pa.ChunkedArray:
    # Arrow takes some 20 µs to see that there is nothing to do, for each column of each piece of a log.
    return column if column.type == kind else column.cast(kind, safe=safe)


def events_rows(run_no: int, events: list[Event]) -> pa.Table:
    """Return events as rows of the table `events`."""
    return pa.table(
        {
            "run": pa.array([run_no] * len(events), pa.int32()),
            "line": pa.array([e.line for e in events], pa.int64()),
            "kind": pa.array([clean_text(e.kind) for e in events], pa.string()),
            "text": pa.array([clean_text(e.text) for e in events], pa.string()),
            "step": pa.array([e.step for e in events], pa.int64()),
            "segment": pa.array([e.segment for e in events], pa.int32()),
            "data": pa.array([dump_json(dict(e.data)) for e in events], pa.string()),
        }
    )
