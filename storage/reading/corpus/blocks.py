"""Bytes of a corpus in, blocks of whole lines out, as UTF-8."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from messages import N_, Text
from storage.reading.binary import BinaryCheck
from storage.reading.charset import Charset
from storage.reading.unpack import Unpacker, packed_as
from storage.types import UnreadableLog

BLOCK_BYTES = 16 << 20
MAX_LINE_BYTES = 128 << 20  # a longer line is no sample of anything
HEAD = 16


@dataclass(frozen=True)
class Block:
    """Whole lines as an array of strings, the number of the first (from 1), and which of them (index from 0) hold bytes
    that are wrong in the encoding."""

    lines: pa.Array
    first: int
    wrong: np.ndarray


class Blocks:
    """Cuts a file that comes in pieces; `oversized` are the numbers of lines that were too long to be looked at."""

    def __init__(self) -> None:
        self.compression: str | None = None
        self.oversized: list[int] = []
        self.damaged = False
        self._charset, self._check = Charset(), BinaryCheck()
        self._unpacker: Unpacker | None = None
        self._head: bytes | None = b""
        self._opened = False
        self._waiting: list[bytes] = []
        self._held = 0
        self._lines = 0
        self._skipping = self._told = False

    @property
    def encoding(self) -> str:
        """The encoding by Python's name."""
        return self._charset.name

    def feed(self, data: bytes) -> Iterator[Block]:
        """Take the next bytes. Raises UnreadableLog for what is no text."""
        if self._head is not None:
            self._head += data
            if len(self._head) < HEAD:
                return
            data = self._begin()
        for piece in self._unpacker.feed(data) if self._unpacker else (data,):
            yield from self._text(piece)

    def finish(self) -> Iterator[Block]:
        """Take the end of the file. Raises UnreadableLog if there was nothing."""
        if self._head is not None:
            yield from self.feed(b"") if len(self._head) >= HEAD else self._text(self._begin())
        if self._unpacker:
            self._unpacker.finish()
            self.damaged = self._unpacker.damaged
        yield from self._take(self._charset.finish())
        self._check.finish()
        if self._held:
            last = b"".join(self._waiting)
            yield from self._block(last if last.endswith(b"\n") else last + b"\n")
        if not self._lines:
            raise UnreadableLog("empty", Text(N_("The file is empty.")))

    def _begin(self) -> bytes:
        head, self._head = self._head or b"", None
        self.compression = packed_as(head)
        self._unpacker = Unpacker(self.compression) if self.compression else None
        return head

    def _text(self, data: bytes) -> Iterator[Block]:
        if not self._opened:
            self._opened = True
            self._check.magic(data[:HEAD])
            data = self._charset.open(data)
        text = self._charset.stream(data)
        self._check.feed(text)
        yield from self._take(text)

    def _take(self, text: bytes) -> Iterator[Block]:
        if not text:
            return
        end = text.rfind(b"\n") + 1
        if self._skipping and end:
            start = text.find(b"\n") + 1
            text, end = text[start:], end - start
            self._skipping = False
        if self._skipping:
            return
        if end and self._held + end >= BLOCK_BYTES:
            yield from self._block(b"".join(self._waiting) + text[:end])
            self._waiting, self._held, text = [], 0, text[end:]
        self._waiting.append(text)
        self._held += len(text)
        if self._held > MAX_LINE_BYTES and not end:
            yield from self._give_up()

    def _give_up(self) -> Iterator[Block]:
        """Let go of a line that does not end; what stands before it is a block."""
        whole = b"".join(self._waiting)
        end = whole.rfind(b"\n") + 1
        if end:
            yield from self._block(whole[:end])
        self._lines += 1
        self.oversized.append(self._lines)
        self._waiting, self._held, self._skipping = [], 0, True

    def _block(self, raw: bytes) -> Iterator[Block]:
        lines, wrong = _strings(raw), np.empty(0, np.int64)
        if not (self._utf8(raw) and _valid(lines)):
            lines, wrong = _strings(self._charset.lines(raw)), _wrong(raw, self._charset.name)
        elif b"\xef\xbf\xbd" in raw:
            wrong = _wrong(raw, self._charset.name)
        first = self._lines + 1
        self._lines += len(lines)
        yield Block(lines, first, wrong)

    def _utf8(self, raw: bytes) -> bool:
        """Let the first line that is not ASCII tell the encoding; say whether these bytes should be UTF-8."""
        if not self._told and not raw.isascii():
            start = raw.rfind(b"\n", 0, int(np.argmax(np.frombuffer(raw, np.uint8) > 127))) + 1
            self._charset.lines(raw[start : raw.find(b"\n", start) + 1])
            self._told = True
        return self._charset.name.startswith("utf")


def _strings(text: bytes) -> pa.Array:
    """Return lines, each with its line end, without copying them."""
    ends = np.flatnonzero(np.frombuffer(text, np.uint8) == 10) + 1
    offsets = np.concatenate((np.zeros(1, np.int64), ends)).astype(np.int32)
    return pa.Array.from_buffers(pa.string(), len(ends), [None, pa.py_buffer(offsets), pa.py_buffer(text)])


def _valid(lines: pa.Array) -> bool:
    try:
        lines.validate(full=True)
    except pa.ArrowInvalid:
        return False
    return True


def _wrong(raw: bytes, encoding: str) -> np.ndarray:
    """Return which lines hold bytes that the encoding does not have, or the mark that stands for such bytes."""
    name = "utf-8" if encoding.startswith("utf") else encoding
    return np.array([n for n, line in enumerate(raw.split(b"\n")) if not line.isascii() and not _sound(line, name)], np.int64)


def _sound(line: bytes, encoding: str) -> bool:
    try:
        return "\ufffd" not in line.decode(encoding)
    except UnicodeDecodeError:
        return False
