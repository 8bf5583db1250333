"""Where a line stands in a run: its step, epoch and rank, what is planned of them, and the clocks of a progress bar."""

import re

from storage.reading import columns, instants, tokens
from storage.reading.fields import Builder

_FRACTION = re.compile(r"\s*(?:/|\bof\b)\s*$")
_RANK = re.compile(r" *[0-9]{1,4}: ")  # srun --label
_OF_RANK = re.compile(r"^(?:train(?:er|ing)?|worker|process|eval|valid)[ _](?=rank$)", re.IGNORECASE)  # never `lora rank`
_BAR = re.compile(  # a progress bar: percent, steps, clocks and pace
    r"(?P<percent>\d+)%\|[^|]*\|\s*(?P<step>\d[\d,.]*)(?:[kKM]?)/(?P<total>\d[\d,.]*)(?:[kKM]?) *\["
    r"(?:(?P<elapsed_seconds>[\d:]+)<(?P<remaining_seconds>[\d:]+)(?:, *(?P<pace>[\d.]+)(?P<unit>s/it|it/s))?)?"
)
_RICH = re.compile(  # the same as Rich draws it, without percent and with a dot between the clocks
    r"(?:(?P<percent>\d+) ?% *)?(?:[\u2500-\u257f]+ *| {2,}(?=\d+/\d+ +[\d:]+ • ))(?P<step>\d+)/(?P<total>\d+) "
    r"(?:(?P<elapsed_seconds>[\d:]+) • (?P<remaining_seconds>[\d:]+) +(?P<pace>[\d.]+)(?P<unit>s/it|it/s))?"
)
_ENDLESS = re.compile(
    r"(?P<step>\d+)it \[(?P<elapsed_seconds>[\d:]+), *(?P<pace>[\d.]+)(?P<unit>s/it|it/s)"
)  # nothing is planned
_INK = tokens.DRAWN
_FILL = rf" #=>.*_~+{_INK}-"
_PLAIN_BAR = re.compile(  # a bar of any program: `[####....] 40/100`, ` 40% |███   | 40/100`
    rf"(?:(?P<percent>\d+(?:\.\d+)?) ?% *)?(?:[|\[(][{_FILL}]{{5,}}[|\])]|[{_INK}](?:[ {_INK}]*[{_INK}])?)"
    r" *(?P<step>\d+)/(?P<total>\d+)(?![\d.])"
)
_BATCH = re.compile(r"(?<![/\w])(?i:(?:mini[-_ ]?)?batch(?:_?idx)?|批次)[ :#=\[(]*$")  # the step of an epoch
_COUNTED = re.compile(r" *(?i:(?:mini-?)?batches|steps|iters|iterations|updates)\b")  # `200/2983 batches`
_TWO_COUNTERS = re.compile(r"\W*\[ *[0-9]+ */ *[0-9]+ *\] *\[ *[0-9]+ */ *[0-9]+ *\]")  # `[0/25][50/1583]`
_LIST = re.compile(r"\W{0,3}\[ *[0-9]+, +[0-9]+\][\s:]")  # `[1,  2000] loss: 2.1`: epoch and step
_BARE_ENDS = re.compile(r" *(?:[|,;:\[(-]|[A-Za-z_]+ *[:=])(?! *[0-9]{1,2}:[0-9]{2})")  # what follows a step, not a date
_OF_TRAINING = re.compile(r"(?i:\btrain(?:ing)?)[\s:]*$")
_STEP_NAMES, _ITER_NAMES = ("global_step", "step", "current_step"), ("iter", "iteration", "micro_step", "batch_idx", "it")
_EVAL_POSITION = re.compile(r"^(?:validat(?:e|ion)|valid|val|eval(?:uation)?|test)[ _]+(?=(?:step|iter|epoch))", re.IGNORECASE)
_BRACKETS = re.compile(r"[\[(] *[0-9]+ */ *[0-9]+ *[\])]")
_LOGGER = re.compile(
    r"(?:\.py:[0-9]+\]|\b(?:INFO|DEBUG|NOTICE)\b[\]:|\s-]*|[0-9]{2}:[0-9]{2}:[0-9]{2}[^A-Za-z\[]{0,8})\s*$"
)  # what a logger prints, at its end


def dates(builder: Builder, line: str, found: list[tokens.Token], pairs: tuple[tokens.Pair, ...]) -> None:
    """Take a number that is an instant as the wall clock, where no date is printed; one named as a date is nothing else."""
    dated = any(token.kind == "stamp" for token in found)
    for pair in pairs:
        token, name = found[pair.token], pair.name
        if token.kind not in ("number", "value") or pair.token in builder.fields:
            continue
        leads = name is None and not pair.token and not line[: token.start].strip(" [(")
        if not leads and not (name and instants.is_clock(name)):
            continue
        meaning = columns.resolve(name or "", pair.unit)
        if instants.is_instant(float(token.text) * meaning.multiply / meaning.divide):
            builder.instant(pair.token, meaning, dated=dated)
        elif meaning.position == "timestamp":
            builder.used.add(pair.token)


def names(builder: Builder, line: str, found: list[tokens.Token], pairs: tuple[tokens.Pair, ...]) -> None:
    """Find what is sure: the step by its own name beside an iteration, the rank that srun prints, a progress bar."""
    keys = {columns.squash(pair.name): pair for pair in pairs if pair.name}
    step = next((keys[name] for name in _STEP_NAMES if name in keys), None)
    bar = _bar(builder, line, found, pairs)
    if step and (bar or any(name in keys for name in (*_ITER_NAMES, "training_iteration"))):
        builder.position(step.token, "step", step.name or "")
    if bar:
        _of_bar(builder, line, found, bar)
    if found and _RANK.match(line) and pairs[0].name is None and {"step", "iteration", "iter", "epoch"} & set(keys):
        builder.position(0, "rank")


def _bar(builder: Builder, line: str, found: list[tokens.Token], pairs: tuple[tokens.Pair, ...]) -> re.Match[str] | None:
    """Return the progress bar of a line; of many that were drawn on one line, the last before the first value."""
    bars = list(_BAR.finditer(line))
    if len(bars) < 2:
        return next(iter(bars), None) or _RICH.search(line) or _PLAIN_BAR.search(line) or _ENDLESS.search(line)
    values = (found[pair.token].start for pair in pairs if pair.name and columns.resolve(pair.name).role)
    first = next((at for at in values if at > bars[0].start()), len(line))
    builder.used |= {i for i, one in enumerate(found) if any(bar.start() <= one.start < bar.end() for bar in bars)}
    return [bar for bar in bars if bar.start() < first][-1]


def _of_bar(builder: Builder, line: str, found: list[tokens.Token], bar: re.Match[str]) -> None:
    """Take the numbers of a progress bar; its steps only where no other name says the step."""
    at = {token.start: index for index, token in enumerate(found)}
    places = {name: at[bar.start(name)] for name in bar.groupdict() if bar[name] is not None and bar.start(name) in at}
    builder.used |= set(places.values())
    endless = "total" not in bar.groupdict()
    if "step" in places and (endless or "total" in places) and "step_printed" not in builder.taken:
        unit = "" if endless else tokens.unit_after(line, found[places["step"]])
        builder.position(places["step"], "step", "", unit)
        builder.bar_total = places.get("total")
    builder.bar = places | ({"unit": -(bar["unit"] == "s/it")} if "pace" in places else {})


def clocks(builder: Builder) -> None:
    """Take clocks and pace of a progress bar, where no name says them."""
    names = {"elapsed_seconds": "elapsed_seconds", "remaining_seconds": "remaining_seconds"}
    names["pace"] = "step_time_seconds" if builder.bar.get("unit") else "steps_per_second"
    for part, name in names.items():
        if part in builder.bar and name not in builder.taken:
            builder.metric(builder.bar[part], name, "", name=name)


def counters(builder: Builder, line: str, found: list[tokens.Token], pairs: tuple[tokens.Pair, ...], *, counted: bool) -> None:
    """Find step, epoch and their totals: `Epoch 1/2`, `step 10 of 100`, `Train: [0/50][3/60]`, `Epoch:[1/2](3/100)`."""
    epochs = [found[pair.token].text for pair in pairs if pair.name and columns.resolve(pair.name).position == "epoch"]
    names_epoch, whole = bool(epochs), any("." not in text for text in epochs)
    for pair in (pair for pair in pairs if found[pair.token].kind != "stamp" and pair.token not in builder.used):
        after = pair.token + 1
        between = line[found[pair.token].end : found[after].start] if after < len(found) else ""
        total = bool(between) and found[after].kind != "stamp" and bool(_FRACTION.fullmatch(between.removeprefix(pair.unit)))
        if pair.token not in builder.fields and (place := _place(builder, line, found, pair, total, names_epoch)):
            builder.position(pair.token, place, pair.name or "" if place in ("step", "epoch") else "", pair.unit)
        if total and pair.token in builder.fields:
            counter = _counter(pair.name or "", whole)
            _total(builder, after, builder.fields[pair.token].column, tokens.unit_after(line, found[after]), counter)
    _batch_of_epoch(builder, line, found)
    _lone_step(builder, line, found, counted=counted)
    if builder.bar_total is not None:
        unit, counter = tokens.unit_after(line, found[builder.bar_total]), "run" if names_epoch and not whole else ""
        _total(builder, builder.bar_total, "step_printed", unit, counter)


def _place(
    builder: Builder, line: str, found: list[tokens.Token], pair: tokens.Pair, total: bool, names_epoch: bool
) -> str | None:
    """Return what a number says of its line's place: `step`, `epoch`, `rank` or nothing; `total` = a fraction."""
    if pair.name is not None:
        place = columns.resolve(_EVAL_POSITION.sub("", _OF_RANK.sub("", pair.name))).position
        if place in ("step", "epoch", "rank"):
            return place
        return "epoch" if total and pair.name.lower().startswith("train") and "epoch" not in builder.taken else None
    if not total or "step_printed" in builder.taken:
        return None
    if _counts(builder, line, found, pair.token):
        return "step"
    first_of_two = pair.token == 0 and _TWO_COUNTERS.match(line)
    return "epoch" if not names_epoch and (first_of_two or _bracketed(line, found, pair.token)) else None


def _counts(builder: Builder, line: str, found: list[tokens.Token], token: int) -> bool:
    """Say whether a fraction without a name counts steps: in brackets behind an epoch, or `200/2983 batches`."""
    behind = _COUNTED.match(line, found[token + 1].end)
    return bool(behind) or "epoch" in builder.taken and _bracketed(line, found, token)


def _batch_of_epoch(builder: Builder, line: str, found: list[tokens.Token]) -> None:
    """Take the batch as the step where a line says `Epoch 1, Batch 200` or `Batch 200 of 1000` and no step."""
    if "step_printed" in builder.taken:
        return
    for index, token in enumerate(found):
        if token.kind in ("number", "groups", "value") and _BATCH.search(line[: token.start][-20:]):
            after = index + 1
            total = after < len(found) and bool(_FRACTION.fullmatch(line[token.end : found[after].start]))
            if total or "epoch" in builder.taken:  # a batch alone may be its size
                builder.position(index, "step")
            if total:
                _total(builder, after, "step_printed", "")
            return


def _lone_step(builder: Builder, line: str, found: list[tokens.Token], *, counted: bool) -> None:
    """Take `[100/5000]` or `[100]` before all names, behind a logger's prefix too, as the step of a line that names none.

    `[100]` with nothing before it only where the log counts so (`counted`); `100/5000` without brackets begins the message.
    """
    if {"step_printed", "epoch"} & builder.taken:
        return
    if _bare_fraction(builder, line, found):
        return
    first = next(
        (i for i, one in enumerate(found) if one.kind != "stamp" and line[: one.start].rstrip(" ").endswith("[")), None
    )
    if first is None or first in builder.fields:
        return
    head, after = line[: found[first].start].rstrip(" ")[:-1], first + 1
    if _LIST.match(line) and after < len(found):
        builder.position(first, "epoch")
        builder.position(after, "step")
        return
    total = after < len(found) and bool(_FRACTION.fullmatch(line[found[first].end : found[after].start]))
    leads = _LOGGER.search(head) or (total or counted) and not head.strip() or total and _OF_TRAINING.search(head)
    if leads and re.match(r" *\](?:[\s:,|\[-]|$)", line[found[first + total].end :]):
        builder.position(first, "step")
        if total:
            _total(builder, after, "step_printed", "")


def _bare_fraction(builder: Builder, line: str, found: list[tokens.Token]) -> bool:
    """Take the `100/5000` with which a message begins as its step: what follows is a value, no word or time."""
    for at, (one, other) in enumerate(zip(found, found[1:], strict=False)):
        head = line[: one.start]
        if one.kind == "stamp" or head.strip() and not _LOGGER.search(head):
            continue
        if line[one.end : other.start].strip(" ") == "/" and _BARE_ENDS.match(line, other.end) and at not in builder.fields:
            builder.position(at, "step")
            _total(builder, at + 1, "step_printed", "")
            return True
        return False
    return False


def _bracketed(line: str, found: list[tokens.Token], token: int) -> bool:
    before = line[found[token - 1].end if token else 0 : found[token].start].rstrip(" ")
    if token == 0 or re.fullmatch(r"\s*[\])]\s*[\[(]", before) is None:
        return False
    return found[token - 1].kind != "stamp" or len(_BRACKETS.findall(line)) > 1


def _counter(name: str, whole_epochs: bool) -> str:
    """Return what the counter of a line counts the steps of: `run`, `either` or, for no name says it, nothing.

    A run whose epoch is printed with a fraction counts its steps through.
    """
    if name.lower().startswith(("global", "total")):
        return "run"
    return ("either" if whole_epochs else "run") if name else ""


def _total(builder: Builder, token: int, column: str, unit: str, counter: str = "") -> None:
    """Take how many there are; beside an epoch a counter without a name counts the steps of the epoch."""
    of_step = {"run": "total_steps", "either": columns.PLANNED}.get(counter, "steps_per_epoch")
    of_step = of_step if counter == "either" or "epoch" in builder.taken else "total_steps"
    name = {"epoch": "epochs", "step_printed": of_step}.get(column)
    if name and name not in builder.taken:
        builder.metric(token, name, unit, name=name)
