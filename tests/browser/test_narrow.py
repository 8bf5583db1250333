"""What a narrow window or a wrong address does to a page: nothing is cut, squeezed or taken for another page."""

import json
import subprocess
import sys

import pytest
from playwright.sync_api import expect

from tests.pages.helpers import canonical
from tests.serving import ROOT, serving

pytestmark = pytest.mark.browser
PHONE = {"width": 390, "height": 844}
CUT = "() => [...document.querySelectorAll('.rv-faults, .rv-legend')].map(e => e.scrollWidth - e.parentElement.clientWidth)"


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    place = tmp_path_factory.mktemp("narrow")
    (place / "calm.log").write_text(canonical(600))
    (place / "other.log").write_text(canonical(640))
    command = [sys.executable, "cli.py", "ingest", str(place / "calm.log"), str(place / "other.log"), "--json"]
    command += ["--data-dir", str(place / "data")]
    run = json.loads(subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout)[0]["run"]
    with serving(place / "data", place / "server.log") as running:
        yield running, run


@pytest.mark.parametrize(("page", "part"), [("injection", ".rv-faults"), ("golden", ".rv-legend")])
def test_tables_and_legends_are_not_cut_on_a_phone(visit, served, page, part):
    running, run = served
    window = visit(running, **PHONE).open(f"/{page}?run={run}")
    window.page.wait_for_selector(part)
    assert max(window.page.evaluate(CUT)) <= 0


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_links_in_tables_have_our_colour(visit, served, scheme):
    running, run = served
    window = visit(running, scheme=scheme).open(f"/golden?run={run}")
    link = window.page.locator(".rv-table a").first
    link.wait_for()
    expect(link).to_have_css("color", {"light": "rgb(0, 114, 178)", "dark": "rgb(86, 180, 233)"}[scheme])


def test_an_unknown_run_is_told_below_the_bar(visit, served):
    running, _run = served
    window = visit(running).open("/health?run=nobody")
    said = window.page.locator(".rv-empty")
    said.wait_for()
    title, message = window.page.locator("h1.rv-title").bounding_box(), said.bounding_box()
    assert message["y"] >= title["y"] + title["height"]
    assert abs(message["x"] - title["x"]) < 2


def test_an_address_without_a_page_says_so_once(visit, served):
    running, run = served
    window = visit(running).open(f"/nosuch?run={run}")
    told = window.page.get_by_text("There is no page “nosuch”")
    told.wait_for()
    expect(window.page.get_by_role("dialog")).to_have_count(0)  # Streamlit's own, which knows English only
    window.open("/overview")
    expect(told).to_have_count(0)
    chinese = visit(running, locale="zh-CN").open("/a/nosuch")
    chinese.page.get_by_text("没有页面“a/nosuch”").wait_for()
    expect(chinese.page.get_by_role("dialog")).to_have_count(0)


@pytest.fixture(scope="module")
def many(tmp_path_factory):
    """A server with eleven runs, and the address that compares them."""
    place = tmp_path_factory.mktemp("many")
    paths = [place / f"{n}.log" for n in range(11)]
    for n, path in enumerate(paths):
        path.write_text(f"Namespace(learning_rate=0.00{n + 10})\n" + canonical(60))
    command = [sys.executable, "cli.py", "ingest", *map(str, paths), "--json", "--data-dir", str(place / "data")]
    told = json.loads(subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout)
    with serving(place / "data", place / "server.log") as running:
        yield running, "/compare?runs=" + ",".join(one["run"] for one in told)


@pytest.mark.parametrize(("width", "columns"), [(1300, 3), (390, 1)])
def test_small_multiples_stand_beside_each_other_as_far_as_the_page_is_wide(visit, many, width, columns):
    running, address = many
    page = visit(running, width=width, height=900).open(address).settled().page
    charts = page.locator(".st-key-small canvas, .st-key-small svg.marks")
    expect(charts).to_have_count(10)
    boxes = [chart.bounding_box() for chart in charts.all()]
    assert sum(box["y"] == boxes[0]["y"] for box in boxes) == columns
    room = page.locator(".st-key-small").bounding_box()
    assert max(box["x"] + box["width"] for box in boxes) <= room["x"] + room["width"] + 1
    assert page.evaluate("() => document.querySelector('[data-testid=stMain]').scrollWidth") <= width


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_what_runs_under_the_logo_is_not_seen(visit, served, scheme):
    running, run = served
    page = visit(running, **PHONE, scheme=scheme).open(f"/health?run={run}").page
    ground = page.locator(".stApp").evaluate("element => getComputedStyle(element).backgroundColor")
    expect(page.locator("[data-testid=stHeader]")).to_have_css("background-color", ground)


def test_the_report_of_a_comparison_fits_a_phone(visit, many, tmp_path):
    running, address = many
    window = visit(running, **PHONE).open(address).settled()
    window.page.locator(".st-key-export button").first.click()
    with window.page.expect_download() as told:
        window.page.get_by_role("button", name="HTML report").click()
    told.value.save_as(tmp_path / "report.html")
    report = window.context.new_page()
    report.set_content((tmp_path / "report.html").read_text())
    report.locator("h2").last.wait_for()
    assert report.evaluate("() => document.documentElement.scrollWidth") <= PHONE["width"]


WIDER = "() => Math.max(...[...document.querySelectorAll('.rv-scroll')].map(one => one.scrollWidth - one.clientWidth))"


def test_the_tables_of_many_runs_fit_their_page_and_the_report_too(visit, many, tmp_path):
    running, address = many
    window = visit(running, width=1440, height=900).open(address).settled()
    window.page.locator(".rv-figures-table").first.wait_for()
    assert window.page.evaluate(WIDER) <= 0
    window.page.locator(".st-key-export button").first.click()
    with window.page.expect_download() as told:
        window.page.get_by_role("button", name="HTML report").click()
    told.value.save_as(tmp_path / "report.html")
    report = window.context.new_page()
    report.set_viewport_size({"width": 1200, "height": 900})
    report.set_content((tmp_path / "report.html").read_text())
    report.locator("h2").last.wait_for()
    assert report.evaluate(WIDER) <= 0


def test_pickers_of_curves_show_the_whole_of_what_is_chosen(visit, many):
    running, address = many
    page = visit(running, width=1440, height=900).open(address).settled().page
    places = page.locator(".st-key-curves-bar [data-testid=stSelectbox] input")
    places.first.wait_for()
    longest = "x: Passes over the data"
    cut = f"all => all.map(one => {{ one.value = '{longest}'; return one.scrollWidth > one.clientWidth }})"
    assert not any(places.evaluate_all(cut))


def test_a_table_that_goes_on_behind_its_edge_shows_it_on_a_phone(visit, many):
    running, address = many
    page = visit(running, **PHONE).open(address).settled().page
    table = page.locator(".rv-scroll:has(.rv-figures-table)").first
    table.wait_for()
    assert table.evaluate("one => one.scrollWidth > one.clientWidth")
    assert table.evaluate("one => getComputedStyle(one).backgroundImage").count("linear-gradient") == 4
