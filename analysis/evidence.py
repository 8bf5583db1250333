"""Small makers of findings and their evidence: measured facts, and the rows they were measured at as steps and lines."""

import math
from typing import Protocol

import numpy as np

from analysis.findings import Cause, Evidence, Finding, Severity
from analysis.noise import Track
from analysis.segment import Segment
from messages import N_, Text

PLACES = {"step": N_("step {number:,}"), "epoch": N_("epoch {number:,}"), "row": N_("row {number:,}")}
UNITS = {"epoch_time_minutes": "min", "step_time_seconds": "s", "remaining_seconds": "s", "elapsed_seconds": "s"}


def fact(
    label: str,
    value: float | int | str | None,
    *,
    segment: Segment | None = None,
    row: int | None = None,
    column: str = "",
    unit: str = "",
) -> Evidence:
    """Return a fact; `label` is a message that may have the gap {column}; `row` gives it a step and a line.

    NaN and infinities become the words `nan`, `inf`, `-inf`: evidence must survive JSON.
    """
    if isinstance(value, float):
        value = value if math.isfinite(value) else str(value)
    text = Text(label, {"column": column} if "{column}" in label else {})
    if segment is None or row is None:
        return Evidence(text, value, unit or UNITS.get(column, ""))
    return Evidence(text, value, unit or UNITS.get(column, ""), segment.step(row), segment.line(row))


def median_fact(label: str, segment: Segment, values: Track, span: tuple[int, int], column: str) -> Evidence:
    """Return the median of positions [start, end) of a track as a fact that says so and over which rows it is.

    No row of the log prints it, so it has neither step nor line; what is a single row is told as that row.
    """
    start, end = max(span[0], 0), max(span[1], span[0] + 1)
    first, last = (int(values.rows[min(at, len(values) - 1)]) for at in (start, end - 1))
    value = unlog(np.median(values.x[start:end]))
    if first == last:
        return fact(label, value, segment=segment, row=first, column=column)
    gaps = {"what": Text(label, {"column": column} if "{column}" in label else {}), "count": end - start}
    gaps |= {"first": where(segment, first), "last": where(segment, last)}
    return Evidence(Text(N_("{what}, the median of {count:,} rows ({first} to {last})"), gaps), value)


class Rows(Protocol):
    """What has rows in the order of the log: a segment, or the readings of one metric in it."""

    @property
    def number(self) -> int: ...  # of the segment

    def __len__(self) -> int: ...

    def step(self, index: int, /) -> int | None: ...

    def line(self, index: int, /) -> int | None: ...


def finding_at(
    rows: Rows,
    *,
    kind: str,
    severity: Severity,
    title: Text,
    evidence: tuple[Evidence, ...],
    causes: tuple[Cause, ...],
    advice: tuple[Text, ...],
    first: int,
    known: int,
    end: int | None,
) -> Finding:
    """Return a finding about rows `first` to `end` (None: it goes on), which could be said from row `known` on."""
    return Finding(
        kind=kind,
        severity=severity,
        segment=rows.number,
        first_step=rows.step(first),
        last_step=None if end is None else rows.step(end),
        known_step=rows.step(known),
        first_line=rows.line(first),
        last_line=rows.line(len(rows) - 1 if end is None else end),
        title=title,
        evidence=evidence,
        causes=causes,
        advice=advice,
    )


def times(value: float, other: float) -> float:
    """Return value / other as a finite number for a sentence, however absurd the values of a log are."""
    with np.errstate(all="ignore"):
        ratio = float(np.float64(value) / np.float64(other))
    return min(max(ratio, -1e300), 1e300) if ratio == ratio else 0.0


def unlog(logarithm: float) -> float:
    """Return a level from its natural logarithm, to six digits and finite: as it may stand in a sentence."""
    return float(f"{np.exp(min(float(logarithm), 690.0)):.6g}")


def finite(text: Text) -> Text:
    """Return a text whose numbers are finite: they must survive JSON."""
    return Text(text.template, {k: times(v, 1.0) if isinstance(v, float) else v for k, v in text.values.items()})


def where(segment: Segment, row: int) -> Text:
    """Return the place of a row as words for a sentence: its step, or its epoch or row in a log that prints no steps."""
    epoch = segment.unit == "epoch"
    return Text(PLACES[segment.unit], {"number": int(segment.values("epoch")[row]) if epoch else place(segment, row)})


def at_step(segment: Segment, step: int) -> Text:
    """Return a step as words for a sentence, as `where` does for a row."""
    if segment.unit == "epoch":
        return where(segment, min(int(np.searchsorted(segment.steps(), step)), len(segment) - 1))
    return Text(PLACES[segment.unit], {"number": step})


def place(segment: Segment, row: int) -> int:
    """Return the step of a row; the row number from 1 where the log gives no step. For a sentence there is `where`."""
    step = segment.step(row)
    return row + 1 if step is None else step
