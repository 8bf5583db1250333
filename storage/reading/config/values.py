"""Values of settings as text: numbers, words, lists, nested dicts; lists of `key=value` with brackets and quotes."""

import ast
import json
import math
import re
from collections.abc import Iterator
from typing import Any

Value = str | int | float | bool

MAX_VALUE = 300
MAX_KEY = 120
MAX_DEPTH = 12
MAX_TEXT = 1 << 19  # characters of a literal that is tried
_SUFFIX = {"K": 1e3, "M": 1e6, "B": 1e9, "T": 1e12}
_WORDS: dict[str, Value] = {"true": True, "false": False, "null": "None", "none": "None"}


def value_of(text: str) -> Value:
    """Return a printed setting: a number, True or False, else text without its quotes, cut."""
    text = text.strip().rstrip(",").strip()
    if len(text) >= 2 and text[0] == text[-1] and text[0] in "'\"":
        return text[1:-1][:MAX_VALUE]
    if text.lower() in _WORDS:
        return _WORDS[text.lower()]
    number = text.replace(",", "") if re.fullmatch(r"[+-]?\d{1,3}(?:,\d{3})+(?:\.\d+)?", text) else text
    if re.fullmatch(r"[+-]?\d{1,18}", number):
        return int(number)
    if re.fullmatch(r"[+-]?(?:\d{1,30}\.?\d{0,30}|\.\d{1,30})(?:[eE][+-]?\d{1,3})?", number):
        return float(number)
    return text[:MAX_VALUE]


def scaled(text: str) -> Value:
    """Return a size such as `63.91M`, `1,310,778` or `7B` as a number."""
    found = re.fullmatch(r"(\d[\d,]{0,20}(?:\.\d{1,9})?)\s*([KMBT])?", text.strip())
    if not found:
        return value_of(text)
    number = float(found[1].replace(",", "")) * _SUFFIX.get(found[2] or "", 1.0)
    return round(number) if number.is_integer() or found[2] else number


def literal(text: str) -> Any:
    """Return a JSON or Python literal, None where the text is neither (or too long or too deep)."""
    if len(text) > MAX_TEXT or _depth(text) > MAX_DEPTH:
        return None
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        pass
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError, MemoryError, RecursionError, TypeError):
        return None


def _depth(text: str) -> int:
    depth = deepest = 0
    for char in text:
        if char in "{[(":
            depth += 1
            deepest = max(deepest, depth)
        elif char in "}])":
            depth -= 1
    return deepest


def flat(data: Any, prefix: str = "") -> Iterator[tuple[str, Value]]:
    """Yield (key, value) of nested dicts, keys joined with `/`; lists stay text."""
    for key, item in data.items():
        name = f"{prefix}{key}"[:MAX_KEY]
        if isinstance(item, dict) and item:
            yield from flat(item, f"{name}/")
        elif isinstance(item, bool | int | str):
            yield name, item if not isinstance(item, str) else item[:MAX_VALUE]
        elif isinstance(item, float):
            yield name, item if math.isfinite(item) else str(item)
        elif item is None:
            yield name, "None"
        else:
            yield name, str(item)[:MAX_VALUE]


def split(text: str) -> Iterator[str]:
    """Yield the parts of `a=1, b=[1, 2], c='x, y'` between the commas that stand outside brackets and quotes."""
    depth, quote, start = 0, "", 0
    for place, char in enumerate(text):
        if quote:
            quote = "" if char == quote and text[place - 1] != "\\" else quote
        elif char in "'\"" and (place == 0 or not text[place - 1].isalnum()):
            quote = char
        elif char in "([{<":
            depth += 1
        elif char in ")]}>":
            depth = max(0, depth - 1)
        elif char == "," and depth == 0:
            yield text[start:place]
            start = place + 1
    yield text[start:]


def pairs(text: str) -> Iterator[tuple[str, Value]]:
    """Yield (key, value) of a printed argument list: `lr=0.1, betas=(0.9, 0.95), name='x'`."""
    for part in split(text):
        found = re.match(r"\s*([A-Za-z_][\w.-]{0,119})\s*=\s*(?!=)(.*)$", part, re.S)
        if found:
            yield found[1], value_of(found[2])
