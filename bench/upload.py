"""From an upload to its visible chart: `python bench/upload.py LOG [--times 3]`, best with a log of `bench/canonical.py`.

Starts the server on an empty store each time, gives the log to the page's uploader in Chromium, and prints the seconds
until the first chart is drawn and until the verdict stands. Needs an idle machine; chromium from RUNVITALS_CHROMIUM or
the PATH.
"""

import argparse
import json
import os
import shutil
import statistics
import sys
import tempfile
import time
from pathlib import Path

from playwright.sync_api import Browser, sync_playwright

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from tests.browser.conftest import FLAGS  # noqa: E402
from tests.serving import serving  # noqa: E402

CHART = ".stVegaLiteChart svg, .stVegaLiteChart canvas"
VERDICT = ".rv-good, .rv-warn, .rv-bad"
PATIENCE_MS = 120_000


def measure(browser: Browser, url: str, log: Path) -> tuple[float, float]:
    """Return the seconds from choosing the file to the visible chart, and to the verdict."""
    page = browser.new_page(viewport={"width": 1440, "height": 900})
    page.goto(f"{url}/upload")
    page.wait_for_selector("input[type=file]", state="attached")
    page.wait_for_timeout(1500)
    start = time.monotonic()
    page.set_input_files("input[type=file]", str(log))
    page.wait_for_selector(CHART, timeout=PATIENCE_MS)
    chart = time.monotonic() - start
    page.wait_for_selector(f".rv-verdict:is({VERDICT})", timeout=PATIENCE_MS)
    verdict = time.monotonic() - start
    page.close()
    return round(chart, 2), round(verdict, 2)


def main() -> None:
    """Print every time and the medians as one line of JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("log", type=Path)
    parser.add_argument("--times", type=int, default=3)
    given = parser.parse_args()
    found = []
    with sync_playwright() as playwright:
        path = os.environ.get("RUNVITALS_CHROMIUM") or shutil.which("chromium")
        browser = playwright.chromium.launch(executable_path=path, args=FLAGS)
        for _ in range(given.times):
            with tempfile.TemporaryDirectory() as folder:
                data = Path(folder) / "data"
                with serving(data, Path(folder) / "server.log") as served:
                    found.append(measure(browser, served.url, given.log))
    chart, verdict = (statistics.median(times) for times in zip(*found, strict=True))
    print(json.dumps({"log": str(given.log), "runs": found, "chart_s": chart, "verdict_s": verdict}))


if __name__ == "__main__":
    main()
