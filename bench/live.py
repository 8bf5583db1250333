"""CPU time of the diagnosis of a run that grows by 1,000 rows a call, in memory and out of the store.

Usage: python bench/live.py [--rows 1000000 10000000] [--calls 60] [--json bench/out/live.json] [--data-dir DIR]

`rules` is the incremental diagnosis of rows in memory; `service` reads the new rows from the store, diagnoses, and keeps the
result, as the server does after each batch (the commit of the rows themselves is not counted). `first` is what meeting the
run for the first time costs, once.
"""

import argparse
import json
import resource
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

sys.path.insert(0, str(Path(__file__).parents[1]))

from analysis.live import Live, grow
from analysis.simulate import simulate
from server.live import CHUNK_ROWS
from server.service import Service
from server.settings import Settings
from storage.types import Batch, ParseReport

CALL_ROWS = 1000
REPORT = ParseReport("canonical", "", "utf-8", None, 0, 0, 0, 0, 0, 0, (), 1, (), {})
PERIOD = 500_000  # rows simulated; a longer run repeats their fluctuations


def rows_of(start: int, count: int, total: int) -> pa.Table:
    """Return rows `start`… of a long healthy run: the level of a slow fall, the fluctuations of a simulated one."""
    base = _base()
    at = np.arange(start, start + count)
    level = 1.7 + 7 * (at / 4 + 1.0) ** -0.4
    columns = {name: values[at % PERIOD] for name, values in base.items()}
    columns["loss"] = np.round(level * columns["loss"], 4)
    places = {"line": at + 1, "step": at + 1, "segment": np.zeros(count, np.int32)}
    table = pa.table({name: pa.array(values) for name, values in {**places, **columns}.items()})
    table = table.append_column("total_steps", pa.array(np.full(count, float(total))))
    return table.append_column("kind", pa.array(["train"] * count))


def _base(known: dict[str, np.ndarray] = {}) -> dict[str, np.ndarray]:  # noqa: B006  # worked out once
    if not known:
        frame = simulate(rows=PERIOD, seed=1, kind="constant").segment.rows
        loss = frame["loss"].to_numpy()
        smooth = np.convolve(loss, np.ones(501) / 501, mode="same")
        known["loss"] = np.clip(loss / np.maximum(smooth, 1e-9), 0.5, 1.5)
        known |= {name: frame[name].to_numpy() for name in ("lr", "grad_norm", "step_time_seconds") if name in frame}
    return known


def timed(calls: list[float]) -> dict[str, float]:
    """Return milliseconds: median, 90th percentile, highest, mean."""
    found = 1000 * np.array(calls)
    return {
        "p50_ms": round(float(np.median(found)), 1),
        "p90_ms": round(float(np.percentile(found, 90)), 1),
        "max_ms": round(float(found.max()), 1),
        "mean_ms": round(float(found.mean()), 1),
    }


def in_memory(rows: int, calls: int) -> dict[str, Any]:
    """Grow a run of `rows` rows in memory."""
    began, live, total = time.process_time(), Live(), 2 * rows
    first = 0.0
    for start in range(0, rows, CHUNK_ROWS):
        part = rows_of(start, min(CHUNK_ROWS, rows - start), total)
        began = time.process_time()
        live = grow(live, part)
        first += time.process_time() - began
    spent = []
    for call in range(calls):
        part = rows_of(rows + call * CALL_ROWS, CALL_ROWS, total)
        began = time.process_time()
        live = grow(live, part)
        spent.append(time.process_time() - began)
    return {"first_s": round(first, 2), **timed(spent)}


def in_store(rows: int, calls: int, data_dir: Path) -> dict[str, Any]:
    """Grow a run of `rows` rows in a store."""
    service, total = Service.open(Settings(data_dir=data_dir)), 2 * rows
    run = service.store.create_run(f"{rows}")
    for start in range(0, rows, CHUNK_ROWS):
        _store(service, run, rows_of(start, min(CHUNK_ROWS, rows - start), total))
    began = time.process_time()
    verdict = service.diagnosis(run).verdict
    first = time.process_time() - began
    spent = []
    for call in range(calls):
        _store(service, run, rows_of(rows + call * CALL_ROWS, CALL_ROWS, total))
        began = time.process_time()
        service.diagnosis(run)
        spent.append(time.process_time() - began)
    service.close()
    return {"first_s": round(first, 2), **timed(spent), "verdict": str(verdict)}


def _store(service: Service, run: str, rows: pa.Table) -> None:
    with service.store.writer(run) as writer:
        writer.append(Batch(rows))
        writer.commit(report=REPORT)


def main() -> None:
    """Run the bench and print its table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, nargs="+", default=[1_000_000, 10_000_000])
    parser.add_argument("--calls", type=int, default=60)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--data-dir", type=Path)
    options = parser.parse_args()
    table = []
    print(f"{'rows':>12} {'':9} {'first s':>8} {'p50 ms':>7} {'p90 ms':>7} {'max ms':>7} {'mean ms':>8}")
    for rows in options.rows:
        with tempfile.TemporaryDirectory(dir=options.data_dir) as folder:
            for where, found in (
                ("rules", in_memory(rows, options.calls)),
                ("service", in_store(rows, options.calls, Path(folder))),
            ):
                figures = " ".join(f"{found[key]:>7}" for key in ("first_s", "p50_ms", "p90_ms", "max_ms", "mean_ms"))
                print(f"{rows:>12,} {where:8} {figures}", flush=True)
                table.append({"rows": rows, "where": where, **found})
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10
    print(f"peak memory {memory} MiB")
    if options.json:
        options.json.parent.mkdir(parents=True, exist_ok=True)
        options.json.write_text(json.dumps({"calls": table, "peak_mib": memory}, indent=1))


if __name__ == "__main__":
    main()
