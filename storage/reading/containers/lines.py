"""Where the lines of a block are, without making a Python string of each."""

from typing import NamedTuple

import numpy as np
import pyarrow as pa

from messages import Text
from storage.reading.decode import content
from storage.reading.shapes import Shapes

NEWLINE, CARRIAGE_RETURN, SPACE, TAB = 10, 13, 32, 9
TEXT_LIMIT = 300  # characters of a line kept in a problem
SHOWN = 100  # problems of one kind and block that are kept with their text


class Problem(NamedTuple):
    """A line that should have been a row and was not: its number, its text (cut) and why."""

    line: int
    text: str
    reason: Text


class Problems(list[Problem]):
    """Problems with their text; of a kind that a block is full of, `more` has the numbers of the lines beyond `shown`."""

    def __init__(self, shown: int = SHOWN) -> None:
        super().__init__()
        self.more: list[np.ndarray] = []
        self._shown = shown

    def add(self, lines: "Lines", wanted: np.ndarray, numbers: np.ndarray, reason: Text) -> None:
        """Add the lines with these indices; `numbers` are theirs in the log."""
        texts = [lines.text(index) for index in wanted[: self._shown]]
        self.extend(Problem(*each, reason) for each in zip(numbers[: self._shown].tolist(), texts, strict=True))
        if len(numbers) > self._shown:
            self.more.append(numbers[self._shown :])

    def of(self, lines: "Lines", wanted: np.ndarray, first_line: int, reason: Text) -> None:
        """Add the lines with these indices, where the numbers of lines follow each other."""
        self.add(lines, wanted, first_line + lines.number[wanted], reason)


class Lines:
    """The lines of `block` as byte offsets: `starts` inclusive, `ends` exclusive, blanks (and `tabs`) at both ends left out.

    With `returns` a carriage return ends a piece too (progress bars); `number` is the 0-based newline-line of each piece.
    `breaks` = where the line feeds are, if that is known already.
    """

    def __init__(self, block: bytes, breaks: np.ndarray | None = None, *, returns: bool = False, tabs: bool = True) -> None:
        if block and not block.endswith(b"\n"):
            block, breaks = block + b"\n", None
        self.block, self.returns = block, returns and b"\r" in block
        self.bytes = np.frombuffer(block, np.uint8)
        breaks = np.flatnonzero(self.bytes == NEWLINE) if breaks is None else breaks
        self.number = np.arange(len(breaks))
        if self.returns:
            newlines = breaks
            breaks = np.flatnonzero((self.bytes == NEWLINE) | (self.bytes == CARRIAGE_RETURN))
            self.number = np.searchsorted(newlines, breaks)
        self.breaks = breaks
        self.starts = np.concatenate(([0], breaks[:-1] + 1)) if len(breaks) else breaks
        self.ends = breaks
        self._places: dict[int, np.ndarray] = {}
        self._counts: dict[int, np.ndarray] = {}
        self._first: np.ndarray | None = None
        self._shapes: Shapes | None = None
        self._trim(TAB if tabs else SPACE)

    def _trim(self, tab: int) -> None:
        """Move starts and ends inwards over blanks; the passes end with the longest run of blanks that is at most 64."""
        data, starts, ends = self.bytes, self.starts.copy(), self.ends.copy()
        for edge, shift, at in ((starts, 1, 0), (ends, -1, -1)):
            byte = data[edge + at]  # of an empty line a line feed, or one before it
            todo = np.flatnonzero(((byte == SPACE) | (byte == CARRIAGE_RETURN) | (byte == tab)) & (starts < ends))
            for _ in range(64):
                byte = data[edge[todo] + at]
                todo = todo[(byte == SPACE) | (byte == CARRIAGE_RETURN) | (byte == tab)]
                if not len(todo):
                    break
                edge[todo] += shift
                todo = todo[starts[todo] < ends[todo]]
        self.starts, self.ends = starts, ends

    def __len__(self) -> int:
        return len(self.starts)

    def first(self) -> np.ndarray:
        """Return the first byte of each line, 0 for an empty one."""
        if self._first is None:
            self._first = np.where(self.starts < self.ends, self.bytes[np.minimum(self.starts, len(self.bytes) - 1)], 0)
        return self._first

    def places(self, byte: int) -> np.ndarray:
        """Return where in the block a byte stands; found once."""
        if byte not in self._places:
            self._places[byte] = np.flatnonzero(self.bytes == byte)
        return self._places[byte]

    def counts(self, byte: int) -> np.ndarray:
        """Return how often a byte stands in each line (that a line feed ends); counted once."""
        if byte not in self._counts:
            found = np.packbits(self.bytes == byte, bitorder="little")
            words = np.pad(found, (0, -len(found) % 8)).view("<u8")  # a bit for each byte, the first one lowest
            until = np.cumsum(np.bitwise_count(words), dtype=np.int64)
            at, behind = self.breaks >> 6, (self.breaks & 63).astype(np.uint64)
            self._counts[byte] = np.diff(until[at] - np.bitwise_count(words[at] >> behind), prepend=0)
        return self._counts[byte]

    def last(self) -> np.ndarray:
        """Return the last byte of each line, 0 for an empty one."""
        return np.where(self.starts < self.ends, self.bytes[np.maximum(self.ends - 1, 0)], 0)

    def raw(self, index: int | np.integer) -> bytes:
        """Return one line without its line end."""
        return self.block[self.starts[index] : self.ends[index]]

    def whole(self, index: int | np.integer) -> str:
        """Return one line as text, uncut."""
        return self.raw(index).decode("utf-8", "replace")

    def text(self, index: int | np.integer) -> str:
        """Return one line as text, cut for showing."""
        end = min(self.ends[index], self.starts[index] + 4 * TEXT_LIMIT)
        return self.block[self.starts[index] : end].decode("utf-8", "replace")[:TEXT_LIMIT]

    def fits(self, pattern: str) -> np.ndarray:
        """Return which lines have a part that fits the pattern (RE2)."""
        self._shapes = self._shapes or Shapes(self.texts())
        return self._shapes.match(pattern)

    def texts(self) -> pa.Array:
        """Return the lines as Arrow text, each with its end, without copying them."""
        offsets = np.zeros(len(self.breaks) + 1, np.int32)
        offsets[1:] = self.breaks + 1
        return pa.Array.from_buffers(pa.string(), len(self.breaks), [None, pa.py_buffer(offsets), pa.py_buffer(self.block)])

    def take(self, wanted: np.ndarray) -> bytes:
        """Return the lines with these rising indices, newline-ended, blanks at their ends included."""
        if len(wanted) == len(self):
            return self.block
        kept = np.zeros(len(self), bool)
        kept[wanted] = True
        data = content(self.texts().filter(pa.array(kept)))
        return data.replace(b"\r", b"\n") if self.returns else data


def as_lines(text: bytes | Lines) -> Lines:
    """Return the lines of a text; those that are found already serve several readers."""
    return text if isinstance(text, Lines) else Lines(text)


def has(data: bytes, needle: bytes) -> bool:
    """Return whether the bytes hold a short needle; several times quicker than `in` where its first letters are frequent."""
    values = np.frombuffer(data, np.uint8)
    size = len(values) - len(needle) + 1
    if size <= 0:
        return False
    found = values[:size] == needle[0]
    for place, byte in enumerate(needle[1:], 1):
        found &= values[place : size + place] == byte
    return bool(found.any())


def arrow_texts(lines: Lines, wanted: np.ndarray) -> pa.ChunkedArray:
    """Return the wanted lines as Arrow text, copied at most once, in four chunks for those who work in parallel."""
    whole = lines.texts() if len(wanted) == len(lines) else lines.texts().take(pa.array(wanted))
    size = max(4096, -(-len(whole) // 4))
    return pa.chunked_array([whole.slice(start, size) for start in range(0, len(whole), size)], pa.string())


def sample_lines(sample: bytes, *, returns: bool = False) -> Lines:
    """Return the whole lines of a sample; a cut last line is left out unless it is the only one."""
    cut = sample.rfind(b"\n")
    return Lines(sample[: cut + 1] if cut > 0 else sample, returns=returns)
