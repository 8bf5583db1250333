"""Uploads as a visitor makes them: a folder, what stays in memory, and real logs whose first and last values are known."""

import csv
import http.client
import json
import os
import time
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest
from playwright.sync_api import expect

from tests.pages.helpers import canonical
from tests.serving import ROOT, serving

pytestmark = pytest.mark.browser
REAL_LOGS = Path(os.environ.get("RUNVITALS_SHARED_LOGS", ROOT.parent / "shared" / "logs"))
PROSE_MIB = 120


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    place = tmp_path_factory.mktemp("uploads")
    with serving(place / "data", place / "server.log") as running:
        yield running


def ask(served, path: str) -> dict:
    connection = http.client.HTTPConnection(urlsplit(served.url).netloc, timeout=300)
    connection.request("GET", f"/api/v1/runs/{path}")
    return json.loads(connection.getresponse().read())


def memory_mib(pid: int) -> float:
    (line,) = [line for line in Path(f"/proc/{pid}/status").read_text().splitlines() if line.startswith("VmRSS")]
    return int(line.split()[1]) / 1024


def test_a_folder_brings_in_every_log_below_it(visit, served, tmp_path):
    for name, rows in (("a.log", 310), ("deep/b.log", 320), ("deep/er/c.log", 330)):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(canonical(rows))
    window = visit(served).open("/upload")
    window.page.get_by_role("tab", name="A folder").click()
    window.page.locator("input[type=file][webkitdirectory]").set_input_files(str(tmp_path))
    window.page.get_by_text("What became of your files").wait_for()
    expect(window.page.get_by_text("Read", exact=True)).to_have_count(3)
    assert window.errors == []


def test_an_upload_does_not_stay_in_the_memory_of_the_server(visit, served, tmp_path):
    """A text that is refused: whatever is left afterwards is the upload itself."""
    prose = tmp_path / "prose.log"
    prose.write_text("Dear diary, nothing at all was trained today, and it was good.\n" * (PROSE_MIB * 16_500))
    window = visit(served).open("/upload")
    window.settled()
    before = memory_mib(served.pid)
    window.page.locator("input[type=file]").first.set_input_files(str(prose))
    window.page.get_by_text("Not read", exact=True).wait_for()
    end = time.monotonic() + 120
    while memory_mib(served.pid) - before > PROSE_MIB / 2 and time.monotonic() < end:
        time.sleep(0.5)
    assert memory_mib(served.pid) - before < PROSE_MIB / 2


def expected(number: str) -> dict[str, str]:
    """Return what is known of a real log: columns of the manifest beside them."""
    with (REAL_LOGS / "MANIFEST.tsv").open(encoding="utf-8") as file:
        return next(row for row in csv.DictReader(file, delimiter="\t") if row["id"] == number)


@pytest.mark.logs
@pytest.mark.skipif(not REAL_LOGS.is_dir(), reason="the logs beside the repository are absent")
@pytest.mark.parametrize("number", ["007", "020", "016", "105", "133", "155"])
def test_a_real_log_shows_its_curve_with_the_values_that_are_known(visit, served, number):
    known = expected(number)
    window = visit(served).open("/upload")
    window.page.locator("input[type=file]").first.set_input_files(str(REAL_LOGS / known["file"]))
    link = window.page.get_by_role("link", name="Run health").nth(1)  # the first is in the menu
    window.page.wait_for_function("location.pathname == '/health' || document.querySelector('.rv-outcome')")
    if urlsplit(window.page.url).path != "/health":
        link.click()
        window.page.wait_for_url("**/health?run=*")
    box = window.chart()
    assert box["width"] > 600
    assert box["height"] > 100
    (run,) = parse_qs(urlsplit(window.page.url).query)["run"]
    listed = ask(served, run)
    assert [listed["first_step"], listed["last_step"]] == [int(known["first_step"]), int(known["last_step"])]
    if known["first_loss"] != "-":
        losses = ask(served, f"{run}/series/loss")["value"]
        assert [losses[0], losses[-1]] == [float(known["first_loss"]), float(known["last_loss"])]
    assert window.errors == []


@pytest.mark.parametrize(("page", "words"), [("upload", "选择文件"), ("corpus", "选择文件")])
def test_the_button_that_chooses_files_speaks_the_language_of_the_page(visit, served, page, words):
    window = visit(served).open(f"/{page}?lang=zh_CN")
    button = window.page.locator("[data-testid=stFileUploaderDropzone] p").first
    button.wait_for(state="attached")
    assert words in button.evaluate("button => getComputedStyle(button, '::after').content")
