"""Reading a log file that others write: what comes next in it, whether it is still the same file, and what to leave for later.

A file is known by its device and inode and, since both are given out again, by the SHA-256 of its first bytes and of the
last bytes before the place up to which it was read; by the CRC-32 of all bytes before that place where it has another inode
or is short. Packed files (gzip, zstd) count by what they unpack to.
"""

import hashlib
import os
import re
import stat
import sys
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any

from storage.keeping.sources import Source
from storage.reading.unpack import Unpacker, packed_as

HEAD_BYTES = TAIL_BYTES = 4096
PIECE_BYTES = 4 << 20
# All that was read is compared up to so many bytes: of a file under its old inode with each new line, of any other once.
OWN_BYTES, OTHER_BYTES = 64 << 10, 256 << 20
# A line without an end is left in the file until it has one; a progress bar that only overwrites itself is not, nor is a
# line without any end.
LONG_BAR_BYTES, LONG_LINE_BYTES = 64 << 10, 1 << 20
# So many zero bytes in a row are no text of any encoding: a part of the file that has not arrived yet (NFS), or never will
# (a file that was truncated under a writer which goes on at its old place).
HOLE = re.compile(rb"\0{64,}")


class NotAFile(OSError):
    """A pipe, a socket or a device where a file was expected."""


@dataclass(frozen=True)
class Next:
    """What comes next: `size` bytes in `pieces` (while the file is open), `source` as it is afterwards; whether there is
    `more` to read at once, and whether a `hole` waits."""

    size: int
    pieces: Iterable[bytes]
    source: Source
    more: bool = False
    hole: bool = False


class LogFile:
    """A regular file open for reading. Raises OSError, NotAFile for what is none."""

    def __init__(self, path: str) -> None:
        self.path = path
        # Not to wait for the writer of a pipe that took the place of a file since it was seen.
        self._fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        status = os.fstat(self._fd)
        self.size, self.device, self.inode, self.changed = status.st_size, status.st_dev, status.st_ino, status.st_mtime_ns
        if not stat.S_ISREG(status.st_mode):
            self.close()
            raise NotAFile(f"{path} is not a regular file")
        self.packed = packed_as(self._at(0, 16))

    def close(self) -> None:
        """Close the file."""
        os.close(self._fd)

    def __enter__(self) -> "LogFile":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def same(self, source: Source) -> bool:
        """Say whether this file holds what was read of `source`, and perhaps more."""
        if self.packed:
            return _Content(self.pieces(), source).begins
        if self.size < source.offset or digest(self._at(0, source.head_bytes)) != (source.head or digest(b"")):
            return False
        if digest(self._at(*_tail(source.offset))) != (source.tail or digest(b"")):
            return False
        most = OWN_BYTES if self.inode == source.inode else OTHER_BYTES
        return source.crc is None or source.offset > most or self._crc(source.offset) == source.crc

    def next(self, source: Source, budget: int, *, whole: bool = False, through_hole: bool = False) -> Next | None:
        """Return what follows `source` in this file, whole lines of it (with `whole` all there is); None if it is another.

        At most `budget` bytes, more only of a packed file. A hole ends what is returned, unless `through_hole`.
        """
        if self.packed:
            return self._next_packed(source)
        if source.offset and not self.same(source):
            return None
        start, before = _tail(source.offset)
        block = self._at(start, before + budget)
        if len(block) < before:
            return None
        full = len(block) == before + budget
        data, hole = _without_hole(block[before:]) if not through_hole else (block[before:], False)
        size = len(data) if whole and not full else whole_lines(data)
        after = self._after(source, block[: before + size], source.offset + size)
        return Next(size, [HOLE.sub(b"", data[:size])], after, full and not hole, hole)

    def all(self, source: Source) -> Source:
        """Return a source as it is behind the whole content."""
        return self._at_end(source, _Content(self.pieces(), replace(source, offset=0, head="", head_bytes=0, tail="")))

    def begins(self, *, raw: bool = False) -> bytes:
        """Return the first HEAD_BYTES of the content (`raw`: as they lie in the file)."""
        return self._at(0, HEAD_BYTES) if raw or not self.packed else next(self.pieces(), b"")[:HEAD_BYTES]

    def read_to(self, source: Source, offset: int) -> Source:
        """Return the source as it is when it was read up to a place (of a packed file, to its end)."""
        if self.packed:
            return self.all(source)
        start, before = _tail(offset)
        head = self._at(0, min(offset, HEAD_BYTES))
        source = replace(source, head=digest(head), head_bytes=len(head), tail=digest(self._at(start, before)), offset=offset)
        return self._here(replace(source, crc=self._crc(offset)))

    def pieces(self, *, raw: bool = False) -> Iterator[bytes]:
        """Yield the whole content, unpacked (unless `raw`). Raises UnreadableLog for what unpacks to too much."""
        unpacker = Unpacker(self.packed) if self.packed and not raw else None
        for start in range(0, self.size, PIECE_BYTES):
            piece = self._at(start, PIECE_BYTES)
            if unpacker is None:
                yield piece
            else:
                yield from unpacker.feed(piece)

    def text(self, size: int = sys.maxsize) -> Iterator[bytes]:
        """Yield the content up to a size, without its holes."""
        for piece in self.pieces():
            if size <= 0:
                return
            yield HOLE.sub(b"", piece[:size])
            size -= len(piece)

    def _next_packed(self, source: Source) -> Next | None:
        content = _Content(self.pieces(), source)
        if not content.begins:
            return None
        return Next(content.size - source.offset, _behind(self.pieces(), source.offset), self._at_end(source, content))

    def _at_end(self, source: Source, content: "_Content") -> Source:
        after = replace(source, head=content.head, head_bytes=content.head_bytes, tail=content.tail, offset=content.size)
        return self._here(replace(after, crc=content.crc))

    def _after(self, source: Source, block: bytes, offset: int) -> Source:
        """Return the source when it is read up to `offset`, where `block`, which holds all before it or TAIL_BYTES, ends."""
        if len(block) == offset:  # it begins where the file begins
            source = replace(source, head=digest(block[:HEAD_BYTES]), head_bytes=min(len(block), HEAD_BYTES))
        if source.crc is not None or not source.offset:
            source = replace(source, crc=zlib.crc32(block[len(block) - (offset - source.offset) :], source.crc or 0))
        return self._here(replace(source, tail=digest(block[-TAIL_BYTES:]), offset=offset))

    def _here(self, source: Source) -> Source:
        return replace(source, path=self.path, device=self.device, inode=self.inode, changed=self.changed)

    def _crc(self, size: int) -> int:
        """Return the CRC-32 of the first `size` bytes."""
        crc = 0
        for start in range(0, size, PIECE_BYTES):
            crc = zlib.crc32(self._at(start, min(PIECE_BYTES, size - start)), crc)
        return crc

    def _at(self, start: int, size: int) -> bytes:
        parts = []
        while size > 0 and (part := os.pread(self._fd, size, start)):
            parts.append(part)
            start, size = start + len(part), size - len(part)
        return parts[0] if len(parts) == 1 else b"".join(parts)


class _Content:
    """The fingerprints and size of a content; `begins` says whether it begins with what was read of a source."""

    def __init__(self, pieces: Iterator[bytes], source: Source) -> None:
        first, last, before, self.size = b"", b"", b"", 0
        self.crc = crc = 0
        for piece in pieces:
            first += piece[: HEAD_BYTES - len(first)]
            known = max(0, min(len(piece), source.offset - self.size))
            before = (before + piece[:known])[-TAIL_BYTES:] if known else before
            self.crc, crc = zlib.crc32(piece, self.crc), zlib.crc32(piece[:known], crc)
            last = (last + piece)[-TAIL_BYTES:]
            self.size += len(piece)
        self.head, self.head_bytes, self.tail = digest(first), len(first), digest(last)
        as_read = (source.head or digest(b""), source.tail or digest(b""))
        found = (digest(first[: source.head_bytes]), digest(before))
        self.begins = self.size >= source.offset and found == as_read and source.crc in (None, crc)


def _behind(pieces: Iterator[bytes], offset: int) -> Iterator[bytes]:
    for piece in pieces:
        if offset < len(piece):
            yield piece[offset:]
        offset = max(0, offset - len(piece))


def digest(data: Any) -> str:
    """Return the SHA-256 of bytes."""
    return hashlib.sha256(data).hexdigest()


def whole_lines(data: bytes) -> int:
    """Return how many bytes of `data` are lines with an end, or too long to wait for it."""
    end = data.rfind(b"\n") + 1
    if not end and len(data) >= LONG_BAR_BYTES:
        end = data.rfind(b"\r") + 1
    return end or (len(data) if len(data) >= LONG_LINE_BYTES else 0)


def _tail(offset: int) -> tuple[int, int]:
    return max(0, offset - TAIL_BYTES), min(offset, TAIL_BYTES)


def _without_hole(data: bytes) -> tuple[bytes, bool]:
    found = HOLE.search(data)
    return (data[: found.start()], True) if found else (data, False)
