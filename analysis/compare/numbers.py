"""The figures of one run in a comparison: where it began and ended, how far it fell, what it took to get there."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from analysis.compare.align import axis_of
from analysis.compare.conditions import Said
from analysis.compare.difference import second_difference_noise, student_quantile, window_of
from analysis.compare.subject import Curve, Subject
from analysis.compare.target import Target

Triple = tuple[float, float, float]
REACHED = ("step", "tokens", "samples", "epochs", "hours", "gpu_hours", "money")
SMOOTHED = 40  # parts of a run, over each of which its curve is averaged before it is asked when it reached a level


@dataclass(frozen=True)
class Numbers:
    """What is told of one run; None: the log does not say.

    first: loss at its start, the mean of its first `first_rows` rows (one, unless the run is long); end: its level there, the
    mean of its last `end_points` points (a fifth of them, more where they are few); fall: share of the first loss that
    it lost (low, middle, high). reached: what it took to the target (low, middle, high) by axis, empty where it was not
    reached. step_seconds: (low, middle, high). throughput: a second, of `unit`. memory: peak bytes. hours, gpu_hours, money: so
    far. goodput: share of the time that was productive.
    """

    metric: str | None
    first: float | None = None
    first_rows: int = 0
    end: float | None = None
    end_points: int = 0
    fall: Triple | None = None
    reached: Mapping[str, Triple] | None = None
    step_seconds: Triple | None = None
    throughput: float | None = None
    unit: str = ""
    memory: float | None = None
    steps: float | None = None
    hours: float | None = None
    gpu_hours: float | None = None
    money: float | None = None
    goodput: float | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON form; intervals as low, middle, high."""
        plain = {name: getattr(self, name) for name in self.__annotations__}
        return plain | {"reached": {axis: list(span) for axis, span in (self.reached or {}).items()}}


def numbers(
    subject: Subject,
    said: Mapping[str, Said],
    *,
    metric: str | None,
    target: Target | None = None,
    price: float | None = None,
    goodput: float | None = None,
) -> Numbers:
    """Return the figures of a run; target: what is to be reached."""
    curve = subject.curves.get(metric or "")
    pace = subject.step_seconds
    unit, throughput = _throughput(subject, pace)
    figures: dict[str, Any] = {"step_seconds": pace, "unit": unit, "throughput": throughput, "memory": _memory(subject)}
    figures |= {"goodput": goodput, "steps": _last_step(subject)}
    for name in ("hours", "gpu_hours", "money"):
        place = axis_of(subject, said, name, price=price)
        figures[name] = float(place(np.array([figures["steps"]]))[0]) if place and figures["steps"] else None
    if curve is None or not len(curve):
        return Numbers(metric, **figures)
    level = level_of(curve)
    figures |= {"first": float(curve.value[0]), "first_rows": int(curve.count[0])}
    figures |= {"end": level[1], "end_points": window_of(len(curve))}
    figures["fall"] = _fall(curve, level)
    if target is not None:
        figures["reached"] = _reached(subject, said, curve, target.loss(curve), price)
    return Numbers(metric, **figures)


def _last_step(subject: Subject) -> float | None:
    ends = [curve.step[-1] for curve in subject.curves.values() if len(curve)]
    return float(max(ends)) if ends else None


def level_of(curve: Curve) -> Triple:
    """Return the level of a curve over the last fifth of its points: (low, middle, high)."""
    window = window_of(len(curve))
    late = curve.value[-window:]
    middle = float(late.mean())
    error = second_difference_noise(curve.value[-max(2 * window, 8) :]) / math.sqrt(window)
    error = 2 * error if math.isfinite(error) else 0.0
    return middle - error, middle, middle + error


def _fall(curve: Curve, level: Triple) -> Triple | None:
    first = float(curve.value[0])
    if first <= 0 or len(curve) < 2:
        return None
    low, middle, high = (1 - value / first for value in reversed(level))
    return low, middle, high


def _reached(subject: Subject, said: Mapping[str, Said], curve: Curve, target: float, price: float | None) -> dict[str, Triple]:
    """Return what it took to the target by axis: where the smoothed curve first is as low, and stays there on the whole."""
    if float(curve.value.min()) <= 0 or target <= 0 or len(curve) < 2:
        return {}
    window = max(1, len(curve) // SMOOTHED)
    smooth = _smoothed(np.log(curve.value), window)
    noise = second_difference_noise(np.log(curve.value))
    freedom = max(0.51 * (len(curve) - 2), 1.0)
    error = student_quantile(0.975, round(freedom, 1)) * noise / math.sqrt(window) if math.isfinite(noise) else 0.0
    ends = [_crossing(curve.step, smooth, math.log(target) + shift) for shift in (error, 0.0, -error)]
    early, middle, late = ends
    if middle is None:
        return {}
    steps = np.array([early if early is not None else middle, middle, late if late is not None else np.nan])
    found = {}
    for axis in REACHED:
        place = axis_of(subject, said, axis, price=price)
        if place is not None:
            low, value, high = (float(x) for x in place(np.where(np.isnan(steps), curve.step[-1], steps)))
            found[axis] = (low, value, high if np.isfinite(steps[2]) else math.inf)
    return found


def _smoothed(values: np.ndarray, window: int) -> np.ndarray:
    """Return the centred moving mean (n,), narrower at the ends."""
    sums = np.cumsum(np.r_[0.0, values])
    at = np.arange(len(values))
    half = np.minimum(np.minimum(at, len(values) - 1 - at), window // 2)
    return np.asarray((sums[at + half + 1] - sums[at - half]) / (2 * half + 1))


def _crossing(x: np.ndarray, values: np.ndarray, target: float) -> float | None:
    """Return where a curve is first as low as the target, between two points on the line from one to the other."""
    below = np.flatnonzero(values <= target)
    if not len(below):
        return None
    at = int(below[0])
    if not at:
        return float(x[0])
    share = (values[at - 1] - target) / max(values[at - 1] - values[at], 1e-300)
    return float(x[at - 1] + share * (x[at] - x[at - 1]))


def _throughput(subject: Subject, pace: Triple | None) -> tuple[str, float | None]:
    for unit in ("tokens_per_second", "samples_per_second", "steps_per_second"):
        curve = subject.curves.get(unit)
        if curve is not None and len(curve):
            return unit, float(np.median(curve.value))
    return ("steps_per_second", 1 / pace[1]) if pace and pace[1] > 0 else ("", None)


def _memory(subject: Subject) -> float | None:
    for metric in ("memory_peak_bytes", "memory_bytes"):
        curve = subject.curves.get(metric)
        if curve is not None and len(curve):
            return float(curve.value.max())
    return None
