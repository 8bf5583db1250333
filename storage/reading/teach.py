"""Making a format of a team's own from lines of its log: by what was learnt from them, or by a regular expression.

The result is a file as those in formats/: with the lines as its sample, the rows that they give, and a line that it does
not take; it is kept only if it proves itself (`storage.reading.contract`).
"""

import json
import math
import os
import re
from collections.abc import Iterable, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

from messages import N_, Text
from storage.reading import contract, formats, plans, tokens
from storage.reading.fields import CLOCKS, Plan
from storage.reading.formats import BadFormat, LogFormat
from storage.reading.template import ALPHABETS

MAX_PATTERN = 2000  # characters
MAX_SAMPLE = 20_000  # characters of a sample that are kept
DRAFT = "draft"  # the name of a format that is not saved yet
_HIDDEN = ("line", "segment")  # what depends on where a row stands
_CLOCK, _STAMP = r"[0-9]+(?::[0-9]{2}){1,2}(?:\.[0-9]+)?", r"[0-9]{4}[-/][0-9]{2}[-/][0-9]{2}[ T][0-9]{2}:[0-9]{2}:[0-9]{2}"
_OTHER = {"clock": _CLOCK, "stamp": _STAMP + r"(?:[.,][0-9]+)?", "groups": r"[0-9]{1,3}(?:,[0-9]{3})+(?:\.[0-9]+)?"}
_PLACES = ("step_printed", "epoch", "rank", "epochs", "steps_per_epoch", "total_steps")


class NotSaved(ValueError):
    """A format can't be kept; `reasons` say why."""

    def __init__(self, reasons: Iterable[Text]) -> None:
        self.reasons = tuple(reasons)
        super().__init__(" ".join(reason.render() for reason in self.reasons))


def learnt(line: str) -> str | None:
    """Return the pattern of a line that is understood by its names and numbers, None where it is not.

    It reaches to the name of the first value that is measured; from there on names and numbers are read.
    """
    found = tokens.tokens(tokens.plain(line))
    plan = plans.undeclared(tokens.plain(line), found)
    if not isinstance(plan, Plan):
        return None
    columns = {field.token: field.column for field in plan.fields}
    measured = [token for token, column in columns.items() if column not in (*_PLACES, *CLOCKS)]
    parts, last, first = ["^"], 0, min(measured)
    for index, token in enumerate(found[: first + 1]):
        parts.append(_escape(line[last : token.start]))
        parts.append(_number(token.kind, columns.get(index, "")) if index < first else "")
        last = token.end
    return "".join(parts).rstrip("+ ")


def _number(kind: str, column: str) -> str:
    if column in _PLACES and kind in ("number", "value"):
        return f"{{{column.removesuffix('_printed')}}}"
    return _OTHER.get(kind, ALPHABETS[0].value)


def _escape(constant: str) -> str:
    plain = "".join(
        c if c.isalnum() or c in " _" or ord(c) > 126 else f"\\x{{{ord(c):x}}}" if c < " " else "\\" + c for c in constant
    )
    return re.sub(" +", " +", plain)


def draft(patterns: Iterable[str], *, pairs: bool) -> LogFormat:
    """Return a format that is not saved, to try it; raises BadFormat."""
    patterns = list(dict.fromkeys(patterns))
    if any(len(pattern) > MAX_PATTERN for pattern in patterns):
        raise BadFormat(f"longer than {MAX_PATTERN} characters")
    try:
        return formats.parse(DRAFT, "title = 'Draft'\n" + _lines(patterns, pairs))
    except BadFormat as error:
        raise BadFormat(str(error).partition(": ")[2].removeprefix("Invalid regular expression: ")) from error


def propose(name: str, title: str, seen: str, text: str, patterns: Iterable[str], *, pairs: bool) -> str:
    """Return the TOML of a format that reads the lines of `text` by `patterns`; raises NotSaved if that is none."""
    patterns = list(dict.fromkeys(patterns))
    sample = text.strip("\n")[:MAX_SAMPLE] + "\n"
    try:
        with formats.trying(draft(patterns, pairs=pairs)):
            rows, _report = contract.read(sample, DRAFT)
    except BadFormat as error:
        raise NotSaved([Text(N_("The pattern can't be used: {error}"), {"error": str(error)})]) from error
    if not rows:
        raise NotSaved([Text(N_("No line gives a row yet: there is nothing to save."))])
    parts = [f"title = {_value(title.strip())}", f"seen = [{_value(seen.strip())}]", "", _lines(patterns, pairs)]
    parts += ["[[sample]]", f"text = {_value(sample)}", "rows = [", *(f"  {_row(row)}," for row in rows), "]", ""]
    parts += ["[[reject]]", f"text = {_value(_without_numbers(sample.splitlines()[0]))}", ""]
    written = "\n".join(parts)
    faults = list(contract.faults(formats.parse(name, written)))
    if faults:
        raise NotSaved(faults)
    return written


def name_for(title: str) -> str:
    """Return the file name (without its ending) for a title: small letters, digits and dashes, unlike any that is there."""
    base = re.sub(r"[^a-z0-9]+", "-", title.lower()).strip("-")[:40] or "format"
    taken = {*formats.load(), *formats.team()}
    return next(name for name in (base, *(f"{base}-{n}" for n in range(2, len(taken) + 3))) if name not in taken)


def save(folder: Path, name: str, text: str) -> None:
    """Write a format into the team's folder, whole or not at all, and read logs with it from now on."""
    folder.mkdir(parents=True, exist_ok=True)
    new = folder / f".{name}.new"
    with new.open("w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    new.replace(folder / f"{name}.toml")
    formats.use(folder)


def remove(folder: Path, name: str) -> str:
    """Take a format out of the team's folder and return its text, with which `save` brings it back."""
    if name not in formats.team():
        raise KeyError(name)
    path = folder / f"{name}.toml"
    text = path.read_text(encoding="utf-8", errors="replace")
    path.unlink()
    formats.use(folder)
    return text


def _lines(patterns: Iterable[str], pairs: bool) -> str:
    forms = (f'[[line]]\nkind = "train"\npattern = {_value(pattern)}\npairs = {str(pairs).lower()}\n' for pattern in patterns)
    return "\n".join(forms)


def _row(row: Mapping[str, Any]) -> str:
    kept = {key: value for key, value in row.items() if value is not None and key not in _HIDDEN}
    return "{ " + ", ".join(f"{_key(key)} = {_value(value)}" for key, value in kept.items()) + " }"


def _key(name: str) -> str:
    return name if re.fullmatch(r"[A-Za-z0-9_-]+", name) else _value(name)


def _value(value: Any) -> str:
    """Return a value as TOML."""
    if isinstance(value, str):
        return _string(value)
    if isinstance(value, datetime):
        return value.isoformat()
    if isinstance(value, float) and not math.isfinite(value):
        return "nan" if math.isnan(value) else "inf" if value > 0 else "-inf"
    return repr(value)


def _string(text: str) -> str:
    if "\n" in text:
        return '"""\n' + "\n".join(_basic(line)[1:-1] for line in text.split("\n")) + '"""'
    return f"'{text}'" if "\\" in text and "'" not in text and text.isprintable() else _basic(text)


def _basic(text: str) -> str:
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007F")


def _without_numbers(line: str) -> str:
    """Return a line like those of the format that can be no record of it."""
    return re.sub("[0-9]+", "x", line)
