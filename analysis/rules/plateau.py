"""The loss has stopped falling too early.

Meaning: Since some step, twice as many steps have brought next to nothing, although the learning rate is still high and
much of the plan is left. A flat end of a schedule, or small movements around a low level late in a run, are normal and
not meant here. In a small model or with very short sequences a plateau may simply be the model's capacity.

Causes: A learning rate too low, data that is not shuffled or repeats, labels or masks that leave nothing to learn (the
model knows word frequencies and no more), or frozen weights.

What to do: Check the shuffling of the data and overfit one tiny batch: if that works, raise the learning rate; if it does
not, look at labels, padding mask and gradients.

Source: the gain of the last doubling of steps against the doubling before, which holds for short and long runs alike; a
fixed number of steps does not.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import bottleneck as bn
import numpy as np

from analysis.attribution import explain
from analysis.evidence import fact, finding_at, unlog, where
from analysis.findings import Cause, Finding, Severity
from analysis.first_loss import first_loss
from analysis.ladder import BASE_ROWS, Octave, ladder
from analysis.losses import loss_kind
from analysis.model_size import may_be_capacity
from analysis.noise import Track, track
from analysis.rules.dip import dips
from analysis.rules.no_learning import unlearned
from analysis.schedule import rates
from analysis.segment import Segment
from analysis.stretches import joined
from messages import N_, Text

NEEDS = ("loss|logits_loss",)
LEVEL = True
LEAST_BLOCKS = 32
ROWS = LEAST_BLOCKS * BASE_ROWS
RATIOS = (1.25, 1.5, 2.0, 3.0)  # of the rows so far over those at which the last stretch began
SPAN = 2 / 3  # of a stretch over which its level is averaged
LEAST_GAIN = 0.005  # in logs, of the stretch before
FELL, FELL_ERRORS = 0.01, 4.0  # from its first to its last fifth a stretch fell by more: in logs, and in standard errors
NEAR_ROWS = 64  # behind a sudden drop that stays, within which a flat stretch is where it landed
LITTLE_TO_LEARN = 2.5  # first loss of trained weights
LEAST_MOVE = 0.01  # in logs: levels nearer than that are one
LEFT_SHARE = 0.2  # of the fall before it: a loss that moved so far has left the plateau
LEFT_ERRORS = 3.0  # standard errors of the difference of both levels, likewise
STEP_ERRORS = 3.0  # of the difference of two parts of a stretch, above which the second is a step up in the data


@dataclass(frozen=True)
class Flat:
    """A flat stretch: positions in the track where it began, was known, and ended (None: goes on); levels in logs, with the
    standard error of the gain and so, at most, of the level."""

    first: int
    known: int
    end: int | None
    level: float
    gain: float
    before: float
    error: float = 0.0


def check(
    segment: Segment,
    *,
    gain_share: float = 0.32,
    bound_share: float = 0.8,
    lr_share: float = 0.3,
    until: float = 0.7,
    held_share: float = 0.03,
    learned_share: float = 0.97,
) -> Iterator[Finding]:
    """Yield each stretch in which the main loss stood still too early.

    gain_share, bound_share: of the least gain that is expected from the one before (for a doubling half of it), below which
    the last gain and its upper bound must stay.
    lr_share: of the highest learning rate so far below which a flat loss is expected; until: share of the plan likewise.
    held_share: of the run so far for which it must hold; learned_share: of the first loss gone, beyond which flat is done.
    """
    main = loss_kind(segment).main
    if main is None:
        return
    loss = track(segment, main)
    if len(loss) < ROWS or unlearned(segment):
        return
    expects = _expects_fall(segment, loss, lr_share, until, learned_share)
    done = _done(segment, loss)
    dropped = [dip.first for dip in dips(segment, main) if dip.back is None]
    for flat in _flats(ladder(segment, loss), done, expects, gain_share, bound_share, held_share):
        if not any(flat.first - NEAR_ROWS <= row <= flat.known for row in dropped):
            yield _finding(segment, main, loss, flat)


def check_articles(segment: Segment, *, steps: int = 1000, change: float = 0.01) -> Iterator[Finding]:
    """Yield each stretch in which the loss hardly changes.

    steps: consecutive steps, at least, in which highest and lowest loss differ by less than `change`, as a share.
    """
    main = loss_kind(segment).main
    loss = track(segment, main) if main else None
    if main is None or loss is None or len(loss) < 2:
        return
    each = float(np.nanmedian(np.diff(segment.steps()[loss.rows])))
    rows = max(int(np.ceil(steps / each)), 2) if each > 0 else steps
    if len(loss) < rows:
        return
    highest, lowest = bn.move_max(loss.x, rows), bn.move_min(loss.x, rows)
    for first, last in joined(np.flatnonzero(highest - lowest < -np.log1p(-change))):
        end = None if last == len(loss) - 1 else last
        level = float(np.median(loss.x[first - rows + 1 : last + 1]))
        yield _finding(segment, main, loss, Flat(first - rows + 1, first, end, level, 0.0, 0.0), certain=True)


def _expects_fall(segment: Segment, loss: Track, lr_share: float, until: float, learned: float) -> np.ndarray:
    """Say for each value (m,) whether the loss should still fall: rate high, plan not nearly done, much left to learn."""
    expects = loss.x > np.median(loss.x[:10]) + np.log(1 - learned)
    course = rates(segment)
    if course is not None:  # a slow fall is normal while the rate rises
        expects &= ((course.lr >= lr_share * course.highest) & ~course.warming)[loss.rows]
    if segment.total_steps:
        expects &= (segment.steps() < until * segment.total_steps)[loss.rows]
    return expects


def _done(segment: Segment, loss: Track) -> np.ndarray:
    """Return the steps done at each value (m,): rows where the log numbers none, or starts anew."""
    steps = segment.steps()[loss.rows]
    rising = len(steps) and steps[0] >= 0 and bool(np.all(np.diff(steps) > 0))
    return steps if rising else np.arange(1.0, len(loss) + 1)


def _flats(
    octaves: tuple[Octave, ...], done: np.ndarray, expects: np.ndarray, gain_share: float, bound: float, held: float
) -> Iterator[Flat]:
    current: Flat | None = None
    count, free = 0, 0
    for octave in octaves:
        passed = done[octave.size - 1 :: octave.size]
        for block in range(max(octave.judge, LEAST_BLOCKS - 1), len(octave.means)):
            row = octave.row(block)
            if current is not None:
                if _left(octave, block, current):
                    yield replace(current, end=row)
                    current, count, free = None, 0, row + 1
                continue
            still = _still(octave, passed, block, gain_share, bound) if expects[row] else None
            count = count + 1 if still else 0
            if still and count >= max(3, held * (block + 1)):
                now, gain, before, error = still
                current = Flat(max(_began(octave, block, now, error), free), row, None, now, gain, before, error)
    if current is not None:
        yield current


def _left(octave: Octave, block: int, flat: Flat) -> bool:
    """Say whether the loss has moved away from a flat stretch: the level there is known with an error, too."""
    now, error = _level(octave, block + 1, max(3, (block + 1) // 16))
    moved = max(LEFT_ERRORS * float(np.hypot(error, flat.error)), LEFT_SHARE * flat.before, LEAST_MOVE)
    return abs(now - flat.level) > moved


def _still(
    octave: Octave, passed: np.ndarray, block: int, share: float, bound: float
) -> tuple[float, float, float, float] | None:
    """Return (level now, last gain, gain before, standard error of a gain) if the loss stands still, None if not.

    The last stretch of rows is compared with the one before it that is as long in proportion: first stretches of a quarter,
    which tell early where the noise is small, then of a half, of the double and of three times as many.
    """
    for ratio in RATIOS:
        ends = [int(np.searchsorted(passed, passed[block] / ratio**power, side="right")) for power in range(3)]
        part = SPAN * (1 - 1 / ratio)  # of the rows up to each end: a loss that falls by a power law gains evenly
        if part * ends[2] < 2:
            continue
        (now, last), (half, first), (quarter, _) = (_level(octave, end, int(part * end)) for end in ends)
        gain, before, error = half - now, quarter - half, float(np.hypot(last, first))
        least = before / ratio  # what a loss gains at least that approaches a floor as 1 / rows
        small = abs(gain) < share * least and gain + 2 * error < bound * least and before > max(4 * error, LEAST_GAIN)
        if small and _steady(octave, ends[1], block) < 1.5 * share * least:
            return now, gain, before, error
    return None


def _level(octave: Octave, end: int, width: int) -> tuple[float, float]:
    """Return the mean of the `width` blocks before one, and its standard error."""
    return float(octave.means[max(end - width, 0) : end].mean()), float(octave.noise[end - 1] / np.sqrt(width))


def _steady(octave: Octave, start: int, block: int) -> float:
    """Return the fall over the last stretch without steps up in the data, which would hide it; inf where nothing is left."""
    if block <= start:
        return float("inf")
    parts = np.array_split(octave.means[start : block + 1], min(8, max((block + 1 - start) // 3, 2)))
    moves = np.diff([part.mean() for part in parts])
    kept = moves[moves <= STEP_ERRORS * octave.noise[block] * np.sqrt(2 / len(parts[-1]))]
    return float(-len(moves) * kept.mean()) if len(kept) else float("inf")


def _began(octave: Octave, block: int, level: float, error: float) -> int:
    """Return where the flat stretch began: after the last block clearly above its level."""
    above = np.flatnonzero(octave.means[: block + 1] > level + max(4 * error, 3 * octave.noise[block], 0.01))
    return (int(above[-1]) + 1) * octave.size if len(above) else 0


def _fine_tuned(segment: Segment) -> bool:
    """Say whether a launch began with so little to learn that its loss falls within a few rows and then hardly."""
    begin = first_loss(segment)
    return begin is not None and not begin.from_scratch and begin.level < LITTLE_TO_LEARN


def _finding(segment: Segment, column: str, loss: Track, flat: Flat, *, certain: bool = False) -> Finding:
    first, known = int(loss.rows[min(flat.first, flat.known)]), int(loss.rows[flat.known])
    end = None if flat.end is None else int(loss.rows[flat.end])
    last = len(segment) - 1 if end is None else end
    causes, advice = explain(segment, "plateau", known)
    if may_be_capacity(segment):
        causes = (*causes, Cause("capacity", Text(N_("A small model with very short sequences: this may be all it can learn"))))
    # without a plan or a rate the end of the schedule can't be told from a stall
    certain = certain or segment.has("lr") or segment.total_steps is not None
    certain = certain and not _fine_tuned(segment)
    return finding_at(
        segment,
        kind="plateau",
        severity=Severity.WARNING if certain and end is None and not may_be_capacity(segment) else Severity.INFO,
        first=first,
        known=known,
        end=end,
        title=_title(loss, flat, {"step": where(segment, first), "end": where(segment, last)}),
        evidence=(
            fact(N_("{column}: mean level when this was known"), unlog(flat.level), column=column),
            fact(N_("fall over the last doubling of rows, share"), float(f"{flat.gain:.3g}")),
            fact(N_("fall over the doubling before, share"), float(f"{flat.before:.3g}")),
        ),
        causes=causes,
        advice=advice,
    )


def _title(loss: Track, flat: Flat, gaps: dict[str, Any]) -> Text:
    """Say at which level the loss stood; where it fell all the same, from where to where."""
    x = loss.x[min(flat.first, flat.known) : flat.end]
    part = max(len(x) // 5, 1)
    ends = x[:part], x[-part:]
    before, now = (float(np.mean(each)) for each in ends)
    error = float(np.sqrt(sum(np.var(each) for each in ends) / part))
    gaps |= {"level": unlog(flat.level), "before": unlog(before), "now": unlog(now)}
    if before - now > max(FELL_ERRORS * error, FELL):
        if flat.end is None:
            return Text(N_("Loss has fallen only slowly since {step}: from {before:.4g} to {now:.4g}"), gaps)
        return Text(N_("Loss fell only slowly from {step} to {end}: from {before:.4g} to {now:.4g}"), gaps)
    if flat.end is None:
        return Text(N_("Loss has stood at {level:.4g} since {step}"), gaps)
    return Text(N_("Loss stood at {level:.4g} from {step} to {end}"), gaps)


def sick() -> Segment:
    """Return a run that stands still from a twelfth of its length on."""
    from analysis.simulate import simulate

    return simulate(rows=4000, seed=8, fault="plateau").segment


def well() -> Segment:
    """Return a run that falls fast and is flat late, as small problems are."""
    from analysis.simulate import simulate

    return simulate(rows=4000, seed=8, kind="late_plateau").segment
