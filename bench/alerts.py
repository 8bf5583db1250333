"""How soon somebody is told: from a line with NaN in a log that grows to the message at the other end of a webhook.

    python bench/alerts.py               # 9 times
    python bench/alerts.py --times 3

A real server (`streamlit run app.py`) watches a folder, no page is open, a real HTTP server receives the webhook. Each time
another log of 300 rows grows by a row a second for 12 to 16 s, then comes a row with NaN; the clock runs from that write to
the arrival of the message. Prints the median, the shortest and the longest, and writes bench/out/alerts.json.
"""

import argparse
import json
import statistics
import sys
import tempfile
import time
import urllib.request
from dataclasses import replace
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from server.alerts import rules  # noqa: E402
from server.alerts.channels import Channel, save  # noqa: E402
from server.alerts.rules import STOCK  # noqa: E402
from storage.store import Store  # noqa: E402
from tests.receiver import Receiver, receiving  # noqa: E402
from tests.serving import Served, serving, wait_for  # noqa: E402
from tests.storage.desk import lines  # noqa: E402

TARGET_SECONDS = 60.0
STEPS, STEP_SECONDS = 12, 1.0  # a log grows by so many rows before it goes wrong
MANY = 1000  # messages an hour: none of the bench waits for the hour to end


def prepare(data: Path, other: Receiver) -> None:
    """Set up a channel and let the rule about spikes use it."""
    with Store(data) as store:
        save(store, Channel("hook", "hook", "webhook", {"url": other.url}, per_hour=MANY))
        rules.save(store, replace(STOCK["spike"], channels=("hook",)))


def rows(served: Served, name: str) -> int:
    """Return how many rows of a run are in the store."""
    with urllib.request.urlopen(f"{served.url}/api/v1/runs", timeout=60) as answer:
        return sum(run["rows"] for run in json.load(answer) if run["name"] == name)


def once(served: Served, other: Receiver, log: Path, rest_steps: int) -> float:
    """Let a log grow and then go wrong; return the seconds from the line with NaN to the message about it."""
    log.write_text(lines(1, 300))
    wait_for(lambda: rows(served, log.name) == 300)
    last = 300 + rest_steps
    for step in range(301, last):
        time.sleep(STEP_SECONDS)
        append(log, lines(step, step))
    before = len(other.got)
    append(log, lines(last, last).replace(f"loss: {9 - last / 1000:.4f}", "loss: nan", 1))
    written = time.monotonic()
    wait_for(lambda: len(other.got) > before)
    return time.monotonic() - written


def append(log: Path, text: str) -> None:
    """Write as a training does."""
    with log.open("a") as file:
        file.write(text)


def main(times: int) -> None:
    """Measure and print."""
    with tempfile.TemporaryDirectory() as place, receiving() as other:
        folder, data = Path(place) / "logs", Path(place) / "data"
        folder.mkdir()
        prepare(data, other)
        with serving(data, Path(place) / "server.log", RUNVITALS_WATCH=str(folder)) as served:
            found = [once(served, other, folder / f"run{n}.log", STEPS + n % 5) for n in range(times)]
    figures = {"median": statistics.median(found), "shortest": min(found), "longest": max(found), "target": TARGET_SECONDS}
    for name, seconds in figures.items():
        print(f"{name:>10}  {seconds:6.1f} s")
    out = ROOT / "bench" / "out" / "alerts.json"
    out.parent.mkdir(exist_ok=True)
    out.write_text(json.dumps({**figures, "each": found}, indent=1))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--times", type=int, default=9)
    main(parser.parse_args().times)
