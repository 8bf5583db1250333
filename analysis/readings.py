"""Finite values of one metric in the order logged, wherever they were logged: training rows, telemetry, several devices.

What rules about levels share: the values, where each stands, and medians of five of them. A finding is made here from
positions in such a series, so that hardware read beside the training gets its step and line like a training row does.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import bottleneck as bn
import numpy as np
import pandas as pd

from analysis.attribution import explain
from analysis.evidence import PLACES, at_step, finding_at, finite, where
from analysis.findings import Evidence, Finding, Severity
from analysis.segment import Segment
from messages import Text

SIZE = 5  # values of a block
MOST_DEVICES = 64
MOST_DEVICE = 1e6  # a number above is no device
MOST = 50  # findings of one rule in one launch; more are a state, not events
TO_SIGMA = 1.4826


@dataclass(frozen=True, eq=False)
class Readings:
    """Values of a metric (m,), finite; `at` are their positions (m,) in `frame`, the rows or the telemetry of `segment`.

    device: number of the GPU where several are read, else None.
    """

    segment: Segment
    column: str
    frame: pd.DataFrame
    at: np.ndarray
    values: np.ndarray
    device: int | None = None

    def __len__(self) -> int:
        return len(self.values)

    @property
    def number(self) -> int:
        """Return the number of the segment."""
        return self.segment.number

    def step(self, index: int) -> int | None:
        """Return the step of a value, None where the log gives none."""
        return _whole(self.frame, "step", int(self.at[index]))

    def line(self, index: int) -> int | None:
        """Return the line of a value, None where the source has no lines."""
        return _whole(self.frame, "line", int(self.at[index]))

    def steps(self) -> np.ndarray:
        """Return the steps of all values (m,), their number from 1 where the log gives none."""
        if "step" not in self.frame:
            return self.at + 1.0
        return self.frame["step"].to_numpy(dtype=np.float64)[self.at]

    def where(self, index: int) -> Text:
        """Return the place of a value as words for a sentence: its step, or its epoch or row in a log without steps."""
        if self.frame is self.segment.rows:
            return where(self.segment, int(self.at[index]))
        step = self.step(index)
        return Text(PLACES["row"], {"number": int(self.at[index]) + 1}) if step is None else at_step(self.segment, step)

    def row(self, index: int) -> int:
        """Return the training row that a value belongs to: its own, or the last one before it."""
        if self.frame is self.segment.rows:
            return int(self.at[index])
        line = self.line(index)
        if line is None or not self.segment.has("line"):
            return 0
        return max(int(np.searchsorted(self.segment.rows["line"].to_numpy(), line, side="right")) - 1, 0)

    def fact(self, label: str, value: float | str, index: int | None = None, unit: str = "") -> Evidence:
        """Return a measured fact, with step and line where it belongs to one value."""
        value = value if isinstance(value, str) or np.isfinite(value) else str(value)
        if index is None:
            return Evidence(Text(label), value, unit)
        return Evidence(Text(label), value, unit, self.step(index), self.line(index))


def of_rows(segment: Segment, column: str, rows: np.ndarray, values: np.ndarray) -> Readings:
    """Return values (m,) that belong to training rows (m,)."""
    return Readings(segment, column, segment.rows, rows, values)


def readings(segment: Segment, column: str) -> tuple[Readings, ...]:
    """Return the finite values of a column, one series a device; from the training rows, else from the telemetry."""
    return segment.once(("readings", column), lambda: tuple(_readings(segment, column)))


def _readings(segment: Segment, column: str) -> Iterator[Readings]:
    frame = segment.rows if segment.has(column) else segment.telemetry
    if column not in frame:
        return
    values = frame[column].to_numpy(dtype=np.float64)
    at = np.flatnonzero(np.isfinite(values))
    names = next((name for name in ("index", "gpu_index", "device") if name in frame), None)
    devices = frame[names].to_numpy(dtype=np.float64)[at] if names else np.zeros(len(at))
    known = np.unique(devices[np.isfinite(devices) & (np.abs(devices) < MOST_DEVICE)])
    if len(known) < 2 or len(known) > MOST_DEVICES:
        yield Readings(segment, column, frame, at, values[at])
        return
    for device in known:
        own = at[devices == device]
        yield Readings(segment, column, frame, own, values[own], int(device))


def blocks(values: np.ndarray, *, size: int = SIZE) -> np.ndarray:
    """Return the median of each `size` values (k,); block j is known with value (j + 1) * size - 1."""
    whole = len(values) // size
    return np.median(values[: whole * size].reshape(whole, size), axis=1)


def last_of(block: int, *, size: int = SIZE) -> int:
    """Return the position of the last value of a block."""
    return (block + 1) * size - 1


def median_of(values: np.ndarray, window: int, least: int) -> np.ndarray:
    """Return the median of the last `window` values at each (n,), NaN where there are fewer than `least`."""
    if len(values) < least:
        return np.full(len(values), np.nan)
    return bn.move_median(values, min(window, len(values)), least)


def before(values: np.ndarray, count: int = 1) -> np.ndarray:
    """Return values (n,) moved back by `count` places, NaN where nothing is before."""
    count = min(count, len(values))
    return np.r_[np.full(count, np.nan), values[: len(values) - count]]


def held(hot: np.ndarray, cool: np.ndarray, hold: int) -> Iterator[tuple[int, int, int | None]]:
    """Yield (first, known, end) of each stretch that is hot `hold` values in a row; it goes on until one is cool.

    end is the first cool position, None while it goes on. hot, cool: bool (n,).
    """
    edges = np.diff(np.r_[0, hot.view(np.int8), 0])
    starts, ends = np.flatnonzero(edges == 1), np.flatnonzero(edges == -1)
    long = ends - starts >= hold
    cold = np.flatnonzero(cool)
    free, count = 0, 0
    for first in starts[long]:
        if first < free or count >= MOST:
            continue
        known = int(first) + hold - 1
        after = np.searchsorted(cold, known, side="right")
        end = int(cold[after]) if after < len(cold) else None
        yield int(first), known, end
        count += 1
        free = len(hot) if end is None else end


def finding(
    kind: str,
    severity: Severity,
    series: Readings,
    title: Text,
    evidence: tuple[Evidence, ...],
    *,
    first: int,
    known: int,
    end: int | None,
) -> Finding:
    """Return a finding about positions of a series; `end` is its last position, None while it goes on."""
    causes, advice = explain(series.segment, kind, series.row(first), known=series.row(known))
    return finding_at(
        series,
        kind=kind,
        severity=severity,
        title=finite(title),
        evidence=evidence,
        causes=causes,
        advice=advice,
        first=first,
        known=known,
        end=end,
    )


def _whole(frame: pd.DataFrame, column: str, row: int) -> int | None:
    if column not in frame:
        return None
    value = frame[column].to_numpy()[row]
    return None if pd.isna(value) else int(value)
