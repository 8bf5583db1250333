"""Ageing by the settings, diagnosed first; how full the disk is; the daily care."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from server import care
from server.service import Service
from server.settings import Settings
from storage.intake.ingest import ingest_file

LATER = datetime.now(UTC) + timedelta(days=40)


@pytest.fixture
def service(tmp_path):
    opened = Service.open(Settings(data_dir=tmp_path / "data", keep_rows_days=30))
    log = tmp_path / "train.log"
    spiky = {1500: 40.0, 1501: float("nan")}
    log.write_text("".join(f"step: {n} loss: {spiky.get(n, 3 - n / 1000):.4f} lr: 0.0001\n" for n in range(1, 2501)))
    opened.run = ingest_file(opened.store, log).run_id
    yield opened
    opened.close()


def test_a_run_is_diagnosed_before_it_ages_and_keeps_its_findings(service):
    plan = care.retain(service, at=LATER)
    assert {step.what for step in plan.steps} == {"lines", "rows"}
    before = service.diagnosis(service.run)
    assert any(finding.first_line == 1501 for finding in before.findings)
    assert "step: 1501 loss: nan lr: 0.0001" in service.store.lines(service.run, 1490, 1510)
    service.store.rename_run(service.run, "another name")
    for profile in care.PROFILES:
        kept = service.store.diagnosis(service.run, profile)[1]
        assert service.diagnosis(service.run, profile).to_dict()["findings"] == kept["findings"]
    assert service.diagnosis(service.run) == before
    assert care.retain(service, at=LATER).steps == ()


def test_a_run_that_has_aged_and_is_renamed_waits_for_no_diagnosis(service):
    care.retain(service, at=LATER)
    service.store.rename_run(service.run, "another name")
    assert service.board.unjudged() == [service.run]
    service.diagnosis(service.run)
    assert service.board.unjudged() == []


def test_a_dry_run_only_tells(service):
    assert care.retain(service, dry_run=True, at=LATER).steps
    assert service.store.frame(service.run).num_rows == 2500


@pytest.mark.parametrize(("gib", "state"), [(0, "ok"), (1, "ok"), (1e-6, "full")])
def test_the_disk_says_when_it_is_full(service, gib, state):
    service.settings = replace(service.settings, disk_budget_gib=gib)
    assert care.disk_status(service).state == state


def test_a_warning_comes_before_the_budget_is_used_up(service):
    used = care.disk_status(service).used
    assert used == sum(service.store.disk().values()) > 0
    service.settings = replace(service.settings, disk_budget_gib=used / 0.9 / care.GIB)
    status = care.disk_status(service)
    assert status.state == "warning"
    assert "more room" in status.message.render()


def test_the_daily_care_removes_what_was_deleted(service, monkeypatch):
    service.store.delete_run(service.run)
    monkeypatch.setattr(service.store, "purge", lambda original=service.store.purge: original(deleted_days=0))
    care.Care(service).once()
    assert service.store.latest().empty
    thread = care.Care(service, first_seconds=0, seconds=60)
    thread.start()
    thread.stop()
