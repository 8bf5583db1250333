"""Causes of idle, hot and full GPUs: what speaks for each, and what to do about it."""

import numpy as np

from analysis.attribution import Clue
from analysis.causes.time import talks_longer, waits_for_data
from analysis.clues import Seen
from analysis.evidence import times
from analysis.observed import around
from analysis.readings import readings
from analysis.segment import Segment
from analysis.step_time import step_time
from messages import N_, Text

FULL = ("memory_near_limit",)
LEAK = ("memory_leak",)
IDLE = ("utilisation_low",)
HOT = ("temperature_high",)


def data_share(segment: Segment, row: int, known: int) -> Seen | None:
    """The part of a step that goes into waiting for data."""
    both, steps = around(segment, "data_time_seconds", row, known), step_time(segment)
    if both is None or steps is None or not steps.exact:
        return None
    share = times(both[1], float(np.median(steps.series.values)))
    return Seen(share > 0.15, Text(N_("waiting for data is {share:.0%} of a step"), {"share": share}))


def memory_free(segment: Segment, row: int, known: int) -> Seen | None:
    used, cap = around(segment, "memory_bytes", row, known), around(segment, "memory_total_bytes", row, known)
    if used is None or cap is None or cap[1] <= 0:
        return None
    share = times(used[1], cap[1])
    return Seen(share < 0.5, Text(N_("only {share:.0%} of the GPU memory is in use"), {"share": share}))


def grew(segment: Segment, row: int, known: int) -> Seen | None:
    """Memory rose block by block up to here."""
    for series in readings(segment, "memory_bytes"):
        values = series.values[: max(int(np.searchsorted(series.at, known, side="right")), 1)]
        if len(values) < 40:
            continue
        parts = [float(np.median(part)) for part in np.array_split(values[-400:], 8)]
        rises = int(np.sum(np.diff(parts) > 0))
        if rises >= 6 and parts[-1] > 1.01 * parts[0]:
            return Seen(True, Text(N_("memory rose in {rises} of the last 7 eighths of the readings"), {"rises": rises}))
        return Seen(False, Text(N_("memory did not rise steadily before it")))
    return None


def jumped(segment: Segment, row: int, known: int) -> Seen | None:
    both = around(segment, "memory_bytes", row, known)
    if both is None:
        return None
    ratio = times(both[1], both[0])
    return Seen(ratio > 1.02, Text(N_("memory went to {ratio:.3g}× what it was within a few rows"), {"ratio": ratio}))


def batch_grew(segment: Segment, row: int, known: int) -> Seen | None:
    both = around(segment, "batch_size", row, known)
    if both is None:
        return None
    ratio = times(both[1], both[0])
    return Seen(ratio > 1.01, Text(N_("the batch size is {ratio:.3g}× what it was"), {"ratio": ratio}))


def reserved_grew(segment: Segment, row: int, known: int) -> Seen | None:
    """What the allocator holds grows while what it has given out does not."""
    given = around(segment, "memory_bytes", row, known)
    for name in [*segment.rows.columns, *segment.telemetry.columns]:
        if "reserved" in name and given is not None:
            held = around(segment, name, row, known)
            if held is not None and held[1] > 1.02 * held[0] > 0 and given[1] < 1.01 * given[0]:
                return Seen(True, Text(N_("{name} grew, memory in use did not"), {"name": name}))
    return None


def slower_steps(segment: Segment, row: int, known: int) -> Seen | None:
    both = around(segment, "gpu_power_watts", row, known)
    if both is None:
        return None
    return Seen(both[1] > 1.05 * both[0], Text(N_("power rose to {now:.0f} W"), {"now": both[1]}))


CAUSES: dict[str, tuple[str, tuple[str, ...]]] = {
    "small_work": (
        N_("Too little work in a step: small batch or short sequences"),
        (N_("Enlarge the batch: memory is free."),),
    ),
    "leak": (
        N_("A leak: tensors or their graph are kept from step to step"),
        (N_("Sum up loss.item(), not loss; look at what grows with torch.cuda.memory._record_memory_history."),),
    ),
    "fragmentation": (
        N_("Fragmentation: the allocator holds more than is in use"),
        (N_("Set PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True; bucket samples by length."),),
    ),
    "longest_sample": (
        N_("Longer samples, an evaluation or a larger batch at that step"),
        (N_("Cut or bucket the longest samples; give evaluation its own, smaller batch."),),
    ),
    "tight_plan": (
        N_("Batch, sequence length and model chosen to the limit"),
        (N_("Leave a tenth free, in the order above."),),
    ),
    "cooling": (
        N_("Cooling of the node or the room"),
        (N_("Have fans, filters and inlet temperature of this node checked."),),
    ),
    "power": (
        N_("More power than the cooling carries"),
        (N_("Lower the power limit: nvidia-smi -pl WATTS."),),
    ),
}

MEMORY_ADVICE = (
    N_("Smaller batch (halve it), with gradient accumulation to keep the effective batch."),
    N_("Mixed precision (BF16), and gradient checkpointing."),
    N_("LoRA or QLoRA when fine-tuning."),
    N_("Free what is cached: torch.cuda.empty_cache()."),
    N_("Pretraining: first shorten max_seq_len, then batch and accumulation; hidden size and layers last (another model)."),
)

FIRST: dict[str, tuple[str, ...]] = {
    "utilisation_low": (N_("Compare the time spent waiting for data with the step; raise num_workers, switch pin_memory on."),),
    "memory_near_limit": MEMORY_ADVICE,
    "memory_leak": (N_("Save a checkpoint and plan a restart before the step at which memory is full."),),
    "temperature_high": (N_("Look at the temperatures of all nodes; move the run if its steps became slower."),),
}

CLUES: tuple[Clue, ...] = (
    Clue(IDLE, "loader", 4, ("data_time_seconds",), waits_for_data),
    Clue(IDLE, "loader", 2, ("data_time_seconds",), data_share, against=False),
    Clue(IDLE, "network", 3, (), talks_longer),
    Clue(IDLE, "small_work", 2, ("memory_bytes", "memory_total_bytes"), memory_free, against=False),
    Clue(FULL, "leak", 3, ("memory_bytes",), grew),
    Clue(FULL, "longest_sample", 2, ("memory_bytes",), jumped, against=False),
    Clue(FULL + LEAK, "longest_sample", 3, ("batch_size",), batch_grew, against=False),
    Clue(LEAK, "leak", 3, ("memory_bytes",), grew, against=False),
    Clue(FULL + LEAK, "fragmentation", 3, (), reserved_grew),
    Clue(HOT, "power", 3, ("gpu_power_watts",), slower_steps),
)

USUAL: dict[str, tuple[str, ...]] = {
    "utilisation_low": ("loader", "network", "small_work"),
    "memory_near_limit": ("tight_plan", "longest_sample", "leak"),
    "memory_leak": ("leak", "fragmentation"),
    "temperature_high": ("cooling", "power"),
}
