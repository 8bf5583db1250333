"""Every page, in both languages, with nothing, one run, an unknown run and a hostile name: no exception, no stack trace."""

import pytest

from tests.pages.helpers import canonical, take, words
from ui.navigation import page_files

PAGES = [page.name for page in page_files()]
NAMES = ["<script>alert(1)</script>", "**bold** $x^2$ :red[a] :material/x:", "a'b\"c\\ \n #h", "🚀 训练 " + "x" * 300]


@pytest.mark.parametrize("language", ["en", "zh_CN"])
@pytest.mark.parametrize("page", PAGES)
def test_a_page_without_any_run_says_what_to_do(shop, app, page, language):
    test = app(page, lang=language)
    assert not test.exception
    assert words(test)


@pytest.mark.parametrize("language", ["en", "zh_CN"])
@pytest.mark.parametrize("page", PAGES)
def test_a_page_with_one_run(shop, app, page, language):
    run = take(shop, canonical(spike=200, nan=120), "a.log")
    test = app(page, lang=language, run=run)
    assert not test.exception


@pytest.mark.parametrize("run", ["ffffffff", "", "'; drop table runs; --", "../../etc/passwd", "x" * 5000])
@pytest.mark.parametrize("page", PAGES)
def test_a_page_with_an_unknown_run_in_the_url(shop, app, page, run):
    take(shop, canonical(), "a.log")
    assert not app(page, run=run).exception


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("page", PAGES)
def test_a_hostile_name_is_shown_as_text(shop, app, page, name):
    run = take(shop, canonical(), "a.log")
    shop.store.rename_run(run, name)
    test = app(page, run=run)
    assert not test.exception
    assert "<script>" not in words(test)


QUERIES = [
    {"smooth": "nan", "log": "maybe", "cut": "7"},
    {"x0": "900", "x1": "5"},
    {"x0": "1e99", "x1": "-5"},
    {"segment": "99", "live": "1", "finding": "999"},
    {"lang": "xx"},
]


@pytest.mark.parametrize("query", QUERIES, ids=str)
@pytest.mark.parametrize("page", PAGES)
def test_nonsense_in_the_url_is_ignored(shop, app, page, query):
    run = take(shop, canonical(), "a.log")
    assert not app(page, run=run, **query).exception
