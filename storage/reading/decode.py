"""Bytes of a file in, blocks of whole UTF-8 lines out: packing, encoding, line ends, colours, and what is no text.

Chunks may be of any size: the same file gives the same lines. The last line waits for its end; all that waits is bounded.
"""

import re
from base64 import b64decode, b64encode
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from messages import N_, Text
from storage.reading.arrays import edges, places_of
from storage.reading.binary import BinaryCheck
from storage.reading.charset import Charset
from storage.reading.unpack import Unpacker, packed_as
from storage.types import UnreadableLog

BLOCK = 1 << 22  # bytes decoded at a time
LINE_LIMIT = 1 << 20  # bytes of one line that are kept
HEAD = 16  # bytes that tell packing and encoding
MAX_CUTS = 100
EMPTY = N_("The file is empty. Was it uploaded before the training wrote anything?")
_ANSI = re.compile(rb"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b\n]*(?:\x07|\x1b\\)|[@-Z\\-_])")
_BACKSPACES = re.compile(rb"\x08+")
_KEPT_ENDS = re.compile(rb"([\r\n])")
_HALF_CHARACTER = re.compile(rb"[\x80-\xff]{1,4}$")


@dataclass(frozen=True)
class Block:
    """Whole lines of a log: UTF-8, every line ended by one line feed, and the number of each line (1-based).

    A carriage return inside a line begins a new line here with the same number: progress bars overwrite themselves.
    """

    data: bytes
    numbers: np.ndarray
    ends: np.ndarray | None = None  # where the line feeds are, if that is known already

    def lines(self) -> pa.Array:
        """Return the lines, each with its line end, without copying them."""
        known = places_of(10, self.data) if self.ends is None else self.ends
        ends = known + 1
        offsets = np.concatenate((np.zeros(1, np.int64), ends)).astype(np.int32)
        return pa.Array.from_buffers(pa.string(), len(ends), [None, pa.py_buffer(offsets), pa.py_buffer(self.data)])

    def parted(self, size: int) -> "list[Block]":
        """Return the lines that begin in the first `size` bytes, and the others where there are any."""
        end = self.data.find(b"\n", size - 1) + 1
        if end in (0, len(self.data)):
            return [self]
        count = self.data.count(b"\n", 0, end)
        return [Block(self.data[:end], self.numbers[:count]), Block(self.data[end:], self.numbers[count:])]

    def without(self, taken: np.ndarray) -> "Block":
        """Return the lines that are not marked."""
        if not taken.any():
            return self
        if taken.all():
            return Block(b"", self.numbers[:0])
        return Block.of(self.lines().filter(pa.array(~taken)), self.numbers[~taken])

    @staticmethod
    def of(lines: pa.Array, numbers: np.ndarray) -> "Block":
        """Return the block of these lines, each with its line end."""
        begins = edges(lines).astype(np.int64)
        return Block(content(lines), numbers, begins[1:] - begins[0] - 1)


def content(lines: pa.Array) -> bytes:
    """Return the text of an array of lines: one after the other, each with its line end."""
    if not len(lines):
        return b""
    offsets = edges(lines)
    return lines.buffers()[2].slice(int(offsets[0]), int(offsets[-1] - offsets[0])).to_pybytes()


def encoding_of(head: bytes) -> str:
    """Return the encoding of a file as far as its first bytes tell: how wide its characters are."""
    decoder = Decoder()
    with suppress(UnreadableLog):  # the reader says so
        list(decoder.feed(head))
    return decoder.encoding


class Decoder:
    """Turns the bytes of one file into blocks of lines.

    `bytes` counts the file as fed, `lines` the line feeds (and an unterminated last line), `cut` the lines that were
    longer than LINE_LIMIT.
    """

    def __init__(self) -> None:
        self.bytes = self.lines = 0
        self.compression: str | None = None
        self.cut: list[int] = []
        self._head: bytes | None = b""
        self._first: bytes | None = b""
        self._unpacker: Unpacker | None = None
        self._skip = 0
        self._check, self._charset = BinaryCheck(), Charset()
        self._pending, self._cutting, self._open_line = bytearray(), False, False
        self.unended = False  # the file ends within a line: that of the last block

    @property
    def encoding(self) -> str:
        """The encoding by Python's name."""
        return self._charset.name

    @property
    def damaged(self) -> bool:
        """Whether a packed file breaks off or is corrupt."""
        return self._unpacker is not None and self._unpacker.damaged

    def feed(self, data: bytes) -> Iterator[Block]:
        """Take the next bytes of the file; yield the lines that are complete. Raises UnreadableLog for what is no text."""
        self.bytes += len(data)
        if self._head is not None:
            self._head += data
            if len(self._head) < HEAD:
                return
            data = self._open()
        yield from self._unpack(data)

    def finish(self) -> Iterator[Block]:
        """Yield what still waits: the file ends here. Raises UnreadableLog if there is no text at all."""
        if self._head is not None:
            yield from self._unpack(self._open())
        if self._unpacker is not None:
            self._unpacker.finish()
        if self._first is not None:
            yield from self._begin()
        yield from self._lines(self._charset.finish())
        self._check.finish()
        self.unended = bool(self._pending) and not self._pending.endswith(b"\r")
        if self._pending:
            yield from self._emit(bytes(self._pending))
        self._pending.clear()
        self.lines += self._open_line
        if not self.bytes or (self._unpacker is not None and not self._unpacker.unpacked):
            raise UnreadableLog("empty", Text(EMPTY))

    def _open(self) -> bytes:
        head, self._head = self._head or b"", None
        self.compression = packed_as(head)
        self._unpacker = Unpacker(self.compression) if self.compression else None
        return head

    def _unpack(self, data: bytes) -> Iterator[Block]:
        if self._unpacker is None:
            pieces: Iterator[bytes] = (data[start : start + BLOCK] for start in range(0, len(data), BLOCK))
        else:
            pieces = self._unpacker.feed(data)
        for piece in pieces:
            skipped = min(self._skip, len(piece))
            self._skip -= skipped
            if piece := piece[skipped:]:
                yield from self._text(piece)

    def _text(self, data: bytes) -> Iterator[Block]:
        if self._first is None:
            yield from self._decoded(data)
            return
        self._first += data
        if len(self._first) >= HEAD:
            yield from self._begin()

    def _begin(self) -> Iterator[Block]:
        first, self._first = self._first or b"", None
        self._check.magic(first)
        yield from self._decoded(self._charset.open(first))

    def _decoded(self, data: bytes) -> Iterator[Block]:
        text = self._charset.stream(data)
        self._check.feed(text)
        yield from self._lines(text)

    def _lines(self, text: bytes) -> Iterator[Block]:
        """Yield the complete lines; the rest waits. A carriage return at the very end waits for a possible line feed."""
        if not text:
            return
        end = max(text.rfind(b"\n"), text.rfind(b"\r", 0, len(text) - 1)) + 1
        if end or self._pending.endswith(b"\r"):
            whole = end == len(text) and not self._pending  # there is nothing to join: a block is four megabytes
            ready = text if whole else b"".join((self._pending, memoryview(text)[:end]))
            self._pending = bytearray()
            yield from self._emit(ready)
        self._wait(text[end:])

    def _wait(self, text: bytes) -> None:
        """Keep the start of an unfinished line, up to LINE_LIMIT; a final carriage return is always kept."""
        if self._cutting or len(self._pending) + len(text) - text.endswith(b"\r") > LINE_LIMIT:
            self._cutting = True
            self._pending += text[: LINE_LIMIT - len(self._pending)] if len(self._pending) < LINE_LIMIT else b""
            self._pending += b"\r" if text.endswith(b"\r") and not self._pending.endswith(b"\r") else b""
        else:
            self._pending += text

    def _emit(self, raw: bytes) -> Iterator[Block]:
        if self._cutting:
            self._cutting = False
            self._note_cut(self.lines + 1)
        if len(raw) >= LINE_LIMIT and _may_have_long_line(raw):
            raw = self._shortened(raw)
        text = self._charset.lines(raw.replace(b"\r\n", b"\n") if b"\r" in raw else raw)
        if b"\x1b" in text:
            text = _ANSI.sub(b"", text)
        if b"\x08" in text:
            text = _BACKSPACES.sub(b"\r", text)
        if b"\0" in text:
            text = text.replace(b"\0", b"")
        if text:
            self._open_line = not text.endswith(b"\n")
            yield self._numbered(text)

    def _numbered(self, text: bytes) -> Block:
        """Return the block of these lines and count them."""
        if not text.endswith((b"\n", b"\r")):
            text += b"\r"
        feeds = places_of(10, text)
        first, self.lines = self.lines + 1, self.lines + len(feeds)
        if b"\r" not in text:
            return Block(text, np.arange(len(feeds)) + first, feeds)
        content = np.frombuffer(text, np.uint8)
        ends = np.flatnonzero((content == 10) | (content == 13))
        return Block(text.replace(b"\r", b"\n"), np.searchsorted(feeds, ends) + first, ends)

    def _shortened(self, raw: bytes) -> bytes:
        """Cut lines that are too long, and half a character at the cut."""
        parts, number = [], self.lines + 1
        for line in _KEPT_ENDS.split(raw):
            if len(line) > LINE_LIMIT:
                self._note_cut(number)
            parts.append(_HALF_CHARACTER.sub(b"", line[:LINE_LIMIT]) if len(line) >= LINE_LIMIT else line)
            number += line == b"\n"
        return b"".join(parts)

    def _note_cut(self, number: int) -> None:
        if len(self.cut) < MAX_CUTS and number not in self.cut[-1:]:
            self.cut.append(number)

    def state(self) -> dict[str, Any]:
        """Return what a new Decoder needs to go on, JSON-able; `offset` is where in the file to feed from next.

        A packed file is read from its start again (`offset` 0) and what was seen of it is left out.
        """
        head = self._head or b""
        return {
            "offset": 0 if self._unpacker else self.bytes,
            "skip": self._unpacker.unpacked if self._unpacker else 0,
            "opened": self._head is None and self._unpacker is None,
            "head": "" if self._unpacker else b64encode(head).decode(),
            "first": None if self._first is None else b64encode(self._first).decode(),
            "lines": self.lines,
            "cut": self.cut,
            "cutting": self._cutting,
            "open_line": self._open_line,
            "check": self._check.state(),
            "charset": self._charset.state(),
            "pending": b64encode(bytes(self._pending)).decode(),
        }

    def restore(self, state: dict[str, Any]) -> None:
        """Go on from what `state` returned."""
        self.bytes, self._skip, self.lines = state["offset"], state["skip"], state["lines"]
        self._head = None if state["opened"] else b64decode(state["head"])
        self._first = None if state["first"] is None else b64decode(state["first"])
        self.cut, self._cutting, self._open_line = list(state["cut"]), state["cutting"], state["open_line"]
        self._check.restore(state["check"])
        self._charset.restore(state["charset"])
        self._pending = bytearray(b64decode(state["pending"]))


def _may_have_long_line(raw: bytes) -> bool:
    """Say whether some window of half the limit has no line end: only then can a line be longer than the limit."""
    window = LINE_LIMIT // 2
    return any(
        raw.find(b"\n", start, start + window) < 0 and raw.find(b"\r", start, start + window) < 0
        for start in range(0, len(raw) - window + 1, window)
    )
