"""How unsteady a pace must be for the times that a log implies: the question by which readings of a clock are told apart.

Of each line only bounds are known of how much time had passed there. Asked is the smallest share w for which there is a pace
p and a start-up s >= 0 of each stretch such that s + p × steps × (1 ± w) lies within the bounds of every line: 0 where a run
of constant pace fits. Divided by p that is linear in (w, 1 / p, s / p), so w is convex in 1 / p, and the best 1 / p is found
by looking ever closer around the best so far.
"""

import math
from dataclasses import dataclass

import numpy as np

CAP = 9.0  # an unsteadiness that is impossible
MOST_STARTUP = 5.0  # epochs that the start-up of an epoch may take
NONE = 1e-5  # an unsteadiness that is none
NO_JUMPS = np.zeros(0, dtype=int)
_FINE = 1401  # paces between half and twice another one: a thousandth apart
_WIDE, _NARROW = 48, 25  # paces of the first look, and of each that looks closer
_LOOKS = (1e-2, 1e-4, 2e-6, 2e-6, 2e-6)  # how exactly each look finds what a pace needs
_NEAR = 1e-4  # how near to the least the needs around it may be for it to be the least of all


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
    """Return how unsteady the pace is that times passed imply, 0 to CAP, CAP where no pace does; to within 1e-4.

    steps: done since the stretch began, in order, > 0 (m,); low, high: bounds of the time passed since then (m,); begins: rows
    at which parts begin: stretches, and within them what follows an outage. most_startup: as many steps may a start-up take.
    paces: lowest and highest. jumps: which parts (numbers of `begins`) go on with the part before, later by some outage.
    """
    if (high <= 0).any() or not len(steps):
        return CAP if len(steps) else 0.0
    with np.errstate(divide="ignore"):
        least = max(0.5 * float((steps / high).min()), 1 / paces[1] if np.isfinite(paces[1]) else 0.0)
        most = 2 * float(((steps + most_startup) / np.maximum(low, 0.02 * high)).max())
        most = min(most, 1 / paces[0] if paces[0] > 0 else np.inf)
    if most < least:
        return CAP
    bounds = _Bounds(steps, low, high, begins, most_startup, NO_JUMPS if jumps is None else jumps)
    slowness, around = np.geomspace(least, most, _WIDE), CAP
    for exact in _LOOKS:
        if bounds.fit(slowness, np.full(len(slowness), NONE)).any():
            return 0.0
        needed = bounds.needed(slowness, around, exact)
        best = float(needed.min())
        at = np.flatnonzero(needed == best)
        beside = [max(at[0] - 1, 0), min(at[-1] + 1, len(slowness) - 1)]
        around = float(needed[beside].max())  # convex: what lies between needs no more
        if around - best < _NEAR and exact < _NEAR:
            break
        slowness = np.linspace(slowness[beside[0]], slowness[beside[1]], _NARROW)
    return best


def constant_paces(
    steps: np.ndarray, low: np.ndarray, high: np.ndarray, begins: np.ndarray, near: float, *, most_startup: float
) -> tuple[float, float]:
    """Return the lowest and the highest constant pace that all bounds allow, where the one `near` is or is next to them.

    (0, inf) where none is allowed; all else as for `unsteadiness`.
    """
    bounds = _Bounds(steps, low, high, begins, most_startup, NO_JUMPS)
    tried = np.geomspace(0.5, 2.0, _FINE) / near
    fits = np.flatnonzero(bounds.fit(tried, np.full(_FINE, NONE)))
    if not len(fits):
        return 0.0, np.inf
    return 1 / float(tried[fits[-1]]), 1 / float(tried[fits[0]])


@dataclass(frozen=True)
class _Bounds:
    """The lines of a launch, as `unsteadiness` takes them."""

    steps: np.ndarray
    low: np.ndarray
    high: np.ndarray
    begins: np.ndarray
    most_startup: float
    jumps: np.ndarray

    def needed(self, slowness: np.ndarray, most: float, exact: float) -> np.ndarray:
        """Return the unsteadiness that each 1 / pace (k,) needs (k,), `most` where it needs more, by halving.

        Exact for those that need least and for the next to them; of the others, only that they need more.
        """
        fits, fails = np.full(len(slowness), most), np.zeros(len(slowness))
        # Convex: those that may need least lie side by side. Of others it is enough that they need more, but for the next to
        # these on either side.
        first, end = 0, len(slowness)
        low, high = self._scaled(slowness)
        for _half in range(math.ceil(math.log2(most / exact))):
            near = slice(first, end)
            share = (fits[near] + fails[near]) / 2
            good = self._fit(low[near], high[near], share)
            fits[near], fails[near] = np.where(good, share, fits[near]), np.where(good, fails[near], share)
            least = np.flatnonzero(fails[near] <= fits[near].min())
            first, end = max(first + least[0] - 1, first), min(first + least[-1] + 2, end)
        return fits

    def fit(self, slowness: np.ndarray, share: np.ndarray) -> np.ndarray:
        """Say of each 1 / pace (k,) whether it is within all bounds with this unsteadiness (k,)."""
        return self._fit(*self._scaled(slowness), share)

    def _scaled(self, slowness: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return slowness[:, None] * self.low, slowness[:, None] * self.high

    def _fit(self, low: np.ndarray, high: np.ndarray, share: np.ndarray) -> np.ndarray:
        share = share[:, None]
        startup = np.maximum.reduceat(low - self.steps * (1 + share), self.begins, axis=1)
        may = np.minimum.reduceat(high - self.steps * (1 - share), self.begins, axis=1)
        startup, may = np.maximum(startup, 0.0), np.minimum(may, self.most_startup)
        for part in self.jumps:
            startup[:, part] = np.maximum(startup[:, part], startup[:, part - 1])
        return np.asarray((startup <= may).all(axis=1))
