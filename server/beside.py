"""How runs stand beside the pinned baseline, kept in memory: a page of thousands of runs asks only for what has changed.

A run is read as one curve and its settings, many runs in one query. A few runs are looked at when they are asked for; more
of them by a thread of its own, the first ones first, and a page shows what is known so far.
"""

import logging
import threading
from collections.abc import Mapping, Sequence

import pandas as pd

from analysis.compare.baseline import Baseline, Beside, light_beside
from analysis.compare.conditions import light_conditions
from analysis.compare.subject import EPOCH, LINE, STEP, Curve, curve_of, stitched
from server.baselines import baselines
from server.subjects import all_given, is_numbered
from storage.store import Store
from storage.types import Run

LOG = logging.getLogger("runvitals.beside")
AT_ONCE = 24  # runs that are looked at while a page waits
BATCH = 50  # runs of one query
WIDTH = 200  # points of a curve: more than a baseline keeps
REST_SECONDS = 0.02  # between two batches: pages come first
MOST_KNOWN = 100_000


class Standings:
    """The runs of a store beside its baselines."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._known: dict[tuple[str, str], tuple[int, Beside]] = {}  # by run and edition of the baseline; of which version
        self._lock = threading.Lock()
        self._stopped = threading.Event()
        self._thread: threading.Thread | None = None

    def baseline(self, name: str | None = None) -> Baseline | None:
        """Return the baseline of that name, else the newest one, None where there is none."""
        found = baselines(self._store)
        return next((one for one in found if one.name == name), found[0] if found else None)

    def names(self) -> list[str]:
        """Return the names of the baselines, the newest first."""
        return [one.name for one in baselines(self._store)]

    def beside(self, runs: Sequence[Run], base: Baseline) -> dict[str, Beside]:
        """Return by id how runs stand beside a baseline, as far as that is known; the rest is being looked at."""
        others = [run for run in runs if run.id not in base.runs]
        missing = [run for run in others if self._version(run.id, base) != run.version]
        if missing and len(missing) <= AT_ONCE:
            self._look(missing, base)
        elif missing:
            self._begin(missing, base)
        found = {run.id: self._known.get((run.id, base.key)) for run in others}
        return {run: told[1] for run, told in found.items() if told is not None}

    def _version(self, run: str, base: Baseline) -> int | None:
        told = self._known.get((run, base.key))
        return None if told is None else told[0]

    def stop(self) -> None:
        """End after the batch that is being looked at."""
        self._stopped.set()
        self.wait()

    def wait(self) -> None:
        """Wait until what was asked for is known."""
        if self._thread is not None:
            self._thread.join()

    def _begin(self, runs: Sequence[Run], base: Baseline) -> None:
        with self._lock:
            if self._stopped.is_set() or self._thread is not None and self._thread.is_alive():
                return
            self._thread = threading.Thread(target=self._work, args=(runs, base), name="beside", daemon=True)
            self._thread.start()

    def _work(self, runs: Sequence[Run], base: Baseline) -> None:
        for first in range(0, len(runs), BATCH):
            if self._stopped.wait(REST_SECONDS):
                return
            try:
                self._look(runs[first : first + BATCH], base)
            except Exception:  # some of them were deleted meanwhile: the others must be told all the same
                LOG.warning("Some runs could not be set beside the baseline %r", base.name, exc_info=True)

    def _look(self, runs: Sequence[Run], base: Baseline) -> None:
        store, ids = self._store, [run.id for run in runs]
        if len(self._known) > MOST_KNOWN:
            self._known.clear()
        curves = _curves(store, ids, base)
        configs, given = store.configs(ids), all_given(store, ids)
        last = _last(store.latest(ids))
        for run in runs:
            said = _said(configs.get(run.id, {}), last.get(run.id, {})) | given[run.id]
            curve = curves.get(run.id)
            unit = base.unit if curve is None or base.unit == EPOCH else LINE if is_numbered(store, run) else STEP
            self._known[run.id, base.key] = run.version, light_beside(base, curve, said, unit=unit)


def _said(config: Mapping[str, object], last: Mapping[str, float]) -> dict[str, object]:
    """Return the conditions of a run as its settings and its last values tell them."""
    printed = {"effective_batch": last.get("batch_size"), "steps_per_epoch": last.get("steps_per_epoch")}
    return {name: value for name, value in printed.items() if value} | light_conditions(config, None)


def _last(latest: pd.DataFrame) -> dict[str, dict[str, float]]:
    wanted = latest[latest["metric"].isin(("batch_size", "steps_per_epoch"))]
    found: dict[str, dict[str, float]] = {}
    for run, metric, value in zip(wanted["run"], wanted["metric"], wanted["value"], strict=True):
        found.setdefault(run, {})[metric] = value
    return found


def _curves(store: Store, ids: Sequence[str], base: Baseline) -> dict[str, Curve]:
    """Return the curve of the metric of a baseline of each run that has it."""
    if base.metric is None or not base.steps:
        return {}
    buckets = store.buckets_many(ids, base.metric, x=base.unit, width=WIDTH)
    return {str(run): curve_of(base.metric, stitched(part)) for run, part in buckets.groupby("run", sort=False)}
