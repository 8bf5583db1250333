"""What the diagnosis and the ledger say of a run: a comparison repeats it and judges nothing a second time.

A run broke down when its diagnosis says of the current launch that it is critical and does not come back: the loss went up
for good, jumped and stayed there, is no number any more or exactly zero, or the policy collapsed.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from analysis.findings import Finding, Severity
from messages import Text

RULE, TOO_LOW = "divergence", "dip"
DIVERGED, NOT_FINITE, COLLAPSED = "diverged", "not_finite", "collapsed"  # codes of what became of a run
BREAKS = {RULE: DIVERGED, "spike_unrecovered": DIVERGED, "non_finite": NOT_FINITE, "reward_collapse": COLLAPSED}
BREAKS |= {"loss_zero": COLLAPSED}


@dataclass(frozen=True)
class Judged:
    """Of one run. goodput: share of its time that was productive, None where its log does not tell the time.

    since, said: the step from which it broke down, and the finding that says so; None where it did not. how: diverged |
    not_finite | collapsed. doubt: the finding that its loss is lower than it can be (answers that it sees, other data), None
    without. assessed: it could be said whether its loss went up for good; where it could not, a comparison
    looks for itself.
    """

    goodput: float | None = None
    since: int | None = None
    said: Text | None = None
    assessed: bool = True
    how: str = DIVERGED
    doubt: Text | None = None


def judged(kept: Mapping[str, Any], launch: int, goodput: float | None) -> Judged:
    """Return what a comparison takes from a diagnosis in its JSON form; launch: number of the current one."""
    broke = [Finding.from_dict(one) for one in kept["findings"] if one["class"] in BREAKS]
    lasting = [one for one in broke if one.segment == launch and one.severity is Severity.CRITICAL and one.last_step is None]
    found = min(lasting, key=lambda one: one.first_step or 0, default=None)
    if found is not None:
        return Judged(goodput, found.first_step, found.title, how=BREAKS[found.kind])
    low = [Finding.from_dict(one) for one in kept["findings"] if one["class"] == TOO_LOW]
    lasting = [one for one in low if one.segment == launch and one.severity is Severity.WARNING and one.last_step is None]
    doubt = lasting[0].title if lasting else None
    return Judged(goodput, doubt=doubt, assessed=not any(blind["rule"] == RULE for blind in kept["not_assessable"]))
