"""The outbox is emptied: in which order, how much at once, again after a failure, and after the process was killed."""

import os
import signal
import subprocess
import sys
import threading
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from analysis.findings import Severity
from messages import Text
from server.alerts import outgoing
from server.alerts.channels import Channel, delete, save
from server.alerts.occurrences import Occurrence
from server.alerts.outgoing import Outgoing, due
from storage.keeping.outbox import FAILED, SENT, WAITING, Alert, Delivery
from storage.store import Store
from tests.receiver import receiving
from tests.serving import ROOT, wait_for

NOW = datetime(2026, 5, 1, 12, tzinfo=UTC)


def delivery(alert, run="run", minutes=0, tries=0):
    return Delivery(alert, run, "c", WAITING, tries, NOW + timedelta(minutes=minutes), None, "", None)


def sent(*minutes):
    return [NOW - timedelta(minutes=each) for each in minutes]


@pytest.mark.parametrize(
    ("waiting", "already", "takes", "wait_seconds"),
    [
        ([delivery("a", minutes=2)], [], "", 120),
        ([delivery("a"), delivery("b", "other"), delivery("c")], [], "ac", 0),
        ([delivery("a"), delivery("b", minutes=1)], [], "a", 0),
        ([delivery("a"), delivery("b", "other")], sent(50, 10), "ab", 0),  # the last message of the hour takes all
        ([delivery("a"), delivery("b", "other")], sent(50, 20, 10), "", 600),
        ([delivery("a")], sent(50, 40, 30, 20, 10), "", 1800),  # the limit was lowered meanwhile
        ([delivery("a", minutes=1, tries=1), delivery("b", "other")], [], "", 60),  # a channel that is down is not pestered
    ],
)
def test_what_the_next_message_carries(waiting, already, takes, wait_seconds):
    found = due(waiting, already, 3, NOW)
    assert ("".join(each.alert for each in found.deliveries), found.wait_seconds) == (takes, wait_seconds)


def alert(name, run="run1", *, hours=0.0):
    one = Occurrence("non_finite", Severity.CRITICAL, 0, 201, None, Text("NaN"), "sick", Text("NaN"), run_name=name)
    return Alert(name, run, one.to_dict(), datetime.now(UTC) - timedelta(hours=hours))


@pytest.fixture
def store(tmp_path):
    with Store(tmp_path / "data") as opened:
        yield opened


def hook(receiver, name="hook", **more):
    return Channel(name, name, "webhook", {"url": receiver.url}, **more)


@pytest.fixture
def started(monkeypatch):
    monkeypatch.setattr(outgoing, "FIRST_SECONDS", 0.0)
    running = []

    def start(store):
        running.append(Outgoing(store, lambda: "http://here/"))
        running[-1].start()
        return running[-1]

    yield start
    for each in running:
        each.stop()


def states(store, *alerts):
    return {(each.alert, each.channel): each.state for each in store.outbox.deliveries(alerts)}


def test_a_channel_that_is_down_holds_up_nobody_else_and_gets_all_when_it_is_up(store, started, monkeypatch):
    monkeypatch.setattr(outgoing, "PAUSES_SECONDS", (0.2,))
    with receiving() as up, receiving(status=503, answer=b"closed for repairs") as down:
        up.hold.clear()  # its answer is late, too: neither waits for the other
        save(store, hook(up, "up"))
        save(store, hook(down, "down"))
        store.outbox.add([(alert("a"), ["down", "up"])])
        started(store)
        wait_for(lambda: len(down.got) >= 2 and up.got)
        (waiting,) = [each for each in store.outbox.waiting() if each.channel == "down"]
        assert Text.from_dict(waiting.answer).render() == "It answered 503: closed for repairs"
        assert waiting.tries >= 1
        up.hold.set()
        wait_for(lambda: states(store, "a")["a", "up"] == SENT)
        accepted = len(up.got)  # more than one where its answer came too late: then it is asked again
        down.status = 200
        wait_for(lambda: states(store, "a")["a", "down"] == SENT)
        assert {body["id"] for body in [*down.bodies(), *up.bodies()]} == {"a"}
        assert len(up.got) == accepted


def test_it_is_given_up_after_a_day_and_so_is_what_waited_behind_it(store, started):
    with receiving(status=500) as other:
        save(store, hook(other))
        store.outbox.add([(alert(name, name, hours=25), ["hook"]) for name in ("old", "as old")])
        started(store)
        wait_for(lambda: set(states(store, "old", "as old").values()) == {FAILED})
        assert len(other.got) == 1


def test_what_can_not_be_noted_as_sent_is_not_sent_again_and_again(store, started, monkeypatch):
    noted = threading.Event()

    def full(*_):
        noted.set()
        raise OSError("disk full")

    monkeypatch.setattr(store.outbox, "sent", full)
    with receiving() as other:
        save(store, hook(other))
        store.outbox.add([(alert("a"), ["hook"])])
        sending = started(store)
        assert noted.wait(120)
        wait_for(lambda: not sending._busy)
        assert sending.look() > 60
        assert len(other.got) == 1


def test_what_is_more_than_an_hour_takes_comes_as_one_digest(store, started):
    with receiving() as other:
        save(store, hook(other, per_hour=3))
        store.outbox.add([(alert(f"a{number}", f"run{number}"), ["hook"]) for number in range(30)])
        started(store)
        bodies = other.wait(3)
        wait_for(lambda: not store.outbox.waiting())
        assert [len(body["alerts"]) for body in bodies] == [1, 1, 28]
        assert bodies[2]["title"] == "[Runvitals] 28 alerts"
        store.outbox.add([(alert("late"), ["hook"])])
        assert store.outbox.waiting()
        assert len(other.got) == 3


def test_a_deleted_channel_gets_nothing_any_more_and_the_outbox_says_so(store, started):
    with receiving() as other:
        save(store, hook(other))
        store.outbox.add([(alert("a"), ["hook"])])
        delete(store, hook(other))
        started(store)
        wait_for(lambda: states(store, "a")["a", "hook"] == FAILED)
        assert other.got == []


def test_a_channel_that_is_mended_is_tried_at_once(store, started):
    with receiving(status=404) as wrong, receiving() as right:
        save(store, hook(wrong))
        store.outbox.add([(alert("a"), ["hook"])])
        sending = started(store)
        wait_for(lambda: store.outbox.waiting()[0].tries == 1)  # and waits now for ten seconds
        save(store, replace(hook(right), id="hook"))
        sending.wake()
        assert right.wait()[0]["id"] == "a"


def test_a_wrong_channel_ends_no_thread(store, started, monkeypatch):
    monkeypatch.setattr(outgoing, "PAUSES_SECONDS", (0.1,))
    calls = []

    def broken(channel, message):
        calls.append(message)
        raise ZeroDivisionError("secret")

    with receiving() as other:
        save(store, hook(other))
    store.outbox.add([(alert("a"), ["hook"])])
    sending = Outgoing(store, lambda: "", send=broken)
    sending.start()
    wait_for(lambda: len(calls) >= 2)
    assert "ZeroDivisionError" in str(store.outbox.waiting()[0].answer)
    sending.stop()


KILLED = """
import sys, time
from server.alerts import outgoing
from server.alerts.outgoing import Outgoing
from storage.store import Store
outgoing.FIRST_SECONDS = 0.0
Outgoing(Store(sys.argv[1]), lambda: "http://here/").start()
time.sleep(600)
"""


def test_after_kill_9_in_the_middle_of_a_delivery_it_goes_on(tmp_path, started):
    data = tmp_path / "data"
    with receiving() as other:
        with Store(data) as store:
            save(store, hook(other, per_hour=100))
            store.outbox.add([(alert(name, name), ["hook"]) for name in ("a", "b", "c")])
        other.hold.clear()
        process = subprocess.Popen([sys.executable, "-c", KILLED, str(data)], cwd=ROOT)
        wait_for(lambda: other.got)
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
        other.hold.set()
        with Store(data) as store:
            started(store)
            wait_for(lambda: not store.outbox.waiting())
            assert set(states(store, "a", "b", "c").values()) == {SENT}
    told = [body["id"] for body in other.bodies()]
    assert told == ["a", "a", "b", "c"]  # at least once: the one that was cut off came twice, under the same id


def test_stopping_does_not_wait_for_a_channel_that_hangs(store, monkeypatch):
    monkeypatch.setattr(outgoing, "FIRST_SECONDS", 0.0)
    monkeypatch.setattr(outgoing, "STOP_SECONDS", 0.1)
    begun, end = threading.Event(), threading.Event()

    def hanging(channel, message):
        begun.set()
        end.wait(120)

    with receiving() as other:
        save(store, hook(other))
    store.outbox.add([(alert("a"), ["hook"])])
    sending = Outgoing(store, lambda: "", send=hanging)
    sending.start()
    assert begun.wait(120)
    sending.stop()
    assert not end.is_set()
    assert store.outbox.waiting()
    end.set()
    wait_for(lambda: not store.outbox.waiting())  # before the store closes
