"""Observations that speak for or against a cause; each returns what it saw, or None if it can't be told.

Each takes the row at which the symptom began and the last row to look at.
"""

from dataclasses import dataclass

import numpy as np

from analysis.evidence import times
from analysis.first_loss import from_scratch
from analysis.losses import loss_kind
from analysis.noise import LOOKBACK, expected
from analysis.segment import Segment
from messages import N_, Text

MORE_THAN_FREQUENCIES = 0.5  # of the first loss; to know how frequent words are takes about a third of it
RESUMES = frozenset({"resume", "resumed", "restart", "checkpoint_loaded", "launch"})


@dataclass(frozen=True)
class Seen:
    """What was looked for, and whether it holds."""

    holds: bool
    text: Text


def window(segment: Segment, column: str, first: int, last: int) -> np.ndarray:
    """Return the finite values of a column in rows first…last (inclusive, cut to the segment)."""
    values = segment.values(column)[max(first, 0) : max(last + 1, 0)]
    return values[np.isfinite(values)]


def score_of(segment: Segment, column: str, row: int, *, log: bool = True) -> float:
    """Return the robust z of a column at a row from the rows before it; NaN where it can't be judged. O(look-back)."""
    values = segment.values(column)[max(row - LOOKBACK, 0) : row + 1]
    if not len(values) or not np.isfinite(values[-1]) or (log and values[-1] <= 0):
        return float("nan")
    values = values[np.isfinite(values) & ((values > 0) | (not log))]
    x = np.log(values) if log else values
    centre, scale = expected(x)
    return float((x[-1] - centre[-1]) / scale[-1])


def lr_jump(segment: Segment, row: int, known: int) -> Seen | None:
    before, near = window(segment, "lr", row - 15, row - 6), window(segment, "lr", row - 5, row)
    if not len(near) or not len(before) or np.median(before) <= 0:
        return None
    ratio = times(near.max(), np.median(before))
    if ratio > 1.5 and near.max() > 1.2 * before.max():
        return Seen(True, Text(N_("the learning rate rose {ratio:.3g}× within 5 rows before"), {"ratio": ratio}))
    return Seen(False, Text(N_("the learning rate did not jump ({lr:.3g})"), {"lr": float(near[-1])}))


def lr_rise(segment: Segment, row: int, known: int) -> Seen | None:
    """As `lr_jump`, for what builds up: within a twentieth of the rows before it began, at least 50."""
    span = max(50, row // 20)
    before, near = window(segment, "lr", row - 4 * span, row - span - 1), window(segment, "lr", row - span, row)
    if not len(near) or not len(before) or np.median(before) <= 0 or before[-1] > 1.05 * before[0]:
        return None
    ratio = times(near.max(), np.median(before))
    if ratio > 1.5:
        return Seen(True, Text(N_("the learning rate rose {ratio:.3g}× before it"), {"ratio": ratio}))
    return Seen(False, Text(N_("the learning rate did not rise before it ({lr:.3g})"), {"lr": float(near[-1])}))


def lr_high(segment: Segment, row: int, known: int) -> Seen | None:
    past, near = window(segment, "lr", 0, row), window(segment, "lr", row - 5, row)
    if len(past) < 20 or not len(near) or past.max() <= 0 or past.min() > 0.95 * past.max():
        return None  # a rate that never changes is always at its highest
    share = times(near[-1], past.max())
    return Seen(share > 0.9, Text(N_("the learning rate was at {share:.0%} of its highest"), {"share": share}))


def lr_low(segment: Segment, row: int, known: int) -> Seen | None:
    past, near = window(segment, "lr", 0, row), window(segment, "lr", row - 5, row)
    if not len(near) or past.max() <= 0:
        return None
    share = times(near[-1], past.max())
    return Seen(share < 0.1, Text(N_("the learning rate was at {share:.0%} of its highest"), {"share": share}))


def resumed(segment: Segment, row: int, known: int) -> Seen | None:
    events = segment.events
    line, start = segment.line(row), segment.line(max(row - 50, 0))
    if len(events) and line is not None and start is not None:
        near = events[events["kind"].isin(RESUMES) & events["line"].between(start if row > 50 else 0, line)]
        if len(near):
            at = int(near["line"].iloc[-1])
            return Seen(True, Text(N_("the log says it resumed at line {line:,}, shortly before"), {"line": at}))
    if segment.number and row < 50:
        return Seen(True, Text(N_("this launch began {rows} rows before"), {"rows": row}))
    return Seen(False, Text(N_("no resume in the 50 rows before")))


def stage_changed(segment: Segment, row: int) -> bool:
    """Say whether the log announces other data, or the batch size changes, within the 20 rows before."""
    sizes = window(segment, "batch_size", row - 20, row)
    if len(sizes) and np.ptp(sizes) > 0:
        return True
    line, start = segment.line(row), segment.line(max(row - 20, 0))
    if not len(segment.events) or line is None or start is None:
        return False
    return bool((segment.events["kind"].eq("dataset_change") & segment.events["line"].between(start, line)).any())


def epoch_boundary(segment: Segment, row: int, known: int) -> Seen | None:
    near = np.floor(window(segment, "epoch", row - 2, row))
    if len(near) < 2:
        return None
    if near[-1] > near[0]:
        return Seen(True, Text(N_("epoch {epoch:.0f} began here"), {"epoch": float(near[-1])}))
    return Seen(False, Text(N_("not at the start of an epoch")))


def gradients_before(segment: Segment, row: int, known: int) -> Seen | None:
    scores = [score_of(segment, "grad_norm", r) for r in range(max(row - 20, 0), row)]
    scores = [score for score in scores if np.isfinite(score)]
    near = segment.values("grad_norm")[max(row - 20, 0) : row]
    if np.isinf(near).any():
        return Seen(True, Text(N_("the gradient norm was infinite in the 20 rows before")))
    if not scores:
        return None
    highest = max(scores)
    if highest > 6:
        return Seen(True, Text(N_("the gradient norm rose {z:.0f} standard deviations in the 20 rows before"), {"z": highest}))
    return Seen(False, Text(N_("the gradient norm was normal in the 20 rows before")))


def gradients_with(segment: Segment, row: int, known: int) -> Seen | None:
    score = score_of(segment, "grad_norm", row)
    if not np.isfinite(score):
        return None
    return Seen(score > 6, Text(N_("the gradient norm rose {z:.0f} standard deviations at the same row"), {"z": score}))


def gradients_grew(segment: Segment, row: int, known: int) -> Seen | None:
    before, now = window(segment, "grad_norm", row - 200, row - 1), window(segment, "grad_norm", known - 20, known)
    if len(before) < 20 or not len(now) or np.median(before) <= 0:
        return None
    ratio = times(np.median(now), np.median(before))
    return Seen(ratio > 1.3, Text(N_("the gradient norm is at {ratio:.3g}× what it was before"), {"ratio": ratio}))


def gradients_calm(segment: Segment, row: int, known: int) -> Seen | None:
    seen = gradients_before(segment, row, known)
    return None if seen is None else Seen(not seen.holds, seen.text)


def gradients_tiny(segment: Segment, row: int, known: int) -> Seen | None:
    past, near = window(segment, "grad_norm", 0, row), window(segment, "grad_norm", row - 20, row)
    if len(past) < 40 or not len(near):
        return None
    share = times(float(np.median(near)), float(np.median(past)))
    return Seen(share < 0.1, Text(N_("the gradient norm is at {share:.0%} of its median"), {"share": share}))


def lone_row(segment: Segment, row: int, known: int) -> Seen | None:
    main = loss_kind(segment).main
    score = score_of(segment, "grad_norm", row)
    after = score_of(segment, main, row + 1) if main and row + 1 < len(segment) else float("nan")
    if not np.isfinite(score) or not np.isfinite(after):
        return None
    return Seen(score < 6 and after < 4, Text(N_("one row only, with a normal gradient norm")))


def only_aux_moved(segment: Segment, row: int, known: int) -> Seen | None:
    main, aux = score_of(segment, "logits_loss", row), score_of(segment, "aux_loss", row)
    if not np.isfinite(main) or not np.isfinite(aux):
        return None
    if aux > 6 and main < 3:
        return Seen(True, Text(N_("the auxiliary loss rose {z:.0f} standard deviations, the main loss did not"), {"z": aux}))
    return Seen(False, Text(N_("the main loss moved too")))


def scale_fell(segment: Segment, row: int, known: int) -> Seen | None:
    before, near = window(segment, "loss_scale", row - 40, row - 21), window(segment, "loss_scale", row - 20, row + 5)
    before, near = before[before > 0], near[near > 0]  # -1 stands for none
    if not len(near):
        return None
    top = before.max() if len(before) else near[0]
    if near.min() <= top / 4:
        return Seen(
            True, Text(N_("the loss scale fell from {top:.0f} to {low:.0f}"), {"top": float(top), "low": float(near.min())})
        )
    return Seen(False, Text(N_("the loss scale held at {scale:.0f}"), {"scale": float(near[-1])}))


def steps_skipped(segment: Segment, row: int, known: int) -> Seen | None:
    skipped = float(window(segment, "skipped_iterations", row - 20, row + 5).sum())
    return Seen(skipped > 0, Text(N_("{count:.0f} steps were skipped around it"), {"count": skipped}))


def first_rows(segment: Segment, row: int, known: int) -> Seen | None:
    return Seen(row < 5, Text(N_("it is among the first five rows of the launch")))


def rows_missing(segment: Segment, row: int, known: int) -> Seen | None:
    steps = segment.steps()[max(row - 20, 0) : row + 1]
    if len(steps) < 5:
        return None
    gaps = np.diff(steps)
    usual = float(np.median(gaps[:-1]))
    return Seen(
        usual > 0 and gaps[-1] > 1.3 * usual,
        Text(N_("{steps:.0f} steps since the row before, usually {usual:.0f}"), {"steps": float(gaps[-1]), "usual": usual}),
    )


def little_learned(segment: Segment, row: int, known: int) -> Seen | None:
    main = loss_kind(segment).main
    if main is None:
        return None
    if not from_scratch(segment):
        return Seen(False, Text(N_("it began with a model that had learned more than that")))
    start, near = window(segment, main, 0, 10), window(segment, main, row - 20, row)
    if not len(start) or not len(near):
        return None
    share = 1 - times(float(np.median(near)), float(np.median(start)))
    if share > MORE_THAN_FREQUENCIES:
        return Seen(False, Text(N_("{share:.0%} of the first loss is gone"), {"share": share}))
    return Seen(True, Text(N_("only {share:.0%} of the first loss is gone"), {"share": share})) if share < 0.3 else None
