"""How many GPUs of which kind a run used, as far as its log says, and what they drew."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from analysis.readings import readings
from analysis.segment import Segment
from messages import N_, Text

COUNTS = ("gpu_count", "world_size", "num_gpus", "n_gpus", "ngpus", "total_gpus", "num_devices", "dist_world_size", "nranks")
PER_NODE = ("nproc_per_node", "gpus_per_node", "num_gpus_per_node", "ntasks_per_node")
NODES = ("nnodes", "num_nodes", "nodes", "slurm_nnodes")
KINDS = ("gpu", "gpu_name", "gpu_type", "device_name", "accelerator", "gpu_model")
UNITS = {"k": 1e3, "m": 1e6, "b": 1e9, "t": 1e12}
MOST = 1_000_000  # GPUs
MOST_WATTS = 1e5
LEAST_READINGS = 10  # of the power; fewer are a look before the run


@dataclass(frozen=True)
class Hardware:
    """What the log says: number of GPUs, the kind as printed, mean watts of one GPU; None where it does not.

    gpus_text, gpu_text, watts_text: where each comes from, or that it is not in the log.
    """

    gpus: int | None
    gpu: str | None
    watts: float | None
    gpus_text: Text
    gpu_text: Text
    watts_text: Text


def hardware(segments: Sequence[Segment]) -> Hardware:
    """Return what the configuration and the measurements of a run say about its GPUs."""
    config = {key: value for segment in segments for key, value in squashed(segment.config).items()}
    count, count_text = _count(segments, config)
    name = next((str(config[key])[:200] for key in KINDS if isinstance(config.get(key), str)), None)
    kind_text = Text(N_("kind of GPU as the log prints it")) if name else Text(N_("the log does not say which GPU it ran on"))
    watts, watts_text = _watts(segments)
    return Hardware(count, name, watts, count_text, kind_text, watts_text)


def squashed(config: Mapping[str, Any]) -> dict[str, Any]:
    """Return a configuration with case, blanks and punctuation of its keys made equal."""
    return {re.sub(r"[^a-z0-9]+", "_", str(key)[:120].lower()).strip("_"): value for key, value in config.items()}


def number_of(value: Any, *, unit: bool = False) -> float | None:
    """Return a positive number of a configuration, with `unit` also `63.91M` or `1.5B`; None for anything else."""
    if isinstance(value, bool):
        return None
    found = re.fullmatch(r"([\d.,_]+(?:e\+?\d+)?)\s*([kmbt]?)(?:illion)?", str(value).strip().lower()[:60])
    if not found or (found[2] and not unit):
        return None
    try:
        number = float(found[1].replace(",", "").replace("_", "")) * UNITS.get(found[2], 1.0)
    except ValueError:
        return None
    return number if 0 < number < 1e18 else None


def _count(segments: Sequence[Segment], config: Mapping[str, Any]) -> tuple[int | None, Text]:
    # `world size` and `world_size` may both be there, one of them of a single process: the largest counts.
    printed = [
        (_whole(value), key)
        for segment in segments
        for one in segment.config.items()
        for key, value in squashed(dict([one])).items()
    ]
    counts = [(count, key) for count, key in printed if count is not None and key in COUNTS]
    if counts:
        most, key = max(counts)
        return most, Text(N_("number of GPUs as the log prints it ({key})"), {"key": key})
    each = next((count for key in PER_NODE if (count := _whole(config.get(key)))), None)
    nodes = next((count for key in NODES if (count := _whole(config.get(key)))), None)
    if each and nodes:
        return each * nodes, Text(
            N_("number of GPUs from the log: {nodes} nodes with {each} each"), {"nodes": nodes, "each": each}
        )
    listed = _listed(config.get("gpus"))
    if listed:
        return listed, Text(N_("number of GPUs as the log prints it ({key})"), {"key": "gpus"})
    return None, Text(N_("the log does not say how many GPUs it ran on"))


def _whole(value: Any) -> int | None:
    try:
        number = int(value)
    except (TypeError, ValueError, OverflowError):
        return None
    return number if 0 < number <= MOST and not isinstance(value, bool) else None


def _listed(value: Any) -> int | None:
    """Return how many devices `(0, 1)`, `0,1` or `[0]` names; a bare number is a count."""
    if isinstance(value, str) and re.fullmatch(r"[\[(]?\s*\d+(?:\s*,\s*\d*)*\s*[\])]?", value) and re.search(r"[,\[(]", value):
        return len(re.findall(r"\d+", value))
    return _whole(value)


def _watts(segments: Sequence[Segment]) -> tuple[float | None, Text]:
    """Return the mean power of one GPU: measured values, every device alike."""
    means = []
    for segment in segments:
        for series in readings(segment, "gpu_power_watts"):
            values = series.values[(series.values > 0) & (series.values < MOST_WATTS)]
            means += [float(values.mean())] if len(values) >= LEAST_READINGS else []
    if not means:
        return None, Text(N_("the log does not print the power of the GPUs"))
    return float(np.mean(means)), Text(N_("mean of the power that the log prints, taken as that of one GPU"))
