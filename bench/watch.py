"""What watching costs and how soon a line is in the store.

    python bench/watch.py                        # 1,000 logs of which 50 grow, 30 s; then 10,000 files at rest
    python bench/watch.py --files 1000 --growing 50 --seconds 60 --rate 1
    python bench/watch.py --page --seconds 120   # instead on an open page: a real server, Run health in Chromium, every stage

Latency: from the moment a line was written to the moment a reader of the store sees its row, or a visitor of Run health (at
its live interval of 2 s) the step. A second thread writes one line a log every 1/rate s, each log at its own moment; a third
one asks the store. Prints p50, p95 and the largest, the CPU of the thread that watches, and writes bench/out/watch.json.
"""

import argparse
import json
import random
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from functools import partial
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from bench.stamped_server import cpu_of  # noqa: E402
from bench.watch_page import figures, on_page  # noqa: E402
from storage.intake.watch import Watcher  # noqa: E402
from storage.keeping.sources import Watched  # noqa: E402
from storage.store import Store  # noqa: E402

SAMPLE = 200  # polls that are timed at rest


def line(step: int) -> str:
    """One line of the canonical form."""
    return (
        f"Epoch:[1/1]({step}/100000), loss: {9 - step / 10000:.4f}, logits_loss: 8.1000, aux_loss: 0.0022, "
        "lr: 0.00050000, epoch_time: 45.2min\n"
    )


def make(folder: Path, files: int, lines: int) -> list[Path]:
    """Write logs, a hundred a folder."""
    paths = []
    for number in range(files):
        path = folder / f"group{number // 100}" / f"run{number}.log"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("".join(line(step) for step in range(1, lines + 1)))
        paths.append(path)
    return paths


class Writer(threading.Thread):
    """Writes a line to each log every `period` seconds, and remembers when; runs until `stop` is set."""

    def __init__(self, logs: list[Path], first: int, period: float) -> None:
        super().__init__(daemon=True)
        self.written: dict[str, list[float]] = {path.name: [] for path in logs}
        self.stop = threading.Event()
        self._logs, self._first, self._period = logs, first, period

    def run(self) -> None:
        """Write."""
        due = [(time.time() + random.random() * self._period, path) for path in self._logs]
        while not self.stop.is_set():
            due.sort(key=lambda each: each[0])
            when, path = due[0]
            if self.stop.wait(max(0.0, when - time.time())):
                return
            times = self.written[path.name]
            with path.open("a") as log:
                log.write(line(self._first + len(times)))
            times.append(time.time())
            due[0] = (when + self._period, path)


def latencies(store: Store, writer: Writer, first: int, seconds: float) -> list[float]:
    """Ask the store again and again for the last step of each log; return the seconds from line to row."""
    seen = dict.fromkeys(writer.written, 0)
    found: list[float] = []
    end = time.monotonic() + seconds
    while time.monotonic() < end + 5:
        now = time.time()
        if time.monotonic() > end:
            writer.stop.set()
        for run in store.runs():
            name = run.name.rpartition("/")[2]
            if name in seen and run.last_step is not None:
                for count in range(seen[name], run.last_step - first + 1):
                    found.append(now - writer.written[name][count])
                seen[name] = max(seen[name], run.last_step - first + 1)
        time.sleep(0.02)
    lost = sum(len(times) for times in writer.written.values()) - len(found)
    if lost:
        print(f"{lost} lines are not in the store 5 s after the last was written")
    return found


def growing(files: int, grow: int, seconds: float, rate: float) -> dict[str, float]:
    """Measure latency and CPU with `files` logs of which `grow` grow."""
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place) / "logs"
        paths = make(folder, files, 20)
        store = Store(Path(place) / "data")
        watcher = Watcher(store, [Watched(str(folder))])
        began = time.monotonic()
        watcher.drain()
        first_read = time.monotonic() - began
        writer = Writer(random.sample(paths, grow), 21, 1 / rate)
        watcher.start()
        time.sleep(2)
        cpu = _cpu_of("watch")
        writer.start()
        began = time.monotonic()
        found = latencies(store, writer, 21, seconds)
        took = time.monotonic() - began
        used = _cpu_of("watch") - cpu
        watcher.stop()
        store.close()
        return {
            "files": files,
            "growing": grow,
            "lines": len(found),
            "first reading of all, s": first_read,
            **figures("latency", found),
            "CPU of the watch, share of a core": used / took,
        }


def _cpu_of(name: str) -> float:
    """Return the CPU seconds of the thread of this process with that name."""
    (thread,) = [thread for thread in threading.enumerate() if thread.name == name]
    return cpu_of(thread)


def at_rest(files: int) -> dict[str, float]:
    """Measure a poll that finds nothing new among `files` logs."""
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place) / "logs"
        make(folder, files, 0)
        with Store(Path(place) / "data") as store:
            watcher = Watcher(store, [Watched(str(folder))])
            watcher.drain()
            cpu, wall = [], []
            for _ in range(SAMPLE):
                began, used = time.perf_counter(), time.thread_time()
                watcher.poll()
                wall.append(1000 * (time.perf_counter() - began))
                cpu.append(1000 * (time.thread_time() - used))
    return {
        "files at rest": files,
        "poll, ms": statistics.median(wall),
        "poll p95, ms": statistics.quantiles(wall, n=20)[18],
        "poll, ms CPU": statistics.median(cpu),
    }


def main() -> None:
    """Measure, print, write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--files", type=int, default=1000)
    parser.add_argument("--growing", type=int, default=50)
    parser.add_argument("--seconds", type=float, default=30)
    parser.add_argument("--rate", type=float, default=1.0, help="lines a second and log")
    parser.add_argument("--page", action="store_true", help="measure an open page: a server, and Chromium")
    parser.add_argument("--rest", type=int, default=10_000, help="files of the poll that finds nothing new")
    asked = parser.parse_args()
    goals = {"latency p95, s": "≤ 2", "page: latency p95, s": "≤ 3", "poll, ms CPU": "< 50"}
    result: dict[str, float] = {}
    parts = [lambda: at_rest(asked.rest), lambda: growing(asked.files, asked.growing, asked.seconds, asked.rate)]
    if asked.page:
        parts = [lambda: on_page(make, partial(Writer, period=1 / asked.rate), asked.files, asked.growing, asked.seconds)]
    for part in parts:
        measured = part()
        result |= measured
        for name, value in measured.items():
            print(f"{name:40} {value:10.3f}  {goals.get(name, '')}", flush=True)
    print("load", Path("/proc/loadavg").read_text().strip(), "git", _revision())
    out = ROOT / "bench" / "out" / ("watch_page.json" if asked.page else "watch.json")
    out.parent.mkdir(exist_ok=True)
    out.write_text(json.dumps(result, indent=1) + "\n")


def _revision() -> str:
    return subprocess.run(["git", "rev-parse", "--short", "HEAD"], cwd=ROOT, capture_output=True, text=True).stdout.strip()


if __name__ == "__main__":
    main()
