"""Wall: the runs that need attention take turns by the clock."""

import time

from tests.pages.helpers import canonical, take, words


def test_the_sick_take_turns_and_the_healthy_do_not(shop, app, monkeypatch):
    for name, text in (
        ("jump.log", canonical(1000, spike=400)),
        ("other.log", canonical(900, spike=300)),
        ("calm.log", canonical(600)),
    ):
        shop.diagnosis(take(shop, text, name))
    heads = set()
    for second in (0, 10, 20, 30):
        monkeypatch.setattr(time, "time", lambda second=second: 1e9 + second)
        said = words(app("wall"))
        heads |= {name for name in ("jump.log", "other.log", "calm.log") if f'<p class="rv-head">{name}</p>' in said}
    monkeypatch.undo()
    assert heads == {"jump.log", "other.log"}


def test_without_a_run_and_with_none_that_needs_attention(shop, app):
    assert "No run here yet" in words(app("wall"))
    shop.diagnosis(take(shop, canonical(600), "calm.log"))
    test = app("wall")
    assert not test.exception
    assert '<p class="rv-head">calm.log</p>' in words(test)
