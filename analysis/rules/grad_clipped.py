"""Gradient clipping is at work often.

Meaning: A noticeable share of the steps has a gradient norm above the clipping limit, so these steps are shortened. That is
common in warm-up; for a long time it means that the limit, not the learning rate, sets the pace, or that training is unstable.

Causes: A clipping limit below the usual norm of this model, a learning rate too high, or noisy batches.

What to do: Compare the usual norm with the limit. If the loss falls well, leave it; if the share grows, lower the learning
rate; if almost every step is clipped, raise the limit with care.

Source: share of clipped steps as watched by practitioners; limit from the configuration, or where printed norms stop at it.
"""

from collections.abc import Iterator
from typing import Any

import numpy as np

from analysis.findings import Finding, Severity
from analysis.hardware import few_of, most_of
from analysis.readings import Readings, finding, held, of_rows
from analysis.segment import Segment
from messages import N_, Text

NEEDS = ("grad_norm",)
INFORMS = True
KEYS = ("max_grad_norm", "clip_grad", "grad_clip", "gradient_clipping", "clip_grad_norm", "max_norm", "gradient_clip_val")
PINNED = 5  # equal highest values that show a limit


def check(segment: Segment, *, share: float = 0.05, rows: int = 300) -> Iterator[Finding]:
    """Yield each stretch in which more than `share` of the last `rows` gradient norms reach the clipping limit."""
    values = segment.values("grad_norm")
    at = np.flatnonzero(np.isfinite(values))
    series = of_rows(segment, "grad_norm", at, values[at])
    if len(series) < rows:
        return
    limit = declared_limit(segment.config)
    reached = series.values > limit if limit else _pinned(series.values)
    needed = int(share * rows) + 1
    hot, cool = most_of(reached, needed, rows), few_of(reached, needed // 2, rows)
    hot[: rows - 1] = False
    for known, _, end in held(hot, cool, 1):
        start = known - rows + 1
        yield _finding(series, reached, start + int(np.argmax(reached[start : known + 1])), known, end, limit)


def declared_limit(config: Any) -> float | None:
    """Return the clipping limit of the log's configuration, None without one."""
    for key, value in config.items():
        if str(key).replace("/", ".").rpartition(".")[2].lower() in KEYS:
            try:
                number = float(value)
            except (TypeError, ValueError):
                continue
            if 0 < number < float("inf"):
                return number
    return None


def _pinned(norms: np.ndarray) -> np.ndarray:
    """Say which norms equal the highest so far, where that is no single value: they are printed after clipping (n,)."""
    top = np.maximum.accumulate(norms)
    equal = (norms == top) & (norms > 0)
    new = np.diff(top, prepend=-np.inf) > 0
    since = np.cumsum(equal)
    begun = np.maximum.accumulate(np.where(new, since, 0))
    return equal & (since - begun >= PINNED) & (np.cumsum(norms < top) >= PINNED)


def _finding(series: Readings, reached: np.ndarray, first: int, known: int, end: int | None, limit: float | None) -> Finding:
    inside = reached[first : len(series) if end is None else end + 1]
    value = limit if limit else float(series.values[known])
    gaps = {"share": float(np.mean(inside)), "limit": value, "step": series.where(first)}
    title = Text(N_("{share:.0%} of the steps since {step} have a gradient norm at or above the limit {limit:g}"), gaps)
    evidence = (
        series.fact(N_("clipping limit"), value, None),
        series.fact(N_("steps at or above it"), int(np.count_nonzero(inside))),
        series.fact(N_("median gradient norm there"), float(np.median(series.values[first : first + len(inside)])), known),
    )
    return finding("grad_clipped", Severity.INFO, series, title, evidence, first=first, known=known, end=end)


def sick() -> Segment:
    """Return a run in which many steps are clipped."""
    from analysis.simulate_hardware import simulate

    return simulate(rows=1500, seed=5, fault="grad_clipped").segment


def well() -> Segment:
    """Return a run whose gradient norms stay below the limit."""
    from analysis.simulate_hardware import simulate

    return simulate(rows=1500, seed=5).segment
