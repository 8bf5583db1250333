"""Runs of the store side by side: comparisons, and what many runs show together."""

import math
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import pandas as pd

from analysis.compare.comparison import Comparison, compare
from analysis.compare.conditions import light_conditions
from analysis.compare.judged import Judged, judged
from analysis.compare.subject import HIGHER_IS_BETTER, Subject
from analysis.compare.sweep import Sweep, sweep
from analysis.compare.target import target_of
from analysis.ledger import ledger
from server.costs import Wishes
from server.glance import Glance
from server.service import Service
from server.subjects import subjects_of
from storage.types import Run

JUDGED_ROWS = 100_000  # of all runs together, up to which those that are not yet judged are judged now
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
    reach: str | None = None,
    is_baseline: bool = False,
) -> Comparison:
    """Return the comparison of runs (ids) with `base` (the first by default).

    wishes: number of GPUs where a log does not say it, and price of one. growing: runs that may get more rows.
    reach: a loss, or a share of the first as `60%`. Raises UnknownRun, ValueError without runs or for a wish that can't be.
    """
    if wishes is not None and not (wishes.gpus is None or wishes.gpus > 0):
        raise ValueError(f"{wishes.gpus} is no number of GPUs")
    if wishes is not None and not (wishes.price is None or 0 <= wishes.price < math.inf):
        raise ValueError(f"{wishes.price} is no price")
    subjects = subjects_of(service.store, runs, growing=frozenset(growing))
    if wishes is not None and wishes.gpus:
        subjects = [_with_gpus(one, wishes.gpus) for one in subjects]
    options: dict[str, Any] = {"axis": axis, "metric": metric, "reach": target_of(reach), "is_baseline": is_baseline}
    options["price"] = wishes.price if wishes else None
    said = judgements(service, list({one.id: one for one in subjects}.values()))
    return compare(subjects, base=runs.index(base) if base in runs else 0, judged=said, **options)


def _with_gpus(one: Subject, gpus: int) -> Subject:
    if one.gpus is not None:
        return one
    fields = {name: getattr(one, name) for name in one.__dataclass_fields__}
    return Subject(**{**fields, "given": {**one.given, "gpus": gpus}})


def judgements(service: Service, subjects: Sequence[Subject]) -> dict[str, Judged]:
    """Return by run what its diagnosis and its ledger say: those that are kept, and of few rows those that are made now.

    Where a monitor judges the runs anyway, nobody waits for it: what it has said so far counts, if only of earlier rows.
    """
    profile, launches = service.settings.profile, {one.id: one.launches for one in subjects}
    heads = {run.id: run for run in service.store.runs(launches)}
    versions = service.store.judged(profile, heads)
    here = service.monitor is None
    missing = [run for run, head in heads.items() if versions.get(run) != head.version and (here or run not in versions)]
    small = here and sum(one.rows for one in subjects) <= JUDGED_ROWS
    found = {run: _judge(service, run, launches[run] - 1) for run in missing} if small else {}
    for run, kept in service.store.diagnoses(heads.keys() - set(missing), profile).items():
        facts = Glance.from_dict(kept.get("glance")).facts
        found[run] = judged(kept, launches[run] - 1, facts.goodput if facts else None)
    return found


def awaited(service: Service, runs: Sequence[str]) -> list[str]:
    """Return the runs (ids) that the monitor has not judged yet; none where there is no monitor."""
    if service.monitor is None:
        return []
    versions = service.store.judged(service.settings.profile, runs)
    return [run for run in runs if run not in versions]


def judged_versions(service: Service, runs: Sequence[str]) -> tuple[tuple[str, int, int], ...]:
    """Return of which rows, and how often, the runs that are judged were: a comparison before that is stale."""
    versions = service.store.judged(service.settings.profile, runs)
    return tuple((run, version, service.edition(run)) for run, version in sorted(versions.items()))


def _judge(service: Service, run_id: str, launch: int) -> Judged:
    diagnosis = service.diagnosis(run_id)
    book = ledger(service.segments(run_id), findings=diagnosis.findings)
    return judged(diagnosis.to_dict(), launch, book.goodput if book else None)


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
    return sweep(rows, results, lower_is_better=lower_is_better(result)), table


def lower_is_better(result: str) -> bool:
    """Say which end of a result is the good one."""
    return result not in HIGHER_IS_BETTER and not result.endswith("_per_second")


def tail(points: Sequence[float]) -> float | None:
    """Return the mean of the last tenth of a small curve, None without a finite value there."""
    last = np.asarray(points[-max(len(points) // 10, 1) :], dtype=float)
    last = last[np.isfinite(last)]
    return float(last.mean()) if len(last) else None
