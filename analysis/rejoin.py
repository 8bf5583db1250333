"""Whether the loss comes back after a restart to where it was at the same steps."""

import numpy as np

from analysis.losses import loss_kind
from analysis.readings import TO_SIGMA
from analysis.segment import Segment

AROUND = 50  # rows after that are compared
LEAST_ROWS = 5  # after a restart before the loss is compared
MOST_CHANGE = 1e4  # times: more than that is no loss any more
LOOK_BACK = 20 * AROUND


def loss_change(segment: Segment, row: int) -> tuple[float | None, float]:
    """Return the relative change of the loss at the same steps (else against the rows before) and its standard error."""
    main = loss_kind(segment).main
    if main is None or loss_kind(segment).problem:
        return None, 0.0
    with np.errstate(invalid="ignore", divide="ignore"):
        loss = np.log(segment.values(main))
    after = np.arange(row, min(row + AROUND, len(segment)))
    after = after[np.isfinite(loss[after])]
    before = np.arange(max(row - LOOK_BACK, 0), row)
    before = before[np.isfinite(loss[before])]
    if len(after) < LEAST_ROWS or len(before) < 2 * LEAST_ROWS:
        return None, 0.0
    steps = segment.steps()
    same = before[(steps[before] >= steps[after[0]]) & (steps[before] <= steps[after[-1]])]
    if len(same):  # the same steps, however few, against themselves
        near, after = same, after[steps[after] <= steps[same].max()]
    else:
        near = before[-AROUND:]
    noise = TO_SIGMA * float(np.median(np.abs(np.diff(loss[before])))) / np.sqrt(2)
    error = 1.5 * noise * float(np.sqrt(1 / len(near) + 1 / len(after)))
    return float(min(np.expm1(np.median(loss[after]) - np.median(loss[near])), MOST_CHANGE)), error
