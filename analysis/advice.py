"""What to do first about a symptom depends on what became of it: it goes on, the run has ended with it, or it came back.

`FIRST` in the tables of causes is for a run that goes on; here is what replaces it where nothing is left to stop.
"""

from collections.abc import Sequence
from dataclasses import replace

from analysis.attribution import table
from analysis.ending import current_launch, ending
from analysis.findings import Finding
from analysis.over import done, steps_left
from analysis.segment import Segment
from messages import N_, Text

NOTE_BATCH = N_("Note the batch of this step, so that the next spike can be compared.")

ENDED: dict[str, tuple[str, ...]] = {
    "spike": (
        N_("The log ends before the loss came back: see in an evaluation what the last checkpoint is worth."),
        NOTE_BATCH,
    ),
    "spike_unrecovered": (
        N_("Check gradient clipping before the next launch."),
        N_("Restart from a checkpoint about 100 steps before and skip the next 200 to 500 batches."),
    ),
    "spike_cluster": (
        N_("Restart from the checkpoint before the first of these spikes, with a lower learning rate or harder clipping."),
    ),
    "divergence": (N_("Take the best checkpoint before the rise began, not the last one."),),
    "non_finite": (
        N_("Restart from the last checkpoint before the first bad step: later ones may hold NaN."),
        N_("Lower the learning rate and clip gradients (max_norm 1.0)."),
        N_("Check the data of that step; train in BF16 or FP32 instead of fp16."),
    ),
    "grad_explosion": (N_("Clip gradients (max_norm 1.0) at the next launch; note the batch of this step."),),
    "grad_zero": (N_("Nothing was learned from there on: check for a stray detach() before the next launch."),),
    "loss_zero": (N_("Nothing was learned from there on: look at the labels of one batch before the next launch."),),
    "hang": (N_("Before the next launch look at the rank or node that differs; resume from the last checkpoint."),),
    "reward_collapse": (
        N_("Read some answers from around this step."),
        N_("Go back to a checkpoint before it."),
    ),
}

CAME_BACK: dict[str, tuple[str, ...]] = {
    "spike": (NOTE_BATCH,),
    "spike_unrecovered": (N_("Nothing is to be stopped: the loss came back. Check gradient clipping, and note the batch."),),
    "spike_cluster": (
        N_("Nothing is to be stopped: no spike came since. If they come again, change what makes the run unstable."),
    ),
    "divergence": (N_("Nothing is to be stopped: the loss came back. See what changed where the rise began."),),
    "non_finite": (
        N_("Nothing is to be stopped: finite values came back. See whether these steps were skipped or reached the weights."),
        N_("Check the data of these steps, and clip gradients (max_norm 1.0) if it comes again."),
    ),
    "grad_explosion": (N_("Nothing is to be stopped: the norm came back. Note the batch of this step."),),
    "grad_zero": (N_("Gradients came back: look for a stray detach(), frozen parameters or a mask in between."),),
    "loss_zero": (N_("The loss came back: look at the labels of a batch from in between."),),
    "hang": (N_("It went on by itself: look at the node, the storage and the network at that time."),),
    "reward_collapse": (N_("It came back: read some answers from around this step."),),
}


def is_over(segments: Sequence[Segment]) -> bool:
    """Say whether the last launch has ended: it failed, was stopped, is done by its plan, or says that it is finished."""
    current = current_launch(segments)
    return ending(segments) is not None or (len(current) > 0 and done(current, steps_left(current)) is not None)


def advised(finding: Finding, *, ended: bool) -> Finding:
    """Return a finding with the advice that fits what became of it; as it is where it goes on or nothing else is advised."""
    other = CAME_BACK if finding.last_step is not None else ENDED if ended else {}
    first, instead = table().first.get(finding.kind, ()), other.get(finding.kind)
    told = {text.template for text in finding.advice}
    if instead is None or not first or not told.issuperset(first):
        return finding
    rest = (text for text in finding.advice if text.template not in first)
    return replace(finding, advice=(*map(Text, instead), *rest))
