"""Care of a whole store: is all as it was written (verify), a copy of it and back (backup, restore), no air (compact)."""

import json
import os
import shutil
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import duckdb
import pyarrow.parquet as pq

from messages import N_, Text
from storage.keeping import parquet, runs
from storage.keeping.archive import decompress, read_piece, sync_folder
from storage.keeping.reports import load_report
from storage.keeping.schema import FILE, StoreError, connect, disconnect, first_row, rows_table

MANIFEST = "manifest.json"
OWN_FOLDERS = ("formats",)  # beside the store's own files, what belongs into a backup


@dataclass(frozen=True)
class Fault:
    """Something that is not as it was written: of which run ("" for the whole), in which file, and a sentence."""

    run: str
    file: str
    message: Text


def verify(cursor: duckdb.DuckDBPyConnection, data_dir: Path) -> Iterator[Fault]:
    """Read everything of a snapshot and yield what is wrong: checksums, rows that are missing, gaps in lines, offsets."""
    sql = "select id, no, archive, rows, cold, thin, report from runs order by no"
    for run_id, no, part, rows, cold, thin, report in cursor.execute(sql).fetchall():
        archive = data_dir / "archive" / runs.archive_name(run_id, part)
        yield from _lines_at_fault(cursor, run_id, no, archive, report)
        yield from _files_at_fault(cursor, run_id, no, data_dir)
        yield from _rows_at_fault(cursor, run_id, no, rows, cold, thin)


def _lines_at_fault(cursor: duckdb.DuckDBPyConnection, run: str, no: int, path: Path, report: str | None) -> Iterator[Fault]:
    sql = "select first_line, lines, byte, bytes, position, size, data, crc from frames where run = ? order by byte"
    line, byte, found = 1, 0, cursor.execute(sql, [no]).fetchall()
    for first_line, lines, start, length, position, size, data, crc in found:
        if (first_line, start) != (line, byte):
            gaps = {"line": line, "byte": byte}
            yield Fault(run, "", Text(N_("The lines of the log have a gap at line {line}, byte {byte}."), gaps))
        line, byte = first_line + lines, start + length
        if position is None and data is None:
            continue
        try:
            packed = read_piece(path, position, size) if data is None else data
            sound = (crc is None or zlib.crc32(packed) == crc) and len(decompress(packed, length)) == length
        except OSError:
            sound = False
        if not sound:
            gaps = {"first": first_line, "last": first_line + lines}
            yield Fault(run, path.name, Text(N_("The original lines {first} to {last} are damaged."), gaps))
    said = load_report(report)
    if found and said.compression is None and said.bytes and byte != said.bytes:
        gaps = {"kept": byte, "read": said.bytes}
        yield Fault(run, path.name, Text(N_("{kept} bytes of the log are noted and {read} were read."), gaps))


def _files_at_fault(cursor: duckdb.DuckDBPyConnection, run: str, no: int, data_dir: Path) -> Iterator[Fault]:
    row = 0
    for piece in parquet.pieces(cursor, no):
        path = data_dir / piece.path
        try:
            sound = parquet.sha256(path) == piece.sha256
            rows = pq.read_metadata(path).num_rows if sound and piece.kind == parquet.ROWS else piece.count
        except OSError:
            sound, rows = False, piece.count
        if not sound or rows != piece.count:
            yield Fault(run, piece.path, Text(N_("The file is missing or damaged."), {}))
        if piece.kind == parquet.ROWS:
            if piece.first != row:
                yield Fault(run, piece.path, Text(N_("Rows before number {row} are missing."), {"row": piece.first}))
            row = piece.first + piece.count


def _rows_at_fault(cursor: duckdb.DuckDBPyConnection, run: str, no: int, rows: int, cold: int, thin: int) -> Iterator[Fault]:
    sql = f"select count(*), count(distinct row), coalesce(max(row) + 1, ?) from {rows_table(no)} where row >= ?"
    behind = max(cold, thin)  # rows before that are in files or only in part
    count, distinct, end = first_row(cursor, sql, [behind, behind]) or (0, 0, 0)
    if not count == distinct == rows - behind or end != rows:
        gaps = {"found": count, "wanted": rows - behind}
        yield Fault(run, FILE, Text(N_("The warehouse has {found} rows of this run where {wanted} should be."), gaps))


def copy_database(connection: duckdb.DuckDBPyConnection, target: Path) -> None:
    """Write all that one snapshot of the warehouse holds to a new file without air. Raises StoreError (disk full)."""
    cursor = connection.cursor()
    source = first_row(cursor, "select current_database()")
    quoted = str(target.resolve()).replace("'", "''")
    try:
        cursor.execute(f"attach '{quoted}' as fresh (block_size 65536)")
        try:
            cursor.execute(f'copy from database "{source[0] if source else ""}" to fresh')
            cursor.execute("checkpoint fresh")
        finally:
            cursor.execute("detach fresh")
    except duckdb.Error as error:
        target.unlink(missing_ok=True)
        raise StoreError(Text(N_("The copy could not be written: {error}"), {"error": str(error)})) from error
    finally:
        cursor.close()


def backup(connection: duckdb.DuckDBPyConnection, data_dir: Path, target: Path) -> int:
    """Copy the store to a folder that is not there yet, with a checksum of each file; return the bytes.

    The folder has its name only when it is complete. Raises StoreError, OSError.
    """
    if target.exists():
        raise StoreError(
            Text(
                N_("{folder} is already there. Give a folder that is not: a backup overwrites nothing."),
                {"folder": str(target)},
            )
        )
    unfinished = target.with_name(target.name + ".unfinished")
    shutil.rmtree(unfinished, ignore_errors=True)
    unfinished.mkdir(parents=True)
    copy_database(connection, unfinished / FILE)
    with duckdb.connect(str(unfinished / FILE), read_only=True) as copied:
        archived, known = runs.archived(copied), copied.execute("select path from pieces").fetchall()
    for name, size in archived.items():
        if size:
            _copy(data_dir / "archive" / name, unfinished / "archive" / name, size)
    for (path,) in known:
        _copy(data_dir / path, unfinished / path)
    for folder in OWN_FOLDERS:
        if (data_dir / folder).is_dir():
            shutil.copytree(data_dir / folder, unfinished / folder)
    files = [path for path in unfinished.rglob("*") if path.is_file()]
    sums = {str(path.relative_to(unfinished)): parquet.sha256(path) for path in files}
    (unfinished / MANIFEST).write_text(json.dumps(sums, indent=1), encoding="utf-8")
    os.sync()
    unfinished.rename(target)
    sync_folder(target.parent)
    return sum((target / name).stat().st_size for name in sums)


def _copy(source: Path, target: Path, size: int | None = None) -> None:
    """Copy a file, or its first `size` bytes. Raises OSError when it has fewer."""
    target.parent.mkdir(parents=True, exist_ok=True)
    left = source.stat().st_size if size is None else size
    with source.open("rb") as read, target.open("wb") as written:
        while left and (data := read.read(min(left, 1 << 20))):
            written.write(data)
            left -= len(data)
    if left:
        raise OSError(f"{source} ends {left} bytes too early")


def restore(source: Path, data_dir: Path) -> int:
    """Put a backup to where no store is; return the bytes. Raises StoreError when one is there or a file is damaged."""
    if (data_dir / FILE).exists():
        raise StoreError(
            Text(N_("There is a store in {folder} already: restore to another folder."), {"folder": str(data_dir)})
        )
    try:
        sums: dict[str, str] = json.loads((source / MANIFEST).read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise StoreError(
            Text(N_("{folder} is no complete backup: {error}"), {"folder": str(source), "error": str(error)})
        ) from error
    for name, wanted in sums.items():
        path = source / name
        if not path.is_file() or parquet.sha256(path) != wanted:
            raise StoreError(Text(N_("The backup is damaged: {file} is not what was written."), {"file": name}))
    for name in sorted(sums, key=lambda name: name == FILE):  # the warehouse last: without it there is no store
        _copy(source / name, data_dir / (name + ".unfinished" if name == FILE else name))
    os.sync()
    (data_dir / (FILE + ".unfinished")).rename(data_dir / FILE)
    sync_folder(data_dir)
    return sum((source / name).stat().st_size for name in sums)


def compact(data_dir: Path) -> tuple[int, int]:
    """Write the warehouse anew without what was freed in it; return its bytes before and after.

    The store must not be open. Raises StoreLocked, StoreError.
    """
    connection = connect(data_dir, read_only=False)
    path, fresh = data_dir / FILE, data_dir / (FILE + ".compact")
    try:
        connection.execute("checkpoint")
        before = path.stat().st_size
        fresh.unlink(missing_ok=True)
        copy_database(connection, fresh)
    finally:
        disconnect(connection, data_dir)
    if path.with_name(FILE + ".wal").exists():  # it would be replayed into the new file
        fresh.unlink()
        raise StoreError(Text(N_("The store was not closed properly: open it once, then compact it again."), {}))
    with fresh.open("rb") as file:
        os.fsync(file.fileno())
    fresh.replace(path)
    sync_folder(data_dir)
    return before, path.stat().st_size
