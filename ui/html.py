"""Small pieces of HTML and markdown in which any text may stand: everything that comes in is escaped here."""

import html
import json
import re
from collections.abc import Iterable
from pathlib import Path

import streamlit as st

STYLE = Path(__file__).with_name("style.css")
SPACES = "\n\t\u00a0\u2009\u202f"  # the last three stand within dates and numbers of some languages
# What markdown, Streamlit's colour and icon directives (`:red[…]`, `:material/…:`) and KaTeX (`$`) would act on.
_MARKDOWN = re.compile(r"([\\`*_{}\[\]()#+\-.!|<>~$:^&])")


def escape(text: object) -> str:
    """Return text for HTML: shown as it is, never executed. Control characters become visible."""
    return html.escape(_printable(str(text)), quote=True)


def escape_markdown(text: object) -> str:
    """Return text for a markdown label or body: shown as it is on one line."""
    return _MARKDOWN.sub(r"\\\1", " ".join(_printable(str(text)).split()))


def _printable(text: str) -> str:
    return text if text.isprintable() else "".join(c if c.isprintable() or c in SPACES else "�" for c in text)


def style() -> None:
    """Load the stylesheet; it takes no room on the page."""
    st.html(STYLE)


def write(*parts: str) -> None:
    """Show HTML whose dynamic parts were escaped."""
    st.html("".join(parts))


def tag(name: str, content: str, css: str = "", **attributes: str) -> str:
    """Return an element around content that is already HTML; attribute values are escaped here."""
    pairs = {"class": css, **attributes}
    written = "".join(f' {key.rstrip("_")}="{escape(value)}"' for key, value in pairs.items() if value)
    return f"<{name}{written}>{content}</{name}>"


def grid(rows: str, css: str = "") -> str:
    """Return a table that moves sideways where it is too wide for the window; the keyboard can move it too."""
    return tag("div", tag("table", rows, f"rv-table {css}".strip()), "rv-scroll", tabindex="0")


def figure(label: str, value: str, note: str = "", *, title: str = "", below: str = "") -> str:
    """Return one headline figure: a value with its label, a quieter note beside it, a bar below."""
    value_html = tag("span", escape(value), "rv-value") + (tag("span", escape(note), "rv-note") if note else "")
    return tag("div", tag("dt", escape(label)) + tag("dd", value_html + below), "rv-figure", title=title)


def figures(items: Iterable[str]) -> str:
    """Return the strip of headline figures."""
    return tag("dl", "".join(items), "rv-figures")


def bar(fraction: float) -> str:
    """Return a thin progress bar; the number beside it says the same in words."""
    width = f"{min(1.0, max(0.0, fraction)) * 100:.1f}%"
    return f'<span class="rv-bar" aria-hidden="true"><i style="width:{width}"></i></span>'


def empty(sentence: str) -> None:
    """Say in one calm sentence why there is nothing to see here."""
    write(tag("div", escape(sentence), "rv-empty"))


def icon(name: str) -> str:
    """Return a Material symbol (the font comes with Streamlit); decoration only, a word stands beside it."""
    return f'<span class="rv-icon" data-icon="{escape(name)}" aria-hidden="true"></span>'


def log_lines(lines: Iterable[str], first: int, marked: range) -> str:
    """Return lines of a log with their numbers, those in `marked` set off."""
    rows = "".join(
        tag("li", escape(line) or "&nbsp;", "rv-marked" if number in marked else "", value=str(number))
        for number, line in enumerate(lines, first)
    )
    return tag("ol", rows, "rv-log", tabindex="0")


def title(words: str) -> None:
    """Show the heading of a page, no wider than its words."""
    st.html(tag("h1", escape(words), "rv-title"), width="content")


def section(words: str, count: str = "") -> None:
    """Show the heading of a part of a page, with how many things are in it."""
    write(tag("h2", escape(words) + (tag("span", escape(count), "rv-count") if count else ""), "rv-section"))


def quiet(sentence: str) -> None:
    """Show a sentence in the background."""
    write(tag("p", escape(sentence), "rv-quiet"))


def warn(sentence: str) -> None:
    """Show a sentence that a person should read, with a sign."""
    write(tag("p", icon("warning") + escape(sentence), "rv-warning"))


def scroll_to(key: str) -> None:
    """Bring the element with a Streamlit key into view."""
    script = f"document.querySelector('.st-key-{key}')?.scrollIntoView({{behavior: 'smooth', block: 'center'}})"
    st.html(f"<script>setTimeout(() => {script}, 150)</script>", unsafe_allow_javascript=True)


def label(words: str) -> None:
    """Show a word before a widget in a row."""
    st.html(tag("span", escape(words), "rv-quiet"), width="content")


def words_of_uploader(choose: str) -> None:
    """Give Streamlit's upload button, which knows English only, a label in the reader's language (see style.css)."""
    st.html(f"<style>:root {{ --rv-choose: {json.dumps(choose, ensure_ascii=False)} }}</style>")
