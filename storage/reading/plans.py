"""What the numbers of a line mean: a plan, made once for each shape of line, by which thousands of lines are read."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property

from messages import N_, Text
from storage.reading import columns, tokens
from storage.types import Column

LOSS_ROLES = ("loss", "main_loss")
METRIC_ROLES = (*LOSS_ROLES, "eval_loss", "rate", "gradient", "rl", "evaluation", "throughput")
MIN_UNDERSTOOD = 0.6  # share of an undeclared line that must be names and numbers: prose and code stay below
MAX_FIELDS = 512
_FRACTION = re.compile(r"\s*(?:/|\bof\b)\s*$")
_METRIC_WORD = re.compile(r"loss|(?:^|_)(?:acc|accuracy|f1|bleu|rouge|wer|auc|miou|error|perplexity|ppl)(?:_|$)")
_NO_METRIC = re.compile(r"(?:^|[ _(])pid$|^v_num$", re.IGNORECASE)  # a process, a version: numbers that measure nothing
_RANK = re.compile(r" *[0-9]{1,4}: ")  # srun --label
_BAR = re.compile(  # a progress bar: percent, steps, clocks and pace
    r"(?P<percent>\d+)%\|[^|]*\|\s*(?P<step>\d[\d,.]*)(?:[kKM]?)/(?P<total>\d[\d,.]*)(?:[kKM]?) *\["
    r"(?:(?P<elapsed_seconds>[\d:]+)<(?P<remaining_seconds>[\d:]+), *(?P<pace>[\d.]+)(?P<unit>s/it|it/s))?"
)
_BATCH = re.compile(r"(?i:\b(?:mini[-_ ]?)?batch(?:_?idx)?|批次)[ :#=\[(]*$")  # the step of an epoch
_STEP_NAMES, _ITER_NAMES = ("global_step", "step", "current_step"), ("iter", "iteration", "micro_step", "batch_idx", "it")
_EVAL_LINE = re.compile(
    r"(?:^|[\s\[(|>])(?:validat(?:e|ion|ing)|valid|val|eval(?:uat(?:e|ion|ing))?|test(?:ing)?|dev|验证|评估|测试)(?=[\s\])|:>]|$)",
    re.IGNORECASE,
)
_EVAL_POSITION = re.compile(r"^(?:validat(?:e|ion)|valid|val|eval(?:uation)?|test)[ _]+(?=(?:step|iter|epoch))", re.IGNORECASE)
_CALLER = re.compile(r"\w:\w|^__\w+__$")  # `__main__:train:88`
_LEVEL = re.compile(r".{0,200}\b(?:INFO|DEBUG|WARNING|NOTICE)\b[\]:|\s-]*")  # what a logger prints before the message
_BRACKETS = re.compile(r"[\[(] *[0-9]+ */ *[0-9]+ *[\])]")
_LOGGER = re.compile(
    r"(?:\.py:[0-9]+\]|\b(?:INFO|DEBUG|NOTICE)\b[\]:|\s-]*|[0-9]{2}:[0-9]{2}:[0-9]{2}[^A-Za-z\[]{0,8})\s*$"
)  # what a logger prints, at its end
_BY_UNIT = {  # numbers without a name that their unit explains
    **dict.fromkeys(("s/it", "s/step", "s/iter", "ms/it", "ms/step", "ms/iter"), "step_time_seconds"),
    **dict.fromkeys(("it/s", "iter/s", "steps/s"), "steps_per_second"),
    **dict.fromkeys(("tok/s", "tokens/s", "k tok/s", "K tok/s"), "tokens_per_second"),
    **dict.fromkeys(("samples/s", "samples/sec"), "samples_per_second"),
}
_FILE_NAME = re.compile(r"\.(?:py|cpp|cu|cc|c|h|so|json|yaml|txt)$")


@dataclass(frozen=True)
class Field:
    """One number of a line: which token, the column it goes to, and value × multiply ÷ divide in the unit of the column.

    `column` is a row column (`step_printed`, `epoch`, `timestamp`, `rank`) or a metric; `described` is None for the former.
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
    `open` = lines behind it may add to its record.
    """

    format: str | None
    kind: str
    fields: tuple[Field, ...]
    pattern: str = ""
    per_epoch: bool = False
    weak: bool = False
    open: bool = False

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The columns in the order of the line."""
        return tuple(f.column for f in self.fields)


@dataclass(frozen=True)
class Damage:
    """A line that looks like a record of a format and can not be read as one."""

    format: str | None
    reason: Text


class _Builder:
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

    def result(self) -> tuple[Field, ...]:
        return tuple(self.fields[token] for token in sorted(self.fields))


def declared(line: str, found: list[tokens.Token], form: Form, spans: Mapping[str, tuple[int, int]]) -> Plan | Damage | None:
    """Return the plan of a line that a format declares; `spans` are the character ranges of the pattern's groups."""
    builder = _Builder(form)
    claimed = _claimed(found, spans)
    for token, name in claimed.items():
        if found[token].kind == "stamp" and name != "timestamp":
            return Damage(form.format, Text(N_("{name}: {value} is not a number"), {"name": name, "value": found[token].text}))
        unit = tokens.unit_after(line, found[token])
        builder.metric(token, name, unit, name=name)
    if form.pairs:
        understood = tokens.pairs(line, found)
        if understood.broken:
            return Damage(form.format, Text(N_("{value} is not a number"), {"value": understood.broken}))
        if form.complete and re.search(r"[^\W\d]", understood.tail):
            return Damage(form.format, Text(N_("the line breaks off")))
        for pair in _shared(line, found, understood.pairs):
            if pair.token not in claimed and pair.name is not None and found[pair.token].kind != "stamp":
                _declared_pair(builder, form, pair)
    _stamp(builder, found)
    fields = builder.result()
    if form.complete and any(_twice(f, fields) for f in fields):
        return Damage(form.format, Text(N_("two records in one line")))
    return (
        Plan(form.format, form.kind, fields, form.pattern, form.per_epoch, form.weak, form.open) if _measures(fields) else None
    )


def _twice(one: Field, fields: tuple[Field, ...]) -> bool:
    """Say whether this is a second value of a loss under the very same printed name."""
    first = next((f for f in fields if f.described and one.described and f.described.printed == one.described.printed), one)
    return first is not one and first.described is not None and first.described.role in LOSS_ROLES


def _declared_pair(builder: _Builder, form: Form, pair: tokens.Pair) -> None:
    printed = pair.name or ""
    no_metric = _NO_METRIC.search(printed) or _FILE_NAME.search(printed)
    name = form.names.get(printed, "" if no_metric else printed)
    if name and (pair.explicit or columns.is_known(printed) or printed in form.names):
        builder.metric(pair.token, printed, pair.unit, name=name if printed in form.names else "")


def _shared(line: str, found: list[tokens.Token], pairs: tuple[tokens.Pair, ...]) -> tuple[tokens.Pair, ...]:
    """Return the pairs with names and units for sizes printed as `used/total`: `55GB/80GB`, `55.5/80.0 GB`."""
    result = list(pairs)
    for at, (one, other) in enumerate(zip(pairs, pairs[1:], strict=False)):
        between = line[found[one.token].end : found[other.token].start].strip(" ").removeprefix(one.unit).strip(" ")
        unit = one.unit or other.unit
        if one.name is None or other.name is not None or between != "/" or columns.unit_factor(unit, "B") is None:
            continue
        if columns.resolve(one.name, unit).name == "memory_bytes":
            result[at] = replace(one, unit=unit)
            result[at + 1] = replace(other, name="memory_total", unit=other.unit or unit, explicit=True)
    return tuple(result)


def _claimed(found: list[tokens.Token], spans: Mapping[str, tuple[int, int]]) -> dict[int, str]:
    """Return which token each named group stands for: the one in which the group begins."""
    claimed: dict[int, str] = {}
    for name, (start, end) in spans.items():
        for index, token in enumerate(found):
            if token.kind != "stamp" and token.start <= start < token.end and end <= token.end:
                claimed.setdefault(index, name)
    return claimed


def _stamp(builder: _Builder, found: list[tokens.Token]) -> None:
    for index, token in enumerate(found):
        if token.kind == "stamp":
            builder.position(index, "timestamp")
            return


def _measures(fields: tuple[Field, ...]) -> bool:
    return 0 < len(fields) <= MAX_FIELDS and any(f.described is not None for f in fields)


def undeclared(line: str, found: list[tokens.Token]) -> Plan | Damage | None:
    """Return the plan of a line that no format declares, understood by its `name: number` pairs; None = not a record."""
    understood = tokens.pairs(line, found)
    prefix = _prefix_letters(line, found)
    length = max(1, len(re.sub(r"[\s,;|\-:()\[\]{}\"'=]", "", line)) - prefix)
    sure = max(0.0, 1.0 - max(0, understood.loose - prefix) / length)
    builder = _Builder()
    builder.beside = columns.beside(frozenset(pair.name for pair in understood.pairs if pair.name))
    _first_positions(builder, line, found, understood.pairs)
    _positions(builder, line, found, understood.pairs)
    for pair in _shared(line, found, understood.pairs):
        if found[pair.token].kind == "stamp" or pair.token in {*builder.fields, *builder.used} or pair.name is None:
            continue
        if _is_place_in_source(line, found[pair.token], pair.name) or _NO_METRIC.search(pair.name):
            continue
        if _BY_UNIT.get(pair.unit) and pair.name.lower() in ("time", "speed"):
            continue
        if pair.explicit or columns.is_known(pair.name) or pair.name.islower():
            builder.metric(pair.token, pair.name, pair.unit)
    for pair in understood.pairs:
        name = _BY_UNIT.get(pair.unit) if (pair.name or "time").lower() in ("time", "speed") else None
        if name and name not in builder.taken and pair.token not in builder.used:
            builder.metric(pair.token, pair.name or name, pair.unit, name=name)
    _pace(builder)
    _stamp(builder, found)
    fields = _evaluated(line, found, builder.result())
    if sure < MIN_UNDERSTOOD or not _measures(fields) or not _tells_training(fields):
        return None
    if understood.broken:
        return Damage(None, Text(N_("{value} is not a number"), {"value": understood.broken}))
    return Plan(None, _kind(fields), fields)


def _is_place_in_source(line: str, token: tokens.Token, name: str) -> bool:
    """Say whether a number is that of a line of source code: `train.py:88`, `__main__:train:88`, `(trainer:88)`."""
    if _FILE_NAME.search(name) or _CALLER.search(name):
        return True
    enclosed = line[token.start - 1] == ":" and line[token.end : token.end + 1] in ("]", ")")
    return enclosed and not columns.is_known(name)


def _prefix_letters(line: str, found: list[tokens.Token]) -> int:
    """Return how many letters a logger printed before its message: they say nothing about the message."""
    level = _LEVEL.match(line)
    if level is None:
        return 0
    digits = sum(len(token.text) for token in found if token.end <= level.end())
    if not digits:
        return len(re.sub(" +", " ", level.group().strip(" ,;|\t-:()[]{}\"'=")))
    return max(0, len(re.sub(r"[\s,;|\-:()\[\]{}\"'=]", "", level.group())) - digits)


def _first_positions(builder: _Builder, line: str, found: list[tokens.Token], pairs: tuple[tokens.Pair, ...]) -> None:
    """Find what is sure: the step by its own name beside an iteration, the rank that srun prints, a progress bar."""
    keys = {columns.squash(pair.name): pair for pair in pairs if pair.name}
    step = next((keys[name] for name in _STEP_NAMES if name in keys), None)
    bar = _BAR.search(line)
    if step and (bar or any(name in keys for name in (*_ITER_NAMES, "training_iteration"))):
        builder.position(step.token, "step", step.name or "")
    if bar:
        _of_bar(builder, line, found, bar)
    if found and _RANK.match(line) and pairs[0].name is None and {"step", "iteration", "iter", "epoch"} & set(keys):
        builder.position(0, "rank")


def _of_bar(builder: _Builder, line: str, found: list[tokens.Token], bar: re.Match[str]) -> None:
    """Take the numbers of a progress bar; its steps only where no other name says the step."""
    at = {token.start: index for index, token in enumerate(found)}
    places = {name: at[bar.start(name)] for name in bar.groupdict() if bar[name] is not None and bar.start(name) in at}
    builder.used |= set(places.values())
    if "step" in places and "total" in places and "step_printed" not in builder.taken:
        builder.position(places["step"], "step", "", tokens.unit_after(line, found[places["step"]]))
        builder.bar_total = places["total"]
    builder.bar = places | ({"unit": -(bar["unit"] == "s/it")} if "pace" in places else {})


def _pace(builder: _Builder) -> None:
    """Take clocks and pace of a progress bar, where no name says them."""
    names = {"elapsed_seconds": "elapsed_seconds", "remaining_seconds": "remaining_seconds"}
    names["pace"] = "step_time_seconds" if builder.bar.get("unit") else "steps_per_second"
    for part, name in names.items():
        if part in builder.bar and name not in builder.taken:
            builder.metric(builder.bar[part], name, "", name=name)


def _evaluated(line: str, found: list[tokens.Token], fields: tuple[Field, ...]) -> tuple[Field, ...]:
    """Return the fields with losses and scores as those of an evaluation where the line says in front that it is one."""
    roles = (*LOSS_ROLES, "evaluation")
    measured = [f for f in fields if f.described and (f.described.role in roles or _METRIC_WORD.search(f.column))]
    if not measured or any(f.column.startswith("eval_") for f in fields):
        return fields
    first = found[measured[0].token].start
    head = line[:first].rstrip(" :=").removesuffix(measured[0].described.printed if measured[0].described else "")
    if not _EVAL_LINE.search(head):
        return fields
    renamed = {f.token: f"eval_{f.column}" for f in measured}
    return tuple(
        replace(f, column=renamed[f.token], described=replace(f.described, name=renamed[f.token], role=_eval_role(f.column)))
        if f.token in renamed and f.described
        else f
        for f in fields
    )


def _eval_role(column: str) -> str:
    return "eval_loss" if column == "loss" else "evaluation"


def _positions(builder: _Builder, line: str, found: list[tokens.Token], pairs: tuple[tokens.Pair, ...]) -> None:
    """Find step, epoch and their totals: `Epoch 1/2`, `step 10 of 100`, `Train: [0/50][3/60]`, `Epoch:[1/2](3/100)`."""
    names_epoch = any(pair.name and columns.resolve(pair.name).position == "epoch" for pair in pairs)
    for pair in (pair for pair in pairs if found[pair.token].kind != "stamp" and pair.token not in builder.used):
        meaning = columns.resolve(_EVAL_POSITION.sub("", pair.name)) if pair.name else None
        after = pair.token + 1
        total = (
            after < len(found)
            and found[after].kind != "stamp"
            and bool(_FRACTION.fullmatch(line[found[pair.token].end : found[after].start].removeprefix(pair.unit)))
        )
        if pair.token in builder.fields:
            pass
        elif meaning and meaning.position in ("step", "epoch"):
            builder.position(pair.token, meaning.position, pair.name or "", pair.unit)
        elif (
            pair.name is None
            and total
            and not names_epoch
            and _bracketed(line, found, pair.token)
            and "step_printed" not in builder.taken
        ):
            builder.position(pair.token, "step" if "epoch" in builder.taken else "epoch")
        elif meaning and total and pair.name and pair.name.lower().startswith("train") and "epoch" not in builder.taken:
            builder.position(pair.token, "epoch")
        elif meaning and meaning.position == "rank":
            builder.position(pair.token, "rank")
        if total and pair.token in builder.fields:
            _total(builder, after, builder.fields[pair.token].column, tokens.unit_after(line, found[after]))
    _batch_of_epoch(builder, line, found)
    _lone_step(builder, line, found)
    if builder.bar_total is not None:
        _total(builder, builder.bar_total, "step_printed", tokens.unit_after(line, found[builder.bar_total]))


def _batch_of_epoch(builder: _Builder, line: str, found: list[tokens.Token]) -> None:
    """Take the batch as the step where a line says `Epoch 1, Batch 200` and no step."""
    if "step_printed" in builder.taken or "epoch" not in builder.taken:
        return
    for index, token in enumerate(found):
        if token.kind in ("number", "groups", "value") and _BATCH.search(line[: token.start][-20:]):
            builder.position(index, "step")
            after = index + 1
            if after < len(found) and _FRACTION.fullmatch(line[token.end : found[after].start]):
                _total(builder, after, "step_printed", "")
            return


def _lone_step(builder: _Builder, line: str, found: list[tokens.Token]) -> None:
    """Take `[100/5000]` before all names, or `[100]` behind a logger's prefix, as the step of a line that names none."""
    first = next((index for index, token in enumerate(found) if token.kind != "stamp" and line[token.start - 1] == "["), None)
    if first is None or first in builder.fields or {"step_printed", "epoch"} & builder.taken:
        return
    head, after = line[: found[first].start - 1], first + 1
    total = after < len(found) and bool(_FRACTION.fullmatch(line[found[first].end : found[after].start]))
    if re.match(r"\][\s:]", line[found[first + total].end :]) and (_LOGGER.search(head) or total and not head.strip()):
        builder.position(first, "step")
        if total:
            _total(builder, after, "step_printed", "")


def _bracketed(line: str, found: list[tokens.Token], token: int) -> bool:
    before = line[found[token - 1].end if token else 0 : found[token].start].rstrip(" ")
    if token == 0 or re.fullmatch(r"\s*[\])]\s*[\[(]", before) is None:
        return False
    return found[token - 1].kind != "stamp" or len(_BRACKETS.findall(line)) > 1


def _total(builder: _Builder, token: int, column: str, unit: str) -> None:
    name = {"epoch": "epochs", "step_printed": "steps_per_epoch" if "epoch" in builder.taken else "total_steps"}.get(column)
    if name and name not in builder.taken:
        builder.metric(token, name, unit, name=name)


def _tells_training(fields: tuple[Field, ...]) -> bool:
    """Say whether these columns can be a record of training: a metric, and where it belongs or a second metric."""
    names = {f.column for f in fields}
    metrics = [f for f in fields if f.described and (f.described.role in METRIC_ROLES or _METRIC_WORD.search(f.column))]
    placed = "step_printed" in names or "epoch" in names
    return len(metrics) >= (1 if placed else 2)


def _kind(fields: tuple[Field, ...]) -> str:
    names = {f.column for f in fields}
    evaluates = any(name.startswith("eval_") for name in names)
    trains = any(f.described and f.described.role in LOSS_ROLES for f in fields)
    return "eval" if evaluates and not trains else "train"
