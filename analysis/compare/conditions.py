"""The conditions of a run under names that all logs share: from its configuration, what a person added, or its own numbers.

The table of conditions is conditions.toml. What a log does not say is unknown and never guessed; two runs are told apart by
what both say.
"""

import math
import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache, lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from analysis.compare.subject import Subject
from analysis.machine import number_of, squashed
from messages import N_, Text, verbatim

_TABLE = tomllib.loads(Path(__file__).with_name("conditions.toml").read_text(encoding="utf-8"))
SIX: tuple[str, ...] = tuple(_TABLE["six"])
GROUPS: tuple[str, ...] = tuple(_TABLE["groups"])
DECISIVE: dict[str, tuple[int, tuple[str, ...]]] = {name: (one[0], tuple(one[1])) for name, one in _TABLE["decisive"].items()}
SIX_TITLES = {
    "scale": N_("Scale (GPUs)"),
    "parallel": N_("Parallelism"),
    "batch": N_("Batch and sequence"),
    "accumulation": N_("Accumulation"),
    "data": N_("Data"),
    "precision": N_("Precision"),
}
GROUP_TITLES = {
    "hardware": N_("Hardware"),
    "software": N_("Software"),
    "data": N_("Data"),
    "training": N_("Training configuration"),
}
TITLES = (
    N_("Kind of GPU"), N_("GPUs"), N_("Nodes"), N_("Parameters"), N_("Model"), N_("Layers"), N_("Width"),
    N_("Attention heads"), N_("Tensor parallelism"), N_("Pipeline parallelism"), N_("Data parallelism"),
    N_("Batch of one device"), N_("Effective batch"), N_("Sequence length"), N_("Gradient accumulation"),
    N_("Steps an epoch"), N_("Data"), N_("Version of the data"), N_("Mix of the data"), N_("Samples"),
    N_("Tokens in the data"), N_("Vocabulary"), N_("Tokenizer"), N_("Precision"), N_("Definition of the loss"),
    N_("Learning rate"), N_("Learning-rate schedule"), N_("Optimizer"), N_("Weight decay"), N_("Gradient clipping"),
    N_("Compilation"), N_("Seed"), N_("FSDP"), N_("Optimizer constants"), N_("LoRA"), N_("DeepSpeed"),
)  # fmt: skip
MEMORY = 32_768  # keys whose condition, family and group are remembered
CONFIG, LOG, GIVEN = "config", "log", "given"
SHAPES = frozenset({"linear", "cosine", "inverse_sqrt", "step", "wsd"})  # that rows can prove; a flat start proves none


@dataclass(frozen=True)
class Kind:
    """A condition as the table describes it; see conditions.toml."""

    name: str
    title: str
    group: str
    keys: tuple[str, ...] = ()
    six: str = ""
    follows: tuple[str, ...] = ()
    bars: str = ""
    lenient: float = 1e-9


@dataclass(frozen=True)
class Said:
    """What a run says of a condition: value, where it comes from (config, log, given), the key as printed."""

    value: Any
    source: str
    key: str = ""


@cache
def kinds() -> dict[str, Kind]:
    """Return the conditions of the table by name, in its order."""
    rows = [{**row, "keys": tuple(row["keys"]), "follows": tuple(row.get("follows", ()))} for row in _TABLE["condition"]]
    return {row["name"]: Kind(**row) for row in rows}


@cache
def _families() -> list[tuple[str, str, str, re.Pattern[str]]]:
    return [(name, title, six, re.compile(pattern)) for name, (title, six, pattern) in _TABLE["family"].items()]


@cache
def _groups() -> list[tuple[str, re.Pattern[str]]]:
    return [(name, re.compile("|".join(patterns))) for name, patterns in _TABLE["group"].items()]


_OF_TESTS = re.compile(r"(?:^|[/.])(?:test|val|valid|validation|eval|evaluation)[^/.]*[/.]", re.IGNORECASE)
PLACES = frozenset({"tokenizer", "dataset", "model"})  # conditions that may be said as a place in the file system
_NEUTRAL = re.compile("|".join(_TABLE["neutral"]))


@lru_cache(maxsize=MEMORY)
def plain_key(key: str) -> str:
    """Return the last part of a key of a nested configuration, case and punctuation made equal."""
    return re.sub(r"[^a-z0-9]+", "_", re.split(r"[/.]", str(key))[-1][:120].lower()).strip("_")


@lru_cache(maxsize=MEMORY)
def kind_of(key: str) -> str | None:
    """Return the condition that a setting says, None for one that is not in the table."""
    return next((name for name, kind in kinds().items() if plain_key(key) in kind.keys), None)


@lru_cache(maxsize=MEMORY)
def family_of(key: str) -> tuple[str, str, str] | None:
    """Return (name, title, class) of the family that a setting belongs to, None for one that stands for itself."""
    whole = re.sub(r"[^a-z0-9]+", "_", str(key)[:240].lower()).strip("_")
    found = next((one for one in _families() if one[3].search(plain_key(key)) or one[3].search(whole)), None)
    return found[:3] if found else None


@lru_cache(maxsize=MEMORY)
def group_of(key: str) -> str:
    """Return the group (hardware, software, data, training) of a setting that is not in the table."""
    return next((name for name, pattern in _groups() if pattern.search(plain_key(key))), "training")


@lru_cache(maxsize=MEMORY)
def is_neutral(key: str) -> bool:
    """Say whether a setting is about places and printing only."""
    return bool(_NEUTRAL.search(plain_key(key)))


def conditions(subject: Subject) -> dict[str, Said]:
    """Return what a run says of each condition of the table; what it does not say is not there."""
    settings = squashed_last(subject.config)
    found = {}
    for name, kind in kinds().items():
        if name in subject.given:
            found[name] = Said(subject.given[name], GIVEN)
            continue
        said = next((settings[key] for key in kind.keys if key in settings and _usable(settings[key][1])), None)
        if said is not None:
            found[name] = Said(said[1], CONFIG, said[0])
    found = _of_one_device(found)
    found |= {name: Said(value, LOG) for name, value in _from_log(subject, found).items() if name not in found}
    batch = effective_batch(subject, found)
    if batch is not None:
        found["effective_batch"] = batch
    return found


def _of_one_device(found: dict[str, Said]) -> dict[str, Said]:
    """Return what is said with `train_batch_size` as what it is: of a step with DeepSpeed, else of one device."""
    said = found.get("effective_batch")
    if said is None or plain_key(said.key) != "train_batch_size" or {"accumulation", "batch"} & found.keys():
        return found
    return {name: its for name, its in found.items() if name != "effective_batch"} | {"batch": said}


def light_conditions(config: Mapping[str, Any], peak_lr: float | None) -> dict[str, Any]:
    """Return the settings of one of many runs, those of the table under its names; peak_lr: where it has none."""
    found: dict[str, Any] = {}
    for key, value in config.items():
        name = kind_of(key)
        if not _OF_TESTS.search(str(key)) and (name is None or name not in found):
            found[name or key] = value
    if "lr" not in found and peak_lr:
        found["lr"] = rounded(peak_lr)
    return found


def squashed_last(config: Mapping[str, Any]) -> dict[str, tuple[str, Any]]:
    """Return (key as printed, value) by the last part of each key; the first that says something wins, of training alone."""
    found: dict[str, tuple[str, Any]] = {}
    for key, value in config.items():
        if _OF_TESTS.search(str(key)):
            continue
        plain = plain_key(key)
        if plain not in found or not _usable(found[plain][1]):
            found[plain] = (str(key), value)
    return found


def effective_batch(subject: Subject, found: Mapping[str, Said]) -> Said | None:
    """Return the samples of one step: as given or printed, else batch × accumulation × devices that share the data.

    A missing accumulation is 1. Without a number of devices nothing is said: one GPU is not a guess that holds.
    """
    if "effective_batch" in found:
        return found["effective_batch"]
    printed = subject.curves.get("batch_size")
    if printed is not None:
        return Said(float(np.median(printed.value)), LOG, "batch_size")
    batch = amount(found["batch"].value) if "batch" in found else None
    devices = _number(found.get("data_parallel")) or _shared_by(subject, found)
    if batch is None or devices is None:
        return None
    times = _number(found.get("accumulation")) or 1.0
    return Said(batch * times * devices, CONFIG, "")


def _shared_by(subject: Subject, found: Mapping[str, Said]) -> float | None:
    gpus = _number(found.get("gpus"))
    if gpus is None:
        return None
    split = (_number(found.get("tensor_parallel")) or 1.0) * (_number(found.get("pipeline_parallel")) or 1.0)
    return max(gpus / split, 1.0)


def _from_log(subject: Subject, found: Mapping[str, Said]) -> dict[str, Any]:
    """Return what the numbers of the log itself tell."""
    told: dict[str, Any] = {}
    if subject.gpus is not None:
        told["gpus"] = subject.gpus
    size = subject.last("steps_per_epoch")
    if size:
        told["steps_per_epoch"] = int(size)
    if "lr" not in found and subject.peak_lr is not None:
        told["lr"] = rounded(subject.peak_lr)
    if "schedule" not in found and subject.schedule is not None and subject.schedule.shape in SHAPES:
        told["schedule"] = subject.schedule.shape
    precision = _precision(squashed(subject.config))
    if precision is not None:
        told["precision"] = precision
    return told


def _precision(settings: Mapping[str, Any]) -> str | None:
    for word, keys in (("bf16", ("bf16", "bfloat16")), ("fp16", ("fp16", "half"))):
        if any(str(settings.get(key)).lower() in ("true", "1") for key in keys):
            return word
    said = [str(settings[key]).lower() for key in ("bf16", "fp16") if key in settings]
    return "fp32" if len(said) == 2 and set(said) <= {"false", "0"} else None


def rounded(value: float) -> float:
    """Return a number with the two or three digits that a person typed: 4.9989e-4 was 5e-4."""
    two = float(f"{value:.1e}")
    return two if abs(two / value - 1) < 2e-3 else float(f"{value:.3g}")


def named(title: str, key: str) -> Text:
    """Return what a condition or setting is called: its title, to be translated, else the key as printed."""
    return Text(title) if title else verbatim(key)


def shown(value: Any) -> Any:
    """Return a setting as a gap of a sentence takes it: numbers as they are, on and off for True and False, else text, cut."""
    if isinstance(value, bool):
        return Text(N_("on")) if value else Text(N_("off"))
    return value if isinstance(value, int | float) else str(value)[:80]


def same(one: Any, other: Any, lenient: float = 1e-9) -> bool:
    """Say whether two settings mean the same, whatever their types: 5e-4 and "0.0005", True and 1, "None" and None."""
    if one is other:
        return True
    a, b = _as_number(one), _as_number(other)
    if a is not None and b is not None:
        return a == b or abs(a - b) <= lenient * max(abs(a), abs(b))
    return str(one).strip().strip("'\"").lower() == str(other).strip().strip("'\"").lower()


def same_place(one: Any, other: Any) -> bool:
    """Say whether two paths end alike: a file and the folder that it is in, wherever that is on a machine."""
    parts = [
        [part for part in re.split(r"[/\\]+", str(value).strip("[]'\" ")) if part not in ("", ".")] for value in (one, other)
    ]
    shared = min(len(parts[0]), len(parts[1]))
    return shared >= 2 and parts[0][-shared:] == parts[1][-shared:]


def amount(value: Any) -> float | None:
    """Return a setting as a number, `63.91M` too, True and False as 1 and 0; None for what is none."""
    number = _as_number(value)
    return number if number is not None else number_of(value, unit=True)


def _as_number(value: Any) -> float | None:
    word = str(value).strip().strip("'\"").lower()[:60]
    if word in ("true", "false"):
        return float(word == "true")
    try:
        number = float(word)
    except ValueError:
        return None
    return number if math.isfinite(number) else None


def _usable(value: Any) -> bool:
    return value is not None and str(value).strip().lower() not in ("none", "null", "")


def _number(said: Said | None) -> float | None:
    return None if said is None else amount(said.value)
