"""Small pieces of sentences that differ between languages."""

import re
from collections.abc import Iterable

from storage.reading import formats
from storage.types import ParseReport
from ui.text import _

_IDENTIFIER = re.compile(r"[a-z]+[_.][a-z]")  # what a log prints is written as it prints it


def first_up(words: str) -> str:
    """Return words with a capital at the beginning, unless that is a name in a log."""
    return words if _IDENTIFIER.match(words) else words[:1].upper() + words[1:]


def as_sentence(words: str) -> str:
    """Return words as a sentence: a capital at the beginning, a stop at the end."""
    return _("{words}.").format(words=first_up(words)) if words else ""


def joined(parts: Iterable[str]) -> str:
    """Return parts of a sentence one after the other."""
    return _("; ").join(parts)


def format_title(report: ParseReport) -> str:
    """Return what a person calls the format of a log: the title of its format, or of the one for its kind of container."""
    known = formats.load()
    found = known.get(report.format or "") or next((one for one in known.values() if one.kind == report.format), None)
    return _(found.title) if found else _(report.format_title)
