"""What a known change of one condition should do, and what it did: longer sequences take memory, fewer layers less time, …

The expectations are data (expected.toml). An expectation that was not met is no error of the run: it is a question to ask.
"""

import math
import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from analysis.compare.conditions import Said, amount, shown
from analysis.compare.config_diff import Row
from analysis.compare.difference import second_difference_noise
from analysis.compare.numbers import level_of, numbers
from analysis.compare.state import whole
from analysis.compare.subject import Subject
from analysis.step_time import step_time
from messages import N_, Text

UP, DOWN, SAME, EITHER = "up", "down", "same", "either"
CLEAR = {"loss_noise": 0.3, "early_loss": 0.01, "last_loss": 0.01, "throughput": 0.05, "memory": 0.02}  # relative, else STILL
STILL = 0.03
EARLY = (0.05, 0.15)  # share of the common steps
LOSS_LEVELS = frozenset({"early_loss", "last_loss"})
LEAST_LOSSES = 4  # points of a curve that tell early from last
METRICS = {
    "memory": N_("memory"),
    "step_seconds": N_("time of a step"),
    "first_step_seconds": N_("time of the first step"),
    "throughput": N_("throughput"),
    "early_loss": N_("early loss"),
    "last_loss": N_("last loss"),
    "loss_noise": N_("noise of the loss"),
    "steps_per_epoch": N_("steps an epoch"),
}
TEMPLATES = {
    (UP, UP): N_("{what} {old} → {new}: {metric} rises as expected, by {change} %"),
    (DOWN, DOWN): N_("{what} {old} → {new}: {metric} falls as expected, by {change} %"),
    (UP, DOWN): N_("{what} {old} → {new}: {metric} should rise, and it fell by {change} %"),
    (DOWN, UP): N_("{what} {old} → {new}: {metric} should fall, and it rose by {change} %"),
    (UP, SAME): N_("{what} {old} → {new}: {metric} should rise, and it changed by no more than {still} %"),
    (DOWN, SAME): N_("{what} {old} → {new}: {metric} should fall, and it changed by no more than {still} %"),
    (UP, None): N_("{what} {old} → {new}: {metric} should rise; the logs do not tell enough to say"),
    (DOWN, None): N_("{what} {old} → {new}: {metric} should fall; the logs do not tell enough to say"),
}
TOO_FAR = N_("{what} {old} → {new}: {metric} may rise or fall, since a change by more than {most}× has no expected direction")
BITS = {
    "fp8": 8,
    "int8": 8,
    "fp16": 16,
    "float16": 16,
    "half": 16,
    "bf16": 16,
    "bfloat16": 16,
    "tf32": 19,
    "fp32": 32,
    "float32": 32,
    "float": 32,
}


@dataclass(frozen=True)
class Expectation:
    """An expected and the observed direction of a figure.

    expected: up | down, either where the change is too large to say; observed: up | down | same, None where the logs don't
    tell it.
    """

    condition: str
    metric: str
    expected: str
    observed: str | None
    change: float | None
    text: Text

    @property
    def met(self) -> bool | None:
        """Say whether it went as expected, None where that can't be told."""
        return None if self.observed is None or self.expected == EITHER else self.observed == self.expected

    def untold(self) -> "Expectation":
        """Return the expectation without what was observed: the noise hides it."""
        if self.expected == EITHER:
            return self
        return replace(self, observed=None, change=None, text=Text(TEMPLATES[self.expected, None], self.text.values))

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON form."""
        plain = {name: getattr(self, name) for name in ("condition", "metric", "expected", "observed", "change")}
        return {**plain, "met": self.met, "text": self.text.to_dict()}


@cache
def rules() -> tuple[tuple[str, str, str, float], ...]:
    """Return (condition, metric, direction, factor of the condition up to which that holds) of each expectation."""
    table = tomllib.loads(Path(__file__).with_name("expected.toml").read_text(encoding="utf-8"))
    return tuple((rule["condition"], rule["metric"], rule["goes"], rule.get("within", math.inf)) for rule in table["rule"])


def expectations(
    old: Subject,
    new: Subject,
    old_said: Mapping[str, Said],
    new_said: Mapping[str, Said],
    varied: Sequence[Row],
    *,
    levels: bool = True,
) -> tuple[Expectation, ...]:
    """Return what the changes from one run to another should do to its figures, and did. Empty for several variables.

    levels: those of their losses compare; where they do not, nothing is expected of them.
    """
    if len(varied) != 1:
        return ()
    row = varied[0]
    way = direction(row)
    rising = [(metric, goes, within) for condition, metric, goes, within in rules() if condition == row.key]
    rising = [rule for rule in rising if levels or rule[0] not in LOSS_LEVELS]
    if way is None or not rising:
        return ()
    before, after = _figures(old, old_said, new), _figures(new, new_said, old)
    found = []
    for metric, goes, within in rising:
        expected = EITHER if _factor(row) > within else goes if way == UP else _other(goes)
        found.append(_expectation(row, metric, expected, before, after, most=within))
    return tuple(found)


def _factor(row: Row) -> float:
    """Return by how many times a condition changed, whichever way; 1 where that can't be said."""
    one, other = (_amount(row.key, value) for value in row.values[:2])
    return max(one / other, other / one) if one and other and one * other > 0 else 1.0


def direction(row: Row) -> str | None:
    """Return whether a condition went up or down from its first value to its second, None where it has no order."""
    ends = [_amount(row.key, value) for value in row.values[:2]]
    if ends[0] is None or ends[1] is None or ends[0] == ends[1]:
        return None
    return UP if ends[1] > ends[0] else DOWN


def _amount(key: str, value: Any) -> float | None:
    word = str(value).strip().lower()
    if key == "precision":
        return BITS.get(re.sub(r"^.*\.|_mixed$|-mixed$", "", word))
    if word in ("yes", "no", "on", "off"):
        return float(word in ("yes", "on"))
    return amount(value)


def _other(goes: str) -> str:
    return DOWN if goes == UP else UP


def _figures(one: Subject, said: Mapping[str, Said], other: Subject) -> dict[str, float | None]:
    metric = one.main if one.main in other.curves else None
    told = numbers(one, said, metric=metric)
    curve = one.curves.get(metric or "")
    early = last = noise = None
    if curve is not None and metric and min(len(curve), len(other.curves[metric])) >= LEAST_LOSSES:
        end = min(curve.step[-1], other.curves[metric].step[-1])
        near = (curve.step >= EARLY[0] * end) & (curve.step <= EARLY[1] * end)
        early = float(curve.value[near].mean()) if near.any() else float(np.interp(0.1 * end, curve.step, curve.value))
        upto = curve.step <= end
        last = level_of(type(curve)(curve.step[upto], curve.value[upto], curve.count[upto]))[1] if upto.any() else None
        noise = second_difference_noise(np.log(np.maximum(curve.value, 1e-300))[-max(len(curve) // 2, 8) :])
        noise = noise if len(curve) >= 20 and np.isfinite(noise) else None
    pace = step_time(one.segment)
    return {
        "memory": told.memory,
        "step_seconds": told.step_seconds[1] if told.step_seconds else None,
        "first_step_seconds": pace.first_seconds if pace and pace.exact else None,
        "throughput": told.throughput if told.unit != "steps_per_second" else None,
        "early_loss": early,
        "last_loss": last,
        "loss_noise": noise,
        "steps_per_epoch": one.last("steps_per_epoch"),
    }


def _expectation(
    row: Row,
    metric: str,
    expected: str,
    before: Mapping[str, float | None],
    after: Mapping[str, float | None],
    *,
    most: float,
) -> Expectation:
    old, new = before[metric], after[metric]
    change = new / old - 1 if old and new is not None else None
    observed = None
    if change is not None:
        still = CLEAR.get(metric, STILL)
        observed = SAME if abs(change) <= still else UP if change > 0 else DOWN
    gaps: dict[str, Any] = {"what": Text(row.title), "metric": Text(METRICS[metric])}
    gaps |= {name: shown(value) for name, value in zip(("old", "new"), row.values, strict=False)}
    if expected == EITHER:
        return Expectation(row.key, metric, expected, observed, change, Text(TOO_FAR, {**gaps, "most": whole(most)}))
    if change is not None:
        gaps["still" if observed == SAME else "change"] = whole(100 * (still if observed == SAME else abs(change)))
    return Expectation(row.key, metric, expected, observed, change, Text(TEMPLATES[expected, observed], gaps))
