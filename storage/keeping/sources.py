"""Where runs come from: the folders that are watched, and every file or stream that was read, so that none is read twice.

A lane is a run of its own that belongs to another one: the file of a rank or of a node. The run that it belongs to is the
first lane that gave rows; only that one is listed. This module has the tables; the Store opens the transactions.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, fields
from datetime import UTC, datetime
from typing import Any

import duckdb

from storage.keeping.reports import clean_text

TABLES = """
    create table watched (folder varchar, include varchar, exclude varchar, rule varchar);
    create table sources (
        run varchar, generation integer, job varchar, claim varchar, path varchar, rank integer, host varchar,
        device ubigint, inode ubigint, head varchar, head_bytes integer, tail varchar, "offset" bigint, changed bigint,
        mode varchar
    );
"""
CRC = "alter table sources add column crc bigint"
PAUSED = "alter table watched add column paused boolean default false"
STREAM, SETTLED, WHOLE = "stream", "settled", "whole"


@dataclass(frozen=True)
class Watched:
    """A folder that is watched. `include` and `exclude` are globs, empty: the usual ones; `rule` as in storage.intake.places.

    A `paused` one is not looked into; going on later loses nothing that still lies there.
    """

    folder: str
    include: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    rule: str = ""
    paused: bool = False


@dataclass(frozen=True)
class Source:
    """A file or stream that feeds a run, and up to where it was read: committed with what was read from it.

    generation: 0 for the first file of a run; each rotation, truncation or new file under its path begins another.
    job: the run that this one is a lane of, None where it stands for itself. claim: what the run is named by, the path of
        the log or of the folder of its lanes; no two lanes of one claim have the same rank.
    path: where it was seen last. device, inode: its identity there; 0 for a stream.
    head, head_bytes: SHA-256 of the first bytes; tail: that of the last TAIL_BYTES before `offset` (bytes, unpacked).
    crc: CRC-32 of all bytes before `offset`; None of a stream, and of what was read before this was kept.
    changed: the file's time of change in ns when it was read.
    mode: `stream` (goes on behind `offset`), `settled` (its unfinished end was taken as its end: to go on it is read again
        from the kept originals), `whole` (a document that is read again whenever it changes).
    """

    run: str
    generation: int
    job: str | None
    claim: str
    path: str
    rank: int | None = None
    host: str | None = None
    device: int = 0
    inode: int = 0
    head: str = ""
    head_bytes: int = 0
    tail: str = ""
    offset: int = 0
    changed: int = 0
    mode: str = STREAM
    crc: int | None = None


@dataclass(frozen=True)
class Lane:
    """One file of a run that many write: of which rank and node, and how far it is. `updated` is when it last gave rows."""

    run: str
    rank: int | None
    host: str | None
    path: str | None
    rows: int
    first_step: int | None
    last_step: int | None
    bytes: int
    offset: int
    updated: datetime


_NAMES = [field.name for field in fields(Source)]
_COLUMNS = ", ".join(f'"{name}"' for name in _NAMES)
_SETS = ", ".join(f'"{name}" = s."{name}"' for name in _NAMES)
_VALUES = f"({', '.join('?' * len(_NAMES))})"


def save_sources(cursor: duckdb.DuckDBPyConnection, sources: Sequence[Source]) -> None:
    """Put sources in the place of what was known of the same run and generation."""
    if not sources:
        return
    sql = (
        f"update sources set {_SETS} from (values {{}}) s({_COLUMNS}) "
        "where sources.run = s.run and sources.generation = s.generation returning sources.run, sources.generation"
    )
    known = set(_run(cursor, sql, sources))
    new = [source for source in sources if (source.run, source.generation) not in known]
    if new:
        _run(cursor, f"insert into sources ({_COLUMNS}) values {{}}", new)


def _run(cursor: duckdb.DuckDBPyConnection, sql: str, sources: Sequence[Source]) -> list[tuple[Any, ...]]:
    """Run a statement over these sources, one row of values each."""
    values = [clean_text(v) if isinstance(v, str) else v for source in sources for v in vars(source).values()]
    return cursor.execute(sql.format(", ".join([_VALUES] * len(sources))), values).fetchall()


def load_sources(
    cursor: duckdb.DuckDBPyConnection, runs: Sequence[str] | None = None, claim: str | None = None
) -> list[Source]:
    """Return sources by run and generation: those of runs and their lanes, of a claim, or all there are."""
    mine = "(run in $runs or job in $runs or job in (select job from sources where run in $runs))"
    tests = {mine: runs, "claim = $claim": claim}
    where = " and ".join(test for test, value in tests.items() if value is not None) or "true"
    values = {name: value for name, value in (("runs", runs), ("claim", claim)) if value is not None}
    sql = f"select {_COLUMNS} from sources where {where} order by run, generation"
    return [Source(*values) for values in cursor.execute(sql, values or None).fetchall()]


def load_lanes(cursor: duckdb.DuckDBPyConnection, run: str) -> list[Lane]:
    """Return the lanes of a run by rank; a run of one file is its only lane."""
    # Two plain queries: DuckDB takes four times as long to plan a join with a window.
    sql = "select run, rank, host, path from sources where run = $run or job = $run order by generation"
    last = {lane: place for lane, *place in cursor.execute(sql, {"run": run}).fetchall()}
    names = 'id, source, rows, first_step, last_step, bytes, "offset", updated'
    sql = f"select {names} from runs where deleted is null and list_contains($ids, id) order by no"
    lanes = []
    for lane, source, *facts in cursor.execute(sql, {"ids": [run, *last]}).fetchall():
        rank, host, path = last.get(lane, (None, None, None))
        facts[-1] = facts[-1].replace(tzinfo=UTC)
        lanes.append(Lane(lane, rank, host, source if path is None else path, *facts))
    return sorted(lanes, key=lambda lane: math.inf if lane.rank is None else lane.rank)


def move_job(cursor: duckdb.DuckDBPyConnection, before: str, after: str) -> None:
    """Let lane `after` stand for the job instead of `before`, which becomes one of its lanes."""
    cursor.execute("update sources set job = ? where job = ? or run = ?", [after, before, before])
    cursor.execute("update sources set job = null where run = ?", [after])


def load_watched(cursor: duckdb.DuckDBPyConnection) -> list[Watched]:
    """Return the folders that are watched."""
    found = cursor.execute("select folder, include, exclude, rule, paused from watched order by folder").fetchall()
    return [Watched(folder, _globs(include), _globs(exclude), rule, paused) for folder, include, exclude, rule, paused in found]


def save_watched(cursor: duckdb.DuckDBPyConnection, folder: str, watched: Watched | None) -> None:
    """Watch a folder so from now on; None: no more."""
    cursor.execute("delete from watched where folder = ?", [clean_text(folder)])
    if watched is not None:
        globs = ["\n".join(watched.include), "\n".join(watched.exclude)]
        values = [clean_text(folder), *globs, clean_text(watched.rule), watched.paused]
        cursor.execute("insert into watched values (?, ?, ?, ?, ?)", values)


def _globs(text: str) -> tuple[str, ...]:
    return tuple(text.split("\n")) if text else ()
