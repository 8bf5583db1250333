"""Epochs, quality, checklist, learning and the plans of Time & cost in a real browser: drawn, reachable, kept."""

import json
import subprocess
import sys

import pytest

from tests.pages.helpers import canonical
from tests.serving import ROOT, serving

pytestmark = pytest.mark.browser
VIEWS = {
    "epochs": "/epochs?run={run}",
    "case": "/cases?case=spike",
    "rule": "/handbook?rule=spike",
    "launch": "/cost?run={run}&view=launch&gpus=8&price=2&epoch_minutes=45&plan_epochs=3",
    "logging": "/cost?run={run}&view=logging&quiet={other}",
    "checkpoints": "/cost?run={run}&view=checkpoints&save_every=500",
    "all": "/cost?run={run}&view=all",
}


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    place = tmp_path_factory.mktemp("trust")
    (place / "jump.log").write_text(canonical(1000, spike=400))
    (place / "calm.log").write_text(canonical(600))
    command = [sys.executable, "cli.py", "ingest", str(place / "jump.log"), str(place / "calm.log"), "--json"]
    command += ["--data-dir", str(place / "data")]
    answers = json.loads(subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout)
    with serving(place / "data", place / "server.log") as running:
        yield running, [answer["run"] for answer in answers]


@pytest.mark.parametrize(("scheme", "locale"), [("light", "zh-CN"), ("dark", "en-US")])
@pytest.mark.parametrize("view", ["case", "rule", "launch", "logging", "checkpoints", "all"])
def test_every_view_fits_and_has_no_error(visit, served, view, scheme, locale):
    running, runs = served
    window = visit(running, scheme=scheme, locale=locale)
    window.open(VIEWS[view].format(run=runs[0], other=runs[1]))
    for width in (1440, 390):
        window.page.set_viewport_size({"width": width, "height": 900})
        window.page.get_by_test_id("stStatusWidget").wait_for(state="detached")
        window.shoot(f"trust-{view}-{width}")
        assert window.overflow() <= 1
    assert window.errors == []
    assert window.page.get_by_test_id("stException").count() == 0


@pytest.mark.parametrize("view", ["epochs", "case", "rule", "launch", "checkpoints"])
def test_charts_are_drawn(visit, served, view):
    running, runs = served
    window = visit(running).open(VIEWS[view].format(run=runs[0], other=runs[1]))
    box = window.chart()
    assert box["width"] > 300
    assert box["height"] > 30


def test_an_answer_is_kept(visit, served):
    running, runs = served
    window = visit(running).open(f"/checklist?run={runs[1]}")
    window.page.get_by_role("button", name="Answer").first.click()
    window.page.get_by_label("Note").fill("loaded and trained on by hand")
    window.page.get_by_role("button", name="Keep the answer").click()
    window.page.get_by_text("loaded and trained on by hand").first.wait_for()
    window.page.reload()
    window.page.get_by_text("loaded and trained on by hand").first.wait_for()
    assert window.errors == []


def test_a_finding_leads_to_its_rule_and_to_its_case_beside_the_run(visit, served):
    running, runs = served
    window = visit(running).open(f"/health?run={runs[0]}")
    window.page.locator("[class*=st-key-finding-]").first.locator("summary").click()
    window.page.get_by_role("link", name="Cases like this").first.click()
    window.page.wait_for_url("**/cases?case=*")
    window.page.get_by_text("jump.log").first.wait_for()
    window.page.get_by_role("link", name="The loss jumped").first.click()
    window.page.wait_for_url("**/handbook?rule=*")
    window.page.get_by_text("Usual causes").first.wait_for()
    assert window.errors == []
