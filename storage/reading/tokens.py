"""One line of text as constant pieces and numbers: its shape, and the names that stand before the numbers.

The shape of a line is the line with every number replaced by a mark and runs of blanks made one. Two lines of one shape
mean the same, so a shape is understood once (`pairs`) and its lines are then read by the thousand (`template`).
A digit that belongs to a word (`mtp_1 loss`, `top5`) is part of the name, never a number; `nan` and `inf` are numbers
only where a value must stand: after `:`, `=` or an arrow, or after a name such as `loss`.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass

from storage.reading import columns

MARK = {"number": "\x01", "value": "\x01", "clock": "\x02", "stamp": "\x03", "groups": "\x04", "days": "\x05", "span": "\x06"}
_DIGITS = r"(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?"
_FREE = r"(?<![A-Za-z0-9_.@])"  # what a number may not touch on its left …
# … except these words: `step100`
_GLUED = r"(?:(?<=\[rank)|(?<=\[default)|(?<=[Ee]poch)|(?<=EPOCH)|(?<=[Ss]tep)|(?<=STEP)|(?<=[Ii]ter))"
_BEFORE_GROUPS = (  # `1,2` alone may be a list
    r"(?:(?<=[:=])|(?<=[0-9]/)|(?<=[0-9] / )|(?<=[:=|A-Za-z\u4e00-\u9fff] )|(?<=[(\[])(?=[0-9,]+ ?/)|(?<=\| )(?=[0-9,]+/))"
)
_WIDE = "(?:[ \u00a0\u202f][0-9]{3})+(?![0-9])"  # `12 000`: a number alone may be two
_SPACED = rf"(?:{_BEFORE_GROUPS}|(?<=[\[(]))[0-9]{{1,3}}{_WIDE}(?= ?/ ?[0-9]{{1,3}}{_WIDE})"
_NOUGHT = "(?:[ \u00a0\u202f]0[0-9]{2}|[ \u00a0\u202f][0-9]{3}(?=[ \u00a0\u202f]0))"
_SPACED_TOTAL = rf"(?:(?<=[0-9]/)|(?<=[0-9] / ))[0-9]{{1,3}}{_NOUGHT}(?:[ \u00a0\u202f][0-9]{{3}})*(?![0-9])"
# `1h21m`, `2m 14s`, `1 hour, 5 minutes`: at least two of days, hours, minutes and seconds, one after the other.
_PART = {
    unit: rf"[0-9]+ ?{word}" for unit, word in (("d", "d(?:ays?)?"), ("h", "h(?:(?:ou)?rs?)?"), ("m", "m(?:in(?:ute)?s?)?"))
}
_PART["s"] = r"[0-9]+(?:\.[0-9]+)? ?s(?:ec(?:ond)?s?)?"
_SPAN = "|".join(
    _PART[first] + "".join(rf"(?:[, ]{{0,2}}{_PART[unit]}){'' if unit == rest[0] else '?'}" for unit in rest)
    for first, rest in (("d", "hms"), ("h", "ms"), ("m", "s"))
)
_CHINESE = "年[0-9]{1,2}月[0-9]{1,2}日 ?[0-9]{1,2}(?::[0-9]{2}:[0-9]{2}|[时点][0-9]{1,2}分[0-9]{1,2}秒)"  # behind the year
_SCAN = re.compile(
    rf"(?P<stamp>{_FREE}[0-9]{{4}}"
    rf"(?:[-/][0-9]{{2}}[-/][0-9]{{2}}[ T][0-9]{{2}}:[0-9]{{2}}:[0-9]{{2}}(?:[.,][0-9]+)?|{_CHINESE}))"
    rf"|(?P<days>{_FREE}[0-9]+ days?,? [0-9]+:[0-9]{{2}}:[0-9]{{2}}(?:\.[0-9]+)?(?![0-9:]))"
    rf"|(?P<clock>(?<![A-Za-z0-9_.])(?<![0-9]:)[0-9]+:[0-9]{{2}}(?::[0-9]{{2}})?(?:\.[0-9]+)?(?![0-9:]))"
    rf"|(?P<span>{_FREE}(?:{_SPAN})(?![A-Za-z0-9]))"
    rf"|(?P<groups>{_BEFORE_GROUPS}[0-9]{{1,3}}(?:,[0-9]{{3}})+(?:\.[0-9]+)?(?![0-9]|[.,][0-9]))"
    rf"|(?P<spaced>{_SPACED}|{_SPACED_TOTAL}|{_FREE}[0-9]{{1,3}}(?:_[0-9]{{3}})+(?![0-9_A-Za-z]))"
    rf"|(?P<number>{_FREE}(?![0-9]+_[A-Za-z])[+-]?{_DIGITS}|{_GLUED}[0-9]+)"
    r"|(?P<nan>(?<![A-Za-z0-9_.+-])[+-]?(?:[nN][aA][nN]|[iI][nN][fF](?:[iI][nN][iI][tT][yY])?)(?![0-9_]))"
)
_NON_FINITE = re.compile(r"[+-]?(?i:nan|inf(?:inity)?)(?![A-Za-z0-9_])")
_VALUE_PLACE = re.compile(r"(?:[:=→(\['\"]|->)\s*$")
_SPACES = re.compile(" +")
_ORDINAL = re.compile(r" ?(?:/ ?[0-9]+ ?)?(轮|步)")  # behind `第 3`
_GLUED_UNIT = re.compile(
    r"(?:[%℃]|/s(?:ec)?(?:/[a-z]+)?(?![\w/])|(?:毫秒|秒)/步|毫秒|秒|分钟|小时|[°µA-Za-z][°A-Za-z]*(?:/[A-Za-z]+)*)"
)
_SPACED_UNIT = re.compile(r" ?(%|℃|°C|[A-Za-zµ]+(?:/[A-Za-z]+){0,2})(?=[\s,;|)\]}]|$)")
_WRAPPER = re.compile(r"(?:[A-Za-z_][\w.]*\()?[\s\"'\[({$]*$")
_IS = re.compile(r" (?:is|was)\s*$")  # `loss is 0.5`
_GROUPED = re.compile(  # `grad_norm={'all': 0.5}`; but `metrics={'acc': 0.5}` says nothing of what is in it
    r"((?!metrics?\b|scores?\b|logs?\b|stats\b)\b[A-Za-z_][\w ]{0,60}\s*[:=]\s*)\{['\"][\w.-]{1,60}['\"]\s*:\s*$"
)
DRAWN = "\u2500-\u25ff\u2800-\u28ff"  # characters that draw bars and lines
_DRAWN = re.compile(rf"(?<=[|\[(])[ #=>.*_~+{DRAWN}-]+(?=[|\])])|[{DRAWN}]+|#{{3,}}|={{4,}}>?|-{{4,}}|[.]{{4,}}|[*]{{3,}}")
_WORDED = re.compile(  # `model="tiny v2"`: a field, no prose; `12.5 s elapsed`: a name
    r"\b[A-Za-z_][\w.]*=\"[^\"]{0,200}\"|^ (?:s )?(?:elapsed|remaining|left)\b"
)
_COMPARISON = re.compile(r"[<>=!+*/-]=$")
_ZONE = r"^\s*(?:UTC|GMT|[A-Z]{1,2}[SD]?T)\b\s+"  # behind the time
_LOGFMT = r"(?<=\w)=(?:\"[^\"]*\"|[^\s\"=]+)\s+"  # `level=info msg="two words" `: a name begins behind it
_LEVELS = r"INFO|DEBUG|WARN(?:ING)?|NOTICE|TRACE|VERBOSE|SUCCESS|ERROR|CRITICAL|FATAL"  # what loggers call a message
# A level stands in front of the message, never in a name: `INFO step=1`, `INFO:root:step=1`; one letter begins the line.
_LEVEL = rf"(?<![\w-])(?:{_LEVELS})(?::[\w.]+:|(?=\s))|^\s*[IWEDF](?=\s)"
_SENTENCE = r"(?<=[a-z]{4})(?<!valid)(?<!train)(?<!test)(?<!eval)\.\s"  # it ends: `done. loss = 2.5`, but `Train. Loss`
_CUTS = re.compile(_ZONE + "|" + _LOGFMT + "|" + _LEVEL + r"|[,;|\t{}\[\]()\n]|\s--?\s|:\s|\s{2,}|>|→|" + _SENTENCE)
_BRACKET = re.compile(r"\s*([(\[])([^()\[\]]{1,20})([)\]])$")
# A word alone between a separator and a number is its name (`| avg50 2.5 |`, `(ce 2.25, z 0.5)`), unless it joins or counts.
_ALONE = re.compile(
    r"(?:^|[|,;()\[\]\t])[ \t]*((?!(?i:at|in|of|to|for|on|by|from|with|per|than|over|about|is|was|and|or|no"
    r"|gpu|node|worker|device|fold|trial|run|part|line|version)\b)[A-Za-z][\w@./-]*) +$"
)
_PART_ENDS = re.compile(r" *(?:[|,;()\[\]\t\n]|$)")
_AT_PLACE = re.compile(  # `Validation loss at step` 300`: 2.5`
    r"(?P<name>[A-Za-z][\w ./-]{0,60}?)(?: \([^()]{1,40}\))? (?:at|after|on) (?P<place>(?i:step|iteration|iter|epoch|batch)) $"
)
_CLOCK_BEHIND = re.compile(r" (?:s )?(elapsed|remaining|left)\b")  # `12.5s elapsed`
_CLOCKS_BEHIND = {"elapsed": "elapsed", "remaining": "remaining", "left": "remaining"}
_PLAIN = str.maketrans("：，；、（）【】［］｜＝％／", ":,;,()[][]|=%/")  # one character for one: places stay the same
_TENSOR = re.compile(r", *(?:device|dtype|grad_fn|requires_grad)=(?:'[^']{0,40}'|<[^>]{0,60}>|[\w.]{1,40})")
_SECONDS = {"d": 86400.0, "h": 3600.0, "m": 60.0, "s": 1.0}
_NULLS = frozenset(("none", "null", "n/a", "na", "-", "--"))


@dataclass(frozen=True)
class Token:
    """A number in a line: where it is, what it looks like (a key of MARK) and its text (`12 000` and `12_000` as `12,000`)."""

    kind: str
    start: int
    end: int
    text: str


def plain(line: str) -> str:
    """Return a line, character for character, with Latin for Chinese punctuation and without what a tensor says of itself."""
    if "tensor(" in line or "Array(" in line or "array(" in line:
        line = _TENSOR.sub(lambda found: " " * len(found[0]), line)
    return line if line.isascii() else line.translate(_PLAIN)


def undrawn(text: str) -> str:
    """Return a text without what progress bars and rulers are drawn with: it says nothing, however wide the terminal was."""
    return _DRAWN.sub("", text)


def tokens(line: str, limit: int = 1024) -> list[Token]:
    """Return the numbers of a line from left to right; `value` marks those that may be printed as nan or inf.

    A line with more than `limit` numbers is no record: it gives none.
    """
    found: list[Token] = []
    last = 0
    for match in _SCAN.finditer(line):
        kind, start, end = match.lastgroup or "", match.start(), match.end()
        if kind in ("nan", "number"):
            bare = bool(found) and found[0].start == 0 and line[last:start].isspace()  # columns without names
            value = (bare or is_value_place(line[last:start])) and _is_value_end(line, end)
            if kind == "nan" and not value:
                continue
            kind = "value" if value else "number"
        text = match.group() if kind != "spaced" else re.sub("[^0-9]", ",", match.group())
        found.append(Token("groups" if kind == "spaced" else kind, start, end, text))
        last = end
        if len(found) > limit:
            return []
    return found


def with_values(line: str, found: list[Token], starts: Iterable[int]) -> list[Token]:
    """Return the tokens with a nan or inf more at each of these places, where a pattern says that a number stands."""
    known = {token.start for token in found}
    more = ((start, _NON_FINITE.match(line, start)) for start in starts if start not in known)
    return sorted([*found, *(Token("value", at, m.end(), m.group()) for at, m in more if m)], key=lambda token: token.start)


def is_value_place(before: str) -> bool:
    """Say whether a value stands after this text: after `:`, `=`, an arrow, or a known name and a blank."""
    tail = _IS.sub(" ", before[-80:])
    if _VALUE_PLACE.search(tail):
        return True
    return (tail.endswith(" ") or "\u4e00" <= tail[-1:] <= "\u9fff") and known_suffix(tail) is not None


def _is_value_end(line: str, end: int) -> bool:
    glued = re.match(r"[A-Za-z]+", line[end : end + 12])
    return glued is None or columns.is_unit(glued.group())


def shape(line: str, found: list[Token]) -> str:
    """Return the line with a mark for each number and one blank for each run of blanks."""
    parts, last = [], 0
    for token in found:
        parts.append(line[last : token.start])
        parts.append(MARK[token.kind] + (_outline(token) if token.kind not in ("number", "value") else ""))
        last = token.end
    parts.append(line[last:])
    return _SPACES.sub(" ", "".join(parts))


def seconds_of(span: str) -> list[float]:
    """Return how many seconds one of each part of `1h 21m` is: 3600 and 60."""
    return [_SECONDS[unit] for unit in re.findall("[0-9] ?([dhms])", span)]


def _outline(token: Token) -> str:
    """Return what must be equal in two clocks, stamps or grouped numbers of one shape: their punctuation."""
    return re.sub("[0-9]+", "", token.text).replace(" ", "_")


@dataclass(frozen=True)
class Pair:
    """A number with its name as printed (None: no name stands before it) and the unit printed after it."""

    token: int
    name: str | None
    unit: str
    explicit: bool  # a `:` or `=` stood between


@dataclass(frozen=True)
class Pairs:
    """The pairs of a line; `loose` = characters that belong to no pair; `broken` = a known name whose value is no number;
    `between` = the text before each number that is no name; `tail` = what stands behind the last number and its unit."""

    pairs: tuple[Pair, ...]
    between: tuple[str, ...]
    loose: int
    broken: str | None
    tail: str


def pairs(line: str, found: list[Token]) -> Pairs:
    """Understand a line as names and numbers."""
    result: list[Pair] = []
    between: list[str] = []  # text before each number that is no name
    last, before, broken = 0, "", None
    for index, token in enumerate(found):
        said, before = before, _without_unit(line[last : token.start], result[-1].unit if result else "")
        unit = unit_after(line, token)
        begins = index == 0 or found[index - 1].kind in ("stamp", "clock")
        name, explicit, rest = _name(before, begins=begins)
        if name is None and before.strip(" ") in (":", "=") and (place := _AT_PLACE.search(said[-120:])):
            start = _segment(place["name"])
            name, explicit, rest = place["name"][start:].strip(), True, ""
            result[-1], between[-1] = Pair(index - 1, place["place"], "", True), place["name"][:start]
        elif name is None:
            name, explicit, rest = _alone(before, _without_unit(line[token.end : token.end + 40], unit)) or (
                name,
                explicit,
                rest,
            )
        if rest.rstrip(" ").endswith("第") and (ordinal := _ORDINAL.match(line, token.end)):
            name, explicit, rest, unit = ordinal[1], True, rest.rstrip(" ")[:-1], ordinal[0].strip()
        problem = _broken(rest) or _damaged(line, token, name, unit)
        broken = broken or problem
        between.append("" if rest.strip(" ") == "/" else undrawn(rest))  # a fraction
        result.append(Pair(index, name, unit, explicit))
        last = token.end
    tail = _without_unit(line[last:], result[-1].unit if result else "")
    loose = sum(len(_SPACES.sub(" ", _WORDED.sub("", text).strip(" ,;|\t-:()[]{}\"'="))) for text in between)
    loose += len(_WORDED.sub("", undrawn(tail)).strip(" ,;|\t-:()[]{}\"'=.\n"))
    return Pairs(tuple(result), tuple(between), loose, broken or _broken(tail, end=True), tail)


def _alone(before: str, behind: str) -> tuple[str, bool, str] | None:
    """Return what `_name` does of a number whose name alone stands in its part of the line, or behind it."""
    if (alone := _ALONE.search(before[-80:])) and _PART_ENDS.match(behind):
        return alone[1], True, before[: len(before) - len(alone[0])]
    if word := _CLOCK_BEHIND.match(behind):
        return _CLOCKS_BEHIND[word[1]], True, before
    return None


def unit_after(line: str, token: Token) -> str:
    """Return the unit printed after a number (`45.2min`, `0 %`, `124.0K tks/s`), else an empty text."""
    after = line[token.end : token.end + 24]
    if glued := _GLUED_UNIT.match(after):
        unit = glued.group()
        spaced = _SPACED_UNIT.match(after[glued.end() :])
        both = f"{unit} {spaced.group(1)}" if spaced else ""
        return both if columns.is_unit(both) else unit
    spaced = _SPACED_UNIT.match(after)
    return spaced.group(1) if spaced and columns.is_unit(spaced.group(1)) and spaced.group(1) not in "mMGKBCTDHSdhs" else ""


def _without_unit(between: str, unit: str) -> str:
    text = between.lstrip(" ")
    return text[len(unit) :] if unit and text.startswith(unit) else between


def _name(before: str, *, begins: bool) -> tuple[str | None, bool, str]:
    """Return (name, whether `:` or `=` stood after it, what is left of the text before the name).

    begins: the text begins the line, a time aside: a letter there may be a level.
    """
    if grouped := _GROUPED.search(before[-400:]):
        before = before[: len(before) - len(grouped[0])] + grouped[1]
    core = _WRAPPER.sub("", before[-400:])
    if core.endswith((":", "=")) and not _COMPARISON.search(core):
        named = core[:-1].rstrip(" \t\"'")
        bracket = _BRACKET.search(named)
        keep = bracket is not None and _is_unit_bracket(bracket.group(2))
        head = named[: bracket.start()] if bracket else named
        start = _segment(head, begins=begins)
        name = (head[start:] + (bracket.group() if bracket and keep else "")).strip(" \"'\t/:")
        return (name or None), True, before[: max(0, len(before) - len(before[-400:]))] + head[:start]
    core = _IS.sub("", core)
    if (suffix := known_suffix(core)) is not None and before != core[: len(core)] + "/":
        return suffix, False, core[: len(core.rstrip()) - len(suffix)]
    return None, False, before


def _is_unit_bracket(text: str) -> bool:
    return columns.is_unit(text.removeprefix("in ")) or "/" in text


def _segment(text: str, *, begins: bool = True) -> int:
    start = 0
    for cut in _CUTS.finditer(text):
        if begins or not cut[0].strip(" ").isalpha() or len(cut[0].strip(" ")) > 1:  # `D loss: 0.5` is no debug message
            start = cut.end()
    return start


_WORD = re.compile(r"(?:[A-Za-z][\w./-]*|[\u4e00-\u9fff][\u4e00-\u9fff_]*)$")


def known_suffix(text: str) -> str | None:
    """Return the longest run of up to three words at the end of a text that is a known name (`train loss`), else None.

    A single word with an underscore counts as a name too: `preference_accuracy 0.5`.
    """
    tail = text.rstrip(" \"'[(")[-80:]
    words: list[str] = []
    best = None
    for _ in range(3):
        match = _WORD.search(tail)
        if match is None:
            break
        words.insert(0, match.group())
        name = " ".join(words)
        if (
            columns.is_known(name)
            or columns.evaluates(name)
            or len(words) == 1
            and re.fullmatch(r"[a-z]+(?:_[a-z0-9]+)+", name)
        ):
            best = name
        tail = tail[: match.start()]
        if not tail.endswith(" "):
            break
        tail = tail.rstrip(" ")
    return best


_FIELD = re.compile(r"([A-Za-z\u4e00-\u9fff][\w /.-]{0,60}?)[\"']?\s*[:=]\s*([^\s,;|:=]*)")


def _broken(text: str, end: bool = False) -> str | None:
    """Return why a text between two pairs is damage: a known name with something that is no number behind it."""
    for match in _FIELD.finditer(text):
        value = match.group(2).strip("\"'[]() ")
        if (
            columns.is_known(match.group(1))
            and value.lower() not in _NULLS
            and (value or end)
            and not value.startswith(("{'", '{"'))
        ):
            return f"{match.group(1).strip()}: {value[:40]}" if value else f"{match.group(1).strip()}:"
    return None


def _damaged(line: str, token: Token, name: str | None, unit: str) -> str | None:
    """Return why a number is not sound: it is followed at once by more of a number, or by letters that are no unit."""
    after = line[token.end : token.end + 1]
    if name is None or token.kind not in ("number", "value") or not columns.is_known(name):
        return None
    listed = line[token.start - 1 : token.start] in ("[", "(")
    if after == "." and line[token.end + 1 : token.end + 2].isspace():  # the end of a sentence
        return None
    if after and (after in ".0123456789_" or after == "," and line[token.end + 1 : token.end + 2].isdigit() and not listed):
        return f"{name}: {line[token.start : token.end + 8].split(' ')[0].rstrip(',')}"
    if unit and after.isalpha() and after.isascii() and not columns.is_unit(unit) and unit not in ("st", "nd", "rd", "th"):
        return f"{name}: {token.text}{unit[:20]}"
    return None
