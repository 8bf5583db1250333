"""A run as a comparison sees it: its configuration and its curves as at most a thousand points, launches stitched together.

A subject is made of buckets, so a run of a million steps is as quick to compare as one of ten; a run with fewer rows than
buckets is seen row by row.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd

from analysis.epoch_time import epoch_time
from analysis.losses import loss_kind
from analysis.machine import hardware
from analysis.schedule import Schedule, schedule
from analysis.segment import Segment
from analysis.step_time import step_time
from messages import Text

STEP, EPOCH, LINE = "step", "epoch", "line"
WIDTH = 500  # buckets of a metric that a subject is made of; a store reads them from its coarsest aggregates
# What a comparison reads of a run; a metric that the log does not print costs nothing.
METRICS = (
    "loss", "logits_loss", "aux_loss", "eval_loss", "perplexity", "reward", "lr", "grad_norm", "epochs", "steps_per_epoch",
    "total_steps", "epoch_time_minutes", "step_time_seconds", "elapsed_seconds", "tokens_per_second", "samples_per_second",
    "steps_per_second", "tokens_seen", "samples_seen", "batch_size", "memory_bytes", "memory_peak_bytes", "mfu_percent",
    "policy_loss", "kl", "rewards/chosen", "rewards/rejected",
)  # fmt: skip
ALIKE = 0.5  # share of what two logs print that both do, from which on one program may have written both
HIDDEN_FALL = 0.02  # of a rate, before the first line of a log
Part = dict[str, np.ndarray]  # of the buckets of one metric (n,): x, x_last, mean, last, count, nonfinite
HIGHER_IS_BETTER = frozenset({"reward"})
# Counters and clocks are read where a bucket ends; everything else is its mean.
AT_THE_END = frozenset(
    {"elapsed_seconds", "tokens_seen", "samples_seen", "epochs", "steps_per_epoch", "total_steps", "epoch_time_minutes", "lr"}
)


@dataclass(frozen=True, eq=False)
class Curve:
    """A metric over the steps of a run: `step` (n,) in growing order, `value` (n,) finite, `count` (n,) values behind each."""

    step: np.ndarray
    value: np.ndarray
    count: np.ndarray

    def __len__(self) -> int:
        return len(self.step)


@dataclass(frozen=True, eq=False)
class Subject:
    """A run to compare.

    id, name: as the store has them. config: flat, keys as printed. segment: the stitched run as one launch, a row a bucket,
    its step where the bucket ends. curves: by metric. bad: by metric the first step with a value that is not finite.
    clock: (step (n,), seconds since the start (n,)) or None. given: conditions that a person added. launches: of the log.
    rows: of the log. growing: more may come. unit: what `step` counts: steps, or where the log has none epochs or lines.
    program: what wrote the log, "" where its form does not tell; form: that form, "" where it is not known.
    """

    id: str
    name: str
    config: Mapping[str, Any]
    segment: Segment
    curves: Mapping[str, Curve]
    bad: Mapping[str, int] = field(default_factory=dict)
    clock: tuple[np.ndarray, np.ndarray] | None = None
    given: Mapping[str, Any] = field(default_factory=dict)
    launches: int = 1
    rows: int = 0
    growing: bool = False
    unit: str = STEP
    program: str = ""
    form: str = ""

    @cached_property
    def main(self) -> str | None:
        """The loss to compare: that of the training, else that of its evaluations; None without one."""
        return loss_kind(self.segment).main or ("eval_loss" if "eval_loss" in self.curves else None)

    @cached_property
    def no_level(self) -> Text | None:
        """Why the level of the loss says nothing (preferences, rewards), None where it does."""
        return loss_kind(self.segment).problem

    @cached_property
    def schedule(self) -> Schedule | None:
        """The schedule that the learning rates show."""
        return schedule(self.segment)

    @cached_property
    def peak_lr(self) -> float | None:
        """The highest learning rate seen, None without one, while it may still rise, or where it was before the first line."""
        known = self.schedule
        curve = self.curves.get("lr")
        if curve is None or (known is not None and known.shape == "warmup") or _fell_before(curve):
            return None
        return float(curve.value.max()) or None

    @cached_property
    def gpus(self) -> int | None:
        """The number of GPUs, as a person says or the log prints it."""
        given = self.given.get("gpus")
        return int(given) if isinstance(given, int | float) and given > 0 else hardware([self.segment]).gpus

    @cached_property
    def step_seconds(self) -> tuple[float, float, float] | None:
        """Seconds a step (low, middle, high): the quarter points of its rows, or what a printed epoch_time allows."""
        if self.unit != STEP:
            return None
        known = step_time(self.segment)
        if known is not None and known.exact and len(known.series) >= 3:
            low, middle, high = (float(value) for value in np.percentile(known.series.values, [25, 50, 75]))
            return low, middle, high
        epoch = epoch_time(self.segment)
        if epoch is not None and epoch.step_minutes is not None:
            low, middle, high = (60 * minutes for minutes in epoch.step_minutes)
            others = epoch.other_minutes or (np.inf, -np.inf)  # while the meaning is only assumed
            return min(low, 60 * others[0]), middle, max(high, 60 * others[1])
        if known is not None and known.exact and len(known.series):
            return (float(np.median(known.series.values)),) * 3
        return None

    def last(self, metric: str) -> float | None:
        """Return the last value of a metric, None where it was never printed."""
        curve = self.curves.get(metric)
        return float(curve.value[-1]) if curve is not None and len(curve) else None

    def seconds(self, steps: np.ndarray) -> np.ndarray | None:
        """Return the seconds since the start at steps (n,), None where the log tells no time."""
        if self.clock is not None and len(self.clock[0]) >= 2:
            return np.asarray(np.interp(steps, *self.clock))
        return None if self.step_seconds is None else steps * self.step_seconds[1]


def subject(
    run: str,
    name: str,
    config: Mapping[str, Any],
    buckets: pd.DataFrame,
    *,
    clock: tuple[np.ndarray, np.ndarray] | None = None,
    total_steps: int | None = None,
    **known: Any,
) -> Subject:
    """Return the subject of a run.

    buckets: long, `metric, segment, x, x_last, mean, last, count, nonfinite` with x in steps; `known`: further fields.
    """
    parts, curves, bad = _parts(stitched(buckets)), {}, {}
    for metric, part in parts.items():
        broken = part["nonfinite"] > 0
        if broken.any():
            bad[metric] = int(part["x"][broken][0])
        curve = curve_of(metric, part)
        if len(curve):
            curves[metric] = curve
    return Subject(run, name, config, _segment(parts, config, total_steps), curves, bad, clock, **known)


def _parts(buckets: pd.DataFrame) -> dict[str, Part]:
    """Return the buckets of each metric as arrays, in the order of their ends: a table a metric would take far longer."""
    columns = {name: buckets[name].to_numpy(dtype=float) for name in ("x", "x_last", "mean", "last", "count", "nonfinite")}
    codes, metrics = pd.factorize(buckets["metric"].to_numpy(dtype=object))
    found = {}
    for code, metric in enumerate(metrics):
        here = np.flatnonzero(codes == code)
        if np.any(np.diff(columns["x_last"][here]) < 0):
            here = here[np.argsort(columns["x_last"][here], kind="stable")]
        found[str(metric)] = {name: array[here] for name, array in columns.items()}
    return found


def stitched(buckets: pd.DataFrame) -> pd.DataFrame:
    """Return the buckets of the run as it counts: what a later launch did again replaces what an earlier one did.

    A launch that starts afresh begins another chain; of several the longest is kept.
    """
    if not len(buckets) or buckets["segment"].nunique() == 1:
        return buckets
    ends = buckets.groupby("segment", sort=True).agg(first=("x", "min"), last=("x_last", "max"))
    chains: list[list[int]] = []
    reached = -np.inf
    for number, first, last in ends.itertuples():
        if not chains or first < 0.5 * reached:
            chains.append([])
        chains[-1].append(int(number))
        reached = last
    best = max(chains, key=lambda chain: (ends["last"][chain].max() - ends["first"][chain[0]], chain[0]))
    parts = []
    for position, number in enumerate(best):
        later = ends["first"][best[position + 1 :]].min() if position + 1 < len(best) else np.inf
        mine = buckets[buckets["segment"] == number]
        parts.append(mine[mine["x"] < later])
    return pd.concat(parts, ignore_index=True)


def curve_of(metric: str, part: Part) -> Curve:
    """Return the stitched buckets of one metric as its curve."""
    at_end = metric in AT_THE_END
    value, step = part["last" if at_end else "mean"], part["x_last"]
    step = step if at_end else (part["x"] + step) / 2
    keep = np.isfinite(value) & np.isfinite(step)
    step, value, count = step[keep], value[keep], part["count"][keep]
    order = np.argsort(step, kind="stable")
    last = np.r_[np.diff(step[order]) > 0, True] if len(order) else np.zeros(0, dtype=bool)  # of a step done twice the later
    order = order[last]
    return Curve(step[order], value[order], count[order])


def _segment(parts: Mapping[str, Part], config: Mapping[str, Any], total_steps: int | None) -> Segment:
    """Return the stitched run as one launch: a row where a bucket ends, for the functions that judge launches."""
    values = {metric: part["last" if metric in AT_THE_END else "mean"] for metric, part in parts.items()}
    columns = _side_by_side(values, {metric: part["x_last"] for metric, part in parts.items()})
    absent = {name: gaps for name, array in columns.items() if (gaps := np.isnan(array)).any()}
    return Segment(0, pd.DataFrame(columns), absent, config=dict(config), total_steps=total_steps or _plan(parts))


def _side_by_side(values: Mapping[str, np.ndarray], ends: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Return `step`, where buckets end, and the metrics there (n,), NaN where one has none; only where there is a step."""
    first = next(iter(ends.values()), np.zeros(0))
    if np.all(np.diff(first) > 0) and all(np.array_equal(first, other) for other in ends.values()):
        columns = {"step": first, **values}
    else:
        each = {metric: pd.Series(values[metric], index=ends[metric]) for metric in values}
        frame = pd.DataFrame({metric: one[~one.index.duplicated(keep="last")] for metric, one in each.items()}).sort_index()
        columns = {"step": frame.index.to_numpy(dtype=float), **{name: frame[name].to_numpy() for name in frame}}
    known = np.isfinite(columns["step"])
    return columns if known.all() else {name: array[known] for name, array in columns.items()}


def _fell_before(curve: Curve) -> bool:
    """Say whether a rate falls from its first line on, so that at step 0 it would have been higher by more than HIDDEN_FALL."""
    if len(curve) < 2 or int(np.argmax(curve.value)):
        return False
    slope = (curve.value[0] - curve.value[1]) / (curve.step[1] - curve.step[0])
    return bool(slope * curve.step[0] > HIDDEN_FALL * curve.value[0])


def _plan(parts: Mapping[str, Part]) -> int | None:
    last = {name: float(part["last"][-1]) for name, part in parts.items() if name in AT_THE_END and len(part["last"])}
    total = last.get("total_steps") or last.get("epochs", np.nan) * last.get("steps_per_epoch", np.nan)
    return int(total) if np.isfinite(total) and 0 < total < 2**53 else None


def one_program(one: Subject, other: Subject) -> bool:
    """Say whether one program may have written both logs: of programs that no form names, if they print the same things."""
    if one.program or other.program or not one.form or not other.form:
        return one.program == other.program
    names = [{name for name in run.curves if not name.startswith("eval_")} for run in (one, other)]
    return one.form == other.form and len(names[0] & names[1]) >= ALIKE * len(names[0] | names[1])


def by_program(subjects: Sequence[Subject]) -> list[list[int]]:
    """Return the runs (positions) by the program that wrote their logs, in order."""
    found: list[list[int]] = []
    for n, one in enumerate(subjects):
        home = next((group for group in found if one_program(subjects[group[0]], one)), None)
        found.append([n]) if home is None else home.append(n)
    return found
