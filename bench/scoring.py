"""Counts, rates and their intervals for the bench of the diagnosis."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np

Z95 = 1.96


@dataclass(frozen=True)
class Outcome:
    """What became of one run. kind: its class, "" for a healthy one; hit: found in time.

    delay: rows from the first faulty row to the one at which it was known; rows: rows read; place: 0-based rank of the true
    cause among those given, None where it is not; asked: whether the log holds a sign of a cause; wrong: alarms of other
    classes that are not true of this run; theirs: for each baseline, (hit, false alarms).
    """

    kind: str
    made: str
    number: int
    form: str
    rows: int
    hit: bool = False
    delay: int | None = None
    place: int | None = None
    asked: bool = False
    wrong: tuple[str, ...] = ()
    verdict: str = ""
    theirs: dict[str, tuple[bool, int]] = field(default_factory=dict)


@dataclass(frozen=True)
class Score:
    """Precision, recall and F1 of one class with 95 % intervals, delays and causes."""

    kind: str
    found: int
    missed: int
    wrong: int
    f1_low: float
    f1_high: float
    delays: tuple[float, float] | None
    late: float | None
    causes: tuple[float, float] | None

    @property
    def precision(self) -> float:
        """Share of the alarms that were right; 1 without any."""
        return self.found / (self.found + self.wrong) if self.found + self.wrong else 1.0

    @property
    def recall(self) -> float:
        """Share of the faults that were found."""
        return self.found / (self.found + self.missed) if self.found + self.missed else 0.0

    @property
    def f1(self) -> float:
        """Harmonic mean of both."""
        return f1(self.found, self.missed, self.wrong)


def f1(found: float, missed: float, wrong: float) -> float:
    """Return F1 from counts."""
    return 2 * found / (2 * found + missed + wrong) if found + missed + wrong else 0.0


def wilson(hits: int, of: int) -> tuple[float, float]:
    """Return the 95 % Wilson interval of a share."""
    if not of:
        return 0.0, 1.0
    share, z2 = hits / of, Z95**2
    middle = (share + z2 / (2 * of)) / (1 + z2 / of)
    half = Z95 / (1 + z2 / of) * np.sqrt(share * (1 - share) / of + z2 / (4 * of**2))
    return float(max(middle - half, 0)), float(min(middle + half, 1))


def poisson(count: int) -> tuple[float, float]:
    """Return a 95 % interval of a count (Byar's approximation)."""
    low = count * (1 - 1 / (9 * count) - Z95 / (3 * np.sqrt(count))) ** 3 if count else 0.0
    high = (count + 1) * (1 - 1 / (9 * (count + 1)) + Z95 / (3 * np.sqrt(count + 1))) ** 3
    return float(low), float(high)


def score(kind: str, mine: Sequence[Outcome], everything: Iterable[Outcome]) -> Score:
    """Return the score of a class from its own runs and the false alarms of all runs."""
    found = sum(item.hit for item in mine)
    wrong = sum(name == kind for item in everything for name in item.wrong)
    delays = np.array([item.delay for item in mine if item.delay is not None], dtype=float)
    shares = np.array([item.delay / max(item.rows, 1) for item in mine if item.delay is not None])
    asked = [item.place for item in mine if item.asked and item.hit]
    rng = np.random.default_rng(len(mine))
    drawn = rng.binomial(len(mine), found / max(len(mine), 1), 2000)
    samples = [f1(int(a), len(mine) - int(a), int(b)) for a, b in zip(drawn, rng.poisson(wrong, 2000), strict=True)]
    low, high = np.percentile(samples, [2.5, 97.5])
    return Score(
        kind,
        found,
        len(mine) - found,
        wrong,
        float(low),
        float(high),
        (float(np.percentile(delays, 50)), float(np.percentile(delays, 90))) if len(delays) else None,
        float(100 * np.median(shares)) if len(shares) else None,
        (_share(asked, 1), _share(asked, 3)) if asked else None,
    )


def _share(places: Sequence[int | None], within: int) -> float:
    return sum(place is not None and place < within for place in places) / len(places)
