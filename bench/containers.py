"""How fast the containers read: JSON lines against `json.loads` per line, CSV against pandas, in the same run; and what
searching a clean log for events and settings costs.

    python bench/containers.py [--megabytes 60] [--json FILE]

Each figure is the best of three rounds in CPU seconds and in wall seconds; ratios are of the same clock.
"""

import argparse
import io
import json
import random
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pandas as pd

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from storage.reading.config import ConfigScanner
from storage.reading.containers import Delimited, HfDict, JsonLines
from storage.reading.events import EventScanner

BLOCK = 8 << 20
ROUNDS = 3


def records(count: int) -> Iterator[dict[str, Any]]:
    """Yield training records of a made-up run."""
    draw = random.Random(7)
    for step in range(count):
        loss = 2 + 8 / (1 + step / 5000) + draw.random() / 10
        yield {
            "step": step,
            "epoch": step / 40_000,
            "loss": round(loss, 5),
            "lr": 3e-4 * (1 - step / count),
            "grad_norm": draw.random(),
            "tokens_per_second": round(9000 + 100 * draw.random(), 2),
        }


def clock(seconds: float) -> str:
    """Return seconds as `H:MM:SS`."""
    return f"{int(seconds) // 3600}:{int(seconds) // 60 % 60:02}:{int(seconds) % 60:02}"


def samples(megabytes: float) -> dict[str, bytes]:
    """Return one text of each kind, about this large."""
    rows = list(records(int(megabytes * 1e6 / 150)))
    noise = "WARNING: a line between"
    noisy = (json.dumps(row) + (f"\n{noise}" if row["step"] % 10 == 9 else "") for row in rows)
    spelled = (
        {"current_steps": r["step"], "total_steps": len(rows), "loss": r["loss"], "eval_loss": None, "lr": r["lr"]}
        | {"elapsed_time": clock(r["step"]), "remaining_time": clock(len(rows) - r["step"])}
        for r in rows
    )
    table = [",".join(rows[0]), *(",".join(map(repr, row.values())) for row in rows)]
    return {
        "jsonl": "\n".join(map(json.dumps, rows)).encode() + b"\n",
        "jsonl, every 10th line noise": "\n".join(noisy).encode() + b"\n",
        "jsonl, times as text": "\n".join(map(json.dumps, spelled)).encode() + b"\n",
        "csv": "\n".join(table).encode() + b"\n",
        "csv, every 10th line noise": "\n".join(noise if i % 10 == 9 else t for i, t in enumerate(table)).encode() + b"\n",
        "hf dict": "\n".join(map(repr, rows)).encode() + b"\n",
    }


def blocks(text: bytes) -> Iterator[tuple[bytes, int]]:
    """Yield (block of whole lines, number of its first line), as a reader hands them on."""
    line, place = 1, 0
    while place < len(text):
        end = text.rfind(b"\n", place, place + BLOCK) + 1
        yield text[place:end], line
        line += text.count(b"\n", place, end)
        place = end


def through(container: type, parts: list[tuple[bytes, int]]) -> int:
    """Read the text block by block; return the number of rows."""
    reader = container()
    tables = [reader.feed(block, line) for block, line in parts]
    return sum(table.num_rows for table in tables if table is not None)


def each_loads(text: bytes) -> int:
    """Baseline: `json.loads` for every line, the dicts kept."""
    found = []
    for line in text.splitlines():
        try:
            found.append(json.loads(line))
        except ValueError:
            continue
    return len(found)


def by_pandas(text: bytes) -> int:
    """Baseline: pandas with `on_bad_lines="skip"`, columns that noise made text turned into numbers."""
    frame = pd.read_csv(io.BytesIO(text), on_bad_lines="skip")
    for name, column in frame.items():
        if not pd.api.types.is_numeric_dtype(column):
            frame[name] = pd.to_numeric(column, errors="coerce")
    return len(frame.dropna(how="all"))


def best(work: Callable[[], int]) -> tuple[float, float, int]:
    """Return the best (CPU seconds, wall seconds) of the rounds, and the rows."""
    cpu, wall, rows = [], [], 0
    for _ in range(ROUNDS):
        began, used = time.perf_counter(), time.process_time()
        rows = work()
        wall.append(time.perf_counter() - began)
        cpu.append(time.process_time() - used)
    return min(cpu), min(wall), rows


def measure(megabytes: float) -> list[dict[str, Any]]:
    """Return one row of figures for each kind of text."""
    figures = []
    for kind, text in samples(megabytes).items():
        container = JsonLines if kind.startswith("jsonl") else Delimited if kind.startswith("csv") else HfDict
        parts = list(blocks(text))
        baseline = by_pandas if kind.startswith("csv") else each_loads if kind.startswith("jsonl") else None
        cpu, wall, rows = best(lambda c=container, p=parts: through(c, p))
        row = {"kind": kind, "MB": round(len(text) / 1e6, 1), "rows": rows, "MB/s": round(len(text) / 1e6 / wall)}
        row["MB/cpu-s"] = round(len(text) / 1e6 / cpu)
        if baseline:
            base_cpu, base_wall, base_rows = best(lambda b=baseline, t=text: b(t))
            row |= {"baseline rows": base_rows, "baseline MB/s": round(len(text) / 1e6 / base_wall)}
            row |= {"ratio": round(base_wall / wall, 1), "cpu ratio": round(base_cpu / cpu, 1)}
        figures.append(row)
    return figures


def clean_log(megabytes: float) -> bytes:
    """Return a canonical log without anything but records: searching it for events and settings is pure loss."""
    rows = records(int(megabytes * 1e6 / 103))
    line = (
        "Epoch:[1/1]({step}/9000000), loss: {loss:.4f}, logits_loss: {loss:.4f}, aux_loss: 0.0, lr: {lr:.8f}, epoch_time: 9min"
    )
    return "\n".join(line.format(**row) for row in rows).encode() + b"\n"


def searching(megabytes: float) -> list[dict[str, Any]]:
    """Return seconds for each 100 MB of a clean log that the scanners of events and settings need, the best of three."""
    text = clean_log(megabytes)
    parts, figures = list(blocks(text)), []
    for kind, scanner in (("events", EventScanner), ("settings", ConfigScanner)):
        cpu, wall, _ = best(lambda s=scanner: len([feed(*part) for feed in [s().feed] for part in parts]))
        scale = 100e6 / len(text)
        figures.append(
            {
                "kind": kind,
                "MB": round(len(text) / 1e6),
                "s/100MB": round(wall * scale, 3),
                "cpu-s/100MB": round(cpu * scale, 3),
            }
        )
    return figures


def main() -> None:
    """Print the table; write it as JSON where asked."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--megabytes", type=float, default=60.0)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    figures = measure(options.megabytes)
    print(pd.DataFrame(figures).to_string(index=False))
    searched = searching(options.megabytes)
    print(pd.DataFrame(searched).to_string(index=False))
    if options.json:
        options.json.write_text(json.dumps(figures + searched, indent=1))


if __name__ == "__main__":
    main()
