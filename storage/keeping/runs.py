"""The runs in the warehouse and what hangs on them: making, listing, finding, removing. Every function works on a cursor."""

import hashlib
import json
import re
import secrets
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import pyarrow as pa

from storage.keeping.reports import clean_text
from storage.keeping.schema import cells_table, first_row, known, metric_column, now, rows_table
from storage.keeping.spark import points_of
from storage.keeping.state import RunState
from storage.keeping.tiers import LARGE, SMALL, TENS
from storage.types import ROW_SCHEMA, Event, Run

TURNS = re.compile("[\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]")  # the bidirectional controls of Unicode
RUN_COLUMNS = 'id, name, source, created, updated, rows, segments, first_step, last_step, total_steps, bytes, "offset", version'
TABLES_OF_RUNS = (*map(cells_table, (TENS, SMALL, LARGE)), "metrics", "events", "frames", "diagnoses", "pieces")
SQL_TYPES = {
    pa.int64(): "bigint",
    pa.int32(): "integer",
    pa.float64(): "double",
    pa.string(): "varchar",
    pa.timestamp("ms"): "bigint",
}


def make_run(cursor: duckdb.DuckDBPyConnection, name: str, source: str | None, fingerprint: str | None = None) -> RunState:
    """Make an empty run, without the table of its rows; its id is eight hexadecimal digits."""
    sql = (
        "insert into runs "
        '(id, no, name, source, fingerprint, created, updated, version, rows, segments, bytes, "offset", archive) '
        "select $id, nextval('run_numbers'), $name, $source, $fingerprint, $now, $now, nextval('versions'), 0, 0, 0, 0, 0 "
        "where not exists (from runs where id = $id) returning no"
    )
    source = None if source is None else clean_text(source)
    values = {"name": clean_text(name), "source": source, "fingerprint": fingerprint, "now": now()}
    while True:
        run_id = secrets.token_hex(4)
        made = first_row(cursor, sql, values | {"id": run_id})
        if made:
            return RunState(run_id, made[0])


def empty_run(cursor: duckdb.DuckDBPyConnection, run: RunState) -> RunState:
    """Take away all that a run holds but its name, the table of its rows too, and begin another archive file."""
    cursor.execute(f"drop table {rows_table(run.no)}")
    for table in TABLES_OF_RUNS:
        cursor.execute(f"delete from {table} where run = ?", [run.no])
    cleared = ", ".join(f"{name} = null" for name in ("first_step", "last_step", "total_steps", "first_time", "reader_state"))
    cleared += ", cold = 0, thin = 0, bare = false"
    cursor.execute(f"update runs set archive = archive + 1, {cleared} where no = ?", [run.no])
    return RunState(run.id, run.no, archive=run.archive + 1)


def remove_deleted(cursor: duckdb.DuckDBPyConnection, before: datetime) -> dict[str, str]:
    """Remove the runs that were deleted before then; return the name of the archive file of each by its id."""
    found = cursor.execute("select id, no, archive from runs where deleted <= ?", [before]).fetchall()
    for run_id, no, _ in found:
        cursor.execute(f"drop table {rows_table(no)}")
        for table in ("sources", "holds", "kept", "alerts", "deliveries"):
            cursor.execute(f"delete from {table} where run = ?", [run_id])
        for table in TABLES_OF_RUNS:
            cursor.execute(f"delete from {table} where run = ?", [no])
        cursor.execute("delete from runs where no = ?", [no])
    return {run_id: archive_name(run_id, part) for run_id, _, part in found}


def make_rows_table(cursor: duckdb.DuckDBPyConnection, run: RunState) -> None:
    """Make the table of a run's rows with a column for each metric that it has so far: each that is added later costs more."""
    columns = {"row": "bigint"} | {field.name: SQL_TYPES[field.type] for field in ROW_SCHEMA}
    columns |= {metric_column(metric.no): "double" for metric in run.metrics.values()}
    cursor.execute(f"create table {rows_table(run.no)} ({', '.join(map(' '.join, columns.items()))})")
    run.columns = list(columns)


def value_of(cursor: duckdb.DuckDBPyConnection, run_id: str, column: str) -> Any:
    """Return one column of a run. Raises UnknownRun."""
    return known(first_row(cursor, f"select {column} from runs where id = ? and deleted is null", [run_id]), run_id)[0]


def set_value(cursor: duckdb.DuckDBPyConnection, run_id: str, column: str, value: Any, *, deleted: bool = False) -> None:
    """Change one column of a run (of a deleted one, if so said). Raises UnknownRun."""
    state = "is not null" if deleted else "is null"
    sql = f"update runs set {column} = ?, version = nextval('versions') where id = ? and deleted {state} returning id"
    known(first_row(cursor, sql, [value, run_id]), run_id)


def newest_version(cursor: duckdb.DuckDBPyConnection, run_id: str | None = None) -> int:
    """Return the version of a run and its lanes, or that of the run changed last. Raises UnknownRun."""
    if run_id is None:
        found = first_row(cursor, "select coalesce(max(version), 0) from runs")
        return found[0] if found else 0
    sql = (
        "select max(version), bool_or(id = $run and deleted is null) from runs "
        "where id = $run or id in (select run from sources where job = $run)"
    )
    newest, there = first_row(cursor, sql, {"run": run_id}) or (0, False)
    return int(known((newest,) if there else None, run_id)[0])


def list_runs(cursor: duckdb.DuckDBPyConnection, ids: Sequence[str] | None = None) -> list[Run]:
    """Return those of the runs asked for that there are, or every run but the lanes of others, the one changed last first."""
    lanes = "select run from sources where job is not null"
    which = f"$ids is null and id not in ({lanes})" if ids is None else "list_contains($ids, id)"
    sql = f"select {RUN_COLUMNS} from runs where deleted is null and {which} order by updated desc, no desc"
    runs = []
    for run, name, source, created, updated, *rest in cursor.execute(sql, {"ids": ids}).fetchall():
        runs.append(Run(run, shown_name(name), source, created.replace(tzinfo=UTC), updated.replace(tzinfo=UTC), *rest))
    return runs


def shown_name(name: str) -> str:
    """Return the name of a run as everybody may show it: what turns the direction of the text around it is made visible."""
    return name if name.isascii() else TURNS.sub("�", name)


def find_fingerprint(cursor: duckdb.DuckDBPyConnection, fingerprint: str) -> str | None:
    """Return the id of the run with exactly this content, None if there is none."""
    found = first_row(cursor, "select id from runs where fingerprint = ? and deleted is null", [fingerprint])
    return found[0] if found else None


def find_head(cursor: duckdb.DuckDBPyConnection, head: bytes) -> list[tuple[str, int, str]]:
    """Return the runs whose source begins like `head` (or is a beginning of it): id, bytes and SHA-256 of the source."""
    sql = "select distinct head_bytes from runs where head_bytes <= ? and deleted is null"
    sizes = cursor.execute(sql, [len(head)]).fetchall()
    heads = [hashlib.sha256(head[:size]).hexdigest() for (size,) in sizes]
    sql = "select id, bytes, fingerprint from runs where deleted is null and list_contains(?, head)"
    return cursor.execute(sql, [heads]).fetchall()


def latest(cursor: duckdb.DuckDBPyConnection, ids: Iterable[str] | None) -> pd.DataFrame:
    """Return the last value of every metric of the given runs (None: all): `run, metric, step, value`."""
    sql = (
        "select r.id as run, m.name as metric, m.step, m.value from metrics m join runs r on m.run = r.no "
        "where r.deleted is null and m.count > 0 and ($ids is null or list_contains($ids, r.id)) order by r.no, m.no"
    )
    return cursor.sql(sql, params={"ids": None if ids is None else list(ids)}).df()


def sparklines(cursor: duckdb.DuckDBPyConnection, ids: Iterable[str] | None, metric: str) -> dict[str, np.ndarray]:
    """Return by id, for each of the given runs (None: all) with the metric, its sparkline: mean, lowest, highest (3, ≤ 64)."""
    sql = (
        "select r.id, m.spark from metrics m join runs r on m.run = r.no where r.deleted is null and m.name = $metric "
        "and m.count > 0 and ($ids is null or list_contains($ids, r.id))"
    )
    found = cursor.execute(sql, {"metric": metric, "ids": None if ids is None else list(ids)}).fetchall()
    return {run: points_of(spark) for run, spark in found}


def list_events(cursor: duckdb.DuckDBPyConnection, run_no: int, after: int = -1) -> tuple[Event, ...]:
    """Return the events of a run behind a line, by line."""
    sql = "select line, kind, text, step, segment, data from events where run = ? and line > ? order by line, rowid"
    found = cursor.execute(sql, [run_no, after]).fetchall()
    return tuple(Event(line, kind, text, step, segment, json.loads(data)) for line, kind, text, step, segment, data in found)


def archive_name(run_id: str, part: int) -> str:
    """Return the name of the archive file of a run; the part changes when the run is read anew from its start."""
    return f"{run_id}.{part}.zst"


def archived(cursor: duckdb.DuckDBPyConnection) -> dict[str, int]:
    """Return how many bytes of each archive file are committed, by its name."""
    sql = (
        "select r.id, r.archive, coalesce(max(f.position + f.size), 0) "
        "from runs r left join frames f on f.run = r.no group by all"
    )
    return {archive_name(run_id, part): size for run_id, part, size in cursor.execute(sql).fetchall()}
