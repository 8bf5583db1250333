"""What a run is for, and so what matters most in it: told from the log where it can be, else chosen by a person.

Three groups: what is trained (told from the log), the stage of the work, and its purpose; the last two are those of the
source articles, each with the dimensions that they ask to look at first.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from analysis.losses import PREFERENCE_COLUMNS, RL_COLUMNS
from analysis.machine import number_of, squashed
from messages import N_, Text

KIND, STAGE, PURPOSE = "kind", "stage", "purpose"
GROUPS = {KIND: N_("What is trained"), STAGE: N_("Stage of the work"), PURPOSE: N_("Purpose")}
FEW_TRAINED = 0.1  # of the parameters: an adapter is trained, not the model
UNTRAINED_LOSS = 6.0  # a language model that begins above it knows nothing yet
VISION = ("crop_size", "base_size", "img_size", "image_size", "input_size", "backbone", "num_classes")
VISION_COLUMNS = ("miou", "top1", "top5", "acc1", "acc5", "map", "eval_pixacc", "loss_bbox", "loss_cls", "class_error")


@dataclass(frozen=True)
class Scenario:
    """A use of a log. All texts are English gettext messages.

    key: in the URL; group: KIND, STAGE or PURPOSE; title; focus: what to look at first, in a sentence; columns: drawn in
    addition to the usual ones where the log has them; parts: keys of the parts of log quality and of the dimensions of the
    checklist that matter most; pages: where to look.
    """

    key: str
    group: str
    title: str
    focus: str
    columns: tuple[str, ...] = ()
    parts: tuple[str, ...] = ()
    pages: tuple[str, ...] = ()


SCENARIOS: dict[str, Scenario] = {
    one.key: one
    for one in (
        Scenario(
            "pretraining",
            KIND,
            N_("Pre-training"),
            N_("Look at the main loss, the gradient norm and the learning rate together; a slow fall is most of the work."),
            ("grad_norm", "tokens_per_second"),
            ("losses", "rate", "plausibility", "convergence"),
            ("health", "cost"),
        ),
        Scenario(
            "sft",
            KIND,
            N_("Fine-tuning"),
            N_(
                "Look at the evaluation: training loss falls in stairs from epoch to epoch and soon only shows what "
                "is memorised."
            ),
            ("eval_loss",),
            ("evaluation", "convergence"),
            ("epochs", "health"),
        ),
        Scenario(
            "lora",
            KIND,
            N_("LoRA and other adapters"),
            N_("Look at evaluation and memory: few weights are trained, so rates are higher and gradients smaller than usual."),
            ("eval_loss", "memory_peak_bytes", "memory_bytes"),
            ("evaluation", "hardware", "performance"),
            ("epochs", "cost"),
        ),
        Scenario(
            "preference",
            KIND,
            N_("Preference learning (DPO and the like)"),
            N_(
                "The loss starts near 0.693 and tells little: look at the margin of the rewards and how often the "
                "better answer wins."
            ),
            ("rewards/margins", "rewards/accuracies", "rewards/chosen", "rewards/rejected"),
            ("evaluation", "plausibility"),
            ("health",),
        ),
        Scenario(
            "rl",
            KIND,
            N_("Reinforcement learning"),
            N_("The loss has no level here: look at reward, KL, entropy and the length of answers."),
            ("reward", "kl", "entropy", "response_length"),
            ("evaluation", "plausibility"),
            ("health",),
        ),
        Scenario(
            "other",
            KIND,
            N_("Vision and other models"),
            N_(
                "The loss is not one of language: its level and its first value mean something else, its course means the same."
            ),
            ("acc", "miou", "eval_loss"),
            ("evaluation", "convergence"),
            ("epochs", "health"),
        ),
        Scenario(
            "unknown",
            KIND,
            N_("Not known"),
            N_("Nothing in the log says what is trained: choose it above, and what matters is marked."),
        ),
        Scenario(
            "small_scale",
            STAGE,
            N_("Small trial"),
            N_("Look at whether every field is there and read as meant: later, at scale, it is too late to add one."),
            (),
            ("completeness", "losses", "rate", "progress", "time", "observability"),
            ("quality", "checklist"),
        ),
        Scenario(
            "scaled",
            STAGE,
            N_("Training at scale"),
            N_("Look at the steadiness of the trend and of the step time, epoch by epoch."),
            ("step_time_seconds", "tokens_per_second"),
            ("time", "speed", "performance", "scaling"),
            ("epochs", "cost"),
        ),
        Scenario(
            "comparison",
            STAGE,
            N_("Comparing configurations"),
            N_("Look at what makes runs comparable: everything but the one thing under test must be equal and printed."),
            (),
            ("comparability", "control"),
            ("quality",),
        ),
        Scenario(
            "long",
            STAGE,
            N_("Long training"),
            N_("Look at whether trouble can be traced to its cause, and who is told: it must not be found days later."),
            ("grad_norm", "memory_bytes"),
            ("attributability", "stability", "gradients"),
            ("checklist",),
        ),
        Scenario(
            "cost",
            STAGE,
            N_("Cost matters"),
            N_("Look at the time of a step, at what was wasted, and at what logging itself costs."),
            ("step_time_seconds", "tokens_per_second", "mfu_percent"),
            ("overhead", "time", "speed", "performance"),
            ("cost",),
        ),
        Scenario(
            "teaching",
            PURPOSE,
            N_("Teaching and understanding"),
            N_("Each step should be printed clearly, with parameters whose names explain themselves."),
            (),
            ("control", "observability", "observable"),
            ("handbook", "cases"),
        ),
        Scenario(
            "algorithm",
            PURPOSE,
            N_("Trying an algorithm or structure"),
            N_("After a change of the structure you want comparable curves soon, the routing loss among them."),
            ("aux_loss", "grad_norm"),
            ("convergence", "losses", "comparability"),
            ("health",),
        ),
        Scenario(
            "data",
            PURPOSE,
            N_("Trying the data pipeline"),
            N_("Look at tolerance for broken samples and at tokenising: check the data first, then the dips of the loss."),
            ("data_time_seconds",),
            ("function", "plausibility"),
            ("corpus", "checklist"),
        ),
        Scenario(
            "production",
            PURPOSE,
            N_("Production pre-training"),
            N_("Scaling, stability and upkeep: resuming, alerts and monitoring must be in place before the start."),
            ("grad_norm", "tokens_per_second", "memory_bytes"),
            ("scaling", "stability", "observable", "attributability"),
            ("checklist",),
        ),
        Scenario(
            "cloud",
            PURPOSE,
            N_("Reproducing in the cloud"),
            N_("Costs and an equal environment: fix image and baseline, and print versions, seed and hardware."),
            ("step_time_seconds",),
            ("overhead", "comparability", "function"),
            ("cost", "checklist"),
        ),
    )
}


def detect(columns: Collection[str], config: Mapping[str, Any], first_loss: float | None) -> tuple[str, Text]:
    """Return which kind of training a log shows, and why it is taken for that.

    columns: all that it prints; config: as printed; first_loss: its first finite training loss, None without one.
    """
    known = squashed(config)
    rolls = any("rollout" in key for key in known)
    if "policy_loss" in columns or sum(name in columns for name in RL_COLUMNS) >= 2 or rolls:
        return "rl", Text(N_("it trains a policy by rewards"))
    if any(name in columns for name in PREFERENCE_COLUMNS):
        return "preference", Text(N_("it prints rewards of chosen and rejected answers"))
    if _adapts(known):
        return "lora", Text(N_("its configuration speaks of an adapter"))
    if any(name in columns for name in VISION_COLUMNS) or sum(any(key.endswith(name) for key in known) for name in VISION) >= 2:
        return "other", Text(N_("its configuration or its columns are those of another model than one of language"))
    stage = str(known.get("stage", "")).lower()
    if stage in ("sft", "pt"):
        return ("sft" if stage == "sft" else "pretraining"), Text(N_("its configuration says so"))
    if first_loss is None:
        return "unknown", Text(N_("nothing in the log says what is trained"))
    if first_loss >= UNTRAINED_LOSS:
        return "pretraining", Text(N_("its loss begins at the level of an untrained model"))
    return "sft", Text(N_("its loss begins at the level of a trained model"))


def _adapts(config: Mapping[str, Any]) -> bool:
    if any(str(value).lower() in ("lora", "qlora", "dora", "adapter") for value in config.values()):
        return True
    ranks = [number_of(value) for key, value in config.items() if "lora" in key.split("_") and key.endswith(("_r", "_rank"))]
    if any(ranks):
        return True
    few, every = (number_of(config.get(name), unit=True) for name in ("trainable_params", "all_params"))
    return bool(few and every and few < FEW_TRAINED * every)
