"""Many runs of the store together: which setting goes with a result."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd

from analysis.compare.comparison import MOST
from analysis.compare.conditions import kinds, light_conditions
from analysis.compare.fairness import STEP, Reason
from analysis.compare.names import names_of
from analysis.compare.one_experiment import OUT, left_out, other_steps, strangers
from analysis.compare.subject import HIGHER_IS_BETTER
from analysis.compare.sweep import Sweep, sweep
from messages import N_, Text, listed, verbatim
from server.compare import broken_of
from server.service import Service
from server.subjects import all_given, subjects_of

LONGER = 1.2  # last step of one run over that of another, from which on their ends are not alike
OTHER_LENGTHS = N_(
    "the result is that at the end of each run, after {least:,} to {most:,} steps: longer runs may be ahead for that alone"
)
WITHOUT = N_("runs that have no such result and are not counted: {count:,}")
DOWN = N_("broke down, and counted with the result at their end all the same: {runs}")
RESULT, NAME = "_result", "_name"  # columns of a sweep's table beside the settings


def sweep_of(service: Service, runs: Sequence[str], *, result: str = "loss") -> tuple[Sweep, pd.DataFrame]:
    """Return which settings go with a result among many runs, and the table behind it: a row a run, its settings, `result`.

    result: a metric, its mean over the last tenth of the run; or `seconds`: of a step, `total`: hours. Runs that a comparison
    would not set beside the others are left out, and said; those whose steps are other steps are counted, and said too.
    """
    store = service.store
    names = {run.id: run.name for run in store.runs()}
    ids = [run for run in dict.fromkeys(runs) if run in names]
    ends = {run: tail(points[0].tolist()) for run, points in store.sparklines(ids, result).items()}
    rates = {run: float(np.fmax.reduce(points[2], initial=0.0)) for run, points in store.sparklines(ids, "lr").items()}
    reports, given = store.reports(ids), all_given(store, ids)
    rows = {run: light_conditions(reports[run].config, rates.get(run)) | given[run] for run in ids}
    forms = {run: reports[run].format for run in ids if ends.get(run) is not None}
    found, called = _strangers(service, forms, rows, names)
    out = {run: why for run, why in found.items() if why.level in OUT}
    kept = [run for run in ids if run not in out]
    results = [ends.get(run) for run in kept]
    table = pd.DataFrame([rows[run] for run in kept], index=pd.Index(kept, name="run"))
    table = table.assign(**{RESULT: results, NAME: [names[run] for run in kept]})
    told = sweep([rows[run] for run in kept], results, lower_is_better=lower_is_better(result))
    counted = [run for run, value in zip(kept, results, strict=True) if value is not None]
    unequal = other_steps({run: why for run, why in found.items() if run not in out}, called)
    said = (*unequal, *_without(len(kept) - len(counted)), *_down(service, counted), *_other_lengths(service, counted))
    return replace(told, left=left_out(out, called), notes=(*said, *told.notes)), table


def _strangers(
    service: Service, forms: Mapping[str, str | None], rows: Mapping[str, Mapping[str, Any]], names: Mapping[str, str]
) -> tuple[dict[str, Reason], dict[str, str]]:
    """Return which of the runs (those of `forms`, the form of each log) are not of the experiment that most are, and why;
    and what all runs are called in sentences.

    Few runs are looked at one by one, many by one of each kind: what wrote the log, and the conditions that bar levels.
    Of many, the batch is one setting among others.
    """
    if len(forms) < 2:
        return {}, dict(names)
    barring = [kind.name for kind in kinds().values() if kind.bars == "absolute"]
    by_kind: dict[tuple[str, ...], list[str]] = {}
    for run, form in forms.items():
        by_kind.setdefault((str(form), *(str(rows[run].get(name)) for name in barring)), []).append(run)
    lead = max(by_kind.values(), key=len)[0]
    few = len(forms) <= MOST
    groups = {run: [run] for run in forms} if few else {group[0]: group for group in by_kind.values()}
    subjects = {one.id: one for one in subjects_of(service.store, list({lead: lead, **groups}))}
    short = dict(zip(subjects, names_of(list(subjects.values())), strict=True))
    others = [subjects[run] for run in groups if run != lead]
    found = strangers(subjects[lead], others, short, levels=(*OUT, STEP) if few else OUT)
    reasons = {run: found[first] for first, group in groups.items() if first in found for run in group}
    return reasons, {**names, **short}


def _without(count: int) -> tuple[Text, ...]:
    return (Text(WITHOUT, {"count": count}),) if count else ()


def _down(service: Service, runs: Sequence[str]) -> tuple[Text, ...]:
    """Say which of a few runs broke down: what they end at is no level."""
    heads = service.store.runs(runs) if len(runs) <= MOST else []
    broken = broken_of(heads, service.store.diagnoses([run.id for run in heads], service.settings.profile))
    names = [verbatim(run.name) for run in heads if run.id in broken]
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
