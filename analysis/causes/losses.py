"""Causes of what the rules about the course of the loss find: clusters, oscillation, dips, levels, evaluation, the start."""

import numpy as np

from analysis import clues
from analysis.attribution import Clue
from analysis.clues import Seen, window
from analysis.evaluations import evaluations
from analysis.evidence import times
from analysis.first_loss import first_loss
from analysis.losses import loss_kind
from analysis.schedule import rates
from analysis.segment import Segment
from analysis.warm_restarts import warm_restarts
from messages import N_, Text

MODEL_KEYS = (
    *("model_name_or_path", "pretrained_model", "finetune_from", "resume_from"),
    *("init_checkpoint", "init_pretraining_params", "init_from_checkpoint", "load_checkpoint"),
)
CLUSTER, SWING, DIP, SHIFT = ("spike_cluster",), ("oscillation",), ("dip",), ("level_shift",)


def rate_changed(segment: Segment, row: int, known: int) -> Seen | None:
    course = rates(segment)
    ratios = [course.changed(at) for at in range(row, min(known, row + 8) + 1)] if course else []
    found = [ratio for ratio in ratios if ratio]
    if not found:
        return None
    return Seen(True, Text(N_("the learning rate went to {ratio:.2g} of what it was"), {"ratio": found[-1]}))


def resumed_before(segment: Segment, row: int, known: int) -> Seen | None:
    seen = clues.resumed(segment, row, known)
    return seen if seen and seen.holds else None


def near_zero(segment: Segment, row: int, known: int) -> Seen | None:
    main = loss_kind(segment).main
    near = window(segment, main, known - 5, known) if main else np.zeros(0)
    if not len(near) or np.median(near) >= 0.3:
        return None
    return Seen(True, Text(N_("the loss is at {level:.2g}, near zero"), {"level": float(np.median(near))}))


def data_changed(segment: Segment, row: int, known: int) -> Seen | None:
    """The log says so, or an episode or stage column moves, shortly before."""
    events, line, start = segment.events, segment.line(known), segment.line(max(row - 20, 0))
    if not len(events) or line is None or start is None:
        return None
    near = events[(events["kind"] == "dataset_change") & events["line"].between(start, line)]
    if not len(near):
        return None
    return Seen(True, Text(N_("line {line:,} speaks of a change of the data"), {"line": int(near["line"].iloc[-1])}))


def batch_changed(segment: Segment, row: int, known: int) -> Seen | None:
    before, now = window(segment, "batch_size", row - 20, row - 1), window(segment, "batch_size", row, known)
    if not len(before) or not len(now):
        return None
    gaps = {"before": float(before[-1]), "now": float(now[-1])}
    return Seen(gaps["before"] != gaps["now"], Text(N_("the batch size went from {before:.0f} to {now:.0f}"), gaps))


def epochs_done(segment: Segment, row: int, known: int) -> Seen | None:
    epochs = window(segment, "epoch", 0, known)
    if not len(epochs):
        return None
    done = float(epochs[-1] - min(epochs[0], 1.0))
    return Seen(done >= 1, Text(N_("{epochs:.1f} epochs were done: samples repeat"), {"epochs": done}))


def training_fell(segment: Segment, row: int, known: int) -> Seen | None:
    main = loss_kind(segment).main
    before, now = (window(segment, main, at - 50, at) for at in (row, known)) if main else (np.zeros(0), np.zeros(0))
    if not len(before) or not len(now):
        return None
    gaps = {"before": float(np.median(before)), "now": float(np.median(now))}
    text = N_("the training loss went on falling, from {before:.4g} to {now:.4g}")
    return Seen(gaps["now"] < gaps["before"], Text(text, gaps))


def went_up(segment: Segment, row: int, known: int) -> Seen | None:
    return _went(segment, row, up=True)


def went_down(segment: Segment, row: int, known: int) -> Seen | None:
    return _went(segment, row, up=False)


def _went(segment: Segment, row: int, *, up: bool) -> Seen | None:
    """Say in which direction the evaluation jumped that is known since a row."""
    found = evaluations(segment)
    at = int(np.searchsorted(found.rows, row)) if found else 0
    if found is None or not 0 < at < len(found):
        return None
    if (found.loss[at] > found.loss[at - 1]) != up:
        return None
    return Seen(True, Text(N_("it jumped up") if up else N_("it jumped down")))


def gradients_broke(segment: Segment, row: int, known: int) -> Seen | None:
    near = segment.values("grad_norm")[row : known + 1]
    if not len(near):
        return None
    return Seen(not np.isfinite(near).any(), Text(N_("the gradient norm is {norm} there"), {"norm": f"{near[-1]:.3g}"}))


def gradients_zero(segment: Segment, row: int, known: int) -> Seen | None:
    near = window(segment, "grad_norm", max(row, known - 20), known)
    if not len(near):
        return None
    return Seen(bool(np.median(near) <= 1e-8), Text(N_("the gradient norm is at {norm:.2g}"), {"norm": float(np.median(near))}))


def rate_high(segment: Segment, row: int, known: int) -> Seen | None:
    """More than is usual for any model: 3e-3, which only small models bear."""
    near = window(segment, "lr", row, known)
    if not len(near):
        return None
    return Seen(near.max() > 3e-3, Text(N_("the learning rate is {lr:.2g}"), {"lr": float(near.max())}))


def rate_low(segment: Segment, row: int, known: int) -> Seen | None:
    near = window(segment, "lr", 0, known)
    if not len(near):
        return None
    return Seen(near.max() < 2e-6, Text(N_("the learning rate never passed {lr:.2g}"), {"lr": float(near.max())}))


def falls_from_there(segment: Segment, row: int, known: int) -> Seen | None:
    return _first_course(segment, known, fell=True)


def stays_there(segment: Segment, row: int, known: int) -> Seen | None:
    return _first_course(segment, known, fell=False)


def _first_course(segment: Segment, known: int, *, fell: bool) -> Seen | None:
    main = loss_kind(segment).main
    values = window(segment, main, 0, max(known, 1)) if main else np.zeros(0)
    if len(values) < 2 or (values[-1] < 0.9 * values[0]) != fell:
        return None
    gaps = {"first": float(values[0]), "last": float(values[-1])}
    return Seen(True, Text(N_("within the first rows it went from {first:.4g} to {last:.4g}"), gaps))


def falls_slowly(segment: Segment, row: int, known: int) -> Seen | None:
    main = loss_kind(segment).main
    first, now = (window(segment, main, at, at + 9) for at in (0, known - 9)) if main else (np.zeros(0), np.zeros(0))
    if not len(first) or not len(now) or not 0 < np.median(now) < 0.99 * np.median(first):
        return None
    share = 1 - times(float(np.median(now)), float(np.median(first)))
    return Seen(True, Text(N_("it does fall: {share:.1%} of the first loss is gone"), {"share": share}))


def rate_restarted(segment: Segment, row: int, known: int) -> Seen | None:
    found = [one for one in warm_restarts(segment) if one.row - 3 <= row]
    if not found:
        return None
    gaps = {"low": found[-1].low, "high": found[-1].high}
    return Seen(True, Text(N_("the learning rate rose from {low:.3g} back to {high:.3g} and falls again"), gaps))


def model_loaded(segment: Segment, row: int, known: int) -> Seen | None:
    """The log tells of a checkpoint before the first row, or the configuration names a model to begin with."""
    begin = first_loss(segment)
    if begin is not None and begin.loaded is not None:
        return Seen(True, Text(N_("line {line:,} tells of a checkpoint that was loaded"), {"line": begin.loaded}))
    for key, value in segment.config.items():
        if str(key).replace("/", ".").rpartition(".")[2].replace("-", "_").lower() in MODEL_KEYS and value:
            return Seen(True, Text(N_("the configuration names {key}"), {"key": str(key)}))
    return None


CAUSES: dict[str, tuple[str, tuple[str, ...]]] = {
    "loaded": (
        N_("It began from trained weights: fine-tuning, another phase, or a checkpoint"),
        (N_("Compare its losses only with launches that began from the same weights."),),
    ),
    "instability": (
        N_("The run is at the edge of stability: learning rate, attention logits or optimizer state"),
        (N_("Lower the learning rate, add QK-norm or a z-loss, set Adam's eps to 1e-8 and beta2 to 0.95."),),
    ),
    "rate_too_high": (
        N_("The learning rate is too high for this batch, or the batch too small"),
        (N_("Lower the learning rate by a factor of ten, or take a larger batch."),),
    ),
    "data_order": (
        N_("Data come in a fixed order: an epoch, a shard or a curriculum"),
        (N_("Shuffle the data, and mix sources within a batch."),),
    ),
    "repeats": (
        N_("Samples that the model has seen before: repeated, duplicated or leaked"),
        (N_("Compare the sample ids with earlier ones; deduplicate; check shuffling and the position after a resume."),),
    ),
    "answer_shown": (
        N_("The answer is visible: attention mask, label shift or a leak"),
        (N_("Check the causal mask and the shift of the labels on one batch; judge by an evaluation on unseen data."),),
    ),
    "schedule_step": (N_("The learning rate changed here: this belongs to the schedule"), ()),
    "data_stage": (
        N_("Another stage or mixture of the data, or another batch or sequence length"),
        (N_("Note the stage at this step, and compare losses only within a stage."),),
    ),
    "too_many_epochs": (
        N_("Overfitting: too many epochs, too little data or too little regularisation"),
        (N_("Stop at the best evaluation; use more data, dropout or weight decay, or a smaller model."),),
    ),
    "contamination": (
        N_("Contamination or leakage: training and evaluation data overlap"),
        (N_("Search the training data for samples of the evaluation set (n-gram overlap), and split again."),),
    ),
    "evaluation_changed": (
        N_("What is evaluated changed: data set, preprocessing, number of batches or checkpoint"),
        (N_("Compare the evaluation's settings before and after, and repeat it with the checkpoint before."),),
    ),
    "labels_masked": (
        N_("All labels are masked out: nothing is left to predict"),
        (N_("Print the labels of one batch and count those that are not -100; check the template and the cut-off length."),),
    ),
    "numbers_broke": (
        N_("An underflow or overflow in fp16, or an attention backend that fails silently"),
        (N_("Train in BF16, and try another attention implementation."),),
    ),
    "rate_destroys": (
        N_("The learning rate is so high that the first steps destroy the model"),
        (N_("Lower the learning rate by a factor of 10, or lengthen the warm-up."),),
    ),
    "other_weights": (
        N_("The weights that were loaded do not belong to this model, or were not loaded"),
        (N_("Compare the loss before the first update with an evaluation of the checkpoint."),),
    ),
    "loss_summed": (
        N_("The loss is summed or scaled instead of averaged, or the labels are shifted"),
        (N_("Compare the loss before the first update with ln(vocabulary)."),),
    ),
    "few_data": (
        N_("Little is learned a step: few data, a small effective batch, or a small model"),
        (N_("Give it more steps or a larger effective batch before you conclude that something is broken."),),
    ),
}

FIRST: dict[str, tuple[str, ...]] = {
    "spike_cluster": (
        N_("Do not go on skipping batches: change what makes the run unstable."),
        N_("Restart from the checkpoint before the first of these spikes, with a lower learning rate or harder clipping."),
    ),
    "dip": (N_("Look at the samples of these steps, and at the evaluation loss."),),
    "overfit": (N_("Keep the checkpoint of the best evaluation: later ones are worse."),),
    "eval_jump": (N_("Repeat this evaluation with the same checkpoint and the earlier settings."),),
    "loss_zero": (N_("Stop: nothing is learned any more. Look at the labels of one batch."),),
    "initial_loss": (N_("Print the loss before the first update: it should be near ln(vocabulary)."),),
    "warm_restart": (N_("Nothing: compare losses at the ends of the cycles, where the rate is low."),),
    "trained_before": (N_("Nothing, if trained weights were meant to be loaded; else find out which were."),),
    "no_learning": (
        N_("Overfit one tiny batch: if that fails, look at labels, padding mask and frozen weights."),
        N_("If it works, raise the learning rate 5 to 10 times."),
    ),
    "level_shift": (N_("Note what was changed at this step."),),
    "oscillation": (N_("Compare the period with that of an epoch, a shard and the gradient accumulation."),),
}

CLUES: tuple[Clue, ...] = (
    Clue(CLUSTER, "learning_rate", 4, ("lr",), clues.lr_jump),
    Clue(CLUSTER, "learning_rate", 1, ("lr",), clues.lr_high, against=False),
    Clue(CLUSTER, "gradients", 3, ("grad_norm",), clues.gradients_with, against=False),
    Clue(CLUSTER, "gradients", 2, ("grad_norm",), clues.gradients_before, against=False),
    Clue(CLUSTER, "resume", 3, (), clues.resumed),
    Clue(CLUSTER, "fp16", 4, ("loss_scale",), clues.scale_fell),
    Clue(DIP + SHIFT, "schedule_step", 5, ("lr",), rate_changed, against=False),
    Clue(DIP, "repeats", 4, ("epoch",), clues.epoch_boundary, against=False),
    Clue(DIP, "repeats", 2, (), resumed_before, against=False),
    Clue(DIP, "answer_shown", 3, (), near_zero, against=False),
    Clue(DIP + SHIFT, "data_stage", 5, (), data_changed, against=False),
    Clue(SHIFT, "data_stage", 3, ("batch_size",), batch_changed, against=False),
    Clue(SHIFT, "resume", 4, (), clues.resumed, against=False),
    Clue(("overfit",), "too_many_epochs", 3, ("epoch",), epochs_done),
    Clue(("overfit",), "too_many_epochs", 2, (), training_fell, against=False),
    Clue(("overfit",), "contamination", 2, (), near_zero, against=False),
    Clue(("eval_jump",), "evaluation_changed", 3, (), went_up, against=False),
    Clue(("eval_jump",), "contamination", 3, (), went_down, against=False),
    Clue(("eval_jump",), "resume", 3, (), resumed_before, against=False),
    Clue(("loss_zero",), "numbers_broke", 4, ("grad_norm",), gradients_broke),
    Clue(("loss_zero",), "numbers_broke", 3, ("loss_scale",), clues.scale_fell, against=False),
    Clue(("loss_zero",), "labels_masked", 3, ("grad_norm",), gradients_zero),
    Clue(("initial_loss",), "rate_destroys", 3, ("lr",), rate_high),
    Clue(("initial_loss",), "rate_destroys", 2, (), falls_from_there, against=False),
    Clue(("initial_loss",), "loss_summed", 3, (), stays_there, against=False),
    Clue(("initial_loss",), "other_weights", 3, (), model_loaded, against=False),
    Clue(("warm_restart",), "schedule_step", 5, ("lr",), rate_restarted),
    Clue(("trained_before",), "loaded", 3, (), model_loaded, against=False),
    Clue(("no_learning",), "low_rate", 3, ("lr",), rate_low),
    Clue(("no_learning",), "frozen", 4, ("grad_norm",), gradients_zero, against=False),
    Clue(("no_learning",), "few_data", 2, (), falls_slowly, against=False),
    Clue(("no_learning",), "rate_destroys", 2, ("lr",), rate_high, against=False),
    Clue(SWING, "rate_too_high", 2, ("lr",), clues.lr_high, against=False),
    Clue(SWING, "learning_rate", 4, ("lr",), clues.lr_rise),
    Clue(SWING, "data_order", 3, ("epoch",), clues.epoch_boundary, against=False),
)

USUAL: dict[str, tuple[str, ...]] = {
    "dip": ("repeats", "answer_shown", "data_stage"),
    "level_shift": ("data_stage",),
    "overfit": ("too_many_epochs", "contamination"),
    "eval_jump": ("evaluation_changed", "contamination"),
    "loss_zero": ("labels_masked", "numbers_broke"),
    "warm_restart": ("schedule_step",),
    "trained_before": ("loaded",),
    "initial_loss": ("start", "rate_destroys", "loss_summed"),
    "no_learning": ("labels", "low_rate", "frozen", "data"),
    "oscillation": ("rate_too_high", "data_order"),
    "spike_cluster": ("instability", "gradients", "learning_rate", "data"),
}
