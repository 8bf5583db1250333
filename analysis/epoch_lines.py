"""The lines of a launch that print `epoch_time`, and what each reading of them says of the time that had passed.

A value is what is left of the epoch, the whole of it or what has passed, as scripts print it: floored or rounded minutes, or
rounded decimals. Two floors, of the whole and of what has passed, are one way to print what is left.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from analysis.segment import Segment

MOST_ROWS = 2000
ABSURD = 1e12  # minutes and steps that no run has: such values are not read
UNITS = (1.0, 0.1, 0.01)  # minutes to which values are printed
FLOORED, ROUNDED = (0.0, 1.0), (-0.5, 0.5)  # in units, what a printed value may have been before
EARLY = 100.0  # steps: a first line before it is read as counted from 0 too
Bounds = tuple[np.ndarray, np.ndarray, np.ndarray]


@dataclass(frozen=True, eq=False)
class Lines:
    """Printed values: their rows (m,) and minutes as printed (m,); unit: the print unit in minutes.

    done: steps done in the epoch (m,); since: steps done since the epoch or a resume within it began; size: steps of an epoch;
    stretch: number of the epoch or resume.
    """

    row: np.ndarray
    minutes: np.ndarray
    unit: float
    done: np.ndarray
    since: np.ndarray
    size: np.ndarray
    stretch: np.ndarray

    def __len__(self) -> int:
        return len(self.row)

    @property
    def middle(self) -> np.ndarray:
        """The middle of what the print allows (m,): scripts floor whole minutes and round decimals."""
        return self.minutes + (self.unit / 2 if self.unit == 1.0 else 0.0)

    def bounds(self, meaning: str) -> tuple[np.ndarray, np.ndarray]:
        """Return the lowest and highest value that the print allows in any of its ways (m,).

        A difference of two floors, as MiniMind prints what is left, is up to a minute off in either direction: near the end
        of an epoch, where little is left, that would be hours if it were taken for a floor.
        """
        if meaning == "remaining" and self.unit == 1.0:
            return np.maximum(self.minutes - 1.0, 0.0), self.minutes + 1.0
        return self.middle - self.unit / 2, self.middle + self.unit / 2

    def scale(self, meaning: str) -> np.ndarray:
        """Return by what a value is multiplied to tell the minutes passed (m,); infinite where nothing is left."""
        with np.errstate(divide="ignore"):
            return {
                "remaining": self.since / np.maximum(self.size - self.done, 0.0),
                "elapsed": np.ones(len(self)),
                "total": self.since / self.size,
            }[meaning]

    def thinned(self, most: int) -> "Lines":
        """Return at most so many of the lines, evenly, the first and the last with them."""
        at = np.unique(np.linspace(0, len(self) - 1, min(most, len(self))).astype(int))
        names = ("row", "minutes", "done", "since", "size", "stretch")
        return replace(self, **{name: getattr(self, name)[at] for name in names})

    def countings(self) -> Iterator["Lines"]:
        """Yield the lines with their steps as printed, and counted from 0 where that makes a difference."""
        yield self
        if self.since[0] < EARLY:
            yield replace(self, done=np.floor(self.done) + 1, since=np.floor(self.since) + 1)


def lines_of(segment: Segment) -> Lines:
    """Return the lines of a launch that print epoch_time and their place in the epoch."""
    minutes, size = segment.values("epoch_time_minutes"), segment.values("steps_per_epoch")
    printed = segment.has("step_printed") and segment.has("epoch")
    steps = segment.values("step_printed") if printed else segment.steps()
    known = np.isfinite(minutes) & np.isfinite(size) & np.isfinite(steps)
    whole = (size >= 1) & (size < ABSURD) & (size == np.floor(size))
    keep = np.flatnonzero(known & whole & (minutes >= 0) & (minutes < ABSURD) & (np.abs(steps) < ABSURD))
    keep = keep[np.unique(np.linspace(0, len(keep) - 1, min(len(keep), MOST_ROWS)).astype(int))] if len(keep) else keep
    minutes, size, steps = minutes[keep], size[keep], steps[keep]
    done = np.maximum(steps - size * np.floor(np.maximum(steps - 1, 0) / size), 0.5)
    stretch = np.cumsum(np.diff(done, prepend=0) <= 0)
    units = (unit for unit in UNITS if np.allclose(minutes / unit, np.round(minutes / unit), rtol=0, atol=1e-6))
    return Lines(keep, minutes, next(units, 1e-3), done, done - _starts(done, stretch), size, stretch)


def _starts(done: np.ndarray, stretch: np.ndarray) -> np.ndarray:
    """Return where in the epoch each stretch began (m,): at its start, or at a resume if its first line is far from it."""
    if not len(done):
        return done
    first = np.flatnonzero(np.diff(stretch, prepend=-1) != 0)
    gaps = np.diff(done)
    usual = float(np.median(gaps[gaps > 0])) if (gaps > 0).any() else float(done[0])
    began = np.where(done[first] > 3 * usual, np.maximum(done[first] - usual, 0.0), 0.0)
    return began[np.searchsorted(first, np.arange(len(done)), side="right") - 1]


def passed(lines: Lines, meaning: str) -> Iterator[Bounds]:
    """Yield for each way to print a meaning the lines that tell (their numbers) and the bounds of the minutes passed there.

    A way that can't have printed the values yields nothing: time is said to be left where nothing is.
    """
    for low, high in (FLOORED, ROUNDED) if lines.unit == 1.0 else (ROUNDED,):
        scale = lines.scale(meaning)
        told = np.isfinite(scale)
        least, most = np.maximum(lines.minutes + low * lines.unit, 0.0), lines.minutes + high * lines.unit
        if not (least[~told] > 0).any():
            yield np.flatnonzero(told), (least * np.where(told, scale, 0.0))[told], (most * np.where(told, scale, 0.0))[told]
    if meaning == "remaining":
        yield from two_floors(lines)


def two_floors(lines: Lines, _meaning: str = "remaining") -> Iterator[Bounds]:
    """Yield the same for floor(whole) - floor(passed), as which whole minutes that are left may be printed.

    Passed is between a and a + 1 for a whole a >= 0, and the whole is passed ÷ share: the lowest and the highest a that go.
    """
    if lines.unit != 1.0 or (lines.minutes[lines.done >= lines.size] > 0).any():
        return
    told = np.flatnonzero(lines.done < lines.size)
    since, left = lines.since[told], lines.minutes[told]
    share = since / (since + (lines.size - lines.done)[told])
    first = np.maximum(np.floor((left * share - 1) / (1 - share)) + 1, 0.0)
    last = np.maximum(np.ceil((left + 1) * share / (1 - share)) - 1, first)
    yield told, np.maximum(first, (first + left) * share), np.minimum(last + 1, (last + left + 1) * share)
