"""Lines that break off: a log whose last line has no end, lines that a capture cut at the size of its buffer, and lines
without the unit that their last number should have.

The last number of such a line may be the beginning of another one: 2.3 of 2.3456, 4 of 410.5ms. It is believed only if it
has as many decimals as the same number of another line; else, and without its unit, it is left out, and the report says so.
"""

import re
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from storage.reading.arrays import edges

# Bytes of the buffers that cut lines: of a terminal, of pipes and of a container's log driver.
BUFFERS = (4095, 4096, 8191, 8192, 16383, 16384)
_UNIT = re.compile(r"[A-Za-zµ%/]{0,8}")
_LAST = re.compile(rb"(?<![0-9A-Za-z_])[+-]?[0-9][0-9._]*(?:[eE][+-]?[0-9]*)?$")


@dataclass
class Ends:
    """How many lines broke off in a number that was left out, and the first of them."""

    count: int = 0
    first: int = 0

    def note(self, line: int) -> None:
        """Count a line."""
        self.count += 1
        self.first = self.first or line


def cut(lines: pa.Array) -> np.ndarray:
    """Return which lines (each with its line end) are exactly as long as a buffer."""
    if not len(lines):
        return np.zeros(0, bool)
    lengths = np.diff(edges(lines)) - 1
    return np.isin(lengths, BUFFERS) if lengths.max() >= BUFFERS[0] else np.zeros(len(lengths), bool)


def unit(rest: str) -> str | None:
    """Return the unit that stands behind the last number of a line ("": none); None where more than a unit follows."""
    return rest if _UNIT.fullmatch(rest) else None


def whole(number: str, example: str) -> bool:
    """Say whether a number at the end of a line is whole: it has the decimals of another such number, or is the same."""
    decimals, exponent = _decimals(number)
    return number == example or decimals > 0 and not exponent and (decimals, exponent) == _decimals(example)


def _decimals(number: str) -> tuple[int, bool]:
    digits, *exponent = re.split("[eE]", number)
    return len(digits.partition(".")[2]), bool(exponent)


def without_last(line: bytes, example: bytes) -> bytes | None:
    """Return a line of a table without its last number, None where that is whole or the line ends with none."""
    found, other = _LAST.search(line), _LAST.search(example)
    if found is None or other and whole(found.group().decode(), other.group().decode()):
        return None
    return line[: found.start()]
