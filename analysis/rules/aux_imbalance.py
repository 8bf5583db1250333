"""The experts are loaded ever more unevenly.

Meaning: The auxiliary loss measures how unevenly the router spreads the tokens. It has risen well above its own best level
and stays there: some experts get most of the tokens, others hardly learn any more.

Causes: A weight of the auxiliary loss that is too small, a learning rate too high for the router, capacity that drops tokens,
or data that suit a few experts only.

What to do: Look at the tokens per expert. Raise the weight of the auxiliary loss or use a bias-based balance, add a router
z-loss, and lower the router's learning rate; restart from before the rise if experts have died.

Source: load balancing of mixtures of experts; three block means against the run's own best level.
"""

from collections.abc import Iterator

import bottleneck as bn
import numpy as np

from analysis.evidence import times, unlog
from analysis.findings import Finding, Severity
from analysis.ladder import Octave, ladder
from analysis.noise import Track, track
from analysis.readings import finding, of_rows
from analysis.segment import Segment
from messages import N_, Text

NEEDS = ("aux_loss",)
LEVEL = True
ROWS = 24


def check(segment: Segment, *, ratio: float = 1.4, floor: float = 2e-4, noise_factor: float = 4.0) -> Iterator[Finding]:
    """Yield each stretch in which the auxiliary loss is high.

    ratio, floor: three block means in a row must exceed ratio times the best three-block median, plus floor; and by
    noise_factor standard deviations of a block.
    """
    aux = track(segment, "aux_loss")
    for first, known, end, best in _rises(ladder(segment, aux), ratio, floor, noise_factor):
        yield _finding(segment, aux, (first, known, end), best)


def _rises(
    octaves: tuple[Octave, ...], ratio: float, floor: float, factor: float
) -> Iterator[tuple[int, int, int | None, float]]:
    """Yield (first, known, end, best level in logs) in positions of the track, end None while it goes on."""
    current: tuple[int, int, float] | None = None
    for octave in octaves:
        smooth = bn.move_median(octave.means, 3, 3) if len(octave.means) >= 3 else np.full(len(octave.means), np.nan)
        best = np.concatenate(([np.nan] * 3, np.fmin.accumulate(smooth)[:-3]))[: len(smooth)]
        limit = np.log(ratio * np.exp(best) + floor)
        above = octave.means > np.fmax(limit, best + factor * octave.noise)
        held = above & np.r_[False, above[:-1]] & np.r_[False, False, above[:-2]] if len(above) > 2 else above & False
        for block in range(octave.judge, len(octave.means)):
            if current is None and held[block]:
                low = np.flatnonzero(octave.means[: block + 1] <= (best[block] + limit[block]) / 2)
                begun = (int(low[-1]) + 1) * octave.size if len(low) else 0
                current = (begun, octave.row(block), float(best[block]))
            elif current is not None and octave.means[block] < current[2] + np.log(ratio) / 2:
                yield current[0], current[1], octave.row(block), current[2]
                current = None
    if current is not None:
        yield current[0], current[1], None, current[2]


def _finding(segment: Segment, aux: Track, at: tuple[int, int, int | None], best: float) -> Finding:
    first, known, end = at
    series = of_rows(segment, "aux_loss", aux.rows, segment.values("aux_loss")[aux.rows])
    now = unlog(np.median(aux.x[max((len(aux) if end is None else end) - 20, first) :][:20]))
    gaps = {"best": unlog(best), "now": now, "step": series.where(first), "ratio": times(now, unlog(best))}
    title = Text(N_("The auxiliary loss rose from {best:.3g} to {now:.3g} since {step}: experts are unevenly loaded"), gaps)
    if end is not None:
        title = Text(N_("The auxiliary loss rose from {best:.3g} at {step} and came back"), gaps)
    return finding(
        "aux_imbalance",
        Severity.WARNING if end is None else Severity.INFO,
        series,
        title,
        (
            series.fact(N_("best level before"), unlog(best)),
            series.fact(N_("level now"), now, len(aux) - 1 if end is None else end),
        ),
        first=first,
        known=known,
        end=end,
    )


def sick() -> Segment:
    """Return a run whose auxiliary loss doubles over a fifth of its length."""
    from analysis.simulate import simulate

    segment = simulate(rows=2000, seed=21, kind="moe").segment
    grown = segment.rows["aux_loss"] * np.clip(1 + (np.arange(2000) - 1000) / 400, 1, 2)
    segment.rows["loss"] += grown - segment.rows["aux_loss"]
    segment.rows["aux_loss"] = grown
    return segment


def well() -> Segment:
    """Return a run whose auxiliary loss is steady."""
    from analysis.simulate import simulate

    return simulate(rows=2000, seed=21, kind="moe").segment
