"""Tuning methods side by side: full, LoRA and QLoRA, with the memory each takes and its speed."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from analysis.compare.conditions import plain_key
from analysis.compare.numbers import Numbers
from analysis.compare.subject import Subject
from analysis.machine import number_of
from messages import N_, Text

FULL, LORA, QLORA = "full", "lora", "qlora"
TITLES = {FULL: N_("Full fine-tuning"), LORA: N_("LoRA"), QLORA: N_("QLoRA (quantised base)")}
PART = 0.5  # of the parameters that are trained, below which only adapters are
_LORA = re.compile(r"(?:^|_)(?:q?lora|adapter)_(?:rank|alpha|r|dim|dropout|target\w*)$|^lora$|^use_lora$")
_QUANTISED = re.compile(r"load_in_4bit|load_in_8bit|quantization_bit|^bits$|bnb_4bit|qlora|quant_type")
_METHOD = re.compile(r"^(?:finetuning_type|tuning_method|peft_type|train_type|method|sft_type|finetune_type)$")


@dataclass(frozen=True)
class Method:
    """How a run was tuned, and what that took. trained: share of the parameters, None where not printed; memory in bytes;
    speed a second, of `unit`; memory_share, speed_ratio: to the first full run among them, None without one.
    """

    run: str
    method: str
    trained: float | None
    memory: float | None
    speed: float | None
    unit: str
    memory_share: float | None = None
    speed_ratio: float | None = None

    @property
    def title(self) -> Text:
        """Return the name of the method."""
        return Text(TITLES[self.method])


def methods(subjects: Sequence[Subject], figures: Sequence[Numbers]) -> tuple[Method, ...]:
    """Return the table of tuning methods; empty where no run says that it trains adapters."""
    known = [method_of(one) for one in subjects]
    if not any(method in (LORA, QLORA) for method, _share in known):
        return ()
    whole = next((one for one, (method, _share) in zip(figures, known, strict=True) if method == FULL), None)
    return tuple(
        Method(one.id, method, share, its.memory, its.throughput, its.unit, *_beside(its, whole))
        for one, its, (method, share) in zip(subjects, figures, known, strict=True)
    )


def _beside(figures: Numbers, whole: Numbers | None) -> tuple[float | None, float | None]:
    if whole is None:
        return None, None
    memory = figures.memory / whole.memory if figures.memory and whole.memory else None
    same_unit = figures.unit == whole.unit and figures.throughput and whole.throughput
    return memory, figures.throughput / whole.throughput if same_unit else None  # type: ignore[operator]


def method_of(subject: Subject) -> tuple[str, float | None]:
    """Return the tuning method that a configuration says, and the share of its parameters that are trained."""
    settings = {plain_key(key): value for key, value in subject.config.items()}
    share = trained_share(settings)
    said = " ".join(str(value).lower() for key, value in settings.items() if _METHOD.match(key))
    quantised = any(_QUANTISED.search(key) and _on(value) for key, value in settings.items()) or "qlora" in said
    adapters = any(_LORA.search(key) and _on(value) for key, value in settings.items()) or "lora" in said
    if "full" in said and "lora" not in said:
        return FULL, share
    if adapters or (share is not None and share < PART):
        return (QLORA if quantised else LORA), share
    return FULL, share


def trained_share(settings: dict[str, Any]) -> float | None:
    """Return trainable over all parameters, None where the log does not print both."""
    trainable = _first(settings, ("trainable_params", "trainable_parameters", "number_of_trainable_parameters"))
    every = _first(
        settings, ("all_params", "all_param", "total_params", "model_params", "total_parameters", "number_of_parameters")
    )
    return min(trainable / every, 1.0) if trainable and every else None


def _first(settings: dict[str, Any], names: Sequence[str]) -> float | None:
    return next((number for name in names if (number := number_of(settings.get(name), unit=True))), None)


def _on(value: Any) -> bool:
    return str(value).strip().lower() not in ("false", "none", "0", "0.0", "no", "off", "", "null", "16", "32")
