"""The original lines and bytes of runs, as far as they are kept."""

from collections.abc import Generator
from pathlib import Path

import duckdb

from messages import N_, Text
from storage.keeping.archive import display_lines
from storage.keeping.originals import frames
from storage.keeping.reports import load_report
from storage.keeping.runs import value_of
from storage.keeping.schema import StoreError, first_row, known
from storage.keeping.warehouse import Warehouse


class Logs:
    """Logs as they were read. What takes the id of a run raises UnknownRun."""

    def __init__(self, warehouse: Warehouse) -> None:
        self._warehouse = warehouse

    def lines(self, run_id: str, first: int, last: int) -> list[str]:
        """Return the original lines `first`…`last` (1-based, inclusive) as text for people; fewer where the log ends.

        Raises StoreError when the archive is damaged or gone.
        """
        with self._warehouse.reading() as cursor:
            no, archive = self._place(cursor, run_id)
            encoding = load_report(value_of(cursor, run_id, "report")).encoding
            try:
                found = list(frames(cursor, no, archive, first, last))
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
        with self._warehouse.reading() as cursor:
            no, archive = self._place(cursor, run_id)
            for frame in frames(cursor, no, archive, start=start):
                yield frame.data[max(0, start - frame.byte) :]

    def all_kept(self, run_id: str) -> bool:
        """Say whether every byte that was read for a run is still kept."""
        with self._warehouse.reading() as cursor:
            sql = (
                "select count(*) = 0 from runs r join frames f on f.run = r.no "
                "where r.id = ? and f.data is null and f.position is null"
            )
            found = first_row(cursor, sql, [run_id])
            return bool(found and found[0])

    def _place(self, cursor: duckdb.DuckDBPyConnection, run_id: str) -> tuple[int, Path]:
        """Return the number of a run and its archive file."""
        sql = "select no, archive from runs where id = ? and deleted is null"
        no, part = known(first_row(cursor, sql, [run_id]), run_id)
        return no, self._warehouse.archive(run_id, part)
