"""The first loss: what an untrained model of so many words has, and what the log shows.

A model that knows nothing gives every word the same chance: its loss is the natural logarithm of the vocabulary.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from analysis.losses import loss_kind
from analysis.noise import track
from analysis.segment import Segment

LARGEST_VOCABULARY = 262_144
VOCABULARY_KEYS = ("vocab_size", "padded_vocab_size", "vocabulary_size", "n_vocab", "num_embeddings", "vocab")
FIRST_ROWS = 10
UNTRAINED = 5.0  # a loss below this is no untrained language model, unless its vocabulary is known to be small
NEAR = 0.6  # of the expected first loss, below which the model was trained before


@dataclass(frozen=True)
class FirstLoss:
    """Where a launch began.

    first: the first finite loss, at `step` (None where the log gives none); level: median of up to ten first ones.
    vocabulary: number of words as configured, None where the log does not say; expected: its logarithm.
    implied: the vocabulary that `first` would be the loss of, None beyond any.
    """

    first: float
    level: float
    step: int | None
    vocabulary: int | None
    expected: float | None
    implied: int | None

    @property
    def from_scratch(self) -> bool:
        """Say whether the model looks untrained at the first rows."""
        return self.first > (NEAR * self.expected if self.expected else UNTRAINED)


def first_loss(segment: Segment) -> FirstLoss | None:
    """Return where the main loss of a launch began, None without a positive loss; worked out once a segment."""
    return segment.once("first_loss", lambda: _first_loss(segment))


def from_scratch(segment: Segment) -> bool:
    """Say whether a launch begins with an untrained model."""
    known = first_loss(segment)
    return known is not None and known.from_scratch


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
    first, level = float(np.exp(min(loss.x[0], 690))), float(np.exp(min(np.median(loss.x[:FIRST_ROWS]), 690)))
    words = vocabulary_of(segment.config)
    implied = round(float(np.exp(first))) if first < 20 else None
    expected = float(np.log(words)) if words else None
    return FirstLoss(first, level, segment.step(int(loss.rows[0])), words, expected, implied)
