"""What a page does with input that nobody should give: shown as text, never a stack trace."""

from dataclasses import replace

import pytest

from tests.pages.helpers import canonical, take, words
from ui.navigation import page_files

PAGES = [page.name for page in page_files()]
NAME = '<img src=x onerror=alert(1)> **b** `c` $x^2$ :red[y] [l](http://e) 🚀 "q" \' \x1b[31m \u202e .log'


@pytest.mark.parametrize("page", PAGES)
def test_a_hostile_name_is_text_on_every_page(shop, app, page):
    run = take(shop, canonical(), NAME)
    shop.diagnosis(run)
    test = app(page, run=run)
    assert not test.exception
    assert "<img src=x" not in words(test)


@pytest.mark.parametrize("page", PAGES)
@pytest.mark.parametrize("run", ["ffffffff", "../../etc", "' or 1=1 --", "x" * 3000])
def test_an_unknown_run_is_explained_on_every_page(shop, app, page, run):
    take(shop, canonical(), "a.log")
    assert not app(page, run=run).exception


@pytest.mark.parametrize("page", PAGES)
def test_every_page_is_drawn_on_an_empty_store_and_on_one_that_is_read_only(shop, app, page):
    assert not app(page).exception
    run = take(shop, canonical(), "a.log")
    shop.settings = replace(shop.settings, read_only=True)
    assert not app(page, run=run).exception


def test_values_that_no_training_has_are_drawn(shop, app):
    for name, values in (("huge", [1e308] * 60), ("negative", [-3.0 - i / 100 for i in range(60)]), ("nan", ["nan"] * 60)):
        run = take(shop, "\n".join(f"step: {i} loss: {value}" for i, value in enumerate(values, 1)), f"{name}.log")
        for bound in ({}, {"log": True}, {"logx": True}, {"log": True, "logx": True, "cut": False}):
            test = app("health", bound, run=run)
            assert not test.exception


def test_odd_parameters_fall_back(shop, app):
    run = take(shop, canonical(), "a.log")
    odd = {
        "finding": "nope:0:x",
        "line": "99999999999999999999",
        "x": "bogus",
        "range": "nan~inf",
        "m": "a,b,<c>",
        "live": "-1",
    }
    for key, value in odd.items():
        assert not app("health", run=run, **{key: value}).exception
    for page, query in (
        ("overview", {"group": "<x>"}),
        ("findings", {"state": "?", "class": "?", "at": "999"}),
        ("wall", {"every": "0"}),
    ):
        assert not app(page, **query).exception
