"""Numbers with a decimal comma: whether a log prints `2,31` for 2.31, told from its first lines, and reading it so.

`2,345` alone may be either. It is a decimal where the log prints other numbers that can't be thousands (`2,31`, `0,001`)
and none with a point, or where a loss or a rate is printed so and no number has a point.
"""

import re

import numpy as np

_PLACE = rb"(?m)(?:[:=;|\t]|[A-Za-z\x80-\xff](?= )|^)[ ]*[+-]?"  # what stands before a value
_END = rb"(?![0-9,.])"
_DECIMAL = re.compile(_PLACE + rb"(?:0,[0-9]+|[0-9]+,(?:[0-9]{1,2}|[0-9]{4,}))" + _END)
_POINT = re.compile(_PLACE + rb"[0-9]+\.[0-9]+" + _END)
_NAMED = (
    rb"(?i)(?:loss|lr|rate|norm|ppl|perplexity|\xe6\x8d\x9f\xe5\xa4\xb1|\xe5\xad\xa6\xe4\xb9\xa0\xe7\x8e\x87)[^0-9A-Za-z]{1,4}"
)
_MAYBE = re.compile(_NAMED + rb"[0-9]{1,3},[0-9]{3}" + _END)
_ANY = re.compile(_NAMED + rb"[0-9]+,[0-9]")
ENOUGH = 3  # numbers that tell


def told(sample: bytes) -> bool | None:
    """Say whether the numbers of a text have a decimal comma; None where more lines are needed to tell."""
    columns = b";" in sample and re.search(rb"[0-9],[0-9]+;", sample)
    if not (columns or _ANY.search(sample)):
        return False
    decimal, point = len(_DECIMAL.findall(sample)), len(_POINT.findall(sample))
    if point > decimal:
        return False
    return True if decimal >= ENOUGH and decimal > 10 * point else None


def likely(sample: bytes) -> bool:
    """Say the same where there are no more lines: a loss of `2,345` is no loss of thousands if no number has a point."""
    decimal, point = len(_DECIMAL.findall(sample)), len(_POINT.findall(sample))
    return decimal > point if decimal else bool(not point and len(_MAYBE.findall(sample)) > 1)


def pointed(data: bytes) -> bytes:
    """Return a text of the same length with a point for each comma between two digits."""
    text = np.frombuffer(data, np.uint8)
    digits = (text >= ord("0")) & (text <= ord("9"))
    commas = np.flatnonzero(text[1:-1] == ord(",")) + 1
    commas = commas[digits[commas - 1] & digits[commas + 1]]
    if not len(commas):
        return data
    copy = bytearray(data)
    np.frombuffer(copy, np.uint8)[commas] = ord(".")
    return bytes(copy)
