"""A segment: the rows of one launch of a training run, as every rule sees them, and how a table is cut into them."""

from bisect import bisect
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

T = TypeVar("T")
NOT_METRICS = ("line", "kind", "segment", "step", "step_printed", "epoch", "timestamp", "rank")
HARDWARE = frozenset(
    {
        *("memory_bytes", "memory_total_bytes", "memory_peak_bytes", "gpu_utilization_percent", "gpu_temperature_celsius"),
        *("gpu_power_watts", "data_time_seconds"),
    }
)
EVENT_COLUMNS = ("line", "step", "kind", "text", "data")
# Made once: to make an empty table takes a millisecond, and a comparison of twenty runs has eighty of them.
_NOTHING = pd.DataFrame()
_NO_EVENTS = pd.DataFrame(columns=list(EVENT_COLUMNS)).astype({"step": "Int64"})
UNMEASURED = ("grad_norm",)  # printed as zero in every row by programs that do not compute it
MOVED, MOVED_ROWS = 0.25, 10  # by which share the loss must have moved, between the medians of so many rows, to prove that
AHEAD = frozenset({"resume", "checkpoint_loaded", "launch", "dataset_change"})  # said before the first row of a launch


@dataclass(frozen=True, eq=False)
class Segment:
    """One launch within a log, in the order it was logged.

    rows: one row a logged training step, canonical column names (`step` global, `line`, `loss`, `lr`, `grad_norm`, …),
        index 0…n-1, float64 metrics. pandas cannot tell "not printed" from "printed NaN", so `absent` does.
    absent: for each column with gaps, a bool array (n,), True where the line did not print that metric.
    evals: the evaluation rows (`step`, `line`, `eval_loss`, …); may be empty; evals_absent: their gaps, as `absent`.
    events: what the text said (`line`, `step`, `kind`, `text`, and `data`: more that the line tells); may be empty.
    config: flat configuration printed in the log, keys as printed.
    total_steps: the planned number of steps in `step` units, None where the log does not say.
    telemetry: rows that measure the machine beside the training (`step`, `line`, `memory_bytes`, `gpu_utilization_percent`,
        …); may be empty. ranks: rows of every process where several print (`step`, `line`, `rank`, losses); else empty.
    unmeasured: columns that are zero in every row although the loss moves: nobody computes them, and `rows` has them not.
    steps_printed: False where the log prints no steps and `step` only counts its rows.
    silent_seconds: for a run that is being watched, how long ago its last line came; None where nobody watches.
    """

    number: int
    rows: pd.DataFrame
    absent: Mapping[str, np.ndarray] = field(default_factory=dict)
    evals: pd.DataFrame = field(default_factory=lambda: _NOTHING)
    events: pd.DataFrame = field(default_factory=lambda: _NO_EVENTS)
    config: Mapping[str, Any] = field(default_factory=dict)
    total_steps: int | None = None
    evals_absent: Mapping[str, np.ndarray] = field(default_factory=dict)
    telemetry: pd.DataFrame = field(default_factory=lambda: _NOTHING)
    ranks: pd.DataFrame = field(default_factory=lambda: _NOTHING)
    silent_seconds: float | None = None
    unmeasured: frozenset[str] = frozenset()
    steps_printed: bool = True
    _known: dict[Any, Any] = field(default_factory=dict, init=False, repr=False)

    def __len__(self) -> int:
        return len(self.rows)

    def has(self, *columns: str) -> bool:
        """Say whether every column is there (a column in which nothing was ever printed is not kept in `rows`)."""
        return all(name in self.rows.columns for name in columns)

    def logs(self, column: str) -> bool:
        """Say whether a column is there: in the training rows, for hardware as telemetry too, `rank` for several processes,
        `eval_loss` in the evaluations under any name that they have for a loss."""
        if column == "rank":
            return "rank" in self.ranks
        if column == "eval_loss" and ("eval_loss" in self.evals or "loss" in self.evals):
            return True
        return self.has(column) or (column in HARDWARE and column in self.telemetry)

    @property
    def unit(self) -> str:
        """Return what the log numbers, for sentences: `step`, else `epoch` where each row is one, else `row`."""
        return "step" if self.steps_printed and (self.has("step") or not len(self)) else self.once("unit", self._unit)

    def _unit(self) -> str:
        epoch = self.values("epoch")
        whole = len(epoch) > 0 and bool(np.all(np.abs(epoch) < 2**31) and np.all(epoch == np.floor(epoch)))
        return "epoch" if whole and np.all(np.diff(epoch) > 0) else "row"

    def values(self, column: str) -> np.ndarray:
        """Return a column of the training rows as a float array (n,), NaN where it was not printed or printed as NaN."""
        if not self.has(column):
            return np.full(len(self), np.nan)
        return self.rows[column].to_numpy(dtype=np.float64, copy=False)

    def printed(self, column: str) -> np.ndarray:
        """Return a bool array (n,): True where the line printed that metric, whatever its value."""
        if not self.has(column):
            return np.zeros(len(self), dtype=bool)
        gaps = self.absent.get(column)
        return np.ones(len(self), dtype=bool) if gaps is None else ~gaps

    def step(self, row: int) -> int | None:
        """Return the global step of a row, None where the log gives none."""
        return self._whole("step", row)

    def line(self, row: int) -> int | None:
        """Return the 1-based line of the log that holds a row, None where the source has no lines."""
        return self._whole("line", row)

    def steps(self) -> np.ndarray:
        """Return the global steps as floats (n,); the row number from 1 where the log gives no step at all."""
        return self.values("step") if self.has("step") else np.arange(1.0, len(self) + 1)

    def progress(self, row: int) -> float | None:
        """Return the share 0…1 of the plan that is done at a row, None where plan or step is unknown."""
        step = self.step(row)
        return None if step is None or not self.total_steps else step / self.total_steps

    def once(self, key: Any, compute: Callable[[], T]) -> T:
        """Return what `compute` gives, worked out once a segment: the rules share their statistics this way."""
        if key not in self._known:
            self._known[key] = compute()
        known: T = self._known[key]
        return known

    def head(self, count: int) -> "Segment":
        """Return the segment as it looked when only the first `count` rows were logged (tests, replays)."""
        last = self.line(count - 1) if count else 0
        return Segment(
            self.number,
            self.rows.iloc[:count],
            {name: gaps[:count] for name, gaps in self.absent.items()},
            _until(self.evals, last),
            _until(self.events, last),
            self.config,
            self.total_steps,
            {name: gaps[: len(_until(self.evals, last))] for name, gaps in self.evals_absent.items()},
            _until(self.telemetry, last),
            _until(self.ranks, last),
            unmeasured=self.unmeasured,
            steps_printed=self.steps_printed,
        )

    def _whole(self, column: str, row: int) -> int | None:
        if not self.has(column):
            return None
        value = self.rows[column].to_numpy()[row]
        return None if pd.isna(value) else int(value)


def split_segments(
    rows: pa.Table,
    *,
    events: Iterable[Mapping[str, Any]] = (),
    config: Mapping[str, Any] | None = None,
    total_steps: int | None = None,
) -> list[Segment]:
    """Cut the rows of a run into one Segment a launch, in the order of their numbers.

    rows: any mix of kinds in log order, columns of the row schema (missing ones are taken as null; without `kind` all
        rows train, without `segment` all belong to launch 0) and float64 metrics; null = not printed.
    events: what the text said, each with `line`, `kind`, `text`, `step`, `segment` and `data`. Where its line says so, an
        event belongs to the launch whose rows came before it, or, if it is said ahead of a launch (a resume), to the next.
    total_steps: the plan where the rows do not carry it (`total_steps`, or `epochs` times `steps_per_epoch`).
    A launch that left only events is a Segment without rows. Columns without gaps are not copied.
    Where several ranks print, the rows of the lowest rank stand for the run.
    """
    rows = rows.combine_chunks()
    parts = _parts(rows)
    said = _events_by_segment(events, parts)
    return [
        _segment(number, parts.get(number, rows.slice(0, 0)), said.get(number, []), config or {}, total_steps)
        for number in sorted(parts.keys() | said.keys())
    ]


def _segment(
    number: int, part: pa.Table, said: list[Mapping[str, Any]], config: Mapping[str, Any], total_steps: int | None
) -> Segment:
    every = _of_kind(part, "train")
    train = _one_rank(every)
    frame, absent = _frame(train)
    unmeasured = _unmeasured(frame, absent)
    frame = frame.drop(columns=list(unmeasured)) if unmeasured else frame
    ranks = _frame(every)[0] if train.num_rows < every.num_rows else _NOTHING
    telemetry = _frame(_of_kind(part, "telemetry"))[0] if "kind" in part.column_names else _NOTHING
    evals, evals_absent = _frame(_of_kind(part, "eval")) if "kind" in part.column_names else (_NOTHING, {})
    told = _told(said) if said else _NO_EVENTS
    printed = _prints_steps(part)
    plan = (_plan(frame) or total_steps) if printed else None  # a plan in steps says nothing of rows that only are counted
    segment = Segment(number, frame, absent, evals, told, config, plan, evals_absent, telemetry, ranks, unmeasured=unmeasured)
    return replace(segment, steps_printed=printed)


def _told(said: list[Mapping[str, Any]]) -> pd.DataFrame:
    told = pd.DataFrame([[event.get(name) for name in EVENT_COLUMNS] for event in said], columns=list(EVENT_COLUMNS))
    return told.astype({"step": "Int64"})


def _prints_steps(part: pa.Table) -> bool:
    """Say whether any row of a launch prints its step; a table that does not tell has steps."""
    return "step_printed" not in part.column_names or part["step_printed"].null_count < part.num_rows


def _unmeasured(frame: pd.DataFrame, absent: Mapping[str, np.ndarray]) -> frozenset[str]:
    known = (name for name in UNMEASURED if name in frame)
    zero = frozenset(name for name in known if np.all((frame[name] == 0) | absent.get(name, False)))
    loss = next((frame[name].dropna() for name in ("loss", "logits_loss") if name in frame), None)
    if not zero or loss is None or len(loss) < 2 * MOVED_ROWS:
        return frozenset()
    first, last = loss.iloc[:MOVED_ROWS].median(), loss.iloc[-MOVED_ROWS:].median()
    return zero if abs(last - first) > MOVED * abs(first) else frozenset()


def _events_by_segment(
    events: Iterable[Mapping[str, Any]], parts: Mapping[int, pa.Table]
) -> dict[int, list[Mapping[str, Any]]]:
    spans = sorted(
        (pc.min(part["line"]).as_py(), pc.max(part["line"]).as_py(), number)
        for number, part in parts.items()
        if "line" in part.column_names and part["line"].null_count < part.num_rows
    )
    found: dict[int, list[Mapping[str, Any]]] = {}
    for event in events:
        number = event.get("segment") or 0
        if spans and number in parts and event.get("line") is not None:
            number = _launch_at(spans, event["line"], ahead=event["kind"] in AHEAD)
        found.setdefault(number, []).append(event)
    return found


def _launch_at(spans: list[tuple[int, int, int]], line: int, *, ahead: bool) -> int:
    """Return the launch to which a line belongs; spans: (first line, last line, launch) in the order of the first lines."""
    at = max(bisect(spans, line, key=lambda span: span[0]) - 1, 0)
    if ahead and line > spans[at][1] and at + 1 < len(spans):
        at += 1
    return spans[at][2]


def _parts(rows: pa.Table) -> dict[int, pa.Table]:
    """Cut by launch: slices without a copy where the launches follow each other, else filters."""
    if not rows.num_rows:
        return {}
    if "segment" not in rows.column_names:
        return {0: rows}
    number = pc.fill_null(rows["segment"], 0).to_numpy()
    cuts = np.flatnonzero(np.diff(number)) + 1
    starts, ends = np.r_[0, cuts], np.r_[cuts, len(number)]
    if len(np.unique(number[starts])) == len(starts):
        return {int(number[a]): rows.slice(a, b - a) for a, b in zip(starts, ends, strict=True)}
    return {int(value): rows.filter(pa.array(number == value)) for value in np.unique(number)}


def _of_kind(rows: pa.Table, kind: str) -> pa.Table:
    if "kind" not in rows.column_names or not rows.num_rows:
        return rows
    mask = pc.equal(rows["kind"], kind)
    return rows if pc.all(mask).as_py() else rows.filter(mask)


def _one_rank(rows: pa.Table) -> pa.Table:
    if "rank" not in rows.column_names or rows["rank"].null_count == rows.num_rows:
        return rows
    ends = pc.min_max(rows["rank"]).as_py()
    return rows if ends["min"] == ends["max"] else rows.filter(pc.equal(rows["rank"], ends["min"]))


def _frame(rows: pa.Table) -> tuple[pd.DataFrame, dict[str, np.ndarray]]:
    """Turn an Arrow table into a frame of columns that were ever printed and the masks of their gaps."""
    if not rows.num_rows:
        return _NOTHING, {}
    columns: dict[str, np.ndarray] = {}
    absent: dict[str, np.ndarray] = {}
    for name in rows.column_names:
        column = rows[name]
        if name in ("kind", "segment") or column.null_count == rows.num_rows:
            continue
        columns[name] = column.to_numpy()
        if column.null_count and name not in NOT_METRICS:
            absent[name] = pc.is_null(column).to_numpy()
    return pd.DataFrame(columns, index=pd.RangeIndex(rows.num_rows), copy=False), absent


def _plan(frame: pd.DataFrame) -> int | None:
    total = _last(frame, "total_steps")
    epochs, each = _last(frame, "epochs"), _last(frame, "steps_per_epoch")
    if total is None and epochs is not None and each is not None:
        total = epochs * each
    return int(total) if total is not None and 0 < total < 2**53 else None


def _last(frame: pd.DataFrame, column: str) -> float | None:
    if column not in frame:
        return None
    values = frame[column].to_numpy(dtype=np.float64)
    finite = np.flatnonzero(np.isfinite(values))
    return float(values[finite[-1]]) if len(finite) else None


def _until(frame: pd.DataFrame, line: int | None) -> pd.DataFrame:
    return frame if line is None or "line" not in frame else frame[frame["line"] <= line]
