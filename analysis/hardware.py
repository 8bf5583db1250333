"""Readings of the machine: which of them count, the memory that there is, and the bands of the source articles."""

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from analysis.findings import Finding, Severity
from analysis.readings import Readings, finding, readings
from analysis.segment import Segment
from messages import N_, Text

LOOK = 20  # readings in which most must be beyond a limit


def hardware(segment: Segment, column: str) -> Iterator[Readings]:
    """Yield the readings of each device, without those before the first training row (nothing is to be done yet)."""
    for series in readings(segment, column):
        if series.frame is not segment.rows and len(segment) and segment.has("line") and "line" in series.frame:
            lines = series.frame["line"].to_numpy()[series.at]
            late = lines >= (segment.line(0) or 0)
            series = replace(series, at=series.at[late], values=series.values[late])
        if column.endswith("percent") and len(series) and 0 < series.values.max() <= 1 and np.any(series.values % 1):
            series = replace(series, values=100 * series.values)  # printed as a fraction
        if len(series):
            yield series


def memory_shares(segment: Segment, column: str) -> Iterator[tuple[Readings, float]]:
    """Yield memory as a share of what is installed, and the installed bytes; nothing where the log does not say how much."""
    for series in hardware(segment, column):
        total = installed(segment, series)
        if total:
            yield replace(series, values=series.values / total), total


def installed(segment: Segment, series: Readings) -> float | None:
    """Return the installed memory in bytes, None where the log does not say."""
    for frame in (series.frame, segment.rows, segment.telemetry):
        if "memory_total_bytes" in frame:
            values = frame["memory_total_bytes"].to_numpy(dtype=np.float64)
            values = values[np.isfinite(values) & (values > 0)]
            if len(values):
                return float(values[0])
    return None


def most_of(beyond: np.ndarray, count: int, of: int = LOOK) -> np.ndarray:
    """Say at each reading (n,) whether `count` of the last `of` were beyond a limit."""
    sums = np.cumsum(np.r_[0, beyond])
    return sums[1:] - sums[np.maximum(np.arange(1, len(beyond) + 1) - of, 0)] >= count


def few_of(beyond: np.ndarray, count: int, of: int = LOOK) -> np.ndarray:
    """Say at each reading (n,) whether at most `count` of the last `of` were beyond a limit."""
    return ~most_of(beyond, count + 1, of)


def bands(
    kind: str, severity: Severity, series: Readings, inside: np.ndarray, limit: float, text: str, *, unit: str
) -> Iterator[Finding]:
    """Yield one finding for all readings inside a band; `text` has the gaps {limit}, {count}, {all}, {step}."""
    hits = np.flatnonzero(inside)
    if not len(hits):
        return
    first, last = int(hits[0]), int(hits[-1])
    gaps = {"limit": limit, "count": len(hits), "all": len(series), "step": series.where(first)}
    evidence = (
        series.fact(N_("first reading beyond the limit"), float(series.values[first]), first, unit),
        series.fact(N_("lowest of them"), float(series.values[hits].min()), None, unit),
        series.fact(N_("highest of them"), float(series.values[hits].max()), None, unit),
    )
    end = None if last == len(series) - 1 else last
    yield finding(kind, severity, series, Text(text, gaps), evidence, first=first, known=first, end=end)
