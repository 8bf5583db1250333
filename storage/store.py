"""The store: one DuckDB file and one archive folder, and the only door to them.

Thread-safe: every call has a cursor of its own and reads one snapshot. One process owns the store; any number of its
threads may read, one at a time may write a run, several may write different runs.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from storage.keeping.catalog import Catalog
from storage.keeping.curves import Curves
from storage.keeping.group import Group
from storage.keeping.judgements import Judgements
from storage.keeping.logs import Logs
from storage.keeping.outbox import Outbox
from storage.keeping.provenance import Provenance
from storage.keeping.published import Published
from storage.keeping.schema import StoreError, StoreLocked, UnknownRun
from storage.keeping.upkeep import Upkeep
from storage.keeping.warehouse import Warehouse
from storage.keeping.writer import AlreadyKnown, RunWriter

__all__ = ["AlreadyKnown", "Store", "StoreError", "StoreLocked", "UnknownRun"]


class Store:
    """Runs with their rows, aggregates, events, reports, diagnoses and original lines in `data_dir`.

    What it can do stands with the parts that do it, each about one thing; here are their calls under one roof. Whatever
    takes the id of a run raises UnknownRun; whatever changes something raises StoreError when the store is read-only or
    can't be written (disk full). `outbox`: what was alerted, and to whom.

    Raises StoreLocked when another process has it open for writing (or, to a writer, at all), StoreError when it can't
    be opened. With `read_only` several processes may open it at the same time.
    """

    def __init__(self, data_dir: str | Path, *, read_only: bool = False) -> None:
        self.data_dir = Path(data_dir)
        self.read_only = read_only
        if not read_only:
            self.data_dir.mkdir(parents=True, exist_ok=True)
        self._warehouse = Warehouse(self.data_dir, read_only=read_only)
        self.outbox = Outbox(self._warehouse)

        runs = Catalog(self._warehouse)
        self.create_run, self.rename_run = runs.create_run, runs.rename_run
        self.delete_run, self.restore_run = runs.delete_run, runs.restore_run
        self.runs, self.run, self.version = runs.runs, runs.run, runs.version
        self.find_by_fingerprint, self.with_head = runs.find_by_fingerprint, runs.with_head
        self.report, self.reports, self.reader_state = runs.report, runs.reports, runs.reader_state
        self.columns, self.events, self.configs = runs.columns, runs.events, runs.configs
        self.latest, self.sparklines = runs.latest, runs.sparklines

        judgements = Judgements(self._warehouse)
        self.diagnosis, self.diagnoses, self.judged = judgements.diagnosis, judgements.diagnoses, judgements.judged
        self.save_diagnosis, self.outdate_diagnoses = judgements.save_diagnosis, judgements.outdate_diagnoses
        self.keep, self.drop, self.kept = judgements.keep, judgements.drop, judgements.kept
        self.hold, self.release, self.holds = judgements.hold, judgements.release, judgements.holds

        provenance = Provenance(self._warehouse)
        self.watched, self.watch, self.unwatch = provenance.watched, provenance.watch, provenance.unwatch
        self.sources, self.lanes, self.let_lead = provenance.sources, provenance.lanes, provenance.let_lead
        self.note_source, self.without_source = provenance.note_source, provenance.without_source

        logs = Logs(self._warehouse)
        self.lines, self.original, self.all_kept = logs.lines, logs.original, logs.all_kept

        published = Published(self._warehouse)
        self.publish, self.cool, self.evict = published.publish, published.cool, published.evict
        self.mirror_to, self.mirror, self.mirror_status = published.mirror_to, published.mirror, published.mirror_status

        curves = Curves(self._warehouse, published)
        self.frame, self.windows, self.export = curves.frame, curves.windows, curves.export
        self.buckets, self.buckets_many, self.printed_steps = curves.buckets, curves.buckets_many, curves.printed_steps

        upkeep = Upkeep(self._warehouse)
        self.retention, self.thinned, self.purge = upkeep.retention, upkeep.thinned, upkeep.purge
        self.verify, self.backup, self.notes, self.disk = upkeep.verify, upkeep.backup, upkeep.notes, upkeep.disk

    def close(self) -> None:
        """Close the store; other processes can open it then."""
        self._warehouse.close()

    def __enter__(self) -> "Store":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

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
