"""What the overview of thousands of runs costs: `python bench/overview.py [--runs 5000] [--reruns 20] [--data DIR]`.

Fills a store with short runs that carry settings and a kept diagnosis (or takes the one in DIR, which is kept), starts the
server, opens the overview in Chromium and prints one line of JSON: seconds to the visible table, kB until then, and for a
rerun (a search is typed) the server's CPU time and the kB it sends.
"""

import argparse
import json
import os
import random
import shutil
import statistics
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path

from playwright.sync_api import Page, sync_playwright

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from analysis.diagnose import Diagnosis, diagnose  # noqa: E402
from bench.pages import cpu_seconds  # noqa: E402
from bench.storage import rows  # noqa: E402
from server.glance import Glance  # noqa: E402
from server.service import to_segments  # noqa: E402
from storage.keeping.reports import NOT_READ  # noqa: E402
from storage.store import Store  # noqa: E402
from storage.types import Batch  # noqa: E402
from tests.browser.conftest import FLAGS  # noqa: E402
from tests.serving import serving  # noqa: E402

VERDICTS = ("healthy", "healthy", "watch", "sick", "failed")


def fill(data_dir: Path, count: int, steps: int = 64) -> None:
    """Write `count` runs with settings of a sweep, each with a diagnosis of its version."""
    table = rows(1, steps, ["loss", "lr", "grad_norm"])
    kept = diagnose(to_segments(table, (), {}))
    with Store(data_dir) as store:
        for number in range(count):
            settings = {"lr": random.choice((1e-4, 5e-4, 1e-3)), "batch_size": random.choice((16, 32)), "seed": number}
            settings |= {"project": f"project-{number % 7}"}
            with store.writer(name=f"sweep-{number:05d}") as writer:
                writer.append(Batch(table))
                writer.commit(report=replace(NOT_READ, records=steps, lines=steps, config=settings))
            glance = Glance((60.0 * number, 70.0 * number, 80.0 * number), False, 1.0 + number, 2.0 + number)
            told: Diagnosis = replace(kept, verdict=VERDICTS[number % len(VERDICTS)])
            version = store.version(writer.run_id)
            store.save_diagnosis(writer.run_id, "robust", version, told.to_dict() | {"glance": glance.to_dict()})


def measure(page: Page, url: str, pid: int, reruns: int) -> dict[str, float]:
    """Return seconds to the visible table, kB until then, and CPU ms and kB of a rerun."""
    received = [0]
    page.on("websocket", lambda socket: socket.on("framereceived", lambda data: received.append(received.pop() + len(data))))
    start = time.monotonic()
    page.goto(f"{url}/overview")
    page.wait_for_selector("[data-testid=stDataFrame] canvas")
    visible, first_kb = time.monotonic() - start, received[0] / 1024
    field = page.locator("[data-testid=stTextInput] input").first
    spent, sent = [], []
    for number in range(reruns + 2):
        before, kb = cpu_seconds(pid), received[0]
        field.fill(("sweep", "sweep-0", "lr=5e-4", "")[number % 4])
        field.press("Enter")
        page.wait_for_timeout(1500)
        spent.append(1000 * (cpu_seconds(pid) - before))
        sent.append((received[0] - kb) / 1024)
    return {
        "visible_s": round(visible, 2),
        "first_kb": round(first_kb),
        "rerun_cpu_ms_p50": round(statistics.median(spent[2:])),
        "rerun_cpu_ms_max": round(max(spent[2:])),
        "rerun_kb_max": round(max(sent[2:])),
    }


def main() -> None:
    """Print the figures as JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=5000)
    parser.add_argument("--reruns", type=int, default=20)
    parser.add_argument("--data", type=Path, help="a store that is already filled; it is copied")
    given = parser.parse_args()
    path = os.environ.get("RUNVITALS_CHROMIUM") or shutil.which("chromium")
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        data = Path(folder) / "data"
        if given.data:
            shutil.copytree(given.data, data)
        else:
            data.mkdir()
            fill(data, given.runs)
        browser = playwright.chromium.launch(executable_path=path, args=FLAGS)
        with serving(data, Path(folder) / "server.log") as served:
            page = browser.new_page(viewport={"width": 1440, "height": 900})
            print(json.dumps({"runs": given.runs, **measure(page, served.url, served.pid, given.reruns)}), flush=True)


if __name__ == "__main__":
    main()
