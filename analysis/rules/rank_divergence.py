"""One process has drifted away from the others.

Meaning: With data parallel training every rank has the same weights and its own part of the data, so their losses differ by
chance only. One rank's loss now stays above or below the others: its weights or its data are no longer what they should be.

Causes: Gradients or optimizer state that are not synchronised any more, silent data corruption on one device, or a rank that
reads other (or broken) data.

What to do: Compare a checksum of the weights over the ranks. If they differ, restart from the last checkpoint and have that
device checked; if they agree, look at what that rank reads.

Source: rank comparison of the source articles; median over 100 steps of each rank's distance from the median of all.
"""

from collections.abc import Iterator
from typing import Any

import numpy as np

from analysis.findings import Finding, Severity
from analysis.ranks import Ranks, ranks
from analysis.readings import SIZE, TO_SIGMA, before, blocks, held, last_of, median_of
from analysis.segment import Segment
from messages import N_, Text

NEEDS = ("rank", "loss|logits_loss")
FAST, OWN, LEAST = 20, 240, 6  # blocks of five steps: judged, what is usual, before anything is judged
SURE = 5.0  # standard errors


def check(segment: Segment, *, least: float = 0.02, own_times: float = 1.5, hold_blocks: int = 6) -> Iterator[Finding]:
    """Yield each rank whose loss stays away from the others.

    least: distance from the median of all ranks as a share; own_times: times the distance that was usual for this rank.
    hold_blocks: blocks of five steps for which it must hold.
    """
    table = ranks(segment)
    if table is None or not np.all(table.losses > 0):
        return
    apart = np.log(table.losses) - np.log(table.series.values)[:, None]
    for column in range(len(table.numbers)):
        middle = blocks(apart[:, column])
        level = median_of(middle, FAST, LEAST)
        own = before(median_of(np.abs(level), OWN, LEAST), FAST)
        noise = before(median_of(TO_SIGMA * np.abs(middle - level), OWN, LEAST), FAST) * 1.25 / np.sqrt(FAST)
        limit = np.fmax(least, np.fmax(own_times * own, SURE * noise)) + 0 * own
        with np.errstate(invalid="ignore"):
            hot, cool = np.abs(level) > limit, np.abs(level) < limit / 2
        for first, known, end in held(hot, cool, hold_blocks):
            yield _finding(table, column, (first, known, end), level, limit, middle)


def _finding(
    table: Ranks,
    column: int,
    span: tuple[int, int, int | None],
    level: np.ndarray,
    limit: np.ndarray,
    middle: np.ndarray,
) -> Finding:
    first, known, end = span
    start = max(first - FAST + 1, 0)
    within = np.flatnonzero(np.abs(middle[start : first + 1]) <= limit[first] / 2)
    began = SIZE * min(start + (int(within[-1]) + 1 if len(within) else 0), first)
    last = None if end is None else last_of(end)
    now = float(np.expm1(level[-1] if end is None else level[known]))
    gaps: dict[str, Any] = {"rank": int(table.numbers[column]), "share": now, "step": table.series.where(began)}
    title = Text(N_("The loss of rank {rank} is {share:+.1%} off the other ranks since {step}"), gaps)
    if last is not None:
        gaps["end"] = table.series.where(last)
        title = Text(N_("The loss of rank {rank} was {share:+.1%} off the other ranks from {step} to {end}"), gaps)
    evidence = (
        table.series.fact(N_("rank"), gaps["rank"]),
        table.series.fact(N_("its distance from the median of all ranks"), f"{now:+.2%}", last_of(known)),
        table.series.fact(N_("distance that is usual here"), f"{limit[first]:.2%}"),
        table.series.fact(N_("ranks compared"), len(table.numbers)),
    )
    severity = Severity.CRITICAL if last is None else Severity.WARNING
    return table.finding("rank_divergence", severity, title, evidence, (began, last_of(known), last))


def sick() -> Segment:
    """Return a run in which one of four ranks drifts away."""
    from analysis.simulate_hardware import simulate

    return simulate(rows=1500, seed=4, kind="ranks", fault="rank_divergence").segment


def well() -> Segment:
    """Return a run of four ranks whose losses differ by chance."""
    from analysis.simulate_hardware import simulate

    return simulate(rows=1500, seed=4, kind="ranks").segment
