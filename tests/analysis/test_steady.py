"""How unsteady a pace must be is looked for among few paces, and found as among all of them."""

import math

import numpy as np
import pytest

from analysis import steady
from analysis.steady import CAP, unsteadiness


def plain(self, slowness: np.ndarray, most: float, exact: float) -> np.ndarray:
    """What every pace needs, by halving."""
    fits, fails = np.full(len(slowness), most), np.zeros(len(slowness))
    for _half in range(math.ceil(math.log2(most / exact))):
        share = (fits + fails) / 2
        good = self.fit(slowness, share)
        fits, fails = np.where(good, share, fits), np.where(good, fails, share)
    return fits


def lines(seed: int) -> dict:
    """Return what some launch prints: up to three stretches, a pace that wanders, a unit."""
    random = np.random.default_rng(seed)
    sizes = random.integers(3, 60, random.integers(1, 4))
    steps = np.concatenate([np.cumsum(random.integers(1, 9, size)) for size in sizes]).astype(float)
    begins = np.r_[0, np.cumsum(sizes)[:-1]]
    minutes = steps * random.uniform(0.01, 2) * (1 + random.choice([0.0, 0.01, 0.3, 3.0]) * random.random(len(steps)))
    unit = random.choice([0.01, 0.1, 1.0])
    low = np.floor(minutes / unit) * unit
    jumps = np.arange(1, len(begins)) if random.random() < 0.3 else None
    return {"steps": steps, "low": low, "high": low + unit, "begins": begins, "most_startup": 5 * steps.max(), "jumps": jumps}


@pytest.mark.parametrize("seed", range(60))
def test_the_paces_that_are_left_out_change_nothing(seed, monkeypatch):
    given = lines(seed)
    found = unsteadiness(**given)
    monkeypatch.setattr(steady._Bounds, "needed", plain)
    assert found == unsteadiness(**given)


def test_these_launches_are_steady_unsteady_and_impossible_ones():
    found = np.array([unsteadiness(**lines(seed)) for seed in range(60)])
    assert (found == 0).any()
    assert ((found > 0) & (found < CAP)).any()
