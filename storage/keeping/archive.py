"""The original bytes of a log, compressed in frames of whole lines: any line is one small read away.

One append-only file a run, `archive/<run>.zst`, a plain series of zstd frames (`zstdcat` gives the log back). How far it
is valid stands in the warehouse: what a crash left beyond that is cut off before the next append. A frame that is still
small stays in the warehouse and moves to the file when enough of them have come together. This module knows no SQL.
"""

import os
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

import numpy as np
import pyarrow as pa

FRAME_BYTES = 512 << 10
# A line without an end must not be gathered in memory for ever: it is cut into several frames.
LONGEST_FRAME_BYTES = 4 << 20
LEVEL = 1
GONE = "⋯"  # stands for a line that is no longer kept

# Terminal control: CSI (colours, cursor), OSC (titles, links), other two-character escapes; then control characters but tab.
_ESCAPES = re.compile(r"\x1b\[[0-?]*[ -/]*[@-~]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)|\x1b[@-Z\\-_]|[\x00-\x08\x0a-\x1f\x7f]")


@dataclass(frozen=True)
class Frame:
    """Bytes of a log: `first_line` (1-based) is that of the first byte, `lines` counts the line ends, `byte` is its place."""

    first_line: int
    lines: int
    byte: int
    data: bytes


class FrameCutter:
    """Cuts a stream of bytes into frames that end at line ends; `line` and `byte` of the log are where the next one begins."""

    def __init__(self, line: int = 1, byte: int = 0) -> None:
        self.line = line
        self.byte = byte
        self._pending: list[bytes] = []
        self._size = 0

    def feed(self, data: bytes, encoding: str = "utf-8") -> Iterator[Frame]:
        """Take the next bytes; yield the frames that are full, all of which must be taken."""
        self._pending.append(data)
        self._size += len(data)
        if self._size < FRAME_BYTES:
            return
        block, start = b"".join(self._pending), 0
        while len(block) - start >= FRAME_BYTES:
            stop = _last_line_end(block, start, encoding)
            if stop is None and len(block) - start < LONGEST_FRAME_BYTES:
                break
            stop = stop or start + LONGEST_FRAME_BYTES
            yield self._frame(block[start:stop], encoding)
            start = stop
        self._pending, self._size = [block[start:]], len(block) - start

    def rest(self, encoding: str = "utf-8") -> list[Frame]:
        """Return what is left, whether its last line is complete or not, as one frame (none if there is nothing)."""
        data, self._pending, self._size = b"".join(self._pending), [], 0
        return [self._frame(data, encoding)] if data else []

    def _frame(self, data: bytes, encoding: str) -> Frame:
        frame = Frame(self.line, _line_ends(data, encoding), self.byte, data)
        self.line += frame.lines
        self.byte += len(data)
        return frame


def joined(frames: Iterable[Frame]) -> Iterator[Frame]:
    """Join frames, in order, that follow each other without a gap."""
    group: list[Frame] = []
    for frame in frames:
        if group and group[-1].byte + len(group[-1].data) != frame.byte:
            yield _join(group)
            group = []
        group.append(frame)
    if group:
        yield _join(group)


def cut(frame: Frame, wanted: Sequence[tuple[int, int]], encoding: str) -> Iterator[tuple[Frame, bool]]:
    """Cut a frame at the edges of the `wanted` lines (inclusive, in order, apart); yield each part and whether it is wanted."""
    units = _units(frame.data, encoding)
    if units is None:
        ends = np.flatnonzero(np.frombuffer(frame.data, np.uint8) == 10) + 1
    else:
        ends = (np.flatnonzero(units == 10) + 1) * units.itemsize
    edges = [0, *ends.tolist()]  # where line number first_line + i begins; what is behind the last one has no end yet
    last = frame.first_line + frame.lines
    starts = {frame.first_line} | {edge for low, high in wanted for edge in (low, high + 1) if frame.first_line < edge <= last}
    lines = [*sorted(starts), last + 1]
    for first, stop in zip(lines, lines[1:], strict=False):
        begin = edges[first - frame.first_line]
        end = edges[stop - frame.first_line] if stop <= last else len(frame.data)
        if end > begin:
            kept = any(low <= first <= high for low, high in wanted)
            yield Frame(first, min(stop, last) - first, frame.byte + begin, frame.data[begin:end]), kept


def _join(group: list[Frame]) -> Frame:
    lines, data = sum(frame.lines for frame in group), b"".join(frame.data for frame in group)
    return Frame(group[0].first_line, lines, group[0].byte, data)


def _units(data: bytes, encoding: str) -> np.ndarray | None:
    """Return `data` as numbers of the encoding's character width, None where a character is made of bytes."""
    name = encoding.lower().replace("_", "-")
    width = 2 if name.startswith("utf-16") else 4 if name.startswith("utf-32") else 0
    if not width:
        return None
    return np.frombuffer(data, f"{'>' if name.endswith('be') else '<'}u{width}", len(data) // width)


def _line_ends(data: bytes, encoding: str) -> int:
    units = _units(data, encoding)
    units = np.frombuffer(data, np.uint8) if units is None else units  # five times as quick as `bytes.count`
    return int(np.count_nonzero(units == 10))


def _last_line_end(data: bytes, start: int, encoding: str) -> int | None:
    """Return the place after the last line end within FRAME_BYTES from `start` on, else after the first one.

    None without any within LONGEST_FRAME_BYTES.
    """
    if _units(b"", encoding) is None:
        end = data.rfind(b"\n", start, start + FRAME_BYTES)
        return (end if end >= 0 else data.find(b"\n", start, start + LONGEST_FRAME_BYTES)) + 1 or None
    units = _units(data[start : start + LONGEST_FRAME_BYTES], encoding)
    assert units is not None
    ends = (np.flatnonzero(units == 10) + 1) * units.itemsize
    inside = ends[ends <= FRAME_BYTES]
    return start + int(inside[-1] if len(inside) else ends[0]) if len(ends) else None


def compress(data: bytes) -> bytes:
    """Return `data` as one zstd frame."""
    return pa.Codec("zstd", compression_level=LEVEL).compress(data, asbytes=True)


def decompress(data: bytes, size: int) -> bytes:
    """Return the `size` bytes that were compressed. Raises OSError when they are damaged."""
    return pa.decompress(data, decompressed_size=size, codec="zstd", asbytes=True)


def read_piece(path: Path, position: int, size: int) -> bytes:
    """Return `size` bytes of a file. Raises OSError when the file is gone or too short."""
    with path.open("rb") as file:
        file.seek(position)
        data = file.read(size)
    if len(data) < size:
        raise OSError(f"{path} ends before byte {position + size}")
    return data


class ArchiveFile:
    """The file of one run, open for appending behind the `committed` bytes that the warehouse knows; now up to `end`."""

    def __init__(self, path: Path, committed: int) -> None:
        self.path = path
        self.committed = committed
        self.end = committed
        self._file: BinaryIO | None = None

    def append(self, data: bytes) -> int:
        """Write `data` and return its place in the file. Raises OSError (disk full) before anything depends on it."""
        if self._file is None:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self._file = self.path.open("r+b" if self.path.exists() else "w+b")
            self._file.truncate(self.committed)
            self._file.seek(self.committed)
        place = self.end
        self._file.write(data)
        self.end += len(data)
        return place

    def sync(self) -> None:
        """Bring everything to the disk: what the warehouse commits after this can be read after a power cut."""
        if self._file is not None:
            self._file.flush()
            os.fsync(self._file.fileno())
            if not self.committed:
                sync_folder(self.path.parent)

    def close(self, *, keep: bool) -> None:
        """Close the file; unless `keep`, take back everything appended."""
        if self._file is None:
            return
        try:
            if not keep:
                self._file.truncate(self.committed)
        finally:
            self._file.close()
            self._file = None
        if not keep and not self.committed:
            self.path.unlink(missing_ok=True)


def sync_folder(folder: Path) -> None:
    """Make the names in a folder durable."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def clean(folder: Path, committed: dict[str, int]) -> list[str]:
    """Cut files of the archive to what the warehouse knows of them ({name: bytes}); remove unknown ones; return their names."""
    changed = []
    for entry in os.scandir(folder) if folder.is_dir() else ():
        size = committed.get(entry.name, 0)
        if not entry.is_file(follow_symlinks=False) or entry.stat().st_size == size:
            continue
        if size == 0:
            os.unlink(entry.path)
        elif entry.stat().st_size > size:
            os.truncate(entry.path, size)
        changed.append(entry.name)
    return changed


def display_lines(frames: Iterable[Frame], first: int, last: int, encoding: str, *, longest: int = 20_000) -> list[str]:
    """Return the lines `first`…`last` (1-based, inclusive) of frames, in order, as text for people.

    Decoded (what can't be is shown as �), without terminal escapes, and cut at `longest` characters with an ellipsis. A line
    that is no longer kept is GONE where lines behind it are.
    """
    lines: list[str] = []
    for part in joined(frames):
        text = part.data.decode(encoding, "replace")
        found = text.removeprefix("\ufeff" if part.byte == 0 else "").split("\n")
        if found[-1] == "":
            found.pop()
        found = found[max(0, first - part.first_line) : max(0, last - part.first_line + 1)]
        if found:
            lines += [GONE] * (max(first, part.first_line) - max(first, 1) - len(lines))
            lines += [_for_people(line, longest) for line in found]
    return lines


def _for_people(line: str, longest: int) -> str:
    cut = line[: 2 * longest]
    shown = _ESCAPES.sub("", cut.rstrip("\r").replace("\r", " ␍ "))
    return shown if len(shown) <= longest and len(cut) == len(line) else shown[:longest] + "…"
