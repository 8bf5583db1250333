"""The open warehouse: a cursor for each call, one snapshot for each read, one order of commits, one writer for each run.

This is what the parts of the store stand on; those who use the store know only `storage.store`.
"""

import threading
from collections import defaultdict, deque
from collections.abc import Callable, Container, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import duckdb

from messages import N_, Text
from storage.keeping.recovery import Mark, recover
from storage.keeping.remembered import Answer, Question, Remembered
from storage.keeping.runs import archive_name
from storage.keeping.schema import StoreError, connect, disconnect
from storage.keeping.state import RunState, load_state

MAX_STATES = 256  # of runs that grow, kept between their transactions


class Warehouse:
    """The database in `data_dir`. Raises StoreLocked and StoreError as `Store` does."""

    def __init__(self, data_dir: Path, *, read_only: bool) -> None:
        self.data_dir = data_dir
        self.read_only = read_only
        self.connection = connect(data_dir, read_only=read_only)
        # Versions are taken and committed in one order: a reader that saw version 6 is not given 5 later.
        self.commit_lock = threading.Lock()
        self.run_locks: defaultdict[str, threading.Lock] = defaultdict(threading.Lock)
        self.remembered = Remembered()
        self._idle: deque[duckdb.DuckDBPyConnection] = deque()
        self._states: dict[str, RunState] = {}
        self._mark: Mark | None = None
        if not read_only:
            self._mark = Mark(data_dir)
            with self.transaction() as cursor:
                recover(cursor, data_dir, self._mark)
                cursor.commit()

    def close(self) -> None:
        """Close it; other processes can open it then."""
        if self._mark is not None:
            self._mark.close()
            self._mark = None
        with self.remembered.commit():
            disconnect(self.connection, self.data_dir)

    def archive(self, run_id: str, part: int) -> Path:
        """Return the path of the archive file of a run."""
        return self.data_dir / "archive" / archive_name(run_id, part)

    @contextmanager
    def reading(self) -> Iterator[duckdb.DuckDBPyConnection]:
        """Give a cursor that sees one snapshot."""
        with self._cursor() as cursor:
            cursor.begin()
            try:
                yield cursor
            except duckdb.IOException as error:
                raise StoreError(Text(N_("The store can't be read: {error}"), {"error": str(error)})) from error
            finally:
                cursor.rollback()

    def answer(self, asked: Question, make: Callable[[duckdb.DuckDBPyConnection], Answer]) -> Answer:
        """Return a small answer that `make` gets of a cursor, from memory until something is committed. Don't change it."""

        def look() -> Answer:
            with self.reading() as cursor:
                return make(cursor)

        return self.remembered.get(asked, look)

    @contextmanager
    def transaction(self) -> Iterator[duckdb.DuckDBPyConnection]:
        """Give a cursor for changes; what the block does not commit is taken back."""
        if self.read_only:
            raise StoreError(Text(N_("The store is open for reading only: nothing can be changed."), {}))
        with self._cursor() as cursor:
            cursor.begin()
            try:
                yield cursor
            except duckdb.Error as error:
                raise StoreError(Text(N_("Nothing was stored: {error}"), {"error": str(error)})) from error
            finally:
                with suppress(duckdb.Error):  # there is nothing to take back after a commit
                    cursor.rollback()

    @contextmanager
    def change(self, about: Container[str] | None = None) -> Iterator[duckdb.DuckDBPyConnection]:
        """Give a cursor for one small transaction outside of a writer; it is committed at the end.

        about: the remembered answers that it makes stale (see `Remembered.commit`), None for all.
        """
        with self.transaction() as cursor, self.commit_lock:
            yield cursor
            with self.remembered.commit(about):
                cursor.commit()

    def commit(self, cursor: duckdb.DuckDBPyConnection, run_id: str) -> None:
        """Commit a transaction that changed a run in another way than by a writer."""
        with self.commit_lock:
            with self.remembered.commit():
                cursor.commit()
            self._states.pop(run_id, None)

    def versions(self, cursor: duckdb.DuckDBPyConnection) -> dict[str, int]:
        """Return the versions, as a transaction sees them, of the runs whose states are kept: for `state`, in one query."""
        with self.commit_lock:
            ids = list(self._states)
        sql = "select id, version from runs where list_contains(?, id) and deleted is null"
        return dict(cursor.execute(sql, [ids]).fetchall()) if ids else {}

    def state(self, cursor: duckdb.DuckDBPyConnection, run_id: str, version: int | None) -> RunState:
        """Return the state of a run for its writer: the one its last writer left, if the run is still at that version."""
        with self.commit_lock:
            kept = self._states.pop(run_id, None)
        if kept is not None and kept.version == version:
            return kept
        return load_state(cursor, run_id)

    def committed(self, run: RunState) -> None:
        """Remember how a transaction left a run."""
        if self._mark is not None:
            self._mark.set(run.version)
        with self.commit_lock:
            self._states[run.id] = run
            while len(self._states) > MAX_STATES:
                del self._states[next(iter(self._states))]

    @contextmanager
    def _cursor(self) -> Iterator[duckdb.DuckDBPyConnection]:
        # A cursor must not be used by two threads at once; kept ones are faster than new ones.
        try:
            cursor = self._idle.pop()
        except IndexError:
            cursor = self.connection.cursor()
        yield cursor
        self._idle.append(cursor)  # not after an error: its state is unknown then
