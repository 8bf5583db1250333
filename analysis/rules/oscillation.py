"""The loss swings: up and down with a fixed period, or ever more wildly.

Meaning: Beyond the noise that every loss has, it goes up and down regularly, or its fluctuations have grown to several times
what they were. Amplitude and period are given; a period that is exactly one epoch only shows that data repeat.

Causes: A learning rate too high, a batch too small, data that come in a fixed order (an epoch, a shard, a curriculum), or
gradient accumulation that does not divide the loss as it should.

What to do: Look whether the period is that of an epoch, a shard or the accumulation. If not, lower the learning rate by a
factor of ten, or use a larger batch; check that the data are shuffled.

Source: power spectrum of the detrended loss; fluctuations against the run's own earlier ones. The source articles call a
swing of more than ten percent an oscillation.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import bottleneck as bn
import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from analysis.attribution import explain
from analysis.evidence import fact, finding_at, where
from analysis.findings import Finding, Severity
from analysis.losses import loss_kind
from analysis.noise import TO_SIGMA, Track, track
from analysis.rhythm import Lines, lines, tower_of
from analysis.segment import Segment
from analysis.stretches import joined
from analysis.warm_restarts import warm_restarts
from messages import N_, Text

NEEDS = ("loss|logits_loss",)
LEVEL = True
ROWS = 96
SAME_PERIOD = 0.1
EPOCH_MATCH = 0.06
SHORT, SHORT_MORE = 64, 0.15  # windows of so few values have few frequencies: a line must hold a larger share
BLOCK = 32
PAST_BLOCKS, NEW_BLOCKS = 64, 4
AT_ONCE = 50_000  # windows of the articles' check


@dataclass(frozen=True)
class Swing:
    """A stretch that swings: positions in the track (`last` None: goes on), its amplitude as a share, its period in rows
    (None: no fixed one), and how many times the earlier fluctuations it has."""

    first: int
    known: int
    last: int | None
    amplitude: float
    period: float | None
    growth: float | None


@dataclass(frozen=True)
class Limits:
    """What counts as a swing: the arguments of `check`."""

    tower: float = 10.0
    share: float = 0.2
    amplitude: float = 0.012
    growth: float = 3.0
    noise: float = 0.05


def check(
    segment: Segment,
    *,
    tower: float = Limits.tower,
    share: float = Limits.share,
    least_amplitude: float = Limits.amplitude,
    growth: float = Limits.growth,
    least_noise: float = Limits.noise,
) -> Iterator[Finding]:
    """Yield each stretch in which the main loss swings.

    tower, share: power of a line in the spectrum over its neighbours' and of the whole, in three windows with one period;
    least_amplitude: of the swing, as a share of the level. growth: of the fluctuations over the run's earlier ones, in log
    and in absolute terms; least_noise: standard deviation below which they do not count.
    """
    main = loss_kind(segment).main
    if main is None:
        return
    limits = Limits(tower, share, least_amplitude, growth, least_noise)
    for swing in swings(segment, main, limits):
        yield _finding(segment, main, track(segment, main), swing)


def swings(segment: Segment, column: str, limits: Limits = Limits()) -> tuple[Swing, ...]:
    """Return the stretches in which a loss swings, in the order in which they were known; worked out once a segment."""
    return segment.once(("swings", column, limits), lambda: tuple(_swinging(track(segment, column), limits)))


def _swinging(loss: Track, limits: Limits) -> Iterator[Swing]:
    found = [*_periodic(loss, limits.tower, limits.share, limits.amplitude), *_wilder(loss, limits.growth, limits.noise)]
    taken: list[Swing] = []
    for swing in sorted(found, key=lambda item: item.known):
        if not any(_overlap(swing, other) for other in taken):
            taken.append(swing)
            yield swing


def check_articles(
    segment: Segment, *, fluctuation: float = 0.1, window_rows: int = 20, each_side: int = 3
) -> Iterator[Finding]:
    """Yield each stretch in which the loss goes up and down by more than a tenth around its trend.

    fluctuation: relative to the straight line through window_rows rows; each_side: rows above and below it by more.
    """
    main = loss_kind(segment).main
    loss = track(segment, main) if main else None
    if main is None or loss is None or len(loss) < window_rows:
        return
    values = np.exp(np.minimum(loss.x, 690))
    hot = np.concatenate(
        [
            _swings(values[at : at + AT_ONCE + window_rows - 1], window_rows, fluctuation, each_side)
            for at in range(0, len(values) - window_rows + 1, AT_ONCE)
        ]
    )
    for first, last in joined(np.flatnonzero(hot) + window_rows - 1, window_rows):
        part = values[first - window_rows + 1 : last + 1]
        amplitude = float((part.max() - part.min()) / 2 / np.median(part))
        end = None if last == len(values) - 1 else last
        yield _finding(segment, main, loss, Swing(first - window_rows + 1, first, end, amplitude, None, None))


def _swings(values: np.ndarray, rows: int, limit: float, each: int) -> np.ndarray:
    """Say for each window of rows whether enough of them lie above and below its line by more than a share (m,)."""
    windows = sliding_window_view(values, rows)
    at = np.arange(rows) - (rows - 1) / 2
    mean = windows.mean(axis=1, keepdims=True)
    line = mean + (windows @ at / (at @ at))[:, None] * at
    off = windows / np.maximum(line, 1e-300) - 1
    return ((off > limit).sum(axis=1) >= each) & ((off < -limit).sum(axis=1) >= each)


def _overlap(one: Swing, other: Swing) -> bool:
    ends = [np.inf if item.last is None else item.last for item in (one, other)]
    return one.first <= ends[1] and other.first <= ends[0]


def _periodic(loss: Track, tower: float, share: float, amplitude: float) -> Iterator[Swing]:
    for found in lines(loss):
        least = share + (SHORT_MORE if found.size == SHORT else 0.0)
        strong = (found.tower > tower) & (found.share > least) & (found.amplitude > amplitude)
        for first, known, last in _stretches(found, strong):
            end = None if last == len(strong) - 1 else int(found.end[last])
            part = slice(known - 4, last + 1)
            swing, period = float(np.median(found.amplitude[part])), float(np.median(found.period[part]))
            stretch = loss.x[int(found.end[first]) - found.rows + 1 : int(found.end[known]) + 1]
            if not _throughout(stretch, period) or not _one_line(stretch, period, found.rows // found.size, tower):
                continue
            yield Swing(int(found.end[first]) - found.rows + 1, int(found.end[known]), end, swing, period, None)


def _throughout(x: np.ndarray, period: float) -> bool:
    """Say whether all periods of a stretch swing: a single dip or jump has a spectrum, too."""
    width = max(int(round(period)), 4)
    pieces = x[: len(x) // width * width].reshape(-1, width)
    swings = np.std(pieces, axis=1)
    return len(swings) < 3 or bool(np.median(swings) > 0.4 * swings.max())


def _one_line(x: np.ndarray, period: float, scale: int, tower: float) -> bool:
    """Say whether a period stands out of the whole stretch as it does of each window: in slow wander it does not."""
    means = x[: len(x) // scale * scale].reshape(-1, scale).mean(axis=1)
    return tower_of(means, period / scale) > tower


def _stretches(found: Lines, strong: np.ndarray) -> Iterator[tuple[int, int, int]]:
    """Yield (first, known, last) windows of each stretch: three windows, half a window apart, agree on the period (of the
    shortest four: in noise that rows share, they often have a slow line)."""
    agree = strong.copy()
    for back in (2, 4, 6) if found.rows == SHORT else (2, 4):
        agree[:back] = False
        agree[back:] &= strong[:-back]
        with np.errstate(invalid="ignore", divide="ignore"):
            agree[back:] &= np.abs(np.log(found.period[back:] / found.period[:-back])) < SAME_PERIOD
    edges = np.diff(np.r_[0, agree.view(np.int8), 0])
    starts, ends = np.flatnonzero(edges == 1), np.flatnonzero(edges == -1) - 1
    last = -8
    for number, start in enumerate(starts):
        if start <= last + 8:
            continue
        last = int(ends[number])
        for later in range(number + 1, len(starts)):  # short breaks belong to it
            if starts[later] > last + 8:
                break
            last = int(ends[later])
        yield int(start) - 4, int(start), last


def _wilder(loss: Track, growth: float, least: float) -> Iterator[Swing]:
    """Stretches whose fluctuations have grown, in the log and as they are: a loss near zero fluctuates more in the log."""
    count = len(loss) // BLOCK
    if count < 16:
        return
    rows = loss.x[: count * BLOCK].reshape(-1, BLOCK)
    noise = TO_SIGMA * np.nan_to_num(np.where(_rising(rows), _off(_levelled(rows)), _off(rows))[2:])
    level = np.exp(np.minimum(np.median(loss.x[: count * BLOCK].reshape(-1, BLOCK), axis=1)[2:], 300))
    ratios = [_over_past(noise), _over_past(noise * level)]
    wild = (ratios[0] > growth) & (ratios[1] > growth) & (bn.move_median(noise, NEW_BLOCKS, NEW_BLOCKS) > least)
    hot = np.flatnonzero(wild)
    if not len(hot):
        return
    known = int(hot[0])
    calm = np.flatnonzero(noise[known:] < noise[: known - 2 * NEW_BLOCKS].mean() * growth / 2)
    end = known + int(calm[0]) if len(calm) else None
    yield Swing(
        (known + 2 - NEW_BLOCKS + 1) * BLOCK,
        (known + 3) * BLOCK - 1,
        None if end is None else (end + 3) * BLOCK - 1,
        float(np.median(noise[known - NEW_BLOCKS + 1 : known + 1])),
        None,
        float(ratios[0][known]),
    )


def _off(rows: np.ndarray) -> np.ndarray:
    """Return how far rows (k, BLOCK) are from the level of their block (k,): a jump to another level is no fluctuation."""
    return np.asarray(np.median(np.abs(rows - np.median(rows, axis=1, keepdims=True)), axis=1))


def _rising(rows: np.ndarray) -> np.ndarray:
    """Say which blocks (k,) stand above the one before, as that does above the one before it, and so on."""
    up = np.diff(np.median(rows, axis=1), prepend=np.inf) > 0
    return np.asarray(bn.move_min(up.astype(float), NEW_BLOCKS - 1, 1) > 0)


def _levelled(rows: np.ndarray) -> np.ndarray:
    """Return rows (k, BLOCK) without the slope between the halves of their block: a rise is no fluctuation either."""
    first, second = np.median(rows[:, : BLOCK // 2], axis=1), np.median(rows[:, BLOCK // 2 :], axis=1)
    return rows - ((second - first) / (BLOCK // 2))[:, None] * np.arange(BLOCK)


def _over_past(values: np.ndarray) -> np.ndarray:
    """Return the lowest of the last NEW_BLOCKS over the median of up to PAST_BLOCKS before those and a gap (k,)."""
    skip = 2 * NEW_BLOCKS
    now = bn.move_min(values, NEW_BLOCKS, NEW_BLOCKS)
    past = np.full(len(values), np.nan)
    if len(values) > skip + 4:
        past[skip:] = bn.move_median(values, min(PAST_BLOCKS, len(values)), 5)[:-skip]
    with np.errstate(divide="ignore", invalid="ignore"):
        return now / past


def _finding(segment: Segment, column: str, loss: Track, swing: Swing) -> Finding:
    first, known = int(loss.rows[swing.first]), int(loss.rows[swing.known])
    end = None if swing.last is None else int(loss.rows[swing.last])
    causes, advice = explain(segment, "oscillation", first, known=known)
    period = None if swing.period is None else swing.period * _interval(segment, first, known)
    repeats = swing.period is not None and _is_epoch(segment, swing.period, first, known)
    cycles = swing.period is not None and _is_cycle(segment, swing.period)
    gaps = {"swing": 100 * swing.amplitude, "step": where(segment, first), "period": period, "growth": swing.growth}
    title = Text(N_("Loss goes up and down by ±{swing:.3g} % since {step}"), gaps)
    if swing.growth is not None:
        title = Text(N_("Loss fluctuates {growth:.2g}× as much as before since {step} (±{swing:.3g} %)"), gaps)
    if period is not None:
        title = Text(N_("Loss swings by ±{swing:.3g} % every {period:,.4g} steps since {step}"), gaps)
    if repeats:
        title = Text(N_("Loss swings by ±{swing:.3g} % with each epoch ({period:,.4g} steps)"), gaps)
    if cycles:
        title = Text(N_("Loss swings by ±{swing:.3g} % with each cycle of the learning rate ({period:,.4g} steps)"), gaps)
    return finding_at(
        segment,
        kind="oscillation",
        severity=Severity.INFO if repeats or cycles else Severity.WARNING,
        first=first,
        known=known,
        end=end,
        title=title,
        evidence=(
            fact(N_("{column}: half of the swing, share of the level"), float(f"{swing.amplitude:.3g}"), column=column),
            fact(N_("period, steps"), "none" if period is None else float(f"{period:.4g}")),
            fact(N_("fluctuations over the earlier ones"), "-" if swing.growth is None else float(f"{swing.growth:.3g}")),
        ),
        causes=causes,
        advice=advice,
    )


def _interval(segment: Segment, first: int, last: int) -> float:
    steps = segment.steps()[first : last + 1]
    return float(np.nanmedian(np.diff(steps))) if len(steps) > 1 else 1.0


def _is_epoch(segment: Segment, period: float, first: int, last: int) -> bool:
    """Say whether a period in rows is that of an epoch, or a whole part of it."""
    pace = _epoch_pace(segment.values("epoch")[first : last + 1]) if segment.has("epoch") else 0.0
    each = segment.values("steps_per_epoch")[last] / _interval(segment, first, last) if pace <= 0 else 1 / pace
    return bool(np.isfinite(each) and each > 1 and abs(each / period - 1) < EPOCH_MATCH)


def _epoch_pace(epochs: np.ndarray) -> float:
    """Return the epochs a row over a stretch (m,): of half of it at a time, for a printed epoch is rounded."""
    half = max(len(epochs) // 2, 1)
    return float(np.nanmedian(epochs[half:] - epochs[:-half])) / half


def _is_cycle(segment: Segment, period: float) -> bool:
    """Say whether a period in rows is that of the warm restarts of the learning rate."""
    lengths = np.diff([restart.row for restart in warm_restarts(segment)])
    return bool(len(lengths) and abs(float(np.median(lengths)) / period - 1) < EPOCH_MATCH)


def sick() -> Segment:
    """Return a run whose loss starts to swing."""
    from analysis.simulate import simulate

    return simulate(rows=2500, seed=10, fault="oscillation", at=0.4).segment


def well() -> Segment:
    """Return a run with large noise that rows share."""
    from analysis.simulate import simulate

    return simulate(rows=2500, seed=10, kind="small_batch").segment
