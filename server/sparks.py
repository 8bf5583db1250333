"""The small curve of a run in a list: few points, and yet what is bad about the run can be seen in it."""

import numpy as np

STANDS_OUT = 4.0  # times as far from the mean of its stretch as extremes usually are
TAILS = 0.1  # of the means on either side: the range of the others, and its width again above and below, is drawn


def drawn(points: np.ndarray) -> np.ndarray:
    """Return what is drawn (n,) of means, lowest and highest values (3, n): the mean of a stretch, or what stands out in it.

    What lies far outside the usual range is drawn at its edge, so that it does not flatten the rest; NaN and infinity lie at
    the upper edge. Empty where nothing is finite.
    """
    mean, low, high = points.astype(np.float64)
    finite = np.isfinite(mean)
    if not finite.any():
        return np.empty(0, np.float32)
    with np.errstate(invalid="ignore"):
        up, down = high - mean, mean - low
    extreme, far = np.where(up >= down, high, low), np.fmax(up, down)
    level, usual = np.sort(mean[finite]), np.sort(far[finite])[np.count_nonzero(finite) // 2]
    curve = np.where(far > STANDS_OUT * usual, extreme, mean)
    tail = int(TAILS * len(level))
    bottom, top = level[tail], level[-1 - tail]
    reach = top - bottom if top > bottom else np.inf
    curve = np.clip(curve, bottom - reach, top + reach)
    shown = np.isfinite(curve)
    return np.where(shown, curve, curve[shown].max()).astype(np.float32)
