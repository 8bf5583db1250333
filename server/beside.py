"""How runs stand beside the pinned baseline, kept in memory: a page of thousands of runs asks only for what has changed.

Each is compared with the baseline as on the page Compare. A few runs are looked at when they are asked for; more of them by a
thread of its own, the first ones first, and a page shows what is known so far.
"""

import logging
import math
import threading
from collections.abc import Sequence

import numpy as np

from analysis.compare.baseline import Baseline, Beside, beside
from analysis.compare.judged import Judged
from server.baselines import baselines
from server.judgements import said_of
from server.subjects import subjects_of
from storage.store import Store
from storage.types import Run

LOG = logging.getLogger("runvitals.beside")
AT_ONCE = 24  # runs that are looked at while a page waits
BATCH = 10
Stamp = tuple[int, int | None]  # the version of the rows, and of those that were judged
REST_SECONDS = 0.1  # between two batches: pages come first
MOST_KNOWN = 100_000


class Standings:
    """The runs of a store beside its baselines."""

    def __init__(self, store: Store, profile: str) -> None:
        self._store, self._profile = store, profile
        self._known: dict[tuple[str, str], tuple[Stamp, Beside]] = {}  # by run and edition of the baseline
        self._repeats: dict[str, dict[str, float]] = {}  # by edition: how far its repeats lie off, in the logarithm
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
        said = self._store.judged(self._profile)
        missing = [run for run in others if self._stamp(run.id, base) != (run.version, said.get(run.id))]
        if missing and len(missing) <= AT_ONCE:
            self._look(missing, base)
        elif missing:
            self._begin(missing, base)
        found = {run.id: self._known.get((run.id, base.key)) for run in others}
        return {run: told[1] for run, told in found.items() if told is not None}

    def _stamp(self, run: str, base: Baseline) -> Stamp | None:
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
        if len(self._known) > MOST_KNOWN:
            self._known.clear()
        here, said = {run.id: run for run in self._store.runs()}, self._store.judged(self._profile)
        broke = self._judged([here[run] for run in {*base.runs, *(run.id for run in runs)} if run in here])
        its = subjects_of(self._store, [run for run in base.runs if run in here])
        apart = self._repeats.setdefault(base.key, {})
        for run, one in zip(runs, subjects_of(self._store, [run.id for run in runs]), strict=True):
            others = [value for other, value in apart.items() if other != run.id]
            spread = float(np.sqrt(np.mean(np.square(others)))) if others else 0.0
            found = beside(base, its, one, spread=spread, judged=broke)
            if found.repeat and found.loss is not None:
                apart[run.id] = math.log1p(found.loss)
            self._known[run.id, base.key] = (run.version, said.get(run.id)), found

    def _judged(self, runs: Sequence[Run]) -> dict[str, Judged]:
        """Return what the kept diagnoses say of the runs that may have broken down."""
        return said_of(runs, self._store.diagnoses([run.id for run in runs], self._profile, critical=True))
