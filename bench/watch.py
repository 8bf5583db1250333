"""What watching costs and how soon a line is in the store.

    python bench/watch.py                        # 1,000 logs of which 50 grow, 30 s; then 10,000 files at rest
    python bench/watch.py --files 1000 --growing 50 --seconds 60 --rate 1
    python bench/watch.py --page                 # and on an open page: a real server, Run health in Chromium

Latency: from the moment a line was written to the moment a reader of the store sees its row, or a visitor of Run health (at
its live interval of 2 s) the step. A second thread writes one line a log every 1/rate s, each log at its own moment; a third
one asks the store. Prints p50, p95 and the largest, the CPU of the thread that watches, and writes bench/out/watch.json.
"""

import argparse
import json
import os
import random
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from storage.intake.watch import Watcher  # noqa: E402
from storage.keeping.sources import Watched  # noqa: E402
from storage.store import Store  # noqa: E402

SAMPLE = 200  # polls that are timed at rest
FIRST = 70_001  # step of the first line that is written while the page is open: no other number there is like it


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
        due = [(time.monotonic() + random.random() * self._period, path) for path in self._logs]
        while not self.stop.is_set():
            due.sort(key=lambda each: each[0])
            when, path = due[0]
            if self.stop.wait(max(0.0, when - time.monotonic())):
                return
            times = self.written[path.name]
            with path.open("a") as log:
                log.write(line(self._first + len(times)))
            times.append(time.monotonic())
            due[0] = (when + self._period, path)


def on_page(files: int, grow: int, seconds: float, rate: float) -> dict[str, float]:
    """Measure how soon a step shows on an open page of one of the growing logs; the server watches the folder by itself."""
    from playwright.sync_api import sync_playwright

    from tests.browser.conftest import FLAGS
    from tests.serving import serving

    with tempfile.TemporaryDirectory() as place:
        folder, data = Path(place) / "logs", Path(place) / "data"
        paths = make(folder, files, 20)
        with Store(data) as store:
            Watcher(store, [Watched(str(folder))]).drain()
            run = next(run for run in store.runs() if run.source == str(paths[0]))
        writer = Writer([paths[0], *random.sample(paths[1:], grow - 1)], FIRST, 1 / rate)
        with serving(data, Path(place) / "server.log", RUNVITALS_WATCH=str(folder)) as served, sync_playwright() as playwright:
            path = os.environ.get("RUNVITALS_CHROMIUM") or shutil.which("chromium")
            page = playwright.chromium.launch(executable_path=path, args=FLAGS).new_page(
                viewport={"width": 1440, "height": 900}
            )
            page.goto(f"{served.url}/health?run={run.id}&live=2")
            page.wait_for_selector(".stVegaLiteChart", timeout=120_000)
            writer.start()
            found = _shown(lambda: str(page.evaluate("document.body.innerText")), writer.written[paths[0].name], seconds)
            writer.stop.set()
        return {"page: lines": len(found), **_figures("page: latency", found)}


def _shown(text: Callable[[], str], written: list[float], seconds: float) -> list[float]:
    """Look at a page again and again for the last step; return the seconds from each line to its step."""
    found: list[float] = []
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        said, now = text(), time.monotonic()
        steps = [int(digits.replace(",", "")) - FIRST + 1 for digits in re.findall(r"\b[\d,]+\b", said) if digits.strip(",")]
        seen = max((step for step in steps if 0 < step <= len(written)), default=0)
        found += [now - when for when in written[len(found) : seen]]
        time.sleep(0.05)
    return found


def _figures(name: str, found: list[float]) -> dict[str, float]:
    ordered = statistics.quantiles(found, n=20) if len(found) > 1 else [float("nan")] * 19
    return {f"{name} p50, s": ordered[9], f"{name} p95, s": ordered[18], f"{name} max, s": max(found, default=float("nan"))}


def latencies(store: Store, writer: Writer, first: int, seconds: float) -> list[float]:
    """Ask the store again and again for the last step of each log; return the seconds from line to row."""
    seen = dict.fromkeys(writer.written, 0)
    found: list[float] = []
    end = time.monotonic() + seconds
    while time.monotonic() < end + 5:
        now = time.monotonic()
        if now > end:
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
            **_figures("latency", found),
            "CPU of the watch, share of a core": used / took,
        }


def _cpu_of(name: str) -> float:
    """Return the CPU seconds of the thread of this process with that name."""
    (thread,) = [thread for thread in threading.enumerate() if thread.name == name]
    with open(f"/proc/self/task/{thread.native_id}/stat") as status:
        fields = status.read().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / 100


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
    parser.add_argument("--page", action="store_true", help="measure an open page too: a server, and Chromium")
    parser.add_argument("--rest", type=int, default=10_000, help="files of the poll that finds nothing new")
    asked = parser.parse_args()
    goals = {"latency p95, s": "≤ 2", "page: latency p95, s": "≤ 3", "poll, ms CPU": "< 50"}
    result: dict[str, float] = {}
    parts = [lambda: at_rest(asked.rest), lambda: growing(asked.files, asked.growing, asked.seconds, asked.rate)]
    parts += [lambda: on_page(asked.files, asked.growing, asked.seconds, asked.rate)] if asked.page else []
    for part in parts:
        measured = part()
        result |= measured
        for name, value in measured.items():
            print(f"{name:40} {value:10.3f}  {goals.get(name, '')}", flush=True)
    print("load", Path("/proc/loadavg").read_text().strip(), "git", _revision())
    out = ROOT / "bench" / "out" / "watch.json"
    out.parent.mkdir(exist_ok=True)
    out.write_text(json.dumps(result, indent=1) + "\n")


def _revision() -> str:
    return subprocess.run(["git", "rev-parse", "--short", "HEAD"], cwd=ROOT, capture_output=True, text=True).stdout.strip()


if __name__ == "__main__":
    main()
