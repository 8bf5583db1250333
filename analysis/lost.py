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
    """Return the first finding of a launch that its loss went up for good, None without one."""
    return gone_up(findings, segment.number)


def gone_up(findings: Sequence[Finding], launch: int) -> Finding | None:
    """Return the same for the number of a launch.

    One that the rule explains by other data or another batch size is not critical, and none.
    """
    lasting = [
        finding
        for finding in findings
        if finding.kind in WORDS
        and finding.segment == launch
        and finding.severity is Severity.CRITICAL
        and finding.last_step is None
        and finding.first_step is not None
    ]
    return min(lasting, key=lambda finding: finding.first_step or 0, default=None)


def not_finite(segment: Segment, names: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
    """Return the rows in which any of the columns was printed as NaN or infinite, and those in which one is finite."""
    bad, good = np.zeros((2, len(segment)), dtype=bool)
    for name in names:
        finite = np.isfinite(segment.values(name))
        bad |= segment.printed(name) & ~finite
        good |= finite
    return bad, good & ~bad


def losses_of(segment: Segment) -> list[str]:
    """Return the columns that are losses."""
    return [name for name in segment.rows.columns if name.endswith("loss")]


def since_row(bad: np.ndarray, good: np.ndarray) -> int | None:
    """Return the first bad row behind the last good one, None without one: rows that print neither are none."""
    last = int(np.flatnonzero(good)[-1]) if good.any() else -1
    later = np.flatnonzero(bad[last + 1 :])
    return last + 1 + int(later[0]) if len(later) else None


def lost_row(segment: Segment) -> int | None:
    """Return the row from which on a loss is NaN or infinite to the end, None where the main loss is not."""
    column = loss_kind(segment).main or next((name for name in ("loss", "logits_loss") if segment.has(name)), None)
    if column is None:
        return None
    bad, good = not_finite(segment, [column])
    since = since_row(bad, good)
    if since is None or bad[since:].sum() < NAN_ROWS:
        return None
    return since_row(*not_finite(segment, losses_of(segment)))


def of_no_use(segment: Segment, findings: Sequence[Finding]) -> Text | None:
    """Say why it is of no use to finish a launch, None where nothing says so."""
    found, row = diverged(segment, findings), lost_row(segment)
    if found is not None:
        return Text(WORDS[found.kind], {"step": found.first_step})
    return None if row is None else Text(NAN, {"step": place(segment, row)})
