"""Every page, in both languages, with nothing, one run, an unknown run and a hostile name: no exception, no stack trace."""

import ast
from pathlib import Path

import pytest
import streamlit as st

from tests.pages.helpers import canonical, take, words
from ui import state
from ui.navigation import page_files

ROOT = Path(__file__).parents[2]
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


FIELDS = {"text_input", "text_area", "number_input", "selectbox", "multiselect", "checkbox", "toggle", "slider", "radio"}


def typed(function: ast.AST) -> set[str]:
    """Return the names that a function gives to what a field holds."""
    fields = [one for one in ast.walk(function) if isinstance(one, ast.Assign) and isinstance(one.value, ast.Call)]
    return {
        target.id
        for one in fields
        if isinstance(one.value.func, ast.Attribute) and one.value.func.attr in FIELDS
        for target in one.targets
        if isinstance(target, ast.Name)
    }


@pytest.mark.parametrize("path", sorted([*ROOT.glob("pages/*.py"), *ROOT.glob("ui/*.py")]), ids=lambda path: path.name)
def test_what_was_typed_is_no_argument_of_a_callback(path):
    """Who types and clicks at once would get the text of the run of the page before: a callback reads the field itself."""
    for function in ast.walk(ast.parse(path.read_text())):
        if isinstance(function, ast.FunctionDef):
            given = [
                word.value
                for call in ast.walk(function)
                if isinstance(call, ast.Call)
                for word in call.keywords
                if word.arg in ("args", "kwargs")
            ]
            passed = {name.id for value in given for name in ast.walk(value) if isinstance(name, ast.Name)}
            assert not passed & typed(function), f"{path.name}: {function.name}"


def test_the_menu_keeps_the_run_of_a_page_that_was_left_before_it_was_drawn(shop, app, monkeypatch):
    sick, calm = take(shop, canonical(spike=200), "sick.log"), take(shop, canonical(500), "calm.log")
    listed = [line.run.id for line in shop.board.lines()]
    other = listed[-1]  # not the one that a page shows unasked
    assert {sick, calm} == set(listed)
    with monkeypatch.context() as hurry:
        hurry.setattr(state, "pick_run", st.stop)
        test = app("health", run=other)
    test.query_params.clear()
    test.switch_page("pages/cost.py").run()
    assert test.query_params["run"] == other


@pytest.mark.parametrize("path", sorted([*ROOT.glob("pages/*.py"), *ROOT.glob("ui/*.py")]), ids=lambda path: path.name)
def test_only_one_function_leads_to_a_run(path):
    """`state.open_run` remembers the run before the page that would do so can be cut off."""
    calls = [one for one in ast.walk(ast.parse(path.read_text())) if isinstance(one, ast.Call)]
    leads = [
        one for one in calls if ast.unparse(one.func) == "st.switch_page" and "pages/health.py" in ast.unparse(one.args[0])
    ]
    assert not leads or path.name == "state.py"
