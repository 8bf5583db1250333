"""What other columns and the text of a log show around a symptom: levels before and since, and what was said."""

import numpy as np

from analysis.clues import Seen
from analysis.evidence import times
from analysis.readings import Readings, of_rows, readings
from analysis.segment import Segment
from messages import Text

BEFORE_ROWS, SINCE_ROWS = 300, 20
LEAST = 3
LINES_BEFORE = 200  # in which a failure before a restart is looked for


def around(segment: Segment, column: str, row: int, known: int) -> tuple[float, float] | None:
    """Return the medians of a column in the rows before `row` and from there to `known`, None where too little is there."""
    found = [both for series in _series(segment, column) if (both := around_series(series, row, known))]
    return max(found, key=lambda both: abs(both[1] - both[0])) if found else None  # the device that moved most


def around_series(series: Readings, row: int, known: int) -> tuple[float, float] | None:
    """Return the same of one series."""
    rows = _rows(series)
    old = series.values[np.searchsorted(rows, row - BEFORE_ROWS) : np.searchsorted(rows, row)]
    new = series.values[np.searchsorted(rows, row) : np.searchsorted(rows, known, side="right")][-SINCE_ROWS:]
    if len(old) < LEAST or len(new) < min(LEAST, max(known - row + 1, 1)):
        return None
    return times(float(np.median(old)), 1.0), times(float(np.median(new)), 1.0)


def _series(segment: Segment, column: str) -> tuple[Readings, ...]:
    if segment.has(column) and column not in ("line", "step", "timestamp"):
        values = segment.values(column)
        return (of_rows(segment, column, np.flatnonzero(np.isfinite(values)), values[np.isfinite(values)]),)
    return () if column in ("line", "step", "timestamp", "kind", "rank") else readings(segment, column)


def _rows(series: Readings) -> np.ndarray:
    """Return the training row that each value belongs to (m,)."""
    if series.frame is series.segment.rows or not series.segment.has("line") or "line" not in series.frame:
        return series.at
    lines = series.frame["line"].to_numpy()[series.at]
    return np.searchsorted(series.segment.rows["line"].to_numpy(), lines, side="right") - 1


def level_moved(segment: Segment, column: str, row: int, known: int, share: float, text: str) -> Seen | None:
    """Say whether a column fell below `share` of what it was; `text` has the gaps {before} and {now}."""
    both = around(segment, column, row, known)
    if both is None:
        return None
    return Seen(both[1] < share * both[0], Text(text, {"before": both[0], "now": both[1]}))


def said(segment: Segment, row: int, known: int, kinds: frozenset[str], text: str) -> Seen | None:
    """Say whether the text between a row and the one at which the symptom was known tells of an event."""
    events, first, last = segment.events, segment.line(row), segment.line(known)
    if not len(events) or first is None or last is None:
        return None
    past = first if known > row or row == len(segment) - 1 else first - 1
    near = events[events["kind"].isin(kinds) & (events["line"] >= past)]
    near = near[near["line"] <= last] if known > row else near
    return Seen(True, Text(text, {"line": int(near["line"].iloc[0])})) if len(near) else None


def said_before(segment: Segment, row: int, kinds: frozenset[str], text: str) -> Seen | None:
    """Say whether the text between the row before and this one, or shortly before it, tells of an event."""
    events, line = segment.events, segment.line(row)
    if not len(events) or line is None:
        return None
    first = min(segment.line(max(row - 1, 0)) or 0, line - LINES_BEFORE)
    near = events[events["kind"].isin(kinds) & events["line"].between(first, line)]
    return Seen(True, Text(text, {"line": int(near["line"].iloc[-1])})) if len(near) else None
