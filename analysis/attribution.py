"""From symptom to cause: a transparent table. Every clue adds or takes a stated weight, and what the log does not hold
is called not observable, never absent.

`CLUES` says which observation speaks for which cause of which symptom and how much; `CAUSES` says what to do about a
cause; `FIRST` says what to do about a symptom before its cause is known, while the run goes on (`analysis/advice.py` has
what to do once it does not). Here are those about losses and rates; the other families have theirs in `analysis/causes/`,
in the same form.
"""

import pkgutil
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from importlib import import_module

from analysis import causes as folder
from analysis import clues
from analysis.clues import Seen
from analysis.evidence import finite
from analysis.findings import Cause
from analysis.segment import Segment
from messages import N_, Text

SHOWN = 4  # causes shown a finding
AGAINST = 1.0  # what an observation that does not hold takes from its cause

JUMP = ("spike", "spike_unrecovered")
LEVEL = ("divergence",)
FLAT = ("plateau",)
NAN = ("non_finite",)


@dataclass(frozen=True)
class Clue:
    """One row of the table: in the symptoms `kinds`, what `probe` sees speaks for `cause` with `weight`.

    needs: columns without which it can't be seen. against: whether not seeing it speaks against the cause.
    """

    kinds: tuple[str, ...]
    cause: str
    weight: float
    needs: tuple[str, ...]
    probe: Callable[[Segment, int, int], Seen | None]
    against: bool = True


CAUSES: dict[str, tuple[str, tuple[str, ...]]] = {
    "learning_rate": (
        N_("The learning rate changed or is too high"),
        (N_("Go back to the previous learning rate, or lower it by a factor of 2 to 10."),),
    ),
    "resume": (
        N_("A resume did not restore the whole state (optimizer, scheduler, data position)"),
        (N_("Compare learning rate, random state and data position before and after the resume."),),
    ),
    "data": (
        N_("The data: a hard or dirty batch, or a new epoch or shard"),
        (N_("Log the batch or file id at each step and look at the samples of this one; skip it if it is damaged."),),
    ),
    "gradients": (
        N_("Exploding gradients: updates became unstable"),
        (N_("Check that gradients are clipped (max_norm 1.0); lower the learning rate, add QK-norm, set Adam's eps to 1e-8."),),
    ),
    "router": (
        N_("The auxiliary (routing) loss moved, not the language-modelling loss"),
        (N_("Look at the balance of the experts and at the weight of the auxiliary loss."),),
    ),
    "fp16": (
        N_("fp16 overflow: the loss scale collapsed or steps were skipped"),
        (N_("Train in BF16, or switch autocast off for the layer that overflows."),),
    ),
    "start": (
        N_("The start: initialisation, warm-up, mask or labels"),
        (N_("Check initialisation, warm-up length, attention mask and labels on one batch."),),
    ),
    "bad_values": (
        N_("NaN or extreme values in the data"),
        (N_("Check the samples of this step for NaN, empty texts and extreme values."),),
    ),
    "logging": (
        N_("The log: this value covers more steps than its neighbours"),
        (N_("Nothing in the training: lines are missing just before."),),
    ),
    "low_rate": (
        N_("The learning rate is too low to learn further"),
        (N_("Raise the learning rate 5 to 10 times, or check whether the schedule ended too early."),),
    ),
    "labels": (
        N_("Data or labels: the model has learned word frequencies and nothing more"),
        (N_("Overfit one tiny batch: if that fails, look at labels, padding mask and shuffling."),),
    ),
    "data_distribution": (
        N_("The distribution of the data: not shuffled, one-sided or repeating"),
        (N_("Check that the data are shuffled, and mix sources within a batch."),),
    ),
    "local_optimum": (
        N_("A local optimum, or a stretch of the loss surface with hardly any slope"),
        (N_("Restart the learning-rate schedule with a warm restart, or raise the rate for some time."),),
    ),
    "frozen": (
        N_("Gradients have vanished or weights are frozen"),
        (N_("Check for a stray detach(), frozen parameters and the initialisation."),),
    ),
    "schedule": (
        N_("The learning-rate schedule is not the one that was meant"),
        (N_("Compare the scheduler's arguments (warm-up, total steps, minimum) with the plan."),),
    ),
}

FIRST: dict[str, tuple[str, ...]] = {
    "spike": (
        N_("Pause and look if the loss does not come back; check gradient clipping."),
        N_("Note the batch of this step, so that the next spike can be compared."),
    ),
    "spike_unrecovered": (
        N_("Stop the run if it still goes on, and check gradient clipping."),
        N_("Restart from a checkpoint about 100 steps before and skip the next 200 to 500 batches."),
    ),
    "divergence": (N_("Stop the run if it still goes on, and restore the best checkpoint before the rise began."),),
    "plateau": (N_("Check that the data is shuffled and that the learning rate is what you meant."),),
    "non_finite": (
        N_("Stop the run if it still goes on, and restart from the last checkpoint before the first bad step."),
        N_("Lower the learning rate and clip gradients (max_norm 1.0)."),
        N_("Check the data of that step; train in BF16 or FP32 instead of fp16."),
    ),
    "overflow": (N_("Nothing, if it is rare: the scaler skips the step and lowers its scale. Else train in BF16."),),
    "lr_anomaly": (N_("Print the scheduler's state and compare it with the plan before you go on."),),
}

CLUES: tuple[Clue, ...] = (
    Clue(JUMP + NAN, "learning_rate", 4, ("lr",), clues.lr_jump),
    Clue(LEVEL, "learning_rate", 4, ("lr",), clues.lr_rise),
    Clue(LEVEL + NAN, "learning_rate", 1, ("lr",), clues.lr_high, against=False),
    Clue(JUMP + NAN + LEVEL, "resume", 4, (), clues.resumed),
    Clue(JUMP + LEVEL, "data", 3, ("epoch",), clues.epoch_boundary),
    Clue(JUMP, "data", 3, ("grad_norm",), clues.lone_row, against=False),
    Clue(JUMP + NAN, "gradients", 3, ("grad_norm",), clues.gradients_before),
    Clue(JUMP, "gradients", 2, ("grad_norm",), clues.gradients_with, against=False),
    Clue(LEVEL, "gradients", 3, ("grad_norm",), clues.gradients_grew),
    Clue(JUMP, "router", 4, ("aux_loss", "logits_loss"), clues.only_aux_moved),
    Clue(JUMP + NAN, "fp16", 4, ("loss_scale",), clues.scale_fell),
    Clue(JUMP + NAN, "fp16", 4, ("skipped_iterations",), clues.steps_skipped, against=False),
    Clue(NAN + JUMP, "start", 3, (), clues.first_rows, against=False),
    Clue(NAN, "bad_values", 1, ("grad_norm",), clues.gradients_calm, against=False),
    Clue(JUMP, "logging", 5, (), clues.rows_missing, against=False),
    Clue(FLAT, "low_rate", 4, ("lr",), clues.lr_low),
    Clue(FLAT, "frozen", 3, ("grad_norm",), clues.gradients_tiny),
    Clue(FLAT, "labels", 3, (), clues.little_learned),
    Clue(("lr_anomaly",), "resume", 4, (), clues.resumed),
)

# Causes that are possible without any clue, in the order in which to think of them
USUAL: dict[str, tuple[str, ...]] = {
    "spike": ("data", "gradients", "learning_rate"),
    "spike_unrecovered": ("learning_rate", "gradients", "data"),
    "divergence": ("learning_rate", "gradients", "data"),
    "plateau": ("low_rate", "labels", "data_distribution", "local_optimum"),
    "non_finite": ("learning_rate", "gradients", "bad_values", "fp16"),
    "lr_anomaly": ("schedule", "resume"),
    "overflow": ("fp16", "gradients"),
}


@dataclass(frozen=True)
class Table:
    """All families together: what to do about a cause, what to do first, the clues, and the usual causes of a symptom."""

    causes: dict[str, tuple[str, tuple[str, ...]]]
    first: dict[str, tuple[str, ...]]
    clues: tuple[Clue, ...]
    usual: dict[str, tuple[str, ...]]


@cache
def table() -> Table:
    """Return the table of every family."""
    whole = Table(dict(CAUSES), dict(FIRST), CLUES, dict(USUAL))
    for name in sorted(item.name for item in pkgutil.iter_modules(folder.__path__)):
        family = import_module(f"{folder.__name__}.{name}")
        causes, first = whole.causes | family.CAUSES, whole.first | family.FIRST
        whole = Table(causes, first, whole.clues + family.CLUES, whole.usual | family.USUAL)
    return whole


def explain(segment: Segment, kind: str, row: int, *, known: int | None = None) -> tuple[tuple[Cause, ...], tuple[Text, ...]]:
    """Return the ranked causes of a symptom that began at `row` and is known to `known` (default: `row`), and advice.

    Advice: first what to do whatever the cause, then what to do about each cause that has evidence.
    """
    usual = table().usual.get(kind, ())
    names = dict.fromkeys(usual)
    names.update(dict.fromkeys(clue.cause for clue in table().clues if kind in clue.kinds))
    order = list(names)
    rows = (row, row if known is None else known)
    weighed = sorted((_weigh(segment, kind, rows, name) for name in names), key=lambda c: (-c.score, order.index(c.name)))
    causes = tuple(c for c in weighed if c.score > 0 or c.name in usual)[:SHOWN]
    proven = [table().causes[cause.name][1] for cause in causes if cause.score > 0]
    advice = dict.fromkeys([*table().first.get(kind, ()), *(line for lines in proven for line in lines)])
    return causes, tuple(map(Text, advice))


def _weigh(segment: Segment, kind: str, rows: tuple[int, int], name: str) -> Cause:
    score, supports, contradicts, unobservable = 0.0, [], [], []
    for clue in table().clues:
        if clue.cause != name or kind not in clue.kinds:
            continue
        missing = [column for column in clue.needs if not segment.logs(column)]
        seen = None if missing else clue.probe(segment, *rows)
        unobservable += missing
        if seen is None:
            continue
        if seen.holds:
            score += clue.weight
            supports.append(finite(seen.text))
        elif clue.against:
            score -= AGAINST
            contradicts.append(finite(seen.text))
    return Cause(
        name, Text(table().causes[name][0]), score, tuple(supports), tuple(contradicts), tuple(dict.fromkeys(unobservable))
    )
