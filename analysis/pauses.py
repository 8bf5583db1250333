"""Rows that took much longer than their neighbours: single ones, and those that come back at a fixed distance.

A row is slow if it took at least 1.3 times what is usual there and six times its spread more. Slow rows that come back
after the same number of rows, five times in a row, are a rhythm: checkpoints, evaluations, the end of a shard. From then on
they are expected, and no rule raises an alarm about them.
"""

from dataclasses import dataclass

import numpy as np

from analysis.readings import Readings
from analysis.segment import Segment
from analysis.step_time import StepTime, levels, step_time

LEAST_RATIO, LEAST_SPREADS = 1.3, 6.0
LEAST_SPREAD = 1e-3
LEAST_PERIOD = 5  # rows
TIMES = 5  # pauses at the same distance that make a rhythm
LAGS = 8  # pauses back to which a distance is tried: others may lie between
RHYTHMS = 3
CHANCE = 0.01  # expected number of rhythms that come about by chance
SIGNS = {"evaluation": frozenset({"evaluation"}), "checkpoint": frozenset({"checkpoint_saved"})}


@dataclass(frozen=True, eq=False)
class Rhythm:
    """Pauses every `rows` rows: positions in the step-time series of all of them (k,), and of the one that made it known."""

    rows: int
    at: np.ndarray
    known: int


@dataclass(frozen=True, eq=False)
class Pauses:
    """Slow rows of a launch.

    at: their positions (k,) in `known.series`; over: natural logarithm of their step time over the usual (k,).
    spreads: how many times the spread that is (k,); rhythms: those that come back; expected: those that a rhythm known
    before them expects (k,).
    """

    known: StepTime
    at: np.ndarray
    over: np.ndarray
    spreads: np.ndarray
    rhythms: tuple[Rhythm, ...]
    expected: np.ndarray

    @property
    def series(self) -> Readings:
        """Return the step times."""
        return self.known.series

    def seconds(self, at: np.ndarray) -> np.ndarray:
        """Return by how much the values at positions (k,) exceed what was usual there, in units of the step time."""
        found = np.searchsorted(self.at, at)
        return self.series.values[at] * (1 - np.exp(-self.over[found]))


def pauses(segment: Segment) -> Pauses | None:
    """Return the slow rows of a launch, None where the step time is not known; worked out once a segment."""
    return segment.once("pauses", lambda: _pauses(segment))


def spoken(segment: Segment, row: int) -> str | None:
    """Return `evaluation` or `checkpoint` if the log shows one between the row before and this one, else None."""
    last, line = segment.line(max(row - 1, 0)), segment.line(row)
    if last is None or line is None:
        return None
    if "line" in segment.evals and np.any(_between(segment.evals["line"].to_numpy(), last, line)):
        return "evaluation"
    if len(segment.events):
        near = segment.events["kind"][_between(segment.events["line"].to_numpy(dtype=np.int64), last, line)]
        return next((name for name, kinds in SIGNS.items() if near.isin(kinds).any()), None)
    return None


def _between(lines: np.ndarray, last: int, line: int) -> np.ndarray:
    return (lines > last) & (lines <= line)


def _pauses(segment: Segment) -> Pauses | None:
    known = step_time(segment)
    if known is None:
        return None
    x = np.log(known.series.values)
    centre, spread = levels(known)
    over = x - centre
    with np.errstate(invalid="ignore"):
        spreads = over / np.fmax(spread, LEAST_SPREAD)
        slow = (over > np.log(LEAST_RATIO)) & (spreads > LEAST_SPREADS)
    at = np.flatnonzero(slow)
    rhythms = _rhythms(_places(segment, known.series.at)[at], at) if known.together == 1 else ()
    expected = np.zeros(len(at), dtype=bool)
    for rhythm in rhythms:
        expected |= np.isin(at, rhythm.at) & (at > rhythm.known)
    return Pauses(known, at, over[at], spreads[at], rhythms, expected)


def _places(segment: Segment, rows: np.ndarray) -> np.ndarray:
    """Return where rows would stand if none were lost: counted in steps, where these rise by one usual distance."""
    steps = segment.steps()[rows]
    gaps = np.diff(steps)
    each = float(np.median(gaps)) if len(gaps) else 0.0
    if not np.isfinite(steps).all() or each < 1 or (gaps <= 0).any() or (gaps % each).any():
        return rows
    return rows[0] + ((steps - steps[0]) // each).astype(np.int64)


def _rhythms(rows: np.ndarray, at: np.ndarray) -> tuple[Rhythm, ...]:
    """Find up to three distances at which slow rows come back; each takes its rows from the next."""
    found: list[Rhythm] = []
    while len(found) < RHYTHMS and len(rows) >= TIMES:
        first = _first(rows)
        if first is None:
            break
        position, every = first
        members = (rows - rows[position]) % every == 0
        found.append(Rhythm(every, at[members], int(at[position])))
        rows, at = rows[~members], at[~members]
    return tuple(found)


def _first(rows: np.ndarray) -> tuple[int, int] | None:
    """Return (position of the slow row that completes a rhythm first, its distance in rows)."""
    slow = np.zeros(int(rows[-1]) + 1, dtype=bool)
    slow[rows] = True
    best: tuple[int, int] | None = None
    for lag in range(1, min(LAGS, len(rows) - 1) + 1):
        every = rows[lag:] - rows[:-lag]
        ok = (every >= LEAST_PERIOD) & (rows[lag:] >= (TIMES - 1) * every)
        for times in range(2, TIMES):
            ok[ok] = slow[rows[lag:][ok] - times * every[ok]]
        for place in np.flatnonzero(ok) + lag:
            if best is not None and place >= best[0]:
                break
            if _unlikely(rows, int(place), int(rows[place] - rows[place - lag])):
                best = int(place), int(rows[place] - rows[place - lag])
                break
    return best


def _unlikely(rows: np.ndarray, place: int, every: int) -> bool:
    """Say whether slow rows as frequent as these would hardly ever meet at one distance by chance."""
    span = (TIMES - 1) * every
    density = (place + 1 - np.searchsorted(rows, rows[place] - span)) / span
    return bool(LAGS * (place + 1) * density ** (TIMES - 2) < CHANCE) or bool(density * every < 2.5)
