"""Sentences and numbers in a language that is named: for what leaves the server, and below `ui.text`, which knows the reader's.

The catalogues are read from the .po files when first needed: nothing is compiled, nothing can be stale.
"""

import math
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from string import Formatter
from typing import Any

from babel.messages.pofile import read_po
from babel.numbers import format_decimal, format_scientific

from analysis.findings import Severity, Standing
from messages import N_, Text

LOCALE_DIR = Path(__file__).resolve().parent.parent / "locale"
LANGUAGES = {"en": "English", "zh_CN": "简体中文"}
# What a verdict, a severity and the standing of a cause are called; to be translated.
VERDICTS = {
    "healthy": N_("Healthy"),
    "watch": N_("Watch"),
    "sick": N_("Sick"),
    "failed": N_("Failed"),
    "unreadable": N_("Not understood"),
}
SEVERITIES = {Severity.CRITICAL: N_("Critical"), Severity.WARNING: N_("Warning"), Severity.INFO: N_("Note")}
STANDINGS = {Standing.LIKELY: N_("Likely"), Standing.POSSIBLE: N_("Possible"), Standing.UNLIKELY: N_("Unlikely")}


@lru_cache(maxsize=8)
def catalogue(language: str) -> Mapping[str, Any]:
    """Return message → translation (a tuple of plural forms where the message has a plural); empty for English."""
    path = LOCALE_DIR / language / "LC_MESSAGES" / "runvitals.po"
    if not path.exists():
        return {}
    with path.open("rb") as file:
        messages = read_po(file, locale=language)
    return {m.id if isinstance(m.id, str) else m.id[0]: m.string for m in messages if m.id and m.string and not m.fuzzy}


def load() -> None:
    """Read all catalogues and what Babel knows of the languages, so that no page has to (0.1–0.5 s CPU)."""
    for language in LANGUAGES:
        catalogue(language)
        number(0.5, language)


def translate(message: str, language: str) -> str:
    """Return a message in a language; without a translation it stays English."""
    found = catalogue(language).get(message, message)
    return found if isinstance(found, str) else found[0]


class _Filled(Formatter):
    """Fills gaps; numbers without a format of their own are written as `number` writes them."""

    def __init__(self, language: str) -> None:
        self._language = language

    def format_field(self, value: Any, format_spec: str) -> str:
        if not format_spec and isinstance(value, int | float) and not isinstance(value, bool):
            return number(value, self._language)
        try:
            return str(super().format_field(value, format_spec))
        except (TypeError, ValueError):
            return str(value)


def say(text: Text, language: str) -> str:
    """Return a `Text` in a language. Plain text: escape it where it meets markdown or HTML."""
    template = translate(text.template, language)
    values = {name: say(value, language) if isinstance(value, Text) else value for name, value in text.values.items()}
    return _Filled(language).vformat(template, (), values) if values else template


def number(value: float | None, language: str, *, digits: int = 4) -> str:
    """Return a number with at most `digits` significant digits, thousands separated; tiny and huge ones as 5E-4.

    Whole numbers below 1e15 are written in full. NaN and ±∞ are named; None is a dash.
    """
    if value is None:
        return "–"
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "∞" if value > 0 else "−∞"
    return _decimal(value, digits, language)


@lru_cache(maxsize=1 << 14)
def _decimal(value: float, digits: int, locale: str) -> str:
    """Return a finite number in a language; babel takes 50 µs a number, and a page of comparisons has a thousand."""
    if value == int(value) and abs(value) < 1e15:
        return format_decimal(int(value), locale=locale)
    if abs(value) < 0.01 or abs(value) >= 1e7:
        return scientific(value, digits=min(digits, 4))
    decimals = max(0, digits - 1 - math.floor(math.log10(abs(value))))
    return format_decimal(round(value, decimals), format="#,##0." + "#" * decimals, locale=locale)


def scientific(value: float, *, digits: int = 3) -> str:
    """Return a number as `5e-4`: what people call a learning rate."""
    pattern = "0." + "#" * (digits - 1) + "E0"
    return format_scientific(value, format=pattern, locale="en").replace("E", "e")
