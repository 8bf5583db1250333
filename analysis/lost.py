"""From where on a launch is lost: its loss diverged, jumped or was no number any more, and never came back.

What is trained from there on is lost however long it goes on, so finishing such a run is of no use.
"""

from collections.abc import Sequence

import numpy as np

from analysis.evidence import place
from analysis.findings import Finding, Severity
from analysis.losses import loss_kind
from analysis.segment import Segment
from messages import N_, Text

NAN_ROWS = 3
NAN = N_("the loss is NaN or infinite since step {step:,}: finishing the run from there is of no use")
WORDS = {
    "divergence": N_("the run has diverged since step {step:,}: finishing it from there is of no use"),
    "spike_unrecovered": N_(
        "the loss jumped at step {step:,} and has not come back: finishing the run from there is of little use"
    ),
}


def diverged(segment: Segment, findings: Sequence[Finding]) -> Finding | None:
    """Return the first finding of a launch that its loss went up for good, None without one.

    One that the rule explains by other data or another batch size is not critical, and none.
    """
    lasting = [
        finding
        for finding in findings
        if finding.kind in WORDS
        and finding.segment == segment.number
        and finding.severity is Severity.CRITICAL
        and finding.last_step is None
        and finding.first_step is not None
    ]
    return min(lasting, key=lambda finding: finding.first_step or 0, default=None)


def last_finite_row(segment: Segment) -> int | None:
    """Return the last row with a finite loss (-1: none) where NaN or infinite ones follow to the end, else None."""
    column = loss_kind(segment).main or next((name for name in ("loss", "logits_loss") if segment.has(name)), None)
    if column is None:
        return None
    printed = np.flatnonzero(segment.printed(column))
    finite = printed[np.isfinite(segment.values(column)[printed])]
    last = int(finite[-1]) if len(finite) else -1
    return last if (printed > last).sum() >= NAN_ROWS else None


def of_no_use(segment: Segment, findings: Sequence[Finding]) -> Text | None:
    """Say why it is of no use to finish a launch, None where nothing says so."""
    found, last = diverged(segment, findings), last_finite_row(segment)
    if found is not None:
        return Text(WORDS[found.kind], {"step": found.first_step})
    return None if last is None else Text(NAN, {"step": place(segment, last + 1)})
