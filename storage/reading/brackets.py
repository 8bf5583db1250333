"""A number in brackets that begins every line, `[100] loss: 0.53`: whether it is the step, told from the first lines.

It may be the rank as well. A step grows from line to line; ranks come again and again, so lines enough that only grow are
steps: fewer where they grow by more than one, for ranks do so by chance only.
"""

import re

_LINE = re.compile(
    rb"(?m)^\[ *([0-9]{1,15}) *\][ :|,-]+(?=[^\n]*(?i:loss|ppl|perplexity|\blr\b|reward|\xe6\x8d\x9f\xe5\xa4\xb1))[^\n]*\n"
)
ENOUGH, ENOUGH_BY_ONE = 10, 20  # lines that tell; those where each number is one more than the one before
AT_END = 3  # … in a log of no more lines, if they grow by more than one


def told(sample: bytes) -> bool | None:
    """Say whether such numbers are steps; None where more lines are needed to tell."""
    numbers = _numbers(sample)
    if not numbers or not _grow(numbers):
        return False
    if len(numbers) >= ENOUGH_BY_ONE or len(numbers) >= ENOUGH and _by_more(numbers):
        return True
    return None


def likely(sample: bytes) -> bool:
    """Say the same where there are no more lines."""
    numbers = _numbers(sample)
    return len(numbers) >= AT_END and _grow(numbers) and _by_more(numbers)


def _numbers(sample: bytes) -> list[int]:
    """Return the first numbers in brackets, as many as tell."""
    found = _LINE.finditer(sample) if sample.startswith(b"[") or b"\n[" in sample else ()
    return [int(match[1]) for match, _ in zip(found, range(ENOUGH_BY_ONE), strict=False)]


def _grow(numbers: list[int]) -> bool:
    return all(one < other for one, other in zip(numbers, numbers[1:], strict=False))


def _by_more(numbers: list[int]) -> bool:
    return all(other - one > 1 for one, other in zip(numbers[:ENOUGH], numbers[1:ENOUGH], strict=False))
