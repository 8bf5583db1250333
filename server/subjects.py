"""Runs of the store as comparisons see them, made once a version, and the conditions that people add to them.

A run is read as 500 buckets a metric, whatever its length, so twenty long runs are compared as quickly as short ones.
"""

import threading
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence, Set
from typing import Any

import numpy as np
import pandas as pd

from analysis.compare.conditions import kinds, light_conditions
from analysis.compare.subject import EPOCH, LINE, METRICS, STEP, WIDTH, Subject, subject
from analysis.losses import LOSSES
from storage.reading import formats
from storage.store import Store
from storage.types import ParseReport, Run

CONDITIONS = "conditions"  # kind of the documents with what people add to a run
REMEMBERED = 512  # subjects, of all sessions together
CLOCK_WIDTH = 400
NUMBERED_ROWS = 50  # rows that tell whether a log prints its steps
LEAST_EPOCHS = 4  # different ones that make an axis


class _Memory:
    """The latest answers by key."""

    def __init__(self) -> None:
        self._kept: OrderedDict[Any, Any] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, keys: Sequence[Any], make: Callable[[Sequence[Any]], Sequence[Any]]) -> list[Any]:
        """Return the answers to keys; those that are not remembered are made now, all at once and in that order."""
        with self._lock:
            found = {key: self._kept[key] for key in keys if key in self._kept}
        missing = [key for key in dict.fromkeys(keys) if key not in found]
        found |= zip(missing, make(missing), strict=True) if missing else ()
        with self._lock:
            for key in keys:
                self._kept[key] = found[key]
                self._kept.move_to_end(key)
            while len(self._kept) > REMEMBERED:
                self._kept.popitem(last=False)
        return [found[key] for key in keys]


_memory = _Memory()


def subjects_of(store: Store, runs: Sequence[str], *, growing: Set[str] = frozenset()) -> list[Subject]:
    """Return runs as comparisons see them, in that order. Raises UnknownRun."""
    listed = {run.id: run for run in store.runs(dict.fromkeys(runs))}
    heads = [listed.get(run) or store.run(run) for run in runs]
    given = all_given(store, runs)

    def key(head: Run) -> tuple[Any, ...]:
        told = repr(sorted(given[head.id].items()))
        return str(store.data_dir), head.id, head.version, head.name, told, head.id in growing

    by_key = {key(head): head for head in heads}

    def made(missing: Sequence[Any]) -> list[Subject]:
        return _subjects(store, [by_key[one] for one in missing], given, growing)

    return _memory.get([key(head) for head in heads], made)


def light_rows(store: Store, runs: Sequence[str]) -> tuple[dict[str, dict[str, Any]], dict[str, ParseReport]]:
    """Return of each of many runs its settings, those of the table of conditions under its names, and what its log reports."""
    rates = {run: float(np.fmax.reduce(points[2], initial=0.0)) for run, points in store.sparklines(runs, "lr").items()}
    reports, given = store.reports(runs), all_given(store, runs)
    return {run: light_conditions(reports[run].config, rates.get(run)) | given[run] for run in runs}, reports


def subject_of(store: Store, run_id: str) -> Subject:
    """Return one run as comparisons see it. Raises UnknownRun."""
    return subjects_of(store, [run_id])[0]


def _subjects(store: Store, runs: Sequence[Run], given: Mapping[str, Mapping[str, Any]], growing: Set[str]) -> list[Subject]:
    """Return runs as comparisons see them; what the store is asked for it is asked for all of them together."""
    reports = store.reports([run.id for run in runs])
    read = _buckets(store, runs)
    found = []
    for run in runs:
        report, (unit, buckets) = reports[run.id], read[run.id]
        buckets = _kinds_apart(store, run, unit, buckets) if report.eval_records else buckets
        known: dict[str, Any] = {
            "given": given[run.id],
            "launches": max(run.segments, 1),
            "rows": run.rows,
            "growing": run.id in growing,
        }
        known |= {"unit": unit, "program": formats.program_of(report.format), "form": report.format or ""}
        known["total_steps"] = run.total_steps
        found.append(subject(run.id, run.name, report.config, buckets, clock=_clock(store, run, buckets), **known))
    return found


def _numbered(store: Store, runs: Sequence[Run]) -> set[str]:
    """Return the runs whose steps are only the count of their rows, as the first rows tell: their logs print none."""
    found = {run.id for run in runs if run.last_step is None or run.first_step is None}
    early = [run.id for run in runs if run.id not in found and (run.first_step or 0) <= 1]
    return found | {run for run, share in store.printed_steps(early, NUMBERED_ROWS).items() if share < 0.5}


def _buckets(store: Store, runs: Sequence[Run]) -> dict[str, tuple[str, pd.DataFrame]]:
    """Return by run what its x counts, and its buckets: over steps, else over printed epochs, else over lines.

    A log that prints no step, or not everywhere, only counts its rows: that is no axis to compare on.
    """
    numbered = _numbered(store, runs)
    found = {}
    for unit in (STEP, EPOCH, LINE):
        left = [run.id for run in runs if run.id not in found and (unit == STEP) == (run.id not in numbered)]
        for run, buckets in (store.buckets_many(left, METRICS, x=unit, width=WIDTH) if left else {}).items():
            if unit != EPOCH or buckets["x"].nunique() >= LEAST_EPOCHS:
                found[run] = (unit, buckets)
    return found


def _kinds_apart(store: Store, run: Run, unit: str, buckets: pd.DataFrame) -> pd.DataFrame:
    """Return the buckets with the losses that evaluation rows print under the name of the training loss told apart."""
    names = [name for name in LOSSES[:2] if (buckets["metric"] == name).any()]
    found = {kind: store.buckets(run.id, names, x=unit, width=WIDTH, kind=kind) for kind in ("train", "eval")}
    both = set(found["eval"]["metric"])
    if not both:
        return buckets
    train = found["train"][found["train"]["metric"].isin(both)]
    parts = [buckets[~buckets["metric"].isin(both)], train]
    if not (buckets["metric"] == "eval_loss").any():
        first = next(name for name in names if name in both)
        parts.append(found["eval"][found["eval"]["metric"] == first].assign(metric="eval_loss"))
    return pd.concat([part for part in parts if len(part)], ignore_index=True)


def _clock(store: Store, run: Run, buckets: pd.DataFrame) -> tuple[np.ndarray, np.ndarray] | None:
    """Return (steps, seconds since the start) from the clock that the log prints, None where it prints none."""
    names = buckets["metric"].to_numpy(dtype=object)
    printed = np.flatnonzero(names == "elapsed_seconds")
    if len(printed):
        return _running(*(buckets[name].to_numpy(dtype=float)[printed] for name in ("x_last", "last")))
    metrics = [name for name in ("loss", "logits_loss", "lr") if (names == name).any()][:1]
    stamped = store.buckets(run.id, metrics, x="elapsed_seconds", width=CLOCK_WIDTH)
    if run.last_step is None or not len(stamped):
        return None
    return _running(stamped["min_step"].to_numpy(dtype=float, na_value=np.nan), stamped["x"].to_numpy(dtype=float))


def _running(steps: np.ndarray, seconds: np.ndarray) -> tuple[np.ndarray, np.ndarray] | None:
    """Return a clock that never runs back: what a later launch starts anew goes on where the one before ended."""
    keep = np.isfinite(steps) & np.isfinite(seconds)
    steps, seconds = steps[keep], seconds[keep]
    if len(steps) < 2:
        return None
    passed = np.diff(seconds, prepend=0.0)
    seconds = np.cumsum(np.where(passed >= 0, passed, np.maximum(seconds, 0.0)))
    order = np.argsort(steps, kind="stable")
    steps, seconds = steps[order], np.maximum.accumulate(seconds[order])
    last = np.r_[np.diff(steps) > 0, True]
    return (steps[last], seconds[last]) if last.sum() >= 2 else None


def given_conditions(store: Store, run_id: str) -> dict[str, Any]:
    """Return the conditions that people added to a run, by name of the table or of their own."""
    return all_given(store, [run_id])[run_id]


def all_given(store: Store, runs: Sequence[str]) -> dict[str, dict[str, Any]]:
    """Return the same of several runs, by their id."""
    given: dict[str, dict[str, Any]] = {run: {} for run in runs}
    for kept in store.kept(CONDITIONS):
        given.get(kept.run, {}).update(kept.data)
    return given


def set_condition(store: Store, run_id: str, name: str, value: str, *, who: str = "") -> None:
    """Set a condition of a run by hand; an empty value takes it away. Raises UnknownRun, ValueError for a name too long."""
    name, value = name.strip(), value.strip()
    if not name or len(name) > 80 or len(value) > 300:
        raise ValueError("A condition has a name of 1 to 80 characters and a value of up to 300.")
    given = given_conditions(store, run_id)
    number = next((kind.name for kind in kinds().values() if name.lower() == kind.name), name)
    given = {**given, number: value} if value else {key: kept for key, kept in given.items() if key != number}
    store.keep(CONDITIONS, "given", given, run=run_id, who=who)
