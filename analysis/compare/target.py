"""The loss that “what it took” is about: one for all runs, or a share of the first loss of each where levels do not compare."""

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from analysis.compare.subject import Curve

_WRITTEN = re.compile(r"([0-9]*[.,]?[0-9]+(?:e[+-]?[0-9]+)?)\s*([%％]?)", re.IGNORECASE)
HAIR = 1.0005  # above the level that all reached, so that each of them has
DIGITS, LONGEST = 3, 40


@dataclass(frozen=True)
class Target:
    """value: a loss, or if `of_first` the share of the first loss of a run that is left (0.6: it has lost 40 %)."""

    value: float
    of_first: bool = False

    def loss(self, curve: Curve) -> float:
        """Return the target as a value of a curve."""
        return self.value * float(curve.value[0]) if self.of_first else self.value

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON form."""
        return {"share_of_first" if self.of_first else "value": self.value}


def target_of(written: str | None) -> Target | None:
    """Return the target that a person wrote: `4.5`, or `60 %` of the first loss; None for nothing. Raises ValueError."""
    written = (written or "").strip()
    if not written:
        return None
    found = _WRITTEN.fullmatch(written) if len(written) <= LONGEST else None
    value = float(found[1].replace(",", ".")) if found else math.nan
    if found is None or not (math.isfinite(value) and value > 0):
        raise ValueError(f"{written[:LONGEST]!r} is no loss to reach: write a number, or a share of the first loss as 60%")
    return Target(value / 100, True) if found[2] else Target(value)


def reached_by_all(curves: Sequence[Curve], levels: Sequence[float], *, of_first: bool) -> Target | None:
    """Return the lowest target that every curve reached, with three digits; levels: where each ended."""
    ends = [level / float(curve.value[0]) if of_first else level for curve, level in zip(curves, levels, strict=True)]
    if not ends or not max(ends) > 0 or of_first and any(curve.value[0] <= 0 for curve in curves):
        return None
    return Target(float(f"{max(ends) * HAIR:.{DIGITS}g}"), of_first)
