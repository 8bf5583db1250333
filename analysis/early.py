"""The early verdict: what could be said within the first 1,000 steps of a launch, and from which step on.

Those steps stay as they are while the launch grows, so what was said of them is remembered by their content.
"""

import hashlib
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from threading import Lock
from typing import Any

import numpy as np

from analysis.segment import Segment
from messages import Text

EARLY_STEPS = 1000
MOST_REMEMBERED = 512  # verdicts that are remembered
_known: OrderedDict[bytes, "Early"] = OrderedDict()
_lock = Lock()


@dataclass(frozen=True)
class Early:
    """verdict and sentence as they stood after `step` (at most 1,000 steps into the launch); known_step: the step from
    which on that could be said, None where nothing was found."""

    verdict: str
    sentence: Text
    step: int
    known_step: int | None

    def to_dict(self) -> dict[str, Any]:
        """Return a JSON-ready form."""
        return {
            "verdict": str(self.verdict),
            "sentence": self.sentence.to_dict(),
            "step": self.step,
            "known_step": self.known_step,
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> "Early":
        """Read back what `to_dict` wrote."""
        return cls(data["verdict"], Text.from_dict(data["sentence"]), data["step"], data["known_step"])


def early_part(segment: Segment) -> Segment | None:
    """Return a launch as it looked after its first 1,000 steps, None where it has no more than that."""
    steps = segment.steps()
    if not len(steps) or not np.isfinite(steps).all():
        return None
    count = int(np.count_nonzero(np.maximum.accumulate(steps) <= max(steps[0] - 1, 0) + EARLY_STEPS))
    return segment.head(count) if 0 < count < len(segment) else None


def remembered(part: Segment, asked: object, judge: Callable[[Segment], Early]) -> Early:
    """Return what `judge` says of an early part, from memory where it was given the very same before.

    asked: what else the answer depends on (its `repr` tells it apart).
    """
    digest = hashlib.blake2b(repr(asked).encode())
    for piece in _content(part):
        digest.update(piece)
    key = digest.digest()
    with _lock:
        found = _known.get(key)
    early = found or judge(part)
    with _lock:
        _known[key] = early
        _known.move_to_end(key)
        while len(_known) > MOST_REMEMBERED:
            _known.popitem(last=False)
    return early


def _content(part: Segment) -> Iterator[bytes]:
    """Yield all that a launch is made of as bytes."""
    facts = (part.number, part.config, part.total_steps, part.silent_seconds, part.unmeasured, part.steps_printed)
    yield repr(facts).encode()
    for gaps in (part.absent, part.evals_absent):
        for name, where in gaps.items():
            yield repr((name, len(where))).encode() + where.tobytes()
    for frame in (part.rows, part.evals, part.events, part.telemetry, part.ranks):
        yield repr(frame.shape).encode()
        for name, column in frame.items():
            plain = isinstance(column.dtype, np.dtype) and column.dtype != object
            yield repr((name, str(column.dtype))).encode()
            yield column.to_numpy().tobytes() if plain else repr(column.tolist()).encode()
