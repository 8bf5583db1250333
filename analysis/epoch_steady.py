"""How unsteady the pace of a run must have been if what it prints as `epoch_time` has one meaning or another."""

from collections.abc import Callable, Iterator

import numpy as np

from analysis.epoch_lines import Bounds, Lines, passed
from analysis.steady import CAP, MOST_STARTUP, unsteadiness

BY_CLOCK = (0.9, 1.5)  # minutes passed in a minute of the clock: a step time does not see what lies between steps
LONGEST_EPOCH = 30 * 24 * 60.0  # minutes: a reading that implies a longer epoch is not believed
Ways = Callable[[Lines, str], Iterator[Bounds]]


def unsteady_reading(lines: Lines, meaning: str, clock: np.ndarray | None, *, outages: int = 0, each: float = 1.0) -> float:
    """Return how unsteady a reading is at its best, of all ways to print it; CAP where none can have printed the values.

    clock: minutes since the stretch began by a clock of the log (m,), of which a step takes `each`; None: steps serve.
    """
    return min(unsteady_as(counted, meaning, passed, clock, outages, each) for counted in lines.countings())


def unsteady_as(
    lines: Lines, meaning: str, ways: Ways, clock: np.ndarray | None = None, outages: int = 0, each: float = 1.0
) -> float:
    """Return the same of lines whose steps are counted as they say, printed in some of the ways."""
    size, found = float(lines.size.max()), [CAP]
    paces = (0.0, LONGEST_EPOCH / size) if clock is None else BY_CLOCK
    steady = lines.since if clock is None else clock
    for told, low, high in ways(lines, meaning):
        if _runs_back(low, high, lines.stretch[told]):
            continue
        begins, jumps = _parts(steady[told], (low + high) / 2, lines.stretch[told], outages)
        most = MOST_STARTUP * size * each
        found.append(unsteadiness(steady[told], low, high, begins, most_startup=most, paces=paces, jumps=jumps))
    return min(found)


def _runs_back(low: np.ndarray, high: np.ndarray, stretch: np.ndarray) -> bool:
    """Say whether the time passed must have fallen within a stretch, which no run does however unsteady."""
    parts = np.flatnonzero(np.diff(stretch)) + 1
    return any(
        (np.maximum.accumulate(least) > most).any()
        for least, most in zip(np.split(low, parts), np.split(high, parts), strict=True)
        if len(least)
    )


def _parts(done: np.ndarray, minutes: np.ndarray, stretch: np.ndarray, outages: int) -> tuple[np.ndarray, np.ndarray]:
    """Return where parts begin (k,), stretches and what follows the longest outages, and which of them follow an outage."""
    starts = np.flatnonzero(np.diff(stretch, prepend=-1) != 0)
    steps, took = np.diff(done), np.diff(minutes)
    moved = steps > 0
    if not outages or not moved.any():
        return starts, np.zeros(0, dtype=int)
    beyond = took - float(np.median(took[moved] / steps[moved])) * steps
    beyond[starts[1:] - 1] = -np.inf
    late = np.argsort(-beyond)[:outages] + 1
    begins = np.union1d(starts, late)
    return begins, np.flatnonzero(np.isin(begins, late) & ~np.isin(begins, starts))
