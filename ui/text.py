"""The language of a session: gettext messages from `locale/`, numbers, durations and times as a person writes them."""

import math
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import streamlit as st
from babel.dates import format_datetime, format_timedelta
from babel.numbers import format_percent
from babel.units import format_unit

from messages import Text
from server import words
from server.words import LANGUAGES, catalogue

LANGUAGE_KEY = "lang"  # the bound widget of the sidebar and the parameter in the URL
DAY, HOUR, MINUTE = 86_400, 3_600, 60


def browser_language(locale: str | None) -> str:
    """Return the language nearest to what the browser asks for (`zh`, `zh-CN`, … → `zh_CN`; else English)."""
    return "zh_CN" if (locale or "").lower().startswith("zh") else "en"


def language() -> str:
    """Return the language of this session: chosen in the page, else the browser's."""
    chosen = st.session_state.get(LANGUAGE_KEY)
    return chosen if chosen in LANGUAGES else browser_language(st.context.locale)


def _(message: str) -> str:
    """Translate a message into the language of this session; without a translation it stays English."""
    return words.translate(message, language())


def ngettext(singular: str, plural: str, n: int) -> str:
    """Translate a message that has a plural, and fill `{n}`; further gaps are filled by the caller."""
    found = catalogue(language()).get(singular)
    if isinstance(found, tuple):
        template = found[0] if len(found) == 1 or n == 1 else found[-1]
    else:
        template = singular if n == 1 else plural
    return template.replace("{n}", number(n))


def say(text: Text) -> str:
    """Return a `Text` in the language of this session. Plain text: escape it where it meets markdown or HTML."""
    return words.say(text, language())


def paragraphs(docstring: str) -> list[str]:
    """Return a docstring's paragraphs, each translated as one message."""
    return [_(part) for part in docstring_messages(docstring)]


def docstring_messages(docstring: str) -> list[str]:
    """Return the messages of a docstring: one a paragraph, its lines joined."""
    return [" ".join(part.split()) for part in docstring.strip().split("\n\n") if part.strip()]


def number(value: float | None, *, digits: int = 4) -> str:
    """Return a number in the language of this session, as `server.words` writes them."""
    return words.number(value, language(), digits=digits)


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
