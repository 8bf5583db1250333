"""The level of the loss changed from one stretch to the next, and stays.

Meaning: Neither a spike nor a rise: at one point the course was shifted up or down by a step and went on as before. That is
what another stage of the data, another batch size or a resume looks like. It is information, not an alarm; comparisons
across the step are not fair.

Causes: A new data stage or mixture, a change of batch or sequence length, a change of the learning rate, or a resume.

What to do: Note what was changed at this step. If nothing was meant to change, look at the order of the data.

Source: a change point on block means of the run, larger than their own noise, that is a step and not a slope.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from analysis.attribution import explain
from analysis.episodes import Episode, episodes
from analysis.evidence import fact, finding_at, place, unlog
from analysis.findings import Finding, Severity
from analysis.ladder import Octave, ladder, near_noise
from analysis.losses import loss_kind
from analysis.noise import Track, track
from analysis.segment import Segment
from messages import N_, Text

NEEDS = ("loss|logits_loss",)
LEVEL = True
INFORMS = True
ROWS = 64
BEFORE, AFTER = 10, 4  # blocks compared
BLOCK_ROWS = 16  # at least
GOES_ON = 2.5  # standard deviations of a block by which the course may go on moving away behind a step


@dataclass(frozen=True)
class Shift:
    """A step: positions in the track where it happened and was known, and the levels before and after in logs."""

    at: int
    known: int
    before: float
    after: float


def check(segment: Segment, *, deviations: float = 4.0, least_effect: float = 0.02) -> Iterator[Finding]:
    """Yield each step of the main loss.

    deviations: of the noise of a block mean; least_effect: of the step, as a share of the level.
    """
    main = loss_kind(segment).main
    if main is None:
        return
    loss = track(segment, main)
    free = 0
    for octave in ladder(segment, loss):
        for shift in _shifts(octave, deviations, np.log1p(least_effect)):
            if shift.at >= free and not _is_jump(episodes(segment, main), shift):
                free = shift.known
                yield _finding(segment, main, loss, shift)


def _is_jump(jumps: tuple[Episode, ...], shift: Shift) -> bool:
    """Say whether a step is a jump that the rules about spikes report."""
    span = shift.known - shift.at
    return any(abs(jump.first - shift.at) <= span and jump.known <= shift.known and not jump.lone for jump in jumps)


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
    held &= np.abs(slope) * (BEFORE + AFTER) < np.abs(off.mean(axis=1))  # a bend of a steep course is no step
    flat = np.ptp(off, axis=1) < 0.8 * np.abs(off.mean(axis=1))
    flat &= (off[:, -1] - off[:, 0]) * np.sign(off.mean(axis=1)) < GOES_ON * noise[ends]  # else it is a slope
    for at_end in np.flatnonzero(held & flat & (bent < 0.6 * np.abs(off.mean(axis=1)))):
        block = int(ends[at_end])
        start, known = (block - AFTER) * size, (block + 1) * size - 1
        yield Shift(start, known, float(expected[at_end].mean()), float(after[at_end].mean()))


def _finding(segment: Segment, column: str, loss: Track, shift: Shift) -> Finding:
    row, known = int(loss.rows[shift.at]), int(loss.rows[shift.known])
    causes, advice = explain(segment, "level_shift", row, known=known)
    gaps = {"step": place(segment, row), "before": unlog(shift.before), "after": unlog(shift.after)}
    title = Text(N_("The level of the loss stepped from {before:.4g} to {after:.4g} near step {step:,}"), gaps)
    return finding_at(
        segment,
        kind="level_shift",
        severity=Severity.INFO,
        first=row,
        known=known,
        end=known,
        title=title,
        evidence=(
            fact(N_("{column}: level expected from the rows before"), gaps["before"], column=column),
            fact(N_("{column}: level after"), gaps["after"], segment=segment, row=known, column=column),
        ),
        causes=causes,
        advice=advice,
    )


def sick() -> Segment:
    """Return a run whose data become harder at half time."""
    from analysis.simulate import simulate

    segment = simulate(rows=4000, seed=13).segment
    segment.rows.loc[2000:, "loss"] *= 1.1
    return segment


def well() -> Segment:
    """Return a run with large noise and no step."""
    from analysis.simulate import simulate

    return simulate(rows=4000, seed=13, kind="small_batch").segment
