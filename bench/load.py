"""Many viewers at once: `python bench/load.py [--viewers 20] [--seconds 600] [--steps 10000000] [--runs 2000] [--data DIR]`.

Fills a store (kept in DIR if that is given, and used again) with `runs` short runs and one of `steps` steps that holds a
one-step spike and one NaN; starts the server with a watched folder in which one more log grows. Real WebSocket clients then
look at Run health, live every 2 s, half at the long run and half at the growing one. Prints lines of JSON: first the CPU
time of the server for a rerun of one viewer alone (right after the start, when it may judge runs, and at rest), then, for all
together, seconds from asking to the end of the rerun, errors, kB a rerun, and the server's memory in the first and the last
tenth of the time.
"""

import argparse
import asyncio
import contextlib
import json
import random
import statistics
import sys
import tempfile
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pyarrow as pa
import websockets
from streamlit.proto.BackMsg_pb2 import BackMsg
from streamlit.proto.ForwardMsg_pb2 import ForwardMsg

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from bench.overview import fill  # noqa: E402
from bench.storage import rows  # noqa: E402
from server.service import Service  # noqa: E402
from server.settings import load_settings  # noqa: E402
from storage.store import Store  # noqa: E402
from storage.types import Batch  # noqa: E402
from tests.serving import Served, serving  # noqa: E402

LONG, GROWING = "long", "growing.log"
EVERY = 2.0
THERE_SECONDS = 0.001  # to wait for a message that is there
PIECE = 1_000_000
RESTED = 0.1  # of a core: a server that watches a log which grows by five lines a second
DONE = {"FINISHED_SUCCESSFULLY", "FINISHED_FRAGMENT_RUN_SUCCESSFULLY"}


def build(data: Path, runs: int, steps: int) -> None:
    """Fill a store: short runs with diagnoses, and a long one with a spike in one step and a NaN in another."""
    data.mkdir(parents=True, exist_ok=True)
    fill(data, runs)
    with Store(data) as store, store.writer(name=LONG) as writer:
        for start in range(0, steps, PIECE):
            table = rows(start, min(PIECE, steps - start), ["loss", "lr", "grad_norm"])
            loss = table["loss"].to_numpy().copy()
            for at, value in ((int(steps * 0.37), 10.0), (int(steps * 0.71), np.nan)):
                if start <= at < start + len(loss):
                    loss[at - start] *= value
            writer.append(Batch(table.set_column(table.column_names.index("loss"), "loss", pa.array(loss))))
        writer.commit()
    service = Service.open(load_settings(environ={}, data_dir=data))
    began = time.process_time()
    service.diagnosis(service.find_run(LONG))
    print(f"first diagnosis of the long run: {time.process_time() - began:.1f} s CPU", file=sys.stderr)
    service.close()


@dataclass
class Viewer:
    """A browser as the server sees it: a WebSocket, a page (by `name`), the fragment that it asks for again and again, what
    came back."""

    url: str
    query: str
    name: str = "health"
    fragment: str = ""
    page: str = ""
    seconds: list[float] = field(default_factory=list)
    kb: list[float] = field(default_factory=list)
    errors: int = 0
    cached: set[str] = field(default_factory=set)

    async def look(self, until: float) -> None:
        """Open the page and stay to the end, a rerun of the live part every EVERY seconds."""
        stream = self.url.replace("http", "ws", 1) + "/_stcore/stream"
        async with websockets.connect(stream, subprotocols=["streamlit"], max_size=None) as socket:  # type: ignore[list-item]
            await self.rerun(socket, live=False)
            self.seconds.clear()
            self.kb.clear()
            await asyncio.sleep(random.uniform(0, EVERY))
            while time.monotonic() < until:
                began = time.monotonic()
                await self.rerun(socket, live=True)
                await asyncio.sleep(max(0.0, EVERY - (time.monotonic() - began)))

    async def rerun(self, socket: websockets.ClientConnection, *, live: bool) -> None:
        """Ask for a rerun (of the live part only) and wait for its end."""
        message = BackMsg()
        message.rerun_script.query_string = self.query
        message.rerun_script.page_name = "" if self.page else self.name
        message.rerun_script.page_script_hash = self.page
        message.rerun_script.cached_message_hashes.extend(self.cached)
        message.rerun_script.context_info.locale = "en-US"
        if live:
            message.rerun_script.fragment_id = self.fragment
            message.rerun_script.is_auto_rerun = True
        await self._take(socket)
        began, size = time.monotonic(), 0
        await socket.send(message.SerializeToString())
        while True:
            data = await asyncio.wait_for(socket.recv(), 120)
            size += len(data)
            if self._ended(ForwardMsg.FromString(bytes(data))):
                break
        self.seconds.append(time.monotonic() - began)
        self.kb.append(size / 1024)

    async def _take(self, socket: websockets.ClientConnection) -> None:
        """Take what has come of reruns that the server began by itself: they are not timed, but their errors count."""
        with contextlib.suppress(TimeoutError):
            while True:
                self._ended(ForwardMsg.FromString(bytes(await asyncio.wait_for(socket.recv(), THERE_SECONDS))))

    def _ended(self, message: ForwardMsg) -> bool:
        kind = message.WhichOneof("type")
        if message.metadata.cacheable:
            self.cached.add(message.hash)
        if kind == "navigation":
            self.page = message.navigation.page_script_hash
        elif kind == "auto_rerun":
            self.fragment = message.auto_rerun.fragment_id
        elif kind == "delta" and message.delta.new_element.WhichOneof("type") in ("exception", "alert"):
            self.errors += 1
        elif kind == "script_finished":
            word = ForwardMsg.ScriptFinishedStatus.Name(message.script_finished)
            self.errors += word not in (*DONE, "FINISHED_EARLY_FOR_RERUN")
            return word in DONE
        return False


def cpu_seconds(pid: int) -> float:
    """Return the time that a process has spent on a CPU in all its threads, those that have ended too, to the nanosecond."""
    # The clock of another process, which `clock_getcpuclockid` of the C library makes like this.
    return time.clock_gettime(~pid << 3 | 2)


def memory_mib(pid: int) -> float:
    """Return the resident memory of a process."""
    (line,) = [line for line in Path(f"/proc/{pid}/status").read_text().splitlines() if line.startswith("VmRSS")]
    return int(line.split()[1]) / 1024


def rested(served: Served, *, most: float = 180.0) -> dict[str, float]:
    """Wait until the server has judged what there is to judge; return the share of a core that it still uses (it watches)."""
    until, share = time.monotonic() + most, 1.0
    while share > RESTED and time.monotonic() < until:
        before = cpu_seconds(served.pid)
        time.sleep(EVERY)
        share = (cpu_seconds(served.pid) - before) / EVERY
    return {"server_share": round(share, 2)}


async def alone(served: Served, query: str, reruns: int) -> dict[str, float]:
    """Return CPU ms of the server for one rerun of one viewer: of the live part, and of the whole page."""
    viewer, spent = Viewer(served.url, query), {"live": [], "page": []}
    stream = served.url.replace("http", "ws", 1) + "/_stcore/stream"
    async with websockets.connect(stream, subprotocols=["streamlit"], max_size=None) as socket:  # type: ignore[list-item]
        for number in range(3):
            await viewer.rerun(socket, live=number > 0)
        for kind, live in (("live", True), ("page", False)):
            for _ in range(reruns):
                await asyncio.sleep(0.3)
                before = cpu_seconds(served.pid)
                await viewer.rerun(socket, live=live)
                spent[kind].append(1000 * (cpu_seconds(served.pid) - before))
    found = {f"{kind}_cpu_ms_p50": round(statistics.median(each), 1) for kind, each in spent.items()}
    found |= {f"{kind}_cpu_ms_p95": round(float(np.percentile(each, 95)), 1) for kind, each in spent.items()}
    return found | {"kb": round(max(viewer.kb)), "errors": viewer.errors}


async def together(served: Served, queries: list[str], viewers: int, seconds: float) -> dict[str, float]:
    """Let many look at once; return how long a rerun took them, errors, kB, memory at the beginning and the end."""
    until = time.monotonic() + seconds
    all_ = [Viewer(served.url, queries[number % len(queries)]) for number in range(viewers)]
    memory: list[float] = []

    async def watch() -> None:
        while time.monotonic() < until:
            memory.append(memory_mib(served.pid))
            await asyncio.sleep(1)

    before = cpu_seconds(served.pid)
    await asyncio.gather(watch(), *(viewer.look(until) for viewer in all_))
    took = [second for viewer in all_ for second in viewer.seconds]
    tenth = max(1, len(memory) // 10)
    return {
        "viewers": viewers,
        "reruns": len(took),
        "p50_ms": round(1000 * statistics.median(took)),
        "p95_ms": round(1000 * float(np.percentile(took, 95))),
        "errors": sum(viewer.errors for viewer in all_),
        "kb_max": round(max(kb for viewer in all_ for kb in viewer.kb)),
        "cpu_share": round((cpu_seconds(served.pid) - before) / seconds, 2),
        "memory_first_mib": round(statistics.median(memory[tenth : 2 * tenth] or memory)),
        "memory_last_mib": round(statistics.median(memory[-tenth:])),
    }


def grow(path: Path, stop: threading.Event) -> None:
    """Append a line a second to a log."""
    step = 0
    while not stop.wait(1.0):
        with path.open("a", encoding="utf-8") as file:
            for _ in range(5 if step else 2000):
                step += 1
                file.write(f"step: {step}/1000000 loss: {2 + 8 / (1 + step / 500):.4f} lr: 5e-4 grad_norm: 1.{step % 7}\n")


def main() -> None:
    """Print the figures as JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--viewers", type=int, default=20)
    parser.add_argument("--seconds", type=float, default=600)
    parser.add_argument("--steps", type=int, default=10_000_000)
    parser.add_argument("--runs", type=int, default=2000)
    parser.add_argument("--reruns", type=int, default=40)
    parser.add_argument("--data", type=Path)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        data, logs, stop = given.data or Path(folder) / "data", Path(folder) / "logs", threading.Event()
        logs.mkdir()
        if not data.exists():
            build(data, given.runs, given.steps)
        with Store(data) as store:
            long = next(run.id for run in store.runs() if run.name == LONG)
        writer = threading.Thread(target=grow, args=(logs / GROWING, stop), daemon=True)
        writer.start()
        with serving(data, Path(folder) / "server.log", RUNVITALS_WATCH=str(logs)) as served:
            time.sleep(8)
            queries = [f"run={long}&live=2", "live=2"]  # without a run: the one that changed last
            print(json.dumps({"one viewer": asyncio.run(alone(served, queries[0], given.reruns))}), flush=True)
            print(json.dumps({"of a growing run": asyncio.run(alone(served, queries[1], given.reruns))}), flush=True)
            busy = rested(served)
            print(json.dumps({"one viewer, at rest": asyncio.run(alone(served, queries[0], given.reruns)) | busy}), flush=True)
            print(json.dumps(asyncio.run(together(served, queries, given.viewers, given.seconds))), flush=True)
            stop.set()


if __name__ == "__main__":
    main()
