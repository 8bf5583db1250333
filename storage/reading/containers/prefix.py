"""What machines put in front of the lines of a program: a rank, a clock, a container's name, the level of a logger."""

import re

_CLOCK = rb"\[?\d{4}[-/]\d\d[-/]\d\d[ T]\d\d:\d\d:\d\d(?:[.,]\d{1,9})?(?:Z|[+-]\d\d:?\d\d)?\]?(?: -|:)?"
_PARTS = (
    rb"\[(?:rank|default)?\d{1,5}\]:?",  # torchrun
    rb"\d{1,5}:(?= )",  # srun --label
    rb"[A-Za-z][\w.-]{0,60} {1,20}\|(?= )",  # docker compose
    _CLOCK,
    rb"(?:[\w.]{1,60} - )?\[?(?:INFO|DEBUG|WARNING)\]?(?: -|:)?(?= )",
)
PREFIX = rb"(?:(?:" + rb"|".join(_PARTS) + rb") *){0,4}"
_PREFIX, _STAMP = re.compile(PREFIX), re.compile(rb"\d{4}[-/]\d\d[-/]\d\d[ T]\d\d:\d\d:\d\d(?:[.,]\d{1,6})?")


def length(raw: bytes) -> int:
    """Return how many bytes of a line are such a prefix."""
    found = _PREFIX.match(raw)
    return found.end() if found else 0


def stamp(raw: bytes) -> str | None:
    """Return the date and the time of the prefix of a line, None where it has none."""
    found = _STAMP.search(raw, 0, length(raw))
    return found.group().decode() if found else None
