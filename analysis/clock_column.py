"""The clocks that rows print, in seconds."""

import numpy as np

from analysis.segment import Segment

ABSURD = 1e11  # seconds, and steps, that no run has


def clock_seconds(segment: Segment, name: str) -> np.ndarray:
    """Return a clock column in seconds (n,), NaN where it was not printed."""
    if name != "timestamp":
        return segment.values(name)
    stamps = segment.rows[name].to_numpy(dtype="datetime64[ms]")
    return np.where(np.isnat(stamps), np.nan, stamps.astype(np.int64) / 1000)


def printed_seconds(segment: Segment) -> np.ndarray | None:
    """Return how many seconds had passed at each row (n,) by what the rows print, from some start; None where they don't say.

    A clock that is missing in places or runs back tells nothing here.
    """
    for name in ("timestamp", "elapsed_seconds"):
        if segment.has(name):
            seconds = clock_seconds(segment, name)
            return seconds if (np.abs(seconds) < ABSURD).all() and (np.diff(seconds) >= 0).all() else None
    each = segment.values("step_time_seconds")
    if not (len(each) and ((each > 0) & (each < ABSURD)).all() and (np.abs(segment.steps()) < ABSURD).all()):
        return None
    steps = segment.steps()
    return np.cumsum(each * np.maximum(np.diff(steps, prepend=min(steps[0] - 1, 0)), 0))
