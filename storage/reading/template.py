"""The fast way through lines of one shape: check every line with RE2, translate, and let Arrow's CSV reader parse.

A template is made from one line that is understood (`plans`). Its pattern is the constant text of that line with a
number pattern for each number; a line is read only if the whole line fits, so a wrong name or a cut line never passes.
Then every byte that can not belong to a number becomes a comma: the numbers stand in cells whose positions are known.
Where a letter touches a number so that this would be ambiguous, the slower `extract_regex` reads the same lines.
"""

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import cached_property, reduce
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv

from storage.reading.aligned import Layout
from storage.reading.arrays import whole
from storage.reading.decode import content
from storage.reading.fields import Field, Plan
from storage.reading.tokens import Token, plain, seconds_of, tokens

DIGITS = r"(?:[0-9]+\.?[0-9]*|\.[0-9]+)"
EXPONENT = r"(?:[eE][+-]?[0-9]+)?"
NON_FINITE = r"[+-]?(?:[nN][aA][nN]|[iI][nN][fF](?:[iI][nN][iI][tT][yY])?)"
MAX_LINE = 1 << 14  # characters: a longer line is read one by one
_PLAIN = set(b"+-.0123456789")
_SIMPLE = ("number", "value", "clock", "groups")


class Alphabet(NamedTuple):
    """Bytes that may be part of a number, and the pattern of a number and of a value (which may be nan or inf)."""

    letters: bytes
    number: str
    value: str


# From the widest to the narrowest: the widest whose letters touch no number of the line is used.
_EVERY = Alphabet(b"eEnaifNAIFtyTY", rf"[+-]?{DIGITS}{EXPONENT}", rf"(?:[+-]?{DIGITS}{EXPONENT}|{NON_FINITE})")
ALPHABETS = (
    _EVERY,
    Alphabet(b"eE", _EVERY.number, _EVERY.number),
    Alphabet(b"", rf"[+-]?{DIGITS}", rf"[+-]?{DIGITS}"),
)


class Template:
    """Reads the lines of one shape; `plan` says what their numbers mean, `pattern` is what a whole line must fit."""

    def __init__(self, line: str, found: list[Token], plan: Plan) -> None:
        self.plan = plan
        self._tokens = found
        edges = [0, *(edge for token in found for edge in (token.start, token.end)), len(line.rstrip("\n"))]
        self._between = [line[edges[i] : edges[i + 1]] for i in range(0, len(edges), 2)]
        self.safe = (
            len(line) <= MAX_LINE and all(map(_unambiguous, self._between[1:-1])) and _unambiguous(self._between[-1][:1])
        )
        self.pattern = self._pattern(_EVERY)
        self._alphabet = next((a for a in ALPHABETS if self._separable(a)), None)
        self._numbers = [field for field in plan.fields if found[field.token].kind != "stamp"]
        self._stamp = next((f.token for f in plan.fields if f.column == "timestamp" and found[f.token].kind == "stamp"), None)
        self._wanted = [field.token for field in self._numbers] + ([] if self._stamp is None else [self._stamp])

    def match(self, lines: pa.Array) -> pa.Array:
        """Return which lines (each with its line end) have this shape."""
        return pc.match_substring_regex(lines, self.pattern)

    def read(self, lines: pa.Array) -> dict[str, pa.Array]:
        """Return the columns of lines that all match: float64, `timestamp` as timestamp[ms]."""
        columns = self._read_numbers(lines)
        if self._stamp is not None:
            head = self._pattern(_EVERY, self._stamp)
            found = pc.extract_regex(lines, f"{head}(?P<stamp>{_pattern_of(self._tokens[self._stamp], '', _EVERY)})")
            columns["timestamp"] = timestamps(pc.struct_field(found, "stamp"))
        return columns

    def layout(self, line: str) -> Layout | None:
        """Return the layout of a line that matches; None where its numbers can not be read in place."""
        found = tokens(plain(line), 2 * len(self._tokens))
        if [token.kind for token in found] != [token.kind for token in self._tokens]:
            return None
        try:
            return Layout(line, found, self._wanted)
        except ValueError:
            return None

    def columns(self, values: Sequence[np.ndarray]) -> dict[str, pa.Array]:
        """Return the columns, as `read` does, of numbers that a layout of this template read."""
        columns = {f.column: pa.array(_in_unit(value, f)) for f, value in zip(self._numbers, values, strict=False)}
        if self._stamp is not None:
            columns["timestamp"] = pa.array(values[-1].astype(np.int64)).cast(pa.timestamp("ms"))
        return columns

    def _pattern(self, alphabet: Alphabet, stop: int | None = None, wanted: Iterable[int] = ()) -> str:
        """Return the pattern of a line, or of its text before number `stop`, with a group `t<n>` for each wanted number."""
        parts = ["^"]
        for index, constant in enumerate(self._between):
            parts.append(_escape(constant))
            if index == stop:
                return "".join(parts)
            if index < len(self._tokens):
                number = _pattern_of(self._tokens[index], constant, alphabet)
                parts.append(f"(?P<t{index}>{number})" if index in wanted else number)
        return "".join(parts) + r"\n$"

    def _separable(self, alphabet: Alphabet) -> bool:
        """Say whether no number is touched (blanks aside) by a byte that this alphabet keeps, nor by another number."""
        if any(token.kind == "span" for token in self._tokens):  # letters part its numbers
            return False
        kept = _PLAIN | set(alphabet.letters)
        sides = [(part.encode().rstrip(b" ")[-1:], part.encode().lstrip(b" ")[:1]) for part in self._between]
        before, after = [left for left, _ in sides[:-1]], [right for _, right in sides[1:]]
        touching = any(side and side[0] in kept for side in before + after)
        return not touching and all(right for right in after[:-1])

    def _read_numbers(self, lines: pa.Array) -> dict[str, pa.Array]:
        alphabet = self._alphabet
        if alphabet is None:
            return self._extract(lines)
        if alphabet is _EVERY:
            return self._parse(lines)
        plain = pc.match_substring_regex(lines, self._pattern(alphabet))
        if plain.true_count == len(lines):
            return self._parse(lines)
        fast, slow = self._parse(lines.filter(plain)), self._extract(lines.filter(pc.invert(plain)))
        order = np.argsort(np.concatenate((np.flatnonzero(plain), np.flatnonzero(pc.invert(plain)))))
        return {name: pa.concat_arrays([fast[name], slow[name]]).take(pa.array(order)) for name in fast}

    def _parse(self, lines: pa.Array) -> dict[str, pa.Array]:
        if not len(lines):
            return {field.column: pa.array([], pa.float64()) for field in self._numbers}
        table, omitted, cells, width = self._cells
        wanted = dict.fromkeys(f"c{cell}" for field in self._numbers for cell in cells[field.token])
        parsed = pa.csv.read_csv(
            pa.BufferReader(content(lines).translate(table, omitted)),
            read_options=pa.csv.ReadOptions(column_names=[f"c{i}" for i in range(width)], use_threads=False),
            parse_options=pa.csv.ParseOptions(quote_char=False, ignore_empty_lines=False),
            convert_options=pa.csv.ConvertOptions(
                column_types=dict.fromkeys(wanted, pa.float64()), include_columns=list(wanted), null_values=[""]
            ),
        )
        values = {name: whole(parsed.column(name)) for name in wanted}
        return {f.column: self._value(f, [values[f"c{cell}"] for cell in cells[f.token]]) for f in self._numbers}

    def _translation(self, alphabet: Alphabet) -> tuple[bytes, bytes]:
        """Return which byte becomes which, and which are left out: of constant text only what parts two numbers remains."""
        kept = _PLAIN | set(alphabet.letters)
        table = bytes(c if c in kept or c in b" \n" else 44 for c in range(256))
        if any(token.kind not in _SIMPLE for token in self._tokens):
            return table, b""
        parting = {c for token in self._tokens if token.kind in _SEPARATORS for c in token.text.encode() if c not in kept}
        for index, constant in enumerate(self._between):
            text = constant.encode().strip(b" ")
            letters = any(c in kept for c in text)
            if text and index < len(self._tokens):
                parting.add(text[-1])
            if text and index and letters:
                parting.add(text[0])
        return table, bytes(c for c in range(256) if c not in kept and c not in parting and c != 10)

    @cached_property
    def _cells(self) -> tuple[bytes, bytes, list[Sequence[int]], int]:
        """Return the translation, in which cells of a translated line each number stands, and how many cells there are."""
        table, omitted = self._translation(self._alphabet or _EVERY)
        cells: list[Sequence[int]] = []
        at = self._between[0].encode().translate(table, omitted).count(b",")
        for token, constant in zip(self._tokens, self._between[1:], strict=True):
            inside = token.text.encode().translate(table, omitted).count(b",") if token.kind not in ("number", "value") else 0
            every = range(at, at + inside + 1)
            cells.append([every[0], *every[-3:]] if token.kind == "days" else every)
            at += inside + constant.encode().translate(table, omitted).count(b",")
        return table, omitted, cells, at + 1

    def _extract(self, lines: pa.Array) -> dict[str, pa.Array]:
        wanted = {field.token for field in self._numbers}
        found = pc.extract_regex(lines, self._pattern(_EVERY, wanted=wanted))
        result = {}
        for field in self._numbers:
            kind = self._tokens[field.token].kind
            text = _parted(pc.struct_field(found, f"t{field.token}"), kind)
            separator = _SEPARATORS.get(kind)
            parts = _split(text, separator) if separator and len(text) else [text]
            result[field.column] = self._value(field, [part.cast(pa.float64()) for part in parts])
        return result

    def _value(self, field: Field, parts: list[pa.Array]) -> pa.Array:
        token = self._tokens[field.token]
        if token.kind == "span":
            weighted = (pc.multiply(part, weight) for part, weight in zip(parts, seconds_of(token.text), strict=False))
            return scaled(reduce(pc.add, weighted), field)
        return scaled(_JOIN.get(token.kind, lambda one: one[0])(parts), field)


def _in_unit(values: np.ndarray, field: Field) -> np.ndarray:
    values = values * field.multiply if field.multiply != 1 else values
    return values / field.divide if field.divide != 1 else values


def scaled(values: pa.Array, field: Field) -> pa.Array:
    """Return values in the unit of their column."""
    values = pc.multiply(values, field.multiply) if field.multiply != 1 else values
    return pc.divide(values, field.divide) if field.divide != 1 else values


def number(token: Token) -> float:
    """Return what one number says, as the columns of a template would hold it."""
    if token.kind == "span":
        digits = map(float, re.findall(r"[0-9]+(?:\.[0-9]+)?", token.text))
        return sum(part * weight for part, weight in zip(digits, seconds_of(token.text), strict=True))
    parts = [float(part) for part in re.sub(_DAYS, ":", token.text).split(_SEPARATORS.get(token.kind, "\n"))]
    return float(_JOIN_ONE.get(token.kind, lambda one: one[0])(parts))


def timestamps(text: pa.Array) -> pa.Array:
    """Return wall clock texts such as `2023-08-15 14:30:21,5` as timestamp[ms]; an impossible date becomes null."""
    text = _western(text)
    whole = pc.utf8_replace_slice(pc.utf8_slice_codeunits(pc.replace_substring(text, "/", "-"), 0, 19), 10, 11, " ")
    seconds = _seconds(whole)
    fraction = pc.utf8_replace_slice(pc.utf8_slice_codeunits(text, 19, 23), 0, 1, "0.")
    parts = pc.if_else(pc.equal(pc.utf8_length(text), 19), "0", fraction).cast(pa.float64())
    milliseconds = pc.round(pc.multiply(parts, 1000.0)).cast(pa.int64())
    return pc.add(pc.multiply(seconds.cast(pa.int64()), 1000), milliseconds).cast(pa.timestamp("ms"))


def _western(text: pa.Array) -> pa.Array:
    """Return wall clock texts with `2024-03-05 10:22:33` for `2024年3月5日 10:22:33` and `2024年3月5日10时22分33秒`."""
    if not len(text) or "年" not in (text[0].as_py() or ""):
        return text
    spaced = pc.replace_substring_regex(pc.replace_substring_regex(text, "[年月]", "-"), "日 ?", " ")
    parted = pc.replace_substring(pc.replace_substring_regex(spaced, "[时点分]", ":"), "秒", "")
    return pc.replace_substring_regex(parted, r"\b([0-9])\b", r"0\1")


def _seconds(text: pa.Array) -> pa.Array:
    try:
        return text.cast(pa.timestamp("s"))
    except pa.ArrowInvalid:  # an impossible date somewhere: strptime makes 1 March of 30 February, so compare
        form = "%Y-%m-%d %H:%M:%S"
        seconds = pc.strptime(text, format=form, unit="s", error_is_null=True)
        return pc.if_else(pc.equal(pc.strftime(seconds, format=form), text), seconds, None)


def _unambiguous(after: str) -> bool:
    """Say whether the text after a number can not be read as more of it: `5e` before `3`, `12:` before `30`."""
    return after not in (",", ":") and re.match(r"[.eE_0-9]", after) is None


def _escape(constant: str) -> str:
    return re.sub(
        " +", " +", "".join(c if c.isalnum() or c in " _" or ord(c) > 126 or ord(c) < 32 else "\\" + c for c in constant)
    )


def _pattern_of(token: Token, before: str, alphabet: Alphabet) -> str:
    kind, text = token.kind, token.text
    if kind == "value":
        return alphabet.value
    if kind == "number":
        return "[0-9]+" if before[-1:].isascii() and before[-1:].isalnum() else alphabet.number
    if kind == "span":
        return re.sub("[0-9]+", "[0-9]+", _escape(text))
    if kind == "groups":
        return "[0-9]{1,3}" + ",[0-9]{3}" * text.count(",") + (r"\.[0-9]+" if "." in text else "")
    if kind == "days":
        clock = text.split(" ")[-1]
        pattern = re.sub("[0-9]+", "[0-9]+", _escape(text.removesuffix(clock)))
        return pattern + _pattern_of(replace(token, kind="clock", text=clock), before, alphabet)
    if kind == "clock":
        return "[0-9]+" + ":[0-9]{2}" * text.count(":") + (r"\.[0-9]+" if "." in text else "")
    if "年" in text:
        return re.sub("[0-9]+", "[0-9]+", text)
    return re.sub(r"[.,]N+$", lambda end: rf"\{end.group()[0]}N+", re.sub("[0-9]", "N", text)).replace("N", "[0-9]")


def _parted(text: pa.Array, kind: str) -> pa.Array:
    """Return texts with a colon between the numbers of which they consist."""
    if kind != "span":
        return pc.replace_substring_regex(text, _DAYS, ":")
    return pc.replace_substring_regex(pc.replace_substring_regex(text, "[^0-9]+$", ""), "[^0-9.]+", ":")


def _split(text: pa.Array, separator: str) -> list[pa.Array]:
    lists = pc.split_pattern(text, separator)
    return [pc.list_element(lists, i) for i in range(len(lists[0]))]


def _clock(parts: list) -> pa.Array:
    """Return seconds from [hours,] minutes, seconds."""
    total = parts[0]
    for part in parts[1:]:
        total = pc.add(pc.multiply(total, 60.0), part)
    return total


def _groups(parts: list) -> pa.Array:
    """Return the number that was printed in groups of three digits."""
    total = parts[0]
    for part in parts[1:]:
        total = pc.add(pc.multiply(total, 1000.0), part)
    return total


def _days(parts: list) -> pa.Array:
    """Return seconds from days, hours, minutes, seconds."""
    return pc.add(pc.multiply(parts[0], 86400.0), _clock(parts[1:]))


_DAYS = " +days?,? +"
_SEPARATORS = {"clock": ":", "groups": ",", "days": ":", "span": ":"}
_JOIN: dict[str, Callable[[list[pa.Array]], pa.Array]] = {"clock": _clock, "groups": _groups, "days": _days}
_JOIN_ONE: dict[str, Callable[[list[float]], float]] = {
    "clock": lambda parts: sum(part * 60**power for power, part in enumerate(reversed(parts))),
    "days": lambda parts: parts[0] * 86400 + parts[1] * 3600 + parts[2] * 60 + parts[3],
    "groups": lambda parts: reduce(lambda total, part: total * 1000.0 + part, parts),
}
