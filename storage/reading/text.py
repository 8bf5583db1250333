"""Lines of text in, parts of rows out: declared formats and undeclared `name: number` lines, by learnt templates.

Every line is understood by its shape, which is understood once; shapes that come often become templates, which read the
following lines by the thousand. What a line gives depends on the lines before it, never on how they were cut into blocks.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from messages import N_, Text
from storage.reading import ends, formats, plans, rows, tokens
from storage.reading.belief import Belief, Waiting, is_main
from storage.reading.columns import PLANNED
from storage.reading.decode import Block
from storage.reading.forms import Forms, Style, style_of
from storage.reading.layouts import Layouts, merged
from storage.reading.plans import Damage, Form, Plan
from storage.reading.tails import Tails
from storage.reading.template import Template, number, timestamps
from storage.types import Column, Unparsed

MAX_TEMPLATES, MAX_SKIPS, MAX_SHAPES, MAX_EXAMPLES, MAX_DRIFTS = 64, 16, 20_000, 200, 100
LOOKED = 1000  # lines of a block behind the records of a table that are looked at
MAX_STYLES = 1000  # shapes of training records whose form is followed
MAX_TEXT = 1 << 16  # characters of a line that is understood; a longer one is no record
MANY, MANY_SKIPS = 24, 200  # lines of one shape that make a template worth its pattern
CHUNKS = (64, 1024)  # lines understood one by one before the templates are tried again
MAX_DOUBTFUL = 100
MAX_COLUMNS, MAX_NAMES = 2000, 500  # metrics of one log; sets of names of one kind of line that are remembered
SHOWN = 300  # characters of an unparsed line that are kept
_NON_FINITE = re.compile("nan|inf", re.IGNORECASE)
Shape = tuple[str, str]  # the shape of a line, and the pattern of the form that fits it ("": undeclared)
Fits = tuple[Form, bool] | None
Claim = Callable[[Block, np.ndarray], np.ndarray]
Read = tuple[Plan, np.ndarray, np.ndarray, dict[str, pa.Array]]  # plan, places in the block, line numbers, columns


@dataclass
class _Group:
    """Lines read one by one under one plan."""

    plan: Plan
    at: list[int] = field(default_factory=list)
    numbers: list[int] = field(default_factory=list)
    values: list[list[float | None]] = field(default_factory=list)
    stamps: list[str] = field(default_factory=list)

    def read(self) -> Read:
        """Return the lines as columns."""
        measured = [f.column for f in self.plan.fields if f.column != "timestamp"]
        found = {
            name: pa.array(column, pa.float64()) for name, column in zip(measured, zip(*self.values, strict=True), strict=True)
        }
        if self.stamps:
            found["timestamp"] = timestamps(pa.array(self.stamps, pa.string()))
        return self.plan, np.array(self.at), np.array(self.numbers), found


class TextReader:
    """Reads blocks of text.

    `columns` describes every metric met, `rows` counts rows by format, `drifts` says from which line on other fields were
    printed, `unparsed` are the lines that should have been rows and were not.
    """

    def __init__(self, only: str | None = None) -> None:
        self.columns: dict[str, Column] = {}
        self.rows: Counter[str] = Counter()
        self.drifts: list[tuple[int, tuple[str, ...]]] = []
        self.unparsed: list[Unparsed] = []
        self.belief = Belief()
        self.commas = False  # numbers have a decimal comma
        self.counted = False  # a number in brackets in front of a line is the step
        self.ended = ends.Ends()
        self.forms = Forms()
        self._styles: dict[int, tuple[Plan, Style]] = {}  # by the identity of a plan
        self._units: dict[tuple[str | None, tuple[str, ...]], str | None] = {}  # behind the last number of the first such line
        self._open: tuple[int, str] | None = None  # the last line of the log, if it has no end
        self.crowded = False  # the log prints more names than are kept
        self._doubtful: list[tuple[str, Unparsed]] = []  # damaged lines of formats that gave no row yet
        self._tails = Tails(self._prints)
        self._only = only
        self._templates: list[Template] = []
        self._skips: list[Template] = []
        self._layouts = Layouts()
        self._counts: Counter[Shape] = Counter()
        self._examples: dict[Shape, str] = {}  # the first line of every shape that gives rows
        self._known: dict[Shape, Plan | Damage | None] = {}
        self._names: dict[tuple[str | None, str], list[tuple[str, ...]]] = {}  # what lines of a form or kind printed so far

    def feed(self, block: Block, claim: Claim, *, unended: bool = False) -> tuple[list[pa.Table], np.ndarray]:
        """Return the parts that these lines give, and which lines are records, wait to be, or should have been.

        Lines of words are none of these, be they records or not: they may tell an event.
        `claim(rest, places)` is asked which of the lines that no template reads are somebody else's: `places` says where
        in the block they stand. `unended` = the last line has no end: its last number may be cut.
        """
        taken = np.zeros(len(block.numbers), bool)
        found: list[Read] = []
        groups: dict[int, _Group] = {}
        self.belief.next_block()
        lines = block.lines()
        cut = ends.cut(lines)
        if unended and len(cut):
            cut[-1], self._open = True, (int(block.numbers[-1]), lines[-1].as_py())
        lines, places = self._whole(lines, np.arange(len(taken)), block.numbers, found, cut)
        if len(places):
            claimed = claim(block if len(places) == len(taken) else Block.of(lines, block.numbers[places]), places)
            taken[places[claimed]] = True
            lines, places = lines.filter(pa.array(~claimed)), places[~claimed]
        lines, places = self._candidates(lines, places)
        told = 0
        for size in (*CHUNKS, len(lines)):
            told = self._tell(found, told)
            taken[places[:size]] = self._one_by_one(lines.slice(0, size), places[:size], block.numbers, groups)
            lines, places = self._whole(lines.slice(size), places[size:], block.numbers, found, cut)
        for plan, at, _, _ in found:
            taken[at] = not plan.worded
        parts = [self._part(read) for read in _together([*found, *(group.read() for group in groups.values())])]
        if self._doubtful:
            self._release_doubtful()
        return parts, taken

    def _whole(
        self, lines: pa.Array, places: np.ndarray, numbers: np.ndarray, found: list[Read], cut: np.ndarray
    ) -> tuple[pa.Array, np.ndarray]:
        """Read by template what fits one; lines that may be cut are left to be read one by one."""
        broken = cut[places]
        if not broken.any():
            return self._by_template(lines, places, numbers, found)
        _, left = self._by_template(lines.filter(pa.array(~broken)), places[~broken], numbers, found)
        left = np.sort(np.concatenate((left, places[broken])))
        return lines.take(pa.array(np.searchsorted(places, left))), left

    def _tell(self, found: list[Read], told: int) -> int:
        """Tell which lines the templates read as training records of a declared format; return how many reads are told."""
        for plan, _, numbers, _ in found[told:]:
            if plan.format is not None and not plan.weak and is_main(plan):
                self.belief.saw(numbers)
        return len(found)

    def finish(self, lines: int) -> list[pa.Table]:
        """Return the parts of the lines that waited to be believed, in a log of so many lines."""
        if self.belief.main is None and not self.belief.kinds:
            self.unparsed += [line for _, line in self._doubtful]
        groups: dict[int, _Group] = {}
        self._settle(*self._tails.finish(), 0, groups)
        for waiting in self.belief.finish(lines):
            self._accept(waiting, 0, groups)
        parts = [self._part(group.read()) for group in groups.values()]
        self.forms.finish()
        return parts

    def looks_like_records(self, block: Block) -> Iterator[tuple[int, str]]:
        """Yield number and text of the lines that would be training records in a log of lines; a long block: of its start."""
        lines, places = self._candidates(block.lines(), np.arange(len(block.numbers)))
        texts = lines.slice(0, LOOKED)
        for at, text, fits in zip(places, texts.to_pylist(), formats.match(texts, self._only), strict=False):
            found = _numbers_of(text, fits[0] if fits else None) if len(text) <= MAX_TEXT else []
            plan = self._understand(text, found, fits)
            if isinstance(plan, Plan) and is_main(plan):
                yield int(block.numbers[at]), text

    def _candidates(self, lines: pa.Array, places: np.ndarray) -> tuple[pa.Array, np.ndarray]:
        """Return the lines that may be records: a format declares them, or they name something that is measured."""
        if not len(lines):
            return lines, places
        wanted = formats.candidates(lines, self._only)
        return lines.filter(pa.array(wanted)), places[wanted]

    def _by_template(
        self, lines: pa.Array, places: np.ndarray, numbers: np.ndarray, found: list[Read]
    ) -> tuple[pa.Array, np.ndarray]:
        """Read what fits a template; return the rest."""
        lines, places = self._in_place(lines, places, numbers, found)
        for template in (*self._templates, *self._skips):
            if not len(lines):
                break
            fits = template.match(lines)
            if not fits.true_count:
                continue
            flags = _flags(fits)
            taken, at = lines.filter(fits), places[flags]
            lines, places = lines.filter(pc.invert(fits)), places[~flags]
            if self._layouts.learn(template, taken):
                taken, at = self._in_place(taken, at, numbers, found)
            if template.plan.fields and len(at):
                found.append((template.plan, at, numbers[at], template.read(taken)))
        return lines, places

    def _in_place(
        self, lines: pa.Array, places: np.ndarray, numbers: np.ndarray, found: list[Read]
    ) -> tuple[pa.Array, np.ndarray]:
        """Read what has a layout; return the rest."""
        hits = self._layouts.read(lines)
        if not hits:
            return lines, places
        left = np.ones(len(lines), bool)
        for hit in hits:
            left[hit.at] = False
        for template in {id(hit.template): hit.template for hit in hits}.values():
            if template.plan.fields:
                at, values = merged([hit for hit in hits if hit.template is template], len(lines))
                found.append((template.plan, places[at], numbers[places[at]], template.columns(values)))
        return lines.filter(pa.array(left)), places[left]

    def _one_by_one(self, lines: pa.Array, places: np.ndarray, numbers: np.ndarray, groups: dict[int, _Group]) -> list[bool]:
        """Understand each line; return which are records, or wait to be, or should have been."""
        if not len(lines):
            return []
        return [
            self._line(at, int(numbers[at]), text, fits, groups)
            for at, text, fits in zip(places.tolist(), lines.to_pylist(), formats.match(lines, self._only), strict=True)
        ]

    def _line(self, at: int, line: int, text: str, fits: Fits, groups: dict[int, _Group]) -> bool:
        clear = tokens.plain(text)
        found = _numbers_of(text, fits[0] if fits else None) if len(text) <= MAX_TEXT else []
        key = (tokens.shape(clear, found), fits[0].pattern if fits else "")
        if key not in self._known:
            if len(self._known) >= MAX_SHAPES:
                self._known = {shape: known for shape, known in self._known.items() if shape in self._examples}
            self._known[key] = self._understand(text, found, fits)
        known = self._known[key]
        if isinstance(known, Damage):
            self._damaged(known, Unparsed(line, text.rstrip("\n")[:SHOWN], known.reason))
        elif known is None:
            self._skip(key, text, found)
        else:
            self._settle(*self._tails.take(Waiting(line, text, known)), at, groups)
        return known is not None and not known.worded

    def _settle(self, whole: list[Waiting], broken: list[Waiting], at: int, groups: dict[int, _Group]) -> None:
        """Accept the lines that are whole as far as they are believed, and report those that broke off."""
        for line in whole:
            for waiting in self.belief.consider(line.plan, line.number, line.text):
                self._accept(waiting, at, groups)
        breaks_off = Text(N_("the line breaks off"))
        self.unparsed += [Unparsed(line.number, line.text.rstrip("\n")[:SHOWN], breaks_off) for line in broken]

    def _prints(self, plan: Plan) -> bool:
        """Say whether lines of the form of a plan printed just its names."""
        return plan.names in self._names.get((plan.format, plan.pattern), ())

    def _damaged(self, damage: Damage, line: Unparsed) -> None:
        """Keep a line that should have been a row; one of a format that gave no row yet waits whether it will."""
        if damage.format is not None and not self.rows[damage.format]:
            self._doubtful = [*self._doubtful[:MAX_DOUBTFUL], (damage.format, line)]
        elif damage.format is not None or self.belief.kinds:
            self.unparsed.append(line)

    def _release_doubtful(self) -> None:
        self.unparsed += [line for name, line in self._doubtful if self.rows[name]]
        self._doubtful = [(name, line) for name, line in self._doubtful if not self.rows[name]]

    def _understand(self, text: str, found: list[tokens.Token], fits: Fits) -> Plan | Damage | None:
        if fits is None:
            plan = plans.undeclared(tokens.plain(text), found, counted=self.counted)
            if isinstance(plan, Plan) and not plan.worded and self.belief.breaks_off(plan):
                return Damage(None, Text(N_("the line breaks off")))
            return plan
        form, whole = fits
        if not whole or not found:
            alone = self.belief.main is None
            other = plans.undeclared(tokens.plain(text), found, counted=self.counted) if alone else None
            if isinstance(other, Plan) and is_main(other):  # a fork prints it in a way of its own
                return other
            return Damage(form.format, Text(N_("not the form of such a line")))
        plan = plans.declared(tokens.plain(text), found, form, formats.spans(text, form))
        if isinstance(plan, Plan) and form.complete:
            before = self._names.get((form.format, form.pattern), [])
            if any(len(names) > len(plan.names) and names[: len(plan.names)] == plan.names for names in before):
                return Damage(form.format, Text(N_("the line breaks off")))
        return plan

    def _accept(self, waiting: Waiting, at: int, groups: dict[int, _Group]) -> None:
        """Take a line as a row: note its shape, its columns and names, and keep its numbers."""
        pattern = waiting.plan.pattern
        found = _numbers_of(waiting.text, self._form(pattern))
        key = (tokens.shape(tokens.plain(waiting.text), found), pattern)
        if key not in self._examples:
            self._meet(key, waiting)
            self._style(waiting.text, found, self._known[key])
        plan = self._known[key]
        assert isinstance(plan, Plan)
        group = groups.setdefault(id(plan), _Group(plan))
        group.at.append(at)
        group.numbers.append(waiting.number)
        cut = self._cut(waiting, found, key)
        measured = (f for f in plan.fields if f.column != "timestamp")
        group.values.append([None if f.token == cut else _value(found[f.token], f) for f in measured])
        group.stamps += [found[f.token].text for f in plan.fields if f.column == "timestamp"]
        self._counts[key] += cut is None
        if self._counts[key] >= MANY and len(self._templates) < MAX_TEMPLATES:
            self._learn(waiting.text, found, plan, self._templates)
            self._counts[key] = -(1 << 60)

    def _style(self, text: str, found: list[tokens.Token], plan: Plan | Damage | None) -> None:
        """Note the form of the lines that are read by a plan."""
        if isinstance(plan, Plan) and is_main(plan) and len(self._styles) < MAX_STYLES:
            self._styles[id(plan)] = plan, style_of(tokens.plain(text), found, plan)

    def _cut(self, waiting: Waiting, found: list[tokens.Token], key: Shape) -> int | None:
        """Return which number of a line is its last and can not be believed, for the line breaks off in it."""
        text, last = waiting.text.rstrip("\n"), len(found) - 1
        if found and self._lacks_unit(waiting.plan, text[found[last].end :]) and waiting.plan.fields[-1].token == last:
            self.ended.note(waiting.number)
            return last
        broken = (waiting.number, waiting.text) == self._open or len(text.encode()) in ends.BUFFERS
        if not broken or found[last].end < len(text):
            return None
        example = self._examples.get(key, waiting.text)
        others = tokens.tokens(tokens.plain(example), 2 * plans.MAX_FIELDS) if example != waiting.text else []
        if len(others) == len(found) and ends.whole(found[last].text, others[last].text):
            return None
        self.ended.note(waiting.number)
        return last

    def _lacks_unit(self, plan: Plan, rest: str) -> bool:
        """Say whether a line ends within the unit of its last number, which is the same in all lines of its names."""
        unit, key = ends.unit(rest), (plan.format, plan.names)
        if key not in self._units and len(self._units) >= MAX_NAMES:
            return False
        usual = self._units.setdefault(key, unit)
        if unit is None or usual is None or usual.startswith(unit):
            return unit is not None and usual is not None and unit != usual
        self._units[key] = None
        return False

    def _form(self, pattern: str) -> Form | None:
        return next((form for form in formats.forms(self._only) if form.pattern == pattern), None) if pattern else None

    def _meet(self, key: Shape, waiting: Waiting) -> None:
        """Note the first line of a shape that gives rows."""
        plan = waiting.plan
        if plan.names in self.belief.kinds:
            plan = replace(plan, kind=self.belief.kinds[plan.names])
        if len(self.columns) + len(plan.fields) > MAX_COLUMNS:
            known = tuple(f for f in plan.fields if f.described is None or f.column in self.columns)
            plan, self.crowded = replace(plan, fields=known), True
        self._known[key] = plan
        if len(self._examples) < MAX_EXAMPLES:
            self._examples[key] = waiting.text
        for f in plan.fields:
            if f.described is not None and f.column != PLANNED:
                self.columns.setdefault(f.column, f.described)
        before = self._names.setdefault((plan.format, plan.pattern or plan.kind), [])
        if plan.names not in before and len(before) < MAX_NAMES:
            if (
                plan.kind not in ("more", "eval")
                and (before or plan.names in self.belief.others)
                and len(self.drifts) < MAX_DRIFTS
            ):
                self.drifts.append((waiting.number, plan.names))
            before.append(plan.names)

    def _skip(self, key: Shape, text: str, found: list[tokens.Token]) -> None:
        """Learn to pass over a shape that gives no rows and comes often."""
        self._counts[key] += 1
        if self._counts[key] == MANY_SKIPS and len(self._skips) < MAX_SKIPS and found:
            self._learn(text, found, Plan(None, "none", ()), self._skips)

    def _learn(self, text: str, found: list[tokens.Token], plan: Plan, templates: list[Template]) -> None:
        template = Template(text, found, plan)
        if template.safe and all(text[token.start : token.end] == token.text for token in found):
            templates.append(template)

    def _part(self, read: Read) -> pa.Table:
        plan, places, numbers, found = read
        kinds: str | pa.Array = plan.kind
        if plan.format is None or plan.weak:
            later = numbers > self.belief.main_line
            if plan.names in self.belief.others:
                later &= numbers < self.belief.others[plan.names]
            if self.belief.main is not None and later.any():
                kinds = pa.array(np.where(later, "telemetry", plan.kind))
        self.rows[plan.format or "generic"] += len(places)
        if isinstance(kinds, str) and id(plan) in self._styles:
            self.forms.saw(numbers, self._styles[id(plan)][1])
        return rows.part(places, numbers, kinds, found, plan=plan)

    def state(self) -> dict[str, Any]:
        """Return what must be remembered, JSON-able: one line of each shape tells all that was learnt."""
        return {
            "examples": [[text, list(key)] for key, text in self._examples.items()],
            "belief": self.belief.state(),
            "rows": dict(self.rows),
            "columns": [[one.name, one.printed, one.unit, one.role] for one in self.columns.values()],
            "drifts": self.drifts,
            "doubtful": [[name, one.line, one.text, one.reason.to_dict()] for name, one in self._doubtful],
            "crowded": self.crowded,
            "commas": self.commas,
            "counted": self.counted,
            "forms": self.forms.state(),
            "ended": [self.ended.count, self.ended.first],
            "tailed": self._tails.state(),
            "names": [[*key, [list(names) for names in sets]] for key, sets in self._names.items()],
        }

    def restore(self, state: dict[str, Any]) -> None:
        """Go on from what `state` returned."""
        self.rows, self.crowded, self.commas = Counter(state["rows"]), state["crowded"], state.get("commas", False)
        self.columns = {name: Column(name, printed, unit, role) for name, printed, unit, role in state["columns"]}
        self._doubtful = [
            (name, Unparsed(line, text, Text.from_dict(reason))) for name, line, text, reason in state["doubtful"]
        ]
        self.counted = state.get("counted", False)
        self.drifts = [(line, tuple(names)) for line, names in state["drifts"]]
        self._names = {(form, kind): [tuple(names) for names in sets] for form, kind, sets in state["names"]}
        self.forms.restore(state["forms"])
        self.ended = ends.Ends(*state.get("ended", (0, 0)))
        self.belief.restore(state["belief"], self._plan_of)
        self._tails.restore(state.get("tailed", []), self._plan_of)
        for text, (shape, pattern) in state["examples"]:
            plan = self._plan_of(text)
            key = (shape, pattern)
            self._examples[key] = text
            plan = replace(plan, kind=self.belief.kinds.get(plan.names, plan.kind))
            self._known[key] = plan
            found = _numbers_of(text, self._form(pattern))
            self._style(text, found, plan)
            self._lacks_unit(plan, text.rstrip("\n")[found[-1].end :])
            self._counts[key] = MANY - 1  # its next line makes the template again

    def _plan_of(self, text: str) -> Plan:
        clear = tokens.plain(text)
        fits = formats.match(pa.array([text]), self._only)[0]
        found = _numbers_of(text, fits[0] if fits else None)
        if fits:
            plan = plans.declared(clear, found, fits[0], formats.spans(text, fits[0]))
        else:
            plan = plans.undeclared(clear, found, counted=self.counted)
        assert isinstance(plan, Plan)
        return plan


def _numbers_of(text: str, form: Form | None) -> list[tokens.Token]:
    """Return the numbers of a line; nan and inf too where a group of the form that fits it says that a number stands."""
    clear = tokens.plain(text)
    found = tokens.tokens(clear, 2 * plans.MAX_FIELDS)
    if form is None or "(?P<" not in form.pattern or not _NON_FINITE.search(clear):
        return found
    return tokens.with_values(clear, found, [start for start, _ in formats.spans(text, form).values()])


def _together(reads: list[Read]) -> list[Read]:
    """Return reads of one plan as one, in the order of the block: less is to be sorted than when they are rows."""
    of_plan: dict[tuple[Any, ...], list[Read]] = {}
    for read in reads:
        of_plan.setdefault((id(read[0]), *read[3]), []).append(read)
    return [_joined(mine) if len(mine) > 1 else mine[0] for mine in of_plan.values()]


def _joined(reads: list[Read]) -> Read:
    at = np.concatenate([read[1] for read in reads])
    order = np.argsort(at, kind="stable")
    places = pa.array(order)
    found = {name: pa.concat_arrays([read[3][name] for read in reads]).take(places) for name in reads[0][3]}
    return reads[0][0], at[order], np.concatenate([read[2] for read in reads])[order], found


def _flags(mask: pa.Array) -> np.ndarray:
    return mask.to_numpy(zero_copy_only=False)


def _value(token: tokens.Token, to: plans.Field) -> float:
    value = number(token)
    value = value * to.multiply if to.multiply != 1 else value
    return value / to.divide if to.divide != 1 else value
