"""Positions grouped into stretches."""

import numpy as np


def joined(positions: np.ndarray, gap: int = 1) -> list[tuple[int, int]]:
    """Return (first, last) of each stretch of growing positions that are at most `gap` apart."""
    if not len(positions):
        return []
    cuts = np.flatnonzero(np.diff(positions) > gap)
    firsts, lasts = positions[np.r_[0, cuts + 1]], positions[np.r_[cuts, len(positions) - 1]]
    return [(int(first), int(last)) for first, last in zip(firsts, lasts, strict=True)]
