"""Causes of what the text of a log says: out of memory, collective timeouts, crashes and stops.

The probes here get the last row before and, as `known`, the line of the root event.
"""

from collections.abc import Callable, Iterable

import numpy as np

from analysis.attribution import Clue
from analysis.clues import Seen
from analysis.ending import Incident, incident_at, told
from analysis.evidence import times, where
from analysis.losses import loss_kind
from analysis.segment import Segment
from messages import N_, Text

GIB = 2**30
OOM, TIMEOUT, CRASH, STOPPED = "out_of_memory", "collective_timeout", "crash", "stopped"
HARDWARE = frozenset({"xid", "ecc"})
DEVICE = frozenset({"cuda_error"})
NETWORK = frozenset({"nccl_error", "connection_error"})
NEAR_LINES = 60  # before an incident, in which what was going on is looked for

Probe = Callable[[Segment, int, int], Seen | None]


def fragmented(segment: Segment, row: int, known: int) -> Seen | None:
    """The allocator holds more unused memory than was asked for, but not in one piece."""
    data = _data(segment, known)
    if not {"reserved_bytes", "allocated_bytes", "tried_bytes"} <= set(data):
        return None
    unused = data["reserved_bytes"] - data["allocated_bytes"]
    gaps = {"unused": unused / GIB, "tried": data["tried_bytes"] / GIB}
    text = N_("{unused:.2f} GiB were reserved and not used, {tried:.2f} GiB were asked for")
    return Seen(unused >= data["tried_bytes"] > 0, Text(text, gaps))


def shared_device(segment: Segment, row: int, known: int) -> Seen | None:
    """Memory that is neither free nor this process's."""
    data = _data(segment, known)
    if not {"capacity_bytes", "free_bytes", "reserved_bytes"} <= set(data) or data["capacity_bytes"] <= 0:
        return None
    own = data.get("used_bytes", data["reserved_bytes"])
    other = data["capacity_bytes"] - data["free_bytes"] - own
    gaps = {"other": max(other, 0) / GIB, "capacity": data["capacity_bytes"] / GIB}
    text = N_("{other:.1f} of {capacity:.1f} GiB belong neither to PyTorch in this process nor are they free")
    return Seen(other > 0.2 * data["capacity_bytes"], Text(text, gaps))


def host_memory(segment: Segment, row: int, known: int) -> Seen | None:
    if _data(segment, known).get("host") or _data(segment, known).get("reason") == "memory_limit":
        return Seen(True, Text(N_("the message speaks of the machine's memory, not of the GPU's")))
    return None


def memory_grew(segment: Segment, row: int, known: int) -> Seen | None:
    values = segment.values("memory_bytes")[: row + 1]
    values = values[np.isfinite(values)]
    if len(values) < 20 or np.median(values[: len(values) // 4]) <= 0:
        return None
    ratio = times(np.median(values[-5:]), np.median(values[: len(values) // 4]))
    return Seen(ratio > 1.05, Text(N_("memory in use was at {ratio:.3g}× what it was early in the run"), {"ratio": ratio}))


def never_fitted(segment: Segment, row: int, known: int) -> Seen | None:
    return Seen(row < 2, Text(N_("{rows} training rows had been logged before"), {"rows": row + 1}))


def during(*kinds: str) -> Probe:
    """Return a probe that looks for something said shortly before the incident."""

    def probe(segment: Segment, row: int, known: int) -> Seen | None:
        incident = incident_at(segment, known)
        line = incident.events[0]["line"] if incident else known
        begins = min((int(told(event).get("begins", line)) for event in incident.events), default=line) if incident else line
        near = segment.events[segment.events["kind"].isin(kinds) & segment.events["line"].between(begins - NEAR_LINES, begins)]
        if not len(near):
            return None
        gaps = {"what": str(near["kind"].iloc[-1]), "line": int(near["line"].iloc[-1])}
        return Seen(True, Text(N_("just before, at line {line:,}, the log speaks of: {what}"), gaps))

    return probe


def among(kinds: Iterable[str]) -> Probe:
    """Return a probe that looks for kinds of events among those of the incident."""
    wanted = frozenset(kinds)

    def probe(segment: Segment, row: int, known: int) -> Seen | None:
        event = next((event for event in _events(segment, known) if event["kind"] in wanted), None)
        if event is None:
            return None
        return Seen(
            True, Text(N_("line {line:,} says: {what}"), {"line": int(event["line"]), "what": str(event["text"])[:120]})
        )

    return probe


def several_ranks(segment: Segment, row: int, known: int) -> Seen | None:
    ranks = {told(event)["rank"] for event in _events(segment, known) if "rank" in told(event)}
    if not ranks:
        return None
    if len(ranks) == 1:
        return Seen(True, Text(N_("only rank {rank} says so"), {"rank": int(min(ranks))}))
    return Seen(False, Text(N_("{count} ranks say so"), {"count": len(ranks)}))


def reason(*words: str) -> Probe:
    """Return a probe that compares the reason or the signal of the root event."""

    def probe(segment: Segment, row: int, known: int) -> Seen | None:
        data = _data(segment, known)
        word = str(data.get("reason") or data.get("signal") or "")
        return Seen(True, Text(N_("the message names: {what}"), {"what": word})) if word in words else None

    return probe


def loss_was_no_number(segment: Segment, row: int, known: int) -> Seen | None:
    """The last training rows before hold no finite loss: scripts stop themselves then."""
    main = loss_kind(segment).main
    if main is None or row < 0:
        return None
    last = segment.values(main)[: row + 1]
    finite = np.flatnonzero(np.isfinite(last))
    since = int(finite[-1]) + 1 if len(finite) else 0
    bad = np.flatnonzero(~np.isfinite(last[since:]) & segment.printed(main)[since : row + 1])
    if not len(bad):
        return Seen(False, Text(N_("the last loss before is a finite number")))
    gaps = {"step": where(segment, since + int(bad[0]))}
    return Seen(True, Text(N_("the loss is NaN or infinite from {step} on"), gaps))


def _events(segment: Segment, line: int) -> tuple:
    incident: Incident | None = incident_at(segment, line)
    return incident.events if incident else ()


def _data(segment: Segment, line: int) -> dict:
    incident = incident_at(segment, line)
    return dict(incident.data) if incident else {}


# In the order of priority of the source articles: what to change first, and what changes the experiment.
FITTING_PRETRAINING = (
    N_(
        "Pretraining, in this order: shorten max_seq_len; a smaller batch with more gradient accumulation; a smaller hidden "
        "size or fewer layers. Only the last changes the model's capacity: such a run can't be compared with the others."
    ),
)
FITTING_FINE_TUNING = (
    N_("In this order: a smaller batch, gradient accumulation, mixed precision, LoRA or QLoRA, freeing the cache."),
)

CAUSES: dict[str, tuple[str, tuple[str, ...]]] = {
    "batch_too_large": (N_("Batch, sequences or model are too large for the memory"), ()),
    "fragmentation": (
        N_("The memory is fragmented: enough is unused, but in pieces"),
        (N_("Set PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True (older PyTorch: max_split_size_mb:128)."),),
    ),
    "shared_gpu": (
        N_("Another process uses the same GPU"),
        (N_("Look at nvidia-smi: end what is left over from an earlier launch, or choose another GPU."),),
    ),
    "memory_leak": (
        N_("Memory grew from step to step: something is kept"),
        (N_("Log loss.item(), not the tensor; look for lists that keep graphs; torch.cuda.memory_snapshot() shows who."),),
    ),
    "host_memory": (
        N_("The machine's own memory ran out, not the GPU's"),
        (N_("Fewer data-loader workers, no copy of the data set in each of them, or a larger memory limit of the job."),),
    ),
    "evaluation_step": (
        N_("Evaluation or generation needs more memory than training"),
        (N_("A smaller evaluation batch, torch.no_grad(), and no logits kept for all samples."),),
    ),
    "checkpoint_step": (
        N_("Writing a checkpoint: it needs memory, or the others wait for it"),
        (N_("Save asynchronously or sharded, and set the timeout above the longest checkpoint."),),
    ),
    "network": (
        N_("The network between the nodes"),
        (N_("Check the links (ibstat, NCCL_DEBUG=INFO) and the interface that NCCL chose (NCCL_SOCKET_IFNAME)."),),
    ),
    "one_rank": (
        N_("One process stopped, failed or did something else; the others waited for it"),
        (
            N_("Look at the log of the missing rank; PyTorch's flight recorder (TORCH_NCCL_TRACE_BUFFER_SIZE) names it."),
            N_("Check that every rank gets the same number of batches, also in the last step of an epoch."),
        ),
    ),
    "hardware": (
        N_("The hardware: the driver reports an error of the GPU"),
        (N_("Take the node out of service, run the vendor's diagnosis (dcgmi diag -r 3), and restart elsewhere."),),
    ),
    "device_code": (
        N_("A kernel failed: an index out of range, labels outside the vocabulary, or a faulty GPU"),
        (N_("Run one step with CUDA_LAUNCH_BLOCKING=1 to see where; check label and token ids against the vocabulary."),),
    ),
    "program": (
        N_("The program: an exception in the training script or a library"),
        (N_("Read the last frame of the traceback and repeat the step with the same batch."),),
    ),
    "not_finite": (
        N_("The loss had become NaN or infinite, and the program stopped itself"),
        (N_("Restart from a checkpoint that was saved before the loss broke: one saved after it may hold NaN as well."),),
    ),
    "start_arguments": (
        N_("The launch: arguments, files or packages do not fit"),
        (N_("Correct what the message names and start again: nothing was trained wrongly."),),
    ),
    "disk": (
        N_("The disk is full, or its quota is used up"),
        (N_("Free space, keep fewer checkpoints, and check that the last checkpoint is whole before resuming from it."),),
    ),
    "leftover": (
        N_("An earlier launch still holds the port"),
        (N_("End the earlier processes, or choose another port (--master_port)."),),
    ),
    "ended_from_outside": (
        N_("The system or a person ended the process"),
        (N_("Look at the kernel log for an out-of-memory kill, and at the scheduler's messages."),),
    ),
    "by_hand": (N_("Somebody stopped it by hand"), (N_("Resume from the last checkpoint if it was not meant to end here."),)),
    "time_limit": (
        N_("The time that the job was given is over"),
        (N_("Resume from the last checkpoint, or ask for more time; save a checkpoint on the scheduler's warning signal."),),
    ),
    "preempted": (
        N_("The scheduler took the machine away"),
        (N_("Resume from the last checkpoint; save more often where jobs may be taken away."),),
    ),
}

FIRST: dict[str, tuple[str, ...]] = {
    OOM: (
        N_("Halve the batch size, and again until it fits; call torch.cuda.empty_cache() between training and evaluation."),
        N_("See where memory goes with torch.profiler (profile_memory=True) or torch.cuda.memory_summary()."),
    ),
    TIMEOUT: (
        N_("Find the rank that did not arrive: compare the last step of every rank, and dump stacks (py-spy dump --pid)."),
    ),
    CRASH: (N_("Resume from the last checkpoint once the cause is removed."),),
    STOPPED: (N_("Nothing to repair: decide whether to resume from the last checkpoint."),),
}

CLUES: tuple[Clue, ...] = (
    Clue((OOM,), "fragmentation", 4, (), fragmented),
    Clue((OOM,), "shared_gpu", 3, (), shared_device),
    Clue((OOM,), "host_memory", 5, (), host_memory),
    Clue((OOM,), "memory_leak", 3, ("memory_bytes",), memory_grew),
    Clue((OOM,), "batch_too_large", 3, (), never_fitted, against=False),
    Clue((OOM,), "evaluation_step", 3, (), during("evaluation")),
    Clue((OOM, TIMEOUT), "checkpoint_step", 3, (), during("checkpoint_saved")),
    Clue((TIMEOUT,), "network", 3, (), among(NETWORK)),
    Clue((TIMEOUT,), "one_rank", 3, (), among({"traceback", "out_of_memory", "killed", "cuda_error"})),
    Clue((TIMEOUT,), "one_rank", 2, (), several_ranks, against=False),
    Clue((TIMEOUT, CRASH), "hardware", 5, (), among(HARDWARE)),
    Clue((CRASH,), "device_code", 4, (), among(DEVICE)),
    Clue((CRASH,), "network", 3, (), among(NETWORK)),
    Clue((CRASH,), "not_finite", 4, (), among({"not_finite"})),
    Clue((CRASH,), "not_finite", 3, (), loss_was_no_number, against=False),
    Clue((CRASH,), "program", 3, (), among({"traceback", "exception"})),
    Clue((CRASH,), "start_arguments", 4, (), among({"argument_error", "import_error", "file_not_found"})),
    Clue((CRASH,), "disk", 5, (), among({"disk_full"})),
    Clue((CRASH,), "leftover", 5, (), among({"port_in_use"})),
    Clue((CRASH,), "ended_from_outside", 3, (), among({"killed"})),
    Clue((CRASH,), "hardware", 4, (), reason("node_failure")),
    Clue((STOPPED,), "by_hand", 4, (), reason("SIGINT")),
    Clue((STOPPED,), "time_limit", 4, (), reason("time_limit")),
    Clue((STOPPED,), "preempted", 4, (), reason("preempted")),
    Clue((STOPPED,), "ended_from_outside", 3, (), reason("SIGTERM", "SIGHUP", "SIGUSR1", "cancelled")),
)

USUAL: dict[str, tuple[str, ...]] = {
    OOM: ("batch_too_large", "fragmentation", "memory_leak"),
    TIMEOUT: ("one_rank", "network"),
    CRASH: ("program",),
    STOPPED: ("by_hand",),
}
