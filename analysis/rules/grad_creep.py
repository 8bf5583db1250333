"""The gradient norm creeps up.

Meaning: Block after block the gradient norm rises and has more than doubled since its lowest level. Runs that diverge or
spike later often show this long before the loss does. Near the end of a schedule, when the learning rate has decayed, a rise
is ordinary and only noted.

Causes: Weights that grow without enough weight decay, attention logits that grow (no QK-norm), Adam's epsilon too large or
small, a learning rate too high for the rest of the schedule.

What to do: Keep checkpoints. Look at the norms of weights and attention logits; consider more weight decay, QK-norm, z-loss
or a lower learning rate before the loss suffers.

Source: gradient norms of OLMo and Marin before their instabilities; criterion: twenty blocks of the whole past that rise.
"""

from collections.abc import Iterator

import numpy as np

from analysis.evidence import times
from analysis.findings import Finding, Severity
from analysis.ladder import octaves
from analysis.noise import Track
from analysis.readings import SIZE, Readings, blocks, finding, of_rows
from analysis.segment import Segment
from analysis.trend_test import kendall
from messages import N_, Text

NEEDS = ("grad_norm",)
WINDOW = 20  # blocks that must rise
SMOOTH = 3  # blocks of a level
DECAYED = 0.2  # of the learning rate at the lowest norm, below which a rise is ordinary
OVER = 0.7  # of the ratio, below which it is over


def check(segment: Segment, *, ratio: float = 2.2, order: float = 0.65, hold_blocks: int = 3) -> Iterator[Finding]:
    """Yield each lasting rise of the gradient norm.

    ratio: level over the lowest so far; order: Kendall's tau of the last 20 blocks; hold_blocks: blocks in a row.
    """
    values = segment.values("grad_norm")
    rows = np.flatnonzero(np.isfinite(values) & (values > 0))
    series = of_rows(segment, "grad_norm", rows, values[rows])
    for first, known, end, lowest in _creeps(np.log(series.values), ratio, order, hold_blocks):
        yield _finding(segment, series, first, known, end, lowest)


def _creeps(x: np.ndarray, ratio: float, order: float, hold: int) -> Iterator[tuple[int, int, int | None, float]]:
    """Yield (first, known, end, logarithm of the lowest level); first is where the norm was lowest."""
    middle = blocks(x)
    unknown = np.full(len(middle), np.nan)
    track = Track("grad_norm", True, np.arange(len(middle)), middle, unknown, unknown, unknown)
    current: tuple[int, int, float] | None = None
    count = 0
    for octave in octaves(track):
        if len(octave.means) < WINDOW:
            continue
        tau = kendall(octave.means, WINDOW)
        level = np.convolve(octave.means, np.ones(SMOOTH) / SMOOTH, mode="valid")  # level[i]: blocks i … i + SMOOTH - 1
        lowest = np.minimum.accumulate(level)
        for block in range(max(octave.judge, WINDOW - 1), len(octave.means)):
            at, now = SIZE * (octave.row(block) + 1) - 1, level[block - SMOOTH + 1]
            if current is not None:
                if now < current[2] + OVER * np.log(ratio):
                    yield current[0], current[1], at, current[2]
                    current, count = None, 0
                continue
            low = float(lowest[block - SMOOTH + 1])
            rising = tau[block - WINDOW + 1] > order and now - low > np.log(ratio)
            count = count + 1 if rising else 0
            if count >= hold:
                where = int(np.argmin(level[: block - SMOOTH + 2]))
                current = SIZE * octave.size * where, at, low
    if current is not None:
        yield current[0], current[1], None, current[2]


def _finding(segment: Segment, series: Readings, first: int, known: int, end: int | None, lowest: float) -> Finding:
    last = len(series) - 1 if end is None else end
    now = float(np.median(series.values[max(last - 50, first) : last + 1]))
    gaps = {"ratio": times(now, float(np.exp(lowest))), "step": series.where(first), "end": series.where(last)}
    title = Text(N_("Gradient norm has crept up to {ratio:.3g}× its lowest level since {step}"), gaps)
    if end is not None:
        title = Text(N_("Gradient norm crept up from {step} and came down by {end}"), gaps)
    evidence = (
        series.fact(N_("lowest level of the gradient norm"), float(np.exp(lowest)), first),
        series.fact(N_("gradient norm now"), now, last),
    )
    severity = Severity.INFO if end is not None or _decayed(segment, series, first, known) else Severity.WARNING
    return finding("grad_creep", severity, series, title, evidence, first=first, known=known, end=end)


def _decayed(segment: Segment, series: Readings, first: int, known: int) -> bool:
    if not segment.has("lr"):
        return False
    lr = segment.values("lr")
    old, new = (lr[max(series.row(at) - 20, 0) : series.row(at) + 1] for at in (first, known))
    old, new = old[np.isfinite(old)], new[np.isfinite(new)]
    return bool(len(old) and len(new) and np.median(new) < DECAYED * np.median(old))


def sick() -> Segment:
    """Return a run whose gradient norm grows slowly."""
    from analysis.simulate_hardware import simulate

    return simulate(rows=2000, seed=7, fault="grad_creep", at=0.3).segment


def well() -> Segment:
    """Return a run whose gradient norm falls as it learns."""
    from analysis.simulate_hardware import simulate

    return simulate(rows=2000, seed=7).segment
