"""Runs of the store side by side, and what their diagnoses say for that."""

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from analysis.compare.comparison import Comparison, compare
from analysis.compare.conditions import kinds
from analysis.compare.judged import Judged, judged
from analysis.compare.subject import ALIKE, Subject
from analysis.compare.target import target_of
from analysis.ledger import ledger
from server.costs import Wishes
from server.glance import Glance
from server.judgements import said_of
from server.service import Service
from server.subjects import light_rows, subjects_of
from storage.types import Run

JUDGED_ROWS = 100_000  # of all runs together, up to which those that are not yet judged are judged now
COMPARED = frozenset({"loss", "logits_loss", "eval_loss", "reward"})  # one of which a base must share with the others


def usual_base(service: Service, runs: Sequence[Run]) -> str:
    """Return the run (id) that the others stand beside unless a person chooses: the first of those that tell most.

    That is one that did not break down, prints much the same things as most others, has at least half the rows of the middle
    one of these (one that ended after two lines makes every difference unknown), is healthy, prints a loss that most print,
    and differs from all others in the fewest conditions: in the middle of a sweep, not at its edge.
    """
    kept = service.store.diagnoses([run.id for run in runs], service.settings.profile)
    broken = broken_of(runs, kept)
    printed: dict[str, set[str]] = {run.id: set() for run in runs}
    latest = service.store.latest(list(printed))
    for run_id, metric in zip(latest["run"].tolist(), latest["metric"].tolist(), strict=True):
        printed[run_id].add(metric)
    names = {run: {name for name in found if not name.startswith("eval_")} for run, found in printed.items()}

    apart = dict(zip(names, _conditions_apart(service, list(names)), strict=True))

    def rank(run: Run) -> tuple[bool, int, bool, bool, int, int]:
        mine = names[run.id]
        alike = [other for other in runs if len(mine & names[other.id]) >= ALIKE * len(mine | names[other.id])]
        middle = sorted(other.rows for other in alike)[len(alike) // 2]
        shared = sum(bool(printed[other.id] & printed[run.id] & COMPARED) for other in runs)
        healthy = run.id in kept and kept[run.id]["verdict"] == "healthy"
        return run.id in broken, -len(alike), 2 * run.rows < middle, not healthy, -shared, apart[run.id]

    return min(runs, key=rank).id


def _conditions_apart(service: Service, runs: Sequence[str]) -> list[int]:
    """Return of each run in how many conditions of the table it differs from the others, all together."""
    if len(runs) < 3:
        return [0] * len(runs)
    rows, _reports = light_rows(service.store, runs)
    differ = np.zeros(len(runs), dtype=int)
    for name in kinds():
        words = np.array([str(rows[run].get(name)) for run in runs])
        stated = words != "None"
        differ += ((words[:, None] != words) & stated[:, None] & stated).sum(axis=1)
    return [int(count) for count in differ]


def judged_heads(service: Service, runs: Sequence[str]) -> list[Run]:
    """Return runs (ids), after those that nobody has judged yet were, where they are of few rows and nobody else will."""
    heads = {run.id: run for run in service.store.runs(runs)}
    versions = service.store.judged(service.settings.profile, heads)
    if service.monitor is None and sum(head.rows for head in heads.values()) <= JUDGED_ROWS:
        for run in [run for run, head in heads.items() if versions.get(run) != head.version]:
            service.diagnosis(run)
    return [heads[run] for run in runs]


def broken_of(runs: Sequence[Run], kept: Mapping[str, Any]) -> set[str]:
    """Return the runs (ids) of which a kept diagnosis says that they broke down."""
    return {run for run, one in said_of(runs, kept).items() if one.said is not None}


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
