"""Runs of one plan side by side: which of them takes far longer for a step than the others."""

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from messages import N_, Text

LEAST = 3  # others with the same plan that it takes to say what is usual
SLOWER = 3.0


@dataclass(frozen=True)
class Sibling:
    """A run among its siblings: seconds a step, how many times those of the others, and the same in words."""

    seconds: float
    ratio: float
    others: int
    text: Text


def slow_siblings(step_seconds: Mapping[str, float], plans: Mapping[str, int | None]) -> dict[str, Sibling]:
    """Return the runs that take SLOWER times the usual time of a step, among runs with the same planned steps.

    step_seconds: seconds a step by run; plans: planned steps by run, None where not known (such runs have no siblings).
    """
    found = {}
    by_plan: dict[int, list[float]] = defaultdict(list)
    for run, seconds in step_seconds.items():
        if (plan := plans.get(run)) is not None:
            by_plan[plan].append(seconds)
    sorted_by_plan = {plan: np.sort(values) for plan, values in by_plan.items() if len(values) > LEAST}
    for run, seconds in step_seconds.items():
        together = sorted_by_plan.get(plans.get(run) or 0)
        if together is None or seconds <= SLOWER * together[0]:
            continue
        usual, others = _median_without(together, seconds), len(together) - 1
        if usual > 0 and seconds > SLOWER * usual:
            gaps = {"ratio": seconds / usual, "others": others}
            text = Text(N_("a step takes {ratio:.3g}× as long as in the {others} other runs with the same plan"), gaps)
            found[run] = Sibling(seconds, seconds / usual, others, text)
    return found


def _median_without(values: np.ndarray, one: float) -> float:
    """Return the median of sorted values (n,) without `one` of them, at once."""
    at = int(np.searchsorted(values, one))
    places = np.array([(len(values) - 2) // 2, (len(values) - 1) // 2])
    return float(values[places + (places >= at)].mean())
