"""The first lines of a log: enough is held back to tell what the file is, and no more."""

from base64 import b64decode, b64encode
from collections.abc import Callable
from typing import Any

import numpy as np

from storage.reading.decode import Block

# After so many lines it is tried to tell what the file is (often, for a log that is followed waits meanwhile) …
LINES = (1, 2, 3, 5, 8, 12, 18, 27, 40, 60, 90, 135, 200, 300, 400)
BYTES = 1 << 16  # … and at the latest after so many bytes


class Head:
    """Collects lines until `decide(sample, final)` gives an answer; the answer does not depend on how the lines came."""

    def __init__(self) -> None:
        self._data = bytearray()
        self._numbers = np.array([], np.int64)
        self._tried = 0

    def feed(self, block: Block, decide: Callable[[bytes, bool], str | None]) -> str | None:
        """Add lines; return the answer as soon as there is one."""
        self._data += block.data
        self._numbers = np.concatenate((self._numbers, block.numbers))
        if not (len(self._numbers) >= LINES[self._tried] or len(self._data) >= BYTES):
            return None
        ends = np.flatnonzero(np.frombuffer(bytes(self._data), np.uint8) == 10) + 1
        limit = int(np.searchsorted(ends, BYTES)) + 1
        while self._tried < len(LINES):
            count = min(LINES[self._tried], limit)
            if count > len(ends):
                return None
            self._tried += 1
            final = count == limit or self._tried == len(LINES)
            if answer := decide(bytes(self._data[: ends[count - 1]]), final):
                return answer
        return None

    def finish(self, decide: Callable[[bytes, bool], str | None]) -> str | None:
        """Return the answer for a log that is as short as that; None if it has no line."""
        return decide(bytes(self._data), True) if len(self._numbers) else None

    def take(self) -> Block:
        """Return all lines and hold none any more."""
        block = Block(bytes(self._data), self._numbers)
        self._data, self._numbers = bytearray(), np.array([], np.int64)
        return block

    def state(self) -> dict[str, Any]:
        """Return what must be remembered, JSON-able."""
        return {"data": b64encode(bytes(self._data)).decode(), "numbers": self._numbers.tolist(), "tried": self._tried}

    def restore(self, state: dict[str, Any]) -> None:
        """Go on from what `state` returned."""
        self._data, self._numbers = bytearray(b64decode(state["data"])), np.array(state["numbers"], np.int64)
        self._tried = state["tried"]
