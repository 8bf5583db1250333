"""The loss suddenly dips, or is lower than it can honestly be.

Meaning: The loss drops below its course from one row to the next, as if the task had become easier. A dip that follows a
step of the learning rate belongs to the schedule, one at the start of an epoch to the repetition; both are only noted. A
model that starts untrained and is near zero after a few percent of its plan is not good but informed of the answers.

Causes: Samples that were seen before (repeated, duplicated or leaked data), a shuffle that does not shuffle, an attention
mask or label shift that shows the answer, or another, easier source of data.

What to do: Look at the samples of these steps, compare their ids with earlier ones, and check the shuffling and the mask.
Judge the run by an evaluation loss on data that it can't have seen.

Source: repeated samples as an injected fault in the source articles; criterion in the run's own noise.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import bottleneck as bn
import numpy as np

from analysis.attribution import explain
from analysis.belonging import in_rise, in_swing
from analysis.evidence import fact, finding_at, median_fact, unlog, where
from analysis.findings import Finding, Severity
from analysis.first_loss import first_loss
from analysis.losses import loss_kind
from analysis.noise import TO_SIGMA, WINDOW, Track, track, trailing
from analysis.schedule import rates
from analysis.segment import Segment
from messages import N_, Text

NEEDS = ("loss|logits_loss",)
LEVEL = True
ROWS = 60
OF, RAISED = 8, 5  # so many of the last rows must be low
TOGETHER = ((8, 0.53), (16, 0.4))  # rows, and mean z of them over the deviations of single rows
LEAST_TOGETHER = 0.05
LONG, OWN = 256, 6.0  # rows over which means of so many rows are known, and their own deviations that a dip must be
MOST = 100
GAP = 20.0  # times the usual distance between two rows, from which on steps are missing
REPEATS_EPOCHS = 3.0  # from which on a loss near zero is memory of the training data, and said as information


@dataclass(frozen=True)
class Dip:
    """A dip: positions in the track (`back` None: not yet), the level before in logs, and its depth in logs."""

    first: int
    known: int
    back: int | None
    level: float
    depth: float


@dataclass(frozen=True)
class Limits:
    """What counts as a dip: the arguments of `check`."""

    deviations: float = 6.0
    effect: float = 0.03
    rows: int = 200
    share: float = 0.08


def check(
    segment: Segment,
    *,
    deviations: float = Limits.deviations,
    least_effect: float = Limits.effect,
    after_rows: int = Limits.rows,
    after_share: float = Limits.share,
    near_zero: float = 0.25,
) -> Iterator[Finding]:
    """Yield each dip of the main loss, and a loss near zero of a model that has just begun.

    deviations, least_effect: of five of eight rows below their course, in standard deviations and as a share.
    after_rows, after_share: rows and share of the plan from which on it is looked for. near_zero: loss that a model which
    started untrained does not reach within half of its plan.
    """
    main = loss_kind(segment).main
    if main is None:
        return
    loss = track(segment, main)
    for dip in dips(segment, main, Limits(deviations, least_effect, after_rows, after_share)):
        if not in_swing(segment, main, dip.first, dip.depth) and not in_rise(segment, main, dip.first, dip.known):
            yield _finding(segment, main, loss, dip)
    yield from _too_good(segment, main, loss, near_zero)


def dips(segment: Segment, column: str, limits: Limits = Limits()) -> tuple[Dip, ...]:
    """Return the dips of a loss in order, worked out once a segment."""
    return segment.once(("dips", column, limits), lambda: tuple(_dips(segment, track(segment, column), limits)))


def _dips(segment: Segment, loss: Track, limits: Limits) -> Iterator[Dip]:
    if len(loss) < OF:
        return
    low = (loss.z < -limits.deviations) & (loss.x - loss.centre < np.log(1 - limits.effect))
    several = low & (bn.move_sum(low.astype(float), OF, 1) >= RAISED)
    armed = np.arange(len(loss)) >= limits.rows
    if segment.total_steps:
        armed &= segment.steps()[loss.rows] >= limits.share * segment.total_steps
    armed &= ~_behind_gap(segment.steps()[loss.rows])
    sure = np.flatnonzero((several | _together(loss, limits.deviations, limits.effect)) & armed)
    free, count = 0, 0
    for at in map(int, sure):
        if at < free or count >= MOST:
            continue
        dip = _follow(loss, at)
        free = (dip.known + max(200, dip.known // 25) if dip.back is None else dip.back) + 1
        count += 1
        yield dip


def _behind_gap(steps: np.ndarray) -> np.ndarray:
    """Say which rows follow soon after steps that the log does not hold: what fell in between is no dip."""
    gap = np.diff(steps, prepend=np.nan)
    with np.errstate(invalid="ignore"):
        wide = np.flatnonzero(gap > GAP * trailing(gap))
    near = np.zeros(len(steps), dtype=bool)
    for at in wide[:MOST]:
        near[at : at + WINDOW] = True
    return near


def _together(loss: Track, deviations: float, effect: float) -> np.ndarray:
    """Say where 8 or 16 rows are low together, none of them far enough alone: dips of noisy logs.

    Rows of unshuffled data share their noise, so their means stray further than single rows tell.
    """
    z = np.nan_to_num(np.maximum(loss.z, -deviations))
    off = np.nan_to_num(loss.x - loss.centre)
    result = np.zeros(len(loss), dtype=bool)
    for rows, least in TOGETHER:
        if len(loss) >= rows:
            means = bn.move_mean(off, rows)
            far = means < np.log(1 - max(effect, LEAST_TOGETHER))
            far &= ~(means > -OWN * TO_SIGMA * trailing(np.abs(np.nan_to_num(means)), LONG))
            result |= (bn.move_mean(z, rows) < -least * deviations) & far
    return result & (loss.z < -1)


def _follow(loss: Track, at: int) -> Dip:
    begin = max(at - 2 * OF + 1, 0)
    low = loss.z[begin : at + 1] < -2
    low[:-1] &= loss.z[begin + 1 : at + 1] < -1
    first = begin + int(np.argmax(low))
    level = float(loss.centre[first])
    depth = level - float(np.median(loss.x[first : at + 1]))
    return Dip(first, at, _back(loss.x, at + 1, level - depth / 2), level, depth)


def _back(x: np.ndarray, start: int, least: float) -> int | None:
    """Return the first of two values in a row at or above a level; looked for in growing pieces."""
    size = 256
    while start < len(x) - 1:
        high = x[start : start + size + 1] >= least
        both = np.flatnonzero(high[:-1] & high[1:])
        if len(both):
            return start + int(both[0])
        start, size = start + size, 2 * size
    return None


def _finding(segment: Segment, column: str, loss: Track, dip: Dip) -> Finding:
    first, known = int(loss.rows[dip.first]), int(loss.rows[dip.known])
    end = None if dip.back is None else int(loss.rows[dip.back - 1])
    last = len(segment) - 1 if end is None else end
    causes, advice = explain(segment, "dip", first, known=known)
    by_rate, by_epoch = _follows_rate(segment, first, known), _starts_epoch(segment, first)
    share = 100 * (1 - np.exp(-dip.depth))
    gaps = {"share": float(share), "step": where(segment, first), "end": where(segment, last)}
    title = Text(N_("Loss dropped {share:.3g} % below its course at {step}"), gaps)
    if end is not None:
        title = Text(N_("Loss dipped {share:.3g} % below its course from {step} to {end}"), gaps)
    if by_rate:
        title = Text(N_("Loss stepped down {share:.3g} % at {step}, where the learning rate changed"), gaps)
    elif by_epoch:
        title = Text(N_("Loss stepped down {share:.3g} % at {step}, where an epoch began"), gaps)
    return finding_at(
        segment,
        kind="dip",
        severity=Severity.INFO if by_rate or by_epoch else Severity.WARNING,
        first=first,
        known=known,
        end=end,
        title=title,
        evidence=(
            fact(N_("{column}: level expected from the rows before"), unlog(dip.level), column=column),
            fact(N_("{column}: level in the dip"), unlog(dip.level - dip.depth), column=column),
            fact(N_("drop in standard deviations of the run's own noise"), _deviations(loss, dip)),
        ),
        causes=causes,
        advice=advice,
    )


def _deviations(loss: Track, dip: Dip) -> float:
    return round(dip.depth / float(loss.scale[dip.first]), 1)


def _follows_rate(segment: Segment, first: int, known: int) -> bool:
    course = rates(segment)
    return course is not None and any((course.changed(row) or 1.0) < 1 for row in range(first, min(known + 1, first + OF)))


def _starts_epoch(segment: Segment, first: int) -> bool:
    epoch = np.floor(segment.values("epoch")[max(first - 2, 0) : first + 2])
    return bool(len(epoch) > 1 and np.nanmax(np.diff(epoch), initial=0) >= 1) if segment.has("epoch") else False


def _too_good(segment: Segment, column: str, loss: Track, near_zero: float) -> Iterator[Finding]:
    """A model that began untrained is near zero before half of its plan: it sees the answers."""
    begin = first_loss(segment)
    if begin is None or not begin.from_scratch or len(loss) < 20:
        return
    low = np.flatnonzero(bn.move_median(loss.x, 20, 20) < np.log(near_zero))
    if not len(low):
        return
    at = int(low[0])
    row = int(loss.rows[at])
    progress = segment.progress(row)
    if progress is not None and progress >= 0.5:
        return
    epoch = segment.values("epoch")[row]
    causes, advice = explain(segment, "dip", row, known=row)
    gaps = {"level": unlog(np.median(loss.x[at - 19 : at + 1])), "step": where(segment, row), "first": begin.first}
    title = Text(N_("Implausibly low loss: {level:.3g} by {step}, from {first:.3g} at the start"), gaps)
    yield finding_at(
        segment,
        kind="dip",
        severity=Severity.INFO if epoch >= REPEATS_EPOCHS else Severity.WARNING,
        first=row,
        known=row,
        end=None,
        title=title,
        evidence=(
            fact(N_("{column}: first value"), begin.first, segment=segment, row=int(loss.rows[0]), column=column),
            median_fact(N_("{column}: level"), segment, loss, (at - 19, at + 1), column),
        ),
        causes=causes,
        advice=advice,
    )


def sick() -> Segment:
    """Return a run that meets samples again for some rows."""
    from analysis.simulate import simulate

    return simulate(rows=1500, seed=12, fault="dip", at=0.6).segment


def well() -> Segment:
    """Return a run whose learning rate drops in steps: the loss steps down with it."""
    from analysis.simulate import simulate

    return simulate(rows=1500, seed=12, kind="step_drop").segment
