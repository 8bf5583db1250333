"""The quickest way through lines of one shape: those whose numbers stand at the same places are read eight bytes at a time.

A layout is made from one line that a template reads. Another line has it if all bytes are equal except that a digit may
be any other digit: that is told for thousands of lines at once, by arithmetic on words of eight bytes, and so are the
numbers. A number of up to 15 digits is an exact integer divided (or multiplied) once by an exact power of ten, which
rounds as every parser does. What has no layout is left to the template.
"""

import re
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from storage.reading.tokens import Token, seconds_of

MAX_BYTES = 2048  # of a line that may have a layout
_WORD = 8
_LOW, _HIGH = np.uint64(0x7F7F7F7F7F7F7F7F), np.uint64(0x8080808080808080)
_ZEROS, _BEYOND_NINE = np.uint64(0x3030303030303030), np.uint64(0x7676767676767676)
_TAILS = np.array([(1 << 8 * (count or _WORD)) - 1 for count in range(_WORD)], np.uint64)  # the bytes of so many
_PATTERN_BITS, _SPREAD = 12, np.uint64(0x9E3779B97F4A7C15)  # an odd number whose bits are well mixed
_TURNED = 1024  # lines that are made columns at once: they stay in the processor's cache
PATTERNS = 1 << _PATTERN_BITS
_MAX_DIGITS, _MAX_POWER = 15, 22  # below 10^15 and 10^22 float64 is exact
_POWERS = 10.0 ** np.arange(_MAX_POWER + 1)
_DECIMAL = re.compile(r"([+-]?)([0-9]*)\.?([0-9]*)(?:[eE]([+-]?)([0-9]+))?")
_DAYS_BEFORE = np.array([0, 31, 59, 90, 120, 151, 181, 212, 243, 273, 304, 334])
_DAYS_OF = np.array([31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31])

Run = tuple[int, int]  # digits: where in the line they begin, how many


class _Number(NamedTuple):
    """How to read one number: `chunks` of up to eight digits, each with a weight; then sign, decimals and exponent."""

    chunks: tuple[tuple[tuple[Run, ...], float], ...] = ()
    negative: bool = False
    decimals: int = 0
    exponent: tuple[Run, int] | None = None  # its digits and its sign
    constant: float | None = None  # nan or inf
    stamp: bool = False


class Layout:
    """Lines of one length with the same text, and digits at the same places.

    `words`: how many a line has, its end included; `pattern`: what `patterns` says of it.
    """

    def __init__(self, line: str, found: Sequence[Token], wanted: Sequence[int]) -> None:
        """Take the places of the numbers from a line; `wanted` = the tokens to read. Raises ValueError if one can't be."""
        data = line.encode()
        if len(data) > MAX_BYTES:
            raise ValueError("too long a line")
        self.words = words_in(len(data))
        self.pattern = int(patterns(words_at(data, np.zeros(1, np.int64), np.array([len(data)])))[0])
        size = self.words * _WORD
        skeleton, slack = np.zeros(size, np.uint8), np.zeros(size, np.uint8)
        skeleton[: len(data)], slack[: len(data)] = np.frombuffer(data, np.uint8), 0x7F
        for token in found:
            start = len(line[: token.start].encode())
            for place in range(start, start + len(token.text)):
                if chr(data[place]).isdigit():
                    skeleton[place], slack[place] = ord("0"), 0x7F - 9
        self._skeleton = skeleton.view(np.uint64)[:, None]
        self._slack = slack.view(np.uint64)[:, None]
        self._numbers = [_number(found[index], len(line[: found[index].start].encode())) for index in wanted]
        self.key = skeleton.tobytes()

    def check(self, words: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return (words in which every digit byte holds its digit, which lines have this layout)."""
        digits = words ^ self._skeleton
        wrong = digits & _LOW
        wrong += self._slack
        wrong |= digits
        return digits, np.bitwise_or.reduce(wrong, axis=0) & _HIGH == 0

    def read(self, digits: np.ndarray) -> tuple[list[np.ndarray], np.ndarray]:
        """Return the wanted numbers of lines that have this layout, and which of them are sound.

        Unsound are dates that do not exist and powers of ten beyond what is exact.
        """
        pieces = [runs for number in self._numbers for runs, _ in number.chunks]
        pieces += [(number.exponent[0],) for number in self._numbers if number.exponent]
        sound = np.ones(digits.shape[1], bool)
        if not pieces:
            return [np.full(len(sound), number.constant) for number in self._numbers], sound
        words = np.empty((len(pieces), len(sound)), np.uint64)
        for runs, word in zip(pieces, words, strict=True):
            _gather(digits, runs, word)
        wholes = iter(_decimals(words).astype(np.float64))
        parts = [[next(wholes) for _ in number.chunks] for number in self._numbers]
        values = []
        for number, given in zip(self._numbers, parts, strict=True):
            if number.stamp:
                value, good = _milliseconds(given)
                sound &= good
            elif number.constant is not None:
                value = np.full(len(sound), number.constant)
            else:
                value = _sum(given, [weight for _, weight in number.chunks])
            values.append(value)
        for at, number in enumerate(self._numbers):
            power = next(wholes) * number.exponent[1] if number.exponent else 0.0
            values[at], good = _scaled(values[at], power - number.decimals, negative=number.negative)
            sound &= good
        return values, sound


def words_at(data: Any, starts: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """Return lines of as many words each, which begin at `starts` (rising): a column each, words of eight bytes.

    What the last word has beyond the end of its line is zero.
    """
    count = words_in(int(lengths[0]))
    size, rows = count * _WORD, np.frombuffer(data, np.uint8)
    last = len(rows) - size  # where a line may begin whose words lie in the text
    within = starts[: np.searchsorted(starts, last, "right")]
    words = np.empty((count, len(starts)), np.uint64)
    if len(within):
        every = np.ndarray((last + 1,), f"V{size}", rows, strides=(1,))
        for at in range(0, len(within), _TURNED):
            some = every[within[at : at + _TURNED]].view(np.uint64)
            words[:, at : at + len(some) // count] = some.reshape(-1, count).T
    for at in range(len(within), len(starts)):
        line = rows[starts[at] : starts[at] + lengths[at]]
        words[:, at] = np.pad(line, (0, size - len(line))).view(np.uint64)
    words[-1] &= _TAILS[lengths % _WORD]
    return words


def words_in(length: Any) -> Any:
    """Return how many words lines of these lengths have."""
    return (length + (_WORD - 1)) // _WORD


def patterns(words: np.ndarray) -> np.ndarray:
    """Return for each line a number below PATTERNS (int16) that is the same for lines with digits at the same places."""
    found, digits, other = np.zeros((3, words.shape[1]), np.uint64)
    for at, word in enumerate(words):
        np.bitwise_xor(word, _ZEROS, out=digits)
        np.bitwise_and(digits, _LOW, out=other)
        other += _BEYOND_NINE
        other |= digits
        other &= _HIGH  # one bit a byte: those of eight words have room beside each other
        other >>= np.uint64(at % _WORD)
        found ^= other
    found *= _SPREAD
    found >>= np.uint64(64 - _PATTERN_BITS)
    return found.astype(np.int16)


def _number(token: Token, start: int) -> _Number:
    """Return how to read a token that begins at a byte of its line; raises ValueError where it can't be read so."""
    runs = [(start + found.start(), len(found.group())) for found in re.finditer("[0-9]+", token.text)]
    if token.kind == "stamp":
        runs[6:] = [(begin, min(count, 3)) for begin, count in runs[6:]]
        weights = [1.0] * 6 + [10.0 ** (3 - count) for _, count in runs[6:]]
        return _Number(tuple(((run,), weight) for run, weight in zip(runs, weights, strict=True)), stamp=True)
    if token.kind in ("clock", "days", "span"):
        if "." in token.text:
            raise ValueError("a fraction of a second")
        weights = seconds_of(token.text) if token.kind == "span" else [86400.0, 3600.0, 60.0, 1.0][-len(runs) :]
        return _Number(tuple(((run,), weight) for run, weight in zip(runs, weights, strict=True) if _short(run)))
    if token.kind == "groups" and "." in token.text:
        raise ValueError("a fraction behind thousands")
    found = _DECIMAL.fullmatch(token.text.replace(",", "") if token.kind == "groups" else token.text)
    if found is None:
        return _Number(constant=float(token.text))
    exponent = None
    if found[5]:
        exponent = (runs.pop(), -1 if found[4] == "-" else 1)
        if len(found[5]) > 2:
            raise ValueError("an exponent of three digits")
    if len(found[2] + found[3]) > _MAX_DIGITS:
        raise ValueError("more digits than are exact")
    return _Number(tuple(_chunks(runs)), found[1] == "-", len(found[3]), exponent)


def _short(run: Run) -> bool:
    if run[1] > _WORD:
        raise ValueError("more digits than a word")
    return True


def _chunks(runs: Sequence[Run]) -> Iterator[tuple[tuple[Run, ...], float]]:
    """Yield up to eight digits at a time, from the right, as runs from left to right, with their weight."""
    chunk: list[Run] = []
    room, weight = _WORD, 1.0
    for start, count in reversed(runs):
        while count:
            taken = min(count, room)
            count, room = count - taken, room - taken
            chunk.insert(0, (start + count, taken))
            if not room:
                yield tuple(chunk), weight
                chunk, room, weight = [], _WORD, weight * 1e8
    if chunk:
        yield tuple(chunk), weight


def _gather(digits: np.ndarray, runs: Sequence[Run], words: np.ndarray) -> None:
    """Write words that hold the digits of some runs at their end (the highest bytes), zeros before."""
    right = 0
    for start, count in reversed(runs):
        at, shift = divmod(start, _WORD)
        word = np.right_shift(digits[at], np.uint64(8 * shift), out=None if right else words)
        if shift + count > _WORD:
            word |= digits[at + 1] << np.uint64(8 * (_WORD - shift))
        word <<= np.uint64(8 * (_WORD - count))
        if right:
            word >>= np.uint64(8 * right)
            words |= word
        right += count


def _decimals(words: np.ndarray) -> np.ndarray:
    """Turn words of eight digits (the first in the lowest byte) into the numbers that they stand for."""
    for factor, shift, mask in (
        (2561, 8, 0x00FF00FF00FF00FF),
        (6553601, 16, 0x0000FFFF0000FFFF),
        (42949672960001, 32, 0x00000000FFFFFFFF),
    ):
        words *= np.uint64(factor)
        words >>= np.uint64(shift)
        words &= np.uint64(mask)
    return words


def _sum(parts: Sequence[np.ndarray], weights: Sequence[float]) -> np.ndarray:
    total = parts[0] * weights[0] if weights[0] != 1 else parts[0]
    for part, weight in zip(parts[1:], weights[1:], strict=True):
        total = total + (part * weight if weight != 1 else part)
    return total


def _scaled(values: np.ndarray, power: Any, *, negative: bool) -> tuple[np.ndarray, Any]:
    """Return integers times a power of ten, rounded once, and which are exact."""
    sound: Any = True
    if isinstance(power, float):
        values = values / _POWERS[int(-power)] if power else values
    else:
        sound = np.abs(power) <= _MAX_POWER
        index = np.where(sound, power, 0).astype(np.int64)
        values = np.where(index < 0, values / _POWERS[np.maximum(-index, 0)], values * _POWERS[np.maximum(index, 0)])
    return (-values if negative else values), sound


def _milliseconds(parts: Sequence[np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """Return milliseconds since 1970 of [year, month, day, hour, minute, second, fraction], and which dates exist."""
    year, month, day, hour, minute, second = (part.astype(np.int64) for part in parts[:6])
    within = (month >= 1) & (month <= 12)
    index = np.where(within, month, 1) - 1
    leap = (year % 4 == 0) & ((year % 100 != 0) | (year % 400 == 0))
    good = within & (day >= 1) & (day <= _DAYS_OF[index] + (leap & (index == 1)))
    good &= (hour < 24) & (minute < 60) & (second < 60) & (year >= 1)
    before = year - 1
    days = before * 365 + before // 4 - before // 100 + before // 400 - 719162
    days = days + _DAYS_BEFORE[index] + (leap & (index > 1)) + day - 1
    whole = ((days * 24 + hour) * 60 + minute) * 60 + second
    return whole * 1000.0 + (parts[6] if len(parts) > 6 else 0.0), good
