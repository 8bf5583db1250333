"""The Parquet files of runs: written, kept instead of rows, and their copy in an object store."""

from datetime import UTC, datetime, timedelta

import duckdb

from storage.keeping import parquet
from storage.keeping.mirror import PAUSES, Mirror, MirrorStatus, note_sent, waiting
from storage.keeping.mirror import status as mirror_status
from storage.keeping.parquet import Piece
from storage.keeping.runs import list_runs, value_of
from storage.keeping.schema import now
from storage.keeping.warehouse import Warehouse


class Published:
    """Published files, here and in the object store if one is named."""

    def __init__(self, warehouse: Warehouse) -> None:
        self._warehouse = warehouse
        self._mirror: Mirror | None = None

    def publish(self, run_id: str) -> list[Piece]:
        """Write as Parquet what of a run is not published yet, rows and aggregates; return the new files. Raises UnknownRun."""
        with self._warehouse.run_locks[run_id], self._warehouse.change() as cursor:
            return parquet.publish(cursor, run_id, self._warehouse.data_dir)

    def cool(self, days: float, *, at: datetime | None = None) -> dict[str, int]:
        """Publish the rows of runs that got none for so many days and keep them there only; return how many, by run id.

        They are read as before, a little slower; aggregates stay in the warehouse.
        """
        before = (now() if at is None else at.astimezone(UTC).replace(tzinfo=None)) - timedelta(days=days)
        sql = "select id from runs where deleted is null and thin = 0 and updated < ? and rows // 1000 * 1000 > cold"
        with self._warehouse.reading() as cursor:
            due = [run_id for (run_id,) in cursor.execute(sql, [before]).fetchall()]
        return {run_id: self._cool(run_id) for run_id in due}

    def _cool(self, run_id: str) -> int:
        with self._warehouse.run_locks[run_id], self._warehouse.transaction() as cursor:
            count = parquet.cool(cursor, run_id, self._warehouse.data_dir)
            self._warehouse.commit(cursor, run_id)
            return count

    def mirror_to(self, place: str, *, pauses: tuple[float, ...] = PAUSES) -> None:
        """Name the object store (`s3://bucket/folder`) to which `mirror` sends and from which missing files are fetched."""
        self._mirror = Mirror(place, self._warehouse.data_dir, pauses=pauses)

    def mirror(self) -> MirrorStatus | None:
        """Publish the rows of all runs and send what the object store does not have; None where none is named.

        Ends at the first file that can't be sent: what is left waits for the next call.
        """
        if self._mirror is None:
            return None
        with self._warehouse.reading() as cursor:
            runs = list_runs(cursor)
        for run in runs:
            self.publish(run.id)
        with self._warehouse.reading() as cursor:
            left = waiting(cursor)
        for path, size in left.items():
            if self._mirror.send(path, size):
                with self._warehouse.change() as cursor:
                    note_sent(cursor, path, size)
            elif self._mirror.problem is not None:
                break
        return self.mirror_status()

    def mirror_status(self) -> MirrorStatus | None:
        """Return what waits to be sent and what hinders it; None where no object store is named."""
        if self._mirror is None:
            return None
        with self._warehouse.reading() as cursor:
            return mirror_status(cursor, self._mirror.place, self._mirror.problem)

    def evict(self, run_id: str) -> int:
        """Remove the local files of a cold run's rows that the object store has; return the bytes.

        They are fetched when they are needed.
        """
        freed = 0
        with self._warehouse.run_locks[run_id], self._warehouse.reading() as cursor:
            left = waiting(cursor)
            for piece in parquet.pieces(cursor, value_of(cursor, run_id, "no"), parquet.ROWS) if self._mirror else ():
                path = self._warehouse.data_dir / piece.path
                if piece.path not in left and path.exists():
                    path.unlink()
                    freed += piece.bytes
        return freed

    def fetch_missing(self, cursor: duckdb.DuckDBPyConnection, run_no: int, cold: int) -> None:
        """Bring back the row files of a run that are needed and not here. Raises StoreError when that fails."""
        for piece in parquet.pieces(cursor, run_no, parquet.ROWS) if self._mirror is not None else ():
            if self._mirror and piece.first < cold and not (self._warehouse.data_dir / piece.path).exists():
                self._mirror.fetch(piece.path)
