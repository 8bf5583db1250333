"""Throughput of the reader against a per-line `re`, in the same run: python bench/reader.py [--mb 100] [--rounds 3].
`--stream 5` reads 5 GB of canonical lines instead, 20 MB again and again, and tells the memory that it needs.

Logs are made here, a tenth of their lines is noise (of JSON lines and tables: with and without). `specific` = a regular
expression that knows every field, a dict a line, a DataFrame at the end; `generic` = findall of any `name: number`, the
same way. The reader gets 16 MiB chunks and its batches are dropped as a store would take them. Rounds go A B C, A B C …; the
medians are printed. The reader uses every core, the others (and `one thread`, the reader without threads of its own) one; on a
busy machine the second line (by the processor's time) tells more.
"""

import argparse
import io
import json
import random
import re
import resource
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd

sys.path.insert(0, str(Path(__file__).parent.parent))

from storage.reader import CHUNK, LogReader
from storage.reading import threads

NUMBER = r"[-+]?(?:\d+\.?\d*(?:[eE][-+]?\d+)?|nan|inf)"
GENERIC = re.compile(rf"([A-Za-z_][\w /()-]*?)\s*[:=]\s*({NUMBER})")
NOISE = (
    "[INFO] data worker {} reads shard {}",
    "reading shard {} of {}, prefetch is on",
    "epoch {} took a while ({})",
    "2024-05-06 07:08:09,123 - INFO - keepalive {} of node {}",
)
RARE = "saving checkpoint {} to out/model_{}.pt"
CANONICAL = re.compile(
    rf"^Epoch:\[(\d+)/(\d+)\]\((\d+)/(\d+)\), loss: ({NUMBER}), logits_loss: ({NUMBER}), "
    rf"aux_loss: ({NUMBER}), lr: ({NUMBER}), epoch_time: ({NUMBER})min$"
)
MEGATRON = re.compile(
    rf"^ iteration +(\d+)/ +(\d+) \| consumed samples: +(\d+) \| elapsed time per iteration \(ms\): ({NUMBER}) \| "
    rf"learning rate: ({NUMBER}) \| global batch size: +(\d+) \| lm loss: ({NUMBER}) \| loss scale: ({NUMBER}) \| "
    rf"grad norm: ({NUMBER}) \| number of skipped iterations: +(\d+) \| number of nan iterations: +(\d+) \|$"
)


def canonical(index: int, r: random.Random) -> str:
    """Return one MiniMind line."""
    loss, aux = 2 + 6 * r.random(), r.random() / 100
    return (
        f"Epoch:[1/2]({index}/9000000), loss: {loss:.4f}, logits_loss: {loss - aux:.4f}, aux_loss: {aux:.4f}, "
        f"lr: {r.random() / 2000:.8f}, epoch_time: {r.random() * 90:.1f}min"
    )


def megatron(index: int, r: random.Random) -> str:
    """Return one Megatron-LM line."""
    loss, norm, lr, time_ms = 2 + r.random(), r.random(), r.random() / 1000, 900 + r.random() * 99
    return (
        f" iteration {index:8d}/ 9000000 | consumed samples: {index * 16:12d} | "
        f"elapsed time per iteration (ms): {time_ms:.1f} | learning rate: {lr:.3E} | "
        f"global batch size:    16 | lm loss: {loss:.6E} | loss scale: 32768.0 | "
        f"grad norm: {norm:.3f} | number of skipped iterations:   0 | number of nan iterations:   0 |"
    )


def jsonl(index: int, r: random.Random) -> str:
    """Return one JSON line."""
    return json.dumps(
        {"step": index, "loss": round(2 + r.random(), 5), "lr": 6.4e-5, "grad_norm": r.random(), "epoch": index / 1000}
    )


def table(index: int, r: random.Random) -> str:
    """Return one CSV line."""
    return f"{index},{2 + r.random():.5f},{r.random() / 1000:.8f},{r.random():.4f},{index * 1024}"


def make(line: Callable[[int, random.Random], str], megabytes: int, *, noise: bool = True, header: str = "") -> bytes:
    """Return a log of so many megabytes."""
    r = random.Random(7)
    lines, size, index = [header] if header else [], 0, 0
    block: list[str] = []
    while size < min(megabytes, 20) * 1_000_000:
        index += 1
        other = RARE if index % 5000 == 0 else r.choice(NOISE)
        text = other.format(index, r.randrange(99)) if noise and index % 10 == 0 else line(index, r)
        block.append(text)
        size += len(text) + 1
    lines += block * max(1, round(megabytes * 1_000_000 / size))
    return ("\n".join(lines) + "\n").encode()


def per_line(pattern: re.Pattern[str]) -> Callable[[bytes], int]:
    """Return a reader that knows the fields."""

    def read(data: bytes) -> int:
        found = (pattern.match(line) for line in data.decode().split("\n"))
        rows = [dict(enumerate(map(float, match.groups()))) for match in found if match]
        return len(pd.DataFrame(rows))

    return read


def any_pairs(data: bytes) -> int:
    """Read any `name: number`, names not known."""
    rows = []
    for line in data.decode().split("\n"):
        if pairs := GENERIC.findall(line):
            rows.append({name: float(value) for name, value in pairs})
    return len(pd.DataFrame(rows))


def ours(data: bytes) -> int:
    """Read as the product does."""
    reader, rows = LogReader("bench"), 0
    for start in range(0, len(data), CHUNK):
        rows += sum(batch.rows.num_rows for batch in reader.feed(data[start : start + CHUNK]))
    return rows + sum(batch.rows.num_rows for batch in reader.finish())


def alone(data: bytes) -> int:
    """Read as the product does on one core."""
    count, threads.COUNT = threads.COUNT, 1
    try:
        return ours(data)
    finally:
        threads.COUNT = count


def json_lines(data: bytes) -> int:
    """Read JSON lines with json.loads."""
    rows = []
    for line in data.decode().split("\n"):
        if line.startswith("{"):
            rows.append(json.loads(line))
    return len(pd.DataFrame(rows))


def pandas_csv(data: bytes) -> int:
    """Read CSV with pandas, bad lines skipped; columns that noise made text become numbers again."""
    frame = pd.read_csv(io.BytesIO(data), on_bad_lines="skip", engine="c")
    for name, column in frame.items():
        if not pd.api.types.is_numeric_dtype(column):
            frame[name] = pd.to_numeric(column, errors="coerce")
    return len(frame)


def stream(gigabytes: float) -> None:
    """Print what reading so much takes; the log is never held as a whole."""
    text = make(canonical, 20)
    held = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    reader, rows, size, left = LogReader("bench"), 0, 0, b""
    start, begin = time.perf_counter(), time.process_time()
    while size < gigabytes * 1e9:
        data = left + text
        left = data[len(data) // CHUNK * CHUNK :]
        for at in range(0, len(data) - len(left), CHUNK):
            rows += sum(batch.rows.num_rows for batch in reader.feed(data[at : at + CHUNK]))
        size += len(text)
    rows += sum(batch.rows.num_rows for batch in (*reader.feed(left), *reader.finish()))
    wall, cpu = time.perf_counter() - start, time.process_time() - begin
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(f"{size / 1e9:.1f} GB: {rows} rows, {reader.report().unparsed_count} lines not read, {size / 1e6 / wall:.0f} MB/s, "
          f"{size / 1e6 / cpu:.0f} MB/cpu-s, {peak:.0f} MB of memory at most ({held:.0f} MB before it began)")  # fmt: skip


def main() -> None:
    """Print the table and write bench/out/reader.json."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--mb", type=int, default=100)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", default="")
    parser.add_argument("--stream", type=float)
    arguments = parser.parse_args()
    if arguments.stream:
        return stream(arguments.stream)
    small = max(8, arguments.mb // 4)
    cases: dict[str, list[tuple[str, Callable[[bytes], int], bytes]]] = {}
    for name, line, pattern in (("canonical", canonical, CANONICAL), ("megatron", megatron, MEGATRON)):
        data, part = make(line, arguments.mb), make(line, small)
        cases[name] = [("specific re", per_line(pattern), part), ("generic re", any_pairs, part), ("reader", ours, data)]
    header = "step,loss,learning_rate,grad_norm,tokens_seen"
    for name, noise in (("", False), (" noisy", True)):
        data, part = make(jsonl, arguments.mb, noise=noise), make(jsonl, small, noise=noise)
        cases[f"jsonl{name}"] = [("json.loads", json_lines, part), ("reader", ours, data)]
        data = make(table, arguments.mb, noise=noise, header=header)
        cases[f"csv{name}"] = [("pandas", pandas_csv, data), ("reader", ours, data)]
    results: dict[str, Any] = {}
    for runs in cases.values():
        runs.append(("one thread", alone, runs[-1][2]))
    for name, runs in cases.items():
        if arguments.only not in ("", name):
            continue
        speeds: dict[str, list[float]] = {what: [] for what, _, _ in runs}
        busy: dict[str, list[float]] = {what: [] for what, _, _ in runs}
        for _ in range(arguments.rounds):
            for what, read, data in runs:
                start, begin = time.perf_counter(), time.process_time()
                rows = read(data)
                speeds[what].append(len(data) / 1e6 / (time.perf_counter() - start))
                busy[what].append(len(data) / 1e6 / (time.process_time() - begin))
                assert rows > 1000, (name, what, rows)
        medians = {what: statistics.median(values) for what, values in speeds.items()}
        ratios = {what: medians["reader"] / value for what, value in medians.items() if what != "reader"}
        print(f"{name:<10} " + "  ".join(f"{what} {value:7.1f} MB/s" for what, value in medians.items())
              + "   reader is " + ", ".join(f"{ratio:.1f}x {what}" for what, ratio in ratios.items()))  # fmt: skip
        by_cpu = {what: statistics.median(values) for what, values in busy.items()}
        print(" " * 11 + "  ".join(f"{what} {value:7.1f} MB/cpu-s" for what, value in by_cpu.items()))
        results[name] = {"mb_per_second": medians, "ratios": ratios, "mb_per_cpu_second": by_cpu}
    results["peak_mb"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    out = Path(__file__).parent / "out"
    out.mkdir(exist_ok=True)
    (out / "reader.json").write_text(json.dumps(results, indent=1))


if __name__ == "__main__":
    main()
