"""Numbers, durations and sentences as a person reads them, in both languages."""

from datetime import UTC, datetime, timedelta

import pytest

from messages import Text
from ui import text
from ui.words import first_up


@pytest.fixture
def speak(monkeypatch):
    return lambda language: monkeypatch.setattr(text, "language", lambda: language)


@pytest.mark.parametrize(
    ("value", "written"),
    [
        (None, "–"),
        (float("nan"), "NaN"),
        (float("-inf"), "−∞"),
        (0, "0"),
        (39695, "39,695"),
        (2.44612, "2.446"),
        (1234.56, "1,235"),
        (0.0005, "5e-4"),
        (-3.2, "-3.2"),
        (1e308, "1e308"),
        (10**15, "1e15"),
    ],
)
def test_a_number_has_four_digits_and_thousands_separated(speak, value, written):
    speak("en")
    assert text.number(value) == written


@pytest.mark.parametrize(
    ("seconds", "english", "chinese"),
    [
        (48, "48 sec", "48秒"),
        (19 * 60, "19 min", "19分钟"),
        (2 * 3600 + 600, "2 hr 10 min", "2小时 10分钟"),
        (36 * 3600, "1 day 12 hr", "1天 12小时"),
        (30 * 86_400, "30 days", "30天"),
        (-5, "0 sec", "0秒"),
    ],
)
def test_a_duration_has_its_one_or_two_largest_units(speak, seconds, english, chinese):
    speak("en")
    assert text.duration(seconds) == english
    speak("zh_CN")
    assert text.duration(seconds) == chinese


def test_how_long_ago_is_relative(speak):
    now = datetime(2026, 1, 1, tzinfo=UTC)
    speak("en")
    assert text.ago(now - timedelta(minutes=4), now) == "4 minutes ago"
    assert text.ago(now + timedelta(hours=1), now) == "1 second ago"  # a clock that runs ahead
    speak("zh_CN")
    assert text.ago(now.replace(tzinfo=None) - timedelta(minutes=4), now) == "4分钟前"


def test_a_sentence_fills_its_gaps_with_written_numbers(speak):
    speak("en")
    assert text.say(Text("{count} rows, {ratio:.1f} times", {"count": 12345, "ratio": 2.345})) == "12,345 rows, 2.3 times"
    assert text.say(Text("{place:,} is text", {"place": "row 3"})) == "row 3 is text"


@pytest.mark.parametrize(("locale", "chosen"), [("zh-CN", "zh_CN"), ("zh", "zh_CN"), ("de-DE", "en"), (None, "en")])
def test_the_browser_chooses_the_language(locale, chosen):
    assert text.browser_language(locale) == chosen


def test_a_plural_follows_the_language(speak):
    speak("en")
    assert text.ngettext("{n} row read", "{n} rows read", 1) == "1 row read"
    assert text.ngettext("{n} row read", "{n} rows read", 1200) == "1,200 rows read"
    speak("zh_CN")
    assert "1,200" in text.ngettext("{n} row read", "{n} rows read", 1200)
    assert "row" not in text.ngettext("{n} row read", "{n} rows read", 1)


@pytest.mark.parametrize("value", [1e300, -1e300, float("nan"), float("inf"), 0.0, 1e-320])
def test_absurd_values_have_a_form_too(speak, value):
    speak("en")
    assert text.percent(value).endswith("%")
    assert text.number(value)
    assert text.duration(value)


def test_a_gap_may_hold_a_text_that_is_translated_itself(speak):
    speak("en")
    inner = Text("Loss {value}", {"value": 0.5})
    outer = Text("{what} differs", {"what": inner})
    assert text.say(outer) == "Loss 0.5 differs"
    assert Text.from_dict(outer.to_dict()) == outer
    assert outer.to_dict()["text"] == "Loss 0.5 differs"


@pytest.mark.parametrize(
    ("words", "written"),
    [
        ("the course of epoch_time", "The course of epoch_time"),
        ("epoch_time 的走势", "epoch_time 的走势"),
        ("grad_norm is not printed", "grad_norm is not printed"),
        ("", ""),
    ],
)
def test_a_sentence_begins_with_a_capital_but_for_names_in_a_log(words, written):
    assert first_up(words) == written
