"""Runs of the same configuration: repeats, told apart by their seed at most. Their spread says what one run can't show."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from analysis.compare.align import Aligned
from analysis.compare.conditions import LOG, Said, kinds, plain_key, same
from analysis.compare.config_diff import is_compared
from analysis.compare.course import courses
from analysis.compare.difference import SEED_SPREAD, window_of
from analysis.compare.subject import Subject, one_program

SEEDS = frozenset({"seed"})
LEAST_KNOWN = 2  # conditions that repeats must both state; runs that state nothing are not known to be repeats
LEAST_POINTS = 4


@dataclass(frozen=True, eq=False)
class Band:
    """A group on common points: mean, lowest and highest (m,), in what the curves are in."""

    members: tuple[int, ...]
    mean: np.ndarray
    low: np.ndarray
    high: np.ndarray


def groups(subjects: Sequence[Subject], said: Sequence[Mapping[str, Said]]) -> list[tuple[int, ...]]:
    """Return the runs (positions) by configuration, each group in order; a run that is like no other is a group of its own.

    Two runs are repeats when one program wrote them, nothing that both state differs, seeds aside, both state at least two
    conditions, and their learning rates take the same course as far as both go.
    """
    found: list[tuple[dict[str, object], list[int]]] = []
    for number, (one, its) in enumerate(zip(subjects, said, strict=True)):
        mine = dict(_stated(one, its))
        near = (group for group in found if one_program(subjects[group[1][0]], one))
        home = next((group for group in near if _alike(group[0], mine) and _one_course(subjects[group[1][0]], one)), None)
        if home is None:
            found.append((mine, [number]))
        else:
            home[0].update({key: value for key, value in mine.items() if key not in home[0]})
            home[1].append(number)
    return [tuple(members) for _known, members in found]


def _one_course(one: Subject, other: Subject) -> bool:
    found = courses(one, other)
    return found is None or not found.rates


def _stated(one: Subject, said: Mapping[str, Said]) -> Iterator[tuple[str, object]]:
    for name, its in said.items():
        if name not in SEEDS and not (name == "schedule" and its.source == LOG):  # the course says more than its shape
            yield name, its.value
    for key, value in one.config.items():
        if is_compared(key) and plain_key(key) not in SEEDS:
            yield f"={key}", value


def _alike(one: Mapping[str, object], other: Mapping[str, object]) -> bool:
    both = [key for key in other if key in one]
    table = kinds()
    return sum(key in table for key in both) >= LEAST_KNOWN and all(
        same(one[key], other[key], 0.01 if key in table else 1e-9) for key in both
    )


def band(curves: Aligned, members: Sequence[int]) -> Band:
    """Return mean, lowest and highest of some of the aligned curves."""
    values = curves.y[list(members)]
    return Band(tuple(members), values.mean(axis=0), values.min(axis=0), values.max(axis=0))


def repeat_spread(curves: Sequence[tuple[Aligned, int, int]]) -> tuple[float, int]:
    """Return (standard deviation between two repeats, pairs behind it) from aligned pairs of repeats; at least SEED_SPREAD."""
    apart = []
    for pair, first, second in curves:
        if len(pair) >= LEAST_POINTS:
            values = pair.y[first] - pair.y[second]
            apart.append(float(values[-window_of(len(values)) :].mean()))
    if not apart:
        return SEED_SPREAD, 0
    return max(SEED_SPREAD, math.sqrt(float(np.mean(np.square(apart))))), len(apart)
