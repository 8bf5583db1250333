"""From a line of a log that grows to a message that arrived, with a real service, and what must raise no alert."""

import os
import time
from collections import deque
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from analysis.findings import Severity
from server.alerts import outgoing, rules
from server.alerts.channels import Channel, save
from server.alerts.hearing import BEHIND_BYTES, hear, is_live
from server.alerts.message import compose
from server.alerts.rules import STOCK, AlertRule
from server.arrivals import Arrival
from server.board import finding_key
from server.finding_states import KIND, MUTED
from server.service import Service
from server.settings import Settings
from server.thresholds import save as set_thresholds
from storage.keeping.outbox import SENT
from storage.keeping.sources import Watched
from tests.pages.helpers import canonical
from tests.receiver import receiving
from tests.serving import wait_for
from tests.storage.desk import lines


def bad(step: int) -> str:
    return lines(step, step).replace(f"loss: {9 - step / 1000:.4f}", "loss: nan", 1)


@pytest.fixture
def service(tmp_path, monkeypatch):
    monkeypatch.setattr(outgoing, "FIRST_SECONDS", 0.0)
    (tmp_path / "logs").mkdir()
    settings = Settings(
        data_dir=tmp_path / "data",
        watch=(tmp_path / "logs",),
        watch_seconds=0.05,
        diagnose_seconds=0.1,
        public_url="https://runs.example.org/rv/",
    )
    service = Service.open(settings)
    yield service
    service.close()


def grow(log, text):
    with log.open("a") as file:
        file.write(text)


def judged(service, count=1):
    """Wait until so many runs are there and all rows of them are judged."""
    wait_for(lambda: len(service.store.runs()) == count and not service.board.unjudged())


def alerts(service):
    return service.store.outbox.alerts()


def kinds(service):
    return sorted(alert.data["kind"] for alert in alerts(service))


def test_a_nan_in_a_log_that_grows_arrives_with_the_address_of_the_run(service, tmp_path):
    with receiving() as other:
        save(service.store, Channel("hook", "hook", "webhook", {"url": other.url}))
        rules.save(service.store, replace(STOCK["spike"], channels=("hook",)))
        service.start()
        log = tmp_path / "logs" / "train.log"
        log.write_text(lines(1, 300))
        judged(service)
        grow(log, bad(301) + bad(302))
        (body, *_rest) = other.wait()
    run = service.store.runs()[0]
    assert body["class"] == "non_finite"
    assert "Loss is NaN" in body["message"]
    assert body["message"].splitlines()[-1] == f"https://runs.example.org/rv/health?run={run.id}&finding=non_finite%3A0%3A301"
    wait_for(lambda: not service.store.outbox.waiting())
    (sent,) = service.store.outbox.deliveries([alerts(service)[0].id])
    assert sent.state == SENT
    assert sent.done.timestamp() >= alerts(service)[0].data["line_at"] > 0


OUT_OF_MEMORY = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 79 GiB\n"


@pytest.mark.parametrize(("text", "kind"), [(bad(301) + bad(302), "non_finite"), (OUT_OF_MEMORY, "out_of_memory")])
def test_without_a_channel_it_is_told_in_the_app_and_nothing_leaves_the_server(service, tmp_path, text, kind):
    service.start()
    log = tmp_path / "logs" / "train.log"
    log.write_text(lines(1, 300))
    judged(service)
    grow(log, text)
    wait_for(lambda: alerts(service))
    assert kinds(service) == [kind]
    assert (alerts(service)[0].data["line_at"] is not None) is (kind == "non_finite")  # an event is no row
    assert service.store.outbox.waiting() == []


def test_a_run_that_falls_silent_is_told_to_hang(service, tmp_path):
    for project in ("", "logs"):
        set_thresholds(service.store, project, "robust", {"hang": {"least_seconds": 1.0, "usual_times": 3.0}})
    service.start()
    log = tmp_path / "logs" / "train.log"
    log.write_text(lines(1, 30))
    judged(service)
    run = service.store.runs()[0].id
    for step in range(31, 61):  # each arrives by itself, and is seen to
        grow(log, lines(step, step))
        wait_for(lambda: service.store.run(run).last_step == step)  # noqa: B023
    hang = wait_for(lambda: [alert for alert in alerts(service) if alert.data["kind"] == "hang"])[0]
    assert compose([hang], "en", "").body.count("py-spy dump --pid PID") == 1
    assert hang.data["line_at"] is None


def test_a_run_that_fell_silent_just_before_a_restart_is_told_to_hang(service, tmp_path):
    for project in ("", "logs"):
        set_thresholds(service.store, project, "robust", {"hang": {"least_seconds": 1.0, "usual_times": 3.0}})
    log, began = tmp_path / "logs" / "train.log", datetime.now(UTC) - timedelta(minutes=2)
    rows = [f"[{began + timedelta(seconds=n):%Y-%m-%d %H:%M:%S}] step: {n} loss: {9 - n / 100:.4f}\n" for n in range(1, 101)]
    log.write_text("".join(rows[:60]))
    service.start()
    judged(service)
    grow(log, "".join(rows[60:]))
    os.utime(log)
    wait_for(lambda: service.store.runs()[0].rows == 100)
    judged(service)
    assert kinds(service) == []
    service.close()
    again = Service.open(service.settings)
    try:
        again.start()
        wait_for(lambda: kinds(again) == ["hang"])
    finally:
        again.close()


def test_a_folder_of_old_logs_and_an_upload_alert_nobody(service, tmp_path):
    for number in range(20):
        log = tmp_path / "logs" / f"old{number}.log"
        log.write_text(lines(1, 200) + "".join(bad(step) for step in range(201, 210)) + f"run {number}\n")
    rules.save(service.store, AlertRule("all", "all", ("spikes", "stalls", "time", "failures", "verdict", "end")))
    service.start()
    service.ingest_upload("a.log", [canonical(300, nan=250).encode()])
    judged(service, 21)
    assert {line.verdict for line in service.board.lines()} >= {"sick"}
    assert alerts(service) == []


def test_a_run_that_got_sick_while_the_server_was_down_is_told_when_it_is_back(service, tmp_path):
    log = tmp_path / "logs" / "train.log"
    log.write_text(lines(1, 300))
    service.start()
    judged(service)
    assert alerts(service) == []
    settings = service.settings
    service.close()
    time.sleep(0.01)  # the file must be younger than the run, by the clock of the file system
    grow(log, bad(301) + bad(302))
    again = Service.open(settings)
    try:
        again.start()
        wait_for(lambda: alerts(again))
        assert kinds(again) == ["non_finite"]
    finally:
        again.close()


def test_an_alert_that_was_lost_between_diagnosis_and_outbox_is_made_up_for_at_the_next_start(service, tmp_path):
    log = tmp_path / "logs" / "train.log"
    service.alerts.hear = lambda *_: None  # as if the process had died just then
    log.write_text(lines(1, 300))
    service.start()
    judged(service)
    grow(log, bad(301) + bad(302))
    wait_for(lambda: service.store.runs()[0].rows == 302)
    judged(service)
    settings = service.settings
    service.close()
    again = Service.open(settings)
    try:
        again.start()
        wait_for(lambda: alerts(again))
        assert kinds(again) == ["non_finite"]
    finally:
        again.close()


@pytest.fixture
def grown(service, tmp_path):
    """A run that is live: its log was written to after it was read first. Nothing hears of it by itself."""
    from storage.intake.watch import Watcher

    log = tmp_path / "logs" / "train.log"
    log.write_text(lines(1, 300))
    service.watcher = Watcher(service.store, [Watched(str(tmp_path / "logs"))])
    service.watcher.drain()
    run = service.store.runs()[0].id
    service.diagnosis(run)
    os.utime(log, (time.time() + 1, time.time() + 1))
    grow(log, bad(301) + bad(302))
    os.utime(log, (time.time() + 1, time.time() + 1))
    service.watcher.drain()
    return service, run, log


def look(service, run, before=None):
    now = service.diagnosis(run)
    return hear(service, run, before, now, now.findings)


@pytest.mark.parametrize(
    ("seen", "came"),
    [
        ([(10.0, 300), (20.0, 302), (30.0, 350)], 20.0),  # not when the newest came
        ([(20.0, 302), (30.0, 350)], None),  # it was there before anything was seen
        ([(10.0, 300), (20.0, 299)], None),
        ([(5.0, 250), (10.0, 900), (20.0, 310)], None),  # of another launch, or further back
    ],
)
def test_a_line_came_when_the_row_that_shows_the_finding_came(grown, seen, came):
    service, run, _log = grown
    service.arrivals._seen[run] = deque(Arrival(at, 300 + place, step) for place, (at, step) in enumerate(seen))
    assert look(service, run)
    assert alerts(service)[0].data["line_at"] == came


def test_a_muted_finding_alerts_nobody(grown):
    service, run, _log = grown
    finding = service.diagnosis(run).findings[0]
    service.store.keep(KIND, finding_key(finding.kind, 0, finding.first_step), {"state": MUTED, "reason": "x"}, run=run)
    rules.save(service.store, replace(STOCK["spike"], what=("spikes", "verdict")))
    assert not look(service, run)


def test_the_same_class_is_not_told_again_in_the_quiet_period_unless_graver(grown):
    service, run, _log = grown
    now = service.diagnosis(run)
    assert hear(service, run, now, now, now.findings)
    assert not hear(service, run, now, now, now.findings)
    rules.save(service.store, replace(STOCK["spike"], quiet_minutes=0))
    assert hear(service, run, now, now, now.findings)
    milder = replace(now, findings=tuple(replace(each, severity=Severity.WARNING) for each in now.findings))
    rules.save(service.store, STOCK["spike"])
    assert not hear(service, run, now, milder, milder.findings)


@pytest.mark.parametrize(
    ("change", "told"),
    [({"on": False}, False), ({"names": ("other*",)}, False), ({"names": ("TRAIN*",)}, True), ({"projects": ("logs",)}, True)],
)
def test_a_rule_is_asked_first(grown, change, told):
    service, run, _log = grown
    rules.save(service.store, replace(STOCK["spike"], **change))
    assert look(service, run) is told


def test_a_tag_chooses_runs(grown):
    service, run, _log = grown
    rules.save(service.store, replace(STOCK["spike"], tags=("prod",)))
    assert not look(service, run)
    service.store.keep("tag", "prod", True, run=run)
    assert look(service, run)


def test_several_rules_give_one_alert_with_every_channel_once(grown):
    service, run, _log = grown
    rules.save(service.store, replace(STOCK["spike"], channels=("a", "b")))
    rules.save(service.store, AlertRule("mine", "mine", ("non_finite",), channels=("b", "c")))
    assert look(service, run)
    (alert,) = alerts(service)
    assert [each.channel for each in service.store.outbox.waiting()] == ["a", "b", "c"]
    assert alert.data["rules"] == ["Loss spike", "mine"]


def test_the_verdict_and_the_end_can_be_told(grown):
    service, run, _log = grown
    rules.save(service.store, AlertRule("mine", "mine", ("verdict",)))
    assert look(service, run)
    assert kinds(service) == ["non_finite", "sick"]


def test_a_log_is_live_only_while_it_is_written_to(grown):
    service, run, log = grown
    head = service.store.run(run)
    assert is_live(service, head)
    whole = log.read_text()
    grow(log, "x" * (BEHIND_BYTES + 1))  # the rest of a long log is still to be read
    assert not is_live(service, head)
    log.write_text(whole)
    assert is_live(service, head)
    day_ago = time.time() - 86_400
    os.utime(log, (day_ago, day_ago))
    assert not is_live(service, head)
    log.unlink()
    assert not is_live(service, head)


@pytest.mark.parametrize(("hours", "live"), [(0.1, True), (30.0, False), (-30.0, False)])
def test_a_log_read_once_is_live_if_its_own_clock_says_so(service, tmp_path, hours, live):
    from storage.intake.watch import Watcher

    stamp = datetime.now(UTC) - timedelta(hours=hours)
    log = tmp_path / "logs" / "train.log"
    text = "".join(f"[{stamp:%Y-%m-%d %H:%M:%S}] step: {step} loss: {9 - step / 100:.4f} lr: 0.0005\n" for step in range(1, 60))
    log.write_text(text + "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.\n")
    os.utime(log, (time.time() - 5, time.time() - 5))
    Watcher(service.store, [Watched(str(tmp_path / "logs"))]).drain()
    run = service.store.runs()[0]
    assert is_live(service, run) is live
    assert look(service, run.id) is live


def test_a_store_that_is_read_only_sends_nothing(tmp_path):
    with receiving() as other:
        first = Service.open(Settings(data_dir=tmp_path / "data"))
        save(first.store, Channel("hook", "hook", "webhook", {"url": other.url}))
        first.close()
        reading = Service.open(Settings(data_dir=tmp_path / "data", read_only=True))
        reading.start()
        assert reading.store.outbox.alerts() == []
        reading.close()
        assert other.got == []


def test_a_channel_is_tried_in_the_background_and_its_answer_is_kept(service):
    with receiving(status=401, answer=b"who are you") as other:
        channel = Channel("hook", "hook", "webhook", {"url": other.url}, language="zh_CN")
        other.hold.clear()
        service.alerts.try_out(channel)
        service.alerts.try_out(channel)
        assert not service.alerts.trials["hook"].done
        other.hold.set()
        trial = wait_for(lambda: service.alerts.trials["hook"].done and service.alerts.trials["hook"])
        assert trial.refused.render() == "It answered 401: who are you"
        assert len(other.got) == 1
