"""Curves of several runs over one x that means the same for all: steps, tokens, samples, share of the data, progress, time.

A run has an axis only when its log (or a person) says what it takes. Curves are put on common points: those of the run that
has the fewest where they overlap, other runs averaged around them, in the logarithm for losses.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from analysis.compare.conditions import Said, amount
from analysis.compare.subject import EPOCH, HIGHER_IS_BETTER, STEP, Curve, Subject
from messages import N_, Text

POINTS = 400  # common points at most
AXES = ("tokens", "samples", "epochs", "step", "progress", "hours", "gpu_hours", "money")
TITLES = {
    "step": N_("Step"),
    "tokens": N_("Tokens"),
    "samples": N_("Samples"),
    "epochs": N_("Passes over the data"),
    "progress": N_("Progress"),
    "hours": N_("Hours"),
    "gpu_hours": N_("GPU-hours"),
    "money": N_("Money"),
}
EQUAL = {
    "step": N_("at equal steps"),
    "tokens": N_("at equal tokens"),
    "samples": N_("at equal samples"),
    "epochs": N_("at equal passes over the data"),
    "progress": N_("at equal progress"),
    "hours": N_("at equal time"),
    "gpu_hours": N_("at equal GPU-hours"),
    "money": N_("at equal cost"),
}
Conditions = Mapping[str, Said]


@dataclass(frozen=True, eq=False)
class Aligned:
    """Curves on common points: x (m,) in units of `axis`, y (k, m), logarithms if `log`; metric: which.

    own: how many points of each run lie in the overlap (k,). window: runs of x that a point stands for, half on each side.
    """

    metric: str
    axis: str
    x: np.ndarray
    y: np.ndarray
    log: bool
    own: tuple[int, ...]

    def __len__(self) -> int:
        return len(self.x)


def axis_of(subject: Subject, said: Conditions, axis: str, *, price: float | None = None) -> Callable[..., np.ndarray] | None:
    """Return the function from steps (n,) to x, None where the run does not have that axis.

    price: of one GPU-hour, for money.
    """
    make = {
        "step": _steps,
        "tokens": _tokens,
        "samples": _samples,
        "epochs": _epochs,
        "progress": _progress,
        "hours": _hours,
        "gpu_hours": _gpu_hours,
        "money": lambda subject, said: _scaled(_gpu_hours(subject, said), price),
    }
    if axis not in make:
        raise ValueError(f"no axis {axis!r}; there are {', '.join(AXES)}")
    return make[axis](subject, said)


def common_axes(subjects: Sequence[Subject], said: Sequence[Conditions], *, price: float | None = None) -> tuple[str, ...]:
    """Return the axes that every run has."""
    pairs = list(zip(subjects, said, strict=True))
    return tuple(axis for axis in AXES if all(axis_of(one, its, axis, price=price) is not None for one, its in pairs))


def common_metrics(subjects: Sequence[Subject]) -> tuple[str, ...]:
    """Return the metrics that every run has, losses first."""
    first = ("loss", "logits_loss", "eval_loss", "perplexity", "reward", "grad_norm", "lr")
    return tuple(metric for metric in first if all(metric in one.curves for one in subjects))


def aligned(
    subjects: Sequence[Subject],
    said: Sequence[Conditions],
    metric: str,
    axis: str,
    *,
    price: float | None = None,
    names: Sequence[str] | None = None,
) -> Aligned | Text:
    """Return the curves of a metric on common points of an axis, or why that can't be done; names: of the runs in sentences."""
    curves, places = [], []
    for one, its, name in zip(subjects, said, names or [one.name for one in subjects], strict=True):
        curve, place = one.curves.get(metric), axis_of(one, its, axis, price=price)
        if curve is None:
            template = N_("{run} prints no finite {metric}") if metric in one.bad else N_("{run} does not print {metric}")
            return Text(template, {"run": name, "metric": metric})
        if place is None:
            return Text(N_("{run} does not tell {axis}"), {"run": name, "axis": Text(TITLES[axis])})
        curves.append(curve)
        places.append(place(curve.step))
    low, high = max(float(x[0]) for x in places), min(float(x[-1]) for x in places)
    inside = [int(np.sum((x >= low - _slack(low)) & (x <= high + _slack(high)))) for x in places]
    if low > high or not all(inside):
        return Text(N_("the runs do not overlap: one begins where another has ended"))
    log = metric not in HIGHER_IS_BETTER and all(float(curve.value.min()) > 0 for curve in curves)
    x = common_points(places, inside, low, high)
    y = np.array([_resampled(place, curve, x, log) for place, curve in zip(places, curves, strict=True)])
    return Aligned(metric, axis, x, y, log, tuple(inside))


def _slack(value: float) -> float:
    return 1e-9 * max(abs(value), 1e-9)


def common_points(places: Sequence[np.ndarray], inside: Sequence[int], low: float, high: float) -> np.ndarray:
    """Return the points of the run with the fewest in the overlap, thinned evenly to POINTS."""
    sparsest = places[int(np.argmin(inside))]
    x = sparsest[(sparsest >= low - _slack(low)) & (sparsest <= high + _slack(high))]
    return x if len(x) <= POINTS else np.linspace(low, high, POINTS + 1)[1:] - (high - low) / POINTS / 2


def _resampled(place: np.ndarray, curve: Curve, x: np.ndarray, log: bool) -> np.ndarray:
    """Return the mean of a curve around each common point, weighted by the values behind it; interpolated where it has none."""
    value = np.log(curve.value) if log else curve.value
    edges = (x[1:] + x[:-1]) / 2
    first, last = (edges[0] - x[0], x[-1] - edges[-1]) if len(x) > 1 else (0.0, 0.0)
    near = (place >= x[0] - first - _slack(x[0])) & (place <= x[-1] + last + _slack(x[-1]))
    bins = np.searchsorted(edges, place[near], side="right")
    weight = np.bincount(bins, curve.count[near], len(x))
    total = np.bincount(bins, curve.count[near] * value[near], len(x))
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.where(weight > 0, total / weight, np.interp(x, place, value))


def _steps(subject: Subject, said: Conditions) -> Callable[[np.ndarray], np.ndarray] | None:
    return (lambda steps: np.asarray(steps, dtype=float)) if subject.unit == STEP else None


def _counted(subject: Subject, metric: str) -> Callable[[np.ndarray], np.ndarray] | None:
    """Return what a counter of the log says at a step, from 0 at step 0 on."""
    curve = subject.curves.get(metric)
    if curve is None or np.any(np.diff(curve.value) < 0) or curve.value[-1] <= 0:
        return None
    steps, values = np.r_[0.0, curve.step], np.r_[0.0, curve.value]
    if curve.step[0] <= 0 or len(curve) < 2:
        steps, values = curve.step, curve.value
    return lambda at: np.asarray(np.interp(at, steps, values))


def _tokens(subject: Subject, said: Conditions) -> Callable[[np.ndarray], np.ndarray] | None:
    counted = _counted(subject, "tokens_seen")
    length = amount(said["sequence"].value) if "sequence" in said else None
    return counted or _scaled(_samples(subject, said), length)


def _samples(subject: Subject, said: Conditions) -> Callable[[np.ndarray], np.ndarray] | None:
    batch = amount(said["effective_batch"].value) if "effective_batch" in said else None
    return _counted(subject, "samples_seen") or _scaled(_steps(subject, said), batch)


def _epochs(subject: Subject, said: Conditions) -> Callable[[np.ndarray], np.ndarray] | None:
    if subject.unit == EPOCH:
        return lambda epochs: np.asarray(epochs, dtype=float)
    size = subject.last("steps_per_epoch")
    return _scaled(_steps(subject, said), 1 / size) if size and size > 0 else None


def _progress(subject: Subject, said: Conditions) -> Callable[[np.ndarray], np.ndarray] | None:
    total = subject.segment.total_steps if subject.unit == STEP else None
    return _scaled(_steps(subject, said), 1 / total) if total else None


def _hours(subject: Subject, said: Conditions) -> Callable[[np.ndarray], np.ndarray] | None:
    if subject.seconds(np.zeros(1)) is None:
        return None

    def hours(steps: np.ndarray) -> np.ndarray:
        seconds = subject.seconds(steps)
        return np.zeros(len(steps)) if seconds is None else np.maximum.accumulate(seconds) / 3600

    return hours


def _gpu_hours(subject: Subject, said: Conditions) -> Callable[[np.ndarray], np.ndarray] | None:
    gpus = amount(said["gpus"].value) if "gpus" in said else None
    return _scaled(_hours(subject, said), gpus)


def _scaled(
    place: Callable[[np.ndarray], np.ndarray] | None, factor: float | None
) -> Callable[[np.ndarray], np.ndarray] | None:
    return None if place is None or factor is None or factor <= 0 else lambda steps: place(steps) * factor
