"""What is no text: images, archives, checkpoints and other binary files, told by their first bytes or by control bytes."""

from typing import Any

import numpy as np

from messages import N_, Text
from storage.types import UnreadableLog

CHECKPOINTS = (512, 4096, 65536)  # bytes after which the share of control bytes is judged
MAX_CONTROL = 0.05
MAGIC = (
    (b"\x89PNG", "PNG"), (b"\xff\xd8\xff", "JPEG"), (b"GIF8", "GIF"), (b"%PDF", "PDF"), (b"BM", "BMP"), (b"RIFF", "RIFF"),
    (b"PK\x03\x04", "ZIP"), (b"\x7fELF", "ELF"), (b"\xfd7zXZ", "XZ"), (b"BZh", "bzip2"), (b"7z\xbc\xaf", "7-Zip"),
    (b"PAR1", "Parquet"), (b"\x89HDF", "HDF5"), (b"SQLite format 3", "SQLite"), (b"\x93NUMPY", "NumPy"), (b"GGUF", "GGUF"),
    (b"\x80\x02", "pickle"), (b"\x80\x03", "pickle"), (b"\x80\x04", "pickle"), (b"\x80\x05", "pickle"), (b"ARROW1", "Arrow"),
)  # fmt: skip
_TEXTUAL = b"\t\n\r\x08\x0c\x1b"
_CONTROL = np.zeros(256, bool)
_CONTROL[[c for c in range(32) if c not in _TEXTUAL] + [127]] = True


class BinaryCheck:
    """Watches the first 64 KiB; raises UnreadableLog as soon as it is sure that this is no text."""

    def __init__(self) -> None:
        self._seen = self._control = self._zeros = 0

    def magic(self, head: bytes) -> None:
        """Raise UnreadableLog if the first bytes are those of a well-known binary file."""
        for magic, kind in MAGIC:
            if head.startswith(magic) and (len(magic) > 2 or not head[:16].isascii()):
                raise _binary(N_("This file is {kind}, not a text log. Give the text that the training printed."), kind)

    def feed(self, data: bytes) -> None:
        """Count the control bytes of the next bytes of the text."""
        while self._seen < CHECKPOINTS[-1] and data:
            stop = next(point for point in CHECKPOINTS if point > self._seen)
            part, data = data[: stop - self._seen], data[stop - self._seen :]
            self._seen += len(part)
            self._zeros += part.count(0)
            self._control += int(np.count_nonzero(_CONTROL[np.frombuffer(part, np.uint8)]))
            if self._seen == stop:
                self._judge()

    def finish(self) -> None:
        """Judge what there was; a text of zero bytes only is binary."""
        if self._seen and self._zeros == self._seen and self._seen < CHECKPOINTS[-1]:
            raise _binary(N_("The file holds only zero bytes: the disk was full, or the copy failed."), "")
        self._judge()

    def _judge(self) -> None:
        """Raise if too many bytes are control bytes; zeros alone may be a hole that log rotation left."""
        others = self._control - self._zeros
        if others > MAX_CONTROL * max(1, self._seen - self._zeros):
            raise _binary(N_("This is a binary file, not a text log. Give the text that the training printed."), "")

    def state(self) -> list[int]:
        """Return what must be remembered, JSON-able."""
        return [self._seen, self._control, self._zeros]

    def restore(self, state: Any) -> None:
        """Go on from what `state` returned."""
        self._seen, self._control, self._zeros = state


def _binary(template: str, kind: str) -> UnreadableLog:
    return UnreadableLog("binary", Text(template, {"kind": kind}))
