"""Causes of exploding, clipped, vanishing, zero and creeping gradients: what speaks for each, and what to do about it."""

import numpy as np

from analysis import clues
from analysis.attribution import Clue
from analysis.clues import Seen
from analysis.losses import loss_kind
from analysis.segment import Segment
from messages import N_, Text

BURST = ("grad_explosion",)
FADED = ("grad_vanishing", "grad_zero")
CREEP = ("grad_creep",)


def loss_jumped(segment: Segment, row: int, known: int) -> Seen | None:
    main = loss_kind(segment).main
    if main is None:
        return None
    scores = [clues.score_of(segment, main, at) for at in range(row, min(known + 1, row + 12, len(segment)))]
    scores = [score for score in scores if np.isfinite(score)]
    if not scores:
        return None
    highest = max(scores)
    return Seen(highest > 5, Text(N_("the loss rose {z:.0f} standard deviations with it"), {"z": highest}))


def weights_grew(segment: Segment, row: int, known: int) -> Seen | None:
    values = segment.values("params_norm")
    old, new = clues.window(segment, "params_norm", row - 50, row), clues.window(segment, "params_norm", known - 50, known)
    if not len(values) or not len(old) or not len(new) or np.median(old) <= 0:
        return None
    ratio = float(np.median(new) / np.median(old))
    return Seen(ratio > 1.1, Text(N_("the norm of the weights is {ratio:.3g}× what it was"), {"ratio": ratio}))


def policy_collapsed(segment: Segment, row: int, known: int) -> Seen | None:
    old, new = clues.window(segment, "entropy", 0, max(row - 1, 0)), clues.window(segment, "entropy", row, known)
    if not len(old) or not len(new) or np.median(old) <= 0:
        return None
    share = float(np.median(new) / np.median(old))
    return Seen(share < 0.3, Text(N_("the entropy of the policy is at {share:.0%} of what it was"), {"share": share}))


def loss_stands(segment: Segment, row: int, known: int) -> Seen | None:
    main = loss_kind(segment).main
    if main is None:
        return None
    near = clues.window(segment, main, row, known)
    if len(near) < 3:
        return None
    return Seen(bool(np.ptp(near) == 0), Text(N_("the loss is the same in every row since")))


CAUSES: dict[str, tuple[str, tuple[str, ...]]] = {
    "unstable": (
        N_("Updates are too large for this phase of training"),
        (N_("Lower the learning rate by a factor of 2 to 10 or warm up longer; clip gradients (max_norm 1.0)."),),
    ),
    "limit_low": (
        N_("The clipping limit lies below the usual norm of this model"),
        (N_("Compare the usual norm with the limit before you change the learning rate."),),
    ),
    "detached": (
        N_("A stray detach(), frozen parameters or a mask that leaves nothing to learn"),
        (N_("Check detach(), requires_grad and the loss mask; check the initialisation if it was so from the start."),),
    ),
    "collapse": (
        N_("The policy has collapsed: every answer is the same"),
        (N_("Go back to a checkpoint before it; raise the KL or entropy coefficient, lower the learning rate."),),
    ),
    "weights": (
        N_("Weights or attention logits grow"),
        (N_("More weight decay, QK-norm or z-loss; keep checkpoints from before the rise."),),
    ),
}

FIRST: dict[str, tuple[str, ...]] = {
    "grad_explosion": (N_("Clip gradients (max_norm 1.0), or pause if it lasts; note the batch of this step."),),
    "grad_clipped": (N_("Leave it if the loss falls well."),),
    "grad_vanishing": (N_("Look at the gradient norm of each layer."),),
    "grad_zero": (N_("Stop: nothing is learned. Check for a stray detach() first."),),
    "grad_creep": (N_("Keep checkpoints, and watch the loss for spikes."),),
}

CLUES: tuple[Clue, ...] = (
    Clue(BURST, "learning_rate", 4, ("lr",), clues.lr_jump),
    Clue(BURST, "resume", 4, (), clues.resumed, against=False),
    Clue(BURST, "data", 3, ("epoch",), clues.epoch_boundary, against=False),
    Clue(BURST, "unstable", 3, (), loss_jumped, against=False),
    Clue(BURST, "unstable", 1, ("lr",), clues.lr_high, against=False),
    Clue(BURST + FADED, "fp16", 4, ("loss_scale",), clues.scale_fell),
    Clue(BURST + FADED, "fp16", 4, ("skipped_iterations",), clues.steps_skipped, against=False),
    Clue(FADED, "collapse", 4, ("entropy",), policy_collapsed, against=False),
    Clue(FADED, "detached", 3, (), loss_stands, against=False),
    Clue(CREEP, "weights", 3, ("params_norm",), weights_grew),
    Clue(CREEP, "learning_rate", 3, ("lr",), clues.lr_rise),
    Clue(CREEP, "unstable", 1, ("lr",), clues.lr_high, against=False),
)

USUAL: dict[str, tuple[str, ...]] = {
    "grad_explosion": ("unstable", "data", "learning_rate"),
    "grad_clipped": ("limit_low", "unstable"),
    "grad_vanishing": ("detached", "fp16"),
    "grad_zero": ("detached", "fp16"),
    "grad_creep": ("weights", "unstable"),
}
