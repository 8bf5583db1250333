"""What may go: original lines, raw rows and aggregates that are old enough; never around findings, never of a held run.

A line is as old as the transaction that brought it, the rows and aggregates of a run as the last one that brought any. Of
rows that go, cells of ten are written first, in the same transaction. The archive is written anew beside the old file, and
the warehouse changes over to it in the transaction that forgets the lines: whenever a crash comes, one of the two is
whole and the other is removed when the store is opened again.
"""

import json
import zlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa

from storage.keeping.archive import ArchiveFile, Frame, compress, cut, decompress, read_piece
from storage.keeping.changes import insert
from storage.keeping.originals import frames_rows
from storage.keeping.parquet import forget_rows, source
from storage.keeping.reports import load_report
from storage.keeping.runs import archive_name
from storage.keeping.schema import cells_table, first_row, metric_column, rows_table
from storage.keeping.tiers import LARGE, SMALL, TENS, cells_rows, tens

PIECE = 100_000  # rows that are aggregated at once; a multiple of TENS
LINES, ROWS, AGGREGATES = "lines", "rows", "aggregates"

Range = tuple[int, int]  # first and last, both included


@dataclass(frozen=True)
class Policy:
    """After how many days what may go (None: never), and how many lines and rows stay on each side of a finding."""

    lines_days: float | None = 7
    rows_days: float | None = None
    aggregates_days: float | None = 365
    around: int = 200


@dataclass(frozen=True)
class Step:
    """What goes of a run: `what` is lines, rows or aggregates; how many go and stay; about how many bytes that frees.

    What the warehouse frees is used again by what comes next; `compact` gives it back to the disk.
    """

    run: str
    name: str
    what: str
    count: int
    kept: int
    bytes: int


@dataclass(frozen=True)
class Plan:
    """What goes, the runs of which nothing goes for they are held, and those that must be diagnosed before anything does."""

    steps: tuple[Step, ...]
    held: tuple[str, ...] = ()
    undiagnosed: tuple[str, ...] = ()


@dataclass(frozen=True)
class Subject:
    """A run that is looked at, with the lines that its findings are about."""

    id: str
    no: int
    name: str
    updated: datetime
    archive: int
    rows: int
    thin: int
    bare: bool
    encoding: str
    held: bool
    diagnosed: bool
    cold: int
    spots: Sequence[Range] = field(default=())

    @property
    def whole(self) -> int:
        """How many rows are in complete cells of every tier: those behind them stay rows."""
        return self.rows // LARGE * LARGE


def subjects(cursor: duckdb.DuckDBPyConnection, run_id: str | None = None) -> Iterator[Subject]:
    """Yield the runs there are (or one of them), lanes included, deleted ones not."""
    sql = (
        "select r.id, r.no, r.name, r.updated, r.archive, r.rows, r.thin, r.bare, r.report, "
        "r.id in (select run from holds), r.no in (select run from diagnoses), r.cold "
        "from runs r where r.deleted is null and ($id is null or r.id = $id) order by r.no"
    )
    found: Any = cursor.execute(sql, {"id": run_id}).fetchall()
    for run, no, name, updated, archive, rows, thin, bare, report, held, diagnosed, cold in found:
        spots = tuple(_spots(cursor, no)) if diagnosed else ()
        encoding = load_report(report).encoding
        yield Subject(run, no, name, updated, archive, rows, thin, bare, encoding, held, diagnosed, cold, spots)


def _spots(cursor: duckdb.DuckDBPyConnection, run_no: int) -> Iterator[Range]:
    """Yield the lines that the kept findings of a run are about, with those of their evidence."""
    for (data,) in cursor.execute("select data from diagnoses where run = ?", [run_no]).fetchall():
        for finding in json.loads(data).get("findings", ()):
            ends = [line for line in (finding.get("first_line"), finding.get("last_line")) if line is not None]
            evidence = [item["line"] for item in finding.get("evidence", ()) if item.get("line") is not None]
            if not ends:
                steps = [finding.get("first_step"), finding.get("last_step")]
                sql = f"select min(line), max(line) from {rows_table(run_no)} where step between ? and ?"
                found = first_row(cursor, sql, steps) if None not in steps else None
                ends = [] if found is None or found[0] is None else list(found)
            yield from _both_ends(ends)
            yield from ((line, line) for line in evidence)


def _both_ends(ends: list[int], longest: int = 1000) -> Iterator[Range]:
    """Yield what is kept of a finding: all of a short one, the beginning and the end of a long one."""
    if ends and max(ends) - min(ends) <= longest:
        yield min(ends), max(ends)
    else:
        yield from ((line, line) for line in ends)


def merged(ranges: Iterable[Range]) -> list[Range]:
    """Return ranges in order, those that touch joined."""
    found: list[Range] = []
    for low, high in sorted(ranges):
        if found and low <= found[-1][1] + 1:
            found[-1] = found[-1][0], max(found[-1][1], high)
        else:
            found.append((low, high))
    return found


def plan(cursor: duckdb.DuckDBPyConnection, policy: Policy, now: datetime, data_dir: Path) -> Plan:
    """Say what is due."""
    steps: list[Step] = []
    held, undiagnosed = [], []
    for run in subjects(cursor):
        found = due(cursor, run, policy, now, data_dir)
        if run.held:
            held += [run.id] if found else []
        elif found and not run.diagnosed:
            undiagnosed.append(run.id)
        else:
            steps += found
    return Plan(tuple(steps), tuple(held), tuple(undiagnosed))


def due(cursor: duckdb.DuckDBPyConnection, run: Subject, policy: Policy, now: datetime, data_dir: Path) -> list[Step]:
    """Return what of one run is old enough to go, whether it is held or not."""
    steps = [
        _lines_due(cursor, run, policy, _before(now, policy.lines_days)),
        _rows_due(cursor, run, policy, _before(now, policy.rows_days), data_dir),
        _aggregates_due(cursor, run, _before(now, policy.aggregates_days)),
    ]
    return [step for step in steps if step is not None and step.count > 0]


def apply(
    cursor: duckdb.DuckDBPyConnection, run: Subject, policy: Policy, now: datetime, data_dir: Path, new: ArchiveFile
) -> set[str]:
    """Let go of what is due of a run that is not held and diagnosed; return what that was. Lines that stay go to `new`.

    The caller commits, and removes the old archive file if lines went, Parquet files if rows went.
    """
    what = {step.what for step in due(cursor, run, policy, now, data_dir)} if run.diagnosed and not run.held else set()
    if ROWS in what:
        drop_rows(cursor, run, policy, data_dir)
    if AGGREGATES in what:
        drop_aggregates(cursor, run)
    if LINES in what:
        drop_lines(cursor, run, policy, now, data_dir / "archive" / archive_name(run.id, run.archive), new)
    return what


def _before(now: datetime, days: float | None) -> datetime | None:
    return None if days is None else now - timedelta(days=days)


# Lines


@dataclass(frozen=True)
class _Kept:
    """A frame as the warehouse notes it; with neither position nor data it is gone."""

    first_line: int
    lines: int
    byte: int
    length: int
    position: int | None
    size: int
    data: bytes | None
    made: datetime
    crc: int | None

    @property
    def gone(self) -> bool:
        return self.position is None and self.data is None


def _frames(cursor: duckdb.DuckDBPyConnection, run_no: int) -> list[_Kept]:
    sql = "select first_line, lines, byte, bytes, position, size, data, made, crc from frames where run = ? order by byte"
    return [_Kept(*values) for values in cursor.execute(sql, [run_no]).fetchall()]


def _line_windows(run: Subject, around: int, last: int) -> list[Range]:
    """Return the lines that stay: around each spot, and the beginning and the end of the log."""
    spots = [*run.spots, (1, 1), (last, last)]
    return merged((max(1, low - around), high + around) for low, high in spots)


def _lines_due(cursor: duckdb.DuckDBPyConnection, run: Subject, policy: Policy, before: datetime | None) -> Step | None:
    if before is None:
        return None
    frames = _frames(cursor, run.no)
    windows = _line_windows(run, policy.around, _last_line(frames))
    gone, kept, size = 0, 0, 0.0
    for frame in frames:
        stays = sum(_overlap(frame, window) for window in windows) if frame.made < before else frame.lines
        if not frame.gone:
            gone, kept = gone + max(0, frame.lines - stays), kept + min(stays, frame.lines)
            size += frame.size * max(0, frame.lines - stays) / max(1, frame.lines)
    return Step(run.id, run.name, LINES, gone, kept, round(size))


def _last_line(frames: Sequence[_Kept]) -> int:
    return frames[-1].first_line + frames[-1].lines if frames else 1


def _overlap(frame: _Kept, window: Range) -> int:
    # A frame that does not end with its last line holds the beginning of one more; that is not counted.
    return max(0, min(frame.first_line + frame.lines - 1, window[1]) - max(frame.first_line, window[0]) + 1)


def drop_lines(
    cursor: duckdb.DuckDBPyConnection, run: Subject, policy: Policy, now: datetime, old: Path, new: ArchiveFile
) -> None:
    """Put the lines that stay into a new archive file and forget the others; the caller commits and removes the old file."""
    before = _before(now, policy.lines_days)
    frames = _frames(cursor, run.no)
    windows = _line_windows(run, policy.around, _last_line(frames))
    kept: list[_Kept] = []
    for frame in frames:
        old_enough = before is not None and frame.made < before and not frame.gone
        kept += _cut(frame, windows, run.encoding, old, new) if old_enough else [_moved(frame, old, new)]
    new.sync()
    cursor.execute("delete from frames where run = ?", [run.no])
    cursor.execute("update runs set archive = archive + 1 where no = ?", [run.no])
    insert(cursor, "frames", frames_rows(run.no, [tuple(vars(frame).values()) for frame in kept]))


def _moved(frame: _Kept, old: Path, new: ArchiveFile) -> _Kept:
    if frame.position is None:
        return frame
    return replace(frame, position=new.append(read_piece(old, frame.position, frame.size)))


def _cut(frame: _Kept, windows: Sequence[Range], encoding: str, old: Path, new: ArchiveFile) -> Iterator[_Kept]:
    """Yield the parts of a frame, those that stay in the new file (or in the warehouse, if it was there)."""
    end = frame.first_line + frame.lines
    mine = [window for window in windows if window[0] <= end and window[1] >= frame.first_line]
    if not mine:
        yield replace(frame, position=None, size=0, data=None, crc=None)
        return
    packed = read_piece(old, frame.position, frame.size) if frame.position is not None else frame.data or b""
    whole = Frame(frame.first_line, frame.lines, frame.byte, decompress(packed, frame.length))
    for part, stays in cut(whole, mine, encoding):
        packed = compress(part.data) if stays else b""
        position = new.append(packed) if stays and frame.position is not None else None
        data = packed if stays and frame.position is None else None
        yield _Kept(
            part.first_line, part.lines, part.byte, len(part.data), position, len(packed), data, frame.made, zlib.crc32(packed)
        )


# Rows


def _rows_due(
    cursor: duckdb.DuckDBPyConnection, run: Subject, policy: Policy, before: datetime | None, data_dir: Path
) -> Step | None:
    if before is None or run.updated >= before or run.whole <= run.thin:
        return None
    windows = row_windows(run, policy.around, _line_of_rows(cursor, run, data_dir))
    kept = sum(min(high, run.whole - 1) - low + 1 for low, high in windows if low < run.whole)
    count = run.whole - run.thin - kept
    size = table_bytes(cursor, rows_table(run.no)) * count // max(1, run.rows)
    return Step(run.id, run.name, ROWS, count, kept + run.rows - run.whole, size)


def _line_of_rows(cursor: duckdb.DuckDBPyConnection, run: Subject, data_dir: Path) -> np.ndarray:
    sql = f"select line from {source(cursor, run.no, run.cold, data_dir)} where row >= {run.thin:d} order by row"
    return cursor.sql(sql).to_arrow_table()["line"].to_numpy()


def row_windows(run: Subject, around: int, lines: np.ndarray) -> list[Range]:
    """Return the rows that stay around each spot, in whole cells of ten; `lines` are those of the rows from `thin` on."""
    lines = np.maximum.accumulate(lines) if len(lines) else lines
    found = []
    for low, high in run.spots:
        first = run.thin + int(np.searchsorted(lines, low)) - around
        last = run.thin + int(np.searchsorted(lines, high, side="right")) + around
        found.append((max(run.thin, first // TENS * TENS), last // TENS * TENS + TENS - 1))
    return merged(window for window in found if window[1] >= run.thin)


def drop_rows(cursor: duckdb.DuckDBPyConnection, run: Subject, policy: Policy, data_dir: Path) -> None:
    """Write cells of ten rows for the rows that go and take them out of the run's table."""
    table = source(cursor, run.no, run.cold, data_dir)
    windows = row_windows(run, policy.around, _line_of_rows(cursor, run, data_dir))
    metrics = {metric_column(no): no for (no,) in cursor.execute("select no from metrics where run = ?", [run.no]).fetchall()}
    for start in range(run.thin, run.whole, PIECE):
        sql = f"select * from {table} where row >= {start:d} and row < {min(start + PIECE, run.whole):d} order by row"
        rows = cursor.sql(sql).to_arrow_table()
        rows = rows.filter(pa.array(~_within(rows["row"].to_numpy(), windows)))
        cells = list(tens(rows, metrics)) if rows.num_rows else []
        if cells:
            insert(cursor, cells_table(TENS), cells_rows(run.no, cells))
    stay = [f"row < {run.thin:d}", f"row >= {run.whole:d}", *(f"row between {low:d} and {high:d}" for low, high in windows)]
    fresh = f"thinned_{run.no:d}"
    cursor.execute(f"create table {fresh} as select * from {table} where {' or '.join(stay)} order by row")
    cursor.execute(f"drop table {rows_table(run.no)}")
    cursor.execute(f"alter table {fresh} rename to {rows_table(run.no)}")
    forget_rows(cursor, run.no)
    cursor.execute("update runs set thin = ? where no = ?", [run.whole, run.no])


def _within(rows: np.ndarray, windows: Sequence[Range]) -> np.ndarray:
    inside = np.zeros(len(rows), bool)
    for low, high in windows:
        inside |= (rows >= low) & (rows <= high)
    return inside


# Aggregates


def _aggregates_due(cursor: duckdb.DuckDBPyConnection, run: Subject, before: datetime | None) -> Step | None:
    """Only of runs whose rows have gone: as long as those are kept, they could be made again from them at any time."""
    if before is None or run.updated >= before or run.bare or not run.thin:
        return None
    count, size = 0, 0
    for tier in (TENS, SMALL, LARGE):
        found = first_row(cursor, f"select count(*) filter (run = ?), count(*) from {cells_table(tier)}", [run.no])
        mine, everybody = found or (0, 0)
        count += mine
        size += table_bytes(cursor, cells_table(tier)) * mine // max(1, everybody)
    return Step(run.id, run.name, AGGREGATES, count, 0, size)


def drop_aggregates(cursor: duckdb.DuckDBPyConnection, run: Subject) -> None:
    """Take out all cells of a run; last values, sparklines, findings and the rows around these stay."""
    for tier in (TENS, SMALL, LARGE):
        cursor.execute(f"delete from {cells_table(tier)} where run = ?", [run.no])
    cursor.execute("update runs set bare = true where no = ?", [run.no])


def table_bytes(cursor: duckdb.DuckDBPyConnection, table: str) -> int:
    """Return about how many bytes of the warehouse file a table takes (0 for what is in its write-ahead log only)."""
    sql = (
        "select count(distinct block_id) * (select any_value(block_size) from pragma_database_size()) "
        f"from pragma_storage_info('{table}') where persistent"
    )
    found = first_row(cursor, sql)
    return int(found[0] or 0) if found else 0
