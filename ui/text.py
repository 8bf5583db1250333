"""The language of a session: gettext messages from `locale/`, numbers, durations and times as a person writes them.

The catalogues are read from the .po files when first needed: nothing is compiled, nothing can be stale.
"""

import math
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from pathlib import Path
from string import Formatter
from typing import Any
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import streamlit as st
from babel.dates import format_datetime, format_timedelta
from babel.messages.pofile import read_po
from babel.numbers import format_decimal, format_percent, format_scientific
from babel.units import format_unit

from messages import Text

LOCALE_DIR = Path(__file__).resolve().parent.parent / "locale"
LANGUAGES = {"en": "English", "zh_CN": "简体中文"}
LANGUAGE_KEY = "lang"  # the bound widget of the sidebar and the parameter in the URL
DAY, HOUR, MINUTE = 86_400, 3_600, 60


@lru_cache(maxsize=8)
def catalogue(language: str) -> Mapping[str, Any]:
    """Return message → translation (a tuple of plural forms where the message has a plural); empty for English."""
    path = LOCALE_DIR / language / "LC_MESSAGES" / "runvitals.po"
    if not path.exists():
        return {}
    with path.open("rb") as file:
        messages = read_po(file, locale=language)
    return {m.id if isinstance(m.id, str) else m.id[0]: m.string for m in messages if m.id and m.string and not m.fuzzy}


def browser_language(locale: str | None) -> str:
    """Return the language nearest to what the browser asks for (`zh`, `zh-CN`, … → `zh_CN`; else English)."""
    return "zh_CN" if (locale or "").lower().startswith("zh") else "en"


def language() -> str:
    """Return the language of this session: chosen in the page, else the browser's."""
    chosen = st.session_state.get(LANGUAGE_KEY)
    return chosen if chosen in LANGUAGES else browser_language(st.context.locale)


def _(message: str) -> str:
    """Translate a message into the language of this session; without a translation it stays English."""
    found = catalogue(language()).get(message, message)
    return found if isinstance(found, str) else found[0]


def ngettext(singular: str, plural: str, n: int) -> str:
    """Translate a message that has a plural, and fill `{n}`; further gaps are filled by the caller."""
    found = catalogue(language()).get(singular)
    if isinstance(found, tuple):
        template = found[0] if len(found) == 1 or n == 1 else found[-1]
    else:
        template = singular if n == 1 else plural
    return template.replace("{n}", number(n))


class _Filled(Formatter):
    """Fills gaps; numbers without a format of their own are written as `number` writes them."""

    def format_field(self, value: Any, format_spec: str) -> str:
        if not format_spec and isinstance(value, int | float) and not isinstance(value, bool):
            return number(value)
        try:
            return str(super().format_field(value, format_spec))
        except (TypeError, ValueError):
            return str(value)


def say(text: Text) -> str:
    """Return a `Text` in the language of this session. Plain text: escape it where it meets markdown or HTML."""
    template = _(text.template)
    values = {name: say(value) if isinstance(value, Text) else value for name, value in text.values.items()}
    return _Filled().vformat(template, (), values) if values else template


def paragraphs(docstring: str) -> list[str]:
    """Return a docstring's paragraphs, each translated as one message."""
    return [_(part) for part in docstring_messages(docstring)]


def docstring_messages(docstring: str) -> list[str]:
    """Return the messages of a docstring: one a paragraph, its lines joined."""
    return [" ".join(part.split()) for part in docstring.strip().split("\n\n") if part.strip()]


def number(value: float | None, *, digits: int = 4) -> str:
    """Return a number with at most `digits` significant digits, thousands separated; tiny and huge ones as 5E-4.

    Whole numbers below 1e15 are written in full. NaN and ±∞ are named; None is a dash.
    """
    if value is None:
        return "–"
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "∞" if value > 0 else "−∞"
    return _decimal(value, digits, language())


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


def percent(fraction: float, *, digits: int = 0) -> str:
    """Return a fraction as a percentage with at most `digits` decimals."""
    if not math.isfinite(fraction) or abs(fraction) >= 1e6:
        return f"{number(fraction * 100)}%"
    return format_percent(fraction, format="#,##0" + ("." + "#" * digits if digits else "") + "%", locale=language())


def size_words(size: int) -> str:
    """Return a number of bytes as a person says it."""
    for unit, limit in (("B", 1 << 10), ("KiB", 1 << 20), ("MiB", 1 << 30)):
        if size < limit:
            return f"{number(size / (limit >> 10), digits=3)} {unit}"
    return f"{number(size / (1 << 30), digits=3)} GiB"


def duration(seconds: float) -> str:
    """Return a duration in its largest one or two units: `48 sec`, `19 min`, `2 hr 10 min`, `3 days 4 hr`.

    A dash for what is no duration: not finite, or beyond 3,000 years.
    """
    if not math.isfinite(seconds) or seconds > 1e11:
        return "–"
    whole = max(0, round(seconds))
    if whole < MINUTE:
        return _unit(whole, "second")
    if whole < 10 * HOUR:
        hours, minutes = divmod(round(whole / MINUTE), 60)
        return " ".join([_unit(hours, "hour")] * (hours > 0) + [_unit(minutes, "minute")] * (minutes > 0))
    days, hours = divmod(round(whole / HOUR), 24)
    return " ".join([_unit(days, "day")] * (days > 0) + [_unit(hours, "hour")] * (hours > 0 and days < 10))


def _unit(value: int, unit: str) -> str:
    return format_unit(value, f"duration-{unit}", length="short", locale=language())


def ago(moment: datetime, now: datetime | None = None) -> str:
    """Return how long ago a UTC moment was: `4 seconds ago`."""
    delta = as_utc(moment) - (now or datetime.now(UTC))
    return format_timedelta(min(delta, timedelta(seconds=-1)), add_direction=True, threshold=1.2, locale=language())


def ago_seconds(seconds: float) -> str:
    """Return how long ago something was, as `ago` does; told for thousands of rows at once."""
    unit = next((unit for unit in (DAY, HOUR, MINUTE) if seconds >= unit), 1)
    return _ago(round(seconds / unit) * unit, language())


@lru_cache(maxsize=4096)
def _ago(seconds: int, locale: str) -> str:
    return format_timedelta(timedelta(seconds=-max(1, seconds)), add_direction=True, threshold=1.2, locale=locale)


def moment(when: datetime) -> str:
    """Return a UTC moment in the reader's time zone: date and time to the minute."""
    return format_datetime(local(when), "medium", locale=language())


def local(when: datetime) -> datetime:
    """Return a UTC moment in the reader's time zone."""
    try:
        zone = ZoneInfo(st.context.timezone or "UTC")
    except (ZoneInfoNotFoundError, ValueError):
        zone = ZoneInfo("UTC")
    return as_utc(when).astimezone(zone)


def as_utc(moment: datetime) -> datetime:
    """Return a moment with its zone; one without is UTC, as the store keeps it."""
    return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment
