"""The pace of an epoch by what a run prints as `epoch_time`, once its meaning is known or assumed."""

from collections.abc import Iterator
from functools import lru_cache

import numpy as np

from analysis.epoch_lines import Bounds, Lines, two_floors
from analysis.epoch_steady import Ways, unsteady_as
from analysis.steady import MOST_STARTUP, constant_paces

ONE, TWO, EITHER = "one floor", "two floors", "either"  # as what is left is printed: each loses part of a minute
MOST_LINES, LEAST_LINES = 240, 3  # that are looked at for steadiness; from which a pace is told without the first
AS_STEADY = 0.002  # two ways to print the same that are told apart by less are not
FIT_LINES = 8  # a stretch of fewer lines does not tell the pace where an earlier one does
KEPT = 16  # a launch asks for the same pace up to three times in a row
Pace = tuple[tuple[float, float, float], float]


@lru_cache(maxsize=KEPT)
def pace_of(lines: Lines, reading: str, floors: str) -> Pace | None:
    """Return minutes a step (low, middle, high; low and high as the print allows) and those of the start-up.

    From the last stretch that has enough lines: minutes passed = start-up + pace × steps. None where no line tells.
    floors: by which what is left was printed where its course does not tell.
    """
    lines, (told, low, high) = _likeliest(lines, floors) if reading == "remaining" else (lines, _plain(lines, reading))
    if not len(told):
        return None
    stretch = lines.stretch[told]
    number = stretch[-1]
    if number and (stretch == number).sum() < FIT_LINES:
        number -= 1
    here = stretch == number if (stretch == number).any() else np.ones(len(told), dtype=bool)
    begins = np.flatnonzero(np.diff(stretch[here], prepend=-1))
    return _pace(lines.since[told][here], low[here], high[here], begins, float(lines.size[-1]))


def _pace(since: np.ndarray, low: np.ndarray, high: np.ndarray, begins: np.ndarray, size: float) -> Pace:
    """Return the pace from bounds of the minutes passed (m,).

    The mean of what the lines say, if it is a pace that all of them allow or if none is; else the middle of those that are.
    """
    pace, startup, wide = _line(since, (low + high) / 2, (high - low) / 2)
    least, most = constant_paces(since, low, high, begins, pace, most_startup=MOST_STARTUP * size)
    if not least <= pace <= most:
        pace = (least + most) / 2
        startup = max(float(np.median((low + high) / 2 - pace * since)), 0.0)
    return (max(pace - wide, 0.0), pace, pace + wide), startup


def _plain(lines: Lines, reading: str) -> Bounds:
    """Return the lines that tell (their numbers) and the bounds of the minutes passed there, of a value printed by itself."""
    scale = lines.scale(reading)
    told = np.flatnonzero(np.isfinite(scale) & (scale > 0))
    middle, half, scale = lines.middle[told], lines.unit / 2, scale[told]
    return told, (middle - half) * scale, (middle + half) * scale


def _likeliest(lines: Lines, floors: str) -> tuple[Lines, Bounds]:
    """Return the lines with their steps counted, and the bounds of the minutes passed, in the way what is left was printed.

    By one floor or by two, at steps counted from 0 or from 1: the steadiest; of what is as steady, `floors` and as printed.
    """
    tried = _needs(lines, floors == TWO)
    if not tried:
        return lines, _plain(lines, "remaining")
    least = min(need for *_one, need in tried)
    good = [(counted, way) for counted, way, need in tried if need <= least + AS_STEADY]
    good = good[:1] if floors == ONE else good
    counted = good[0][0]
    told, low, high = zip(*(next(way(counted, "remaining")) for one, way in good if one is counted), strict=True)
    return counted, (told[0], np.minimum.reduce(low), np.maximum.reduce(high))


@lru_cache(maxsize=KEPT)
def _needs(lines: Lines, two: bool) -> tuple[tuple[Lines, Ways, float], ...]:
    """Return each way that can have printed what is left, with the steps as it counts them and how unsteady it is."""
    ways: tuple[Ways, ...] = (two_floors,) if two else (_alone, two_floors)
    tried = ((counted, way) for counted in lines.countings() for way in ways)
    return tuple(
        (counted, way, unsteady_as(counted.thinned(MOST_LINES), "remaining", way))
        for counted, way in tried
        if next(way(counted, "remaining"), None) is not None
    )


def _alone(lines: Lines, meaning: str) -> Iterator[Bounds]:
    yield _plain(lines, meaning)


def _line(since: np.ndarray, spent: np.ndarray, error: np.ndarray) -> tuple[float, float, float]:
    """Return (pace, start-up >= 0, half width of the pace that the print allows) from minutes passed (m,).

    The pace is that from the first line to those of the later half: between lines there is no start-up.
    """
    late = since > 0.5 * (since[0] + since[-1])
    steps, minutes, wide = since[late] - since[0], spent[late] - spent[0], error[late] + error[0]
    if late.sum() < LEAST_LINES or np.median(minutes) < 3 * np.median(wide):  # the print is too coarse for that
        steps, minutes, wide = since, spent, error
    weight = (steps / wide) ** 2
    pace = max(float(np.average(minutes / steps, weights=weight)), 0.0)
    startup = max(float(spent[0] - pace * since[0]), 0.0)
    return pace, startup, float(np.median(wide / steps) / np.sqrt(min(len(steps), 3)))
