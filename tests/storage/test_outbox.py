"""The outbox: alerts and their deliveries, what waits and why, and what goes with a run."""

from datetime import UTC, datetime, timedelta

import pytest

from storage.keeping import outbox
from storage.keeping.outbox import Alert
from storage.store import Store

NOW = datetime(2026, 5, 1, 12, tzinfo=UTC)


@pytest.fixture
def store(tmp_path):
    with Store(tmp_path) as opened:
        yield opened


def alert(name="a", run="", minutes=0):
    return Alert(name, run, {"what": "{brace} 简体"}, NOW + timedelta(minutes=minutes))


def test_an_alert_comes_back_as_it_was_kept_the_newest_first(store):
    store.outbox.add([(alert("a"), []), (alert("b", minutes=1), ["mail"])])
    assert store.outbox.alerts() == [alert("b", minutes=1), alert("a")]
    assert store.outbox.alerts(most=1) == [alert("b", minutes=1)]
    assert store.outbox.alerts(run="other") == []
    assert store.outbox.named(["b", "a", "gone"]) == [alert("a"), alert("b", minutes=1)]


def test_a_delivery_waits_is_tried_again_and_sent(store):
    store.outbox.add([(alert(), ["mail", "chat"])])
    mail, chat = store.outbox.waiting()
    assert (mail.channel, mail.tries, mail.due, mail.answer) == ("mail", 0, NOW, None)
    store.outbox.failed([mail], {"why": "no"}, 60)
    again = next(each for each in store.outbox.waiting() if each.channel == "mail")
    assert (again.tries, again.answer) == (1, {"why": "no"})
    assert again.due > datetime.now(UTC)
    store.outbox.hurry("mail")
    assert next(each for each in store.outbox.waiting() if each.channel == "mail").due <= datetime.now(UTC)
    store.outbox.sent([again], "message")
    store.outbox.failed([chat], {"why": "gone"}, None)
    assert store.outbox.waiting() == []
    states = {each.channel: (each.state, each.done is not None) for each in store.outbox.deliveries(["a"])}
    assert states == {"mail": (outbox.SENT, True), "chat": (outbox.FAILED, True)}


def test_a_message_that_carries_several_alerts_counts_once(store):
    store.outbox.add([(alert(name), ["mail"]) for name in "abc"])
    waiting = store.outbox.waiting()
    store.outbox.sent(waiting[:2], "first")
    store.outbox.sent(waiting[2:], "second")
    assert len(store.outbox.sent_since("mail", NOW)) == 2
    assert store.outbox.sent_since("other", NOW) == []
    assert store.outbox.sent_since("mail", datetime.now(UTC) + timedelta(seconds=1)) == []


def test_only_the_newest_are_kept(store, monkeypatch):
    monkeypatch.setattr(outbox, "MOST_ALERTS", 2)
    store.outbox.add([(alert(name, minutes=minute), ["mail"]) for minute, name in enumerate("abc")])
    assert [each.id for each in store.outbox.alerts()] == ["c", "b"]
    assert [each.alert for each in store.outbox.waiting()] == ["b", "c"]


def test_alerts_go_when_their_run_is_purged(store):
    run = store.create_run("train.log")
    store.outbox.add([(alert("a", run), ["mail"]), (alert("b"), [])])
    store.delete_run(run)
    store.purge(deleted_days=0)
    assert [each.id for each in store.outbox.alerts()] == ["b"]
    assert store.outbox.waiting() == []


def test_it_survives_that_the_store_is_closed(tmp_path):
    with Store(tmp_path) as store:
        store.outbox.add([(alert(), ["mail"])])
    with Store(tmp_path) as store:
        assert [each.alert for each in store.outbox.waiting()] == ["a"]
