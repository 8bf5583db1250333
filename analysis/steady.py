"""How unsteady a pace must be for the times that a log implies: the question by which readings of a clock are told apart.

Of each line only bounds are known of how much time had passed there. Asked is the smallest share w for which there is a pace
p and a start-up s >= 0 of each stretch such that s + p × steps × (1 ± w) lies within the bounds of every line: 0 where a run
of constant pace fits. Divided by p that is linear in (w, 1 / p, s / p), so w is convex in 1 / p, and the best 1 / p is found
by looking ever closer around the best so far.
"""

import numpy as np

CAP = 9.0  # an unsteadiness that is impossible
MOST_STARTUP = 5.0  # epochs that the start-up of an epoch may take
_CLOSER, _WIDE, _NARROW, _HALVINGS = 5, 48, 25, 22


def unsteadiness(
    steps: np.ndarray,
    low: np.ndarray,
    high: np.ndarray,
    begins: np.ndarray,
    *,
    most_startup: float,
    paces: tuple[float, float] = (0.0, np.inf),
    jumps: np.ndarray | None = None,
) -> float:
    """Return how unsteady the pace is that times passed imply, 0 to CAP, CAP where no pace does.

    steps: done since the stretch began, in order, > 0 (m,); low, high: bounds of the time passed since then (m,); begins: rows
    at which parts begin: stretches, and within them what follows an outage. most_startup: as many steps may a start-up take.
    paces: lowest and highest. jumps: which parts (numbers of `begins`) go on with the part before, later by some outage.
    """
    if (high <= 0).any() or not len(steps):
        return CAP if len(steps) else 0.0
    jumps = np.zeros(0, dtype=int) if jumps is None else jumps
    with np.errstate(divide="ignore"):
        least = max(0.5 * float((steps / high).min()), 1 / paces[1] if np.isfinite(paces[1]) else 0.0)
        most = 2 * float(((steps + most_startup) / np.maximum(low, 0.02 * high)).max())
        most = min(most, 1 / paces[0] if paces[0] > 0 else np.inf)
    if most < least:
        return CAP
    slowness = np.geomspace(least, most, _WIDE)
    for _look in range(_CLOSER):
        needed = _needed(slowness, steps, low, high, begins, most_startup, jumps)
        at = int(np.argmin(needed))
        slowness = np.linspace(slowness[max(at - 1, 0)], slowness[min(at + 1, len(slowness) - 1)], _NARROW)
    return float(needed.min())


def _needed(
    slowness: np.ndarray,
    steps: np.ndarray,
    low: np.ndarray,
    high: np.ndarray,
    begins: np.ndarray,
    most_startup: float,
    jumps: np.ndarray,
) -> np.ndarray:
    """Return the unsteadiness that each 1 / pace (k,) needs (k,), by halving."""
    fits, fails = np.full(len(slowness), CAP), np.zeros(len(slowness))
    earliest, latest = slowness[:, None] * low, slowness[:, None] * high
    for _half in range(_HALVINGS):
        share = (fits + fails)[:, None] / 2
        startup = np.maximum(np.maximum.reduceat(earliest - steps * (1 + share), begins, axis=1), 0.0)
        may = np.minimum(np.minimum.reduceat(latest - steps * (1 - share), begins, axis=1), most_startup)
        for part in jumps:
            startup[:, part] = np.maximum(startup[:, part], startup[:, part - 1])
        good = (startup <= may).all(axis=1)
        fits, fails = np.where(good, share[:, 0], fits), np.where(good, fails, share[:, 0])
    return np.where(fits < 1e-5, 0.0, fits)
