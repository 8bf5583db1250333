"""The memory of a GPU, or of the machine, ran out.

Meaning: A tensor could not be allocated and the process ended. What was trained since the last checkpoint is lost. All
processes that report it at the same time are one finding.

Causes: A batch, sequence or model too large, memory that grew from step to step, a fragmented allocator (much is reserved
and not used), another process on the same GPU, or an evaluation or checkpoint that needs more than training does.

What to do: Halve the batch at once. Then in this order: smaller batch, gradient accumulation, mixed precision, LoRA or
QLoRA, freeing the cache; in pretraining first shorten the sequences, and touch the model's size last, because that changes
its capacity.

Source: the messages of PyTorch, JAX and the kernel; order of the advice as in the source articles.
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from analysis.causes.text import FITTING_FINE_TUNING, FITTING_PRETRAINING, GIB
from analysis.ending import Incident, told
from analysis.failures import failure, gaps_of, incidents_of
from analysis.findings import Evidence, Finding
from analysis.first_loss import from_scratch
from analysis.segment import Segment
from messages import N_, Text

NEEDS = ()
TEXT = True
SIZES = {
    "tried_bytes": N_("asked for"),
    "capacity_bytes": N_("memory of the GPU"),
    "allocated_bytes": N_("in use by tensors"),
    "reserved_bytes": N_("reserved by the allocator"),
    "free_bytes": N_("free"),
    "used_bytes": N_("in use by this process"),
}


def check(segment: Segment) -> Iterator[Finding]:
    """Yield each time that memory ran out: the first message of an incident stands for all processes."""
    for incident in incidents_of(segment, "out_of_memory"):
        found = failure(segment, incident, _title(segment, incident), *_evidence(incident))
        order = FITTING_PRETRAINING if from_scratch(segment) else FITTING_FINE_TUNING
        yield replace(found, advice=(*found.advice[:2], *map(Text, order), *found.advice[2:]))


def _title(segment: Segment, incident: Incident) -> Text:
    data, gaps = incident.data, gaps_of(segment, incident)
    gaps |= {"tried": data.get("tried_bytes", 0) / GIB, "gpus": len({_gpu(event) for event in incident.events} - {None})}
    if incident.row < 0:
        return Text(N_("Out of memory before any training step was printed (line {line:,}): {what}"), gaps)
    if data.get("host"):
        return Text(N_("The machine ran out of memory after {step} (line {line:,}): {what}"), gaps)
    if "tried_bytes" not in data:
        return Text(N_("Out of memory after {step} (line {line:,}): {what}"), gaps)
    if gaps["gpus"] > 1:
        return Text(N_("Out of memory on {gpus} GPUs after {step} (line {line:,}): {tried:.2f} GiB more did not fit"), gaps)
    return Text(N_("Out of memory after {step} (line {line:,}): {tried:.2f} GiB more did not fit"), gaps)


def _gpu(event: Mapping[str, Any]) -> int | None:
    return told(event).get("gpu") if event["kind"] == "out_of_memory" else None


def _evidence(incident: Incident) -> Iterator[Evidence]:
    line = int(incident.root["line"])
    for name, label in SIZES.items():
        if name in incident.data:
            yield Evidence(Text(label), round(incident.data[name] / GIB, 3), "GiB", line=line)
    if {"reserved_bytes", "allocated_bytes"} <= set(incident.data):
        unused = incident.data["reserved_bytes"] - incident.data["allocated_bytes"]
        yield Evidence(Text(N_("reserved and not used (fragmentation)")), round(unused / GIB, 3), "GiB", line=line)


def sick() -> Segment:
    """Return a run that runs out of memory, which two processes report."""
    from analysis.simulate import simulate, with_events

    sizes = {"tried_bytes": 2 * GIB, "capacity_bytes": 24 * GIB, "allocated_bytes": 18 * GIB, "reserved_bytes": 23 * GIB}
    text = "CUDA out of memory. Tried to allocate 2.00 GiB"
    said = [(210 + gpu, "out_of_memory", text, sizes | {"gpu": gpu}) for gpu in (0, 1)]
    return with_events(simulate(rows=300, seed=2).segment.head(200), *said)


def well() -> Segment:
    """Return a run in which a library warns of overflow, and nothing more."""
    from analysis.simulate import simulate, with_events

    return with_events(simulate(rows=300, seed=2).segment, (120, "loss_scale_overflow", "OVERFLOW!", {}))
