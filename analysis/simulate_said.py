"""What the text of a log says when a run ends badly: wordings of libraries, launchers and schedulers, by class and cause.

Standard wordings are those that most logs hold, whole and at the end. Hard ones are rarer, come from other back ends or
schedulers, are printed by many processes at once, or are cut off. Values are made up; {step}, {rank} and {gib} are filled in.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Said:
    """One way in which a log tells of something.

    lines: what is printed; cause: by the name of attribution, None if it does not show; rows: rows of training
    before it, None for any number.
    """

    lines: tuple[str, ...]
    cause: str | None = None
    rows: int | None = None


TRACEBACK = (
    "Traceback (most recent call last):",
    '  File "/app/train.py", line 412, in <module>',
    "    main()",
    '  File "/app/train.py", line 377, in main',
    "    loss = step(model, batch)",
)
LAUNCHER = (
    "E0105 09:14:02.371000 4711 torch/distributed/elastic/multiprocessing/api.py:874] failed (exitcode: 1) local_rank: 3 "
    "(pid: 4714) of binary: /usr/bin/python3",
    "torch.distributed.elastic.multiprocessing.errors.ChildFailedError: ",
    "/app/train.py FAILED",
)
CUDA_OOM = (
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate {gib}.00 GiB. GPU {rank} has a total capacity of 79.15 GiB "
    "of which 512.00 MiB is free. Including non-PyTorch memory, this process has 78.60 GiB memory in use. Of the allocated "
    "memory "
)
MEMORY: tuple[Said, ...] = (
    Said(
        (*TRACEBACK, CUDA_OOM + "77.20 GiB is allocated by PyTorch, and 310.00 MiB is reserved by PyTorch but unallocated."),
    ),
    Said(
        (*TRACEBACK, CUDA_OOM + "60.20 GiB is allocated by PyTorch, and 17.10 GiB is reserved by PyTorch but unallocated."),
        "fragmentation",
    ),
    Said(
        (*TRACEBACK, CUDA_OOM + "77.20 GiB is allocated by PyTorch, and 310.00 MiB is reserved by PyTorch but unallocated."),
        "batch_too_large",
        rows=1,
    ),
    Said(
        (
            *TRACEBACK,
            "RuntimeError: CUDA out of memory. Tried to allocate {gib}.50 GiB (GPU {rank}; 23.65 GiB total capacity; 19.02 GiB "
            "already allocated; 101.06 MiB free; 22.40 GiB reserved in total by PyTorch)",
            *LAUNCHER,
        ),
        "fragmentation",
    ),
    Said(
        ("***** Running Evaluation *****", "  Num examples = 2000", *TRACEBACK, CUDA_OOM + "77.9 GiB is allocated by PyTorch."),
        "evaluation_step",
    ),
    Said(
        (
            "[19231.4] python invoked oom-killer: gfp_mask=0x100cca(GFP_HIGHUSER_MOVABLE), order=0, oom_score_adj=0",
            "[19231.9] Out of memory: Killed process 4711 (python) total-vm:412345678kB, anon-rss:251234567kB",
        ),
        "host_memory",
    ),
)
MEMORY_HARD: tuple[Said, ...] = (
    Said(
        ("slurmstepd: error: Detected 1 oom_kill event in StepId=90210.0. Some of the step tasks have been OOM Killed.",),
        "host_memory",
    ),
    Said(
        ("jaxlib.xla_extension.XlaRuntimeError: RESOURCE_EXHAUSTED: Out of memory while trying to allocate 17179869184 bytes.",)
    ),
    Said((*TRACEBACK, "RuntimeError: HIP out of memory. Tried to allocate {gib}.00 GiB.")),
    Said(("RuntimeError: NPU out of memory. Tried to allocate {gib}.00 GiB (NPU {rank}; 60.97 GiB total capacity)",)),
    Said(
        tuple(
            f"[rank{rank}]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate {{gib}}.00 GiB. GPU {rank} has a to"
            for rank in range(8)
        )
    ),
    Said(("RuntimeError: CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`",)),
    Said(
        (
            "RuntimeError: [enforce fail at alloc_cpu.cpp:114] DefaultCPUAllocator: can't allocate memory: "
            "you tried to allocate 68719476736 bytes.",
        ),
        "host_memory",
    ),
    Said(("TERM_MEMLIMIT: job killed after reaching LSF memory usage limit.", "Exited with exit code 137."), "host_memory"),
)
WATCHDOG = (
    "[rank{rank}]:[E105 09:14:02.371 ProcessGroupNCCL.cpp:616] [Rank {rank}] Watchdog caught collective operation timeout: "
    "WorkNCCL(SeqNum=90210, OpType=ALLREDUCE, NumelIn=4194304, NumelOut=4194304, Timeout(ms)=600000) ran for 600071 "
    "milliseconds before timing out."
)
TIMEOUT: tuple[Said, ...] = (
    Said((WATCHDOG, "[rank{rank}]: terminating process after collective failure"), "one_rank"),
    Said(
        (
            "Saving model checkpoint to out/checkpoint-{step}",
            WATCHDOG,
            WATCHDOG.replace("{rank}", "5"),
        ),
        "checkpoint_step",
    ),
    Said(
        (
            WATCHDOG.replace("{rank}", "1"),
            WATCHDOG.replace("{rank}", "6"),
            "RuntimeError: NCCL error in: ProcessGroupNCCL.cpp:1970, remote process exited or there was a network error",
        ),
        "network",
    ),
    Said(("RuntimeError: [Rank {rank}] Timed out waiting 1800000ms for all_reduce operation",)),
)
TIMEOUT_HARD: tuple[Said, ...] = (
    Said(("[ERROR] HCCL notify wait timeout, rank {rank}, tag AllReduce_90210",)),
    Said(("NCCL WARN Timeout waiting for connection from peer", "[E] RCCL watchdog: collective timed out after 1800 s")),
    Said(("RuntimeError: Gloo connect timed out after 300000 ms: rank {rank}",)),
    Said((WATCHDOG[:180],)),
    Said(
        (
            "[rank{rank}]:[E ProcessGroupNCCL.cpp:1316] ProcessGroupNCCL's watchdog got stuck for 480 seconds without "
            "making progress",
        )
    ),
    Said(("DistStoreError: Timed out after 601 seconds waiting for clients. 7/8 clients joined.",)),
)
CRASH: tuple[Said, ...] = (
    Said((*TRACEBACK, "IndexError: index 151936 is out of bounds for dimension 0 with size 151936"), "program"),
    Said((*TRACEBACK, "ValueError: too many values to unpack (expected 2)", *LAUNCHER), "program"),
    Said(
        (
            "../aten/src/ATen/native/cuda/Loss.cu:250: nll_loss_forward_reduce_cuda_kernel_2d: Assertion `t >= 0` failed.",
            *TRACEBACK,
            "RuntimeError: CUDA error: device-side assert triggered",
        ),
        "device_code",
    ),
    Said(
        (
            "[81231.2] NVRM: Xid (PCI:0000:17:00): 79, pid=4711, GPU has fallen off the bus.",
            *TRACEBACK,
            "RuntimeError: CUDA error: unspecified launch failure",
        ),
        "hardware",
    ),
    Said((*TRACEBACK, "OSError: [Errno 28] No space left on device: 'out/checkpoint-{step}/optimizer.pt'"), "disk"),
    Said((*TRACEBACK, "RuntimeError: CUDA error: uncorrectable ECC error encountered"), "hardware"),
    Said((*TRACEBACK, "FileNotFoundError: [Errno 2] No such file or directory: 'data/shard_0017.bin'"), "start_arguments"),
)
CRASH_HARD: tuple[Said, ...] = (
    Said(
        (
            "[rank2]: Traceback (most recent call last):",
            '[rank2]:   File "/app/data.py", line 88, in __next__',
            "[rank2]: StopIteration",
            WATCHDOG.replace("{rank}", "1"),
            WATCHDOG.replace("{rank}", "6"),
        ),
        "program",
    ),
    Said(("run.sh: line 12:  4711 Segmentation fault      (core dumped) python train.py",), "ended_from_outside"),
    Said(("run.sh: line 12:  4711 Killed                  python train.py",), "ended_from_outside"),
    Said(("RuntimeError: DataLoader worker (pid 4719) is killed by signal: Bus error.",), "ended_from_outside"),
    Said((*TRACEBACK[:3], "Fatal Python error: Segmentation fault"), "ended_from_outside"),
    Said(("torch.AcceleratorError: CUDA error: an illegal memory access was encountered",), "device_code"),
    Said(("ncclUnhandledCudaError: Call to CUDA function failed.", "ncclSystemError: System call failed"), "network"),
    Said(LAUNCHER),
    Said(
        (
            "slurmstepd: error: *** JOB 90210 ON node7 CANCELLED AT 2026-01-05T09:14:02 DUE TO NODE FAILURE, "
            "SEE SLURMCTLD LOG ***",
        ),
        "hardware",
    ),
    Said((*TRACEBACK[:2], "json.decoder.JSONDecodeError: Expecting value: line 1 column 1 (char 0)"), "program"),
)
STOPPED: tuple[Said, ...] = (
    Said((*TRACEBACK, "KeyboardInterrupt"), "by_hand"),
    Said(("^CTraceback (most recent call last):", *TRACEBACK[1:], "KeyboardInterrupt"), "by_hand"),
    Said(("slurmstepd: error: *** JOB 90210 ON node7 CANCELLED AT 2026-01-05T09:14:02 DUE TO TIME LIMIT ***",), "time_limit"),
    Said(("slurmstepd: error: *** JOB 90210 ON node7 CANCELLED AT 2026-01-05T09:14:02 DUE TO PREEMPTION ***",), "preempted"),
    Said(("TERM_RUNLIMIT: job killed after reaching LSF run time limit.", "Exited with exit code 140."), "time_limit"),
)
STOPPED_HARD: tuple[Said, ...] = (
    Said(("=>> PBS: job killed: walltime 86412 exceeded limit 86400",), "time_limit"),
    Said(("torch.distributed.elastic.multiprocessing.api.SignalException: Process 4711 got signal: 15",), "ended_from_outside"),
    Said(("[INFO] [launch.py:328:sigkill_handler] Main process received SIGINT, exiting",), "by_hand"),
    Said(("slurmstepd: error: *** STEP 90210.0 ON node7 CANCELLED AT 2026-01-05T09:14:02 ***",)),
    Said(("Training interrupted by user",), "by_hand"),
    Said(("[rank0]: KeyboardInterrupt", "[rank1]: KeyboardInterrupt"), "by_hand"),
)
ENDS: dict[str, tuple[tuple[Said, ...], tuple[Said, ...]]] = {
    "out_of_memory": (MEMORY, MEMORY_HARD),
    "collective_timeout": (TIMEOUT, TIMEOUT_HARD),
    "crash": (CRASH, CRASH_HARD),
    "stopped": (STOPPED, STOPPED_HARD),
}

RESUMES = (
    "Resuming from checkpoint: out/checkpoint-{step}",
    "  successfully loaded checkpoint from /ckpt at iteration {step}",
    "=> loaded checkpoint 'out/last.pt' (step {step})",
    "Resumed training from step {step}",
)
SAVES = (
    "Saving model checkpoint to out/checkpoint-{step}",
    "  successfully saved checkpoint from iteration {step} to /ckpt",
    "  >> Checkpoint saved: out/step_{step}.pt",
)
STAGES = ("Switching to the next dataset: code", "changing data mix at step {step}", "Moving to data shard 3 (step {step})")
HARMLESS = (
    "If you run out of memory, lower the batch size or set --accumulate.",
    "NCCL timeout is set to 1800 s",
    "NCCL_TIMEOUT=1800 TORCH_NCCL_ASYNC_ERROR_HANDLING=1",
    "Press Ctrl-C to stop training",
    "Checkpoints are deleted when training is finished",
    "0 errors, 0 skipped samples, retries: 0",
    "eval_steps: 500, early_stopping: False",
    "WARNING: the tokenizer could not be pickled, falling back to slow loading",
)
KEYS = ("use_moe", "vocab_size", "learning_rate", "max_grad_norm")
CONFIGS = (
    "Namespace(" + ", ".join(f"{key}={{{key}}}" for key in KEYS) + ")",
    "Training configuration:\n" + "\n".join(f"  {key}: {{{key}}}" for key in KEYS),
    "\n".join(f"  {key} {'.' * (46 - len(key))} {{{key}}}" for key in KEYS),
)


def filled(lines: Sequence[str], step: int, rng: np.random.Generator) -> list[str]:
    """Return lines with their gaps filled."""
    gaps = {"step": str(step), "rank": str(rng.integers(0, 8)), "gib": str(rng.integers(1, 6))}
    result = []
    for line in lines:
        for name, value in gaps.items():
            line = line.replace("{" + name + "}", value)
        result.append(line)
    return result


def config_lines(rng: np.random.Generator, **values: object) -> list[str]:
    """Return the configuration as one of several scripts prints it."""
    full = {"use_moe": False, "vocab_size": 6400, "learning_rate": 0.0005, "max_grad_norm": 1.0} | values
    return str(rng.choice(CONFIGS)).format(**full).split("\n")
