"""The warehouse file: opening it, its one owner, its schema and the migrations that brought it there."""

import os
import re
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import duckdb

from messages import N_, Text
from storage.keeping.sources import CRC, PAUSED
from storage.keeping.sources import TABLES as SOURCES

FILE = "runvitals.duckdb"
DUCKDB_SERIES = "2.0."
MEMORY_MIB = 2048  # of DuckDB's cache and work; beyond that it works on disk
CLOSING_SECONDS = 10.0  # that other threads have to end what they ask of a store that is closed
CACHE_MIB = 64  # that a transaction of many rows leaves at most

# One script a version, applied in order, never edited once released: a change of the schema is a new script at the end.
# Times of rows and cells are milliseconds since 1970 (UTC) as integers: DuckDB 2.0.1 fails on arithmetic with epoch_ms of
# a timestamp_ms. No indexes: one writer a run makes doubles impossible, and every look-up is a scan of a small table or of
# one with zone maps.
MIGRATIONS: Sequence[str] = (
    """
    create sequence run_numbers;
    create sequence versions;
    create table runs (
        id varchar, no integer, name varchar, source varchar, fingerprint varchar, head varchar, head_bytes integer,
        created timestamp, updated timestamp, deleted timestamp, version bigint,
        rows bigint, segments integer, first_step bigint, last_step bigint, total_steps bigint, first_time bigint,
        bytes bigint, "offset" bigint, archive integer, report varchar, reader_state varchar
    );
    create table metrics (
        run integer, no integer, name varchar, printed varchar, unit varchar, role varchar,
        step bigint, value double, count bigint, nonfinite bigint, spark blob, stride bigint
    );
    create table cells_50 (
        run integer, metric integer, cell bigint, segment integer, kind varchar, rank integer,
        first_line bigint, last_line bigint, first_step bigint, last_step bigint,
        first_time bigint, last_time bigint, first_epoch double, last_epoch double,
        mean double, min double, max double, first double, last double, count bigint, nonfinite bigint,
        min_step bigint, max_step bigint, min_line bigint, max_line bigint
    );
    create table cells_1000 as from cells_50;
    create table events (run integer, line bigint, kind varchar, text varchar, step bigint, segment integer, data varchar);
    create table frames (
        run integer, first_line bigint, lines bigint, byte bigint, bytes bigint, position bigint, size bigint, data blob
    );
    create table diagnoses (run integer, profile varchar, version bigint, data varchar, made timestamp);
    """,
    SOURCES,
    PAUSED,
    # Ageing. A frame with neither position nor data is gone: its lines are counted and no longer kept.
    # runs.cold: rows before it are in Parquet only; thin: rows before it are in cells_10, but for windows around findings;
    # bare: all aggregates are gone. pieces: published Parquet files. mirrored: what the object store has.
    """
    alter table frames add column made timestamp;
    update frames set made = r.updated from runs r where r.no = frames.run;
    alter table runs add column cold bigint default 0;
    alter table runs add column thin bigint default 0;
    alter table runs add column bare boolean default false;
    create table cells_10 as from cells_50 limit 0;
    create table holds (run varchar, reason varchar, made timestamp);
    create table notes (made timestamp, kind varchar, template varchar, "values" varchar);
    create table pieces (run integer, kind varchar, path varchar, first bigint, count bigint, bytes bigint, sha256 varchar);
    create table mirrored (path varchar, bytes bigint, made timestamp);
    """,
    "alter table frames add column crc bigint",  # of the packed bytes; zstd frames of Arrow have none
    "create table kept (kind varchar, run varchar, name varchar, data varchar, who varchar, made timestamp)",
    CRC,
    "update metrics set spark = spark || spark || spark",  # of means alone until now: they stand for the extremes too
    # The outbox (storage/keeping/outbox.py).
    """
    create table alerts (id varchar, run varchar, data varchar, made timestamp);
    create table deliveries (
        alert varchar, run varchar, channel varchar, state varchar, tries integer, due timestamp, done timestamp,
        message varchar, answer varchar
    );
    """,
)


class StoreError(RuntimeError):
    """The store can't do what was asked; `message` is a sentence for a person."""

    def __init__(self, message: Text) -> None:
        super().__init__(message.render())
        self.message = message


class StoreLocked(StoreError):
    """Another process, or another part of this one, holds the store."""


class UnknownRun(KeyError):
    """The store has no such run (or it was deleted); the message says so."""

    def __str__(self) -> str:
        return str(self.args[0])


_open_files: set[tuple[int, Path]] = set()
_open_lock = threading.Lock()


def connect(data_dir: Path, *, read_only: bool) -> duckdb.DuckDBPyConnection:
    """Open the warehouse in `data_dir` and bring its schema up to date; `disconnect` gives it back.

    Raises StoreLocked when it is already open (a writer excludes all others), StoreError when it can't be opened, is
    missing (read-only) or was written by a newer version of this program.
    """
    _check_library()
    path = (data_dir / FILE).resolve()
    if read_only and not path.exists():
        raise StoreError(Text(N_("There is no store in {folder} to read."), {"folder": str(data_dir)}))
    _claim(path)
    try:
        connection = _open(path, read_only)
        try:
            migrate(connection, read_only=read_only)
        except BaseException:
            connection.close()
            raise
        return connection
    except BaseException:
        _release(path)
        raise


def disconnect(connection: duckdb.DuckDBPyConnection, data_dir: Path) -> None:
    """Close the warehouse and give up its ownership."""
    until = time.monotonic() + CLOSING_SECONDS
    while True:
        try:
            connection.close()
            break
        except duckdb.ResourceInUseException:  # another thread makes a cursor of it: DuckDB refuses, it does not wait
            if time.monotonic() > until:
                raise
            time.sleep(0.001)
    _release((data_dir / FILE).resolve())


def shrink_cache(cursor: duckdb.DuckDBPyConnection) -> None:
    """Let DuckDB forget pages until it holds CACHE_MIB: it would keep all that is written, up to MEMORY_MIB.

    A lower limit for good would do the same, but logs of hundreds of metrics then take a third more time.
    """
    with suppress(duckdb.OutOfMemoryException):  # that much is in use
        cursor.execute(f"set memory_limit = '{CACHE_MIB}MiB'")
    cursor.execute(f"set memory_limit = '{MEMORY_MIB}MiB'")


def known(found: tuple[Any, ...] | None, run_id: str) -> tuple[Any, ...]:
    """Return the answer to a question about a run; raise UnknownRun where there is none."""
    if found is None:
        raise UnknownRun(f"There is no run {run_id!r} in the store.")
    return found


def first_row(cursor: duckdb.DuckDBPyConnection, sql: str, values: Any = None) -> tuple[Any, ...] | None:
    """Return the first row of an answer, None without one. (DuckDB's `fetchone` would leave the cursor busy.)"""
    rows = cursor.execute(sql, values).fetchall()
    return rows[0] if rows else None


def now() -> datetime:
    """Return the time in UTC as the warehouse keeps it: without a zone."""
    return datetime.now(UTC).replace(tzinfo=None)


def rows_table(run_no: int) -> str:
    """Return the name of the table that holds the rows of a run."""
    return f"rows_{run_no:d}"


def cells_table(tier: int) -> str:
    """Return the name of the table that holds the aggregates of `tier` rows of all runs."""
    return f"cells_{tier:d}"


def metric_column(metric_no: int) -> str:
    """Return the column of a metric in its run's table: by number, since the names come from logs."""
    return f"m{metric_no:d}"


def migrate(
    connection: duckdb.DuckDBPyConnection, scripts: Sequence[str] = MIGRATIONS, *, read_only: bool = False
) -> tuple[int, int]:
    """Apply the scripts that are not applied yet, all in one transaction; return the version before and after."""
    known = first_row(connection, "select 1 from information_schema.tables where table_name = 'schema_version'")
    found = first_row(connection, "select version from schema_version") if known else None
    version = found[0] if found else 0
    if version > len(scripts):
        raise StoreError(Text(N_("The store was written by a newer version of Runvitals. Update Runvitals to open it."), {}))
    if version == len(scripts):
        return version, version
    if read_only:
        raise StoreError(Text(N_("The store is of an older version. Open it once for writing to bring it up to date."), {}))
    connection.begin()
    try:
        connection.execute("create table if not exists schema_version (version integer)")
        for script in scripts[version:]:
            connection.execute(script)
        connection.execute("delete from schema_version")
        connection.execute("insert into schema_version values (?)", [len(scripts)])
        connection.commit()
    except BaseException:
        connection.rollback()
        raise
    return version, len(scripts)


def _open(path: Path, read_only: bool) -> duckdb.DuckDBPyConnection:
    # 64 kB blocks: with DuckDB's 256 kB the table of a short run leaves half its block empty (3.9 against 2.8 bytes a point).
    # Names of Python variables must never be taken for tables.
    config: dict[str, str | bool | int | float | list[str]] = {
        "default_block_size": "65536",
        "python_enable_replacements": "false",
        "memory_limit": f"{MEMORY_MIB}MiB",
    }
    try:
        return duckdb.connect(str(path), read_only=read_only, config=config)
    except duckdb.IOException as error:
        raise _explain(path, error) from error
    except duckdb.Error as error:
        raise StoreError(
            Text(N_("The store {file} can't be opened: {error}"), {"file": str(path), "error": str(error)})
        ) from error


def _explain(path: Path, error: duckdb.IOException) -> StoreError:
    if "Conflicting lock" not in str(error):
        return StoreError(Text(N_("The store {file} can't be opened: {error}"), {"file": str(path), "error": str(error)}))
    holder = re.search(r"\(PID (\d+)\)", str(error))
    return _locked(path, holder.group(1) if holder else "?")


def _locked(path: Path, pid: int | str) -> StoreLocked:
    message = N_(
        "The store {file} is in use by process {pid}. Only one process can own it: use the running server, or stop it first."
    )
    return StoreLocked(Text(message, {"file": str(path), "pid": pid}))


def _claim(path: Path) -> None:
    # DuckDB hands a second connection of the same process the same database: two stores would then not see each other's locks.
    with _open_lock:
        if (os.getpid(), path) in _open_files:
            raise _locked(path, os.getpid())
        _open_files.add((os.getpid(), path))


def _release(path: Path) -> None:
    with _open_lock:
        _open_files.discard((os.getpid(), path))


def _check_library() -> None:
    if not duckdb.__version__.startswith(DUCKDB_SERIES):
        message = N_("Runvitals needs DuckDB {wanted}x and found {found}. Run: pip install -r requirements.txt")
        raise StoreError(Text(message, {"wanted": DUCKDB_SERIES, "found": duckdb.__version__}))
