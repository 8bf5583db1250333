"""The level of the loss changed from one stretch to the next, and stays.

Meaning: Neither a spike nor a rise: at one point the course was shifted up or down by a step and went on as before. That is
what another stage of the data, another batch size or a resume looks like. It is information, not an alarm; comparisons
across the step are not fair.

Causes: A new data stage or mixture, a change of batch or sequence length, a change of the learning rate, or a resume.

What to do: Note what was changed at this step. If nothing was meant to change, look at the order of the data.

Source: a change point on block means of the run, larger than their own noise, that is a step and not a slope.
"""

from collections.abc import Iterator
from typing import Any

from analysis.attribution import explain
from analysis.belonging import in_rise, in_swing
from analysis.episodes import Episode, episodes
from analysis.evidence import fact, finding_at, unlog, where
from analysis.findings import Finding, Severity
from analysis.losses import loss_kind
from analysis.noise import Track, track
from analysis.rules.dip import dips
from analysis.segment import Segment
from analysis.step_time import restarts
from analysis.steps import Limits, Shift, shifts
from analysis.warm_restarts import by_schedule
from messages import N_, Text

NEEDS = ("loss|logits_loss",)
LEVEL = True
INFORMS = True
ROWS = 64
COARSE = 16  # rows by which the place of a step may be off


def check(segment: Segment, *, deviations: float = Limits.deviations, least_effect: float = Limits.effect) -> Iterator[Finding]:
    """Yield each step of the main loss.

    deviations: of the noise of a block mean; least_effect: of the step, as a share of the level.
    """
    main = loss_kind(segment).main
    if main is None:
        return
    loss = track(segment, main)
    free = 0
    for shift in shifts(segment, main, Limits(deviations, least_effect)):
        if shift.at >= free and not _is_other(segment, main, loss, shift):
            free = shift.known
            yield _finding(segment, main, loss, shift)


def _is_other(segment: Segment, column: str, loss: Track, shift: Shift) -> bool:
    """Say whether a step is a jump, a part of a rise, a swing or a dip, or steps done again: other rules tell these."""
    up = shift.after > shift.before
    if up and by_schedule(segment, column, shift.at, shift.before, shift.after, early=COARSE) is not None:
        return True
    again = restarts(segment)
    again = again[(again > loss.rows[shift.since]) & (again <= loss.rows[shift.known])]
    if len(again) or _is_jump(episodes(segment, column), shift) or in_rise(segment, column, shift.at, shift.known):
        return True
    if any(dip.first >= shift.since and dip.back is not None and dip.back <= shift.known for dip in dips(segment, column)):
        return True
    return in_swing(segment, column, shift.at, abs(shift.after - shift.before))


def _is_jump(jumps: tuple[Episode, ...], shift: Shift) -> bool:
    """Say whether a step is a jump that the rules about spikes report."""
    return any(
        shift.meets(jump) and jump.known <= shift.known and not jump.lone and not (shift.stays(jump) and jump.lasting is None)
        for jump in jumps
    )


def _finding(segment: Segment, column: str, loss: Track, shift: Shift) -> Finding:
    row, known = int(loss.rows[shift.at]), int(loss.rows[shift.known])
    causes, advice = explain(segment, "level_shift", row, known=known)
    gaps: dict[str, Any] = {"step": where(segment, row), "before": unlog(shift.before), "after": unlog(shift.after)}
    title = Text(N_("The level of the loss stepped from {before:.4g} to {after:.4g} near {step}"), gaps)
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
