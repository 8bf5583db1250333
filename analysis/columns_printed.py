"""Which metrics the lines of a log print, where one of them appears or vanishes for good, and where another form begins."""

from collections.abc import Iterator
from dataclasses import dataclass

import bottleneck as bn
import numpy as np

from analysis.segment import NOT_METRICS, Segment

WINDOW, MOST_OF = 25, 20  # of so many rows so many must lack (or have) a metric
COVERED = 0.9  # of the rows before, that must have (or lack) it
FRAME = frozenset({"epochs", "steps_per_epoch", "steps_planned", "total_steps"})
BEFORE = 50  # rows that must lie before
SAID = 10  # records after which the reader says that another form has begun


@dataclass(frozen=True)
class Turn:
    """Where a metric vanished or appeared: rows at which it did, was known, and turned back (None: not yet)."""

    column: str
    vanished: bool
    first: int
    known: int
    back: int | None


def turns(segment: Segment) -> tuple[Turn, ...]:
    """Return where metrics vanished or appeared, in the order of their rows; worked out once a segment."""
    return segment.once("turns", lambda: tuple(sorted(_turns(segment), key=lambda turn: (turn.known, turn.column))))


@dataclass(frozen=True)
class Change:
    """Where the reader says that lines of another form begin: its first row and line, that line, and whether they are read."""

    row: int
    line: int
    text: str
    read: bool


def changes(segment: Segment) -> tuple[Change, ...]:
    """Return where lines of another form begin in a launch; lines that are not read come after its last row."""
    return segment.once("changes", lambda: tuple(_changes(segment)))


def _changes(segment: Segment) -> Iterator[Change]:
    told = segment.events[segment.events["kind"].eq("form_change")] if len(segment.events) else segment.events
    if not len(told) or not segment.has("line"):
        return
    lines = segment.rows["line"].to_numpy()
    for line, text, data in zip(told["line"], told["text"], told["data"], strict=True):
        row, read = int(np.searchsorted(lines, line)), data["read"]
        if row < len(lines) or not read:
            yield Change(min(row, len(lines) - 1), int(line), str(text), read)


def changes_form(vanished: list[Turn]) -> bool:
    """Say whether with some metrics the frame of the line went, too: epoch and plan are part of its form."""
    return any(turn.column in FRAME for turn in vanished) and len(vanished) > 1


def _turns(segment: Segment) -> Iterator[Turn]:
    for column, gaps in segment.absent.items():
        if column in NOT_METRICS or len(gaps) < BEFORE + MOST_OF or column.startswith("eval_"):
            continue
        for missing in (gaps, ~gaps):
            yield from _flips(column, missing, vanished=missing is gaps)


def _flips(column: str, missing: np.ndarray, *, vanished: bool) -> Iterator[Turn]:
    """Yield where rows begin to be `missing` for good, after a time in which they hardly ever were."""
    count = bn.move_sum(missing.astype(np.float64), WINDOW, 1)
    before = np.r_[0, np.cumsum(missing)]
    rows = np.arange(len(missing))
    start = np.maximum(rows - WINDOW + 1, 0)
    with np.errstate(divide="ignore", invalid="ignore"):
        covered = 1 - before[start] / start
    hot = (count >= MOST_OF) & (start >= BEFORE) & (covered > COVERED) & missing
    if not hot.any():
        return
    known = int(np.argmax(hot))
    begin = max(known - WINDOW + 1, 0)
    first = begin + int(np.argmax(missing[begin : known + 1]))
    full = np.flatnonzero(count[known:] <= WINDOW - MOST_OF)
    yield Turn(column, vanished, first, known, known + int(full[0]) if len(full) else None)
