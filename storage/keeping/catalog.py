"""The runs that there are, what their logs say of themselves, and what becomes of a run by hand."""

import json
from collections.abc import Iterable
from contextlib import ExitStack
from datetime import datetime
from typing import Any

import numpy as np
import pandas as pd

from storage.keeping import briefs, runs
from storage.keeping.reports import clean_text, load_report
from storage.keeping.runs import value_of
from storage.keeping.schema import known, now
from storage.keeping.sources import load_sources
from storage.keeping.warehouse import Warehouse
from storage.types import Column, Event, ParseReport, Run


class Catalog:
    """Every run by its id. What takes one id raises UnknownRun."""

    def __init__(self, warehouse: Warehouse) -> None:
        self._warehouse = warehouse

    def create_run(self, name: str, source: str | None = None, fingerprint: str | None = None) -> str:
        """Make an empty run and return its id."""
        with self._warehouse.change() as cursor:
            run = runs.make_run(cursor, name, source, fingerprint)
            runs.make_rows_table(cursor, run)
            return run.id

    def rename_run(self, run_id: str, name: str) -> None:
        """Give a run another name. Raises UnknownRun."""
        with self._warehouse.run_locks[run_id], self._warehouse.change() as cursor:
            runs.set_value(cursor, run_id, "name", clean_text(name))

    def delete_run(self, run_id: str) -> None:
        """Hide a run and its lanes everywhere; `restore_run` brings them back until `purge` removes them. Raises UnknownRun."""
        self._set_deleted(run_id, now())

    def restore_run(self, run_id: str) -> None:
        """Bring a deleted run back. Raises UnknownRun when it was never there or is purged."""
        self._set_deleted(run_id, None)

    def _set_deleted(self, run_id: str, when: datetime | None) -> None:
        with self._warehouse.reading() as cursor:
            lanes = {source.run for source in load_sources(cursor, [run_id], None) if source.job == run_id}
        with ExitStack() as locks:
            for each in sorted({run_id, *lanes}):
                locks.enter_context(self._warehouse.run_locks[each])
            cursor = locks.enter_context(self._warehouse.change())
            for each in (run_id, *lanes - {run_id}):
                runs.set_value(cursor, each, "deleted", when, deleted=when is None)

    def runs(self, ids: Iterable[str] | None = None) -> list[Run]:
        """Return every run, the one changed last first; of a run with lanes the lane that stands for it.

        ids: only these, lanes too, as far as they are there.
        """
        with self._warehouse.reading() as cursor:
            return runs.list_runs(cursor, None if ids is None else list(ids))

    def run(self, run_id: str) -> Run:
        """Return one run."""
        found = self._warehouse.answer(("run", run_id), lambda cursor: runs.list_runs(cursor, [run_id]))
        return known(tuple(found) or None, run_id)[0]

    def version(self, run_id: str | None = None) -> int:
        """Return a number that grows with every change of the run or a lane of it (of any run, without an id)."""
        return self._warehouse.answer(("version", run_id), lambda cursor: runs.newest_version(cursor, run_id))

    def find_by_fingerprint(self, fingerprint: str) -> str | None:
        """Return the id of the run whose source has this SHA-256, None without one."""
        with self._warehouse.reading() as cursor:
            return runs.find_fingerprint(cursor, fingerprint)

    def with_head(self, head: bytes) -> list[tuple[str, int, str]]:
        """Return the runs whose source begins like `head` (or is a beginning of it): id, bytes and SHA-256 of the source."""
        with self._warehouse.reading() as cursor:
            return runs.find_head(cursor, head)

    def report(self, run_id: str) -> ParseReport:
        """Return what the reader said of the run's log."""
        with self._warehouse.reading() as cursor:
            return load_report(value_of(cursor, run_id, "report"))

    def reports(self, ids: Iterable[str]) -> dict[str, ParseReport]:
        """Return what the reader said of the logs of some runs, by run; those that are not there are left out."""
        sql = "select id, report from runs where list_contains(?, id) and deleted is null"
        with self._warehouse.reading() as cursor:
            return {run_id: load_report(text) for run_id, text in cursor.execute(sql, [list(ids)]).fetchall()}

    def reader_state(self, run_id: str) -> dict[str, Any] | None:
        """Return the state from which the reader goes on with the run's log, None where none was kept."""
        with self._warehouse.reading() as cursor:
            state = value_of(cursor, run_id, "reader_state")
            return None if state is None else json.loads(state)

    def columns(self, run_id: str) -> tuple[Column, ...]:
        """Return the metrics of a run in the order they appeared."""
        sql = "select name, printed, unit, role from metrics where run = ? order by no"
        with self._warehouse.reading() as cursor:
            found = cursor.execute(sql, [value_of(cursor, run_id, "no")]).fetchall()
            return tuple(Column(*values) for values in found)

    def latest(self, ids: Iterable[str] | None = None) -> pd.DataFrame:
        """Return the last value of every metric of the given runs (default: all): `run, metric, step, value`."""
        with self._warehouse.reading() as cursor:
            return runs.latest(cursor, ids)

    def sparklines(self, ids: Iterable[str] | None = None, metric: str = "loss") -> dict[str, np.ndarray]:
        """Return by id, for each run (default: all) with the metric, mean, lowest and highest of at most 64 equal stretches.

        float32 (3, n) over its whole length; NaN where no value of a stretch is finite.
        """
        with self._warehouse.reading() as cursor:
            return runs.sparklines(cursor, ids, metric)

    def events(self, run_id: str, *, after: int = -1) -> tuple[Event, ...]:
        """Return what the log says beside its rows, by line; `after`: behind that line only."""
        with self._warehouse.reading() as cursor:
            return runs.list_events(cursor, value_of(cursor, run_id, "no"), after)

    def configs(self, ids: Iterable[str]) -> dict[str, dict[str, Any]]:
        """Return the configuration that the log of each of the runs prints, by run id."""
        with self._warehouse.reading() as cursor:
            return briefs.configs(cursor, ids)
