"""Rows and aggregates of runs as Parquet files that anybody can read: zstd, metrics under their own names.

`parquet/run=<id>/rows-…`, `cells_50-…`, `cells_1000-…`, each file once written never changed, the next rows in the next
file: written beside, synced and renamed, and only then known to the warehouse. Whoever reads the folder sees whole files
and each row once. What a crash left is removed at the next start. null, NaN and infinite values stay what they are.
"""

import hashlib
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import csv

from messages import N_, Text
from storage.keeping.archive import sync_folder
from storage.keeping.runs import value_of
from storage.keeping.schema import StoreError, cells_table, first_row, metric_column, rows_table
from storage.keeping.tiers import LARGE, SMALL
from storage.types import ROW_SCHEMA

FOLDER = "parquet"
ROW_GROUP = 122_880
ROWS = "rows"


@dataclass(frozen=True)
class Piece:
    """A published file: what it holds (`rows`, `cells_50`, `cells_1000`), which rows of the run, bytes and SHA-256.

    `path` is relative to the data directory. Of cells, `first` and `count` say which rows they are about.
    """

    kind: str
    path: str
    first: int
    count: int
    bytes: int
    sha256: str


def pieces(cursor: duckdb.DuckDBPyConnection, run_no: int, kind: str | None = None) -> list[Piece]:
    """Return the published files of a run, in the order of its rows."""
    sql = "select kind, path, first, count, bytes, sha256 from pieces where run = $no and ($kind is null or kind = $kind)"
    found = cursor.execute(f"{sql} order by kind, first", {"no": run_no, "kind": kind}).fetchall()
    return [Piece(*values) for values in found]


def publish(cursor: duckdb.DuckDBPyConnection, run_id: str, data_dir: Path) -> list[Piece]:
    """Write what of a run is not published yet; the caller commits what this notes in the warehouse."""
    no, rows, archive = (value_of(cursor, run_id, name) for name in ("no", "rows", "archive"))
    made = []
    for kind in (ROWS, cells_table(SMALL), cells_table(LARGE)):
        known = pieces(cursor, no, kind)
        first = known[-1].first + known[-1].count if known else 0
        size = {ROWS: 1, cells_table(SMALL): SMALL, cells_table(LARGE): LARGE}[kind]
        end = rows // size * size
        if end > first:
            path = Path(FOLDER) / f"run={run_id}" / f"{kind}-{archive:d}-{first:012d}.parquet"
            parts = (
                row_parts(cursor, no, rows_table(no), first)
                if kind == ROWS
                else _cell_parts(cursor, no, kind, first // size, end // size)
            )
            size, digest = write(data_dir / path, parts)
            made.append(Piece(kind, str(path), first, end - first, size, digest))
    for piece in made:
        values = [no, piece.kind, piece.path, piece.first, piece.count, piece.bytes, piece.sha256]
        cursor.execute("insert into pieces values (?, ?, ?, ?, ?, ?, ?)", values)
    return made


def row_parts(cursor: duckdb.DuckDBPyConnection, run_no: int, table: str, first: int = 0) -> Iterator[pa.Table]:
    """Yield the rows that `table` (a run's, or SQL) has from number `first` on in their order, metrics under their names."""
    names = cursor.execute("select no, name from metrics where run = ? order by no", [run_no]).fetchall()
    columns = ", ".join(["row", *ROW_SCHEMA.names, *(metric_column(no) for no, _ in names)])
    titles = ["row", *ROW_SCHEMA.names, *unique_names([name for _, name in names])]
    rows = first_row(cursor, f"select max(row) + 1 from {table}")
    for start in range(first, max(first + 1, (rows and rows[0]) or 0), ROW_GROUP):
        sql = f"select {columns} from {table} where row >= {start:d} and row < {start + ROW_GROUP:d} order by row"
        part = cursor.sql(sql).to_arrow_table().rename_columns(titles)
        place = titles.index("timestamp")
        yield part.set_column(place, "timestamp", part["timestamp"].cast(pa.timestamp("ms")))


def _cell_parts(cursor: duckdb.DuckDBPyConnection, no: int, table: str, first: int, end: int) -> Iterator[pa.Table]:
    """Yield cells of whole numbers `first`…`end - 1`, metric by metric, each with the name of its metric."""
    for metric, name in cursor.execute("select no, name from metrics where run = ? order by no", [no]).fetchall():
        sql = (
            f"select * exclude (run, metric) from {table} where run = {no:d} and metric = {metric:d} "
            f"and cell >= {first:d} and cell < {end:d} order by cell"
        )
        cells = cursor.sql(sql).to_arrow_table()
        yield cells.add_column(0, "metric", pa.array([name] * cells.num_rows, pa.string()))


def write(path: Path, parts: Iterator[pa.Table]) -> tuple[int, str]:
    """Publish tables of one schema as one file: complete and on the disk before it has its name. Return size and SHA-256."""
    path.parent.mkdir(parents=True, exist_ok=True)
    unfinished = path.with_suffix(".tmp")
    writer: pq.ParquetWriter | None = None
    try:
        for part in parts:
            writer = writer or pq.ParquetWriter(unfinished, part.schema, compression="zstd")
            writer.write_table(part, row_group_size=ROW_GROUP)
        if writer is None:
            pq.write_table(pa.table({}), unfinished)
    finally:
        if writer is not None:
            writer.close()
    with unfinished.open("rb") as file:
        os.fsync(file.fileno())
    size, digest = unfinished.stat().st_size, sha256(unfinished)
    unfinished.rename(path)
    sync_folder(path.parent)
    sync_folder(path.parent.parent)
    return size, digest


def sha256(path: Path) -> str:
    """Return the SHA-256 of a file. Raises OSError."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def unique_names(metrics: Sequence[str]) -> list[str]:
    """Return the names that metrics have in a file: their own, but for one that differs from an earlier one in case only.

    Names of later metrics change nothing in those of earlier ones.
    """
    taken = {"row", *ROW_SCHEMA.names}
    names = []
    for metric in metrics:
        name, number = metric.replace("\0", "?"), 2
        while name.lower() in taken:
            name, number = f"{metric}_{number}".replace("\0", "?"), number + 1
        taken.add(name.lower())
        names.append(name)
    return names


def source(cursor: duckdb.DuckDBPyConnection, run_no: int, cold: int, data_dir: Path) -> str:
    """Return SQL from which all rows of a run can be read as from its table; those before number `cold` are in files."""
    if not cold:
        return rows_table(run_no)
    files = [data_dir / piece.path for piece in pieces(cursor, run_no, ROWS) if piece.first < cold]
    if not all(path.exists() for path in files):
        missing = next(path for path in files if not path.exists())
        raise StoreError(Text(N_("Rows of this run can't be read: {file} is missing."), {"file": str(missing)}))
    metrics = cursor.execute("select no, name from metrics where run = ? order by no", [run_no]).fetchall()
    known = set(pq.read_schema(files[-1]).names)
    named = zip((no for no, _ in metrics), unique_names([name for _, name in metrics]), strict=True)
    columns = [(metric_column(no), _quoted(name) if name in known else "null::double") for no, name in named]
    places = ", ".join(name for name in ROW_SCHEMA.names if name != "timestamp")
    # Cast: arithmetic with the epoch_ms of a timestamp_ms fails in DuckDB 2.0.1.
    stored = ", ".join(["row", places, "epoch_ms(timestamp::timestamp) as timestamp", *(f"{sql} as {m}" for m, sql in columns)])
    hot = ", ".join(["row", places, "timestamp", *(m for m, _ in columns)])
    paths = ", ".join(_literal(path) for path in files)
    return (
        f"(select {stored} from read_parquet([{paths}], union_by_name = true, hive_partitioning = false) where row < {cold:d} "
        f"union all select {hot} from {rows_table(run_no)} where row >= {cold:d})"
    )


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _literal(path: Path) -> str:
    """Return a path as SQL, in which no character is one of a pattern."""
    text = "".join(f"[{letter}]" if letter in "[]*?" else letter for letter in str(path.resolve()))
    return "'" + text.replace("'", "''") + "'"


def cool(cursor: duckdb.DuckDBPyConnection, run_id: str, data_dir: Path) -> int:
    """Take the rows of a run that are published out of its table, but for the last thousand; return how many."""
    no, rows, cold, thin = (value_of(cursor, run_id, name) for name in ("no", "rows", "cold", "thin"))
    end = rows // LARGE * LARGE
    if thin or end <= cold:
        return 0
    publish(cursor, run_id, data_dir)
    table, fresh = rows_table(no), f"cooled_{no:d}"
    cursor.execute(f"create table {fresh} as select * from {table} where row >= {end:d} order by row")
    cursor.execute(f"drop table {table}")
    cursor.execute(f"alter table {fresh} rename to {table}")
    cursor.execute("update runs set cold = ? where no = ?", [end, no])
    return end - cold


def forget_rows(cursor: duckdb.DuckDBPyConnection, run_no: int) -> None:
    """Forget the published rows of a run; `clean` removes the files once that is committed."""
    cursor.execute("delete from pieces where run = ? and kind = ?", [run_no, ROWS])
    cursor.execute("update runs set cold = 0 where no = ?", [run_no])


def clean(cursor: duckdb.DuckDBPyConnection, data_dir: Path, run_id: str | None = None) -> list[str]:
    """Remove the files (of one run) that the warehouse does not know; return their names."""
    known = {path for (path,) in cursor.execute("select path from pieces").fetchall()}
    removed = []
    for path in (data_dir / FOLDER).glob(f"run={run_id or '*'}/*"):
        if path.is_file() and str(path.relative_to(data_dir)) not in known:
            path.unlink(missing_ok=True)
            removed.append(path.name)
    return removed


def export(parts: Iterator[pa.Table], path: Path) -> None:
    """Write all rows of a run to one file: CSV (with `.csv` in its name) or Parquet. Raises OSError."""
    if path.suffix.lower() != ".csv":
        write(path, parts)
        return
    unfinished = path.with_suffix(".tmp")
    with unfinished.open("wb") as file:
        for number, part in enumerate(parts):
            csv.write_csv(part, file, csv.WriteOptions(include_header=number == 0))
    unfinished.rename(path)
