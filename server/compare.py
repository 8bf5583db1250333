"""Runs of the store side by side: comparisons, and what many runs show together."""

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import pandas as pd

from analysis.compare.comparison import Comparison, compare
from analysis.compare.conditions import light_conditions
from analysis.compare.subject import HIGHER_IS_BETTER, Subject
from analysis.compare.sweep import Sweep, sweep
from analysis.diagnose import Diagnosis
from analysis.ledger import ledger
from server.costs import Wishes
from server.service import Service
from server.subjects import remembered, subjects_of
from storage.types import Run

GOODPUT_ROWS = 100_000  # of all runs together, up to which the productive share is worked out with the rest
RESULT, NAME = "_result", "_name"  # columns of a sweep's table beside the settings


def usual_base(runs: Sequence[Run]) -> str:
    """Return the run (id) that the others stand beside unless a person chooses: the first with rows enough to tell something.

    That is half of what the middle run has: a run that ended after two lines makes every difference unknown.
    """
    middle = sorted(run.rows for run in runs)[len(runs) // 2]
    return next(run.id for run in runs if 2 * run.rows >= middle)


def comparison(
    service: Service,
    runs: Sequence[str],
    *,
    base: str | None = None,
    growing: Iterable[str] = (),
    wishes: Wishes | None = None,
    axis: str | None = None,
    metric: str | None = None,
    reach: float | None = None,
    is_baseline: bool = False,
) -> Comparison:
    """Return the comparison of runs (ids) with `base` (the first by default).

    wishes: number of GPUs where a log does not say it, and price of one. growing: runs that may get more rows.
    Raises UnknownRun, ValueError without runs.
    """
    subjects = subjects_of(service.store, runs, growing=frozenset(growing))
    if wishes is not None and wishes.gpus:
        subjects = [_with_gpus(one, wishes.gpus) for one in subjects]
    options: dict[str, Any] = {"axis": axis, "metric": metric, "reach": reach, "is_baseline": is_baseline}
    options["price"] = wishes.price if wishes else None
    small = sum(one.rows for one in subjects) <= GOODPUT_ROWS
    goodput = {one.id: share for one in subjects if (share := goodput_of(service, one.id)) is not None} if small else {}
    return compare(subjects, base=runs.index(base) if base in runs else 0, goodput=goodput, **options)


def _with_gpus(one: Subject, gpus: int) -> Subject:
    if one.gpus is not None:
        return one
    fields = {name: getattr(one, name) for name in one.__dataclass_fields__}
    return Subject(**{**fields, "given": {**one.given, "gpus": gpus}})


def goodput_of(service: Service, run_id: str) -> float | None:
    """Return the share of the time of a run that was productive, None where its log does not tell the time."""
    key = (str(service.store.data_dir), "goodput", run_id, service.store.version(run_id))
    share: float | None = remembered(key, lambda: _goodput(service, run_id))
    return share


def _goodput(service: Service, run_id: str) -> float | None:
    kept = service.store.diagnosis(run_id, service.settings.profile)
    book = ledger(service.segments(run_id), findings=Diagnosis.from_dict(kept[1]).findings if kept else ())
    return book.goodput if book else None


def sweep_of(service: Service, runs: Sequence[str], *, result: str = "loss") -> tuple[Sweep, pd.DataFrame]:
    """Return which settings go with a result among many runs, and the table behind it: a row a run, its settings, `result`.

    result: a metric, its mean over the last tenth of the run; or `seconds`: of a step, `total`: hours.
    """
    store = service.store
    ids = list(dict.fromkeys(runs))
    ends = {run: tail(points[0].tolist()) for run, points in store.sparklines(ids, result).items()}
    rates = {run: float(np.fmax.reduce(points[2], initial=0.0)) for run, points in store.sparklines(ids, "lr").items()}
    configs = store.configs(ids)
    rows = [light_conditions(configs.get(run, {}), rates.get(run)) for run in ids]
    results = [ends.get(run) for run in ids]
    names = {run.id: run.name for run in store.runs()}
    table = pd.DataFrame(rows, index=pd.Index(ids, name="run")).assign(
        **{RESULT: results, NAME: [names.get(run, run) for run in ids]}
    )
    return sweep(rows, results, lower_is_better=result not in HIGHER_IS_BETTER), table


def tail(points: Sequence[float]) -> float | None:
    """Return the mean of the last tenth of a small curve, None without a finite value there."""
    last = np.asarray(points[-max(len(points) // 10, 1) :], dtype=float)
    last = last[np.isfinite(last)]
    return float(last.mean()) if len(last) else None
