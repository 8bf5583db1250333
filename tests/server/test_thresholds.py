"""Thresholds of one's own: kept by project, of the right type, and used by the diagnosis of the project's runs."""

import pytest

from server.service import Service
from server.settings import Settings
from server.thresholds import BadThreshold, of_project, of_run, parse, project_of, save
from tests.pages.helpers import canonical


@pytest.fixture
def service(tmp_path):
    service = Service.open(Settings(data_dir=tmp_path / "data"))
    yield service
    service.close()


def test_a_threshold_is_read_as_its_default_is(service):
    assert parse(("spike.two_of_four=9", "spike_unrecovered.patience_rows=300"), "robust") == {
        "spike": {"two_of_four": 9.0},
        "spike_unrecovered": {"patience_rows": 300},
    }
    assert parse(("spike.z=8",), "robust") == {"spike": {"two_of_four": 8.0}}
    assert parse(("spike.warning_ratio=4",), "articles") == {"spike": {"warning_ratio": 4.0}}


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("nothing.z=8", "There is no rule nothing"),
        ("spike.wrong=8", "two_of_four"),
        ("spike=8", "no threshold"),
        ("spike.z=high", "must be a number"),
        ("spike.z=-1", "must be a number"),
        ("spike.z=nan", "must be a number"),
        ("", "There is no rule"),
    ],
)
def test_what_is_no_threshold_is_refused_in_a_sentence(text, says):
    with pytest.raises(BadThreshold, match=says):
        parse((text,), "robust")


def test_a_project_keeps_what_differs_from_the_defaults(service):
    save(service.store, "p", "robust", {"spike": {"two_of_four": 7.5, "single": 12}})
    assert of_project(service.store, "p", "robust") == {"spike": {"single": 12.0}}
    assert of_project(service.store, "p", "articles") == {}
    assert of_project(service.store, "other", "robust") == {}
    save(service.store, "p", "robust", {"spike": {"single": 10}})
    assert service.store.kept("thresholds") == []


def test_a_diagnosis_is_made_anew_with_the_thresholds_of_the_project(service):
    run = service.ingest_upload("a.log", [canonical(600, spike=300).encode()]).run_id
    kinds = {finding.kind for finding in service.diagnosis(run).findings}
    assert kinds & {"spike", "spike_unrecovered"}
    strict = {rule: {"least_effect": 50.0} for rule in ("spike",)}
    save(service.store, project_of(service.store, run), "robust", strict | {"spike_unrecovered": {"patience_rows": 10**6}})
    assert of_run(service.store, run, "robust")["spike"] == {"least_effect": 50.0}
    after = {finding.kind for finding in service.diagnosis(run).findings}
    assert not after & {"spike", "spike_unrecovered"}
    assert service.diagnosis(run) is not None
