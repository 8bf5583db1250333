"""Words behind the last number of a declared record: a remark in a whole line, or a name whose number was cut off.

They are a remark where other lines print the same names and no more, or where several lines have words behind the same.
"""

from collections.abc import Callable
from typing import Any

from storage.reading.belief import Waiting
from storage.reading.plans import Plan

REPEATS = 3  # lines with words behind the same names: no capture cuts as often between the same two fields
MOST = 100  # lines that wait: a log may print other names in every line


class Tails:
    """The lines that wait until it is known what their words are. `printed` says whether others print just a plan's names."""

    def __init__(self, printed: Callable[[Plan], bool]) -> None:
        self._printed = printed
        self._waiting: list[Waiting] = []

    def take(self, line: Waiting) -> tuple[list[Waiting], list[Waiting]]:
        """Take a line; return which lines are whole now, in order, and which have waited too long."""
        plan = line.plan
        sure = plan.format is None or not plan.worded or self._printed(plan)
        if sure and not self._waiting:
            return [line], []
        same = [one for one in self._waiting if (one.plan.names, one.plan.pattern) == (plan.names, plan.pattern)]
        if sure or len(same) + 1 >= REPEATS:
            self._waiting = [one for one in self._waiting if one not in same]
            return [*same, line], []
        waiting = [*self._waiting, line]
        self._waiting = waiting[-MOST:]
        return [], waiting[:-MOST]

    def finish(self) -> tuple[list[Waiting], list[Waiting]]:
        """Return, at the end of the log, the lines that are whole and those that broke off."""
        waiting, self._waiting = self._waiting, []
        whole = [self._printed(one.plan) for one in waiting]
        return [one for one, yes in zip(waiting, whole, strict=True) if yes], [
            one for one, yes in zip(waiting, whole, strict=True) if not yes
        ]

    def state(self) -> list[list[Any]]:
        """Return what must be remembered, JSON-able: number and text of each line."""
        return [[one.number, one.text] for one in self._waiting]

    def restore(self, state: list[list[Any]], plan_of: Callable[[str], Plan]) -> None:
        """Go on from what `state` returned; plan_of: of the text of a line."""
        self._waiting = [Waiting(number, text, plan_of(text)) for number, text in state]
