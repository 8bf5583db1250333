"""Whether lines fit a pattern, asked once for all lines that differ in their digits alone.

What a program prints between its records is mostly the same few lines with other numbers. A pattern is asked about such a
line with zeros for its digits, and so is the pattern: whatever fits it, fits then, too. Where the pattern tells digits
apart, the lines that may fit are asked again.
"""

import re
from functools import cached_property, lru_cache

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from storage.reading.arrays import edges
from storage.reading.decode import content

FEW = 64  # lines that are asked one by one
ALIKE = 4  # lines of a shape that are worth it
MAX_SHAPES = 10_000  # remembered of one pattern
MAX_PATTERNS = 100
MAX_LENGTH = 1000  # characters of a shape that is remembered
_ZEROS = bytes(ord("0") if chr(byte).isdigit() else byte for byte in range(256))
_COUNTS = re.compile(r"(?<!\\)\{\d+(?:,\d*)?\}|\(\?P<\w+>")  # digits of a pattern that stand for no text
_ANY_DIGIT = re.compile(r"\\d|0-9")
_UNSAFE = re.compile(r"\\x|\[\^[^\]]*[0-9]")  # characters by their number; all digits but some


def match(lines: pa.Array, pattern: str) -> np.ndarray:
    """Return which lines (text, none null) have a part that fits the pattern (RE2)."""
    return Shapes(lines).match(pattern)


class Shapes:
    """Lines (text, none null) that may be asked for several patterns: what is alike in them is found once."""

    def __init__(self, lines: pa.Array) -> None:
        self._lines = lines

    def match(self, pattern: str) -> np.ndarray:
        """Return which lines have a part that fits the pattern (RE2)."""
        blind, told = _blind(pattern)
        if blind is None or self._alike is None:
            return _match(self._lines, pattern)
        shapes, kinds = self._alike
        fits = np.array(_fits(shapes, blind), bool)
        if not fits.any():
            return np.zeros(len(self._lines), bool)
        found = fits[kinds]
        if told:
            found[found] = _match(self._lines.filter(pa.array(found)), pattern)
        return found

    @cached_property
    def _alike(self) -> tuple[list[bytes], np.ndarray] | None:
        """The shapes, and which of them each line has."""
        found = _shapes(self._lines) if len(self._lines) >= FEW else None
        return found and (found.dictionary.view(pa.binary()).to_pylist(), found.indices.to_numpy())


def _fits(shapes: list[bytes], blind: str) -> list[bool]:
    """Return which shapes fit; what was asked before is known."""
    known = _known(blind)
    answers = {shape: known.get(shape) for shape in shapes}
    if new := [shape for shape, answer in answers.items() if answer is None]:
        told = dict(zip(new, _match(pa.array(new, pa.binary()).view(pa.string()), blind).tolist(), strict=True))
        if len(known) + len(new) > MAX_SHAPES:
            known.clear()
        known.update(told)
        answers.update(told)
    return [bool(answers[shape]) for shape in shapes]


def _shapes(lines: pa.Array) -> pa.DictionaryArray | None:
    """Return the lines with zeros for digits; None where too few are alike or some are too long to be remembered."""
    begins = edges(lines)
    if np.diff(begins).max() > MAX_LENGTH:
        return None
    data, offsets = content(lines).translate(_ZEROS), begins - begins[0]
    zeros = pa.Array.from_buffers(pa.string(), len(lines), [None, pa.py_buffer(offsets), pa.py_buffer(data)])
    shapes = zeros.dictionary_encode()
    return shapes if len(shapes.dictionary) * ALIKE <= len(lines) else None


@lru_cache(MAX_PATTERNS)
def _blind(pattern: str) -> tuple[str | None, bool]:
    """Return the pattern with zeros for its digits (None: it can not be made), and whether it tells digits apart."""
    if _UNSAFE.search(pattern.replace("[^0-9]", "")):
        return None, True
    parts = re.split(f"({_COUNTS.pattern})", pattern)
    text = "".join(parts[::2])
    blind = "".join(part if at % 2 else re.sub("[1-9]", "0", part) for at, part in enumerate(parts))
    return blind, re.search("[0-9]", _ANY_DIGIT.sub("", text)) is not None


@lru_cache(MAX_PATTERNS)
def _known(pattern: str) -> dict[bytes, bool]:
    """Return what was asked of a pattern so far: shape -> whether it fits. Threads may share it."""
    return {}


def _match(lines: pa.Array, pattern: str) -> np.ndarray:
    return pc.match_substring_regex(lines, pattern).to_numpy(zero_copy_only=False)
