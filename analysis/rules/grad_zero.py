"""The gradient norm is exactly zero.

Meaning: After ordinary values the gradient norm is exactly zero, row after row: nothing is learned any more.

Causes: A stray detach() or no_grad() between loss and weights, all parameters frozen, a mask that leaves no token to learn
from, or a loss scaler that skips every step.

What to do: Check detach(), requires_grad and the loss mask of that step; look at the loss scale if you train in fp16. Where
a log prints zero from the first row on, the norm is simply not measured there.

Source: gradient rows of the common trouble tables; criterion: three exact zeros after ordinary values.
"""

from collections.abc import Iterator

import numpy as np

from analysis.findings import Finding, Severity
from analysis.readings import MOST, Readings, finding, held, of_rows
from analysis.segment import Segment
from messages import N_, Text

NEEDS = ("grad_norm",)
LEAST_BEFORE = 8  # positive values before: a log that always prints zero does not measure it
LOOK_BACK = 64
UNITS = 10  # units of the print that the usual norm must be, for a printed zero to be one


def check(segment: Segment, *, zero_rows: int = 3) -> Iterator[Finding]:
    """Yield each stretch of at least zero_rows rows whose gradient norm is exactly zero."""
    yield from _zeros(segment, zero_rows)


def check_articles(segment: Segment, *, zero_rows: int = 1) -> Iterator[Finding]:
    """Yield each fall of the gradient norm to zero, from zero_rows rows on."""
    yield from _zeros(segment, zero_rows)


def _zeros(segment: Segment, needed: int) -> Iterator[Finding]:
    values = segment.values("grad_norm")
    rows = np.flatnonzero(np.isfinite(values))
    series = of_rows(segment, "grad_norm", rows, values[rows])
    zero = series.values == 0
    positive = np.cumsum(series.values > 0)
    for first, known, end in list(held(zero, ~zero, needed))[:MOST]:
        before = series.values[max(first - LOOK_BACK, 0) : first]
        before = before[before > 0]
        if positive[first] >= LEAST_BEFORE and len(before) and np.median(before) >= UNITS * _unit(before):
            yield _finding(series, first, known, end, float(np.median(before)))


def _unit(values: np.ndarray) -> float:
    """Return the power of ten of which all values are multiples, 0 where they have more than six digits."""
    for digits in range(7):
        scaled = values * 10.0**digits
        if np.all(np.abs(scaled - np.round(scaled)) <= 1e-6 * np.maximum(scaled, 1.0)):
            return float(10.0**-digits)
    return 0.0


def _finding(series: Readings, first: int, known: int, end: int | None, usual: float) -> Finding:
    gaps = {"step": series.where(first), "usual": usual}
    title = Text(N_("Gradient norm is exactly zero since {step} ({usual:.3g} before)"), gaps)
    last = None if end is None else max(end - 1, first)
    if last is not None:
        title = Text(N_("Gradient norm was exactly zero from {step} to {end}"), gaps | {"end": series.where(last)})
    evidence = (
        series.fact(N_("usual gradient norm before"), usual, max(first - 1, 0)),
        series.fact(N_("rows with exactly zero"), (len(series) if end is None else end) - first, known),
    )
    severity = Severity.CRITICAL if end is None else Severity.WARNING
    return finding("grad_zero", severity, series, title, evidence, first=first, known=known, end=last)


def sick() -> Segment:
    """Return a run whose gradients become zero."""
    from analysis.simulate_hardware import simulate

    return simulate(rows=600, seed=6, fault="grad_zero").segment


def well() -> Segment:
    """Return a run whose log prints zero from the start: the norm is not measured."""
    from analysis.simulate_hardware import simulate

    segment = simulate(rows=600, seed=6).segment
    segment.rows["grad_norm"] = 0.0
    return segment
