"""The numbers of a line with the columns that they go to, and what says how a kind of line is read."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

from messages import Text
from storage.reading import columns
from storage.types import Column

INSTANT = "instant"  # the column of a number that is an instant, until rows.part makes it the wall clock
CLOCKS = ("timestamp", INSTANT)


@dataclass(frozen=True)
class Field:
    """One number of a line: which token, the column it goes to, and value × multiply ÷ divide in the unit of the column.

    `column` is a row column (`step_printed`, `epoch`, `timestamp`, `rank`), INSTANT or a metric; `described` is None for all
    but the last.
    """

    token: int
    column: str
    multiply: float = 1.0
    divide: float = 1.0
    described: Column | None = None


@dataclass(frozen=True)
class Form:
    """One kind of line that a format declares; see formats.py for how it is written down."""

    format: str
    kind: str
    pattern: str
    looks: str | None = None
    pairs: bool = True
    per_epoch: bool = False
    complete: bool = False
    weak: bool = False
    open: bool = False
    names: Mapping[str, str] = field(default_factory=dict)
    units: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Plan:
    """How to read the lines of one shape.

    `format` None = nobody declared this line: it was understood by its pairs; `pattern` is that of the declared form.
    `per_epoch` = the step starts again in each epoch; `weak` = such lines are records only where no others are;
    `open` = lines behind it may add to its record; `worded` = words follow the record, which may tell an event.
    """

    format: str | None
    kind: str
    fields: tuple[Field, ...]
    pattern: str = ""
    per_epoch: bool = False
    weak: bool = False
    open: bool = False
    worded: bool = False

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The columns in the order of the line."""
        return tuple(f.column for f in self.fields)


@dataclass(frozen=True)
class Damage:
    """A line that looks like a record of a format and can not be read as one; `worded` = it is mostly words."""

    format: str | None
    reason: Text
    worded: bool = False


class Builder:
    """Collects fields; the first number for a column wins it, later ones keep their printed name (with `_2` if need be)."""

    def __init__(self, form: Form | None = None) -> None:
        self.form = form
        self.fields: dict[int, Field] = {}
        self.taken: set[str] = set()
        self.bar: dict[str, int] = {}  # the numbers of a progress bar; `unit` is not 0 if its pace is seconds a step
        self.bar_total: int | None = None  # where a progress bar prints how many steps there are
        self.used: set[int] = set()  # numbers that are no values of a name
        self.beside: Mapping[str, columns.Resolved] = {}  # printed names that another name explains

    def position(self, token: int, name: str, printed: str = "", unit: str = "") -> None:
        column = "step_printed" if name == "step" else name
        if column not in self.taken:
            self.taken.add(column)
            self.fields[token] = Field(token, column, columns.magnitude(unit))
        elif printed:
            spare = columns.spare_name(printed, self.taken)
            self.taken.add(spare)
            self.fields[token] = Field(token, spare, described=Column(spare, printed))

    def metric(self, token: int, printed: str, unit: str, *, name: str = "") -> None:
        units = self.form.units if self.form else {}
        unit = units.get(printed, units.get(name, unit))
        meaning = columns.exact(name, unit) if name else self.beside.get(printed) or columns.resolve(printed, unit)
        if meaning.position:
            self.position(token, meaning.position, printed, unit)
            return
        column = columns.spare_name(printed, self.taken) if meaning.name in self.taken else meaning.name
        self.taken.add(column)
        role = meaning.role if column == meaning.name else None
        described = Column(column, printed, meaning.unit, role)
        self.fields[token] = Field(token, column, meaning.multiply, meaning.divide, described)

    def instant(self, token: int, meaning: columns.Resolved, *, dated: bool) -> None:
        """Take a number as the wall clock: the first one, where the line prints no date."""
        self.used.add(token)
        if not dated and INSTANT not in self.taken:
            self.taken.add(INSTANT)
            self.fields[token] = Field(token, INSTANT, meaning.multiply, meaning.divide)

    def result(self) -> tuple[Field, ...]:
        return tuple(self.fields[token] for token in sorted(self.fields))
