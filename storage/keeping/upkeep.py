"""What keeps a store sound and small: ageing, purging, checks, backups, what it takes on disk."""

import os
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path

from storage.keeping import care, parquet, retention, runs
from storage.keeping.archive import ArchiveFile
from storage.keeping.care import Fault
from storage.keeping.recovery import Note, load_notes
from storage.keeping.retention import Plan, Policy
from storage.keeping.runs import value_of
from storage.keeping.schema import FILE, now
from storage.keeping.warehouse import Warehouse


class Upkeep:
    """Care of the whole store."""

    def __init__(self, warehouse: Warehouse) -> None:
        self._warehouse = warehouse

    def retention(self, policy: Policy, *, dry_run: bool = False, at: datetime | None = None) -> Plan:
        """Let go of what is older than the policy says; with `dry_run` only say what that is. `at`: as if it were then (UTC).

        Nothing goes of runs that are held, and nothing of runs without a diagnosis: it says where the findings are, around
        which lines and rows stay. One transaction a run.
        """
        at = now() if at is None else at.astimezone(UTC).replace(tzinfo=None)
        with self._warehouse.reading() as cursor:
            due = retention.plan(cursor, policy, at, self._warehouse.data_dir)
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
                    gone = retention.apply(cursor, run, policy, at, self._warehouse.data_dir, file)
                    warehouse.commit(cursor, run_id)
                except BaseException:
                    file.close(keep=False)
                    raise
                file.close(keep=True)
                if retention.LINES in gone:
                    old.unlink(missing_ok=True)
                if retention.ROWS in gone:
                    with warehouse.reading() as looking:
                        parquet.clean(looking, warehouse.data_dir, run_id)

    def thinned(self, run_id: str) -> bool:
        """Say whether raw rows of a run have gone: its curve is then one of aggregates, and a new diagnosis would miss them.

        Not of a run that has grown by more than a thousand rows since.
        """
        with self._warehouse.reading() as cursor:
            return bool(value_of(cursor, run_id, f"thin > 0 and rows < thin + {retention.LARGE:d}"))

    def purge(self, *, deleted_days: float = 7) -> list[str]:
        """Remove for good the runs that were deleted at least so many days ago; return their ids."""
        with self._warehouse.change() as cursor:
            removed = runs.remove_deleted(cursor, now() - timedelta(days=deleted_days))
        for name in removed.values():
            (self._warehouse.data_dir / "archive" / name).unlink(missing_ok=True)
        with self._warehouse.reading() as cursor:
            for run_id in removed:
                parquet.clean(cursor, self._warehouse.data_dir, run_id)
        return list(removed)

    def verify(self) -> list[Fault]:
        """Read everything and return what is not as it was written."""
        with self._warehouse.reading() as cursor:
            return list(care.verify(cursor, self._warehouse.data_dir))

    def backup(self, target: str | Path) -> int:
        """Copy one state of the store to a folder that is not there yet; return its bytes. Raises StoreError, OSError."""
        return care.backup(self._warehouse.connection, self._warehouse.data_dir, Path(target))

    def notes(self) -> list[Note]:
        """Return what the store found when it was opened after a crash, the newest first."""
        with self._warehouse.reading() as cursor:
            return load_notes(cursor)

    def disk(self) -> dict[str, int]:
        """Return how many bytes the store takes: `warehouse`, `archive`, `parquet` and `other`."""
        parts = dict.fromkeys(("warehouse", "archive", "parquet", "other"), 0)
        for folder, _, names in os.walk(self._warehouse.data_dir):
            top = Path(folder).relative_to(self._warehouse.data_dir).parts
            for name in names:
                part = top[0] if top and top[0] in parts else "warehouse" if not top and name.startswith(FILE) else "other"
                with suppress(OSError):  # gone since
                    parts[part] += os.stat(os.path.join(folder, name)).st_size
        return parts
