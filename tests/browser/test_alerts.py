"""A visitor sets up a channel, tries it, and a run that goes wrong is told there and on the page, while it is looked at."""

import json
import urllib.request

import pytest
from playwright.sync_api import expect

from server.alerts.channels import Channel, channels, save
from storage.store import Store
from tests.receiver import receiving
from tests.serving import serving, wait_for
from tests.storage.desk import lines

pytestmark = pytest.mark.browser


@pytest.fixture
def served(tmp_path):
    (tmp_path / "logs").mkdir()
    (tmp_path / "logs" / "night.log").write_text(lines(1, 300))
    with serving(tmp_path / "data", tmp_path / "server.log", RUNVITALS_WATCH=str(tmp_path / "logs")) as running:
        yield running, tmp_path / "logs" / "night.log"


def rows(running) -> int:
    with urllib.request.urlopen(f"{running.url}/api/v1/runs", timeout=60) as answer:
        return sum(run["rows"] for run in json.load(answer))


def test_a_channel_is_set_up_and_a_run_that_goes_wrong_is_told(visit, served):
    running, log = served
    with receiving() as other:
        page = visit(running).open("/alerts").page
        page.get_by_role("button", name="Add a channel").click()
        page.get_by_label("Address", exact=True).fill(f"{other.url}/night-secret")
        page.get_by_role("button", name="Save").click()
        expect(page.get_by_text("1 channel tells people")).to_be_visible()
        page.get_by_role("button", name="Send a test").click()
        expect(page.get_by_text("The test was accepted.")).to_be_visible()
        wait_for(lambda: rows(running) == 300)  # what is read first is history
        with log.open("a") as file:
            file.write(lines(301, 301).replace("loss: 8.6990", "loss: nan"))
        told = page.locator(".rv-aspect")
        expect(told.get_by_text("Loss is NaN or infinite since step 301")).to_be_visible()
        expect(told.get_by_text("Webhook (JSON): sent")).to_be_visible()
        page.get_by_role("button", name="Edit").first.click()
        expect(page.get_by_placeholder("kept as it is")).to_be_visible()
        assert "night-secret" not in page.content()
        assert [body["id"] == "test" for body in other.bodies()] == [True, False]
        told.get_by_role("link", name="night.log").click()
        page.wait_for_url("**/health?run=*")


def test_what_was_typed_is_saved_however_its_field_was_left(visit, tmp_path):
    with Store(tmp_path / "data") as store:
        save(store, Channel("hook", "Night shift", "webhook", {"url": "https://example.org/before"}))
    with serving(tmp_path / "data", tmp_path / "server.log") as running:
        page = visit(running).open("/alerts").page
        page.locator(".st-key-edit-hook button").click()
        for label, text in (("Address", "https://example.org/after"), ("Header Authorization", "Bearer 12345678")):
            page.get_by_label(label, exact=True).click()
            page.keyboard.type(text)
            page.keyboard.press("Tab")
        page.get_by_role("button", name="Save").click()
        expect(page.get_by_label("Address", exact=True)).not_to_be_visible()
        page.get_by_role("button", name="Add a channel").click()
        page.get_by_label("Address", exact=True).click()
        page.keyboard.type("https://example.com/new")
        page.keyboard.press("Tab")
        page.get_by_role("button", name="Save").click()
        expect(page.get_by_text("https://example.com/…")).to_be_visible()
    with Store(tmp_path / "data") as store:
        fields = {channel.name: dict(channel.fields) for channel in channels(store)}
    assert fields["Night shift"] == {"url": "https://example.org/after", "authorization": "Bearer 12345678"}
    assert fields["Webhook (JSON)"]["url"] == "https://example.com/new"
