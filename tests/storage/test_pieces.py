"""Every declared format, every family, settings, tables and events give the same in pieces of any size."""

import tomllib
from pathlib import Path
from typing import Any

import pytest

from storage import reader as reading
from storage.reader import LogReader
from storage.reading import decode, formats, threads
from storage.reading.containers import delimited

FILES = sorted(Path(__file__).parent.glob("families*.toml"))
FAMILIES = [family for file in FILES for family in tomllib.loads(file.read_text(encoding="utf-8"))["family"]]
SAMPLES = {f"{one.name} {at}": sample["text"] for one in formats.shipped().values() for at, sample in enumerate(one.samples)}
SAMPLES |= {family["name"]: family["text"] for family in FAMILIES}
SIZES = (1, 64)

RECORDS = "".join(f"step {i} | loss {3 - i / 100:.4f} | lr 0.0003\n" for i in range(1, 40))
TRACEBACK = """Traceback (most recent call last):
  File "/srv/train.py", line 120, in <module>
    main()
  File "/srv/train.py", line 88, in main
    loss.backward()
RuntimeError: CUDA error: device-side assert triggered
"""
CHAINED = (
    TRACEBACK + "\nDuring handling of the above exception, another exception occurred:\n\n" + TRACEBACK.replace("CUDA", "NCCL")
)
RANKS = "".join(f"[rank{rank}]: {line}\n" for line in TRACEBACK.splitlines() for rank in (0, 1))
OOM = (
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.50 GiB. GPU 0 has a total capacity of 79.15 GiB of which "
    "1.25 GiB is free.\n"
)
ROOT = """============================================================
train.py FAILED
------------------------------------------------------------
Root Cause (first observed failure):
[0]:
  time      : 2024-05-06_07:08:09
  host      : node01
  rank      : 3 (local_rank: 3)
  exitcode  : -9 (pid: 4242)
  error_file: <N/A>
============================================================
"""
SETTINGS = """Namespace(lr=0.0003, batch_size=32, epochs=2, name='a, b', betas=(0.9, 0.95))
python train.py --lr 3e-4 \\
  --batch_size 32 --name small \\
  --epochs 2
config:
  model:
    layers: 12
    width: 768
  data:
    path: corpus.jsonl
    seed: 42
{
  "hidden_size": 768,
  "num_hidden_layers": 12,
  "vocab_size": 6400
}
TrainingArguments(
output_dir=out,
per_device_train_batch_size=8,
)
number of parameters: 25.83M
"""
SMI = """Mon May  6 07:08:09 2024
+-----------------------------------------------------------------------------------------+
| NVIDIA-SMI 550.54.15              Driver Version: 550.54.15      CUDA Version: 12.4     |
|-----------------------------------------+------------------------+----------------------+
| GPU  Name                 Persistence-M | Bus-Id          Disp.A | Volatile Uncorr. ECC |
| Fan  Temp   Perf          Pwr:Usage/Cap |           Memory-Usage | GPU-Util  Compute M. |
|                                         |                        |               MIG M. |
|=========================================+========================+======================|
|   0  NVIDIA A100-SXM4-80GB          On  |   00000000:07:00.0 Off |                    0 |
| N/A   34C    P0             65W /  400W |    1024MiB /  81920MiB |     15%      Default |
|                                         |                        |             Disabled |
+-----------------------------------------+------------------------+----------------------+
|   1  NVIDIA A100-SXM4-80GB          On  |   00000000:0B:00.0 Off |                    0 |
| N/A   36C    P0             66W /  400W |    2048MiB /  81920MiB |     25%      Default |
|                                         |                        |             Disabled |
+-----------------------------------------+------------------------+----------------------+
"""
LOGS = {
    "traceback": RECORDS + TRACEBACK,
    "traceback between": RECORDS + TRACEBACK + RECORDS.replace("step ", "step 1"),
    "chained": RECORDS + CHAINED,
    "ranks": RECORDS + RANKS,
    "out of memory": RECORDS + OOM * 3,
    "cut traceback": RECORDS + TRACEBACK[:-60],
    "root cause": RECORDS + TRACEBACK + ROOT,
    "settings": SETTINGS + RECORDS,
    "settings twice": SETTINGS + RECORDS + SETTINGS.replace("768", "1024") + RECORDS,
    "settings alone": SETTINGS,
    "nvidia-smi": SMI * 2 + RECORDS,
    "nvidia-smi between": RECORDS + SMI + RECORDS.replace("step ", "step 1") + SMI,
    "checkpoints": "".join(
        f"step {i} | loss 2.5\nsaving checkpoint to out/ckpt_{i}.pt\nsaved in 2.5 seconds\n" for i in range(1, 40)
    ),
    "killed": RECORDS + "slurmstepd: error: *** JOB 42 ON node01 CANCELLED AT 2024-05-06T07:08:09 DUE TO TIME LIMIT ***\n",
}  # fmt: skip


def read(text: str, chunk: int) -> dict[str, Any]:
    """Return all that a reader says of a text that is fed in chunks of so many bytes."""
    reader, data = LogReader("log"), text.encode()
    batches = [batch for start in range(0, len(data), chunk) for batch in reader.feed(data[start : start + chunk])]
    batches += reader.finish()
    report = reader.report()
    rows = [{key: repr(v) for key, v in row.items() if v is not None} for b in batches for row in b.rows.to_pylist()]
    events = [(e.line, e.kind, e.text, e.step, e.segment, sorted(e.data.items())) for b in batches for e in b.events]
    counts = (report.format, report.lines, report.records, report.eval_records, report.ignored, report.segments)
    return {
        "rows": rows,
        "events": events,
        "config": dict(report.config),
        "counts": counts,
        "notes": report.notes,
        "unparsed": sorted((one.line, one.text, one.reason.render()) for one in report.unparsed),
        "columns": sorted(column.name for column in report.columns),
        "drifts": report.drifts,
    }


@pytest.mark.parametrize("name", SAMPLES)
def test_a_format_reads_the_same_in_pieces(name: str) -> None:
    whole = read(SAMPLES[name], 1 << 22)
    for size in SIZES if len(SAMPLES[name]) < 700 else SIZES[1:]:
        assert read(SAMPLES[name], size) == whole, size


@pytest.mark.parametrize("name", LOGS)
def test_settings_and_events_are_the_same_in_pieces(name: str) -> None:
    whole = read(LOGS[name], 1 << 22)
    assert whole["events"] or whole["config"] or "nvidia" in name
    for size in (17, 500):
        assert read(LOGS[name], size) == whole, size


NOISY = {
    "csv": ["step,loss,lr", *(f"{i},{3 - i / 9000:.4f},0.0003" if i % 3 else f"worker {i}, shard" for i in range(1, 6001))],
    "jsonl": [f'{{"step": {i}, "loss": {3 - i / 9000:.4f}}}' if i % 3 else f"worker {i}" for i in range(1, 6001)],
    "cells": ["step,loss", *(f"{i},{2.5 if i % 3 else f'worker {i}'}" for i in range(1, 6001))],
}


@pytest.mark.parametrize("name", NOISY)
def test_every_line_that_does_not_fit_is_counted_in_pieces_of_any_size(name: str) -> None:
    data = ("\n".join(NOISY[name]) + "\n").encode()
    reports = []
    for chunk in (1 << 22, 10_000):
        reader = LogReader("log")
        for start in range(0, len(data), chunk):
            reader.feed(data[start : start + chunk])
        reader.finish()
        reports.append(reader.report())
    whole, pieces = reports
    assert whole.unparsed_count == 2000
    assert whole == pieces
    assert [one.line for one in whole.unparsed] == [at for at, line in enumerate(NOISY[name], 1) if "worker" in line][:100]


STEPS = "".join(f"step {i} | loss {3 - i / 100:.4f} | lr 0.0003\n" for i in range(1, 200))
OTHERS = "".join(f"{i} steps, the loss is {2.5 - i / 500:.3f}\n" for i in range(200, 300))
LONG = {
    "launches and forms": SETTINGS + STEPS + OOM + SETTINGS.replace("768", "512") + STEPS * 2 + OTHERS + TRACEBACK,
    "csv": "step,loss,lr\n" + "".join(f"{i},{3 - i / 900:.4f},0.0003\n" if i % 7 else "worker\n" for i in range(800)),
    "jsonl": "".join(f'{{"step": {i}, "loss": {3 - i / 900:.4f}}}\n' if i % 7 else "worker\n" for i in range(800)),
    "minimind": "".join(f"Epoch:[1/2]({i}/800) loss:{3 - i / 900:.3f} lr:0.0003 epoch_Time:9.0min:\n" for i in range(800)),
}


@pytest.mark.parametrize("name", LONG)
@pytest.mark.parametrize("chunk", [1 << 22, 7000])
def test_threads_make_no_difference(monkeypatch: pytest.MonkeyPatch, name: str, chunk: int) -> None:
    whole = read(LONG[name], 1 << 22)
    assert len(whole["rows"]) > 500
    monkeypatch.setattr(decode, "BLOCK", 1500)
    monkeypatch.setattr(reading, "BYTES", 3000)
    monkeypatch.setattr(delimited, "SHARE", 100)
    for count in (1, 2, 3):
        monkeypatch.setattr(threads, "COUNT", count)
        assert read(LONG[name], chunk) == whole, count
