"""The loss rises steadily instead of falling.

Meaning: Block after block the loss is worse than its best, and still rising: the run is coming apart, slowly or quickly.
What is trained from here on is lost.

Causes: A learning rate too high for this stage, gradients that grow unnoticed, or data that changed or lost its order.

What to do: Stop the run and restore the best checkpoint before the rise began. Check the learning-rate schedule and the
order of the data at that step; restart with a lower rate.

Source: early stopping compared with the best so far, in the noise of the run's own block means and with a Mann-Kendall
trend, so that a run of bad luck is not called a rise. A clear slope is known sooner, by its likelihood ratio against a level
course and against a step.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import bottleneck as bn
import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from analysis.attribution import explain
from analysis.clues import stage_changed
from analysis.episodes import Episode, episodes
from analysis.evidence import fact, finding_at, median_fact, times, unlog, where
from analysis.findings import Finding, Severity
from analysis.ladder import Octave, block_noise, ladder
from analysis.losses import loss_kind
from analysis.noise import WINDOW, Track, first_level, track
from analysis.schedule import rates
from analysis.segment import Segment
from analysis.turns import sloping, stepping
from analysis.warm_restarts import by_schedule
from messages import N_, Text

NEEDS = ("loss|logits_loss",)
LEVEL = True
COARSE = 16  # rows by which the begin of a rise may be off
ROWS = 24
SHAPE_BLOCKS = 16
MERGED = (1, 2, 4, 8)  # blocks that are one when a slope is looked for: a slow one needs more rows to be clear
RATHER = 2.0  # standard deviations: 2 ln of the likelihood ratio of a slope against a step is their square
BEST_ROWS = 128  # a level that was held for more than half of them is one: a dip to repeated samples is none
SHORT = 200  # rows, or share of the run, for which a rise that came back is a bump and no divergence
SHORT_SHARE = 0.04
FAR = 0.25  # in logs: so far above the best, the shape of the rise no longer matters


@dataclass(frozen=True)
class Rise:
    """A rise: positions in the track where it began, was known, and ended (None: goes on); best and noise are in logs."""

    first: int
    known: int
    end: int | None
    best: float
    noise: float


@dataclass(frozen=True)
class Limits:
    """What counts as a rise: the arguments of `check`."""

    noise: float = 4.0
    least: float = 0.02
    of_first: float = 0.005
    short: float = 0.55
    long: float = 0.5
    slope: float = 5.5


def check(
    segment: Segment,
    *,
    noise_factor: float = Limits.noise,
    least_rise: float = Limits.least,
    least_of_first: float = Limits.of_first,
    trend_short: float = Limits.short,
    trend_long: float = Limits.long,
    slope_factor: float = Limits.slope,
) -> Iterator[Finding]:
    """Yield each steady rise of the main loss.

    noise_factor: standard errors of a block mean, least_rise: share of the level, least_of_first: share of the first loss,
    by all of which three blocks in a row must exceed the best three-block median.
    trend_short, trend_long: least Mann-Kendall trend over 8 or 16 blocks.
    slope_factor: standard deviations by which a slope over 16 blocks stands out, so that no more than the least rise is asked.
    """
    main = loss_kind(segment).main
    if main is None:
        return
    limits = Limits(noise_factor, least_rise, least_of_first, trend_short, trend_long, slope_factor)
    loss = track(segment, main)
    for rise in rises(segment, main, limits):
        highest = float(np.median(loss.x[rise.first : rise.end][-20:]))
        if by_schedule(segment, main, rise.first, rise.best, highest, early=COARSE) is not None:
            continue
        yield _finding(segment, main, loss, rise)


def rises(segment: Segment, column: str, limits: Limits = Limits()) -> tuple[Rise, ...]:
    """Return the steady rises of a loss, in the order in which they were known; worked out once a segment."""
    return segment.once(("rises", column, limits), lambda: tuple(_rising(segment, column, limits)))


def _rising(segment: Segment, column: str, limits: Limits) -> Iterator[Rise]:
    loss = track(segment, column)
    yield from _rises(ladder(segment, loss), episodes(segment, column), limits, limits.of_first * first_level(loss))


def check_articles(segment: Segment, *, least_rise: float = 0.1, late: float = 0.5, level_rows: int = 20) -> Iterator[Finding]:
    """Yield a late rise: in the later part of a run the loss goes up again.

    least_rise: median of level_rows rows over the lowest such median, as a share; late: share of the plan (without a plan
    of 1,000 steps) behind which it counts.
    """
    main = loss_kind(segment).main
    loss = track(segment, main) if main else None
    if main is None or loss is None or len(loss) < 2 * level_rows:
        return
    smooth = bn.move_median(loss.x, level_rows, level_rows)
    lowest = np.fmin.accumulate(smooth)
    behind = segment.steps()[loss.rows] >= late * (segment.total_steps or 1000 / late)
    risen = np.flatnonzero((smooth > lowest + np.log1p(least_rise)) & behind)
    if not len(risen):
        return
    known = int(risen[0])
    first = int(np.nanargmin(smooth[: known + 1]))
    back = np.flatnonzero(smooth[known:] <= lowest[known] + np.log1p(least_rise / 2))
    end = known + int(back[0]) if len(back) else None
    yield _finding(segment, main, loss, Rise(first, known, end, float(lowest[known]), float(loss.scale[known])))


def _rises(octaves: tuple[Octave, ...], jumps: tuple[Episode, ...], limits: Limits, of_first: float) -> Iterator[Rise]:
    """Walk once through the blocks in the order in which they were completed."""
    open_rise: Rise | None = None
    for octave in octaves:
        smooth = _medians(octave, 3)
        best = np.concatenate(([np.nan] * 3, np.fmin.accumulate(_levels(octave))[:-3]))[: len(smooth)]
        least = np.fmax(limits.least, np.log1p(of_first * np.exp(-np.maximum(best, -20))))
        limit = np.fmax(limits.noise * octave.noise, least)
        above = _three(octave.means > best + limit)
        rising = (_trend(octave.means, 8) > limits.short) | (_trend(octave.means, 16) > limits.long)
        clear = _clear(octave, best + least, limits.slope)
        for block in range(octave.judge, len(octave.means)):
            row = octave.row(block)
            if open_rise is not None and smooth[block] <= open_rise.best + max(2 * open_rise.noise, limits.least / 2):
                yield Rise(open_rise.first, open_rise.known, row, open_rise.best, open_rise.noise)
                open_rise = None
            elif open_rise is None and (clear[block] or (above[block] and rising[block])):
                begun = _begin(octave, block, best[block], limit[block] if above[block] else least[block])
                far = octave.means[block - 2 : block + 1].min() - best[block] > FAR
                sloped = far or clear[block] or _slopes(octave.means, block)
                if sloped and not _is_jump(octave, jumps, begun, block, limit[block]):
                    open_rise = Rise(begun, row, None, float(best[block]), float(octave.noise[block]))
    if open_rise is not None:
        yield open_rise


def _clear(octave: Octave, lowest: np.ndarray, factor: float) -> np.ndarray:
    """Say at which blocks (k,) a slope stands out: `factor` standard deviations over a level course, RATHER over a step, and
    with its last two values above `lowest` (k,). Noise is measured at each size, so wander enters as it is in this run."""
    result = np.zeros(len(octave.means), dtype=bool)
    for size in MERGED:
        count = len(octave.means) // size
        if count < SHAPE_BLOCKS:
            break
        means = octave.means[: count * size].reshape(count, size).mean(axis=1)
        noise, windows = block_noise(means)[SHAPE_BLOCKS - 1 :], sliding_window_view(means, SHAPE_BLOCKS)
        slope, step = sloping(windows), stepping(windows)
        ends = np.arange(SHAPE_BLOCKS, count + 1) * size - 1
        ok = (slope > factor * noise) & (slope**2 - step**2 > (RATHER * noise) ** 2)
        result[ends] |= ok & (windows[:, -2:].min(axis=1) > lowest[ends])
    return result


def _medians(octave: Octave, blocks: int) -> np.ndarray:
    """Return the median of the last so many blocks, at least three (k,); NaN where fewer than three are there."""
    count = len(octave.means)
    return bn.move_median(octave.means, min(max(blocks, 3), count), 3) if count >= 3 else np.full(count, np.nan)


def _levels(octave: Octave) -> np.ndarray:
    """Return the level at each block (k,): the median over BEST_ROWS rows, over fewer while there are few."""
    result = _medians(octave, 3)
    for blocks, since in ((7, 28), (15, 45), (31, 70), (63, 126)):
        if blocks * octave.size <= BEST_ROWS:
            result[since:] = _medians(octave, blocks)[since:]
    return result


def _three(mask: np.ndarray) -> np.ndarray:
    """Say where a block and the two before it all hold."""
    held = mask.copy()
    held[1:] &= mask[:-1]
    held[2:] &= mask[:-2]
    held[:2] = False
    return held


def _trend(means: np.ndarray, width: int) -> np.ndarray:
    """Return the Mann-Kendall trend, -1…1, of the `width` blocks up to each (k,); NaN where there are fewer."""
    result = np.full(len(means), np.nan)
    if len(means) >= width:
        windows = sliding_window_view(means, width)
        signs = np.sign(windows[:, None, :] - windows[:, :, None])
        pairs = width * (width - 1) / 2
        result[width - 1 :] = np.triu(signs, 1).sum(axis=(1, 2)) / pairs
    return result


def _slopes(means: np.ndarray, block: int) -> bool:
    """Say whether the last blocks look more like the start of a slope than like a step to a new level (changed data)."""
    window = means[None, max(block + 1 - SHAPE_BLOCKS, 0) : block + 1]
    spread = window.var() * window.size
    return bool(spread - sloping(window)[0] ** 2 < 0.7 * (spread - stepping(window)[0] ** 2))


def _begin(octave: Octave, block: int, best: float, limit: float) -> int:
    """Return where the rise left the old level: after the last block before it that was within half the limit of the best."""
    low = np.flatnonzero(octave.means[: block + 1] <= best + limit / 2)
    return (int(low[-1]) + 1) * octave.size if len(low) else 0


def _is_jump(octave: Octave, jumps: tuple[Episode, ...], begun: int, block: int, limit: float) -> bool:
    """Say whether the rise is a jump that another rule reports: not if 8 blocks since go on rising above where it landed."""
    row = octave.row(block)
    for jump in jumps:
        if jump.known > row or jump.first < begun - 2 * octave.size or (jump.back is not None and jump.back <= row):
            continue
        after = (jump.first + WINDOW) // octave.size + 1  # until then the blocks' clipping spreads the jump
        since = octave.means[after : block + 1]
        if len(since) < 8 or since[-3:].min() <= since[:3].mean() + limit or _trend(since, 8)[-1] <= 0.55:
            return True
    return False


def _finding(segment: Segment, column: str, loss: Track, rise: Rise) -> Finding:
    first, known = int(loss.rows[rise.first]), int(loss.rows[rise.known])
    end = None if rise.end is None else int(loss.rows[rise.end])
    last = len(segment) - 1 if end is None else end
    since = max((len(loss) if rise.end is None else rise.end) - 20, rise.first)
    level = unlog(np.median(loss.x[since:][:20]))
    causes, advice = explain(segment, "divergence", first, known=last)
    gaps = {"step": where(segment, first), "best": unlog(rise.best), "now": level, "end": where(segment, last)}
    title = Text(N_("Loss rises since {step}: from {best:.4g} to {now:.4g}"), gaps)
    if end is not None:
        title = Text(N_("Loss rose from {step} on and was back at {best:.4g} by {end}"), gaps)
    return finding_at(
        segment,
        kind="divergence",
        severity=_severity(segment, loss, rise),
        first=first,
        known=known,
        end=end,
        title=title,
        evidence=(
            fact(N_("{column}: best level before"), unlog(rise.best), column=column),
            median_fact(
                N_("{column}: level now or at the end of the rise"), segment, loss, (since, min(since + 20, len(loss))), column
            ),
            fact(N_("noise of a block mean, share of the level"), float(f"{rise.noise:.3g}")),
            fact(N_("rise over the best level, share"), float(f"{times(level, unlog(rise.best)) - 1:.3g}")),
        ),
        causes=causes,
        advice=advice,
    )


def _severity(segment: Segment, loss: Track, rise: Rise) -> Severity:
    """A rise that was soon over is only noted, and so is a small one that begins where other data or another batch do, or
    while the rate warms up, as that of trained weights does."""
    start, known = int(loss.rows[rise.first]), int(loss.rows[rise.known])
    if rise.end is not None:
        short = rise.end - rise.first <= max(SHORT, SHORT_SHARE * rise.first)
        return Severity.INFO if short or _warming(segment, start) else Severity.WARNING
    staged = any(stage_changed(segment, row) for row in range(start, known + 1, 20)) or stage_changed(segment, known)
    small = np.median(loss.x[rise.known :][-20:]) - rise.best < FAR
    return Severity.INFO if small and (staged or _warming(segment, len(segment) - 1)) else Severity.CRITICAL


def _warming(segment: Segment, row: int) -> bool:
    course = rates(segment)
    return course is not None and bool(course.warming[row])


def sick() -> Segment:
    """Return a run that diverges from its middle on."""
    from analysis.simulate import simulate

    return simulate(rows=2000, seed=7, fault="divergence").segment


def well() -> Segment:
    """Return a run whose data became a little harder at half time: a step up, no rise."""
    from analysis.simulate import simulate

    return simulate(rows=2000, seed=7, kind="curriculum").segment
