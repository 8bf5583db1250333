"""Many runs of the store together: which setting goes with a result."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd

from analysis.compare.comparison import LEAST_LEVEL, MOST
from analysis.compare.conditions import kinds
from analysis.compare.difference import WINDOW
from analysis.compare.fairness import STEP, Reason
from analysis.compare.names import names_of
from analysis.compare.one_experiment import OUT, few_named, left_out, other_steps, strangers
from analysis.compare.subject import HIGHER_IS_BETTER
from analysis.compare.sweep import Sweep, sweep
from messages import N_, Text
from server.compare import broken_of
from server.service import Service
from server.subjects import light_rows, subjects_of

LONGER = 1.2  # last step of one run over that of another, from which on their ends are not alike
OTHER_LENGTHS = N_(
    "the result is that at the end of each run, after {least:,} to {most:,} steps: longer runs may be ahead for that alone"
)
WITHOUT = N_("runs that have no such result and are not counted: {count:,}")
TOO_SHORT = N_("have fewer than {least} values of the result, which is no end, and are not counted: {runs}")
DOWN = N_("broke down, and counted with the result at their end all the same: {runs}")
RESULT, NAME, BROKE = "_result", "_name", "_broke"  # columns of a sweep's table beside the settings


def sweep_of(service: Service, runs: Sequence[str], *, result: str = "loss") -> tuple[Sweep, pd.DataFrame]:
    """Return which settings go with a result among many runs, and the table behind it: a row a run, its settings, RESULT,
    NAME, and BROKE, whether it broke down.

    result: a metric; of each run its level at the end. Runs that a comparison would not set beside the others, or that have
    too few values for a level, are left out, and said; those whose steps are other steps are counted, and said too.
    """
    store = service.store
    heads = {run.id: run for run in store.runs(dict.fromkeys(runs))}
    ids = [run for run in dict.fromkeys(runs) if run in heads]
    names = {run: heads[run].name for run in ids}
    curves = {run: points[0] for run, points in store.sparklines(ids, result).items()}
    ends = {run: end_of(points) for run, points in curves.items()}
    rows, reports = light_rows(store, ids)
    short = [run for run in ids if run in curves and ends[run] is None and np.isfinite(curves[run]).any()]
    forms = {run: reports[run].format for run in ids if ends.get(run) is not None}
    found, called = _strangers(service, forms, rows, names)
    out = {run: why for run, why in found.items() if why.level in OUT}
    kept = [run for run in ids if run not in out]
    results = [ends.get(run) for run in kept]
    table = pd.DataFrame([rows[run] for run in kept], index=pd.Index(kept, name="run"))
    down = broken_of([heads[run] for run in kept], store.diagnoses(kept, service.settings.profile, critical=True))
    table = table.assign(**{RESULT: results, NAME: [names[run] for run in kept], BROKE: [run in down for run in kept]})
    told = sweep([rows[run] for run in kept], results, lower_is_better=lower_is_better(result))
    counted = [run for run, value in zip(kept, results, strict=True) if value is not None]
    unequal = other_steps({run: why for run, why in found.items() if run not in out}, called)
    said = (*unequal, *_without(len(kept) - len(counted) - len(short)))
    said += _about(TOO_SHORT, short, names, least=LEAST_LEVEL) + _about(DOWN, [run for run in counted if run in down], names)
    said += _other_lengths([heads[run].last_step for run in counted])
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


def _about(template: str, runs: Sequence[str], names: Mapping[str, str], **gaps: int) -> tuple[Text, ...]:
    """Say something of runs, the first of which are named; nothing without any."""
    return (Text(template, {"runs": few_named(runs, names), **gaps}),) if runs else ()


def _other_lengths(last_steps: Sequence[int | None]) -> tuple[Text, ...]:
    """Say that results at the end are those of runs of other lengths, where they are."""
    ends = [step for step in last_steps if step]
    if len(ends) < 2 or max(ends) < LONGER * min(ends):
        return ()
    return (Text(OTHER_LENGTHS, {"least": min(ends), "most": max(ends)}),)


def lower_is_better(result: str) -> bool:
    """Say which end of a result is the good one."""
    return result not in HIGHER_IS_BETTER and not result.endswith("_per_second")


def end_of(points: np.ndarray) -> float | None:
    """Return the level at the end of a small curve (n,), the mean of its last fifth.

    None with fewer than LEAST_LEVEL points, of which none is an end, and without a finite value there.
    """
    if len(points) < LEAST_LEVEL:
        return None
    last = points[-max(round(WINDOW * len(points)), 1) :].astype(float)
    last = last[np.isfinite(last)]
    return float(last.mean()) if len(last) else None
