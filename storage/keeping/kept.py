"""What people add to the runs (states of findings, tags, marks, saved views, own thresholds, …) as small JSON documents.

A document has a kind (`tag`, `finding_state`, `view`, …), the run it belongs to (empty: none) and a name of its own among
them. Whoever needs a new kind needs no new table; documents of a run go when the run is purged.
"""

import json
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import duckdb

from storage.keeping.reports import clean_text
from storage.keeping.schema import now

MAX_BYTES = 1 << 20  # of one document


@dataclass(frozen=True)
class Kept:
    """A document: `data` is plain JSON, `who` kept it (empty: unknown), `made` is when (UTC)."""

    kind: str
    run: str
    name: str
    data: Any
    who: str
    made: datetime


def keep(cursor: duckdb.DuckDBPyConnection, kind: str, name: str, data: Any, *, run: str = "", who: str = "") -> None:
    """Put a document in the place of the one of the same kind, run and name. Raises ValueError beyond MAX_BYTES."""
    text = clean_text(json.dumps(data, ensure_ascii=False))
    if len(text.encode()) > MAX_BYTES:
        raise ValueError(f"A {kind} of more than {MAX_BYTES >> 10} KiB is not kept.")
    drop(cursor, kind, name, run=run)
    cursor.execute("insert into kept values (?, ?, ?, ?, ?, ?)", [kind, run, clean_text(name), text, clean_text(who), now()])


def drop(cursor: duckdb.DuckDBPyConnection, kind: str, name: str, *, run: str = "") -> None:
    """Remove a document if it is there."""
    cursor.execute("delete from kept where kind = ? and run = ? and name = ?", [kind, run, clean_text(name)])


def load(cursor: duckdb.DuckDBPyConnection, kind: str, run: str | None = None) -> list[Kept]:
    """Return the documents of a kind (of one run; `""`: of none; None: of all), the oldest first."""
    which = "kind = $kind and ($run is null or run = $run)"
    sql = f"select run, name, data, who, made from kept where {which} order by made, rowid"
    found = cursor.execute(sql, {"kind": kind, "run": run}).fetchall()
    return [Kept(kind, of, name, json.loads(data), who, made.replace(tzinfo=UTC)) for of, name, data, who, made in found]
