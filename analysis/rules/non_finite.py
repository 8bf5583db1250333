"""A loss is NaN or infinite.

Meaning: The number that training minimises overflowed or was undefined. If it stays so, every weight is lost from the
first such step on; if it comes back, one or several updates were skipped or poisoned a running mean.

Causes: Learning rate too high, exploding gradients, NaN in the data, or an fp16 overflow (some operations do not support
fp16).

What to do: Stop the run and go back to the last checkpoint before the first step named here. Lower the learning rate,
clip gradients (max_norm 1.0), check the data around that step, and train in BF16 (or FP32, autocast off for the layer).

Source: every loss scaler and rerun machine of the large training code bases watches for it; here with the last finite
value and the learning rate at that step.
"""

from collections.abc import Iterator

import numpy as np
import pandas as pd

from analysis.attribution import explain
from analysis.evidence import fact, where
from analysis.findings import Evidence, Finding, Severity
from analysis.lost import losses_of, not_finite, since_row
from analysis.segment import Segment
from messages import N_, Text

NEEDS = ("loss|logits_loss|policy_loss|grad_norm|skipped_iterations",)
OFTEN = 0.1  # of the rows so far: a loss scaler that skips more does not find its scale


def check(segment: Segment, *, recovered_rows: int = 3) -> Iterator[Finding]:
    """Yield one finding for all NaN or infinite losses of a launch, one for its evaluations, or one for its gradients.

    recovered_rows: rows with finite values after the last bad one that count as recovered.
    """
    losses = losses_of(segment)
    bad, good = not_finite(segment, losses)
    if bad.any():
        yield _finding(segment, losses, bad, good, recovered_rows)
    elif segment.has("grad_norm"):
        bad, good = not_finite(segment, ["grad_norm"])
        if bad.any():
            yield _finding(segment, ["grad_norm"], bad, good, recovered_rows)
    yield from _evaluations(segment)
    yield from _overflows(segment)


def _overflows(segment: Segment) -> Iterator[Finding]:
    """Steps that a loss scaler skipped: it looks for its scale at the start and now and then, which is no fault."""
    told = segment.events[segment.events["kind"] == "loss_scale_overflow"] if len(segment.events) else segment.events
    if not len(told) or not len(segment) or not segment.has("line"):
        return
    lines = told["line"].to_numpy(dtype=np.int64)
    rows = np.minimum(np.searchsorted(segment.rows["line"].to_numpy(), lines), len(segment) - 1)
    late = rows >= min(100, len(segment) // 4)
    often = int(late.sum()) > max(20, OFTEN * len(segment))
    causes, advice = explain(segment, "overflow", int(rows[0]), known=int(rows[-1]))
    gaps = {"count": len(rows), "step": where(segment, int(rows[-1]))}
    yield Finding(
        kind="non_finite",
        severity=Severity.WARNING if often else Severity.INFO,
        segment=segment.number,
        first_step=segment.step(int(rows[0])),
        last_step=segment.step(int(rows[-1])),
        known_step=segment.step(int(rows[0])),
        first_line=int(lines[0]),
        last_line=int(lines[-1]),
        title=Text(N_("fp16 overflow: the loss scaler skipped {count:,} steps, the last near {step}"), gaps),
        evidence=(fact(N_("steps skipped"), len(rows), segment=segment, row=int(rows[0])),),
        causes=causes,
        advice=advice,
    )


def _finding(segment: Segment, names: list[str], bad: np.ndarray, good: np.ndarray, needed: int) -> Finding:
    rows = np.flatnonzero(bad)
    first, last = int(rows[0]), int(rows[-1])
    after = int(np.count_nonzero(good[last + 1 :]))
    recovered, gradients = after >= needed, names == ["grad_norm"]
    causes, advice = explain(segment, "non_finite", first)
    return Finding(
        kind="non_finite",
        severity=_severity(recovered=recovered, gradients=gradients, long=len(rows) > needed),
        segment=segment.number,
        first_step=segment.step(first),
        last_step=segment.step(last) if recovered else None,
        known_step=segment.step(first),
        first_line=segment.line(first),
        last_line=segment.line(last),
        title=_title(segment, rows, since_row(bad, good), recovered=recovered, gradients=gradients),
        evidence=tuple(_evidence(segment, names, rows, after)),
        causes=causes,
        advice=advice,
    )


def _severity(*, recovered: bool, gradients: bool, long: bool) -> Severity:
    """A loss scaler meets an infinite gradient now and then and skips that step: with a finite loss that is only noted."""
    if gradients:
        return Severity.WARNING if long and not recovered else Severity.INFO
    return Severity.WARNING if recovered else Severity.CRITICAL


def _title(segment: Segment, rows: np.ndarray, since: int | None, *, recovered: bool, gradients: bool) -> Text:
    first, last = int(rows[0]), int(rows[-1])
    gaps = {"count": len(rows), "step": where(segment, first), "end": where(segment, last)}
    if gradients:
        return Text(N_("Gradient norm was NaN or infinite from {step} on (rows: {count:,}); the loss was not"), gaps)
    if recovered and len(rows) > 1:
        return Text(N_("Loss was NaN or infinite in {count:,} rows between {step} and {end}, and came back"), gaps)
    if recovered:
        return Text(N_("Loss was NaN or infinite at {step}, and came back"), gaps)
    if since is not None and since > first:
        gaps |= {"first": gaps["step"], "step": where(segment, since)}
        return Text(N_("Loss is NaN or infinite since {step}, and was so before from {first} on (rows: {count:,})"), gaps)
    return Text(N_("Loss is NaN or infinite since {step} (rows: {count:,})"), gaps)


def _evaluations(segment: Segment) -> Iterator[Finding]:
    for name in segment.evals.columns:
        if not name.endswith("loss"):
            continue
        values = segment.evals[name].to_numpy(dtype=np.float64)
        gaps = segment.evals_absent.get(name, np.zeros(len(values), dtype=bool))
        rows = np.flatnonzero(~gaps & ~np.isfinite(values))
        if not len(rows):
            continue
        steps, lines = (_whole(segment.evals, column, rows) for column in ("step", "line"))
        recovered = bool(np.isfinite(values[rows[-1] + 1 :]).any())
        causes, advice = explain(segment, "non_finite", 0)
        yield Finding(
            kind="non_finite",
            severity=Severity.WARNING,
            segment=segment.number,
            first_step=steps[0],
            last_step=steps[1] if recovered else None,
            known_step=steps[0],
            first_line=lines[0],
            last_line=lines[1],
            title=Text(N_("Evaluation loss was NaN or infinite in {count:,} evaluations"), {"count": len(rows)}),
            evidence=(fact(N_("{column}: NaN or infinite rows"), len(rows), column=name),),
            causes=causes,
            advice=advice,
        )


def _whole(frame: pd.DataFrame, column: str, rows: np.ndarray) -> tuple[int | None, int | None]:
    """Return the first and last of some rows of a whole-number column, None where it has none."""
    if column not in frame:
        return None, None
    first, last = (frame[column].to_numpy()[rows[at]] for at in (0, -1))
    return (None if pd.isna(first) else int(first)), (None if pd.isna(last) else int(last))


def _evidence(segment: Segment, names: list[str], rows: np.ndarray, after: int) -> Iterator[Evidence]:
    first = int(rows[0])
    for name in names:
        values = segment.values(name)
        count = int(np.count_nonzero(segment.printed(name) & ~np.isfinite(values)))
        if count:
            yield fact(N_("{column}: NaN or infinite rows"), count, column=name)
        finite = np.flatnonzero(np.isfinite(values[:first]))
        if count and len(finite):
            at = int(finite[-1])
            yield fact(N_("{column}: last finite value before"), float(values[at]), segment=segment, row=at, column=name)
    yield fact(N_("rows with finite values after the last bad one"), after, segment=segment, row=int(rows[-1]))
    for name in ("lr", "grad_norm", "loss_scale"):
        if segment.has(name) and name not in names:
            yield fact(
                N_("{column} at the first bad row"), float(segment.values(name)[first]), segment=segment, row=first, column=name
            )


def sick() -> Segment:
    """Return a run that ends in NaN."""
    from analysis.simulate import simulate

    return simulate(rows=400, seed=1, fault="nan_to_end").segment


def well() -> Segment:
    """Return a run that prints no loss in some of its lines, which is not NaN."""
    from analysis.simulate import simulate

    return simulate(rows=400, seed=1, kind="sparse_loss").segment
