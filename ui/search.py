"""What is typed over the table of runs: words of the name, and terms such as `is:sick`, `tag:base`, `lr=5e-4`, `loss<2.5`.

All filters are terms of this one text, so the URL and a saved view hold one text.
"""

import re
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from operator import ge, gt, le, lt

from server.board import Line

_TERM = re.compile(r'(?:([^\s:=<>"]+)(:|<=|>=|=|<|>))?("[^"]*"|\S+)')
FIELDS = ("is", "tag", "project")
ATTENTION = ("failed", "sick", "watch")
_ORDERS: dict[str, Callable[[float, float], bool]] = {"<": lt, "<=": le, ">": gt, ">=": ge}


@dataclass(frozen=True)
class Term:
    """One condition: `key` empty for a word of the name, `sign` one of `:`, `=`, `<`, `<=`, `>`, `>=`."""

    key: str
    sign: str
    value: str

    def __str__(self) -> str:
        value = f'"{self.value}"' if " " in self.value or not self.value else self.value
        return f"{self.key}{self.sign}{value}"

    def holds(self, line: Line, tags: Collection[str]) -> bool:
        """Say whether a run satisfies it."""
        wanted = self.value.lower()
        if self.key == "is" and self.sign == ":":
            verdict = line.verdict or "pending"
            return verdict == wanted or (wanted == "attention" and verdict in ATTENTION)
        if self.key == "tag" and self.sign == ":":
            return wanted in {tag.lower() for tag in tags}
        if self.key == "project" and self.sign == ":":
            return line.project.lower() == wanted
        if self.sign in ("", ":"):
            return f"{self.key}{self.sign}{wanted}".lower() in line.run.name.lower()
        return self._measured(line)

    def _measured(self, line: Line) -> bool:
        printed = line.config.get(self.key)
        found = line.last.get(self.key) if printed is None else number(printed)
        asked = number(self.value)
        if found is None or asked is None:
            return self.sign == "=" and printed is not None and printed.lower() == self.value.lower()
        return found == asked if self.sign == "=" else _ORDERS[self.sign](found, asked)


def number(text: str) -> float | None:
    """Return the number that a text is, None where it is none."""
    try:
        return float(text)
    except ValueError:
        return None


def terms(text: str) -> list[Term]:
    """Return the terms of a search text."""
    return [Term(key or "", sign or "", value.strip('"')) for key, sign, value in _TERM.findall(text)]


def found(lines: Iterable[Line], text: str, tags: Mapping[str, Collection[str]]) -> list[Line]:
    """Return the lines that satisfy every term; `tags` by run id."""
    asked = terms(text)
    return [line for line in lines if all(term.holds(line, tags.get(line.run.id, ())) for term in asked)]


def with_term(text: str, term: Term) -> str:
    """Return a search text with a term in the place of one of the same key; without a value that key is free again."""
    others = [one for one in terms(text) if one.key != term.key or not one.key]
    return " ".join(map(str, [*others, term] if term.value else others))


def value_of(text: str, key: str) -> str:
    """Return the value that a search text asks of a key, empty where it asks none."""
    return next((term.value for term in terms(text) if term.key == key and term.sign in (":", "=")), "")
