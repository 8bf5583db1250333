"""The gradient norm has all but vanished.

Meaning: The gradient norm fell to less than a tenth of what it was half of the run ago and stays there, although the loss
did not fall accordingly. Little is learned from then on.

Causes: Saturated or dead activations, frozen parameters, a stray detach(), a collapsed policy in reinforcement learning, a
loss scaler that skips steps, or an initialisation that lets signals fade.

What to do: Look at the gradient norm of each layer; check frozen parameters, detach() and the loss mask; check the
initialisation (for example xavier_uniform_) if it was so from the start.

Source: gradient rows of the common trouble tables; criterion against the run's own norm, over a doubling of the rows.
"""

from collections.abc import Iterator

import bottleneck as bn
import numpy as np

from analysis.evidence import times
from analysis.findings import Finding, Severity
from analysis.hardware import bands, most_of
from analysis.losses import loss_kind
from analysis.readings import MOST, SIZE, Readings, blocks, finding, last_of, median_of, of_rows
from analysis.schedule import rates
from analysis.segment import Segment
from messages import N_, Text

NEEDS = ("grad_norm",)
NOW, THEN, LEAST = 3, 64, 7  # blocks of five rows: that must all be low, of the reference, before anything is judged
EARLY = 24  # blocks within which norms fall by themselves, as they do while the learning rate warms up
EARLY_SHARE = 0.1  # of the ordinary limit that applies there
WITH_LOSS = 0.3  # share of the loss left, below which a small gradient is what one expects
BACK = 5.0  # times the limit at which it is over


def check(segment: Segment, *, share: float = 0.1) -> Iterator[Finding]:
    """Yield each stretch in which the gradient norm is below `share` of what it was half of the rows ago."""
    series = _norms(segment)
    middle = blocks(series.values)
    if len(middle) < LEAST:
        return
    highest = bn.move_max(middle, min(NOW, len(middle)), NOW)
    then = median_of(middle, THEN, 4)[(np.arange(len(middle)) + 1) // 2 - 1]
    limit = np.where(_early(segment, series, len(middle)), EARLY_SHARE, 1.0) * share * then
    with np.errstate(invalid="ignore"):
        hot = (highest < limit) & (np.arange(len(middle)) >= LEAST - 1) & (highest > 0)
    free = shown = 0
    for at in map(int, np.flatnonzero(hot)):
        if at < free or shown >= MOST or _loss_fell_too(segment, series, at):
            continue
        back = np.flatnonzero(middle[at:] > BACK * limit[at])
        end = at + int(back[0]) if len(back) else None
        yield _finding(series, middle, at, end, float(then[at]), float(limit[at]))
        free, shown = len(middle) if end is None else end + 1, shown + 1


def check_articles(
    segment: Segment, *, below: float = 0.01, lasting_below: float = 0.001, lasting_rows: int = 10
) -> Iterator[Finding]:
    """Yield the rows below `below` (possible vanishing), and those of stretches of lasting_rows rows below lasting_below
    (check the initialisation)."""
    series = _norms(segment)
    text = N_("Gradient norm below {limit:g} in {count:,} of {all:,} rows, first at {step}: it may vanish")
    yield from bands("grad_vanishing", Severity.WARNING, series, series.values < below, below, text, unit="")
    low = most_of(series.values < lasting_below, lasting_rows, lasting_rows)
    text = N_("Gradient norm below {limit:g} for 10 rows and more from {step} on: check the initialisation (xavier_uniform_)")
    yield from bands("grad_vanishing", Severity.WARNING, series, low, lasting_below, text, unit="")


def _norms(segment: Segment) -> Readings:
    values = segment.values("grad_norm")
    rows = np.flatnonzero(np.isfinite(values) & (values >= 0))
    return of_rows(segment, "grad_norm", rows, values[rows])


def _early(segment: Segment, series: Readings, count: int) -> np.ndarray:
    """Say which blocks are so early that norms fall by themselves (count,)."""
    course, block = rates(segment), np.arange(count)
    ends = series.at[(block + 1) * SIZE - 1]
    warming = course.warming[ends] if course is not None else np.zeros(count, dtype=bool)
    return np.asarray((block < EARLY) | warming)


def _loss_fell_too(segment: Segment, series: Readings, block: int) -> bool:
    """Say whether the loss fell so far in the same time that small gradients are what one expects."""
    main = loss_kind(segment).main
    if main is None or loss_kind(segment).problem:
        return False
    loss = segment.values(main)
    now, then = series.row(last_of(block)), series.row(last_of((block + 1) // 2 - 1))
    new, old = loss[max(now - 15, 0) : now + 1], loss[max(then - 50, 0) : then + 1]
    new, old = new[np.isfinite(new)], old[np.isfinite(old)]
    return bool(len(new) and len(old) and np.median(new) < WITH_LOSS * np.median(old))


def _finding(series: Readings, middle: np.ndarray, at: int, end: int | None, then: float, limit: float) -> Finding:
    above = np.flatnonzero(middle[: at + 1] >= limit)
    first = SIZE * (int(above[-1]) + 1) if len(above) else 0
    last = None if end is None else last_of(end)
    now = float(np.median(middle[at : len(middle) if end is None else end + 1]))
    gaps = {"share": times(now, then), "step": series.where(first), "now": now}
    title = Text(N_("Gradient norm is at {share:.2%} of what it was since {step} ({now:.3g})"), gaps)
    if last is not None:
        gaps["end"] = series.where(last)
        title = Text(N_("Gradient norm was at {share:.2%} of what it had been from {step} to {end} ({now:.3g})"), gaps)
    evidence = (
        series.fact(N_("usual gradient norm before"), then, max(first - 1, 0)),
        series.fact(N_("gradient norm since"), now, last_of(at)),
    )
    known = last_of(at)
    return finding("grad_vanishing", Severity.WARNING, series, title, evidence, first=first, known=known, end=last)


def sick() -> Segment:
    """Return a run whose gradients fade."""
    from analysis.simulate_hardware import simulate

    return simulate(rows=1200, seed=6, fault="grad_vanishing").segment


def well() -> Segment:
    """Return a run whose gradient norm falls as it learns."""
    from analysis.simulate_hardware import simulate

    return simulate(rows=1200, seed=6, kind="fine_tune").segment
