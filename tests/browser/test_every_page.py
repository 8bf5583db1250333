"""Every page in both languages and themes, on a desk and on a phone: it fits, has no error, axe-core finds nothing serious.

A page is loaded once a language; theme and width then change as for a visitor who turns his phone in the evening.
"""

import json
import subprocess
import sys

import pytest
from axe_playwright_python.sync_playwright import Axe

from tests.pages.helpers import canonical
from tests.serving import ROOT, serving
from ui.navigation import page_files

pytestmark = pytest.mark.browser
GRAVE = {"serious", "critical"}
# Streamlit's menu is a list with its sections between the items, which is no valid list; nothing of ours is in there.
# A chart is one picture with its words (`aria-label`, tested below); the marks that Vega draws in it have no names.
LEFT_OUT = [["[data-testid=stSidebarNavItems]"], [".stVegaLiteChart svg"]]
SIZES = {1440: 900, 390: 844}


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    place = tmp_path_factory.mktemp("every")
    (place / "jump.log").write_text(canonical(1000, spike=400, nan=150))
    (place / "calm.log").write_text(canonical(600))
    command = [sys.executable, "cli.py", "ingest", str(place / "jump.log"), str(place / "calm.log"), "--json"]
    command += ["--data-dir", str(place / "data")]
    run = json.loads(subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout)[0]["run"]
    with serving(place / "data", place / "server.log") as running:
        yield running, run


def grave(page) -> list[str]:
    """Return what axe finds serious: the rule, where, and the element."""
    found = Axe().run(page, context={"exclude": LEFT_OUT}).response["violations"]
    return [
        f"{rule['id']} | {' '.join(map(str, node['target']))} | {node['html'][:160]}"
        for rule in found
        if rule["impact"] in GRAVE
        for node in rule["nodes"]
    ]


@pytest.mark.parametrize("language", ["en", "zh_CN"])
@pytest.mark.parametrize("name", [page.name for page in page_files()])
def test_a_page_fits_has_no_error_and_can_be_read_aloud(visit, served, name, language):
    running, run = served
    window = visit(running).open(f"/{name}?run={run}&lang={language}")
    if name in ("health", "cost", "epochs"):
        window.chart()
    for scheme in ("light", "dark"):
        window.page.emulate_media(color_scheme=scheme)
        for width, height in SIZES.items():
            window.page.set_viewport_size({"width": width, "height": height})
            window.page.get_by_test_id("stStatusWidget").wait_for(state="detached")
            window.shoot(f"{name}-{language}-{scheme}-{width}")
            assert window.overflow() <= 0, (scheme, width)
        if language == "en":
            assert grave(window.page) == [], scheme
    charts = window.page.locator(".stVegaLiteChart")
    assert all(charts.nth(number).get_attribute("aria-label") for number in range(charts.count()))
    assert window.page.get_by_test_id("stException").count() == 0
    assert window.errors == []
