"""Causes of a collapsed policy."""

import numpy as np

from analysis.attribution import Clue
from analysis.clues import Seen, gradients_before, lr_jump, window
from analysis.segment import Segment
from messages import N_, Text

COLLAPSE = ("reward_collapse",)


def reward_rose(segment: Segment, row: int, known: int) -> Seen | None:
    """The reward did not suffer, or even rose, while the answers vanished: it pays for that."""
    before, now = window(segment, "reward", row - 10, row - 1), window(segment, "reward", known - 2, known)
    if len(before) < 2 or not len(now):
        return None
    gaps = {"before": float(np.median(before)), "now": float(np.median(now))}
    text = N_("the reward went from {before:.4g} to {now:.4g}")
    return Seen(gaps["now"] >= gaps["before"], Text(text, gaps))


def far_from_reference(segment: Segment, row: int, known: int) -> Seen | None:
    near = window(segment, "kl", row, known)
    if not len(near):
        return None
    return Seen(float(near.max()) > 0.5, Text(N_("the KL to the reference reached {kl:.3g}"), {"kl": float(near.max())}))


def gradients_around(segment: Segment, row: int, known: int) -> Seen | None:
    """The gradient norm rose while it happened."""
    before, near = window(segment, "grad_norm", max(row - 20, 0), row), window(segment, "grad_norm", row, known)
    if len(before) < 2 or not len(near) or np.median(before) <= 0:
        return gradients_before(segment, row, known)
    ratio = float(near.max() / np.median(before))
    return Seen(ratio > 5, Text(N_("the gradient norm reached {ratio:.3g}× its level"), {"ratio": ratio}))


CAUSES: dict[str, tuple[str, tuple[str, ...]]] = {
    "reward_pays_for_it": (
        N_("The reward pays for short or empty answers, or its penalties outweigh it"),
        (N_("Read the answers, and give what is too short no reward; check the sign and size of length and KL penalties."),),
    ),
    "update_too_large": (
        N_("Updates are too large: learning rate, clip range or number of epochs on one batch"),
        (N_("Lower the learning rate, narrow the clip range, and do fewer updates on a batch."),),
    ),
    "no_anchor": (
        N_("Nothing holds the policy near its reference"),
        (N_("Add or strengthen the KL penalty or the entropy bonus."),),
    ),
}

FIRST: dict[str, tuple[str, ...]] = {
    "reward_collapse": (
        N_("Stop the run if it still goes on, and read some answers from around this step."),
        N_("Go back to a checkpoint before it."),
    ),
}

CLUES: tuple[Clue, ...] = (
    Clue(COLLAPSE, "reward_pays_for_it", 3, ("reward",), reward_rose),
    Clue(COLLAPSE, "update_too_large", 3, ("grad_norm",), gradients_around),
    Clue(COLLAPSE, "update_too_large", 3, ("lr",), lr_jump),
    Clue(COLLAPSE, "no_anchor", 2, ("kl",), far_from_reference),
)

USUAL: dict[str, tuple[str, ...]] = {"reward_collapse": ("reward_pays_for_it", "update_too_large", "no_anchor")}
