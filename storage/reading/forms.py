"""Where a log changes the form of its records (R30): another program writes, another separator, another order of fields.

A form is what stays when numbers, their precision and single fields change: the format, the order of the fields, what
stands between name and value and between two fields, and whether a clock or a logger stands in front. A change is told
once the new form has gone on for GOES_ON records without one of the old form, at its first line. What follows on a table
or on JSON lines in another form is not read: that is told as well (`Beyond`).
"""

import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from itertools import islice
from typing import Any

import numpy as np
import pyarrow as pa

from storage.reading.fields import CLOCKS
from storage.reading.plans import Plan
from storage.reading.tokens import Token, undrawn
from storage.types import Drift

Seen = tuple[np.ndarray, "Style"]  # in which lines records of a form stand
GOES_ON, AT_END = 10, 3  # records of the new form that make a change; as many at the end of the log
MAX_CHANGES = 100
SHOWN = 80  # characters of a line that are kept
_WORD = re.compile(r"[^\W\d_]+")
_SPACES = re.compile(r"\s+")


@dataclass(frozen=True)
class Style:
    """The form of a record; `sample` is the first line that had it."""

    format: str
    columns: tuple[str, ...] = ()
    between: str = ""  # two fields
    assigned: str = ""  # a name and its value
    clock: bool = False
    headed: bool = False
    sample: str = field(default="", compare=False)

    def same(self, other: "Style") -> bool:
        """Say whether two records have one form: one more field, or one under another name, is no other form."""
        mine = [name for name in self.columns if name in other.columns]
        theirs = [name for name in other.columns if name in self.columns]
        alike = len(mine) >= min(len(self.columns), len(other.columns)) / 2
        look = (self.format, self.between, self.assigned, self.clock, self.headed)
        return look == (other.format, other.between, other.assigned, other.clock, other.headed) and mine == theirs and alike


def style_of(text: str, found: list[Token], plan: Plan) -> Style:
    """Return the form of a line that is read by a plan."""
    named = [f for f in plan.fields if f.column not in CLOCKS]
    edges = [(found[f.token - 1].end if f.token else 0, found[f.token].start) for f in named]
    gaps = [_SPACES.sub(" ", undrawn(text[start:end])) for start, end in edges]  # a progress bar grows with the steps
    assigned = Counter(_tail(gap) for gap in gaps).most_common(1)[0][0]
    between = Counter(_head(gap) for gap in gaps[1:]).most_common(1)[0][0] if gaps[1:] else ""
    clock = any(token.kind == "stamp" for token in found[: named[0].token])
    first = _WORD.findall(gaps[0]) if not named[0].token else [text[: found[0].start]]
    columns = tuple(f.column for f in named)
    return Style(
        plan.format or "", columns, between, assigned, clock, len(first) > 2 or clock, _SPACES.sub(" ", text.strip())[:SHOWN]
    )


def style_of_container(name: str, text: str) -> Style:
    """Return the form of the records of a container; `text`: one of its lines."""
    return Style(name, sample=_SPACES.sub(" ", text.strip())[:SHOWN])


def _tail(gap: str) -> str:
    """Return what stands between a name and its value."""
    return gap[max((match.end() for match in _WORD.finditer(gap)), default=0) :].strip(" '\"([") or " "


def _head(gap: str) -> str:
    """Return what stands between a value (and its unit) and the next name."""
    glued = re.match(r"[^\W\d_]+", gap)
    rest = gap[glued.end() :] if glued else gap
    word = _WORD.search(rest)
    return (rest[: word.start()] if word else rest).strip(" '\"()[]%") or " "


class Forms:
    """Follows the form from record to record; `changes` are the places where another one begins."""

    def __init__(self) -> None:
        self.changes: list[Drift] = []
        self._now: Style | None = None
        self._next: Style | None = None  # another form, and since which line it has come how often
        self._since = self._count = 0
        self._step: int | None = None  # at the line `since`
        self._block: list[Seen] = []

    def saw(self, numbers: np.ndarray, style: Style) -> None:
        """Say in which lines of the block that is being read records of this form stand."""
        if len(numbers):
            self._block.append((numbers, style))

    def taken(self) -> list[Seen]:
        """Return what was seen of a block; none of it is held any more."""
        block, self._block = self._block, []
        return block

    def next_block(self, block: list[Seen]) -> None:
        """Take what was seen, in the order of the lines."""
        if block and all((self._now or block[0][1]) == style for _, style in block):
            self._now, self._next = self._now or block[0][1], None
        elif block:
            lines = np.concatenate([numbers for numbers, _ in block])
            owner = np.repeat(np.arange(len(block)), [len(numbers) for numbers, _ in block])
            order = np.argsort(lines, kind="stable")
            lines, owner = lines[order], owner[order]
            starts = np.flatnonzero(np.diff(owner, prepend=-1))
            for start, end in zip(starts, [*starts[1:], len(lines)], strict=True):
                self._run(block[owner[start]][1], int(lines[start]), int(end - start))

    def _run(self, style: Style, line: int, count: int) -> None:
        if self._now is None or self._now.same(style):
            self._now, self._next = style, None
            return
        if self._next is None or not self._next.same(style):
            self._next, self._since, self._count, self._step = style, line, 0, None
        self._count += count
        if self._count >= GOES_ON:
            self._change()

    def _change(self) -> None:
        if self._next is not None and len(self.changes) < MAX_CHANGES:
            self.changes.append(Drift(self._since, self._step, self._next.sample))
        self._now, self._next = self._next, None

    def finish(self) -> None:
        """Take the end of the log: a form that began just before it counts sooner."""
        self.next_block(self.taken())
        if self._next is not None and self._count >= AT_END:
            self._change()

    def place(self, rows: pa.Table) -> None:
        """Give the places where a form begins the step that is printed there."""
        if not rows.num_rows:
            return
        lines = rows["line"].to_numpy()
        waits = self._next is not None and self._step is None
        if waits and (step := _step_at(rows, lines, self._since)) is not None:
            self._step = step
        for at, change in enumerate(self.changes):
            if change.step is None and (step := _step_at(rows, lines, change.line)) is not None:
                self.changes[at] = Drift(change.line, step, change.text)

    def state(self) -> dict[str, Any]:
        """Return what must be remembered, JSON-able."""
        now, next_ = (asdict(style) if style else None for style in (self._now, self._next))
        changes = [[one.line, one.step, one.text] for one in self.changes]
        return {"now": now, "next": next_, "place": [self._since, self._count, self._step], "changes": changes}

    def restore(self, state: dict[str, Any]) -> None:
        """Go on from what `state` returned."""
        self.changes = [Drift(*one) for one in state["changes"]]
        styles = (
            Style(**kept | {"columns": tuple(kept["columns"])}) if kept else None for kept in (state["now"], state["next"])
        )
        self._now, self._next = styles
        self._since, self._count, self._step = state["place"]


class Beyond:
    """Follows lines behind the last record of a table or of JSON lines that look like records, too: they are not read."""

    def __init__(self) -> None:
        self._count = self._line = 0
        self._text = ""

    def saw(self, records: Iterable[tuple[int, str]]) -> None:
        """Take the number and the text of such lines, in order, as far as GOES_ON of them are needed."""
        for line, text in islice(records, GOES_ON - self._count):
            if not self._count:
                self._line, self._text = line, _SPACES.sub(" ", text.strip())[:SHOWN]
            self._count += 1

    def forget(self) -> None:
        """Take a record of the log's own form: what stood between was no other one."""
        self._count = 0

    def changes(self) -> tuple[Drift, ...]:
        """Return where the lines begin that are not read, if there are any."""
        return (Drift(self._line, None, self._text, read=False),) if self._count >= GOES_ON else ()

    def state(self) -> list[Any]:
        """Return what must be remembered, JSON-able."""
        return [self._count, self._line, self._text]

    def restore(self, state: list[Any]) -> None:
        """Go on from what `state` returned."""
        self._count, self._line, self._text = state


def _step_at(rows: pa.Table, lines: np.ndarray, line: int) -> int | None:
    at = int(np.searchsorted(lines, line))
    return rows["step"][at].as_py() if at < len(lines) and lines[at] == line else None
