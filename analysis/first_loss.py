"""The first loss: what an untrained model of so many words has, and what the log shows.

A model that knows nothing gives every word the same chance: its loss is the natural logarithm of the vocabulary.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from analysis.evidence import unlog
from analysis.losses import loss_kind
from analysis.noise import track
from analysis.segment import Segment

LARGEST_VOCABULARY = 262_144
VOCABULARY_KEYS = ("vocab_size", "padded_vocab_size", "vocabulary_size", "n_vocab", "num_embeddings", "vocab")
FIRST_ROWS = 10
UNTRAINED = 5.0  # a loss below this is no untrained language model, unless its vocabulary is known to be small
LATE = 2.0  # usual distances of two rows: a first step beyond them does not begin anew
NEAR = 0.6  # of the expected first loss, below which the model was trained before


@dataclass(frozen=True)
class FirstLoss:
    """Where a launch began.

    first: the first finite loss, at `step` (None where the log gives none); level: median of up to ten first ones.
    vocabulary: number of words as configured, None where the log does not say; expected: its logarithm.
    implied: the vocabulary that `first` would be the loss of, None beyond any.
    anew: False where the launch goes on with an earlier one: the log says so, or its steps begin late.
    loaded: line before the first row that tells of a checkpoint, None without one.
    """

    first: float
    level: float
    step: int | None
    vocabulary: int | None
    expected: float | None
    implied: int | None
    anew: bool = True
    loaded: int | None = None

    @property
    def from_scratch(self) -> bool:
        """Say whether the launch begins anew and the model looks untrained at the first rows."""
        return self.anew and self.loaded is None and self.first > (NEAR * self.expected if self.expected else UNTRAINED)


def first_loss(segment: Segment) -> FirstLoss | None:
    """Return where the main loss of a launch began, None without a positive loss; worked out once a segment."""
    return segment.once("first_loss", lambda: _first_loss(segment))


def from_scratch(segment: Segment) -> bool:
    """Say whether a launch begins with an untrained model."""
    known = first_loss(segment)
    return known is not None and known.from_scratch


def begins_anew(segment: Segment) -> bool:
    """Say whether a launch begins at its step 0, and no line before its first row says that it goes on with another."""
    steps = segment.steps()[:2]
    if segment.has("step") and len(steps) > 1 and steps[0] > LATE * max(abs(float(steps[1] - steps[0])), 1.0):
        return False
    return _said_before(segment, "resume") is None


def _said_before(segment: Segment, kind: str) -> int | None:
    """Return the line of the last event of a kind before the first row, None without one."""
    first, events = segment.line(0) if len(segment) else None, segment.events
    if not len(events) or first is None:
        return None
    lines = events["line"][events["kind"].eq(kind) & (events["line"] < first)]
    return int(lines.iloc[-1]) if len(lines) else None


def vocabulary_of(config: Mapping[str, Any]) -> int | None:
    """Return the vocabulary size that the log's configuration declares, None without one."""
    for key, value in config.items():
        if str(key).replace("/", ".").rpartition(".")[2].replace("-", "_").lower() in VOCABULARY_KEYS:
            try:
                words = int(float(value))
            except (TypeError, ValueError, OverflowError):
                continue
            if 2 <= words <= 10**8:
                return words
    return None


def _first_loss(segment: Segment) -> FirstLoss | None:
    main = loss_kind(segment).main
    loss = track(segment, main) if main else None
    if loss is None or not len(loss):
        return None
    first, level = unlog(loss.x[0]), unlog(np.median(loss.x[:FIRST_ROWS]))
    words = vocabulary_of(segment.config)
    implied = round(float(np.exp(first))) if first < 20 else None
    expected = float(np.log(words)) if words else None
    step = segment.step(int(loss.rows[0]))
    return FirstLoss(
        first, level, step, words, expected, implied, begins_anew(segment), _said_before(segment, "checkpoint_loaded")
    )
