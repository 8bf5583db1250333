"""gzip and zstd, a piece at a time, with a bound on what a small file may unpack to."""

import zlib
from collections.abc import Iterator

from backports import zstd

from messages import N_, Text
from storage.types import UnreadableLog

PIECE = 1 << 22  # bytes unpacked at a time
MAX_RATIO, MAX_BYTES = 300, 1 << 30  # a file that unpacks to more than both is a decompression bomb


def packed_as(head: bytes) -> str | None:
    """Return `gzip` or `zstd` if a file that begins so is packed, else None."""
    if head.startswith(b"\x1f\x8b\x08"):
        return "gzip"
    return "zstd" if head.startswith(b"\x28\xb5\x2f\xfd") else None


class Unpacker:
    """Unpacks one file; `damaged` says that it breaks off or is corrupt, `packed` and `unpacked` count bytes."""

    def __init__(self, kind: str) -> None:
        self.packed = self.unpacked = 0
        self.damaged = False
        self._gzip = kind == "gzip"
        self._start()

    def _start(self) -> None:
        self._stream = zlib.decompressobj(31) if self._gzip else zstd.ZstdDecompressor()

    def feed(self, data: bytes) -> Iterator[bytes]:
        """Yield what these bytes unpack to, PIECE bytes at most at a time. Raises UnreadableLog for a bomb."""
        self.packed += len(data)
        while data and not self.damaged:
            if self._stream.eof:  # packed files may follow one another, padded with zeros
                data = data.lstrip(b"\0")
                self._start()
                continue
            for piece in self._pieces(data):
                self.unpacked += len(piece)
                if self.unpacked > max(MAX_BYTES, MAX_RATIO * self.packed):
                    raise UnreadableLog(
                        "too_large",
                        Text(N_("The packed file unpacks to far more than a log would. Unpack it and look at it first.")),
                    )
                yield piece
            data = self._stream.unused_data

    def finish(self) -> None:
        """Note whether the file ended where its packing says it ends. Raises UnreadableLog if it held no byte."""
        self.damaged = self.damaged or not self._stream.eof
        if self.damaged and not self.unpacked:
            raise UnreadableLog(
                "truncated_archive", Text(N_("The packed file is damaged or breaks off before any text. Copy it again."))
            )

    def _pieces(self, data: bytes) -> Iterator[bytes]:
        try:
            while True:
                piece = self._stream.decompress(data, PIECE)
                if piece:
                    yield piece
                data = self._stream.unconsumed_tail if self._gzip else b""  # type: ignore[union-attr]
                done = not data if self._gzip else self._stream.needs_input  # type: ignore[union-attr]
                if self._stream.eof or done and len(piece) < PIECE:
                    return
        except (zlib.error, zstd.ZstdError):
            self.damaged = True
