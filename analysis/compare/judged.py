"""What the diagnosis and the ledger say of a run: a comparison repeats it and judges nothing a second time."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from analysis.findings import Finding
from analysis.lost import gone_up
from messages import Text

RULE = "divergence"


@dataclass(frozen=True)
class Judged:
    """Of one run. goodput: share of its time that was productive, None where its log does not tell the time.

    since, said: the step from which its loss went up for good, and the finding that says so; None where it did not.
    assessed: it could be said whether it did; where it could not, a comparison looks for itself.
    """

    goodput: float | None = None
    since: int | None = None
    said: Text | None = None
    assessed: bool = True


def judged(kept: Mapping[str, Any], launch: int, goodput: float | None) -> Judged:
    """Return what a comparison takes from a diagnosis in its JSON form; launch: number of the current one."""
    risen = [Finding.from_dict(one) for one in kept["findings"] if one["class"] == RULE]
    found = gone_up(risen, launch)
    if found is not None:
        return Judged(goodput, found.first_step, found.title)
    return Judged(goodput, assessed=not any(blind["rule"] == RULE for blind in kept["not_assessable"]))
