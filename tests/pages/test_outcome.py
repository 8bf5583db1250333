"""A log that says it is done says on every page how much of its plan that was."""

import pytest

from server.board import Line
from storage.types import Run
from tests.pages.helpers import canonical, take, words
from ui import listing, outcome

WORDS = {"en": "Stopped at 10% of its plan", "zh_CN": "在计划的 10% 处停止"}
BRIEF = {"Stopped at 10%", "在 10% 处停止"}


def run_of(first: int, last: int, total: int | None, rows: int) -> Run:
    return Run("r", "a.log", None, None, None, rows, 1, first, last, total, 0, 0, 1)


@pytest.mark.parametrize("lang", WORDS)
def test_the_same_word_on_every_page(shop, app, lang):
    text = "".join(canonical().splitlines(keepends=True)[:30]) + "Training completed\n"
    run = take(shop, text, "a.log")
    shop.diagnosis(run)
    line: Line = shop.board.lines()[0]
    assert outcome.share(line.run) == pytest.approx(0.1)
    for page in ("health", "cost"):
        test = app(page, run=run, lang=lang)
        assert not test.exception
        assert WORDS[lang] in words(test).replace("\u00a0", " "), page
    assert listing.left(line).replace("\u00a0", " ") in BRIEF


@pytest.mark.parametrize(
    ("run", "word"),
    [
        (run_of(10, 990, 1000, 99), "Done"),
        (run_of(0, 999, 1000, 1000), "Done"),
        (run_of(10, 500, None, 50), "Done"),
        (run_of(10, 900, 1000, 90), "Stopped at 90% of its plan"),
    ],
)
def test_the_last_line_need_not_be_the_last_step(run, word):
    assert outcome.over(run, as_told=True) == word
    assert outcome.over(run, as_told=False) == "Ended"
