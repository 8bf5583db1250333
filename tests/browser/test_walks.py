"""The five questions of a person who is new here, each answered within two clicks from the first page."""

import json
import subprocess
import sys

import pytest

from tests.pages.helpers import canonical
from tests.serving import ROOT, serving

pytestmark = pytest.mark.browser
MOST_CLICKS = 2


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    """A server with a sick run that is half way and a healthy one that has ended."""
    place = tmp_path_factory.mktemp("walks")
    (place / "jump.log").write_text("GPU: NVIDIA A100-SXM4-80GB\nworld_size: 4\n" + canonical(1000, spike=400, plan=20_000))
    (place / "calm.log").write_text(canonical(600))
    command = [sys.executable, "cli.py", "ingest", str(place / "jump.log"), str(place / "calm.log"), "--json"]
    command += ["--data-dir", str(place / "data")]
    answers = json.loads(subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout)
    assert [answer["verdict"] for answer in answers] == ["sick", "healthy"]
    with serving(place / "data", place / "server.log") as running:
        yield running


class Walk:
    """A visitor who counts the clicks."""

    def __init__(self, window) -> None:
        self.window, self.page, self.clicks = window, window.page, 0
        window.page.goto(window.url + "/")
        window.page.wait_for_selector("h1.rv-title")

    def open_worst_run(self) -> None:
        """Click the first line of the table."""
        self.window.open_line()
        self.clicks += 1

    def menu(self, name: str) -> None:
        self.page.get_by_test_id("stSidebarNav").get_by_role("link", name=name).click()
        self.clicks += 1

    def assert_reads(self, *words: str) -> None:
        """See these words, after no more clicks than anybody should need."""
        for word in words:
            self.page.get_by_text(word).first.wait_for()
        assert self.clicks <= MOST_CLICKS
        assert self.window.errors == []


@pytest.fixture
def walk(visit, served):
    return Walk(visit(served))


def test_is_my_run_healthy(walk):
    cells = walk.page.locator("[data-testid=stDataFrame] [role=gridcell]")
    cells.filter(has_text="Sick").first.wait_for(state="attached")  # without a click
    walk.open_worst_run()
    walk.assert_reads("Sick", "Loss jumped")


def test_since_when_not(walk):
    walk.open_worst_run()
    walk.assert_reads("since step 4,0")


def test_what_do_i_do(walk):
    walk.open_worst_run()
    walk.assert_reads("Do now", "Stop")


def test_when_is_it_done(walk):
    walk.open_worst_run()
    walk.assert_reads("Time left", "min")


def test_what_does_it_cost(walk):
    walk.open_worst_run()
    walk.menu("Time & cost")
    walk.page.wait_for_url("**/cost*")
    walk.assert_reads("Where the time went", "$")
