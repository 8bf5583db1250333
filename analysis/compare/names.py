"""Short names for runs that are compared: what tells them apart is kept."""

import os
import re
from collections.abc import Sequence

from analysis.compare.subject import Subject

LONGEST, HEAD = 36, 8  # characters of a short name, of its beginning and before what tells it, where that is in its middle


def names_of(subjects: Sequence[Subject]) -> list[str]:
    """Return a short name for each subject: without its ending and the parts that all names share, all of them different."""
    full = [one.name for one in subjects]
    parts = [re.split(r"[-_ ./]+", re.sub(r"\.(?:log|txt|out|jsonl?|csv|gz|zst|err)$", "", name)) for name in full]
    shared = set.intersection(*(set(part) for part in parts)) if len(parts) > 1 else set()
    short = ["-".join(word for word in part if word and word not in shared) for part in parts]
    short = [name if name else one for name, one in zip(short, full, strict=True)]
    if len(set(short)) < len(short):
        return [f"{_cut(name, full)} ({one.id[:8]})" for name, one in zip(full, subjects, strict=True)]
    short = [_lead(name, short) if len(parts) > 1 else one for name, one in zip(short, full, strict=True)]
    cut = [_cut(name, short) for name in short]
    return [name if cut.count(name) == 1 else f"{name} ({one.id[:8]})" for name, one in zip(cut, subjects, strict=True)]


def _lead(name: str, names: Sequence[str]) -> str:
    """Return the first word of a name where that alone tells the names apart."""
    firsts = [one.split("-")[0] for one in names]
    return name.split("-")[0] if len(set(firsts)) == len(firsts) else name


def _cut(name: str, names: Sequence[str]) -> str:
    """Return a name with LONGEST characters at most: what it does not share with the other long ones, and its ends."""
    if len(name) <= LONGEST:
        return name
    long = [one for one in names if len(one) > LONGEST]
    start = len(os.path.commonprefix(long)) if len(long) > 1 else 0
    end = len(os.path.commonprefix([one[::-1] for one in long])) if len(long) > 1 else 0
    told = name[max(start - HEAD, 0) : max(len(name) - end, start)]
    # What tells it is near its beginning, nothing of its own, or nearly all of it.
    if start < 2 * HEAD or end == len(name) or not told or len(told) > LONGEST - HEAD - 2:
        return f"{name[: LONGEST // 2]}…{name[-(LONGEST - LONGEST // 2 - 1) :]}"
    room = LONGEST - HEAD - len(told) - 2
    tail = name[max(len(name) - end, start) :]
    return f"{name[:HEAD]}…{told}" + (tail if len(tail) <= room + 1 else f"…{tail[len(tail) - room :] if room else ''}")
