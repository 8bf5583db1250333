"""Runs of the store side by side: comparisons, and what many runs show together."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd

from analysis.compare.comparison import MOST, Comparison, compare
from analysis.compare.conditions import VERBATIM, kinds, light_conditions
from analysis.compare.fairness import Reason
from analysis.compare.judged import Judged, judged
from analysis.compare.one_experiment import left_out, strangers
from analysis.compare.subject import ALIKE, HIGHER_IS_BETTER, Subject, names_of
from analysis.compare.sweep import Sweep, sweep
from analysis.compare.target import target_of
from analysis.ledger import ledger
from messages import N_, Text, listed
from server.costs import Wishes
from server.glance import Glance
from server.service import Service
from server.subjects import all_given, subjects_of
from storage.types import Run

JUDGED_ROWS = 100_000  # of all runs together, up to which those that are not yet judged are judged now
COMPARED = frozenset({"loss", "logits_loss", "eval_loss", "reward"})  # one of which a base must share with the others
LONGER = 1.2  # last step of one run over that of another, from which on their ends are not alike
OTHER_LENGTHS = N_(
    "the result is that at the end of each run, after {least:,} to {most:,} steps: longer runs may be ahead for that alone"
)
WITHOUT = N_("runs that have no such result and are not counted: {count:,}")
DOWN = N_("broke down, and counted with the result at their end all the same: {runs}")
RESULT, NAME = "_result", "_name"  # columns of a sweep's table beside the settings


def usual_base(service: Service, runs: Sequence[Run]) -> str:
    """Return the run (id) that the others stand beside unless a person chooses: the first of those that tell most.

    That is one that did not break down, prints much the same things as most others, has at least half the rows of the middle
    one of these (one that ended after two lines makes every difference unknown), is healthy, and prints a loss that most print.
    """
    kept = service.store.diagnoses([run.id for run in runs], service.settings.profile)
    broken = {
        run.id for run in runs if run.id in kept and judged(kept[run.id], max(run.segments, 1) - 1, None).said is not None
    }
    printed: dict[str, set[str]] = {run.id: set() for run in runs}
    latest = service.store.latest(list(printed))
    for run_id, metric in zip(latest["run"].tolist(), latest["metric"].tolist(), strict=True):
        printed[run_id].add(metric)
    names = {run: {name for name in found if not name.startswith("eval_")} for run, found in printed.items()}

    def rank(run: Run) -> tuple[bool, int, bool, bool, int]:
        mine = names[run.id]
        alike = [other for other in runs if len(mine & names[other.id]) >= ALIKE * len(mine | names[other.id])]
        middle = sorted(other.rows for other in alike)[len(alike) // 2]
        shared = sum(bool(printed[other.id] & printed[run.id] & COMPARED) for other in runs)
        healthy = run.id in kept and kept[run.id]["verdict"] == "healthy"
        return run.id in broken, -len(alike), 2 * run.rows < middle, not healthy, -shared

    return min(runs, key=rank).id


def _broken(runs: Sequence[Run], kept: Mapping[str, Any]) -> set[str]:
    """Return the runs (ids) of which a kept diagnosis says that they broke down."""
    return {run.id for run in runs if run.id in kept and judged(kept[run.id], max(run.segments, 1) - 1, None).said is not None}


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

    result: a metric, its mean over the last tenth of the run; or `seconds`: of a step, `total`: hours. Runs that a comparison
    would not set beside the others are left out, and said.
    """
    store = service.store
    names = {run.id: run.name for run in store.runs()}
    ids = [run for run in dict.fromkeys(runs) if run in names]
    ends = {run: tail(points[0].tolist()) for run, points in store.sparklines(ids, result).items()}
    rates = {run: float(np.fmax.reduce(points[2], initial=0.0)) for run, points in store.sparklines(ids, "lr").items()}
    reports, given = store.reports(ids), all_given(store, ids)
    rows = {run: light_conditions(reports[run].config, rates.get(run)) | given[run] for run in ids}
    forms = {run: reports[run].format for run in ids if ends.get(run) is not None}
    left = _strangers(service, forms, rows, names)
    kept = [run for run in ids if run not in {run for reason in left for run in reason.runs}]
    results = [ends.get(run) for run in kept]
    table = pd.DataFrame([rows[run] for run in kept], index=pd.Index(kept, name="run"))
    table = table.assign(**{RESULT: results, NAME: [names[run] for run in kept]})
    told = sweep([rows[run] for run in kept], results, lower_is_better=lower_is_better(result))
    counted = [run for run, value in zip(kept, results, strict=True) if value is not None]
    said = (*_without(len(kept) - len(counted)), *_down(service, counted), *_other_lengths(service, counted))
    return replace(told, left=left, notes=(*said, *told.notes)), table


def _strangers(
    service: Service, forms: Mapping[str, str | None], rows: Mapping[str, Mapping[str, Any]], names: Mapping[str, str]
) -> tuple[Reason, ...]:
    """Return which of the runs (those of `forms`, the form of each log) are not of the experiment that most are, and why.

    Few runs are looked at one by one, many by one of each kind: what wrote the log, and the conditions that bar levels.
    """
    if len(forms) < 2:
        return ()
    barring = [kind.name for kind in kinds().values() if kind.bars == "absolute"]
    by_kind: dict[tuple[str, ...], list[str]] = {}
    for run, form in forms.items():
        by_kind.setdefault((str(form), *(str(rows[run].get(name)) for name in barring)), []).append(run)
    lead = max(by_kind.values(), key=len)[0]
    groups = {run: [run] for run in forms} if len(forms) <= MOST else {group[0]: group for group in by_kind.values()}
    subjects = {one.id: one for one in subjects_of(service.store, list({lead: lead, **groups}))}
    short = dict(zip(subjects, names_of(list(subjects.values())), strict=True))
    found = strangers(subjects[lead], [subjects[run] for run in groups if run != lead], short)
    reasons = {run: found[first] for first, group in groups.items() if first in found for run in group}
    return left_out(reasons, {**names, **short})


def _without(count: int) -> tuple[Text, ...]:
    return (Text(WITHOUT, {"count": count}),) if count else ()


def _down(service: Service, runs: Sequence[str]) -> tuple[Text, ...]:
    """Say which of a few runs broke down: what they end at is no level."""
    heads = service.store.runs(runs) if len(runs) <= MOST else []
    broken = _broken(heads, service.store.diagnoses([run.id for run in heads], service.settings.profile))
    names = [Text(VERBATIM, {"key": run.name}) for run in heads if run.id in broken]
    return (Text(DOWN, {"runs": listed(names)}),) if names else ()


def _other_lengths(service: Service, runs: Sequence[str]) -> tuple[Text, ...]:
    """Say that results at the end are those of runs of other lengths, where they are."""
    ends = [run.last_step for run in service.store.runs(runs) if run.last_step]
    if len(ends) < 2 or max(ends) < LONGER * min(ends):
        return ()
    return (Text(OTHER_LENGTHS, {"least": min(ends), "most": max(ends)}),)


def lower_is_better(result: str) -> bool:
    """Say which end of a result is the good one."""
    return result not in HIGHER_IS_BETTER and not result.endswith("_per_second")


def tail(points: Sequence[float]) -> float | None:
    """Return the mean of the last tenth of a small curve, None without a finite value there."""
    last = np.asarray(points[-max(len(points) // 10, 1) :], dtype=float)
    last = last[np.isfinite(last)]
    return float(last.mean()) if len(last) else None
