"""The auxiliary loss takes a growing share of the total.

Meaning: What is minimised is the total. If the share of the auxiliary loss grows while the language-modelling loss stands
still, the run works on balancing its experts instead of on its task. Where the total fluctuates only because the auxiliary
loss does, that is noted: then look at the language-modelling loss.

Causes: A weight of the auxiliary loss that is too large, or a balance that gets worse and pulls the weight up.

What to do: Lower the weight of the auxiliary loss, and judge by the language-modelling loss.

Source: the reading of the three losses in the source articles; their wording is loose arithmetic, so the share is measured.
"""

from collections.abc import Iterator

import numpy as np

from analysis.findings import Finding, Severity
from analysis.ladder import clipped, ladder
from analysis.noise import Track, track
from analysis.readings import finding, of_rows
from analysis.segment import Segment
from messages import N_, Text

NEEDS = ("aux_loss", "logits_loss")
LEVEL = True
ROWS = 48
VARIANCE_ROWS = 200
NOISE_FACTOR = 4.0


def check(
    segment: Segment, *, ratio: float = 2.0, least_share: float = 0.01, flat: float = 0.02, variance_share: float = 0.5
) -> Iterator[Finding]:
    """Yield a stretch in which the share of the auxiliary loss grows while the main loss stands still.

    ratio: share over its lowest so far; least_share: of the total below which it does not matter; flat: fall of the main
    loss since then that counts as standing still. variance_share: of the total's fluctuations that come from the auxiliary
    loss, from which on that is noted.
    """
    aux, main = track(segment, "aux_loss"), track(segment, "logits_loss")
    if len(aux) >= ROWS:
        yield from _grown(segment, aux, main, ratio, least_share, flat)
        yield from _fluctuates(segment, variance_share)


def _grown(segment: Segment, aux: Track, main: Track, ratio: float, least: float, flat: float) -> Iterator[Finding]:
    level = np.full(len(segment), main.x[0] if len(main) else 0.0)
    level[main.rows] = clipped(main)
    sums = np.r_[0.0, np.cumsum(level[aux.rows])]
    for octave in ladder(segment, aux):
        losses = np.diff(sums[: len(octave.means) * octave.size + 1 : octave.size]) / octave.size
        over = octave.means - losses  # in logs, of the main loss
        for block in range(max(octave.judge, 5), len(octave.means)):
            like = np.flatnonzero(losses[: block - 1] - losses[block] < flat)  # since then the main loss stands still
            if not len(like):
                continue
            lowest = int(like[np.argmin(over[like])])
            now = float(over[block - 2 : block + 1].min())
            beyond = np.log(ratio) + NOISE_FACTOR * np.nan_to_num(octave.noise[block], nan=np.inf)
            if now > over[lowest] + beyond and _share(now) > least:
                at = (lowest * octave.size, octave.row(block))
                yield _finding(segment, aux, at, _share(float(over[lowest])), _share(now))
                return


def _share(over: float) -> float:
    """Return the share of the total from the logarithm of the ratio to the main loss."""
    return float(f"{1 / (1 + np.exp(-np.clip(over, -50, 50))):.4g}")


def _finding(segment: Segment, aux: Track, at: tuple[int, int], before: float, now: float) -> Finding:
    series = of_rows(segment, "aux_loss", aux.rows, segment.values("aux_loss")[aux.rows])
    gaps = {"before": 100 * before, "now": 100 * now, "step": series.where(at[0])}
    text = N_("The auxiliary loss grew from {before:.2g} to {now:.2g} % of the total since {step}; the main loss stands still")
    evidence = (series.fact(N_("lowest share before"), before, at[0]), series.fact(N_("share now"), now, at[1]))
    return finding("aux_share", Severity.WARNING, series, Text(text, gaps), evidence, first=at[0], known=at[1], end=None)


def _fluctuates(segment: Segment, least: float) -> Iterator[Finding]:
    """The total moves because the auxiliary loss does: share of the variance of changes, in blocks of VARIANCE_ROWS rows."""
    main, aux = segment.values("logits_loss"), segment.values("aux_loss")
    rows = np.flatnonzero(np.isfinite(main) & np.isfinite(aux))
    count = (len(rows) - 1) // VARIANCE_ROWS
    if count < 1 or not segment.has("loss"):
        return
    changes = [np.diff(part[rows])[: count * VARIANCE_ROWS].reshape(count, -1) for part in (main, aux)]
    spread = [np.median(np.abs(part), axis=1) ** 2 for part in changes]
    with np.errstate(divide="ignore", invalid="ignore"):
        part = spread[1] / (spread[0] + spread[1])
    hot = np.flatnonzero(part > least)
    if not len(hot):
        return
    first, known = int(hot[0]) * VARIANCE_ROWS, (int(hot[0]) + 1) * VARIANCE_ROWS
    series = of_rows(segment, "aux_loss", rows, aux[rows])
    gaps = {"part": float(part[hot[0]]), "step": series.where(known)}
    text = N_("{part:.0%} of the fluctuations of the total come from the auxiliary loss ({step}): look at the main loss")
    evidence = (series.fact(N_("share of the variance of changes"), round(float(part[hot[0]]), 3), known),)
    yield finding("aux_share", Severity.INFO, series, Text(text, gaps), evidence, first=first, known=known, end=None)


def sick() -> Segment:
    """Return a run whose main loss stands still while the auxiliary loss quadruples."""
    from analysis.simulate import simulate

    segment = simulate(rows=3000, seed=22, kind="moe", fault="plateau").segment
    grown = segment.rows["aux_loss"] * np.clip(1 + (np.arange(3000) - 1200) / 400, 1, 4)
    segment.rows["loss"] += grown - segment.rows["aux_loss"]
    segment.rows["aux_loss"] = grown
    return segment


def well() -> Segment:
    """Return a run whose share grows only because the main loss falls."""
    from analysis.simulate import simulate

    return simulate(rows=3000, seed=22, kind="moe").segment
