"""What a page costs: `python bench/pages.py LOG… [--reruns 20]`.

Reads the logs into a store of its own, starts the server, opens Run health of each in Chromium and prints the time until
its chart is visible: in a browser that was never here (nothing kept), in one that was (its own profile, which keeps scripts
as every browser does; median of VISITS), and when a person comes from the overview. Then the bytes that came over the
websocket in the fresh window and of them those of the chart (the largest message), and the server's CPU time of a rerun (a
switch is flipped: frames, spec and HTML are made anew).
Needs an idle machine; chromium from RUNVITALS_CHROMIUM or the PATH.
"""

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from playwright.sync_api import Page, Playwright, sync_playwright

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from tests.browser.conftest import FLAGS  # noqa: E402
from tests.serving import serving  # noqa: E402

CHART = ".stVegaLiteChart svg, .stVegaLiteChart canvas"
VISITS, BEFORE = 7, 3  # of a browser that keeps its scripts; it was there so often before


def cpu_seconds(pid: int) -> float:
    """Return user and system time of a process so far (Linux)."""
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def measure(page: Page, url: str, pid: int, reruns: int) -> dict[str, float]:
    """Return seconds to the visible chart, kB received until then and of them the chart's, and ms of server CPU a rerun."""
    received = [0]
    page.on("websocket", lambda socket: socket.on("framereceived", lambda data: received.append(len(data))))
    start = time.monotonic()
    page.goto(url)
    page.wait_for_selector(CHART)
    visible, came = time.monotonic() - start, list(received)
    menu = page.get_by_test_id("stSidebarNav")
    menu.get_by_role("link", name="Overview").click()
    page.wait_for_selector(".stVegaLiteChart", state="detached")
    page.wait_for_timeout(1500)
    start = time.monotonic()
    menu.get_by_role("link", name="Run health").click()
    page.wait_for_selector(CHART)
    navigated = time.monotonic() - start
    switch = page.locator("[data-testid=stMain] [data-testid=stCheckbox] label").first
    for _ in range(2):  # the first flips fill the caches
        switch.click()
        page.wait_for_timeout(1500)
    before = cpu_seconds(pid)
    for _ in range(reruns):
        switch.click()
        page.wait_for_timeout(700)
    return {
        "visible_s": round(visible, 2),
        "navigated_s": round(navigated, 2),
        "first_kb": round(sum(came) / 1024),
        "chart_kb": round(max(came) / 1024),
        "rerun_cpu_ms": round((cpu_seconds(pid) - before) * 1000 / reruns, 1),
    }


def visited(playwright: Playwright, path: str | None, url: str) -> float:
    """Return seconds to the visible chart (median of VISITS) in a new window of a browser that has been there before."""
    seconds = []
    with tempfile.TemporaryDirectory() as profile:
        context = playwright.chromium.launch_persistent_context(
            profile, executable_path=path, args=FLAGS, viewport={"width": 1440, "height": 900}
        )
        for _ in range(BEFORE + VISITS):
            page = context.new_page()
            start = time.monotonic()
            page.goto(url)
            page.wait_for_selector(CHART)
            seconds.append(time.monotonic() - start)
            page.wait_for_timeout(1500)  # what the browser keeps of the scripts it writes when it has time
            page.close()
        context.close()
    return round(statistics.median(seconds[BEFORE:]), 2)


def main() -> None:
    """Print one line of JSON a log."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("logs", nargs="+", type=Path)
    parser.add_argument("--reruns", type=int, default=20)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        data = Path(folder) / "data"
        command = [sys.executable, "cli.py", "ingest", *map(str, given.logs), "--data-dir", str(data), "--json"]
        answers = json.loads(subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout)
        path = os.environ.get("RUNVITALS_CHROMIUM") or shutil.which("chromium")
        browser = playwright.chromium.launch(executable_path=path, args=FLAGS)
        with serving(data, Path(folder) / "server.log") as served:
            for answer in answers:
                page = browser.new_page(viewport={"width": 1440, "height": 900})
                url = f"{served.url}/health?run={answer['run']}"
                figures = measure(page, url, served.pid, given.reruns)
                page.close()
                figures["visible_again_s"] = visited(playwright, path, url)
                print(json.dumps({"log": answer["file"], **figures}), flush=True)


if __name__ == "__main__":
    main()
