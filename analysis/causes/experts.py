"""Causes of what the rules about the parts of the loss and about experts find."""

import numpy as np

from analysis.attribution import Clue
from analysis.clues import Seen, lr_high, window
from analysis.evidence import times
from analysis.segment import Segment
from messages import N_, Text

PARTS, DENSE, UNEVEN, SHARE = ("decomposition",), ("dense_aux",), ("aux_imbalance",), ("aux_share",)


def constant_gap(segment: Segment, row: int, known: int) -> Seen | None:
    """The gap is the same at every row: a term of its own."""
    off = _off(segment, row, known)
    if len(off) < 3 or abs(np.median(off)) < 1e-12:
        return None
    spread = times(float(np.ptp(off)), float(abs(np.median(off))))
    return Seen(spread < 0.5, Text(N_("the gap hardly changes ({gap:.4g})"), {"gap": float(np.median(off))}))


def in_proportion(segment: Segment, row: int, known: int) -> Seen | None:
    """The gap goes with the main loss: it is divided or multiplied by something."""
    total, main = window(segment, "loss", row, known), window(segment, "logits_loss", row, known)
    if len(total) != len(main) or len(main) < 3 or np.any(main <= 0):
        return None
    ratios = total / main
    ratio = float(np.median(ratios))
    whole = abs(ratio - round(ratio)) < 0.05 and round(ratio) >= 2
    if np.ptp(ratios) > 0.05 * ratio or not (whole or ratio < 0.6):
        return None
    return Seen(True, Text(N_("the total is {ratio:.3g}× the main loss at every row"), {"ratio": ratio}))


def _off(segment: Segment, row: int, known: int) -> np.ndarray:
    parts = [segment.values(name)[row : known + 1] for name in ("loss", "logits_loss", "aux_loss")]
    off = parts[0] - parts[1] - parts[2]
    return off[np.isfinite(off)]


def weight_changed(segment: Segment, row: int, known: int) -> Seen | None:
    """The auxiliary loss went up from one row to the next."""
    before, now = window(segment, "aux_loss", row - 20, row - 1), window(segment, "aux_loss", row, row + 5)
    if len(before) < 5 or not len(now) or np.median(before) <= 0:
        return None
    ratio = times(float(np.median(now)), float(np.median(before)))
    return Seen(ratio > 1.3, Text(N_("it went to {ratio:.3g}× within a few rows"), {"ratio": ratio}))


def crept_up(segment: Segment, row: int, known: int) -> Seen | None:
    seen = weight_changed(segment, row, known)
    return None if seen is None else Seen(not seen.holds, seen.text)


CAUSES: dict[str, tuple[str, tuple[str, ...]]] = {
    "extra_term": (
        N_("A term that is not printed, such as a z-loss, is part of the total"),
        (N_("Print every term of the loss with its weight."),),
    ),
    "logged_apart": (
        N_("One of them is averaged, scaled or taken at another moment than the others"),
        (N_("Log all parts at the same point of the step, after the same reduction."),),
    ),
    "configuration": (
        N_("The configuration does not describe the model that is trained"),
        (N_("Compare the number of experts and the routing of the model that is built with the configuration."),),
    ),
    "routing_collapse": (
        N_("The routing collapses: few experts get most of the tokens"),
        (N_("Raise the weight of the auxiliary loss, add a router z-loss, and look at the tokens per expert."),),
    ),
    "weight_too_large": (
        N_("The weight of the auxiliary loss is too large"),
        (N_("Lower its weight; one to ten thousandths of the total is usual."),),
    ),
}

FIRST: dict[str, tuple[str, ...]] = {
    "decomposition": (N_("Judge by the language-modelling loss until the parts add up."),),
    "dense_aux": (N_("Find out which model is trained before you go on."),),
    "aux_imbalance": (N_("Look at the number of tokens that each expert gets."),),
    "aux_share": (N_("Judge by the language-modelling loss, not by the total."),),
}

CLUES: tuple[Clue, ...] = (
    Clue(PARTS, "extra_term", 3, (), constant_gap),
    Clue(PARTS, "logged_apart", 4, (), in_proportion, against=False),
    Clue(UNEVEN + SHARE, "routing_collapse", 3, (), crept_up),
    Clue(UNEVEN + SHARE, "weight_too_large", 3, (), weight_changed, against=False),
    Clue(UNEVEN, "learning_rate", 1, ("lr",), lr_high, against=False),
)

USUAL: dict[str, tuple[str, ...]] = {
    "decomposition": ("extra_term", "logged_apart"),
    "dense_aux": ("configuration",),
    "aux_imbalance": ("routing_collapse", "weight_too_large"),
    "aux_share": ("weight_too_large", "routing_collapse"),
}
