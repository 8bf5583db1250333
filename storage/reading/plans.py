"""What the numbers of a line mean: a plan, made once for each shape of line, by which thousands of lines are read."""

import re
from collections.abc import Mapping
from dataclasses import replace

from messages import N_, Text
from storage.reading import columns, places, tokens, wrapped
from storage.reading.fields import CLOCKS, INSTANT, Builder, Damage, Field, Form, Plan
from storage.reading.template import number
from storage.types import Column

LOSS_ROLES = ("loss", "main_loss")
METRIC_ROLES = (*LOSS_ROLES, "eval_loss", "rate", "gradient", "rl", "evaluation", "throughput")
MIN_UNDERSTOOD = 0.6  # share of an undeclared line that must be names and numbers: prose and code stay below
MAX_FIELDS = 512
_METRIC_WORD = re.compile(r"loss|(?:^|[_/])(?:acc|accuracy|f1|bleu|rouge|wer|auc|miou|error|perplexity|ppl|bpb|bpc)(?:[_/]|$)")
_NO_METRIC = re.compile(r"(?:^|[ _(])pid$|^v_num$", re.IGNORECASE)  # a process, a version: numbers that measure nothing
_STEP_NAMES, _ITER_NAMES = ("global_step", "step", "current_step"), ("iter", "iteration", "micro_step", "batch_idx", "it")
_EVAL_LINE = re.compile(
    r"(?:^|[\s\[(|>])(?:validat(?:e|ion|ing)|valid|val|eval(?:uat(?:e|ion|ing))?|test(?:ing)?|dev|验证|评估|测试)(?=[\s\])|:>]|$)",
    re.IGNORECASE,
)
_CALLER = re.compile(r"\w:\w|^__\w+__$")  # `__main__:train:88`
_LEVEL = re.compile(  # what a logger prints before the message
    r".{0,200}\b(?:INFO|DEBUG|WARN(?:ING)?|NOTICE|TRACE|SUCCESS)\b(?::[\w.]+(?=:))?[\]:|\s-]*"
    r"|\s*(?:level|lvl|severity)=\"?[A-Za-z]+\"?\s+"
)
_POD = re.compile(r"\[pod/[\w.-]+/[\w.-]+\] |[a-z][\w.]*-[\w.-]*[0-9][\w.-]* [a-z][\w.-]* (?![=:])")  # kubectl, stern
_IN_FRONT = re.compile(  # of a time of the day: a level, a day without its year or in an order that is not told
    r"(?:[0-9]{1,4}: )?\W*(?:[A-Z]{4,8}\W+|[IWEF](?:[0-9]{4})? )?"
    r"(?:(?:[A-Z][a-z]{2},? +){1,2}[0-9]{1,2} +|[0-9]{1,2}[/.-][0-9]{1,2}(?:[/.-][0-9]{2,4})?,? +)?"
)
_LETTER = re.compile(r"[^\W\d_]")
_FRONT_ENDS = re.compile(r"[\]):|>\t-]\s*$")  # what stands in front of a record: `[trainer] `, `main | `
_GOES_ON = re.compile(r"\s*(?:→|->|~|±|\+/-|to\b)")  # `loss 2.5 → low`: the number is not what the line tells
_BY_UNIT = {  # numbers without a name that their unit explains
    **dict.fromkeys(("s/it", "s/step", "s/iter", "ms/it", "ms/step", "ms/iter", "秒/步", "毫秒/步"), "step_time_seconds"),
    **dict.fromkeys(("it/s", "iter/s", "steps/s"), "steps_per_second"),
    **dict.fromkeys(("tok/s", "tokens/s", "k tok/s", "K tok/s"), "tokens_per_second"),
    **dict.fromkeys(("samples/s", "samples/sec"), "samples_per_second"),
}
_PACES = ("time", "speed", "耗时", "用时", "速度")  # names whose unit says more
_OF_NO_EVALUATION = re.compile(r"(?:train|eval|val|test|dev)", re.IGNORECASE)  # it says of what it is
_OPENED = re.compile(r" *\((?=[A-Za-z])")
_FILE_NAME = re.compile(r"\.(?:pyx?|ipynb|cpp|hpp|cuh?|cc|c|h|so|go|rs|jl|java|scala|js|ts|sh|json|yaml|txt)$")


def declared(line: str, found: list[tokens.Token], form: Form, spans: Mapping[str, tuple[int, int]]) -> Plan | Damage | None:
    """Return the plan of a line that a format declares; `spans` are the character ranges of the pattern's groups.

    Words behind its last number may be a name whose number was cut off, or a remark: such a plan is `worded`.
    """
    builder, tailed = Builder(form), False
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
        tailed = form.complete and re.search(r"[^\W\d]", understood.tail) is not None
        places.dates(builder, line, found, understood.pairs)
        for pair in sorted(_shared(line, found, understood.pairs), key=_precedence):
            known = pair.token in claimed or pair.token in builder.used
            if not known and pair.name is not None and found[pair.token].kind != "stamp":
                _declared_pair(builder, form, pair)
    _stamp(builder, line, found)
    fields = builder.result()
    if form.complete and any(_twice(f, fields) for f in fields):
        return Damage(form.format, Text(N_("two records in one line")))
    if not _measures(fields):
        return None
    return Plan(form.format, form.kind, fields, form.pattern, form.per_epoch, form.weak, form.open, worded=tailed)


def _twice(one: Field, fields: tuple[Field, ...]) -> bool:
    """Say whether this is a second value of a loss under the very same printed name."""
    first = next((f for f in fields if f.described and one.described and f.described.printed == one.described.printed), one)
    return first is not one and first.described is not None and first.described.role in LOSS_ROLES


def _precedence(pair: tokens.Pair) -> int:
    """Return what goes before: a column's own name before its aliases, as columns.toml orders them (`loss_avg=3 loss=2`)."""
    return columns.precedence(pair.name or "")


def _declared_pair(builder: Builder, form: Form, pair: tokens.Pair) -> None:
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


def _enclosed(line: str, found: list[tokens.Token], pairs: tuple[tokens.Pair, ...]) -> tuple[tokens.Pair, ...]:
    """Return the pairs with scores in brackets behind an evaluation's loss as its own: `Val Loss: 0.5 (F1: 0.8, Acc: 0.75)`."""
    result, end = list(pairs), 0
    for at, pair in enumerate(pairs):
        opened = _OPENED.match(line, found[pair.token].end)
        if pair.name and opened and columns.resolve(pair.name).role == "eval_loss":
            end = line.find(")", opened.end())
        elif pair.name and found[pair.token].start < end and columns.resolve(pair.name).role not in ("time", "eval_loss"):
            result[at] = replace(pair, name=f"eval {pair.name}")
    return tuple(result)


def _claimed(found: list[tokens.Token], spans: Mapping[str, tuple[int, int]]) -> dict[int, str]:
    """Return which token each named group stands for: the one in which the group begins."""
    claimed: dict[int, str] = {}
    for name, (start, end) in spans.items():
        for index, token in enumerate(found):
            if token.kind != "stamp" and token.start <= start < token.end and end <= token.end:
                claimed.setdefault(index, name)
    return claimed


def _stamp(builder: Builder, line: str, found: list[tokens.Token]) -> None:
    """Take the date and time of a line; a time alone in front of it is `time`, which says nothing of the day."""
    for index, token in enumerate(found):
        if token.kind == "stamp":
            builder.position(index, "timestamp")
            return
    if INSTANT in builder.taken or "time" in builder.taken:
        return
    first = next((i for i, token in enumerate(found) if token.kind == "clock" and token.text.count(":") == 2), None)
    if first is not None and first not in {*builder.fields, *builder.used} and _IN_FRONT.fullmatch(line[: found[first].start]):
        builder.taken.add("time")
        builder.fields[first] = Field(first, "time", described=Column("time", "time", "s"))


def _measures(fields: tuple[Field, ...]) -> bool:
    return 0 < len(fields) <= MAX_FIELDS and any(f.described is not None for f in fields)


def undeclared(line: str, found: list[tokens.Token], *, counted: bool = False) -> Plan | Damage | None:
    """Return the plan of a line that no format declares, understood by its `name: number` pairs; None = not a record.

    counted: a number in brackets in front of the line is the step.
    """
    understood = tokens.pairs(line, found)
    sure = _understood(line, found, understood.loose)
    if sure < MIN_UNDERSTOOD:
        return _worded(line, found, understood, counted=counted)
    builder = Builder()
    builder.beside = columns.beside(frozenset(pair.name for pair in understood.pairs if pair.name))
    places.dates(builder, line, found, understood.pairs)
    places.names(builder, line, found, understood.pairs)
    places.counters(builder, line, found, understood.pairs, counted=counted)
    for pair in sorted(_enclosed(line, found, _shared(line, found, understood.pairs)), key=_precedence):
        if found[pair.token].kind == "stamp" or pair.token in {*builder.fields, *builder.used} or pair.name is None:
            continue
        if _is_place_in_source(line, found[pair.token], pair.name) or _NO_METRIC.search(pair.name):
            continue
        if _BY_UNIT.get(pair.unit) and pair.name.lower() in _PACES:
            continue
        if pair.explicit or columns.is_known(pair.name) or pair.name.islower():
            meaning = builder.beside.get(pair.name) or columns.resolve(pair.name, pair.unit)
            sized = not columns.lacks_unit(meaning, pair.name, number(found[pair.token]))
            builder.metric(pair.token, pair.name, pair.unit, name="" if sized else columns.sanitise(pair.name))
    for pair in understood.pairs:
        name = _BY_UNIT.get(pair.unit) if (pair.name or "time").lower() in _PACES else None
        if name and name not in builder.taken and pair.token not in builder.used:
            builder.metric(pair.token, pair.name or name, pair.unit, name=name)
    places.clocks(builder)
    _stamp(builder, line, found)
    fields = _evaluated(line, found, builder.result())
    alone = _is_loss_alone(fields, sure)
    if not _measures(fields) or not (alone or _tells_training(fields)):
        return None
    if understood.broken:
        return Damage(None, Text(N_("{value} is not a number"), {"value": understood.broken}))
    return Plan(None, _kind(fields), fields, weak=alone)


def _worded(line: str, found: list[tokens.Token], understood: tokens.Pairs, *, counted: bool) -> Plan | Damage | None:
    """Return the plan of the record that a line of words begins with: `step 5 loss 2.5 | queue full, gpu ok`.

    A line of words that names a loss and its step further on is damage: beside records it may be one.
    """
    meanings = [columns.resolve(pair.name) if pair.name else None for pair in understood.pairs]
    losses = [at for at, meaning in enumerate(meanings) if meaning and meaning.role in (*LOSS_ROLES, "eval_loss")]
    steps = [at for at, meaning in enumerate(meanings) if meaning and meaning.position in ("step", "epoch")]
    if not losses:
        return None
    record, count = _record(line, found, understood, min(losses[0], *steps[:1], len(found)))
    plan = undeclared(record, found[:count], counted=counted) if count and record != line else None
    if isinstance(plan, Plan) and _is_placed_loss(plan):
        return replace(plan, fields=_stamped(plan.fields, found), worded=True)
    trains = any(meaning and meaning.role in LOSS_ROLES for meaning in meanings)
    return Damage(None, Text(N_("a loss among words")), worded=True) if trains and steps else None


def _record(line: str, found: list[tokens.Token], understood: tokens.Pairs, first: int) -> tuple[str, int]:
    """Return the line without the words behind its record, and how many numbers that has, 0 = it is none.

    first: the first number of the record that says what it is.
    """
    before, name = understood.between[first], understood.pairs[first].name or ""
    front = line[: max(0, line.rfind(name, 0, found[first].start))]
    quote = '"' if wrapped.written(line) is not None else ""
    apart = _FRONT_ENDS.search(before) or quote and before.endswith(quote) or _LEVEL.match(front)
    if _LETTER.search(before) and not apart:
        return line, 0
    rest = range(first + 1, len(found))
    count = next((at for at in rest if _LETTER.search(understood.between[at])), len(found))
    end, unit = found[count - 1].end, understood.pairs[count - 1].unit
    end = max(end, line.find(unit, end, end + len(unit) + 1) + len(unit))
    return line[:end] + quote, 0 if _GOES_ON.match(line, end) else count


def _stamped(fields: tuple[Field, ...], found: list[tokens.Token]) -> tuple[Field, ...]:
    """Return the fields with the date and time that stands behind the words, where none stands before them."""
    at = next((at for at, token in enumerate(found) if token.kind == "stamp"), None)
    known = at is None or "timestamp" in {f.column for f in fields}
    return fields if known or at is None else (*fields, Field(at, "timestamp"))


def _is_placed_loss(plan: Plan) -> bool:
    """Say whether a record has a loss, of the training or of an evaluation, and says where it belongs."""
    roles = {f.described.role for f in plan.fields if f.described}
    return bool({"step_printed", "epoch"} & set(plan.names)) and bool({*LOSS_ROLES, "eval_loss"} & roles)


def _is_place_in_source(line: str, token: tokens.Token, name: str) -> bool:
    """Say whether a number is that of a line of source code: `train.py:88`, `__main__:train:88`, `(trainer:88)`."""
    if _FILE_NAME.search(name) or _CALLER.search(name):
        return True
    enclosed = line[token.start - 1] == ":" and line[token.end : token.end + 1] in ("]", ")")
    return enclosed and not columns.is_known(name)


def _understood(line: str, found: list[tokens.Token], loose: int) -> float:
    """Return the share of a line that is names and numbers, of the message alone where a collector wrapped it in JSON."""
    if (message := wrapped.written(line)) is not None:
        found = tokens.tokens(message)
        return _understood(message, found, tokens.pairs(message, found).loose)
    prefix = _prefix_letters(line, found)
    length = max(1, len(re.sub(r"[\s,;|\-:()\[\]{}\"'=]", "", tokens.undrawn(line))) - prefix)
    return max(0.0, 1.0 - max(0, loose - prefix) / length)


def _prefix_letters(line: str, found: list[tokens.Token]) -> int:
    """Return how many letters a logger or a cluster printed before the message: they say nothing about the message."""
    pod, level = _POD.match(line), _LEVEL.match(line)
    end = max(pod.end() if pod else 0, level.end() if level else 0)
    digits = sum(len(token.text) for token in found if token.end <= end)
    if level and not pod and not digits:
        return len(re.sub(" +", " ", level.group().strip(" ,;|\t-:()[]{}\"'=")))
    return max(0, len(re.sub(r"[\s,;|\-:()\[\]{}\"'=]", "", line[:end])) - digits)


def _evaluated(line: str, found: list[tokens.Token], fields: tuple[Field, ...]) -> tuple[Field, ...]:
    """Return the fields with losses and scores as those of an evaluation where the line says in front that it is one.

    Beside the loss of an evaluation, where the line has no other loss, every score is its own: `val loss 2.5, ppl 12.25`.
    """
    roles = (*LOSS_ROLES, "evaluation")
    measured = [f for f in fields if f.described and (f.described.role in roles or _METRIC_WORD.search(f.column))]
    if not measured:
        return fields
    first = measured[0]
    if any(f.column.startswith("eval_") for f in fields):
        columns_of = {f.column for f in fields}
        alone = "eval_loss" in columns_of and not columns_of & {"loss", "logits_loss"}
        measured = [f for f in measured if alone and not _OF_NO_EVALUATION.match(f.described.printed if f.described else "")]
    else:
        head = line[: found[first.token].start].rstrip(" :=").removesuffix(first.described.printed if first.described else "")
        measured = measured if _EVAL_LINE.search(head) else []
    renamed = {f.token: f"eval_{f.column}" for f in measured}
    return tuple(
        replace(f, column=renamed[f.token], described=replace(f.described, name=renamed[f.token], role=_eval_role(f.column)))
        if f.token in renamed and f.described
        else f
        for f in fields
    )


def _eval_role(column: str) -> str:
    return "eval_loss" if column == "loss" else "evaluation"


def _tells_training(fields: tuple[Field, ...]) -> bool:
    """Say whether these columns can be a record of training: a metric, and where it belongs or a second metric."""
    names = {f.column for f in fields}
    metrics = [f for f in fields if f.described and (f.described.role in METRIC_ROLES or _METRIC_WORD.search(f.column))]
    placed = "step_printed" in names or "epoch" in names
    return len(metrics) >= (1 if placed else 2)


def _is_loss_alone(fields: tuple[Field, ...], sure: float) -> bool:
    """Say whether a line prints a loss, of the training or of an evaluation, and nothing else, a clock aside."""
    measured = [f for f in fields if f.column not in CLOCKS]
    described = measured[0].described if len(measured) == 1 else None
    return sure == 1 and described is not None and described.role in (*LOSS_ROLES, "eval_loss")


def _kind(fields: tuple[Field, ...]) -> str:
    names = {f.column for f in fields}
    evaluates = any(name.startswith("eval_") for name in names)
    trains = any(f.described and f.described.role in LOSS_ROLES for f in fields)
    return "eval" if evaluates and not trains else "train"
