"""The encoding of a log, found as its bytes come: UTF-8, UTF-16, GB18030 (with GBK), or Latin-1 when nothing else fits."""

import codecs
from base64 import b64decode, b64encode
from typing import Any

BOMS = {b"\xef\xbb\xbf": "utf-8", b"\xff\xfe": "utf-16-le", b"\xfe\xff": "utf-16-be"}


class Charset:
    """Decodes to UTF-8. `name` is the encoding by Python's name; a log that is ASCII so far counts as utf-8.

    UTF-16 is told by its mark (or by its zero bytes) at the start. Of the others the first line that is not ASCII tells:
    it is valid UTF-8, or Chinese in GB18030, or else Latin-1. So chunk borders make no difference.
    """

    def __init__(self) -> None:
        self.name = "utf-8"
        self._settled = False
        self._stream: codecs.IncrementalDecoder | None = None

    def open(self, head: bytes) -> bytes:
        """Look at the first bytes of the text; return them without the byte order mark."""
        for bom, name in BOMS.items():
            if head.startswith(bom):
                self._use(name)
                return head[len(bom) :]
        if len(head) >= 8 and (utf16 := _zeros_tell(head[:16])):
            self._use(utf16)
        return head

    def _use(self, name: str) -> None:
        self.name, self._settled = name, True
        if name.startswith("utf-16"):
            self._stream = codecs.getincrementaldecoder(name)("replace")

    def stream(self, data: bytes) -> bytes:
        """Turn UTF-16 into UTF-8, holding back half a character; return other bytes as they are."""
        return data if self._stream is None else self._stream.decode(data).encode("utf-8", "replace")

    def finish(self) -> bytes:
        """Return what is left of a character that was cut."""
        return b"" if self._stream is None else self._stream.decode(b"", True).encode("utf-8", "replace")

    def lines(self, block: bytes) -> bytes:
        """Return whole lines as valid UTF-8; bytes that are wrong in the encoding become U+FFFD."""
        if self._stream is not None or block.isascii():
            return block
        if not self._settled:
            self._settle(block)
        if self.name == "utf-8":
            return block.decode("utf-8", "replace").encode()
        return block.decode(self.name, "replace").encode("utf-8", "replace")

    def _settle(self, block: bytes) -> None:
        for line in block.splitlines():
            if not line.isascii():
                self.name, self._settled = _of_line(line), True
                return

    def state(self) -> dict[str, Any]:
        """Return what must be remembered, JSON-able."""
        pending = self._stream.getstate()[0] if self._stream else b""
        return {"name": self.name, "settled": self._settled, "pending": b64encode(pending).decode()}

    def restore(self, state: dict[str, Any]) -> None:
        """Go on from what `state` returned."""
        self._use(state["name"])
        self._settled = state["settled"]
        if self._stream:
            self._stream.setstate((b64decode(state["pending"]), 0))


def _zeros_tell(head: bytes) -> str | None:
    """Return the UTF-16 whose plain Latin text would begin like this: every second byte zero and no other."""
    even, odd = head[0 : len(head) // 2 * 2 : 2], head[1::2]
    if not any(odd) and all(even):
        return "utf-16-le"
    return "utf-16-be" if not any(even) and all(odd) else None


def _of_line(line: bytes) -> str:
    try:
        line.decode("utf-8")
        return "utf-8"
    except UnicodeDecodeError:
        pass
    try:
        line.decode("gb18030")
    except UnicodeDecodeError:
        return "latin-1" if not _mostly_utf8(line) else "utf-8"
    return "gb18030" if _looks_chinese(line) else "latin-1"


def _mostly_utf8(line: bytes) -> bool:
    """Say whether a line is UTF-8 with a little damage (cut in a character, a stray byte)."""
    text = line.decode("utf-8", "replace")
    good = sum(ord(c) > 127 and c != "\ufffd" for c in text)
    return good > 2 * text.count("\ufffd")


def _looks_chinese(line: bytes) -> bool:
    """Say whether most two-byte characters lie in the common part of GB2312: Latin-1 letters rarely stand in such pairs."""
    pairs = common = at = 0
    while at < len(line):
        if line[at] < 0x81:
            at += 1
            continue
        pairs += 1
        common += at + 1 < len(line) and 0xA1 <= line[at] <= 0xF7 and line[at + 1] >= 0xA1
        at += 2
    return 2 * common > pairs
