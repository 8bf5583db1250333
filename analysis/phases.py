"""The phases of a training run: warm-up, fast fall, slow fall, plateau, and a rise that lasts, each with its steps.

A description of the rows there are, for the reader of a chart; the rules judge on their own, row by row.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from analysis.losses import loss_kind
from analysis.noise import Track, track
from analysis.schedule import schedule
from analysis.segment import Segment
from messages import N_, Text

BLOCKS = 64
LEAST_ROWS = 24
LEAST_FALL = 0.03  # of the logarithm: less is no fall
LATE = 0.15  # of the run, that a plateau must last to be one
RISE_NOISE = 6  # times the noise of a block: the lowest of 64 blocks alone lies 2.4 below its level
RISE_BLOCKS = 4  # that a rise must last: a spike is no phase

WORDS = {
    "warmup": N_("Warm-up: the learning rate rises; a slow fall of the loss is normal"),
    "fast_fall": N_("Fast fall: the loss falls from {first:.4g} to {last:.4g}"),
    "slow_fall": N_("Slow fall: from {first:.4g} to {last:.4g}, which is the larger part of the work"),
    "plateau": N_("Plateau around {last:.4g}: small movements are normal after an adequate fall"),
    "flat": N_("No clear fall yet: the loss stays around {last:.4g}"),
    "rise": N_("Rise: from {first:.4g} to {last:.4g}, and it has not come down again"),
}


@dataclass(frozen=True)
class Phase:
    """A phase: kind is warmup, fast_fall, slow_fall, plateau, flat or rise; first and last step (of `segment.steps()`)."""

    kind: str
    first_step: int
    last_step: int
    text: Text


def phases(segment: Segment) -> tuple[Phase, ...]:
    """Return the phases of a launch in order, without gaps; empty where its loss says too little. Once a segment."""
    return segment.once("phases", lambda: tuple(_phases(segment)))


def _phases(segment: Segment) -> Iterator[Phase]:
    kind = loss_kind(segment)
    loss = track(segment, kind.main) if kind.main and kind.problem is None else None
    if loss is None or len(loss) < LEAST_ROWS:
        return
    steps, levels = _blocks(segment, loss)
    if not np.isfinite(steps).all() or np.any(np.diff(steps) <= 0):
        return  # steps that go backwards have no phases on their axis
    known = schedule(segment)
    begin = 0
    if known and known.warmup_end is not None and known.warmup_end > steps[0]:
        begin = min(int(np.searchsorted(steps, known.warmup_end)), len(steps) - 1)
        yield _phase("warmup", steps, levels, 0, begin)
    turn = _turn(levels, begin)
    if turn - begin > 2:
        yield from _falls(steps[: turn + 1], levels[:turn], begin)
    elif turn < len(levels):
        turn = begin
    if turn < len(levels):
        yield _phase("rise", steps, levels, turn, len(levels))


def _blocks(segment: Segment, loss: Track) -> tuple[np.ndarray, np.ndarray]:
    """Return the step at which each block of rows begins, and of the last row, and the median log loss of each."""
    count = min(BLOCKS, len(loss) // 4)
    edges = np.linspace(0, len(loss), count + 1).astype(int)
    levels = np.array([np.median(loss.x[a:b]) for a, b in zip(edges[:-1], edges[1:], strict=True)])
    steps = segment.steps()[loss.rows[np.r_[edges[:-1], len(loss) - 1]]]
    return steps, levels


def _turn(levels: np.ndarray, begin: int) -> int:
    """Return the block from which the loss rises and stays up to the end; the number of blocks where it does not."""
    y = levels[begin:]
    if len(y) <= RISE_BLOCKS:
        return len(levels)
    bar = max(LEAST_FALL, RISE_NOISE * _noise(y))
    turn = int(np.flatnonzero(y <= y.min() + bar / 2)[-1]) + 1
    last = y[-max(len(y) // 12, RISE_BLOCKS) :]
    lasts = len(y) - turn >= RISE_BLOCKS and last.min() - y.min() >= bar
    return begin + turn if lasts else len(levels)


def _noise(levels: np.ndarray) -> float:
    return max(float(np.median(np.abs(np.diff(levels, 2)))) / 1.65, 1e-4)


def _falls(steps: np.ndarray, levels: np.ndarray, begin: int) -> Iterator[Phase]:
    y, t = levels[begin:], steps[begin:-1]
    noise = _noise(y)
    end = float(np.median(y[-max(len(y) // 12, 1) :]))
    if y[0] - end < max(LEAST_FALL, 4 * noise):
        yield _phase("flat", steps, levels, begin, len(levels))
        return
    below = (y[0] - y) / (y[0] - end) - (t - t[0]) / (t[-1] - t[0])
    knee = begin + max(int(np.argmax(below)), 1)
    off = np.flatnonzero(np.abs(y - end) > max(3 * noise, 0.01))
    flat = begin + int(off[-1]) + 1 if len(off) else begin
    late = steps[-1] - steps[min(flat, len(levels) - 1)] >= LATE * (steps[-1] - steps[0])
    flat = max(flat, knee) if late else len(levels)
    yield _phase("fast_fall", steps, levels, begin, knee)
    if flat > knee:
        yield _phase("slow_fall", steps, levels, knee, flat)
    if flat < len(levels):
        yield _phase("plateau", steps, levels, flat, len(levels))


def _phase(kind: str, steps: np.ndarray, levels: np.ndarray, first: int, last: int) -> Phase:
    """Return the phase of blocks first…last-1; it reaches to the step at which the next block begins."""
    ends = levels[min(first, len(levels) - 1)], levels[max(min(last, len(levels)) - 1, 0)]
    gaps = {"first": float(f"{np.exp(min(ends[0], 690)):.6g}"), "last": float(f"{np.exp(min(ends[1], 690)):.6g}")}
    return Phase(kind, int(steps[first]), int(steps[last]), Text(WORDS[kind], gaps))
