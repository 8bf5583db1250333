"""The kinds of events and what shows them, from rules.toml."""

import re
import tomllib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from storage.reading.events import parse

TABLE = Path(__file__).with_name("rules.toml")


@dataclass(frozen=True)
class Rule:
    """A kind of event: what shows it, what must not stand on the same line, and what else is read from the line."""

    kind: str
    shows: re.Pattern[str]
    unless: re.Pattern[str] | None
    parse: Callable[[str, re.Match[str]], dict[str, Any]]


def _rule(entry: dict[str, Any]) -> Rule:
    flags = re.IGNORECASE if entry.get("ignore_case") else 0
    unless = re.compile("|".join(entry["unless"]), flags) if "unless" in entry else None
    return Rule(entry["kind"], re.compile("|".join(entry["shows"]), flags), unless, getattr(parse, entry.get("parse", "named")))


_TABLE = tomllib.loads(TABLE.read_text(encoding="utf-8"))
RULES = tuple(_rule(entry) for entry in _TABLE["rule"])
TRIGGER = "|".join(_TABLE["trigger"])  # RE2
