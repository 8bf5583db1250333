"""Small runs for the tests of rules: columns in, one launch out."""

import numpy as np
import pandas as pd

from analysis.findings import Finding, Severity
from analysis.registry import all_rules
from analysis.segment import Segment

RULES = {rule.name: rule for rule in all_rules()}


def run(*, every: int = 1, total: int | None = None, config: dict[str, object] | None = None, **columns: object) -> Segment:
    """Return a launch; `every` steps lie between two rows, columns are arrays of one length."""
    rows = len(np.asarray(next(iter(columns.values()))))
    steps = (np.arange(rows) + 1) * every
    return Segment(
        0, pd.DataFrame({"line": np.arange(rows) + 1, "step": steps, **columns}), config=config or {}, total_steps=total
    )


def found(name: str, segment: Segment, profile: str = "robust", **thresholds: object) -> list[Finding]:
    """Return what a rule says, NaN and absurd values included."""
    with np.errstate(all="ignore"):
        return list(RULES[name].by(profile)(segment, **thresholds))


def alarms(name: str, segment: Segment, profile: str = "robust", **thresholds: object) -> list[Finding]:
    """Return what a rule warns of."""
    return [item for item in found(name, segment, profile, **thresholds) if item.severity is not Severity.INFO]
