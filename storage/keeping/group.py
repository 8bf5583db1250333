"""Transactions in which runs are written: of one run, or of many that have little each."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import TracebackType

import duckdb

from storage.keeping import parquet
from storage.keeping.changes import Changes
from storage.keeping.runs import empty_run, find_fingerprint, make_run
from storage.keeping.warehouse import Warehouse
from storage.keeping.writer import AlreadyKnown, RunWriter

ABOUT = frozenset({"run", "version", "lanes", "judged"})  # the remembered answers that new rows make stale


class Group:
    """Writers whose commits become durable and visible together, at the end of the block; with `at_once` each by itself.

    An error takes back all that is not durable yet. A run that comes twice, or one that another thread is writing, makes
    durable what there is before it. `opened` counts the writers. For one thread; made by `Store.together` and `Store.writer`.
    """

    def __init__(self, warehouse: Warehouse, *, at_once: bool = False) -> None:
        self._warehouse = warehouse
        self._at_once = at_once
        self._locks, self._transaction = ExitStack(), ExitStack()
        self._cursor: duckdb.DuckDBPyConnection | None = None
        self._changes: Changes | None = None
        self._writers: dict[str, RunWriter] = {}
        self._emptied: dict[str, Path] = {}
        self._versions: dict[str, int] = {}
        self.opened = 0

    def __enter__(self) -> "Group":
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        with self._locks, self._transaction:  # an error passes through the transaction, which explains it
            try:
                if error is not None:
                    raise error
                if not self._at_once:
                    self.commit()
            finally:
                for writer in self._writers.values():
                    writer.close(keep=False)

    @contextmanager
    def writer(
        self, run_id: str | None = None, *, name: str = "", source: str | None = None, replace: bool = False
    ) -> Iterator[RunWriter]:
        """Write a run, as `Store.writer` does; of several together each must commit."""
        self.opened += 1
        if run_id is not None:
            self._lock(run_id)
        if self._cursor is None or self._changes is None:
            self._cursor = self._transaction.enter_context(self._warehouse.transaction())
            self._changes = Changes(self._cursor)
            self._versions = self._warehouse.versions(self._cursor)
        if run_id is None:
            run = make_run(self._cursor, name, source)
        else:
            run = self._warehouse.state(self._cursor, run_id, self._versions.get(run_id))
        if replace:
            self._emptied[run.id] = self._warehouse.archive(run.id, run.archive)
            run = empty_run(self._cursor, run)
        archive = self._warehouse.archive(run.id, run.archive)
        writer = RunWriter(self._cursor, run, archive, self._changes, self.commit if self._at_once else None)
        self._writers[run.id] = writer
        yield writer
        if not writer.committed and not self._at_once:
            raise RuntimeError("of writers that commit together each must commit")

    def commit(self) -> None:
        """Make everything so far durable and visible. Raises AlreadyKnown, StoreError; nothing of it is stored then."""
        if self._cursor is None or self._changes is None:
            return
        self._changes.save_rows()
        with self._warehouse.commit_lock:
            self._refuse_known(self._changes)
            self._changes.save_runs()
            with self._warehouse.remembered.commit(ABOUT):
                self._cursor.commit()
        for writer in self._writers.values():
            writer.close(keep=True)
            self._warehouse.committed(writer.run)
        for run_id, archive in self._emptied.items():
            archive.unlink(missing_ok=True)
            with self._warehouse.reading() as cursor:
                parquet.clean(cursor, self._warehouse.data_dir, run_id)
        self._cursor, self._changes, self._writers, self._emptied = None, None, {}, {}
        self._transaction.close()
        self._locks.close()

    def _lock(self, run_id: str) -> None:
        lock = self._warehouse.run_locks[run_id]
        if self._writers and (run_id in self._writers or not lock.acquire(blocking=False)):
            self.commit()  # who waits for a run must not hold another one
        if not self._writers:
            lock.acquire()
        self._locks.callback(lock.release)

    def _refuse_known(self, changes: Changes) -> None:
        # With a cursor of its own: the snapshot of this transaction is older than what others have committed since.
        for run, fingerprint in changes.fingerprints:
            found = find_fingerprint(self._cursor.cursor(), fingerprint) if self._cursor else None
            if found is not None and found != run.id:
                raise AlreadyKnown(found)
