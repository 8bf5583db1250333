"""The evaluation loss jumped from one evaluation to the next, and training shows nothing of it.

Meaning: The model can't have changed that much between two evaluations without the training loss noticing, so what is
evaluated changed. A jump down is as suspicious as one up: then the answers may have leaked into the training data.

Causes: Another evaluation set or other preprocessing, a different number of batches, a broken checkpoint that is evaluated,
or contamination: evaluation samples in the training data.

What to do: Compare the evaluation's configuration before and after this step, repeat it with the checkpoint before, and
search the training data for samples of the evaluation set.

Source: the evaluation row of the source articles' trouble tables; criterion in the noise of the evaluations themselves.
"""

from collections.abc import Iterator

import numpy as np

from analysis.attribution import explain
from analysis.evaluations import LEAST, Evaluations, evaluations, jumped, where_of
from analysis.evidence import fact, times
from analysis.findings import Evidence, Finding, Severity
from analysis.losses import loss_kind
from analysis.noise import track
from analysis.segment import Segment
from messages import N_, Text

NEEDS = ("loss|logits_loss", "eval_loss")
LEVEL = True
MOST = 20


def check(
    segment: Segment, *, deviations: float = 6.0, least_effect: float = 0.05, training_share: float = 0.3
) -> Iterator[Finding]:
    """Yield each jump of the evaluation loss.

    deviations: of the noise of a change from one evaluation to the next; least_effect: as a share of the level; training_share:
    of the jump that the training loss may make with it.
    """
    known, main = evaluations(segment), loss_kind(segment).main
    if known is None or main is None or len(known) <= LEAST:
        return
    x = np.log(known.loss)
    off = np.abs(np.diff(x))
    level = track(segment, main)
    free = 0
    for at in np.flatnonzero(jumped(x, deviations, least_effect))[:MOST] + 1:
        before, now = (level.x[level.at(int(known.rows[i]) - 20) : level.at(int(known.rows[i]) + 1)] for i in (at - 1, at))
        moved = abs(np.median(now) - np.median(before)) if len(now) and len(before) else np.inf
        if at >= free and moved < training_share * off[at - 1]:
            free = at + 2  # the way back is not another finding
            yield _finding(segment, known, int(at), float(moved))


def _finding(segment: Segment, known: Evaluations, at: int, moved: float) -> Finding:
    row = int(known.rows[at])
    causes, advice = explain(segment, "eval_jump", row)
    before, now = float(known.loss[at - 1]), float(known.loss[at])
    gaps = {"ratio": times(now, before), "before": before, "now": now, "step": where_of(segment, known, at)}
    title = Text(N_("Evaluation jumped from {before:.4g} to {now:.4g} at {step}; training did not"), gaps)
    return Finding(
        kind="eval_jump",
        severity=Severity.WARNING,
        segment=segment.number,
        first_step=known.step(at) or segment.step(row),
        last_step=known.step(at),
        known_step=segment.step(row),
        first_line=known.line(at) or segment.line(row),
        last_line=known.line(at) or segment.line(row),
        title=title,
        evidence=(
            Evidence(Text(N_("evaluation before")), before, step=known.step(at - 1), line=known.line(at - 1)),
            Evidence(Text(N_("evaluation now")), now, step=known.step(at), line=known.line(at)),
            fact(N_("change of the training loss meanwhile, share"), float(f"{np.expm1(moved):.3g}")),
        ),
        causes=causes,
        advice=advice,
    )


def sick() -> Segment:
    """Return a run whose evaluation set is another one from the middle on."""
    from analysis.simulate import simulate, with_evaluations

    segment = with_evaluations(simulate(rows=2000, seed=15).segment, every=50)
    segment.evals.loc[20:, "eval_loss"] *= 1.3
    return segment


def well() -> Segment:
    """Return a run whose evaluation falls fast at first."""
    from analysis.simulate import simulate, with_evaluations

    return with_evaluations(simulate(rows=2000, seed=15).segment, every=50)
