"""The case library: shapes of a curve with their name, what is behind each, what to do, and where the like was seen.

The pictures come from the rules' own examples (`Rule.sick`) and from the simulator, so they are what the rules really judge.
Numbers from public runs are those that their reports give.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from analysis.registry import all_rules
from analysis.segment import Segment
from analysis.simulate import simulate
from messages import N_


@dataclass(frozen=True)
class Case:
    """A shape of a curve. All texts are English gettext messages.

    key: in the URL; title: its name; look: what one sees; why: what is behind it; do: what to do.
    seen: where the like was seen in public, empty where that is not known; rules: that find it, the first one draws it,
    empty for a healthy shape; kind: of the simulator that draws a healthy one; since: share of it that is left out of the
    picture; calm: drawn as means, without its noise; falls: where (share of the run) and by how much (share of the level)
    the learning rate lets it fall. warned: one of the five shapes to beware of.
    """

    key: str
    title: str
    look: str
    why: str
    do: str
    seen: str = ""
    rules: tuple[str, ...] = ()
    kind: str = ""
    since: float = 0.0
    calm: bool = False
    falls: tuple[tuple[float, float], ...] = ()
    warned: bool = False

    @property
    def healthy(self) -> bool:
        """Whether it is a shape that only looks like trouble."""
        return not self.rules

    def segment(self) -> Segment:
        """Return the run that the picture shows."""
        if self.healthy:
            return _fallen(simulate(rows=4000, seed=3, kind=self.kind).segment, self.falls)
        sick: Callable[[], Segment] = next(rule.sick for rule in all_rules() if rule.name == self.rules[0])
        return sick()


def _fallen(segment: Segment, falls: tuple[tuple[float, float], ...]) -> Segment:
    """Return a run whose loss falls at some places, within a fiftieth of the run, and stays there."""
    rows = segment.rows
    way = np.arange(len(rows)) / len(rows)
    factor = np.ones(len(rows))
    for at, by in falls:
        factor *= 1 - by * (1 - np.exp(-np.maximum(way - at, 0) / 0.02))
    return replace(segment, rows=rows.assign(loss=rows["loss"] * factor))


def case_of(rule: str) -> Case | None:
    """Return the case that shows what a rule finds, None where there is none."""
    return next((case for case in CASES if rule in case.rules), None)


CASES = (
    Case(
        "never_falls",
        N_("The loss does not fall"),
        N_("The curve starts at the level of a model that knows nothing and stays there, with its noise."),
        N_(
            "Nothing that is learned reaches the weights: a learning rate far too low, labels or a mask that leave nothing to "
            "learn, frozen or detached parameters, or a fault in the model."
        ),
        N_(
            "Overfit one small batch. If that works, the data or the rate is at fault: check the data, raise the rate. If it "
            "does not, look at labels, mask, gradients and the model itself."
        ),
        rules=("no_learning",),
        warned=True,
    ),
    Case(
        "nan",
        N_("The loss turns into NaN"),
        N_("The curve ends in the middle: from one row on there is no number any more, often after a few huge gradients."),
        N_(
            "A value left the range of its number format: exploding gradients, a learning rate too high, fp16 without scaling, "
            "or a NaN in the data. One NaN in the weights makes every later loss NaN."
        ),
        N_(
            "Stop: the rest is lost time. Go back to the last checkpoint before it, clip gradients, lower the rate, train in "
            "bf16, and check the samples of the step before."
        ),
        rules=("non_finite",),
        warned=True,
    ),
    Case(
        "swings",
        N_("The loss swings hard"),
        N_("The curve goes up and down with a fixed period, or ever more widely, where it should only tremble."),
        N_(
            "The steps are too long: the rate is too high for this batch, so that each step overshoots. A fixed "
            "period that fits "
            "an epoch or a shard points at the order of the data instead."
        ),
        N_(
            "Compare the period with epochs, shards and accumulation. If it fits none, lower the rate, warm up, "
            "or enlarge the batch."
        ),
        rules=("oscillation",),
        warned=True,
    ),
    Case(
        "memorises",
        N_("Training falls, evaluation gets worse"),
        N_("Two curves part like scissors: the training loss goes on falling while the evaluation turns and rises."),
        N_(
            "The model learns its training samples by heart: too many epochs over too little data. A sudden rise of the "
            "evaluation alone can also mean a changed or contaminated evaluation set."
        ),
        N_(
            "Keep the checkpoint of the best evaluation and stop there. More varied data helps most; also check "
            "the evaluation set for leaks."
        ),
        rules=("overfit", "eval_jump"),
        warned=True,
    ),
    Case(
        "late_rise",
        N_("The loss rises late and keeps rising"),
        N_("After a long normal fall the curve turns and climbs, slowly at first, with no single jump."),
        N_(
            "A learning rate that went wrong (schedule, resume), an instability that grows, or data that got "
            "harder or broken. If "
            "the evaluation stays flat, the data changed and not the model."
        ),
        N_(
            "Check the learning rate and the order of the data at the turn. Restore the best checkpoint; go on "
            "with half the rate."
        ),
        N_(
            "Marin 32B reports a rise of the training loss near step 190,000 with a flat evaluation: the order "
            "of the data had changed."
        ),
        rules=("divergence",),
        warned=True,
    ),
    Case(
        "spike",
        N_("A spike that comes back"),
        N_("The curve leaps up within a few rows and is at its old level again soon after."),
        N_(
            "One hard or dirty batch, or one overlong step. The weights were hardly moved, so the old course goes on by itself."
        ),
        N_("Nothing, if it is the only one: note the batch of that step. If they come more often, see “Spike after spike”."),
        N_("BLOOM 176B had one such spike and was back within about 200 steps."),
        rules=("spike",),
    ),
    Case(
        "spike_stays",
        N_("A jump that does not come back"),
        N_("The curve leaps up and goes on from the higher level, as if the work of thousands of steps had been undone."),
        N_(
            "The step was long enough to leave the valley: a learning rate that jumped, a resume without the state of the "
            "optimizer, or an fp16 overflow. Waiting rarely helps."
        ),
        N_(
            "Go back to a checkpoint about 100 steps before it and skip 200 to 500 batches. If it happens again, "
            "lower the rate."
        ),
        N_(
            "PaLM 540B met about 20 such jumps in spite of clipping and went on this way; the same batches did "
            "no harm from another state."
        ),
        rules=("spike_unrecovered",),
    ),
    Case(
        "spikes",
        N_("Spike after spike"),
        N_("Several spikes follow each other, closer and closer, each perhaps taking longer to come back."),
        N_("The run stands at the edge of what its rate and precision allow. The gradient norm usually creeps up before."),
        N_(
            "Do not wait for the one that stays: lower the rate, clip harder, add QK-norm or a z-loss, set "
            "Adam's beta2 to 0.95."
        ),
        N_("Marin 32B lost about 5 % of its steps to spikes between steps 70,000 and 80,000; QK-norm ended them."),
        rules=("spike_cluster", "grad_explosion", "grad_creep"),
    ),
    Case(
        "plateau",
        N_("Flat too early"),
        N_("The curve falls, then runs level although the learning rate is still high and much of the plan is left."),
        N_(
            "The model has learned how often words occur and nothing more: unshuffled or repeated data, a rate "
            "too low, a mask too wide."
        ),
        N_("Check shuffling and mask, then try twice the rate on a copy of the run. A tiny model may simply be full."),
        rules=("plateau",),
    ),
    Case(
        "dip",
        N_("Suddenly too good"),
        N_("The curve drops by a third for some rows, or lower than an honest model can be, and may come back."),
        N_("Samples that were seen before: repeated data, a shuffle that is none, or answers that stand in the prompt."),
        N_("Look for repeats around those steps and count duplicates. Trust no evaluation that shares data with them."),
        rules=("dip",),
    ),
    Case(
        "zero",
        N_("Exactly zero"),
        N_("The curve falls to 0.0000 from one row to the next and stays there."),
        N_("No loss is that good: all labels are masked, or the numbers broke and the framework prints 0 in place of NaN."),
        N_("Look at the labels of one batch (are all of them -100?), switch fp16 for bf16, and try another attention kernel."),
        rules=("loss_zero",),
    ),
    Case(
        "rate",
        N_("A learning rate that no schedule would set"),
        N_("The loss looks well, but the rate below it jumps, is negative, or lies at zero long before the end."),
        N_(
            "A scheduler that is stepped twice, that was not restored on a resume, or a plan that is counted in the wrong unit."
        ),
        N_("Print the rate at each step and compare it with the plan; save the scheduler beside the weights."),
        rules=("lr_anomaly",),
    ),
    Case(
        "restart",
        N_("Back to an earlier step"),
        N_("The steps fall back and go on from there; the loss joins the old curve, or does not."),
        N_("A crash and a resume from a checkpoint. The steps between are trained twice and paid twice."),
        N_(
            "If the loss lies higher afterwards, the optimizer, the scheduler or the data position was not "
            "restored: compare them."
        ),
        N_("The OPT-175B team restarted by hand at least 35 times within two months."),
        rules=("restart",),
    ),
    Case(
        "slow",
        N_("Steps take longer from some point on"),
        N_("The time of a step rises to a new level and stays there; the loss shows nothing of it."),
        N_("A slow card or link in the group, a hot card that throttles, or a loader that no longer keeps up."),
        N_("Compare ranks, temperature and waiting for data. One slow card slows all: take its node out."),
        rules=("slowdown",),
    ),
    Case(
        "leak",
        N_("Memory that only grows"),
        N_("The memory rises by a little with every step and never falls back."),
        N_(
            "Something keeps each step's graph alive: a loss that is summed without .item(), a list that grows, "
            "a fragmented allocator."
        ),
        N_("Search for tensors that are kept between steps; set expandable_segments; the page says when memory will be full."),
        rules=("memory_leak",),
    ),
    Case(
        "two_speeds",
        N_("Fast at first, then slow"),
        N_("The curve plunges, bends like a knee, and then falls so slowly that it looks flat."),
        N_("That is learning: words are learned in hundreds of steps, what depends on context takes most of the plan."),
        N_("Nothing. Use a logarithmic scale, or compare the last doubling of the steps with the one before."),
        kind="pretrain",
    ),
    Case(
        "noise",
        N_("Wide noise"),
        N_("The curve is a broad band; single rows lie far above or below their neighbours."),
        N_("Each row is the loss of one small batch, and texts differ. The band is as wide at the end as at the beginning."),
        N_("Nothing. Smooth the curve and judge its middle; a larger batch makes the band narrower by the root of its growth."),
        kind="small_batch",
        since=0.1,
    ),
    Case(
        "cooldown",
        N_("A steep fall near the end"),
        N_("After a long straight stretch the curve falls quickly once more."),
        N_("The learning rate is being lowered (a warm-up, stable, decay schedule): the noise in the weights settles."),
        N_("Nothing. A run of this kind must be compared after its cool-down, not before."),
        kind="wsd",
        since=0.3,
        calm=True,
        falls=((0.8, 0.09),),
    ),
    Case(
        "stairs",
        N_("Stairs"),
        N_("The curve falls in clear steps, each followed by a level stretch."),
        N_(
            "The learning rate is lowered in steps; each lets the loss fall. Stairs at the start of epochs mean "
            "repeated data instead."
        ),
        N_("Nothing if the steps are those of the rate. If they are those of epochs, watch the evaluation."),
        kind="step_drop",
        since=0.3,
        calm=True,
        falls=((0.6, 0.06), (0.85, 0.04)),
    ),
    Case(
        "bump",
        N_("A small step up that stays"),
        N_("The level rises by a few percent from one row to the next and the curve falls on from there, as before."),
        N_("The data changed: another mixture, longer texts, another language. The old level meant something else."),
        N_("Nothing, if you changed the data there. Compare only within one mixture, or by the evaluation."),
        kind="curriculum",
        since=0.25,
        calm=True,
    ),
    Case(
        "flat_end",
        N_("Flat at the end"),
        N_("The last third of the curve hardly falls."),
        N_("The model is near what it can learn from this data with this rate; small movements are noise."),
        N_("Nothing, or stop early. Lowering the rate to zero over the last tenth usually still brings something."),
        kind="late_plateau",
    ),
)


@dataclass(frozen=True)
class Symptom:
    """A row of a quick table: what one sees, its usual causes, what to try first; the rule that finds it."""

    symptom: str
    causes: str
    remedy: str
    rule: str


FIRST_AID = (
    Symptom(N_("Loss is NaN"), N_("a number overflowed"), N_("turn on gradient clipping"), "non_finite"),
    Symptom(N_("GPU use below 30 %"), N_("data comes too slowly"), N_("turn on pin_memory"), "utilisation_low"),
    Symptom(
        N_("Out of memory"), N_("the batch is too large"), N_("accumulate gradients over smaller batches"), "out_of_memory"
    ),
    Symptom(N_("Evaluation does not improve"), N_("overfitting"), N_("raise dropout"), "overfit"),
)
SYMPTOMS = (
    Symptom(
        N_("Loss does not fall"), N_("learning rate too low, or the data"), N_("try to overfit one small batch"), "no_learning"
    ),
    Symptom(
        N_("Loss is NaN"), N_("exploding gradients, or a rate too high"), N_("lower the rate, clip gradients"), "non_finite"
    ),
    Symptom(N_("Loss swings"), N_("rate too high, or a small batch"), N_("warm up, lower the rate"), "oscillation"),
    Symptom(
        N_("Evaluation gets worse"),
        N_("overfitting, or a contaminated evaluation set"),
        N_("make the data more varied"),
        "overfit",
    ),
    Symptom(N_("Out of memory"), N_("the batch is too large"), N_("smaller batch, mixed precision"), "out_of_memory"),
    Symptom(N_("GPU use is low"), N_("data loads too slowly"), N_("raise num_workers"), "utilisation_low"),
)
