"""Speed and size of the store: appending, small transactions, charts, last values, sparklines, disk.

    python bench/storage.py                        # modest: 200 runs × 3,750 steps × 20 metrics, one run of 1,000,000 steps
    python bench/storage.py --runs 2000 --long 10000000 --long-metrics 5      # 200 million points

Prints a table of warm medians with the goal beside, and writes bench/out/storage.json.
"""

import argparse
import json
import random
import resource
import shutil
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from storage.store import Store  # noqa: E402
from storage.types import ROW_SCHEMA, Batch  # noqa: E402

NAMES = ["loss", "lr", "grad_norm", "tokens_per_second", "step_time_seconds", "mfu_percent"]


def rows(first: int, count: int, metrics: list[str], seed: int = 0) -> pa.Table:
    """Rows as a log prints them: values of four or five digits, one line a step, a second apart."""
    rng = np.random.default_rng(seed + first)
    steps = np.arange(first, first + count)
    places = {
        "line": steps + 1,
        "kind": pa.DictionaryArray.from_arrays(np.zeros(count, np.int8), ["train"]).cast(pa.string()),
        "segment": np.zeros(count, np.int32),
        "step": steps,
        "step_printed": steps,
        "epoch": np.round(steps / 1e6, 2),
        "timestamp": 1_700_000_000_000 + 1000 * steps + rng.integers(0, 50, count),
    }
    arrays = [pa.array(places[f.name], f.type) if f.name in places else pa.nulls(count, f.type) for f in ROW_SCHEMA]
    for number, _ in enumerate(metrics):
        curve = (2 + 8 * np.exp(-steps / 50_000)) * (1 + number % 7)
        digits = 4 if number % 3 else 2
        arrays.append(pa.array(np.round(curve + rng.normal(0, 0.03, count), digits)))
    return pa.table(arrays, names=[*ROW_SCHEMA.names, *metrics])


def metric_names(run: int, count: int) -> list[str]:
    """The common names first, then names of the run's own family: over many runs several hundred different ones."""
    family = run % 20
    return (NAMES + [f"family_{family}/metric_{i}" for i in range(count)])[:count]


def timed(name: str, action: Callable[[], object], times: int = 7) -> dict[str, float]:
    """Return the median wall and CPU ms of `times` runs after one to warm up. On a busy machine only the CPU says something."""
    action()
    wall, cpu = [], []
    for _ in range(times):
        start, used = time.perf_counter(), time.process_time()
        action()
        wall.append(1000 * (time.perf_counter() - start))
        cpu.append(1000 * (time.process_time() - used))
    return {f"{name}, ms": statistics.median(wall), f"{name}, CPU ms": statistics.median(cpu)}


def write(store: Store, name: str, tables: list[pa.Table]) -> tuple[str, float]:
    """Store a run in one transaction; return its id and the seconds."""
    start = time.perf_counter()
    with store.writer(name=name) as writer:
        for table in tables:
            writer.append(Batch(table))
        writer.commit()
    return writer.run_id, time.perf_counter() - start


def fill(store: Store, options: argparse.Namespace) -> tuple[list[str], str, dict[str, float]]:
    """Write the many short runs and the long one; return their ids and what the writing took."""
    short, seconds = [], []
    for number in range(options.runs):
        table = rows(0, options.steps, metric_names(number, options.metrics), number)
        run, taken = write(store, f"run {number}", [table])
        short.append(run)
        seconds.append(taken)
    piece = 1_000_000
    long_tables = (
        rows(start, min(piece, options.long - start), NAMES[: options.long_metrics]) for start in range(0, options.long, piece)
    )
    spent = 0.0
    with store.writer(name="long") as writer:
        for table in long_tables:
            start = time.perf_counter()
            writer.append(Batch(table))
            spent += time.perf_counter() - start
        start = time.perf_counter()
        writer.commit()
        spent += time.perf_counter() - start
    figures = {"short run, ms": 1000 * statistics.median(seconds), "long run, Mrows/s": options.long / spent / 1e6}
    return short, writer.run_id, figures


def append_speed(store: Store) -> dict[str, float]:
    """A million rows × 10 columns, aggregates included."""
    tables = [rows(start, 125_000, [*NAMES, "a", "b", "c", "d"]) for start in range(0, 1_000_000, 125_000)]
    figures = timed("append 1M × 10 with aggregates", lambda: write(store, "append", tables), 3)
    return {"append 1M × 10, Mrows/s": 1000 / figures["append 1M × 10 with aggregates, ms"]} | figures


def small_commits(store: Store, ids: list[str], rows_each: int, times: int = 120) -> dict[str, float]:
    """Transactions of few rows into runs that grow side by side."""
    ids = ids[:50]
    next_step = {run: store.run(run).rows for run in ids}
    taken, used = [], []
    for number in range(times):
        run = ids[number % len(ids)]
        table = rows(next_step[run], rows_each, [c.name for c in store.columns(run)])
        lines = b"a line of a log that is about as long as such lines are, with some numbers: 1.2345\n" * rows_each
        start, before = time.perf_counter(), time.process_time()
        with store.writer(run) as writer:
            writer.append(Batch(table))
            writer.keep(lines)
            writer.commit(offset=next_step[run])
        taken.append(1000 * (time.perf_counter() - start))
        used.append(1000 * (time.process_time() - before))
        next_step[run] += rows_each
    name = f"commit of {rows_each} rows"
    return {
        f"{name}, ms": statistics.median(taken),
        f"{name}, CPU ms": statistics.median(used),
        f"{name}, p95 ms": float(np.percentile(taken, 95)),
        f"{name}, max ms": max(taken),
    }


def charts(store: Store, short: list[str], long: str, options: argparse.Namespace) -> dict[str, float]:
    """Warm medians of what pages ask for."""
    middle = options.long // 2
    some = random.Random(0).sample(short, min(20, len(short)))
    asked: dict[str, Callable[[], object]] = {
        "chart of the long run": lambda: store.buckets(long, ["loss"]),
        "three curves of the long run": lambda: store.buckets(long, NAMES[:3]),
        "zoom 1,000,000 steps": lambda: store.buckets(long, ["loss"], first=middle - 500_000, last=middle + 499_999),
        "zoom 100,000 steps": lambda: store.buckets(long, ["loss"], first=middle, last=middle + 99_999),
        "zoom 10,000 steps": lambda: store.buckets(long, ["loss"], first=middle, last=middle + 9_999),
        "chart by wall clock": lambda: store.buckets(long, ["loss"], x="timestamp"),
        "chart of a short run": lambda: store.buckets(short[0], NAMES[:3]),
        "20 runs compared": lambda: store.buckets_many(some, ["loss"], width=300),
        "frame of a short run": lambda: store.frame(short[0]),
        "frame of 100,000 steps": lambda: store.frame(long, first_step=middle, last_step=middle + 99_999),
        "last values of all runs": store.latest,
        "sparklines of all runs": store.sparklines,
        "runs": store.runs,
        "version": store.version,
    }
    figures: dict[str, float] = {}
    for name, action in asked.items():
        figures |= timed(name, action)
    return figures


def under_load(store: Store, ids: list[str], seconds: float) -> dict[str, float]:
    """20 readers and one writer: every chart must be of whole transactions (multiples of 100 rows)."""
    run = store.create_run("growing")
    stop = time.monotonic() + seconds
    reads, errors, torn, taken = [0], [], [0], []

    def read() -> None:
        last = 0
        while time.monotonic() < stop:
            start = time.perf_counter()
            try:
                found = store.buckets(run, ["loss"], width=100)
                store.latest(ids[:20])
            except Exception as error:
                errors.append(repr(error))
                continue
            taken.append(1000 * (time.perf_counter() - start))
            count = int(found["count"].sum())
            torn[0] += count % 100 != 0 or count < last
            last = count
            reads[0] += 1

    readers = [threading.Thread(target=read) for _ in range(20)]
    for reader in readers:
        reader.start()
    commits = []
    while time.monotonic() < stop:
        start = time.perf_counter()
        with store.writer(run) as writer:
            writer.append(Batch(rows(100 * len(commits), 100, NAMES[:3])))
            writer.commit()
        commits.append(1000 * (time.perf_counter() - start))
    for reader in readers:
        reader.join()
    for error in set(errors):
        print("error under load:", error)
    return {
        "load: reads": reads[0],
        "load: errors": len(errors),
        "load: torn": torn[0],
        "load: read p50, ms": statistics.median(taken),
        "load: commits": len(commits),
        "load: commit p50, ms": statistics.median(commits),
    }


def main() -> None:
    """Fill a store, measure, print, write JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=200)
    parser.add_argument("--steps", type=int, default=3750)
    parser.add_argument("--metrics", type=int, default=20)
    parser.add_argument("--long", type=int, default=1_000_000)
    parser.add_argument("--long-metrics", type=int, default=5)
    parser.add_argument("--load-seconds", type=float, default=5)
    parser.add_argument("--keep", type=Path, help="keep the store in this folder, and use it again if it is there")
    options = parser.parse_args()
    folder = options.keep or Path(tempfile.mkdtemp(prefix="runvitals-bench-"))
    figures: dict[str, float] = {}
    with Store(folder) as store:
        listed = store.runs()
        if any(run.name == "long" for run in listed):
            long = next(run.id for run in listed if run.name == "long")
            short = [run.id for run in listed if run.name.startswith("run ")]
        else:
            short, long, figures = fill(store, options)
    points = options.runs * options.steps * options.metrics + options.long * options.long_metrics
    size = (folder / "runvitals.duckdb").stat().st_size
    figures |= {"points, M": points / 1e6, "disk, bytes a point": size / points}
    start = time.perf_counter()
    with Store(folder) as store:
        figures["open, ms"] = 1000 * (time.perf_counter() - start)
        figures |= charts(store, short, long, options)
        figures |= small_commits(store, short, 1) | small_commits(store, short, 1000)
        figures |= append_speed(store)
        figures |= under_load(store, short, options.load_seconds)
    figures["peak memory, MB"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    for name, value in figures.items():
        print(f"{name:36} {value:12,.2f}")
    (ROOT / "bench" / "out").mkdir(exist_ok=True)
    (ROOT / "bench" / "out" / "storage.json").write_text(json.dumps(figures, indent=1))
    if not options.keep:
        shutil.rmtree(folder)


if __name__ == "__main__":
    main()
