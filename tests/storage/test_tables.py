"""The quick way through a table gives what reading it cell by cell gives."""

import re

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from storage.reading import rows
from storage.reading.arrays import edges, repeated
from storage.reading.containers import Delimited, delimited
from storage.reading.containers.lines import NEWLINE, Lines

NUMBERS = st.one_of(
    st.integers(-(10**12), 10**12).map(str),
    st.floats(allow_nan=False, allow_infinity=False).map(repr),
    st.sampled_from(["nan", "NaN", "inf", "-inf", "Infinity", "1e-05", "+2.5", " 3.25 "]),
)
CELLS = st.one_of(
    NUMBERS, NUMBERS, NUMBERS, st.sampled_from(["", "N/A", "12.5%", "3 MiB", "1:02:03", '"1,5"', '"a ""b"""', "word", "5e"])
)
NOISE = st.sampled_from(
    ["", "reading shard 3 of 9", "epoch 2, done", "12, 13", "# of it", '7,"open', "step,loss,lr", "step,loss,lr,note"]
)


@st.composite
def tables(draw: st.DrawFn) -> tuple[str, int]:
    """Draw a table with noise between its rows, and into how many pieces it is cut."""
    plain = [[str(10 * n), f"{9 / n:.4f}", "3e-4"] for n in range(1, 9)]
    drawn = [
        [draw(NUMBERS), *(draw(CELLS) for _ in range(draw(st.sampled_from([2, 2, 2, 2, 1, 3]))))]
        for _ in range(draw(st.integers(0, 12)))
    ]
    lines = [",".join(cells) for cells in (*plain, *drawn)]
    for line in draw(st.lists(NOISE, max_size=6)):
        lines.insert(draw(st.integers(0, len(lines))), line)
    return "\n".join(["step,loss,lr", *lines]) + "\n", draw(st.integers(1, 3))


def read(text: str, pieces: int) -> tuple[list[dict], list]:
    reader, given_lines = Delimited(), text.encode().splitlines(keepends=True)
    size, found, problems = -(-len(given_lines) // pieces), [], []
    for at in range(0, len(given_lines), size):
        table = reader.feed(b"".join(given_lines[at : at + size]), at + 1)
        found += table.to_pylist() if table is not None else []
    problems = sorted((one.line, one.text, one.reason.template) for one in reader.problems)
    return [
        {name: "nan" if value != value else value for name, value in row.items() if value is not None} for row in found
    ], problems


@settings(deadline=None, max_examples=150)
@given(tables())
def test_quick_and_slow_agree(drawn: tuple[str, int]) -> None:
    text, pieces = drawn
    quick = read(text, pieces)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(delimited, "_uniform", lambda *_: False)
        patch.setattr(delimited, "_read", lambda *_: None)
        slow = read(text, pieces)
    assert quick == slow


@settings(deadline=None, max_examples=200)
@given(st.lists(st.text(st.sampled_from("a,;1 "), max_size=150), max_size=30), st.booleans())
def test_delimiters_are_counted_in_each_line(texts: list[str], known: bool) -> None:
    block = "".join(text + "\n" for text in texts).encode()
    lines = Lines(block, np.flatnonzero(np.frombuffer(block, np.uint8) == NEWLINE) if known else None)
    assert lines.counts(ord(",")).tolist() == [text.count(",") for text in texts]


def test_one_lines_of_many_patterns_is_one_of_each() -> None:
    texts = [f"epoch {n} took {n}s\n" for n in range(200)] + ["loss 17\n"]
    lines = Lines("".join(texts).encode())
    for pattern in (r"took [0-9]+s", "loss 17", "nothing", "epoch 12 "):
        assert lines.fits(pattern).tolist() == [re.search(pattern, text) is not None for text in texts]


@pytest.mark.parametrize("kinds", [["train", "eval", "more", "summary", "train"], ["train"] * 3, ["more"], []])
def test_kinds_are_told_in_a_slice_and_in_several_pieces(kinds: list[str]) -> None:
    sliced = pa.array(["eval", *kinds, "train"], pa.string())[1 : 1 + len(kinds)]
    table = pa.table({"kind": pa.chunked_array([sliced, pa.array(["train"])])})
    for kind in ("train", "eval", "more"):
        assert rows.is_kind(table, kind).tolist() == [one == kind for one in (*kinds, "train")]


@pytest.mark.parametrize(("text", "count"), [("train", 3), ("train", 0), ("", 2), ("评估", 2)])
def test_a_text_is_repeated(text: str, count: int) -> None:
    assert repeated(text, count).equals(pa.array([text] * count, pa.string()))
    assert np.diff(edges(repeated(text, count))).tolist() == [len(text.encode())] * count
