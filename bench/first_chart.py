"""From a log on disk to the first chart: 1,000,000 steps × 4 metrics with a spike and a NaN of one step, beside TensorBoard.

    python bench/first_chart.py                  # --steps 200000 for a quick one

The same values are written as a text log and as tfevents (pip install -r requirements-dev.txt; without tensorboard its rows
are left out). Each way runs in a process of its own: from the file to all the data of the chart of one metric, then
another range of it. Prints a table, writes bench/out/first_chart.json.
"""

import argparse
import json
import os
import re
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

METRICS = ("loss", "lr", "grad_norm", "tokens_per_second")
SPIKE, BAD = 0.37, 0.71  # where they are, as a share of the run


def curves(steps: int) -> dict[str, np.ndarray]:
    """The values of all metrics, as printed; loss has a spike of ten times and a NaN."""
    rng = np.random.default_rng(5)
    at = np.arange(steps)
    loss = np.round(2 + 6 * np.exp(-at / 60_000) + rng.normal(0, 0.02, steps), 4)
    loss[int(SPIKE * steps)] *= 10
    loss[int(BAD * steps)] = np.nan
    values = (loss, np.round(3e-4 * (1 - at / steps), 10), np.round(rng.gamma(9, 0.1, steps), 3), rng.normal(9e4, 500, steps))
    return dict(zip(METRICS, values, strict=True))


def write_log(path: Path, steps: int) -> None:
    """Write the values as a text log."""
    columns = [values.tolist() for values in curves(steps).values()]
    with path.open("w", encoding="utf-8") as file:
        for step, values in enumerate(zip(*columns, strict=True), 1):
            file.write(f"step: {step} " + " ".join(f"{n}: {v:.10g}" for n, v in zip(METRICS, values, strict=True)) + "\n")


def write_events(folder: Path, steps: int) -> bool:
    """Write the values as tfevents; say whether tensorboard is there to do so."""
    try:
        from tensorboard.compat.proto.event_pb2 import Event
        from tensorboard.compat.proto.summary_pb2 import Summary
        from tensorboard.summary.writer.record_writer import RecordWriter
    except ImportError:
        return False
    folder.mkdir()
    columns = [values.tolist() for values in curves(steps).values()]
    with (folder / "events.out.tfevents.1700000000.host").open("wb") as file:
        writer = RecordWriter(file)
        writer.write(Event(wall_time=1.7e9, file_version="brain.Event:2").SerializeToString())
        for step, values in enumerate(zip(*columns, strict=True), 1):
            found = [Summary.Value(tag=n, simple_value=v) for n, v in zip(METRICS, values, strict=True)]
            event = Event(wall_time=1.7e9 + step, step=step, summary=Summary(value=found))
            writer.write(event.SerializeToString())
    return True


def ours(path: Path, steps: int) -> dict[str, Any]:
    """Ingest the log into a new store and ask for the chart."""
    from storage.intake.ingest import ingest_file
    from storage.store import Store

    with tempfile.TemporaryDirectory() as folder, Store(folder) as store:
        start = time.perf_counter()
        run = ingest_file(store, path).run_id
        chart = store.buckets(run, ["loss"], width=1000)
        first = time.perf_counter() - start
        ranges = []
        for part in range(1, 8):
            start = time.perf_counter()
            store.buckets(run, ["loss"], first=part * steps // 10, last=(part + 1) * steps // 10, width=1000)
            ranges.append(1000 * (time.perf_counter() - start))
        spike = 1 + int(SPIKE * steps)
        return {
            "seconds": first,
            "points": len(chart),
            "values behind them": int(chart["count"].sum()),
            "spike kept": bool((chart.loc[chart["max"].idxmax(), "max_step"]) == spike),
            "NaN kept": bool(chart["nonfinite"].sum() == 1),
            "further range, ms": statistics.median(ranges),
        }


def theirs(folder: Path, steps: int, *, points: int) -> dict[str, Any]:
    """Load the events with TensorBoard's fast loader (its default), keeping `points` a curve (0: all) as its options do."""
    from tensorboard.context import RequestContext
    from tensorboard.data.provider import RunTagFilter
    from tensorboard.data.server_ingester import SubprocessServerDataIngester, get_server_binary
    from tensorboard.util.grpc_util import ChannelCredsType

    start = time.perf_counter()
    kept = {"scalars": points}
    credentials = ChannelCredsType.LOCAL
    loader = SubprocessServerDataIngester(
        get_server_binary(), str(folder), reload_interval=0, channel_creds_type=credentials, samples_per_plugin=kept
    )
    loader.start()
    asked = {"experiment_id": "", "plugin_name": "scalars"}
    last = 0
    while last < steps:  # it loads in the background; the last curve has its last step when everything is loaded
        time.sleep(0.02)
        runs = loader.data_provider.list_scalars(RequestContext(), **asked)
        last = min((series.max_step for tags in runs.values() for series in tags.values()), default=0)
    wanted = RunTagFilter(tags=["loss"])

    def read() -> list[tuple[int, float]]:
        answer = loader.data_provider.read_scalars(RequestContext(), **asked, downsample=points or steps, run_tag_filter=wanted)
        return [(each.step, each.value) for tags in answer.values() for each in tags["loss"]]

    found = read()
    seconds = time.perf_counter() - start
    start = time.perf_counter()
    read()  # it has no ranges: all points again
    again = 1000 * (time.perf_counter() - start)
    spike = curves(steps)["loss"][int(SPIKE * steps)]
    return {
        "seconds": seconds,
        "points": len(found),
        "values behind them": len(found),
        "spike kept": any(abs(value - spike) < 0.01 for _, value in found),
        "NaN kept": any(value != value for _, value in found),
        "further range, ms": again,
        "server": server_use(),
    }


def server_use() -> list[float]:
    """Return peak memory in MB and CPU seconds of the processes that this one has started."""
    children = Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()
    peaks = [re.search(r"VmHWM:\s+(\d+)", Path(f"/proc/{pid}/status").read_text()) for pid in children]
    times = [Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[11:13] for pid in children]
    ticks = sum(int(each) for pair in times for each in pair)
    return [sum(int(peak.group(1)) / 1024 for peak in peaks if peak), ticks / os.sysconf("SC_CLK_TCK")]


def apart(way: str, source: Path, steps: int) -> dict[str, Any]:
    """Run one way in a process of its own; memory and CPU include the server that it starts, and all imports."""
    command = [sys.executable, __file__, "--way", way, "--source", str(source), "--steps", str(steps)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        return {"error": done.stderr.strip().splitlines()[-1]}
    return json.loads(done.stdout.splitlines()[-1])


def one(options: argparse.Namespace) -> None:
    """What `apart` started: one way, its figures as JSON."""
    if options.way == "runvitals":
        found = ours(options.source, options.steps)
    else:
        found = theirs(options.source, options.steps, points=1000 if options.way == "tensorboard" else 0)
    used = resource.getrusage(resource.RUSAGE_SELF)
    memory, seconds = found.pop("server", [0.0, 0.0])
    found |= {"CPU seconds": used.ru_utime + used.ru_stime + seconds, "peak memory, MB": used.ru_maxrss / 1024 + memory}
    print(json.dumps(found), flush=True)
    os._exit(0)  # TensorBoard's server ends with its standard input


def main() -> None:
    """Write both, run each way, print and save."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=1_000_000)
    parser.add_argument("--way", help=argparse.SUPPRESS)
    parser.add_argument("--source", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.way:
        one(options)
        return
    with tempfile.TemporaryDirectory(prefix="runvitals-chart-") as name:
        folder = Path(name)
        write_log(folder / "train.log", options.steps)
        results = {"runvitals": apart("runvitals", folder / "train.log", options.steps)}
        if write_events(folder / "events", options.steps):
            results["tensorboard"] = apart("tensorboard", folder / "events", options.steps)
            results["tensorboard, all points"] = apart("tensorboard-all", folder / "events", options.steps)
        else:
            print("tensorboard is not installed: its rows are left out (pip install -r requirements-dev.txt).")
    names = ["seconds", "CPU seconds", "peak memory, MB", "points", "spike kept", "NaN kept", "further range, ms"]
    print(f"{'':26}" + "".join(f"{name:>18}" for name in names))
    for way, found in results.items():
        cells = [f"{found[name]:,.2f}" if isinstance(found.get(name), float) else str(found.get(name, "-")) for name in names]
        print(f"{way:26}" + "".join(f"{cell:>18}" for cell in cells) + found.get("error", ""))
    print(f"load average {os.getloadavg()[0]:.1f}")
    (ROOT / "bench" / "out").mkdir(exist_ok=True)
    (ROOT / "bench" / "out" / "first_chart.json").write_text(json.dumps(results | {"load": os.getloadavg()}, indent=1))


if __name__ == "__main__":
    main()
