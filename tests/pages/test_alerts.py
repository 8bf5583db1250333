"""Alerts: what was alerted and what became of it, channels whose secrets are never shown, rules, undo."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from analysis.findings import Severity
from messages import Text
from server.alerts import channels, rules
from server.alerts.channels import Channel
from server.alerts.occurrences import Occurrence
from server.alerts.rules import STOCK, AlertRule
from storage.keeping.outbox import Alert
from tests.pages.helpers import canonical, take, words
from tests.receiver import receiving
from tests.serving import wait_for

SECRET = "hunter2hunter2"
HOOK = Channel("hook", "Night shift", "webhook", {"url": f"http://127.0.0.1:1/{SECRET}", "authorization": SECRET})


NAN = "Loss is NaN or infinite since {step} (rows: {count:,})"


def alert(run="gone", name="train.log", title=NAN, minutes=1, came=True, **more):
    gaps = {"step": "step 201", "count": 3}
    made = datetime.now(UTC) - timedelta(minutes=minutes)
    one = Occurrence(
        "non_finite", Severity.CRITICAL, 0, 201, None, Text(title, gaps), "sick", Text("x"), run_name=name,
        rules=("Loss spike",), line_at=made.timestamp() - 60 if came else None, **more,
    )  # fmt: skip
    return Alert(f"{run}-{minutes}", run, one.to_dict(), made)


def click(test, label, number=0):
    return [button for button in test.button if button.label == label][number].click().run()


def switches(test):
    return [toggle for toggle in test.toggle if toggle.key.startswith("on-")]


def test_an_empty_store_has_the_stock_rules_and_says_that_nobody_is_told(shop, app):
    test = app("alerts")
    text = words(test)
    assert not test.exception
    assert "Nothing leaves this server yet" in text
    assert "Nothing so far" in text
    assert [toggle.label.strip("*") for toggle in switches(test)] == ["Loss spike", "Loss stall", "Time anomaly", "Failure"]
    assert all(toggle.value for toggle in switches(test))


def test_what_was_alerted_says_what_became_of_it(shop, app):
    run = take(shop, canonical(), "train.log")
    channels.save(shop.store, HOOK)
    channels.save(
        shop.store, Channel("mail", "Mail", "mail", {"to": "a@b.c", "sender": "a@b.c", "host": "h", "security": "tls"})
    )
    shop.store.outbox.add([(alert(run, minutes=2), ["hook", "mail", "deleted"]), (alert(run), [])])
    by_channel = {each.channel: each for each in shop.store.outbox.waiting()}
    shop.store.outbox.sent([by_channel["hook"]], "m")
    shop.store.outbox.failed([by_channel["mail"]], Text("It answered {status}.", {"status": "503"}).to_dict(), 600)
    shop.store.outbox.failed([by_channel["deleted"]], Text("The channel was deleted.").to_dict(), None)
    text = words(app("alerts"))
    assert f'href="health?run={run}&amp;finding=non_finite:0:201"' in text
    assert "Loss is NaN or infinite since step 201 (rows: 3)" in text
    assert "Night shift: sent, 3 min after the line came" in text
    assert "Mail: not sent yet, next try in 10 min. It answered 503." in text
    assert "a deleted channel: given up. The channel was deleted." in text
    assert "In the app only: its rule has no channel." in text
    assert text.index("In the app only") < text.index("Night shift: sent")


def test_a_deleted_channel_keeps_its_name_and_one_that_is_back_is_not_called_deleted(shop, app):
    run = take(shop, canonical(), "train.log")
    channels.save(shop.store, HOOK)
    shop.store.outbox.add([(alert(run), ["hook"])])
    channels.delete(shop.store, HOOK)
    assert "Night shift (deleted): waiting to be sent" in words(app("alerts"))
    channels.save(shop.store, HOOK)
    assert "Night shift: waiting to be sent" in words(app("alerts"))


def test_where_no_line_came_it_is_said_how_long_after_it_became_known_it_was_sent(shop, app):
    channels.save(shop.store, HOOK)
    silent = alert(minutes=2, came=False)
    silent.data["rows_at"] = 1.0  # as an earlier release kept it: of any line
    shop.store.outbox.add([(silent, ["hook"])])
    shop.store.outbox.sent(shop.store.outbox.waiting(), "m")
    text = words(app("alerts"))
    assert "Night shift: sent, 2 min after it became known" in text
    assert "after the line came" not in text


def test_text_of_a_log_is_text_and_a_run_that_is_gone_has_no_link(shop, app):
    shop.store.outbox.add([(alert(name="<script>alert(1)", title="<img src=x> {step}"), [])])
    text = words(app("alerts"))
    assert "<script>" not in text
    assert "<img" not in text
    assert "health?run=gone" not in text


def test_a_channel_is_added_and_every_rule_that_is_on_uses_it(shop, app):
    rules.save(shop.store, replace(STOCK["stall"], on=False))
    test = click(app("alerts"), "Add a channel")
    test.text_input(key="form_name").set_value("Night shift")
    test.text_input(key="form_webhook_url").set_value("https://example.org/hook")
    test.selectbox(key="form_language").select("zh_CN")
    click(test, "Save")
    assert not test.exception
    (found,) = channels.channels(shop.store)
    assert (found.name, found.fields["url"], found.language) == ("Night shift", "https://example.org/hook", "zh_CN")
    assert [rule.id for rule in rules.rules(shop.store) if found.id in rule.channels] == ["spike", "time", "failure"]
    assert "1 channel tells people of what goes wrong" in words(test)


@pytest.mark.parametrize("kind", channels.FORMS)
def test_every_kind_has_its_form(shop, app, kind):
    test = click(app("alerts"), "Add a channel")
    test.selectbox(key="form_kind").select(kind).run()
    assert not test.exception
    assert {field.key for field in channels.FORMS[kind].fields} == {
        each.key.removeprefix(f"form_{kind}_")
        for each in [*test.text_input, *test.selectbox]
        if each.key.startswith(f"form_{kind}_")
    }
    click(test, "Save")
    assert channels.channels(shop.store) == []
    assert "is missing." in words(test)


def test_a_secret_is_never_shown_again_and_kept_when_nothing_is_typed(shop, app):
    channels.save(shop.store, HOOK)
    test = app("alerts")
    click(test, "Edit")
    assert SECRET not in words(test)
    assert all(SECRET not in str(field.value) + field.placeholder for field in test.text_input)
    test.text_input(key="form_name").set_value("Day shift")
    click(test, "Save")
    assert channels.channels(shop.store) == [replace(HOOK, name="Day shift")]
    click(test, "Edit")
    test.text_input(key="form_webhook_url").set_value("http://example.org/new")
    click(test, "Save")
    assert channels.channels(shop.store)[0].fields == {"url": "http://example.org/new", "authorization": SECRET}


def test_a_wrong_address_is_said_and_what_was_typed_stays(shop, app):
    test = click(app("alerts"), "Add a channel")
    test.selectbox(key="form_kind").select("slack").run()
    test.text_input(key="form_slack_url").set_value("https://example.org")
    click(test, "Save")
    assert "The address looks like this: https://hooks.slack.com/services/T…/B…/…" in words(test)
    assert test.text_input(key="form_slack_url").value == "https://example.org"
    click(test, "Cancel")
    assert not [field for field in test.text_input if field.key.startswith("form_")]


def test_a_test_is_sent_and_the_answer_is_said(shop, app):
    with receiving(status=401, answer=b"who are you") as other:
        channels.save(shop.store, replace(HOOK, fields={"url": other.url}))
        test = click(app("alerts"), "Send a test")
        wait_for(lambda: shop.alerts.trials["hook"].done)
        assert "It answered 401: who are you" in words(test.run())
        other.status = 200
        click(test, "Send a test")
        wait_for(lambda: shop.alerts.trials["hook"].done)
        assert "The test was accepted." in words(test.run())


def test_a_rule_is_made_switched_edited_deleted_and_brought_back(shop, app):
    channels.save(shop.store, HOOK)
    test = click(app("alerts"), "Add a rule")
    test.text_input(key="form_name").set_value("Mine")
    test.multiselect(key="form_what").set_value(["end", "grad_zero"])
    test.selectbox(key="form_least").select("critical")
    test.text_input(key="form_names").set_value("mini* *64m")
    test.multiselect(key="form_channels").set_value(["hook"])
    click(test, "Save")
    mine = rules.rules(shop.store)[-1]
    assert mine == AlertRule(
        mine.id, "Mine", ("end", "grad_zero"), least=Severity.CRITICAL, names=("mini*", "*64m"), channels=("hook",)
    )  # fmt: skip
    assert "mini*, *64m · told by Night shift · not again within 1 hr" in words(test)
    test.toggle(key=f"on-{mine.id}").set_value(False).run()
    assert not rules.rules(shop.store)[-1].on
    test.button(key=f"delete-{mine.id}").click().run()
    assert len(rules.rules(shop.store)) == len(STOCK)
    assert "Mine was deleted." in words(test)
    click(test, "Undo")
    assert rules.rules(shop.store)[-1] == replace(mine, on=False)


def test_a_stock_rule_and_a_channel_can_be_deleted_and_brought_back(shop, app):
    channels.save(shop.store, HOOK)
    test = app("alerts")
    test.button(key="delete-spike").click().run()
    assert "spike" not in {rule.id for rule in rules.rules(shop.store)}
    click(test, "Undo")
    assert STOCK["spike"] in rules.rules(shop.store)
    test.button(key="delete-hook").click().run()
    assert channels.channels(shop.store) == []
    click(test, "Undo")
    assert channels.channels(shop.store) == [HOOK]


def test_what_somebody_deleted_while_it_was_edited_is_said_to_be_kept_again(shop, app):
    channels.save(shop.store, HOOK)
    test = app("alerts")
    for what, room, words_of in ((HOOK, channels, "Night shift"), (STOCK["spike"], rules, "Loss spike")):
        test.button(key=f"edit-{what.id}").click().run()
        room.delete(shop.store, what)  # in another window
        test.button(key="save").click().run()
        assert f"{words_of} had been deleted meanwhile and is kept again." in words(test)
        test.button(key=f"edit-{what.id}").click().run()
        test.button(key="save").click().run()
        assert "had been deleted meanwhile" not in words(test)
    click(test, "Add a channel")
    test.text_input(key="form_webhook_url").set_value("https://example.org/hook")
    test.button(key="save").click().run()
    assert len(channels.channels(shop.store)) == 2
    assert "had been deleted meanwhile" not in words(test)


def test_a_rule_about_nothing_is_not_kept(shop, app):
    test = click(app("alerts"), "Add a rule")
    test.multiselect(key="form_what").set_value([])
    click(test, "Save")
    assert "Say what is told." in words(test)
    assert len(rules.rules(shop.store)) == len(STOCK)


def test_the_name_of_a_stock_rule_stays_translated_when_it_is_edited_in_chinese(shop, app):
    test = app("alerts", {"lang": "zh_CN"})
    test.button(key="edit-spike").click().run()
    test.button(key="save").click().run()
    assert rules.rules(shop.store)[0] == STOCK["spike"]


def test_links_that_lead_to_this_machine_are_warned_of(shop, app):
    channels.save(shop.store, HOOK)
    assert "Set public_url" in words(app("alerts"))
    object.__setattr__(shop.settings, "public_url", "https://runs.example.org")
    assert "Set public_url" not in words(app("alerts"))


def test_a_read_only_store_says_so_and_offers_nothing_to_change(shop, app):
    channels.save(shop.store, HOOK)
    rules.save(shop.store, replace(STOCK["spike"], channels=("hook",)))
    shop.store.outbox.add([(alert(), [])])
    object.__setattr__(shop.settings, "read_only", True)
    test = app("alerts")
    assert not test.exception
    assert "nobody is told, and nothing can be set here" in words(test)
    assert "tells people" not in words(test)
    assert "Loss is NaN" in words(test)
    assert [button.label for button in test.button] == []
    assert all(toggle.disabled for toggle in switches(test))
