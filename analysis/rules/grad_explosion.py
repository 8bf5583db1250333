"""The gradient norm exploded.

Meaning: The gradient norm rose to many times what was usual in this run within a few steps. With clipping a single such step
does little; several in a row, or a loss that jumps with them, mean that the updates have become unstable.

Causes: A learning rate too high for this phase, a hard or dirty batch, missing or too loose gradient clipping, or an
overflow.

What to do: Lower the learning rate or clip harder (max_norm 1.0); look at the batch of that step. If it lasts, pause the run
and restart from the last checkpoint before it.

Source: gradient-norm rules of the common trouble tables and of ZClip; criterion in the run's own noise and tails.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import bottleneck as bn
import numpy as np

from analysis.evidence import times
from analysis.findings import Finding, Severity
from analysis.hardware import bands
from analysis.noise import WINDOW, Track, track, trailing
from analysis.readings import MOST, Readings, finding, of_rows
from analysis.segment import Segment
from messages import N_, Text

NEEDS = ("grad_norm",)
RECORD_ROWS = 2000
LASTING_ROWS = 10
LEVEL_ROWS = 5  # whose median is a level


@dataclass(frozen=True)
class Burst:
    """Positions in the track: first raised, known, highest, last raised (None: goes on); logarithm of the norm before."""

    first: int
    known: int
    peak: int
    end: int | None
    level: float


def check(
    segment: Segment,
    *,
    two_of_four: float = 7.0,
    two_ratio: float = 4.0,
    single: float = 12.0,
    single_ratio: float = 15.0,
    own_record: float = 1.5,
    climb_ratio: float = 20.0,
    climb_record: float = 4.0,
) -> Iterator[Finding]:
    """Yield each burst of the gradient norm, and each climb so steep that no row stands out from the one before.

    two_of_four, single: robust standard deviations of two rows in four and of one row; two_ratio, single_ratio: times the usual
    norm that they must be, too; own_record: times the second highest deviation of the last 2,000 rows.
    climb_ratio, climb_record: times what was usual 64 rows ago, and times the highest level until then.
    """
    norm = track(segment, "grad_norm")
    bursts = list(_bursts(norm, (two_of_four, two_ratio), (single, single_ratio), own_record))
    climb = _climb(norm, climb_ratio, climb_record)
    if climb is not None and not any(climb.first <= (len(norm) if b.end is None else b.end) for b in bursts):
        bursts.append(climb)
    for burst in bursts:
        yield _finding(segment, norm, burst)


def check_articles(segment: Segment, *, above: float = 5.0, mark_above: float = 1.0) -> Iterator[Finding]:
    """Yield the rows above `above` (possible explosion; exactly that is still good), and as a note those above mark_above,
    whose batches are suspect."""
    series = norms(segment)
    text = N_("Gradient norm above {limit:g} in {count:,} of {all:,} rows, first at {step}: it may explode")
    yield from bands("grad_explosion", Severity.WARNING, series, series.values > above, above, text, unit="")
    text = N_("Gradient norm above {limit:g} in {count:,} of {all:,} rows: look at the data of these batches; clip or pause")
    yield from bands("grad_explosion", Severity.INFO, series, series.values > mark_above, mark_above, text, unit="")


def norms(segment: Segment) -> Readings:
    """Return the finite gradient norms."""
    values = segment.values("grad_norm")
    rows = np.flatnonzero(np.isfinite(values))
    return of_rows(segment, "grad_norm", rows, values[rows])


def _bursts(norm: Track, two: tuple[float, float], one: tuple[float, float], record: float) -> Iterator[Burst]:
    rise = norm.x - norm.centre
    with np.errstate(invalid="ignore"):
        strong = (norm.z > two[0]) & (rise > np.log(two[1]))
        lone = (norm.z > one[0]) & (rise > np.log(one[1]))
    near = np.zeros(len(norm), dtype=bool)
    for back in (1, 2, 3):
        near[back:] |= strong[:-back]
    free = shown = 0
    for at in map(int, np.flatnonzero((strong & near) | lone)[: 50 * MOST]):
        if at < free or shown >= MOST or norm.z[at] < record * _record(norm.z, at):
            continue
        burst = _follow(norm, strong | lone, at)
        free = len(norm) if burst.end is None else burst.end + 1
        shown += 1
        yield burst


def _climb(norm: Track, ratio: float, record: float) -> Burst | None:
    """Return the first climb within some dozen rows; each row of it is little above what the rows before let expect."""
    if len(norm) < 4 * WINDOW:
        return None
    level = bn.move_median(norm.x, LEVEL_ROWS)
    usual = np.r_[np.full(WINDOW, np.nan), trailing(norm.x, 2 * WINDOW, WINDOW)[:-WINDOW]]
    highest = np.r_[np.full(WINDOW, np.nan), np.fmax.accumulate(level)[:-WINDOW]]
    with np.errstate(invalid="ignore"):
        climbed = np.flatnonzero((level > usual + np.log(ratio)) & (level > highest + np.log(record)))
    if not len(climbed):
        return None
    known = int(climbed[0])
    allowed = float(usual[known]) + np.log(2)
    low = np.flatnonzero(norm.x[:known] <= allowed)
    back = np.flatnonzero(level[known:] <= allowed)
    first, end = int(low[-1]) + 1 if len(low) else 0, known + int(back[0]) if len(back) else None
    peak = first + int(np.argmax(norm.x[first:end]))
    return Burst(first, known, peak, end, float(usual[known]))


def _record(z: np.ndarray, at: int) -> float:
    """Return the second highest z of the rows before, leaving out the last three (they may belong to the same burst)."""
    past = z[max(at - RECORD_ROWS, 0) : max(at - 3, 0)]
    past = past[np.isfinite(past)]
    return float(np.partition(past, -2)[-2]) if len(past) >= 2 else 0.0


def _follow(norm: Track, raised: np.ndarray, at: int) -> Burst:
    start = max(at - 3, 0)
    first = start + int(np.argmax(raised[start : at + 1]))
    level = float(norm.centre[first])
    allowed = level + max(2.5 * float(norm.scale[first]), np.log(2))
    low = norm.x[at + 1 :] <= allowed
    both = np.flatnonzero(low[:-1] & low[1:])
    end = at + int(both[0]) if len(both) else None
    peak = first + int(np.argmax(norm.x[first : len(norm) if end is None else end + 1]))
    return Burst(first, at, peak, end, level)


def _finding(segment: Segment, norm: Track, burst: Burst) -> Finding:
    series = of_rows(segment, "grad_norm", norm.rows, np.exp(norm.x))
    ratio = times(float(series.values[burst.peak]), float(np.exp(burst.level)))
    lasting = burst.end is None and len(norm) - burst.first > LASTING_ROWS
    highest = float(series.values[burst.peak])
    gaps = {"ratio": ratio, "step": series.where(burst.first), "peak": series.where(burst.peak), "highest": highest}
    title = Text(N_("Gradient norm rose from {step} on to {highest:.3g} at {peak}, {ratio:.3g}× its usual value"), gaps)
    if burst.peak == burst.first:
        title = Text(N_("Gradient norm rose to {highest:.3g} at {step}, {ratio:.3g}× its usual value"), gaps)
    if lasting:
        text = N_(
            "Gradient norm rose from {step} on to {highest:.3g} at {peak}, {ratio:.3g}× its usual value, and has not come back"
        )
        title = Text(text, gaps)
    evidence = (
        series.fact(N_("usual gradient norm before"), float(np.exp(burst.level)), max(burst.first - 1, 0)),
        series.fact(N_("highest gradient norm"), float(series.values[burst.peak]), burst.peak),
        series.fact(N_("in standard deviations of the run's own noise"), round(float(norm.z[burst.known]), 1)),
    )
    severity = Severity.CRITICAL if lasting else Severity.WARNING
    place = burst.first, burst.known, burst.end
    return finding("grad_explosion", severity, series, title, evidence, first=place[0], known=place[1], end=place[2])


def sick() -> Segment:
    """Return a run whose gradient norm explodes for a few steps."""
    from analysis.simulate_hardware import simulate

    return simulate(rows=900, seed=3, fault="grad_explosion").segment


def well() -> Segment:
    """Return a fine-tuning run, whose gradient norm varies much."""
    from analysis.simulate_hardware import simulate

    return simulate(rows=900, seed=3, kind="fine_tune").segment
