"""Whether lines fit a pattern is the same as if each was asked, however alike they are."""

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from storage.reading import shapes
from storage.reading.config import facts
from storage.reading.containers import stanzas
from storage.reading.events.rules import TRIGGER

PATTERNS = (
    "loss", r"\bf1\b", r"A[12]00", "[^5]x", "[^0-9]x", r"\d{3}", "[3-7]+ of", r"(?P<n1>[0-9]+)%", r"\x31", "^9", r"\{1}",
    r"[0-9]\n$", TRIGGER, facts.TRIGGER, stanzas._HEADING,
)  # fmt: skip
LINES = (
    "epoch {} took {}% of it", "f{} is {}", "GPU A{} {}x", "{}", "loss {} of {}", "exit code {} at {}", "step {}/{}",
    "步 {} {}", "==== Step {} ====", "skipped iterations: {} ({})", "{} of {{{}}}",
)  # fmt: skip


@settings(deadline=None, max_examples=60)
@given(
    st.sampled_from(PATTERNS),
    st.lists(st.tuples(st.sampled_from(LINES), st.integers(0, 10**6), st.integers(0, 9)), min_size=1, max_size=30),
    st.integers(1, 40),
)
def test_the_answer_is_that_of_the_pattern(pattern: str, kinds: list, copies: int) -> None:
    lines = [kind.format(first + copy, second) + "\n" for kind, first, second in kinds for copy in range(copies)]
    texts = pa.array(["before\n", *lines])[1:]
    expected = pc.match_substring_regex(texts, pattern).to_numpy(zero_copy_only=False)
    assert np.array_equal(shapes.match(texts, pattern), expected)


def test_what_is_remembered_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shapes, "MAX_SHAPES", 20)
    for word in range(50):
        texts = pa.array([f"{chr(97 + word % 26) * (word + 1)} {i}" for i in range(500)])
        assert not shapes.match(texts, "loss of").any()
        assert len(shapes._known("loss of")) <= 20


def test_no_lines_fit_nothing() -> None:
    assert shapes.match(pa.array([], pa.string()), "loss").tolist() == []
