"""What the writers of one transaction have for the tables that all runs share: one statement a table, however many runs."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from itertools import chain
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa

from messages import N_, Text
from storage.keeping.schema import StoreError, now
from storage.keeping.sources import Source, save_sources
from storage.keeping.state import RunState

# Rows of a row group of DuckDB. What is inserted in multiples of it is compressed and on disk when the insert is done; of other
# sizes the next checkpoint reads the halves of groups again to join them, all of a transaction at once (0.9 GB for 9 M rows).
ROW_GROUP = 122_880

# Columns of `runs` that a transaction can change; None leaves one as it was.
VALUES = (
    *("rows", "segments", "first_step", "last_step", "total_steps", "first_time", "bytes", "offset"),
    *("report", "reader_state", "fingerprint", "head", "head_bytes"),
)


class Changes:
    """Gathers rows for shared tables and new values of runs; `save` writes them all, `cursor` commits later."""

    def __init__(self, cursor: duckdb.DuckDBPyConnection) -> None:
        self._cursor = cursor
        self._rows: defaultdict[str, list[pa.Table]] = defaultdict(list)
        self._metrics: list[pa.Table] = []
        self._sources: list[Source] = []
        self._runs: list[tuple[RunState, Mapping[str, Any]]] = []

    @property
    def fingerprints(self) -> list[tuple[RunState, str]]:
        """The runs that are given a fingerprint, and that."""
        return [(run, values["fingerprint"]) for run, values in self._runs if values.get("fingerprint") is not None]

    def add(self, table: str, rows: pa.Table) -> None:
        """Insert these rows, in the order of the table's columns."""
        self._rows[table].append(rows)

    def metrics(self, rows: pa.Table) -> None:
        """Put these rows of `metrics` in the place of those with the same run and number."""
        self._metrics.append(rows)

    def sources(self, sources: Sequence[Source]) -> None:
        """Put sources in the place of what was known of the same run and generation."""
        self._sources += sources

    def run(self, run: RunState, values: Mapping[str, Any]) -> None:
        """Give a run new VALUES."""
        self._runs.append((run, values))

    def save_rows(self) -> None:
        """Write everything but the runs themselves."""
        self.save_groups()
        for table, rows in self._rows.items():
            insert(self._cursor, table, pa.concat_tables(rows))
        if self._metrics:
            self._update_metrics(pa.concat_tables(self._metrics))
        save_sources(self._cursor, self._sources)
        self._rows.clear()
        self._metrics, self._sources = [], []

    def save_groups(self) -> None:
        """Write what fills whole row groups; the rest waits for `save_rows`."""
        for table in self._rows:
            rows = pa.concat_tables(self._rows[table])
            count = rows.num_rows // ROW_GROUP * ROW_GROUP
            if count:
                # A copy: a slice would hold all of the rows.
                self._rows[table] = [rows.take(np.arange(count, rows.num_rows))]
                insert(self._cursor, table, rows.slice(0, count))

    def save_runs(self) -> None:
        """Write the new values of the runs and give each its next version. Raises StoreError when one is gone."""
        names = [name for name in VALUES if any(values.get(name) is not None for _, values in self._runs)]
        given = [[run.no, *(values.get(name) for name in names)] for run, values in self._runs]
        found = self._update_one(names, *given) if len(given) == 1 else self._update_many(names, given)
        versions = dict(found)
        for run, _ in self._runs:
            if run.no not in versions:
                raise StoreError(Text(N_("Run {run} is not in the store any more."), {"run": run.id}))
            run.version = versions[run.no]

    def _update_one(self, names: Sequence[str], values: Sequence[Any]) -> list[tuple[int, int]]:
        """Change one run: half as long as with a join. Return its number and version."""
        sets = "".join(f'"{name}" = ?, ' for name in names)
        sql = f"update runs set {sets}updated = ?, version = nextval('versions') where no = ? and deleted is null"
        return self._cursor.execute(f"{sql} returning no, version", [*values[1:], now(), values[0]]).fetchall()

    def _update_many(self, names: Sequence[str], values: Sequence[Sequence[Any]]) -> list[tuple[int, int]]:
        sets = "".join(f'"{name}" = coalesce(i."{name}", runs."{name}"), ' for name in names)
        columns = ", ".join(f'"{name}"' for name in ("no", *names))
        row = f"({', '.join('?' * (1 + len(names)))})"
        sql = (
            f"update runs set {sets}updated = ?, version = nextval('versions') "
            f"from (values {', '.join([row] * len(values))}) i({columns}) "
            "where runs.no = i.no and runs.deleted is null returning runs.no, runs.version"
        )
        return self._cursor.execute(sql, [now(), *chain.from_iterable(values)]).fetchall()

    def _update_metrics(self, rows: pa.Table) -> None:
        names = ("step", "value", "count", "nonfinite", "spark", "stride", "printed", "unit", "role")
        runs = ", ".join(map(str, rows["run"].unique().to_pylist()))  # said once more: only their part of the table is read
        self._cursor.register("incoming", rows)
        self._cursor.execute(
            f"update metrics set {', '.join(f'{name} = i.{name}' for name in names)} from incoming i "
            f"where metrics.run = i.run and metrics.no = i.no and metrics.run in ({runs})"
        )
        self._cursor.unregister("incoming")


def insert(cursor: duckdb.DuckDBPyConnection, table: str, rows: pa.Table) -> None:
    """Append an Arrow table whose columns are those of the table of the warehouse, in its order."""
    # Not by `register`: DuckDB keeps what is registered until the transaction ends, a whole file's rows in memory.
    # Each chunk becomes a row group, made by a thread of its own: so they must be whole ones, or the only one.
    whole = rows.num_rows // ROW_GROUP if rows.num_rows % ROW_GROUP == 0 else 0
    groups = [rows.slice(at * ROW_GROUP, ROW_GROUP).combine_chunks() for at in range(whole)]
    cursor.from_arrow(pa.concat_tables(groups) if groups else rows.combine_chunks()).insert_into(table)
