"""A real Chromium, and what a visitor sees and does in it."""

import contextlib
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Locator, expect, sync_playwright
from playwright.sync_api import TimeoutError as Timeout

from tests.serving import ROOT, Served

ROW_PX = 38  # of the table of all runs, its header too
SCREENSHOTS = ROOT / "screenshots"
PATIENCE_MS = 120_000  # how long a busy machine may take says nothing about the pages
ONCE_MORE_MS = 20_000
expect.set_options(timeout=PATIENCE_MS)
FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update", "--no-first-run"]


@pytest.fixture(scope="session")
def chromium() -> Iterator[Browser]:
    path = os.environ.get("RUNVITALS_CHROMIUM") or shutil.which("chromium") or shutil.which("google-chrome")
    with sync_playwright() as playwright:
        path = path or (playwright.chromium.executable_path if Path(playwright.chromium.executable_path).exists() else None)
        if path is None:
            pytest.skip("no Chromium: install one, or name it in RUNVITALS_CHROMIUM")
        browser = playwright.chromium.launch(executable_path=path, args=FLAGS)
        yield browser
        browser.close()


class Visit:
    """A browser window that remembers page errors and what could not be loaded."""

    def __init__(self, browser: Browser, served: Served, *, width=1440, height=900, scheme="light", locale="en-US") -> None:
        self.context = browser.new_context(
            viewport={"width": width, "height": height}, color_scheme=scheme, locale=locale, timezone_id="Asia/Shanghai"
        )
        self.page = self.context.new_page()
        self.url = served.url
        self.errors: list[str] = []
        self.page.on("pageerror", lambda error: self.errors.append(str(error)))
        self.page.on("requestfailed", lambda request: self._failed(request))
        self.page.set_default_timeout(PATIENCE_MS)

    def _failed(self, request) -> None:
        # What leaves the machine must not exist; a request that we cut off ourselves by moving on is none.
        if not request.url.startswith(self.url):
            self.errors.append(f"outside: {request.url}")

    def open(self, path: str) -> "Visit":
        self.page.goto(self.url + path)
        self.page.wait_for_selector("h1.rv-title")
        return self

    def chart(self) -> dict:
        """Wait for the chart and return its box."""
        chart = self.page.locator(".stVegaLiteChart canvas, .stVegaLiteChart svg").first
        chart.wait_for()
        return chart.bounding_box()

    def settled(self) -> "Visit":
        """Wait until the server has nothing more to send."""
        self.page.locator("[data-testid=stApp][data-test-script-state=notRunning]").wait_for()
        return self

    def point(self, act: Callable[[], object], seen: Callable[[int], object]) -> None:
        """Do something at a place of a picture until `seen`, which waits for so many ms, has seen what comes of it.

        A picture has no buttons that could be waited for: what is done to it while it is drawn anew is lost.
        """
        for _ in range(PATIENCE_MS // ONCE_MORE_MS - 1):
            self.settled()
            act()
            with contextlib.suppress(Timeout):
                seen(ONCE_MORE_MS)
                return
        self.settled()
        act()
        seen(ONCE_MORE_MS)

    def address(self, pattern: str) -> Callable[[int], object]:
        """Return what waits for an address like that."""
        return lambda timeout_ms: self.page.wait_for_url(pattern, timeout=timeout_ms)

    def open_line(self, line: int = 0) -> None:
        """Click a line of the table of all runs, which opens the run."""
        self.point(lambda: self._click(260, line), self.address("**/health?run=*"))

    def tick_line(self, line: int, until: Locator) -> None:
        """Tick a line of the table of all runs; `until` this is there."""
        self.point(lambda: self._click(17, line), lambda timeout_ms: until.wait_for(timeout=timeout_ms))

    def _click(self, x: int, line: int) -> None:
        table = self.page.locator("[data-testid=stDataFrame]").first
        table.wait_for()
        box = table.bounding_box()
        self.page.mouse.click(box["x"] + x, box["y"] + ROW_PX * (line + 1) + ROW_PX / 2)

    def overflow(self) -> int:
        """Return by how many pixels the page is wider than its window."""
        script = "() => { const m = document.querySelector('[data-testid=stMain]'); return m.scrollWidth - m.clientWidth }"
        return self.page.evaluate(script)

    def shoot(self, name: str) -> None:
        """Keep a picture for people to look at; where the browser does not get to draw one, there is none."""
        SCREENSHOTS.mkdir(exist_ok=True)
        self.page.wait_for_timeout(700)
        with contextlib.suppress(Timeout):
            self.page.screenshot(path=SCREENSHOTS / f"{name}.png", timeout=30_000)

    def close(self) -> None:
        self.context.close()


@pytest.fixture
def visit(chromium):
    """Open a window on a server; all are closed at the end."""
    opened: list[Visit] = []

    def make(served: Served, **options) -> Visit:
        opened.append(Visit(chromium, served, **options))
        return opened[-1]

    yield make
    for window in opened:
        window.close()
