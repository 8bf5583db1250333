"""Steps of a loss: the course of its block means, a line through those before, was left within one block, and stays.

A step that stays and is too small for a jump of single rows is one even where a few rows of it lie high enough together.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from analysis.episodes import Episode
from analysis.episodes import Limits as Jump
from analysis.ladder import Octave, ladder, near_noise
from analysis.noise import track
from analysis.segment import Segment

BEFORE, AFTER = 10, 4  # blocks compared
BLOCK_ROWS = 16  # at least
GOES_ON = 2.5  # standard deviations of a block by which the course may go on moving away behind a step
SMALL = 0.05  # in logs: a step up to it is no jump, however little noise the loss has
RISEN = 2.0  # standard deviations of a block by which all of a step up in a fall lie above the end of the fall


@dataclass(frozen=True)
class Limits:
    """What counts as a step: standard deviations of a block mean, and the least effect as a share of the level."""

    deviations: float = 4.0
    effect: float = 0.02


@dataclass(frozen=True)
class Shift:
    """A step: positions in the track from where on the course is compared, where it happened
    and was known, and the levels before and after in logs."""

    since: int
    at: int
    known: int
    before: float
    after: float

    def meets(self, jump: Episode) -> bool:
        """Say whether a jump began where the step is."""
        return abs(jump.first - self.at) <= self.known - self.at

    def stays(self, jump: Episode) -> bool:
        """Say whether a jump is this step: still there when that was known, and no higher than it takes for a jump."""
        small = 0 < self.after - self.before < max(Jump.two * jump.scale, SMALL)
        return small and (jump.back is None or jump.back > self.known)


def shifts(segment: Segment, column: str, limits: Limits = Limits()) -> tuple[Shift, ...]:
    """Return the steps of a loss, in the order in which they were known; worked out once a segment."""
    return segment.once(("shifts", column, limits), lambda: tuple(_steps(segment, column, limits)))


def _steps(segment: Segment, column: str, limits: Limits) -> Iterator[Shift]:
    for octave in ladder(segment, track(segment, column)):
        yield from _shifts(octave, limits.deviations, float(np.log1p(limits.effect)))


def _shifts(octave: Octave, deviations: float, effect: float) -> Iterator[Shift]:
    """Blocks whose course, a line through those before, was left by a step within one block."""
    merge = max(1, BLOCK_ROWS // octave.size)
    size, count = merge * octave.size, len(octave.means) // merge
    first = max(-(-octave.judge // merge), BEFORE + AFTER)
    if count <= first:
        return
    means = octave.means[: count * merge].reshape(-1, merge).mean(axis=1)
    noise = 1.5 * near_noise(means)
    ends = np.arange(first, count)
    at = np.arange(BEFORE) - (BEFORE - 1) / 2
    before = means[ends[:, None] - AFTER - BEFORE + np.arange(BEFORE)]
    after = means[ends[:, None] - AFTER + 1 + np.arange(AFTER)]
    slope = before @ at / (at @ at)
    unsure = 2 * noise[ends] / np.sqrt(at @ at)  # of a slope; a rise counts as one only if it is more than that
    slope = np.where(slope > 0, np.maximum(slope - unsure, 0.0), slope)
    level = before.mean(axis=1)
    bent = np.abs(before - level[:, None] - slope[:, None] * at).max(axis=1)
    expected = level[:, None] + slope[:, None] * (BEFORE + 1 - (BEFORE - 1) / 2 + np.arange(AFTER))
    off = after - expected
    least = np.maximum(deviations * noise[ends], effect)
    held = (np.abs(off).min(axis=1) > 0.6 * least) & (np.abs(off.mean(axis=1)) > least) & (np.ptp(np.sign(off), axis=1) == 0)
    # a bend of a steep course is no step; a fall that slows down never rises above where it was
    straight = np.abs(slope) * (BEFORE + AFTER) < np.abs(off.mean(axis=1))
    held &= straight | ((slope < 0) & (after.min(axis=1) > level + slope * at[-1] + RISEN * noise[ends]))
    flat = np.ptp(off, axis=1) < 0.8 * np.abs(off.mean(axis=1))
    flat &= (off[:, -1] - off[:, 0]) * np.sign(off.mean(axis=1)) < GOES_ON * noise[ends]  # else it is a slope
    for at_end in np.flatnonzero(held & flat & (bent < 0.6 * np.abs(off.mean(axis=1)))):
        block = int(ends[at_end])
        start, known = (block - AFTER) * size, (block + 1) * size - 1
        since = max(start - BEFORE * size, 0)
        yield Shift(since, start, known, float(expected[at_end].mean()), float(after[at_end].mean()))
