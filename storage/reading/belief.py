"""Whether lines that no format declares are a training log: they must repeat, and a declared log among them wins.

Source code, configurations and conversations hold `loss = 0.5` too. So an undeclared line waits until REPEATS lines
under the same names came; what relates to a believed line (it prints a step or an epoch too) is believed at once. Where
a declared training loss was met, later undeclared lines are no records of their own, but for two kinds: evaluations, and
records that come one after the other while no declared one comes any more: the log goes on in another form.
"""

import re
from dataclasses import dataclass
from typing import Any

import numpy as np

from storage.reading import tokens
from storage.reading.fields import CLOCKS, Plan
from storage.reading.plans import LOSS_ROLES

REPEATS, REPEATS_WEAK = 3, 10  # lines under the same names before they are believed; of a declared weak form …
REPEATS_DOCUMENT = 6  # … and in a document, which shows examples
REPEATS_WORDED = 10  # … and of records that go on in words: three sentences may begin like that
_DOCUMENT = re.compile(rb"\s*(?:#{1,2} \S[^\n]*\n\s*\n|<!DOCTYPE|<html|<!--)", re.IGNORECASE)
REPEATS_ALONE = 10  # different losses without a step that make a log of nothing but losses …
REPEATS_ALONE_GROWING = 200  # … and lines of them, as long as the log still grows
REPEATS_OTHER = 10  # … and of another form in which a declared log goes on
MAX_WAITING, MAX_KINDS = 500, 1000
_NO_TRAINING = re.compile(r"\b(?:eval|valid|val|test|dev|bench|infer|generat|warm)", re.IGNORECASE)
_BEST = re.compile(r"\bbest\b|最佳|最优", re.IGNORECASE)  # of an evaluation that was told before
SHORT_LOG = 0.1  # share of a log that must be such lines if there are too few of them to repeat …
SHORT_LOG_WORDED = 0.5  # … and if words follow in each of them
LEADING = ("policy_loss", "reward")  # columns that make a training record without a loss


@dataclass(frozen=True)
class Waiting:
    """A line that waits to be believed."""

    number: int
    text: str
    plan: Plan


class Belief:
    """Decides line by line; `main` is the format of the first declared training loss, `main_line` its line."""

    def __init__(self) -> None:
        self.main: str | None = None
        self.main_line = 0
        self.kinds: dict[tuple[str, ...], str] = {}  # names of believed lines -> kind
        self.document = False  # the text begins like a document: lines of a log in it may be examples
        self.others: dict[tuple[str, ...], int] = {}  # names believed beside the declared format -> from which line on
        self._last_main = 0  # the last line with a declared training loss
        self._seen: list[np.ndarray] = []  # lines with such a loss in the block that is being read
        self.examples = 0  # lines that were taken for examples in a document
        self._waiting: list[Waiting] = []

    def declare(self, name: str, number: int) -> None:
        """Say that a training loss of a declared format stands in line `number`."""
        if self.main is None or number < self.main_line:
            self.main, self.main_line = name, number

    def saw(self, numbers: np.ndarray) -> None:
        """Say in which lines (rising) of the block that is being read a declared training loss stands."""
        if len(numbers):
            self._seen.append(numbers)

    def next_block(self) -> None:
        """Say that the lines told from now on come after all that were told before."""
        self._last_main = max((self._last_main, *(int(numbers[-1]) for numbers in self._seen)))
        self._seen = []

    def _main_before(self, number: int) -> int:
        places = ((numbers, int(np.searchsorted(numbers, number))) for numbers in self._seen)
        return max((self._last_main, *(int(numbers[at - 1]) for numbers, at in places if at)))

    def consider(self, plan: Plan, number: int, text: str) -> list[Waiting]:
        """Return the lines that are records now: this one, none, or also those that waited for it."""
        line = Waiting(number, text, plan)
        if plan.kind == "ignore":
            return []
        if plan.format is not None and not plan.weak and not self.document:
            return [self._declared(line)]
        if _is_loss_alone(plan):
            return self._evaluation(line) if plan.kind == "eval" else self._lone(line)
        if plan.names in self.kinds:
            return [line]
        if self.main is not None and number > self.main_line:
            return [line] if plan.weak else self._beside(line)
        if self._relates(plan):
            if len(self.kinds) < MAX_KINDS:
                self.kinds[plan.names] = self._kind(plan)
            return [line]
        if evaluation := self._evaluation(line):
            return evaluation
        if self._places() and not plan.weak:  # the log's own lines say where they are; this one does not
            return []
        self._waiting = [*self._waiting[-MAX_WAITING:], line]
        same = [one for one in self._waiting if one.plan.names == plan.names]
        if len(same) < self._repeats(plan) or not _say_more(same):
            return []
        self.document = False
        self.kinds[plan.names] = plan.kind
        return self._release()

    def _repeats(self, plan: Plan) -> int:
        return max(
            REPEATS_DOCUMENT if self.document else REPEATS,
            REPEATS_WEAK if plan.weak and not self.document else 0,
            REPEATS_WORDED if plan.worded else 0,
        )

    def _evaluation(self, line: Waiting) -> list[Waiting]:
        """Return the line if it is an evaluation of where the log is: `Train Loss: 2.5 | Val Loss: 2.75` below an epoch."""
        if not (self.kinds or self.main) or self.document or len(self.kinds) >= MAX_KINDS:
            return []
        if "eval_loss" not in line.plan.names or _BEST.search(line.text):
            return []
        self.kinds[line.plan.names] = "eval"
        if self.main is not None:
            self.others.setdefault(line.plan.names, line.number)
        return [line]

    def _lone(self, line: Waiting) -> list[Waiting]:
        """Return the lines with nothing but a loss, where the log has no others and repeats them often enough."""
        if self.main is not None or self._places() or self.document:
            return []
        if line.plan.names in self.kinds:
            return [line]
        self._waiting = [*self._waiting[-MAX_WAITING:], line]
        same = [one for one in self._waiting if one.plan.names == line.plan.names]
        return self._take(same) if len(same) >= REPEATS_ALONE_GROWING and _vary(same) else []

    def _declared(self, line: Waiting) -> Waiting:
        if line.plan.format is not None and not line.plan.weak and is_main(line.plan):
            self.declare(line.plan.format, line.number)
            self.saw(np.array([line.number]))
        return line

    def _beside(self, line: Waiting, repeats: int | None = None) -> list[Waiting]:
        """Return the lines that are records beside a declared format: evaluations, or the other form in which it goes on."""
        plan, since = line.plan, self._main_before(line.number)
        evaluates = plan.kind == "eval" and "eval_loss" in plan.names
        if not {"step_printed", "epoch"} & set(plan.names):
            return []
        if not evaluates and (not is_main(plan) or _NO_TRAINING.search(line.text)):
            return []
        self._waiting = [one for one in self._waiting if one.number > (self.main_line if _evaluates(one) else since)]
        self._waiting = [*self._waiting[-MAX_WAITING:], line]
        same = [one for one in self._waiting if one.plan.names == plan.names]
        if len(same) < (REPEATS if evaluates else REPEATS_OTHER):
            return []
        return self._take(same)

    def _take(self, lines: list[Waiting]) -> list[Waiting]:
        names = lines[0].plan.names
        self.kinds[names] = lines[0].plan.kind
        if self.main is not None:
            self.others[names] = lines[0].number
        self._waiting = [one for one in self._waiting if one.plan.names != names]
        return lines

    def _release(self) -> list[Waiting]:
        """Return the waiting lines that are believed now; of the others, those that may still come again wait on."""
        waiting, self._waiting = self._waiting, []
        believed = []
        for line in waiting:
            if line.plan.names not in self.kinds and self._relates(line.plan):
                self.kinds[line.plan.names] = self._kind(line.plan)
            if line.plan.names in self.kinds or self._evaluation(line):
                believed.append(self._declared(line))
            elif not self._places() and not _is_loss_alone(line.plan):
                self._waiting.append(line)
        return believed

    def _relates(self, plan: Plan) -> bool:
        return bool(self._places() & set(plan.names))

    def _places(self) -> set[str]:
        return {place for names in self.kinds for place in names if place in ("step_printed", "epoch")}

    def _kind(self, plan: Plan) -> str:
        """Return the kind of a related line: an epoch's mean beside records with a step is a summary, or an evaluation."""
        stepped = any("step_printed" in names for names in self.kinds)
        if plan.kind != "train" or not stepped or "step_printed" in plan.names:
            return plan.kind
        return "eval" if "eval_loss" in plan.names else "summary"

    def breaks_off(self, plan: Plan) -> bool:
        """Say whether an undeclared line prints only the first names of one that is believed: it was cut."""
        count = len(plan.names)
        return plan.names not in self.kinds and any(len(names) > count and names[:count] == plan.names for names in self.kinds)

    def finish(self, lines: int) -> list[Waiting]:
        """Return the lines that still wait and are believed because the log is as short as that; `lines` = in the log."""
        waiting, self._waiting = self._waiting, []
        if self.main is not None and not self.document:
            self.next_block()
            names = {one.plan.names: None for one in waiting if one.number > self._last_main and not _evaluates(one)}
            last = [[one for one in waiting if one.plan.names == each and one.number > self._last_main] for each in names]
            return [one for same in last if len(same) >= REPEATS for one in self._take(same)]
        if self.main is not None or self.kinds or self.document:
            self.examples = len(waiting) if self.document else 0
            return []
        alone = [line for line in waiting if _is_loss_alone(line.plan)]
        waiting = [line for line in waiting if not _is_loss_alone(line.plan)]
        if not waiting and _vary(alone):
            waiting = alone
        sure = [line for line in waiting if line.plan.weak or {"step_printed", "epoch"} & set(line.plan.names)]
        sure = sure if len(sure) < 2 or _say_more(sure) else []
        if len(sure) < (SHORT_LOG_WORDED if all(line.plan.worded for line in sure) else SHORT_LOG) * lines:
            return []
        for line in sure:
            self.kinds.setdefault(line.plan.names, line.plan.kind)
        return sure

    def state(self) -> dict[str, Any]:
        """Return what must be remembered, JSON-able; plans are made anew from the text."""
        return {
            "main": self.main,
            "main_line": self.main_line,
            "document": self.document,
            "kinds": [[list(names), kind] for names, kind in self.kinds.items()],
            "others": [[list(names), line] for names, line in self.others.items()],
            "last_main": max((self._last_main, *(int(numbers[-1]) for numbers in self._seen))),
            "waiting": [[line.number, line.text] for line in self._waiting],
        }

    def restore(self, state: dict[str, Any], plan_of: Any) -> None:
        """Go on from what `state` returned; `plan_of` gives the plan of a text."""
        self.main, self.main_line, self.document = state["main"], state["main_line"], state["document"]
        self.kinds = {tuple(names): kind for names, kind in state["kinds"]}
        self.others = {tuple(names): line for names, line in state.get("others", ())}
        self._last_main = state.get("last_main", 0)
        self._waiting = [Waiting(number, text, plan_of(text)) for number, text in state["waiting"]]


def _evaluates(line: Waiting) -> bool:
    return line.plan.kind == "eval"


def _say_more(lines: list[Waiting]) -> bool:
    """Say whether lines that name a step say anything new: in a chat the same words come back."""
    if not lines or "step_printed" not in lines[0].plan.names:
        return True
    return any(_values(one) != _values(lines[0]) for one in lines[1:])


def _vary(lines: list[Waiting]) -> bool:
    """Say whether there are as many different values as a log of nothing but losses has: an assignment in code is one."""
    return len({tuple(_values(one)) for one in lines}) >= REPEATS_ALONE


def _values(line: Waiting) -> list[str]:
    found = tokens.tokens(tokens.plain(line.text))
    return [found[field.token].text for field in line.plan.fields if field.column not in CLOCKS and field.token < len(found)]


def _is_loss_alone(plan: Plan) -> bool:
    """Say whether an undeclared line has nothing but a loss."""
    return plan.weak and plan.format is None


def is_document(head: bytes) -> bool:
    """Say whether a text begins like Markdown (a title alone, a blank line) or HTML."""
    return _DOCUMENT.match(head[:2000]) is not None


def is_main(plan: Plan) -> bool:
    """Say whether a line under this plan is a training record with what a training is judged by."""
    leading = (f.described and (f.described.role in LOSS_ROLES or f.column in LEADING) for f in plan.fields)
    return plan.kind == "train" and any(leading)
