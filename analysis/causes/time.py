"""Causes of slow, unsteady and silent runs, and of restarts: what speaks for each, and what to do about it."""

import numpy as np

from analysis.attribution import Clue
from analysis.clock_column import clock_seconds
from analysis.clues import Seen
from analysis.evidence import times
from analysis.first_loss import first_loss
from analysis.observed import around, level_moved, said, said_before
from analysis.pauses import spoken
from analysis.rejoin import loss_change
from analysis.segment import Segment
from messages import N_, Text

SLOW = ("slowdown", "step_time_jitter")
COMMUNICATION = ("reduce", "comm", "gather", "broadcast", "send", "recv")
LENGTHS = ("seqlen", "seq_len", "sequence_length", "response_length", "num_tokens", "batch_tokens")
CRASHES = frozenset(
    {
        *("out_of_memory", "traceback", "error", "killed", "cancelled", "interrupted", "keyboard_interrupt", "nccl_error"),
        *("cuda_error", "xid", "ecc", "child_failed", "connection_error", "segfault", "crash", "hang", "collective_timeout"),
    }
)


def waits_for_data(segment: Segment, row: int, known: int) -> Seen | None:
    both = around(segment, "data_time_seconds", row, known)
    if both is None:
        return None
    gaps = {"before": both[0], "now": both[1]}
    if both[1] > 1.3 * both[0]:
        return Seen(True, Text(N_("waiting for data went from {before:.3g} to {now:.3g} s"), gaps))
    return Seen(False, Text(N_("waiting for data stayed at {now:.3g} s"), gaps))


def idles(segment: Segment, row: int, known: int) -> Seen | None:
    both = around(segment, "gpu_utilization_percent", row, known)
    if both is None:
        return None
    gaps = {"before": both[0], "now": both[1]}
    if both[1] < both[0] - max(5.0, 0.05 * both[0]):
        return Seen(True, Text(N_("GPU utilisation fell from {before:.0f} to {now:.0f} %"), gaps))
    return Seen(False, Text(N_("GPU utilisation stayed at {now:.0f} %"), gaps))


def runs_hot(segment: Segment, row: int, known: int) -> Seen | None:
    both = around(segment, "gpu_temperature_celsius", row, known)
    if both is None:
        return None
    gaps = {"before": both[0], "now": both[1]}
    return Seen(both[1] >= 85, Text(N_("the GPU was at {now:.0f} °C ({before:.0f} before)"), gaps))


def draws_less(segment: Segment, row: int, known: int) -> Seen | None:
    return level_moved(segment, "gpu_power_watts", row, known, 0.9, N_("power went from {before:.0f} to {now:.0f} W"))


def memory_full(segment: Segment, row: int, known: int) -> Seen | None:
    used = around(segment, "memory_bytes", row, known)
    cap = around(segment, "memory_total_bytes", row, known)
    if used is None or cap is None or cap[1] <= 0:
        return None
    share = times(used[1], cap[1])
    return Seen(share > 0.92, Text(N_("{share:.0%} of the GPU memory was in use"), {"share": share}))


def talks_longer(segment: Segment, row: int, known: int) -> Seen | None:
    """Communication timers, under whatever name a log prints them."""
    for name in [*segment.rows.columns, *segment.telemetry.columns]:
        if any(word in name for word in COMMUNICATION):
            both = around(segment, name, row, known)
            if both is not None and both[1] > 1.3 * both[0] > 0:
                gaps = {"name": name, "before": both[0], "now": both[1]}
                return Seen(True, Text(N_("{name} went from {before:.3g} to {now:.3g}"), gaps))
    return None


def longer_samples(segment: Segment, row: int, known: int) -> Seen | None:
    for name in segment.rows.columns:
        if any(word in name for word in LENGTHS):
            both = around(segment, name, row, known)
            if both is not None and both[1] > 1.05 * both[0] > 0:
                gaps = {"name": name, "before": both[0], "now": both[1]}
                return Seen(True, Text(N_("{name} went from {before:.4g} to {now:.4g}"), gaps))
    return None


def one_rank(segment: Segment, row: int, known: int) -> Seen | None:
    """One process whose step time rose while the others' did not, or that has printed nothing since."""
    ranks = segment.ranks
    line = segment.line(known)
    if not {"rank", "line"} <= set(ranks.columns) or line is None:
        return None
    if "step_time_seconds" in ranks:
        first = segment.line(row) or 0
        now = ranks[ranks["line"].between(first, line)].groupby("rank")["step_time_seconds"].median()
        if len(now) > 1 and now.max() > 1.05 * now.median():
            gaps = {"rank": int(now.idxmax()), "ratio": times(float(now.max()), float(now.median()))}
            return Seen(True, Text(N_("rank {rank} takes {ratio:.3g}× as long as the others"), gaps))
    last = ranks[ranks["line"] <= line].groupby("rank")["line"].max()
    behind = last[last < line - 3 * len(last)]
    if 0 < len(behind) < len(last):
        return Seen(True, Text(N_("rank {rank} printed nothing any more, the others did"), {"rank": int(behind.index[0])}))
    return Seen(False, Text(N_("all ranks did alike")))


def timed_out(segment: Segment, row: int, known: int) -> Seen | None:
    kinds = frozenset({"collective_timeout", "nccl_error"})
    return said(segment, row, known, kinds, N_("the log tells of a collective operation that timed out, line {line:,}"))


def after_checkpoint(segment: Segment, row: int, known: int) -> Seen | None:
    """The last thing before the silence, or in it, was a checkpoint."""
    kinds = frozenset({"checkpoint_saved"})
    return said(segment, row, known, kinds, N_("a checkpoint was being written, line {line:,}"))


def crashed(segment: Segment, row: int, known: int) -> Seen | None:
    return said_before(segment, row, CRASHES, N_("the log tells of a failure before it, line {line:,}"))


def silent_before(segment: Segment, row: int, known: int) -> Seen | None:
    if not segment.has("timestamp") or row < 2:
        return None
    seconds = clock_seconds(segment, "timestamp")[max(row - 200, 0) : row + 1]
    gaps = np.diff(seconds[np.isfinite(seconds)])
    if len(gaps) < 5 or np.median(gaps[:-1]) <= 0:
        return None
    minutes = float(gaps[-1]) / 60
    return Seen(minutes > 30, Text(N_("nothing was logged for {minutes:,.0f} min before it"), {"minutes": minutes}))


def loss_apart(segment: Segment, row: int, known: int) -> Seen | None:
    change, error = loss_change(segment, row)
    if change is None:
        return None
    differs = abs(change) > max(5 * error, 0.02)
    return Seen(differs, Text(N_("the loss after it is {change:+.1%} off the loss at the same steps"), {"change": change}))


def rate_apart(segment: Segment, row: int, known: int) -> Seen | None:
    """The learning rate after a restart against that of the same step before it."""
    if row < 2:
        return None
    steps, lr = segment.steps(), segment.values("lr")
    same = np.flatnonzero(steps[:row] >= steps[row])[:1]
    if not len(same) or not np.isfinite(lr[[same[0], row]]).all() or lr[same[0]] <= 0:
        return None
    ratio = times(float(lr[row]), float(lr[same[0]]))
    if abs(ratio - 1) > 0.05:
        return Seen(True, Text(N_("the learning rate is {ratio:.3g}× what it was at that step"), {"ratio": ratio}))
    return Seen(False, Text(N_("the learning rate is what it was at that step")))


def evaluates(segment: Segment, row: int, known: int) -> Seen | None:
    return Seen(spoken(segment, row) == "evaluation", Text(N_("the log shows an evaluation there")))


def saves(segment: Segment, row: int, known: int) -> Seen | None:
    return Seen(spoken(segment, row) == "checkpoint", Text(N_("the log shows a checkpoint there")))


def began_anew(segment: Segment, row: int, known: int) -> Seen | None:
    """The launch begins at its first step with the loss of an untrained model."""
    begin = first_loss(segment)
    if begin is None or row > 0 or not begin.from_scratch:
        return None
    return Seen(True, Text(N_("it begins anew: its first loss is {loss:.4g}, as before any training"), {"loss": begin.first}))


def resumed_there(segment: Segment, row: int, known: int) -> Seen | None:
    begin = first_loss(segment)
    if begin is None or begin.from_scratch:
        return None
    if begin.loaded is not None:
        return Seen(True, Text(N_("line {line:,} tells of a checkpoint that was loaded"), {"line": begin.loaded}))
    return None if begin.anew else Seen(True, Text(N_("its steps go on where an earlier launch was")))


CAUSES: dict[str, tuple[str, tuple[str, ...]]] = {
    "another_run": (
        N_("Another run was written to the same file"),
        (N_("Give each run a file of its own: then it gets a verdict of its own."),),
    ),
    "continued": (
        N_("A run was launched again from a checkpoint"),
        (N_("Compare learning rate, loss and data position before and after."),),
    ),
    "loader": (
        N_("The data loader can't keep up"),
        (N_("Give the loader more workers (num_workers) and pin_memory; tokenise offline and read by memory map (mmap)."),),
    ),
    "throttling": (
        N_("The GPU throttles (heat or power)"),
        (N_("Look at temperature, clocks and power caps of each node (nvidia-smi -q -d PERFORMANCE); mend the cooling."),),
    ),
    "straggler": (
        N_("One rank or node is slower than the others"),
        (N_("Find it by comparing step times or stacks of all ranks, take it out and restart without it."),),
    ),
    "network": (
        N_("Communication takes longer"),
        (N_("Run an all-reduce test over the nodes; look at link errors, retries and other jobs on the network."),),
    ),
    "lengths": (
        N_("Longer sequences: each step does more work"),
        (N_("Compare tokens per second instead of step time; bucket samples by length."),),
    ),
    "memory_pressure": (
        N_("Memory is nearly full: the allocator frees and asks again"),
        (N_("Leave a tenth of the memory free: smaller batch with accumulation, or expandable_segments:True."),),
    ),
    "storage": (
        N_("Storage: a checkpoint or a read that does not end"),
        (N_("Look at the file system and write checkpoints asynchronously or to local disks first."),),
    ),
    "collective": (
        N_("A collective operation that one rank never joined"),
        (N_("Read NCCL's flight recorder and compare the stacks of the ranks; look for code that only some ranks run."),),
    ),
    "host": (
        N_("One rank or its host died or stalls"),
        (N_("Look at that host: kernel log (dmesg), Xid errors, memory, network link; restart without it."),),
    ),
    "deadlock": (
        N_("A dead lock in the process (data loader, locks, signal handlers)"),
        (N_("Dump the stacks: py-spy dump --pid PID on each node; look for workers that wait for each other."),),
    ),
    "crash": (
        N_("A crash or an interruption"),
        (N_("See what the log says before it; the cause of that is the cause of this."),),
    ),
    "outage": (
        N_("An outage or a queue: the job was not running"),
        (N_("Look at the scheduler's record of this job."),),
    ),
    "evaluation": (
        N_("Evaluation"),
        (N_("Evaluate less often, or on fewer samples."),),
    ),
    "checkpoint": (
        N_("Checkpoint writing"),
        (N_("Write checkpoints asynchronously or less often."),),
    ),
    "shared_node": (
        N_("Something else on the node: file system, garbage collection, another job"),
        (N_("See what runs on that node at that time."),),
    ),
}

DUMP = N_("While it hangs: py-spy dump --pid PID on each node, and TORCH_NCCL_DUMP_ON_TIMEOUT=1 for NCCL's flight recorder.")

FIRST: dict[str, tuple[str, ...]] = {
    "slowdown": (N_("See which of utilisation, temperature, data time and ranks changed at that step."),),
    "step_time_jitter": (N_("See whether it is the same rank each time, and how long steps wait for data."),),
    "step_time_spike": (N_("Nothing for a few; see what else ran at that time if they repeat."),),
    "periodic_pause": (N_("Nothing if the share of the time is small."),),
    "hang": (DUMP, N_("Then restart from the last checkpoint, without the rank or node that differs.")),
    "launch": (N_("Nothing, if several launches were meant to be in one file."),),
    "restart": (N_("Compare learning rate, loss and data position before and after."),),
}

CLUES: tuple[Clue, ...] = (
    Clue(SLOW, "loader", 4, ("data_time_seconds",), waits_for_data),
    Clue(SLOW, "loader", 2, ("gpu_utilization_percent",), idles, against=False),
    Clue(SLOW, "throttling", 4, ("gpu_temperature_celsius",), runs_hot),
    Clue(SLOW, "throttling", 2, ("gpu_power_watts",), draws_less),
    Clue(SLOW + ("hang",), "straggler", 4, ("rank",), one_rank),
    Clue(SLOW, "network", 3, (), talks_longer),
    Clue(SLOW, "lengths", 3, (), longer_samples),
    Clue(SLOW, "memory_pressure", 2, ("memory_bytes", "memory_total_bytes"), memory_full, against=False),
    Clue(("hang",), "collective", 4, (), timed_out, against=False),
    Clue(("hang",), "storage", 3, (), after_checkpoint, against=False),
    Clue(("hang",), "host", 4, ("rank",), one_rank),
    Clue(("launch",), "another_run", 4, (), began_anew, against=False),
    Clue(("launch",), "continued", 3, (), resumed_there, against=False),
    Clue(("restart", "launch"), "crash", 4, (), crashed, against=False),
    Clue(("restart",), "outage", 2, ("timestamp",), silent_before, against=False),
    Clue(("restart",), "resume", 4, (), loss_apart, against=False),
    Clue(("restart",), "schedule", 3, ("lr",), rate_apart),
    Clue(("periodic_pause", "step_time_spike"), "evaluation", 4, (), evaluates, against=False),
    Clue(("periodic_pause", "step_time_spike"), "checkpoint", 4, (), saves, against=False),
)

USUAL: dict[str, tuple[str, ...]] = {
    "slowdown": ("loader", "throttling", "straggler", "network"),
    "step_time_jitter": ("loader", "straggler", "network"),
    "step_time_spike": ("shared_node", "network"),
    "periodic_pause": ("checkpoint", "evaluation"),
    "hang": ("collective", "storage", "deadlock"),
    "launch": ("another_run", "continued", "crash"),
    "restart": ("crash", "outage"),
}
