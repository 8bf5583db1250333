"""The whole path in a real browser: a log goes in, the verdict and the curves come out, the link brings them back."""

import json
import shutil
import subprocess
import sys

import pytest
from playwright.sync_api import expect

from tests.pages.helpers import canonical
from tests.serving import ROOT, serving

pytestmark = pytest.mark.browser


@pytest.fixture(scope="module")
def logs(tmp_path_factory):
    folder = tmp_path_factory.mktemp("logs")
    (folder / "jump.log").write_text(canonical(1000, spike=400, nan=150), encoding="utf-8")
    (folder / "calm.log").write_text(canonical(600), encoding="utf-8")
    (folder / "new.log").write_text(canonical(1200, spike=500), encoding="utf-8")
    (folder / "other.log").write_text(canonical(500), encoding="utf-8")
    (folder / "spare.log").write_text(canonical(310), encoding="utf-8")
    (folder / "empty.log").write_bytes(b"")
    (folder / "picture.log").write_bytes(b"\x89PNG\r\n\x1a\n" + bytes(range(256)) * 8)
    return folder


@pytest.fixture(scope="module")
def store(tmp_path_factory, logs):
    """A store with two runs: its folder and their ids by name."""
    data = tmp_path_factory.mktemp("data")
    files = [str(logs / name) for name in ("jump.log", "calm.log")]
    command = [sys.executable, "cli.py", "ingest", *files, "--data-dir", str(data), "--json"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    return data, {name: answer["run"] for name, answer in zip(("jump", "calm"), json.loads(done.stdout), strict=True)}


@pytest.fixture(scope="module")
def served(store):
    with serving(store[0], store[0] / "server.log") as running:
        yield running


@pytest.fixture(scope="module")
def sick(store) -> str:
    return f"/health?run={store[1]['jump']}"


def upload(window, *files) -> None:
    window.page.locator("input[type=file]").first.set_input_files([str(file) for file in files])


def test_upload_verdict_chart_and_the_link_on_a_fresh_server(visit, served, logs, tmp_path):
    """The deep link is the first request of a new process: the menu and the page must be the right ones."""
    window = visit(served).open("/upload")
    upload(window, logs / "new.log")
    window.page.wait_for_url("**/health?run=*")
    window.page.get_by_text("Sick", exact=True).wait_for()
    box = window.chart()
    assert box["width"] > 600
    assert box["height"] > 250
    link = window.page.url.removeprefix(served.url)
    assert window.errors == []
    window.close()
    copy = tmp_path / "data"
    shutil.copytree(served.data_dir, copy)
    with serving(copy, tmp_path / "server.log") as fresh:
        again = visit(fresh).open(link)
        again.page.get_by_text("Sick", exact=True).wait_for()
        expect(again.page.get_by_role("link", name="Overview")).to_be_visible()
        assert again.chart()["height"] > 250
        assert again.errors == []


def test_bad_files_are_refused_in_words_beside_good_ones(visit, served, logs):
    window = visit(served).open("/upload")
    upload(window, logs / "empty.log", logs / "picture.log", logs / "other.log", logs / "jump.log")
    window.page.get_by_text("What became of your files").wait_for()
    expect(window.page.get_by_text("Not read", exact=True)).to_have_count(2)
    expect(window.page.get_by_text("The file is empty").first).to_be_visible()
    expect(window.page.get_by_text("Read", exact=True)).to_have_count(1)
    expect(window.page.get_by_text("Already here", exact=True)).to_have_count(1)
    assert window.errors == []


def test_a_single_nan_is_drawn_at_full_zoom_out(visit, served, sick):
    """Read from the drawn marks, not from the spec."""
    window = visit(served).open(sick)
    window.chart()
    window.page.locator(".stVegaLiteChart svg").get_by_text("✕").first.wait_for(state="attached")
    assert window.errors == []


def test_a_brush_zooms_all_panels_and_the_url_keeps_it(visit, served, sick):
    window = visit(served).open(sick)

    def brush() -> None:
        box, mouse = window.chart(), window.page.mouse
        mouse.move(box["x"] + 250, box["y"] + 60)
        mouse.down()
        mouse.move(box["x"] + 500, box["y"] + 70, steps=8)
        mouse.up()

    window.point(brush, window.address("**x0=*"))
    window.page.get_by_role("button", name="show all").click()
    window.page.wait_for_function("!location.search.includes('x0=')")
    assert window.errors == []


def test_a_finding_opens_the_lines_of_the_log(visit, served, sick):
    window = visit(served).open(sick)
    window.page.locator("[class*='st-key-finding'] summary").first.click()
    window.page.locator("ol.rv-log li.rv-marked").first.wait_for()
    window.page.wait_for_url("**finding=*")
    assert window.errors == []


def test_a_sign_over_the_chart_opens_its_finding_with_the_lines(visit, served, sick):
    window = visit(served).open(sick)
    window.chart()
    sign = window.page.locator(".stVegaLiteChart svg text", has_text="▼").first
    window.point(lambda: sign.click(force=True), window.address("**finding=*"))
    window.page.locator("ol.rv-log li.rv-marked").first.wait_for()
    assert window.errors == []


def test_a_short_link_brings_the_view_back_in_its_language(visit, served, sick):
    window = visit(served, locale="zh-CN").open(f"{sick}&smooth=0.9&x=epoch&log=true")
    window.chart()
    window.page.get_by_test_id("stSidebar").get_by_role("button").last.click()
    code = window.page.locator("[data-testid=stPopoverBody] code")
    code.wait_for()
    expect(code).to_contain_text("/s/")
    link = code.inner_text().strip()
    other = visit(served)
    other.page.goto(link)
    other.page.wait_for_url("**/health?*smooth=0.9*")
    other.page.get_by_text("异常", exact=True).wait_for()
    assert {"x=epoch", "log=true", "lang=zh_CN"} <= set(other.page.url.partition("?")[2].split("&"))
    assert other.errors == []


def test_a_search_of_the_overview_is_restored_from_its_url(visit, served):
    window = visit(served).open("/overview?q=is:sick")
    window.page.locator(".rv-cards", has_text="jump").wait_for(state="attached")
    expect(window.page.locator(".rv-cards", has_text="calm")).to_have_count(0)
    expect(window.page.locator("[data-testid=stTextInput] input").first).to_have_value("is:sick")
    assert window.errors == []


def test_a_line_of_the_overview_opens_the_run(visit, served):
    window = visit(served).open("/overview")
    window.open_line()
    assert window.errors == []


def test_the_language_is_chosen_in_the_page_and_by_the_browser(visit, served, sick):
    chinese = visit(served, locale="zh-CN").open(sick)
    chinese.page.get_by_text("异常", exact=True).wait_for()
    english = visit(served).open("/overview?lang=zh_CN")
    english.page.get_by_role("heading", name="总览").wait_for()
    english.page.wait_for_url("**lang=zh_CN*")
    assert chinese.errors == english.errors == []


def test_verdict_figures_and_panels_are_on_one_screen(visit, served, sick):
    window = visit(served).open(sick)
    box = window.chart()
    assert box["y"] + box["height"] <= 900


def test_a_run_is_renamed_deleted_and_brought_back(visit, served, logs):
    window = visit(served).open("/upload")
    upload(window, logs / "spare.log")
    window.page.wait_for_url("**/health?run=*")
    window.open("/overview?q=spare")
    name = window.page.get_by_label("New name")
    window.tick_line(0, name)
    name.fill("spare <i>renamed</i>")  # and click at once, as people do
    window.page.get_by_role("button", name="Rename").click()
    window.page.locator(".rv-cards", has_text="spare <i>renamed</i>").wait_for(state="attached")
    window.page.get_by_role("button", name="Delete 1 run").click()
    window.page.get_by_text("Deleted: spare <i>renamed</i>").wait_for()
    window.page.get_by_role("button", name="Undo").click()
    window.page.locator(".rv-cards", has_text="spare <i>renamed</i>").wait_for(state="attached")
    assert window.errors == []
