"""The loss is exactly zero.

Meaning: A language model whose loss is exactly zero has not learned everything: it is told to predict nothing, or its
numbers broke. Training goes on without teaching anything from the first such row.

Causes: All labels masked out (a wrong template or a prompt longer than the cut-off), an fp16 underflow or overflow that
something turned into zero (the gradient norm is often NaN then), or an attention backend that fails silently.

What to do: Print the labels of one batch and count those that are not masked. Train in BF16 instead of fp16, and try
another attention implementation.

Source: many reports of fine-tuning tools with "loss 0, grad_norm nan".
"""

from collections.abc import Iterator

import numpy as np

from analysis.attribution import explain
from analysis.evidence import fact, where
from analysis.findings import Finding, Severity
from analysis.losses import PREFERENCE_COLUMNS, is_reinforcement
from analysis.noise import trailing
from analysis.segment import Segment
from messages import N_, Text

NEEDS = ("loss|logits_loss",)
COLUMNS = ("logits_loss", "loss")
MOST = 20


def check(segment: Segment, *, zero_rows: int = 2, least_level: float = 0.2, first_rows: int = 3) -> Iterator[Finding]:
    """Yield each stretch of rows whose loss is exactly zero.

    zero_rows: in a row, where the rows before had a median above least_level; first_rows: in a row from the very first on.
    """
    column = next((name for name in COLUMNS if segment.has(name)), None)
    if column is None or is_reinforcement(segment) or any(segment.has(name) for name in PREFERENCE_COLUMNS):
        return
    rows = np.flatnonzero(np.isfinite(segment.values(column)))
    values = segment.values(column)[rows]
    level = _level_before(values)
    edges = np.diff(np.r_[0, (values == 0).view(np.int8), 0])
    starts, ends = np.flatnonzero(edges == 1), np.flatnonzero(edges == -1)
    count = 0
    for first, end in zip(starts, ends, strict=True):
        needed = first_rows if first == 0 else zero_rows
        if end - first >= needed and (first == 0 or level[first] > least_level) and count < MOST:
            count += 1
            yield _finding(segment, column, rows, (int(first), int(first) + needed - 1, int(end)), float(level[first]))


def _level_before(values: np.ndarray) -> np.ndarray:
    """Return the median of the values above zero among the up to 20 before each (n,); NaN where there is none."""
    kept = np.flatnonzero(values > 0)
    medians = trailing(np.r_[values[kept], np.nan], 20, 1)
    return medians[np.searchsorted(kept, np.arange(len(values)))]


def _finding(segment: Segment, column: str, rows: np.ndarray, at: tuple[int, int, int], level: float) -> Finding:
    first, known, end = at
    row, last = int(rows[first]), int(rows[end - 1])
    goes_on = end == len(rows)
    causes, advice = explain(segment, "loss_zero", row, known=int(rows[known]))
    gaps = {"step": where(segment, row), "count": end - first}
    title = Text(N_("Loss is exactly zero since {step}"), gaps)
    if not goes_on:
        title = Text(N_("Loss was exactly zero from {step} on (rows: {count:,})"), gaps)
    return Finding(
        kind="loss_zero",
        severity=Severity.CRITICAL if goes_on else Severity.WARNING,
        segment=segment.number,
        first_step=segment.step(row),
        last_step=None if goes_on else segment.step(last),
        known_step=segment.step(int(rows[known])),
        first_line=segment.line(row),
        last_line=segment.line(last),
        title=title,
        evidence=(
            *([fact(N_("{column}: level before"), level, column=column)] if np.isfinite(level) else []),
            fact(N_("rows at zero"), end - first, segment=segment, row=row),
            *(
                fact(N_("{column} there"), float(segment.values(name)[row]), segment=segment, row=row, column=name)
                for name in ("grad_norm", "lr", "loss_scale")
                if segment.has(name)
            ),
        ),
        causes=causes,
        advice=advice,
    )


def sick() -> Segment:
    """Return a run whose loss falls to zero and stays there."""
    from analysis.simulate import simulate

    return simulate(rows=500, seed=16, fault="loss_zero").segment


def well() -> Segment:
    """Return a run that is printed with so few digits that its loss ends at zero."""
    from analysis.simulate import simulate

    segment = simulate(rows=500, seed=16).segment
    segment.rows["loss"] = np.round(3 * np.exp(-np.arange(500) / 60), 3)
    return segment
