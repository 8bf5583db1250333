"""How large the difference between two aligned runs is, against their own noise.

What is compared is the level over the last fifth of the common way (more where that has few points). In the logarithm of the
loss the difference of two runs hardly has a trend, so its noise is what it does around a line over its later half. From it
comes the standard error of the mean: whitened by its correlation from one point to the next, the rest by a moving-block
bootstrap in closed form. To this comes what one run of a configuration can't show: how far its repeats lie apart
(SEED_SPREAD, or what the repeats at hand show).
"""

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.polynomial.legendre import legvander  # numpy loads it late: 9 ms of the first comparison

from analysis.compare.align import EQUAL, Aligned
from analysis.losses import LOSSES
from messages import N_, Text

LEVEL = 0.96  # meant are 95 %: the noise is an estimate itself, and simulated repeats say what that costs
WINDOW, WIDEST, ENOUGH = 0.2, 0.5, 100  # share of the way that is compared; up to WIDEST until it has ENOUGH points
FEW = 40
LEAST, LATE = 4, 100  # common points it takes; points that tell the noise, if four fifths of the way have them
DEGREE = 2  # of the polynomial that the difference of two runs may follow over its later half
TELLING = 16  # points that tell how much of the noise is carried on
ASSUMED = 0.4  # of the noise of a point carried on to the next, where points are too few to tell
MOST_CARRIED = 0.97
# Losses that were averaged before they were printed: each point carries on most of the one before, so that a few hundred rows
# hold few independent ones, and what looks like a difference may be one hard batch that both averages still remember.
LONG_MEMORY, LEAST_FREE = 0.7, 9  # share carried on, independent points below which nothing but HIDDEN bounds the noise
MANY = 200  # points around a course that tell the share carried on by themselves
HIDDEN, SURE = 100, 3  # noise of a single batch over that of a change, for averages over up to so many; in how many deviations
# Fewer than FEW points do not tell averages from single values at all. Two averages begun at their first rows may then lie as
# far apart as the noise of those: 3 % a row is usual, so that 95 % of such pairs lie within this (in the logarithm).
UNTOLD = 1.96 * math.sqrt(2) * 0.03
SEED_SPREAD = 0.0025  # standard deviation between two repeats of one configuration, relative; measured, see docs/compare.md
PERCENT, PLAIN = N_("{difference} % ± {error}"), N_("{difference} ± {error}")
FACTOR = N_("a factor of {times} ({low} to {high})")
FAR = math.log(2)  # from where on, with its error, a difference is said as a factor: no loss is 140 % below another
# `amount` is one of these, `where` one of the messages of `EQUAL`: the interface translates them before it fills the gaps.
BETTER = N_("{better} is better than {worse} by {amount} {where}")
LOWER = N_("{better} ends {amount} below {worse} {where}, and nothing in the logs tells the two apart")
RELATIVE = N_("{better} has fallen further: relative to its start its loss is {amount} below that of {worse} {where}")
ALIKE = N_("{better} and {worse} are not distinguishable: {amount} {where}")
AVERAGES = N_(
    "{better} and {worse} are not distinguishable: the printed losses are averages, "
    "and {points} such points are too few to tell their noise ({amount} {where})"
)
HIDDEN_ALIKE = N_("{better} and {worse} are not distinguishable: their noise is so large that it hides any difference {where}")
HIDDEN_AVERAGES = N_(
    "{better} and {worse} are not distinguishable {where}: the printed losses are averages, "
    "and {points} such points are too few to tell their noise"
)
FROM_START = N_("relative to their starts, {said}")
NO_INTERVAL = N_("{better} and {worse} have too few common points to tell noise from difference")


@dataclass(frozen=True)
class Difference:
    """What lies between two runs.

    value: relative difference of the first to the second, positive where the first is higher (logarithmic: ln a - ln b),
    None where nothing can be said. error: half of its interval. distinguishable: zero lies outside of it.
    points: common points behind it; first_is_better: None where not distinguishable. averages: the losses were averaged
    before they were printed, and the points are too few for that. few: too few of a training loss to tell whether it was.
    """

    axis: str
    metric: str
    value: float | None
    error: float | None
    points: int
    distinguishable: bool
    first_is_better: bool | None
    log: bool = True
    averages: bool = False
    few: bool = False

    @property
    def relative(self) -> float | None:
        """Return the difference as a share: 0.03 for 3 % more (of absolute metrics: the difference)."""
        return None if self.value is None else math.expm1(self.value) if self.log else self.value

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON form; `difference` is relative, of the first run to the second."""
        low, high = (None, None) if self.value is None or self.error is None else self.interval
        return {
            "axis": self.axis,
            "metric": self.metric,
            "difference": self.relative,
            "low": low,
            "high": high,
            "points": self.points,
            "distinguishable": self.distinguishable,
            "averages": self.averages,
        }

    @property
    def below(self) -> tuple[float, float]:
        """Return how far the lower run lies below the other in percent of that, and the error, both as they are printed.

        If not `log`, in units of the metric.
        """
        value, error = abs(self.value or 0.0), self.error or 0.0
        return _percent(-value, error) if self.log else paired_digits(value, error)

    @property
    def hidden(self) -> bool:
        """Say whether the interval is so wide that it says nothing: from less than half to more than twice the other loss."""
        return self.log and not self.distinguishable and (self.error or 0.0) > FAR

    @property
    def amount(self) -> Text:
        """Return the same in words, a factor where it is large, and in units of the metric where that is not logarithmic."""
        return self._words(self.below)

    @property
    def beside_second(self) -> Text:
        """Return how far the first run lies from the second in words, as a share of the second."""
        return self._words(_percent(self.value or 0.0, self.error or 0.0) if self.log else self.below)

    def _words(self, percent: tuple[float, float]) -> Text:
        value, error = abs(self.value or 0.0), self.error or 0.0
        if self.log and value + error > FAR:
            times, low, high = (math.exp(min(end, 50)) for end in (value, value - error, value + error))
            ends = zip(("times", "low", "high"), (times, low, high), strict=True)
            wide = error > FAR  # then rounding to the error would leave nothing of its ends
            return Text(FACTOR, {name: _two(end) if wide else paired_digits(end, times - low)[0] for name, end in ends})
        return Text(PERCENT if self.log else PLAIN, {"difference": percent[0], "error": percent[1]})

    @property
    def interval(self) -> tuple[float, float]:
        """Return the relative interval (low, high)."""
        value, error = self.value or 0.0, self.error or 0.0
        ends = value - error, value + error
        return (math.expm1(min(ends[0], 50)), math.expm1(min(ends[1], 50))) if self.log else ends


def difference(
    curves: Aligned,
    first: int,
    second: int,
    *,
    higher_is_better: bool = False,
    spread: float = SEED_SPREAD,
    tests: int = 1,
    start: float = 0.0,
) -> Difference:
    """Return what lies between two of the aligned runs at the end of their common way.

    spread: between repeats, as standard deviation of the difference; tests: how many differences are looked at together
    (each interval widens so that all hold at once). start: standard deviation of what both curves were shifted by, where they
    are taken relative to their first losses.
    """
    apart = curves.y[first] - curves.y[second]
    apart = apart[np.isfinite(apart)]
    error = standard_error(apart)
    if not len(apart) or error is None:
        return Difference(curves.axis, curves.metric, None, None, len(apart), False, None, curves.log)
    deviation, freedom, window = error
    value = float(apart[-window:].mean())
    scale = 1.0 if curves.log else max(abs(float(curves.y[[first, second]][:, -window:].mean())), 1e-12)
    total = math.hypot(deviation, spread * scale, start)
    # The spread is taken as known: the fewer degrees of freedom belong to the share of the noise only (Welch-Satterthwaite).
    freedom = freedom * (total / deviation) ** 4 if deviation > 0 else math.inf
    half = student_quantile(1 - (1 - LEVEL) / (2 * max(tests, 1)), round(min(max(freedom, 1.0), 1e5), 1)) * total
    hidden = hidden_noise(apart)
    few = curves.log and curves.metric in LOSSES and len(apart) < FEW
    half = max(half, SURE * (hidden or 0.0), UNTOLD if few else 0.0)
    clear = abs(value) > half
    return Difference(
        curves.axis,
        curves.metric,
        value,
        half,
        len(apart),
        clear,
        ((value > 0) == higher_is_better) if clear else None,
        curves.log,
        hidden is not None,
        few,
    )


def hidden_noise(apart: np.ndarray) -> float | None:
    """Return how large the noise of single batches may be behind averages, None where `apart` (n,) does not look like such."""
    if len(apart) < TELLING:
        return None
    late = apart[-max(len(apart) // 2, min(int(0.8 * len(apart)), LATE)) :]
    carried, around = memory(apart), carried_on(_off_course(late))
    if around < carried + 4 / math.sqrt(len(late)):  # else it is a course
        # Many points tell it by themselves; the changes of means over several rows go on by that alone.
        carried = around if len(late) >= MANY else max(carried, around)
    if carried < LONG_MEMORY or len(late) * (1 - carried) / (1 + carried) >= LEAST_FREE:
        return None
    changes = _off_course(np.diff(late))
    return HIDDEN * float(np.sqrt(np.mean(changes**2))) / math.sqrt(2)


def memory(apart: np.ndarray) -> float:
    """Return the share carried on that the changes from point to point tell (0…1), whatever course they are on."""
    changes = _off_course(np.diff(apart))
    power = float(changes @ changes)
    seen = float(changes[1:] @ changes[:-1]) / power if power > 0 else -0.5
    return min(max(1 + 2 * seen + 1 / math.sqrt(len(changes)) * (len(apart) < FEW), 0.0), 1.0)


def standard_error(apart: np.ndarray) -> tuple[float, float, int] | None:
    """Return (standard error of the mean over the window, degrees of freedom, its points); None below LEAST points."""
    count = len(apart)
    window = window_of(count)
    if count >= FEW:
        late = apart[-max(count // 2, min(int(0.8 * count), LATE)) :]
        deviation, freedom = mean_deviation(late, window)
        return deviation, freedom, window
    if count >= LEAST:
        carried = max(ASSUMED, carried_on(_off_course(apart)) if count >= TELLING and not _has_course(apart) else 0.0)
        noise = second_difference_noise(apart) / math.sqrt(1 - (8 * carried - 2 * carried**2) / 6)
        return noise * _mean_share(carried, window), 0.51 * (count - 2), window
    return None


def window_of(count: int) -> int:
    """Return how many of the last common points are compared."""
    return max(1, round(count * min(max(WINDOW, ENOUGH / max(count, 1)), WIDEST if count >= FEW else WINDOW)))


def second_difference_noise(values: np.ndarray) -> float:
    """Return the noise of one point (standard deviation) around any smooth course."""
    with np.errstate(over="ignore"):
        return float(np.sqrt(np.mean(np.diff(values, 2) ** 2) / 6)) if len(values) >= 3 else math.nan


def _off_course(values: np.ndarray) -> np.ndarray:
    """Return what values (n,) do around their course, a polynomial of degree DEGREE."""
    basis = _course(len(values))
    return np.asarray(values - basis @ (basis.T @ values))


@lru_cache(maxsize=64)
def _course(count: int) -> np.ndarray:
    """Return an orthonormal basis (count, DEGREE + 1, or fewer for fewer values) of the polynomials of degree DEGREE."""
    return np.linalg.qr(legvander(np.linspace(-1, 1, count), DEGREE))[0]


def _mean_share(carried: float, points: int) -> float:
    """Return the deviation of the mean of so many points over that of one, each carrying on a share of the one before."""
    lags = np.arange(1, points)
    return math.sqrt((1 + 2 * float(np.sum((1 - lags / points) * carried**lags))) / points)


def mean_deviation(values: np.ndarray, points: int) -> tuple[float, float]:
    """Return (standard error of the mean of so many points with the noise of such values, degrees of freedom).

    The noise is whitened by its own correlation from one point to the next; what correlation is left is that of a moving-
    block bootstrap of the whitened noise, in closed form: the limit over all draws needs no drawing.
    """
    count = len(values)
    if _has_course(values):
        carried, deviation = _from_changes(values)
        return deviation * _mean_share(carried, points), max(count / 2 * (1 - carried) / (1 + carried), 1.0)
    noise = _off_course(values)
    carried = carried_on(noise)
    white = noise[1:] - carried * noise[:-1]
    deviation = block_deviation(white) * math.sqrt(len(white) / max(count - DEGREE - 2, 1))
    freedom = count * (1 - carried) / (1 + carried) - DEGREE - 1
    return deviation / math.sqrt(1 - carried**2) * _mean_share(carried, points), max(freedom, 1.0)


def _has_course(values: np.ndarray) -> bool:
    """Say whether values follow a course that no polynomial of DEGREE takes out: far smoother than their changes are."""
    carried, _deviation = _from_changes(values)
    return carried_on(_off_course(values)) > carried + 4 / math.sqrt(len(values))


def _from_changes(values: np.ndarray) -> tuple[float, float]:
    """Return (share carried on, deviation of one point) of noise from the changes between points, which no course enters."""
    changes = np.diff(values)
    changes = changes - changes.mean()
    power = float(changes @ changes)
    seen = float(changes[1:] @ changes[:-1]) / power if power > 0 else 0.0
    carried = min(max(1 + 2 * seen, 0.0) + 1 / math.sqrt(len(values)), 0.9)
    return carried, math.sqrt(power / max(len(changes) - 1, 1) / (2 * (1 - carried)))


def carried_on(noise: np.ndarray) -> float:
    """Return how much of the noise is carried on from one point to the next, 0…0.97.

    In a short series, and one that its course was taken from, it looks smaller than it is: that is put right.
    """
    power, count = float(noise @ noise), len(noise)
    seen = float(noise[1:] @ noise[:-1]) / power if power > 0 else 0.0
    likely = min(max((count * seen + DEGREE + 1) / max(count - DEGREE - 3, 1), 0.0), MOST_CARRIED)
    return min(likely + 0.5 * math.sqrt(max(1 - likely**2, 0.0) / count), MOST_CARRIED)


def block_deviation(noise: np.ndarray) -> float:
    """Return the deviation whose square over n is the variance of a moving-block bootstrap of the mean of n points."""
    count = len(noise)
    length = int(min(max(round(count ** (1 / 3)), 1), count // 4)) if count >= FEW else 1
    sums = np.cumsum(np.r_[0.0, noise - noise.mean()])
    means = (sums[length:] - sums[:-length]) / length
    return math.sqrt(length * float(np.mean(means**2)) * count / max(count - length, 1))


def sentence(found: Difference, names: tuple[str, str], *, told_apart: bool = True, relative: bool = False) -> Text:
    """Return the verdict about two runs as a sentence.

    told_apart: something in the logs differs between them; relative: each loss was taken relative to its first.
    """
    from_first = found.value is not None and found.value <= 0
    lower = from_first if found.first_is_better is None else found.first_is_better
    better, worse = names if lower else names[::-1]
    if found.value is None or found.error is None:
        return Text(NO_INTERVAL, {"better": names[0], "worse": names[1]})
    gaps = {"better": better, "worse": worse, "amount": found.amount, "where": Text(EQUAL[found.axis])}
    if not found.distinguishable:
        gaps |= {"points": found.points} if found.averages else {}
        gaps.pop("amount") if found.hidden else None
        alike, averages = (HIDDEN_ALIKE, HIDDEN_AVERAGES) if found.hidden else (ALIKE, AVERAGES)
        said = Text(averages if found.averages else alike, gaps)
        return Text(FROM_START, {"said": said}) if relative else said
    return Text(RELATIVE if relative else BETTER if told_apart else LOWER, gaps)


def _percent(value: float, error: float) -> tuple[float, float]:
    """Return a difference of logarithms and its error in percent, as they are printed."""
    low, high = (math.expm1(min(end, 50)) for end in (value - error, value + error))
    return paired_digits(100 * abs(math.expm1(min(value, 50))), 50 * (high - low))


def _two(value: float) -> float | int:
    value = float(f"{value:.2g}")
    return int(value) if value == int(value) else value


def paired_digits(value: float, error: float) -> tuple[float, float]:
    """Return value and error to be printed: the error with one digit (two if it begins with 1), the value as exact as it."""
    if not (math.isfinite(value) and math.isfinite(error)) or error <= 0:
        return float(f"{value:.2g}"), error
    digits = -math.floor(math.log10(error))
    digits += float(f"{error:.1e}") < 2 * 10.0**-digits
    amounts = round(value, digits), round(error, digits)
    return (int(amounts[0]), int(amounts[1])) if digits <= 0 else amounts


@lru_cache(maxsize=1024)
def student_quantile(share: float, freedom: float) -> float:
    """Return the quantile of Student's t for a share above 0.5 and at least 1 degree of freedom.

    With t = √v tan θ its density goes with cos θ to the power v - 1, which is summed on a grid.
    """
    angle = np.linspace(0, min(math.pi / 2, 12 / math.sqrt(freedom)), 20_001)
    density = np.cos(angle) ** (freedom - 1)
    passed = np.cumsum((density[1:] + density[:-1]) / 2)
    at = np.interp((2 * share - 1) * passed[-1], np.r_[0.0, passed], angle)
    return float(math.sqrt(freedom) * math.tan(at))
