"""The early verdict: what could be said within the first 1,000 steps of a launch, and from which step on."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from analysis.segment import Segment
from messages import Text

EARLY_STEPS = 1000


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
