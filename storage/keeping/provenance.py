"""Where runs come from: watched folders, files and streams, the lanes of a run."""

from collections.abc import Sequence

import duckdb

from storage.keeping.schema import known
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


class Provenance:
    """The places that are read and what each of them became."""

    def __init__(self, warehouse: Warehouse) -> None:
        self._warehouse = warehouse

    def watched(self) -> list[Watched]:
        """Return the folders that are watched by what was set here."""
        with self._warehouse.reading() as cursor:
            return load_watched(cursor)

    def watch(self, watched: Watched) -> None:
        """Watch a folder from now on, in the place of what was set for it before."""
        with self._warehouse.change() as cursor:
            save_watched(cursor, watched.folder, watched)

    def unwatch(self, folder: str) -> None:
        """Watch a folder no more; its runs stay."""
        with self._warehouse.change() as cursor:
            save_watched(cursor, folder, None)

    def sources(self, runs: str | Sequence[str] | None = None, *, claim: str | None = None) -> list[Source]:
        """Return every file and stream that was read: for a run (or several) and its lanes, of a claim, or all there are."""
        with self._warehouse.reading() as cursor:
            return load_sources(cursor, [runs] if isinstance(runs, str) else runs, claim)

    def lanes(self, run_id: str) -> list[Lane]:
        """Return the lanes of a run by rank; a run of one file is its only lane."""

        def look(cursor: duckdb.DuckDBPyConnection) -> list[Lane]:
            lanes = load_lanes(cursor, run_id)
            known(tuple(lane for lane in lanes if lane.run == run_id) or None, run_id)
            return lanes

        return list(self._warehouse.answer(("lanes", run_id), look))

    def note_source(self, source: Source) -> None:
        """Note of a run that was read already where it comes from."""
        with self._warehouse.change() as cursor:
            save_sources(cursor, [source])

    def without_source(self) -> list[tuple[str, str, int, int, str]]:
        """Return the runs that came by upload: id, SHA-256 and size of their head, size and SHA-256 of all their bytes."""
        sql = (
            "select id, head, head_bytes, bytes, fingerprint from runs where fingerprint is not null and head is not null "
            "and deleted is null and id not in (select run from sources) order by bytes desc"
        )
        with self._warehouse.reading() as cursor:
            return cursor.execute(sql).fetchall()

    def let_lead(self, run_id: str, instead_of: str) -> None:
        """Let a lane stand for its run instead of the lane that did so far."""
        with self._warehouse.change() as cursor:
            move_job(cursor, instead_of, run_id)
