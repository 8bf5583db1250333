"""The total loss is not the sum of its parts.

Meaning: The log prints a total, a language-modelling loss and an auxiliary loss, and they do not add up to within the
digits printed. Either one of them is logged wrongly, or the total holds a term that is not printed. If a constant weight
of the auxiliary loss explains it, that is said, and is no fault.

Causes: A value that is logged before an all-reduce or divided by the accumulation steps while another is not, an extra term
such as a z-loss, a changed weight, or lines of two kinds mixed.

What to do: Print every term with the weight it enters the total with, at the same point of the step. Until then judge by
the language-modelling loss, not by the total.

Source: the identity loss = logits_loss + aux_loss of the canonical log, within three units of the last digit printed.
"""

from collections.abc import Iterator

import bottleneck as bn
import numpy as np

from analysis.attribution import explain
from analysis.digits import print_unit
from analysis.evidence import fact, finding_at, where
from analysis.findings import Finding, Severity
from analysis.segment import Segment
from messages import N_, Text

NEEDS = ("loss", "logits_loss", "aux_loss")
WEIGHT_ROWS = 16  # from which a constant weight of the auxiliary loss can be recognised
STEADY_ROWS = 20
MOST = 50


def check(
    segment: Segment, *, units: float = 3.1, of_rows: int = 5, bad_rows: int = 3, relative: float = 5e-4
) -> Iterator[Finding]:
    """Yield each stretch in which total, main and auxiliary loss do not add up.

    units: of the last digit printed by which they may differ (their rounding), or `relative` of the total if that is more;
    bad_rows of of_rows rows in a row must differ.
    """
    parts = [segment.values(name) for name in NEEDS]
    rows = np.flatnonzero(np.isfinite(parts).all(axis=0))
    if len(rows) < of_rows:
        return
    total, main, aux = (part[rows] for part in parts)
    off = total - main - aux
    allowed = np.maximum(units * max(print_unit(total[:500]), print_unit(main[:500]), 1e-6), relative * np.abs(total))
    least = units * max(print_unit(total[:500]), print_unit(main[:500]), 1e-6)
    bad = (np.abs(off) > allowed) | _constant(off, least)
    weight = _weight(total, main, aux, bad)
    if weight is not None:
        bad &= np.abs(total - main - weight * aux) > 2 * allowed
        yield _weighted(segment, rows, weight)
    count = bn.move_sum(bad.astype(float), of_rows, 1)
    yield from _stretches(segment, rows, bad, count >= bad_rows, off, of_rows)


def _constant(off: np.ndarray, least: float) -> np.ndarray:
    """Say which values end STEADY_ROWS in a row with a gap of one sign beyond what rounding gives: a small term of its own."""
    if len(off) < STEADY_ROWS:
        return np.zeros(len(off), dtype=bool)
    return (bn.move_min(off, STEADY_ROWS) > least) | (bn.move_max(off, STEADY_ROWS) < -least)


def _weight(total: np.ndarray, main: np.ndarray, aux: np.ndarray, bad: np.ndarray) -> float | None:
    """Return the constant weight with which the auxiliary loss enters the total from the first rows on, None without one."""
    first = slice(0, WEIGHT_ROWS)
    if len(total) < WEIGHT_ROWS or bad[first].mean() < 0.8 or not np.all(aux[first] > 0):
        return None
    ratios = (total[first] - main[first]) / aux[first]
    weight = float(np.median(ratios))
    return weight if weight > 0 and np.ptp(ratios) < 0.1 * weight + 0.01 else None


def _weighted(segment: Segment, rows: np.ndarray, weight: float) -> Finding:
    first, known = int(rows[0]), int(rows[WEIGHT_ROWS - 1])
    causes, advice = explain(segment, "decomposition", first, known=known)
    text = N_("The auxiliary loss is printed without its weight: it enters the total with about {weight:.3g}")
    return finding_at(
        segment,
        kind="decomposition",
        severity=Severity.INFO,
        first=first,
        known=known,
        end=None,
        title=Text(text, {"weight": weight}),
        evidence=(fact(N_("weight of the auxiliary loss in the total"), float(f"{weight:.4g}")),),
        causes=causes,
        advice=advice,
    )


def _stretches(
    segment: Segment, rows: np.ndarray, bad: np.ndarray, hot: np.ndarray, off: np.ndarray, window: int
) -> Iterator[Finding]:
    """Yield a finding for each stretch; it ends where as many rows in a row as the window has are right again."""
    calm = np.flatnonzero(bn.move_sum(bad.astype(float), window, 1) == 0)
    at, shown = 0, 0
    for known in map(int, np.flatnonzero(hot)):
        if known < at or shown >= MOST:
            continue
        begin = max(known - window + 1, 0)
        first = begin + int(np.argmax(bad[begin : known + 1]))
        after = calm[np.searchsorted(calm, known) :]
        end = int(after[0]) - window + 1 if len(after) else None
        at = len(rows) if end is None else int(after[0])
        shown += 1
        yield _finding(segment, rows, off, (first, known, end))


def _finding(segment: Segment, rows: np.ndarray, off: np.ndarray, at: tuple[int, int, int | None]) -> Finding:
    first, known, end = at
    row, last = int(rows[first]), int(rows[len(rows) - 1 if end is None else max(end - 1, known)])
    causes, advice = explain(segment, "decomposition", row, known=int(rows[known]))
    gap = float(np.median(off[first : known + 1]))
    gaps = {"step": where(segment, row), "end": where(segment, last), "gap": gap}
    title = Text(N_("Since {step} the losses do not add up: {gap:+.4g} between the total and its parts"), gaps)
    if end is not None:
        title = Text(N_("From {step} to {end} the losses do not add up: {gap:+.4g} between total and parts"), gaps)
    return Finding(
        kind="decomposition",
        severity=Severity.WARNING,
        segment=segment.number,
        first_step=segment.step(row),
        last_step=None if end is None else segment.step(last),
        known_step=segment.step(int(rows[known])),
        first_line=segment.line(row),
        last_line=segment.line(last),
        title=title,
        evidence=(
            fact(N_("total less its parts"), gap, segment=segment, row=row),
            *(
                fact(N_("{column} there"), float(segment.values(name)[row]), segment=segment, row=row, column=name)
                for name in NEEDS
            ),
        ),
        causes=causes,
        advice=advice,
    )


def sick() -> Segment:
    """Return a run whose total holds a term that is not printed, from some row on."""
    from analysis.simulate import simulate

    segment = simulate(rows=600, seed=19, kind="moe").segment
    segment.rows.loc[300:, "loss"] += 0.003
    return segment


def well() -> Segment:
    """Return a run whose parts add up to within their rounding."""
    from analysis.simulate import simulate

    return simulate(rows=600, seed=19, kind="moe").segment
