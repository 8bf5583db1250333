"""A large log into an empty store: `python bench/ingest.py [--gb 5]`; tells speed, memory at most and what the store takes.

The log is written first, with the steps of one run of two epochs, into a folder that is deleted again: it takes the size of the
log and half as much. A process of its own ingests it as the command line does, so that the memory is that of the ingest alone.
"""

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from bench.canonical import LINES_PER_BLOCK, write  # noqa: E402
from storage.intake.ingest import ingest_file  # noqa: E402
from storage.store import Store  # noqa: E402


def ingest(log: Path, data: Path) -> dict[str, float]:
    """Ingest a log; return what it took of this process."""
    start, used = time.perf_counter(), time.process_time()
    with Store(data) as store:
        done = ingest_file(store, log)
        rows = store.run(done.run_id).rows
    wall, cpu = time.perf_counter() - start, time.process_time() - used
    size = log.stat().st_size / 1e6
    kept = sum(path.stat().st_size for path in data.rglob("*") if path.is_file()) / 1e6
    return {
        "rows": rows,
        "lines not read": done.report.unparsed_count,
        "MB/s": round(size / wall, 1),
        "MB/cpu-s": round(size / cpu, 1),
        "memory at most, MB": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024),
        "store, MB": round(kept),
    }


def main() -> None:
    """Print one line of JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--gb", type=float, default=5.0)
    parser.add_argument("--log", type=Path, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.log:
        print(json.dumps(ingest(given.log, given.log.parent / "data")))
        return
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder) / "train.log"
        write(log, LINES_PER_BLOCK)
        write(log, 2 * round(given.gb * 1e9 / log.stat().st_size * LINES_PER_BLOCK / 2))
        found = subprocess.run([sys.executable, __file__, "--log", str(log)], check=True, stdout=subprocess.PIPE, text=True)
        print(json.dumps({"log, GB": round(log.stat().st_size / 1e9, 2)} | json.loads(found.stdout)))


if __name__ == "__main__":
    main()
