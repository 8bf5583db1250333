"""The evaluation loss gets worse while the training loss goes on falling.

Meaning: Since the best evaluation the model has learned its training samples by heart rather than the task. Where the log
holds no evaluation, a training loss near zero after several epochs is noted: nobody can tell then how good the model is.

Causes: Too many epochs for the data, a model too large for them, no regularisation, or evaluation data that differ; a very
good training loss beside it may also mean that the data are contaminated.

What to do: Take the checkpoint of the best evaluation named here. Stop early, use more data or fewer epochs, raise dropout
or weight decay; check whether training and evaluation data overlap or differ.

Source: early stopping against the best evaluation; a turn is clear by its likelihood ratio against a level course, in the
noise of the evaluations themselves.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import bottleneck as bn
import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from analysis.attribution import explain
from analysis.evaluations import Evaluations, evaluations, jumped, noise_of, where_of
from analysis.evidence import finding_at, median_fact, times, unlog, where
from analysis.findings import Evidence, Finding, Severity
from analysis.losses import loss_kind
from analysis.noise import Track, track
from analysis.segment import Segment
from analysis.turns import sloping
from messages import N_, Text

NEEDS = ("loss|logits_loss", "eval_loss|epoch")
LEVEL = True
WINDOWS = (5, 6, 8, 12, 16, 32, 64)  # evaluations that are looked at together: before the turn they may have been falling
WORSE = 2.0  # standard deviations by which each of the last two is worse than the best, so that one alone is no turn
JUMP, JUMP_EFFECT = 6.0, 0.05  # as the rule about jumps of the evaluation has it
MEMORY_EPOCHS, MEMORY_LOSS, MEMORY_SHARE = 3.0, 0.05, 0.03


@dataclass(frozen=True)
class Worse:
    """A stretch of worse evaluations: positions among them of the best, of the one at which it was known, of the one that
    was good again (None: none yet); lowest: logarithms of the loss at the best, as printed and smoothed without jumps."""

    best: int
    known: int
    back: int | None
    lowest: tuple[float, float] = (0.0, 0.0)


def check(segment: Segment, *, noise_factor: float = 4.0, least_rise: float = 0.005) -> Iterator[Finding]:
    """Yield each stretch in which evaluations are worse than the best while the training loss is below what it was there.

    noise_factor: standard deviations of one evaluation by which a slope upwards stands out of a level course; least_rise: share
    of the best by which the last two evaluations are worse, both.
    """
    known, main = evaluations(segment), loss_kind(segment).main
    if main is None:
        return
    loss = track(segment, main)
    if known is None:
        yield from _memorised(segment, main, loss)
        return
    for worse in _joined(_stretches(known, loss, noise_factor, least_rise), least_rise):
        yield _finding(segment, main, loss, known, worse)


def check_articles(segment: Segment, *, worse_in_a_row: int = 2) -> Iterator[Finding]:
    """Yield where the training loss falls and the evaluation gets worse.

    worse_in_a_row: evaluations, each worse than the one before and than the best.
    """
    known, main = evaluations(segment), loss_kind(segment).main
    if known is None or main is None or len(known) <= worse_in_a_row:
        return
    loss = track(segment, main)
    rising = np.r_[False, np.diff(known.loss) > 0]
    count = bn.move_sum(rising.astype(float), worse_in_a_row, worse_in_a_row)
    for at in np.flatnonzero(count == worse_in_a_row):
        best = int(np.argmin(known.loss[: at + 1]))
        if best < at and _training(loss, known, int(at)) < _training(loss, known, best):
            yield _finding(segment, main, loss, known, Worse(best, int(at), None))
            return


def partly(segment: Segment) -> tuple[tuple[str, ...], Text] | None:
    """Say that without evaluations overfitting can't be told."""
    if evaluations(segment) is not None:
        return None
    return ("eval_loss",), Text(N_("The log prints no evaluation loss: whether the model overfits can't be told"))


def _joined(stretches: Iterable[Worse], least: float) -> Iterator[Worse]:
    """Yield one stretch for one fault: evaluations that came back without a new best since did not recover."""
    last: Worse | None = None
    for worse in stretches:
        if last is not None and any(new > old - least for new, old in zip(worse.lowest, last.lowest, strict=True)):
            last = replace(last, back=worse.back)
            continue
        if last is not None:
            yield last
        last = worse
    if last is not None:
        yield last


def _stretches(known: Evaluations, loss: Track, factor: float, least: float) -> Iterator[Worse]:
    x = np.log(known.loss)
    change = np.diff(x, prepend=x[:1])
    x = x - np.cumsum(np.where(np.r_[False, jumped(x, JUMP, np.expm1(JUMP_EFFECT))], change, 0.0))  # of what is evaluated
    noise = noise_of(x)
    turned = _turned(x) > factor * noise
    smooth = np.r_[x[:2], bn.move_median(x, 3, 3)[2:]] if len(x) > 2 else x
    best, current = 0, None
    for at in range(1, len(x)):
        if smooth[at] < smooth[best]:
            best = at
        if current is not None:
            if smooth[at] <= current.lowest[1] + max(noise[at], least):
                yield replace(current, back=at)
                current = None
            continue
        worse = x[at - 1 : at + 1].min() > smooth[best] + max(WORSE * noise[at], np.log1p(least))
        if turned[at] and worse and _training(loss, known, at) < _training(loss, known, best):
            lowest = max(best - 2, 0) + int(np.argmin(x[max(best - 2, 0) : best + 1]))
            current = Worse(lowest, at, None, (float(np.log(known.loss[lowest])), float(smooth[best])))
    if current is not None:
        yield current


def _turned(x: np.ndarray) -> np.ndarray:
    """Return how much of the spread of the last evaluations a slope upwards explains, at each (k,); 0 while they are few."""
    result = np.zeros(len(x))
    for count in WINDOWS:
        if count <= len(x):
            result[count - 1 :] = np.maximum(result[count - 1 :], sloping(sliding_window_view(x, count), after=2))
    return result


def _training(loss: Track, known: Evaluations, at: int) -> float:
    """Return the level of the training loss, in logs, at an evaluation."""
    start, end = _rows_before(loss, known, at)
    return float(np.median(loss.x[start:end])) if end > start else np.inf


def _rows_before(loss: Track, known: Evaluations, at: int) -> tuple[int, int]:
    """Return the positions [start, end) of the training losses at an evaluation: the last, up to the evaluation before."""
    end = loss.at(int(known.rows[at]) + 1)
    start = loss.at(int(known.rows[at - 1])) if at else 0
    return max(min(start, end - 5), end - 200, 0), end


def _finding(segment: Segment, column: str, loss: Track, known: Evaluations, worse: Worse) -> Finding:
    first, row = int(known.rows[worse.best]), int(known.rows[worse.known])
    now = len(known) - 1 if worse.back is None else worse.back
    causes, advice = explain(segment, "overfit", first, known=row)
    last = known.loss[max(now - 2, worse.best + 1) : now + 1]
    gaps: dict[str, Any] = {"best": float(known.loss[worse.best]), "now": float(np.median(last)), "count": len(last)}
    gaps["step"] = where_of(segment, known, worse.best)
    text = N_(
        "Evaluation got worse since {step}: from {best:.4g} to {now:.4g}, the median of the last {count}, while "
        "training improved"
    )
    title = Text(text, gaps)
    if worse.back is not None:
        title = Text(N_("Evaluation got worse after {step} ({best:.4g}) and recovered"), gaps)
    return Finding(
        kind="overfit",
        severity=Severity.WARNING if worse.back is None else Severity.INFO,
        segment=segment.number,
        first_step=known.step(worse.best) or segment.step(first),
        last_step=None if worse.back is None else known.step(worse.back),
        known_step=segment.step(row),
        first_line=known.line(worse.best) or segment.line(first),
        last_line=known.line(now) or segment.line(row),
        title=title,
        evidence=tuple(_evidence(segment, column, loss, known, worse, now)),
        causes=causes,
        advice=advice,
    )


def _evidence(segment: Segment, column: str, loss: Track, known: Evaluations, worse: Worse, now: int) -> Iterator[Evidence]:
    for label, at in ((N_("best evaluation"), worse.best), (N_("last evaluation"), now)):
        text, count = Text(label), int(known.counts[at])
        if count > 1:
            text = Text(N_("{what}, the mean of {count} that were printed"), {"what": text, "count": count})
        yield Evidence(text, float(known.loss[at]), step=known.step(at), line=known.line(at))
    yield Evidence(Text(N_("evaluations since the best")), now - worse.best)
    ratio = times(float(known.loss[now]), float(known.loss[worse.best])) - 1
    yield Evidence(Text(N_("rise of the evaluation over its best, share")), float(f"{ratio:.3g}"))
    for name, at in ((N_("{column} at the best evaluation"), worse.best), (N_("{column} at the last evaluation"), now)):
        yield median_fact(name, segment, loss, _rows_before(loss, known, at), column)


def _memorised(segment: Segment, column: str, loss: Track) -> Iterator[Finding]:
    """Without evaluations: after some epochs next to nothing of the training loss is left."""
    if not segment.has("epoch") or len(loss) < 40:
        return
    epoch = segment.values("epoch")[loss.rows]
    limit = np.log(min(MEMORY_LOSS, MEMORY_SHARE * float(np.exp(np.median(loss.x[:10])))))
    low = np.flatnonzero((bn.move_median(loss.x, 20, 20) < limit) & (epoch - epoch[0] >= MEMORY_EPOCHS))
    if not len(low):
        return
    row = int(loss.rows[low[0]])
    causes, advice = explain(segment, "overfit", row)
    level = unlog(np.median(loss.x[low[0] - 19 : low[0] + 1]))
    gaps = {"level": level, "epoch": float(epoch[low[0]]), "step": where(segment, row)}
    text = N_("Training loss is down to {level:.3g} in epoch {epoch:.0f} ({step}): learned by heart; no evaluation tells more")
    yield finding_at(
        segment,
        kind="overfit",
        severity=Severity.INFO,
        first=row,
        known=row,
        end=None,
        title=Text(text, gaps),
        evidence=(median_fact(N_("{column}: level"), segment, loss, (low[0] - 19, low[0] + 1), column),),
        causes=causes,
        advice=advice,
    )


def sick() -> Segment:
    """Return a run whose evaluation turns at two fifths of its length."""
    from analysis.simulate import simulate, with_evaluations

    return with_evaluations(simulate(rows=2000, seed=14).segment, every=50, turns_at=0.4)


def well() -> Segment:
    """Return a run whose evaluation is noisy and falls with the training loss."""
    from analysis.simulate import simulate, with_evaluations

    return with_evaluations(simulate(rows=2000, seed=14).segment, every=50)
