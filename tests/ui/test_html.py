"""Whatever a log or a name holds is shown as text and never acts."""

from pathlib import Path

import pytest

from ui import html

HOSTILE = ["<script>alert(1)</script>", '"><img src=x onerror=alert(1)>', "' onmouseover='x", "a\x00b\x1b[31m", "&lt;"]


@pytest.mark.parametrize("text", HOSTILE)
def test_html_is_escaped(text):
    for written in (html.escape(text), html.figure(text, text, text, title=text), html.log_lines([text], 1, range(0))):
        inner = written.replace("<script>", "SCRIPT") if "<script>" in written else written
        assert "SCRIPT" not in inner
        assert "<img" not in inner
        assert "\x00" not in inner
        assert "\x1b" not in inner


@pytest.mark.parametrize("text", ["**bold** _x_", "$x^2$", ":red[boo]", ":material/x:", "[a](http://b)", "# h\n- b", "<b>"])
def test_markdown_is_escaped(text):
    written = html.escape_markdown(text)
    assert "\n" not in written
    for sign in "*_$:[]()<>#":
        assert all(written[i - 1] == "\\" for i, c in enumerate(written) if c == sign)


def test_attributes_are_escaped_and_empty_ones_left_out():
    assert html.tag("i", "x", title='"a"') == '<i title="&quot;a&quot;">x</i>'
    assert html.tag("i", "x", title="") == "<i>x</i>"


def test_lines_of_a_log_bear_their_numbers():
    written = html.log_lines(["one", ""], 41, range(42, 43))
    assert '<li value="41">one</li>' in written
    assert '<li class="rv-marked" value="42">&nbsp;</li>' in written


@pytest.mark.parametrize(("share", "width"), [(-1, "0.0%"), (0.475, "47.5%"), (7, "100.0%")])
def test_a_bar_stays_within_its_frame(share, width):
    assert f"width:{width}" in html.bar(share)


@pytest.mark.parametrize("name", ["golden_parts", "corpus", "handbook"])
def test_tables_of_a_page_can_be_moved_and_show_that_they_can(name: str) -> None:
    source = (Path(html.__file__).parent / f"{name}.py").read_text(encoding="utf-8")
    assert 'tag("table"' not in source
    assert "html.grid(" in source
    assert html.grid("").startswith('<div class="rv-scroll" tabindex="0"><table class="rv-table">')
