"""The store: one DuckDB file and one archive folder, and the only door to them.

Thread-safe: every call has a cursor of its own and reads one snapshot. One process owns the store; any number of its
threads may read, one at a time may write a run, several may write different runs.
"""

import json
import os
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import pyarrow as pa

from messages import N_, Text
from storage.keeping import briefs, care, kept, many, parquet, retention, runs, series
from storage.keeping.archive import ArchiveFile, display_lines
from storage.keeping.care import Fault
from storage.keeping.group import Group
from storage.keeping.kept import Kept
from storage.keeping.mirror import PAUSES, Mirror, MirrorStatus, note_sent, waiting
from storage.keeping.mirror import status as mirror_status
from storage.keeping.originals import frames
from storage.keeping.outbox import Outbox
from storage.keeping.parquet import Piece
from storage.keeping.recovery import Note, load_notes
from storage.keeping.reports import clean_text, dump_json, load_report
from storage.keeping.retention import Plan, Policy
from storage.keeping.runs import value_of
from storage.keeping.schema import FILE, StoreError, StoreLocked, UnknownRun, first_row, known, now
from storage.keeping.series import RunHead
from storage.keeping.sources import (
    Lane,
    Source,
    Watched,
    load_lanes,
    load_sources,
    load_watched,
    move_job,
    save_sources,
    save_watched,
)
from storage.keeping.warehouse import Warehouse
from storage.keeping.writer import AlreadyKnown, RunWriter
from storage.types import Column, Event, ParseReport, Run

__all__ = ["AlreadyKnown", "Store", "StoreError", "StoreLocked", "UnknownRun"]

MAX_STATES = 256  # of runs that grow, kept between their transactions


class Store:
    """Runs with their rows, aggregates, events, reports, diagnoses and original lines in `data_dir`.

    Raises StoreLocked when another process has it open for writing (or, to a writer, at all), StoreError when it can't
    be opened. With `read_only` several processes may open it at the same time. `outbox`: what was alerted, and to whom.
    """

    def __init__(self, data_dir: str | Path, *, read_only: bool = False) -> None:
        self.data_dir = Path(data_dir)
        self.read_only = read_only
        if not read_only:
            self.data_dir.mkdir(parents=True, exist_ok=True)
        self._warehouse = Warehouse(self.data_dir, read_only=read_only)
        self._reading, self._change = self._warehouse.reading, self._warehouse.change
        self._remembered = self._warehouse.answer
        self.outbox = Outbox(self._warehouse)
        self._heads: dict[int, RunHead] = {}
        self._mirror: Mirror | None = None

    def close(self) -> None:
        """Close the store; other processes can open it then."""
        self._warehouse.close()

    def __enter__(self) -> "Store":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # Writing. Everything raises StoreError when the store is read-only or can't be written (disk full).

    @contextmanager
    def writer(
        self, run_id: str | None = None, *, name: str = "", source: str | None = None, replace: bool = False
    ) -> Iterator[RunWriter]:
        """Open one transaction of a run; nothing of it stays unless the block calls `commit`.

        Without `run_id` the run itself is made in the same transaction, as `name`. With `replace` all that the run holds
        so far is taken away first. A second writer of the same run waits. Raises UnknownRun.
        """
        alone = Group(self._warehouse, at_once=True)
        with alone, alone.writer(run_id, name=name, source=source, replace=replace) as writer:
            yield writer

    def together(self) -> Group:
        """Open one transaction for many runs that have little each: `with store.together() as group: with group.writer(…)`.

        It is committed at the end of the block; a transaction for each would take several times as long.
        """
        return Group(self._warehouse)

    def create_run(self, name: str, source: str | None = None, fingerprint: str | None = None) -> str:
        """Make an empty run and return its id."""
        with self._change() as cursor:
            run = runs.make_run(cursor, name, source, fingerprint)
            runs.make_rows_table(cursor, run)
            return run.id

    def rename_run(self, run_id: str, name: str) -> None:
        """Give a run another name. Raises UnknownRun."""
        with self._warehouse.run_locks[run_id], self._change() as cursor:
            runs.set_value(cursor, run_id, "name", clean_text(name))

    def delete_run(self, run_id: str) -> None:
        """Hide a run and its lanes everywhere; `restore_run` brings them back until `purge` removes them. Raises UnknownRun."""
        self._set_deleted(run_id, now())

    def restore_run(self, run_id: str) -> None:
        """Bring a deleted run back. Raises UnknownRun when it was never there or is purged."""
        self._set_deleted(run_id, None)

    def _set_deleted(self, run_id: str, when: datetime | None) -> None:
        lanes = {source.run for source in self.sources(run_id) if source.job == run_id}
        with ExitStack() as locks:
            for each in sorted({run_id, *lanes}):
                locks.enter_context(self._warehouse.run_locks[each])
            cursor = locks.enter_context(self._change())
            for each in (run_id, *lanes - {run_id}):
                runs.set_value(cursor, each, "deleted", when, deleted=when is None)

    def purge(self, *, deleted_days: float = 7) -> list[str]:
        """Remove for good the runs that were deleted at least so many days ago; return their ids."""
        with self._change() as cursor:
            removed = runs.remove_deleted(cursor, now() - timedelta(days=deleted_days))
        for name in removed.values():
            (self.data_dir / "archive" / name).unlink(missing_ok=True)
        for run_id in removed:
            self._clean_parquet(run_id)
        return list(removed)

    def hold(self, run_id: str, reason: str) -> None:
        """Keep everything of a run whatever its age, for a reason (`baseline`, `golden`, `pinned`). Raises UnknownRun."""
        with self._change() as cursor:
            value_of(cursor, run_id, "no")
            cursor.execute("delete from holds where run = ? and reason = ?", [run_id, reason])
            cursor.execute("insert into holds values (?, ?, ?)", [run_id, clean_text(reason), now()])

    def release(self, run_id: str, reason: str) -> None:
        """Take back a `hold`; the run ages when none is left."""
        with self._change() as cursor:
            cursor.execute("delete from holds where run = ? and reason = ?", [run_id, reason])

    def holds(self) -> dict[str, list[str]]:
        """Return the reasons for which runs are held, by run id."""
        with self._reading() as cursor:
            found = cursor.execute("select run, list(reason order by made) from holds group by run").fetchall()
            return dict(found)

    def keep(self, kind: str, name: str, data: Any, *, run: str = "", who: str = "") -> None:
        """Keep a small JSON document (see storage/keeping/kept.py) in the place of the one of the same kind, run and name.

        Raises UnknownRun, and ValueError for one that is too large.
        """
        with self._change() as cursor:
            if run:
                value_of(cursor, run, "no")
            kept.keep(cursor, kind, name, data, run=run, who=who)

    def drop(self, kind: str, name: str, *, run: str = "") -> None:
        """Remove a kept document if it is there."""
        with self._change() as cursor:
            kept.drop(cursor, kind, name, run=run)

    def kept(self, kind: str, run: str | None = None) -> list[Kept]:
        """Return the documents of a kind (of one run; `""`: of none; None: of all), the oldest first."""
        return list(self._remembered(("kept", kind, run), lambda cursor: kept.load(cursor, kind, run)))

    def retention(self, policy: Policy, *, dry_run: bool = False, at: datetime | None = None) -> Plan:
        """Let go of what is older than the policy says; with `dry_run` only say what that is. `at`: as if it were then (UTC).

        Nothing goes of runs that are held, and nothing of runs without a diagnosis: it says where the findings are, around
        which lines and rows stay. One transaction a run.
        """
        at = now() if at is None else at.astimezone(UTC).replace(tzinfo=None)
        with self._reading() as cursor:
            due = retention.plan(cursor, policy, at, self.data_dir)
        for run_id in [] if dry_run else dict.fromkeys(step.run for step in due.steps):
            self._age(run_id, policy, at)
        return due

    def _age(self, run_id: str, policy: Policy, at: datetime) -> None:
        warehouse = self._warehouse
        with warehouse.run_locks[run_id], warehouse.transaction() as cursor:
            # Looked at once more, now that nobody else writes: it may have grown, or been held or deleted since.
            for run in retention.subjects(cursor, run_id):
                old, new = (warehouse.archive(run.id, run.archive + part) for part in (0, 1))
                file = ArchiveFile(new, 0)
                try:
                    gone = retention.apply(cursor, run, policy, at, self.data_dir, file)
                    warehouse.commit(cursor, run_id)
                except BaseException:
                    file.close(keep=False)
                    raise
                file.close(keep=True)
                if retention.LINES in gone:
                    old.unlink(missing_ok=True)
                if retention.ROWS in gone:
                    self._clean_parquet(run_id)

    def publish(self, run_id: str) -> list[Piece]:
        """Write as Parquet what of a run is not published yet, rows and aggregates; return the new files. Raises UnknownRun."""
        with self._warehouse.run_locks[run_id], self._change() as cursor:
            return parquet.publish(cursor, run_id, self.data_dir)

    def pieces(self, run_id: str) -> list[Piece]:
        """Return the published Parquet files of a run."""
        with self._reading() as cursor:
            return parquet.pieces(cursor, value_of(cursor, run_id, "no"))

    def cool(self, days: float, *, at: datetime | None = None) -> dict[str, int]:
        """Publish the rows of runs that got none for so many days and keep them there only; return how many, by run id.

        They are read as before, a little slower; aggregates stay in the warehouse.
        """
        before = (now() if at is None else at.astimezone(UTC).replace(tzinfo=None)) - timedelta(days=days)
        sql = "select id from runs where deleted is null and thin = 0 and updated < ? and rows // 1000 * 1000 > cold"
        with self._reading() as cursor:
            due = [run_id for (run_id,) in cursor.execute(sql, [before]).fetchall()]
        return {run_id: self._cool(run_id) for run_id in due}

    def _cool(self, run_id: str) -> int:
        with self._warehouse.run_locks[run_id], self._warehouse.transaction() as cursor:
            count = parquet.cool(cursor, run_id, self.data_dir)
            self._warehouse.commit(cursor, run_id)
            return count

    def export(self, run_id: str, path: str | Path) -> int:
        """Write every row that is kept of a run to one file, CSV or Parquet by its name; return how many.

        Raises UnknownRun, OSError, and ValueError for another kind of file.
        """
        path = Path(path)
        if path.suffix.lower() not in (".csv", ".parquet"):
            raise ValueError(f"{path.name}: the name must end in .csv or .parquet.")
        with self._reading() as cursor:
            run = self._head(cursor, run_id)
            parquet.export(parquet.row_parts(cursor, run.no, run.table), path)
            found = first_row(cursor, f"select count(*) from {run.table}")
            return found[0] if found else 0

    def verify(self) -> list[Fault]:
        """Read everything and return what is not as it was written."""
        with self._reading() as cursor:
            return list(care.verify(cursor, self.data_dir))

    def backup(self, target: str | Path) -> int:
        """Copy one state of the store to a folder that is not there yet; return its bytes. Raises StoreError, OSError."""
        return care.backup(self._warehouse.connection, self.data_dir, Path(target))

    def notes(self) -> list[Note]:
        """Return what the store found when it was opened after a crash, the newest first."""
        with self._reading() as cursor:
            return load_notes(cursor)

    # The object store

    def mirror_to(self, place: str, *, pauses: tuple[float, ...] = PAUSES) -> None:
        """Name the object store (`s3://bucket/folder`) to which `mirror` sends and from which missing files are fetched."""
        self._mirror = Mirror(place, self.data_dir, pauses=pauses)

    def mirror(self) -> MirrorStatus | None:
        """Publish the rows of all runs and send what the object store does not have; None where none is named.

        Ends at the first file that can't be sent: what is left waits for the next call.
        """
        if self._mirror is None:
            return None
        for run in self.runs():
            self.publish(run.id)
        with self._reading() as cursor:
            left = waiting(cursor)
        for path, size in left.items():
            if self._mirror.send(path, size):
                with self._change() as cursor:
                    note_sent(cursor, path, size)
            elif self._mirror.problem is not None:
                break
        return self.mirror_status()

    def mirror_status(self) -> MirrorStatus | None:
        """Return what waits to be sent and what hinders it; None where no object store is named."""
        if self._mirror is None:
            return None
        with self._reading() as cursor:
            return mirror_status(cursor, self._mirror.place, self._mirror.problem)

    def evict(self, run_id: str) -> int:
        """Remove the local files of a cold run's rows that the object store has; return the bytes.

        They are fetched when they are needed.
        """
        freed = 0
        with self._warehouse.run_locks[run_id], self._reading() as cursor:
            left = waiting(cursor)
            for piece in parquet.pieces(cursor, value_of(cursor, run_id, "no"), parquet.ROWS) if self._mirror else ():
                path = self.data_dir / piece.path
                if piece.path not in left and path.exists():
                    path.unlink()
                    freed += piece.bytes
        return freed

    def _fetch_missing(self, cursor: duckdb.DuckDBPyConnection, run_no: int, cold: int) -> None:
        for piece in parquet.pieces(cursor, run_no, parquet.ROWS) if self._mirror is not None else ():
            if self._mirror and piece.first < cold and not (self.data_dir / piece.path).exists():
                self._mirror.fetch(piece.path)

    def _clean_parquet(self, run_id: str) -> None:
        with self._reading() as cursor:
            parquet.clean(cursor, self.data_dir, run_id)

    def thinned(self, run_id: str) -> bool:
        """Say whether raw rows of a run have gone: its curve is then one of aggregates, and a new diagnosis would miss them.

        Not of a run that has grown by more than a thousand rows since.
        """
        with self._reading() as cursor:
            return bool(value_of(cursor, run_id, f"thin > 0 and rows < thin + {retention.LARGE:d}"))

    def disk(self) -> dict[str, int]:
        """Return how many bytes the store takes: `warehouse`, `archive`, `parquet` and `other`."""
        parts = dict.fromkeys(("warehouse", "archive", "parquet", "other"), 0)
        for folder, _, names in os.walk(self.data_dir):
            top = Path(folder).relative_to(self.data_dir).parts
            for name in names:
                part = top[0] if top and top[0] in parts else "warehouse" if not top and name.startswith(FILE) else "other"
                with suppress(OSError):  # gone since
                    parts[part] += os.stat(os.path.join(folder, name)).st_size
        return parts

    def save_diagnosis(self, run_id: str, profile: str, version: int, diagnosis: Mapping[str, Any]) -> None:
        """Keep the diagnosis of a run under a profile of thresholds, made for `version` of its data. Raises UnknownRun."""
        with self._change() as cursor:
            no = value_of(cursor, run_id, "no")
            cursor.execute("delete from diagnoses where run = ? and profile = ?", [no, profile])
            values = [no, profile, version, dump_json(diagnosis), now()]
            cursor.execute("insert into diagnoses values (?, ?, ?, ?, ?)", values)

    # Reading. Everything that takes the id of a run raises UnknownRun.

    def runs(self, ids: Iterable[str] | None = None) -> list[Run]:
        """Return every run, the one changed last first; of a run with lanes the lane that stands for it.

        ids: only these, lanes too, as far as they are there.
        """
        with self._reading() as cursor:
            return runs.list_runs(cursor, None if ids is None else list(ids))

    def run(self, run_id: str) -> Run:
        """Return one run."""
        found = self._remembered(("run", run_id), lambda cursor: runs.list_runs(cursor, [run_id]))
        return known(tuple(found) or None, run_id)[0]

    def find_by_fingerprint(self, fingerprint: str) -> str | None:
        """Return the id of the run whose source has this SHA-256, None without one."""
        with self._reading() as cursor:
            return runs.find_fingerprint(cursor, fingerprint)

    def with_head(self, head: bytes) -> list[tuple[str, int, str]]:
        """Return the runs whose source begins like `head` (or is a beginning of it): id, bytes and SHA-256 of the source."""
        with self._reading() as cursor:
            return runs.find_head(cursor, head)

    def report(self, run_id: str) -> ParseReport:
        """Return what the reader said of the run's log."""
        with self._reading() as cursor:
            return load_report(value_of(cursor, run_id, "report"))

    def reports(self, ids: Iterable[str]) -> dict[str, ParseReport]:
        """Return what the reader said of the logs of some runs, by run; those that are not there are left out."""
        sql = "select id, report from runs where list_contains(?, id) and deleted is null"
        with self._reading() as cursor:
            return {run_id: load_report(text) for run_id, text in cursor.execute(sql, [list(ids)]).fetchall()}

    def reader_state(self, run_id: str) -> dict[str, Any] | None:
        """Return the state from which the reader goes on with the run's log, None where none was kept."""
        with self._reading() as cursor:
            state = value_of(cursor, run_id, "reader_state")
            return None if state is None else json.loads(state)

    def columns(self, run_id: str) -> tuple[Column, ...]:
        """Return the metrics of a run in the order they appeared."""
        sql = "select name, printed, unit, role from metrics where run = ? order by no"
        with self._reading() as cursor:
            found = cursor.execute(sql, [value_of(cursor, run_id, "no")]).fetchall()
            return tuple(Column(*values) for values in found)

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
        with self._reading() as cursor:
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
        with self._reading() as cursor:
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
        with self._reading() as cursor:
            heads = self._heads_of(cursor, list(dict.fromkeys(ids)))
            axes = {run.id: (run, series.axis(x, run)) for run in heads if not run.metrics.keys().isdisjoint(wanted)}
            charts = {run_id: series.Chart(cursor, run, axis) for run_id, (run, axis) in axes.items() if axis is not None}
            found = many.buckets_many(cursor, charts, wanted, max(1, width))
        nothing = pd.DataFrame(columns=list(many.COLUMNS))
        return {run.id: _timed(found[run.id], x) if run.id in found else nothing for run in heads}

    def printed_steps(self, ids: Iterable[str], most: int) -> dict[str, float]:
        """Return which share of the first `most` rows of each run (of kind train) print their step; by run with such rows."""
        with self._reading() as cursor:
            return many.printed_steps(cursor, self._heads_of(cursor, list(dict.fromkeys(ids))), most)

    def windows(
        self, run_id: str, metrics: Sequence[str], size: float, *, x: str = "step", segment: int | None = None
    ) -> pd.DataFrame:
        """Return aggregates over equal stretches of x, as `buckets` does: from k·size up to (k+1)·size.

        10, 50 or 1,000 steps, one epoch (`x="epoch", size=1`), an hour (`x="timestamp"`, size in seconds).
        """
        with self._reading() as cursor:
            run = self._head(cursor, run_id)
            wanted, axis = _wanted(run, metrics), series.axis(x, run)
            if axis is None or not wanted:
                return pd.DataFrame(columns=list(series.BUCKET_COLUMNS))
            scale = 1000 if x == "timestamp" else 1
            return _timed(series.Chart(cursor, run, axis, segment=segment).windows(wanted, size * scale), x)

    def latest(self, ids: Iterable[str] | None = None) -> pd.DataFrame:
        """Return the last value of every metric of the given runs (default: all): `run, metric, step, value`."""
        with self._reading() as cursor:
            return runs.latest(cursor, ids)

    def sparklines(self, ids: Iterable[str] | None = None, metric: str = "loss") -> dict[str, np.ndarray]:
        """Return by id, for each run (default: all) with the metric, mean, lowest and highest of at most 64 equal stretches.

        float32 (3, n) over its whole length; NaN where no value of a stretch is finite.
        """
        with self._reading() as cursor:
            return runs.sparklines(cursor, ids, metric)

    def events(self, run_id: str, *, after: int = -1) -> tuple[Event, ...]:
        """Return what the log says beside its rows, by line; `after`: behind that line only."""
        with self._reading() as cursor:
            return runs.list_events(cursor, value_of(cursor, run_id, "no"), after)

    def lines(self, run_id: str, first: int, last: int) -> list[str]:
        """Return the original lines `first`…`last` (1-based, inclusive) as text for people; fewer where the log ends.

        Raises StoreError when the archive is damaged or gone.
        """
        with self._reading() as cursor:
            run = self._head(cursor, run_id)
            encoding = load_report(value_of(cursor, run_id, "report")).encoding
            try:
                found = list(frames(cursor, run.no, self._warehouse.archive(run.id, run.archive), first, last))
            except OSError as error:
                raise StoreError(Text(N_("The original lines can't be read: {error}"), {"error": str(error)})) from error
        shown = display_lines(found, first, last, encoding)
        if not shown and last >= 1 and not self.all_kept(run_id):
            message = N_(
                "Lines {first} to {last} of this log are not kept any more: of old lines only those around findings are."
            )
            raise StoreError(Text(message, {"first": first, "last": last}))
        return shown

    def original(self, run_id: str, start: int = 0) -> Generator[bytes]:
        """Return the original bytes of the run's log from byte `start` on, piece by piece, as far as they are kept.

        Raises OSError when the archive is damaged or gone.
        """
        with self._reading() as cursor:
            run = self._head(cursor, run_id)
            for frame in frames(cursor, run.no, self._warehouse.archive(run.id, run.archive), start=start):
                yield frame.data[max(0, start - frame.byte) :]

    def all_kept(self, run_id: str) -> bool:
        """Say whether every byte that was read for a run is still kept."""
        with self._reading() as cursor:
            sql = (
                "select count(*) = 0 from runs r join frames f on f.run = r.no "
                "where r.id = ? and f.data is null and f.position is null"
            )
            found = first_row(cursor, sql, [run_id])
            return bool(found and found[0])

    def diagnosis(self, run_id: str, profile: str = "robust") -> tuple[int, dict[str, Any]] | None:
        """Return the kept diagnosis and the version of the data it was made for, None without one."""
        sql = "select version, data from diagnoses where run = ? and profile = ?"
        with self._reading() as cursor:
            found = first_row(cursor, sql, [value_of(cursor, run_id, "no"), profile])
            return (found[0], json.loads(found[1])) if found else None

    def judged(self, profile: str = "robust", ids: Iterable[str] | None = None) -> dict[str, int]:
        """Return for each run (default: all) with a kept diagnosis the version of the data it was made for."""
        which = None if ids is None else tuple(ids)
        return dict(self._remembered(("judged", profile, which), lambda cursor: briefs.judged(cursor, profile, which)))

    def diagnoses(self, ids: Iterable[str], profile: str = "robust") -> dict[str, dict[str, Any]]:
        """Return the kept diagnosis of each of the runs that has one, by run id."""
        with self._reading() as cursor:
            return briefs.diagnoses(cursor, ids, profile)

    def configs(self, ids: Iterable[str]) -> dict[str, dict[str, Any]]:
        """Return the configuration that the log of each of the runs prints, by run id."""
        with self._reading() as cursor:
            return briefs.configs(cursor, ids)

    def version(self, run_id: str | None = None) -> int:
        """Return a number that grows with every change of the run or a lane of it (of any run, without an id)."""
        return self._remembered(("version", run_id), lambda cursor: runs.newest_version(cursor, run_id))

    # Where runs come from

    def watched(self) -> list[Watched]:
        """Return the folders that are watched by what was set here."""
        with self._reading() as cursor:
            return load_watched(cursor)

    def watch(self, watched: Watched) -> None:
        """Watch a folder from now on, in the place of what was set for it before."""
        with self._change() as cursor:
            save_watched(cursor, watched.folder, watched)

    def unwatch(self, folder: str) -> None:
        """Watch a folder no more; its runs stay."""
        with self._change() as cursor:
            save_watched(cursor, folder, None)

    def sources(self, runs: str | Sequence[str] | None = None, *, claim: str | None = None) -> list[Source]:
        """Return every file and stream that was read: for a run (or several) and its lanes, of a claim, or all there are."""
        with self._reading() as cursor:
            return load_sources(cursor, [runs] if isinstance(runs, str) else runs, claim)

    def lanes(self, run_id: str) -> list[Lane]:
        """Return the lanes of a run by rank; a run of one file is its only lane."""

        def look(cursor: duckdb.DuckDBPyConnection) -> list[Lane]:
            value_of(cursor, run_id, "no")
            return load_lanes(cursor, run_id)

        return list(self._remembered(("lanes", run_id), look))

    def note_source(self, source: Source) -> None:
        """Note of a run that was read already where it comes from."""
        with self._change() as cursor:
            save_sources(cursor, [source])

    def without_source(self) -> list[tuple[str, str, int, int, str]]:
        """Return the runs that came by upload: id, SHA-256 and size of their head, size and SHA-256 of all their bytes."""
        sql = (
            "select id, head, head_bytes, bytes, fingerprint from runs where fingerprint is not null and head is not null "
            "and deleted is null and id not in (select run from sources) order by bytes desc"
        )
        with self._reading() as cursor:
            return cursor.execute(sql).fetchall()

    def let_lead(self, run_id: str, instead_of: str) -> None:
        """Let a lane stand for its run instead of the lane that did so far."""
        with self._change() as cursor:
            move_job(cursor, instead_of, run_id)

    # Inside

    def _head(self, cursor: duckdb.DuckDBPyConnection, run_id: str) -> RunHead:
        return self._heads_of(cursor, [run_id])[0]

    def _heads_of(self, cursor: duckdb.DuckDBPyConnection, ids: Sequence[str]) -> list[RunHead]:
        names = "id, no, rows, first_time, archive, version, thin, bare, cold"
        sql = f"select {names} from runs where list_contains(?, id) and deleted is null"
        found = {run_id: tuple(values) for run_id, *values in cursor.execute(sql, [list(ids)]).fetchall()}
        there = {run_id: known(found.get(run_id), run_id) for run_id in ids}
        for no, *_others, cold in there.values():
            if cold:
                self._fetch_missing(cursor, no, cold)
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
            table = parquet.source(cursor, no, cold, self.data_dir)
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
