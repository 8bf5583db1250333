"""The evaluation losses of a launch, wherever they are printed, each tied to the training rows around it."""

from dataclasses import dataclass

import bottleneck as bn
import numpy as np
import pandas as pd

from analysis.evidence import at_step, where
from analysis.noise import TO_SIGMA
from analysis.segment import Segment
from messages import Text

NOISE_WINDOW = 24
LEAST = 6  # evaluations before one that can be called a jump
RECENT = 4
LEAST_NOISE = 0.001
NAMES = ("eval_loss", "loss", "logits_loss")


@dataclass(frozen=True, eq=False)
class Evaluations:
    """Evaluation losses in the order logged, finite and positive (k,); several of one step are averaged.

    counts (k,): how many were printed for each.
    column: name of the loss; steps (k,): NaN where none is printed; lines (k,): 0 where there are none.
    rows (k,): the first training row logged at or after each: from then on it counts. Behind the last row: the last row.
    """

    column: str
    steps: np.ndarray
    lines: np.ndarray
    rows: np.ndarray
    loss: np.ndarray
    counts: np.ndarray

    def __len__(self) -> int:
        return len(self.loss)

    def step(self, at: int) -> int | None:
        """Return the step of an evaluation, None where the log gives none."""
        return int(self.steps[at]) if np.isfinite(self.steps[at]) else None

    def line(self, at: int) -> int | None:
        """Return the line of an evaluation, None where the source has no lines."""
        return int(self.lines[at]) or None


def evaluations(segment: Segment) -> Evaluations | None:
    """Return the evaluation losses of a launch, None where there are none; worked out once a segment."""
    return segment.once("evaluations", lambda: _evaluations(segment))


def where_of(segment: Segment, known: Evaluations, at: int) -> Text:
    """Return the place of an evaluation as words for a sentence: its step, else that of the training row behind it."""
    step = known.step(at)
    return where(segment, int(known.rows[at])) if step is None else at_step(segment, step)


def noise_of(x: np.ndarray) -> np.ndarray:
    """Return the standard deviation of an evaluation, in logs, around a smooth course, from those up to each (k,)."""
    noise = np.full(len(x), 0.01)
    if len(x) >= 4:
        bends = np.abs(np.diff(x, 2))
        spread = TO_SIGMA * bn.move_median(bends, min(NOISE_WINDOW, len(bends)), 2) / np.sqrt(6)
        few = 1 + 3 / np.maximum(np.arange(len(bends)), 1)
        noise[2:] = np.where(np.isfinite(spread), spread * few, 0.01)
    return np.maximum(noise, LEAST_NOISE)


def jumped(x: np.ndarray, deviations: float, least_effect: float) -> np.ndarray:
    """Say between which evaluations and the one before (k - 1,) the logarithm of the loss jumps, judged by those before.

    A jump is off the usual change by `deviations` standard deviations of a change, by `least_effect` as a share of the level,
    and by twice the largest of the last changes: while an evaluation still falls fast, changes are large.
    """
    step = np.diff(x)
    if not len(step):
        return np.zeros(0, dtype=bool)
    near = min(RECENT, len(step))
    off = np.abs(step - before(bn.move_median(step, near, min(2, near))))
    usual = before(bn.move_max(np.where(np.isnan(off), np.inf, off), near, min(2, near)))
    limit = deviations * np.sqrt(2) * noise_of(x)[:-1]
    limit = np.fmax(limit, np.fmax(2 * np.where(np.isnan(usual), np.inf, usual), np.log1p(least_effect)))
    limit[: LEAST - 1] = np.inf
    return off > limit


def before(values: np.ndarray) -> np.ndarray:
    """Return what was known one place earlier (k,), NaN at the first."""
    return np.r_[np.nan, values[:-1]]


def _evaluations(segment: Segment) -> Evaluations | None:
    frame, name = segment.evals, next((name for name in NAMES if name in segment.evals), None)
    if name is None and segment.has("eval_loss"):
        frame, name = segment.rows, "eval_loss"
    if name is None:
        return None
    values = frame[name].to_numpy(dtype=np.float64)
    keep = np.flatnonzero(np.isfinite(values) & (values > 0))
    if not len(keep):
        return None
    steps, lines = _numbers(frame, "step", keep, np.nan), _numbers(frame, "line", keep, 0.0)
    groups = np.r_[True, np.diff(steps) != 0] if np.isfinite(steps).all() else np.ones(len(keep), dtype=bool)
    starts = np.flatnonzero(groups)
    counts = np.diff(np.r_[starts, len(keep)])
    loss = np.add.reduceat(values[keep], starts) / counts
    ends = np.r_[starts[1:], len(keep)] - 1
    rows = _rows(segment, frame, keep[ends], lines[ends], steps[ends])
    return Evaluations(name, steps[starts], lines[starts], rows, loss, counts)


def _rows(segment: Segment, frame: pd.DataFrame, at: np.ndarray, lines: np.ndarray, steps: np.ndarray) -> np.ndarray:
    """Return the training row from which on each evaluation is known."""
    if frame is segment.rows:
        return at
    if not len(segment):
        return np.zeros(len(at), dtype=int)
    if segment.has("line") and lines.all():
        rows = np.searchsorted(segment.rows["line"].to_numpy(), lines)
    else:
        rows = np.searchsorted(segment.steps(), steps)
    return np.minimum(rows, len(segment) - 1)


def _numbers(frame: pd.DataFrame, column: str, at: np.ndarray, missing: float) -> np.ndarray:
    if column not in frame:
        return np.full(len(at), missing)
    return np.nan_to_num(frame[column].to_numpy(dtype=np.float64, na_value=np.nan)[at], nan=missing)
