"""The course of the learning rate in two runs: the same as far as both logs go, whatever they call it, or not.

A header may say nothing of the schedule, or the same of two that are not; the rates that were printed don't.
"""

from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from analysis.compare.subject import STEP, Curve, Subject

APART = 0.02  # of the highest rate of both: steps may be numbered from 0 or 1, and rates are printed with few digits
LEAST, LEAST_SHARE = 3, 0.05  # common points (and share of them) at which rates have to differ
WHOLE = 0.9  # share of the way of both that they must have in common for the whole course to be the same
UNNAMED = frozenset({"warmup", "other"})


@dataclass(frozen=True)
class Courses:
    """How the rates of two runs lie to each other over their common steps.

    rates: they differ. shape: so do they where each is taken relative to its highest. progress: at equal shares of their
    plans too (also where no plan is known). whole: the common steps are nearly all of both. widest: where they differ most.
    """

    rates: bool
    shape: bool
    progress: bool
    whole: bool
    widest: int


@lru_cache(maxsize=256)
def courses(a: Subject, b: Subject) -> Courses | None:
    """Return how the learning rates of two runs lie to each other, None where fewer than LEAST common steps show them."""
    one, other = _course(a), _course(b)
    common = _common(one, other) if one is not None and other is not None else None
    if one is None or other is None or common is None:
        return None
    x, y = common
    shape = _differ(y[0] / max(y[0].max(), 1e-300), y[1] / max(y[1].max(), 1e-300))
    longest = max(float(curve.step[-1] - curve.step[0]) for curve in (one, other))
    whole = float(x[-1] - x[0]) >= WHOLE * longest
    return Courses(_differ(*y), shape, _progress(a, b, one, other), whole, int(x[int(np.argmax(np.abs(y[0] - y[1])))]))


def course_words(one: Subject, name: str | None, at: int | None = None) -> str:
    """Return the course as a setting is written: `linear 0.0003…1e-05`; name: what the log calls it; at: a step to tell."""
    curve = _course(one)
    if curve is None:
        return name or "–"
    shape = one.schedule.shape if one.schedule is not None and one.schedule.shape not in UNNAMED else ""
    ends = [float(curve.value[0]), float(curve.value.max()), float(curve.value[-1])]
    kept = [rate for n, rate in enumerate(ends) if not n or abs(rate - ends[n - 1]) > APART * ends[1]]
    there = "" if at is None else f" ({_rate(float(np.interp(at, curve.step, curve.value)))} @ {at})"
    return f"{name or shape} {'…'.join(map(_rate, kept))}{there}".strip()


def _rate(value: float) -> str:
    """Return a rate as people write it, and as pages write numbers: 3e-4, 0.05."""
    if not 0 < value < 0.01:
        return f"{value:.3g}"
    digits, power = f"{value:.2e}".split("e")
    return f"{float(digits):g}e{int(power)}"


def _course(one: Subject) -> Curve | None:
    curve = one.curves.get("lr")
    return curve if curve is not None and one.unit == STEP and len(curve) >= LEAST and curve.value.max() > 0 else None


def _common(one: Curve, other: Curve, scale: tuple[float, float] = (1.0, 1.0)) -> tuple[np.ndarray, np.ndarray] | None:
    """Return (points of the sparser one where both are (m,), rates of both there (2, m)); steps are divided by `scale`."""
    places = one.step / scale[0], other.step / scale[1]
    low, high = max(place[0] for place in places), min(place[-1] for place in places)
    inside = [place[(place >= low) & (place <= high)] for place in places]
    x = min(inside, key=len)
    if len(x) < LEAST:
        return None
    return x, np.array([np.interp(x, place, curve.value) for place, curve in zip(places, (one, other), strict=True)])


def _differ(one: np.ndarray, other: np.ndarray) -> bool:
    far = np.abs(one - other) > APART * max(one.max(), other.max())
    return bool(far.sum() >= max(LEAST, LEAST_SHARE * len(far)))


def _progress(a: Subject, b: Subject, one: Curve, other: Curve) -> bool:
    plans = [run.segment.total_steps for run in (a, b)]
    common = _common(one, other, (float(plans[0]), float(plans[1]))) if plans[0] and plans[1] else None
    return common is None or _differ(*(rates / max(rates.max(), 1e-300) for rates in common[1]))
