"""Which column is the loss, and what kind of number it is: the total alone never decides where its parts are printed."""

from dataclasses import dataclass

import numpy as np

from analysis.segment import Segment
from messages import N_, Text

LOSSES = ("loss", "logits_loss", "aux_loss")
LANGUAGE = ("logits_loss", "lm_loss")  # names of the loss over words where the total has other tasks in it
RL_COLUMNS = ("reward", "kl", "policy_loss", "response_length")
PREFERENCE_COLUMNS = ("rewards/chosen", "rewards/rejected", "rewards/margins")


@dataclass(frozen=True)
class LossKind:
    """main: the column on which level and trend are judged, None without one; problem: why level rules do not apply."""

    main: str | None
    problem: Text | None = None


def loss_kind(segment: Segment) -> LossKind:
    """Say which loss to judge and whether its level means anything (worked out once a segment)."""
    return segment.once("loss_kind", lambda: _loss_kind(segment))


def is_reinforcement(segment: Segment) -> bool:
    """Say whether a policy is trained by rewards: its loss is signed and says nothing about success."""
    return segment.has("policy_loss") or sum(segment.has(name) for name in RL_COLUMNS) >= 2


def _loss_kind(segment: Segment) -> LossKind:
    main = _main(segment)
    if is_reinforcement(segment):
        return LossKind(main, Text(N_("this is a reinforcement-learning run: its loss has no level to hold")))
    if any(segment.has(name) for name in PREFERENCE_COLUMNS):
        return LossKind(main, Text(N_("this run learns preferences: its loss compares answers and has no level to hold")))
    if main is None:
        return LossKind(None)
    values = segment.values(main)
    values = values[np.isfinite(values)]
    if np.mean(values <= 0) > 0.01:
        share = float(np.mean(values <= 0))
        text = Text(N_("{share:.0%} of the losses are zero or negative: there is no level to hold"), {"share": share})
        return LossKind(main, text)
    return LossKind(main)


def _main(segment: Segment) -> str | None:
    """Return the language-modelling loss if the log prints it as often as the total, else the total."""
    names = (*LANGUAGE, "loss")
    counts = {name: int(np.isfinite(segment.values(name)).sum()) if segment.has(name) else 0 for name in names}
    part = next((name for name in LANGUAGE if counts[name]), None)
    if part and counts[part] >= 0.9 * counts["loss"]:
        return part
    return "loss" if counts["loss"] else None
