"""Runs beside the pinned baseline: what a list of thousands of runs is told, at once or by and by."""

import pytest

from analysis.findings import Finding, Severity
from messages import Text
from server import baselines
from server.compare import comparison
from tests.pages.conftest import app as app
from tests.pages.conftest import shop as shop
from tests.pages.helpers import take, words
from tests.pages.test_compare import log
from ui import beside as ui_beside

NAMED = {"a.log": {}, "worse.log": {"shift": 1.1, "rate": "0.001"}, "alike.log": {"shift": 1.0001}, "other.log": {"batch": 8}}


@pytest.fixture
def runs(shop) -> dict[str, str]:
    ids = {name: take(shop, log(**more), name) for name, more in NAMED.items()}
    baselines.save_baseline(shop.store, "good", [ids["a.log"]])
    return ids


def kinds_of(shop, base) -> dict[str, str]:
    listed = shop.store.runs()
    names = {run.id: run.name for run in listed}
    return {names[run]: found.kind for run, found in shop.standings.beside(listed, base).items()}


def test_runs_are_better_worse_alike_or_not_comparable(shop, runs):
    told = kinds_of(shop, shop.standings.baseline())
    assert told == {"worse.log": "worse", "alike.log": "not_distinguishable", "other.log": "refused"}


def test_many_runs_are_looked_at_in_the_background(shop, runs, monkeypatch):
    monkeypatch.setattr("server.beside.AT_ONCE", 1)
    base = shop.standings.baseline()
    kinds_of(shop, base)
    shop.standings.wait()
    assert len(kinds_of(shop, base)) == 3


def test_a_run_is_looked_at_once_a_version(shop, runs, monkeypatch):
    base = shop.standings.baseline("good")
    before = kinds_of(shop, base)
    monkeypatch.setattr(shop.standings, "_look", lambda *_: pytest.fail("looked at again"))
    assert kinds_of(shop, base) == before


def test_a_difference_that_compare_does_not_claim_is_not_claimed_by_the_list(shop):
    """Of two runs alone 0.6 % are told apart; one of many lies that far off by chance."""
    logs = {"base": log(), "near": log(shift=0.994, rate="0.001")}
    logs |= {f"far{n}": log(shift=1 + n / 5, rate=f"0.00{n}") for n in range(2, 6)}
    ids = {name: take(shop, text, f"{name}.log") for name, text in logs.items()}
    baselines.save_baseline(shop.store, "good", [ids["base"]])
    assert comparison(shop, [ids["base"], ids["near"]]).verdict == "better"
    told = comparison(shop, list(ids.values()), is_baseline=True)
    among = {told.sides[pair.run].subject.name: pair.kind for pair in told.pairs}
    listed = kinds_of(shop, shop.standings.baseline())
    assert listed["near.log"] == among["near.log"] == "not_distinguishable"
    assert {name for name, kind in listed.items() if kind in ("better", "worse")} <= {
        name for name, kind in among.items() if kind in ("better", "worse")
    }


def test_how_far_repeats_of_the_baseline_lie_apart_counts_for_the_list_too(shop):
    ids = {name: take(shop, log(**more), name) for name, more in NAMED.items() if name != "other.log"}
    baselines.save_baseline(shop.store, "good", [ids["a.log"]])
    assert kinds_of(shop, shop.standings.baseline())["worse.log"] == "worse"
    for shift in (1.1, 1.05, 0.9):
        take(shop, log(shift=shift), f"repeat{shift}.log")
    baselines.save_baseline(shop.store, "again", [ids["a.log"]])
    assert kinds_of(shop, shop.standings.baseline("again"))["repeat0.9.log"] == "repeats"
    take(shop, log(shift=1.12, rate="0.001"), "later.log")
    assert kinds_of(shop, shop.standings.baseline("again"))["later.log"] == "not_distinguishable"


def test_a_baseline_outlives_its_runs(shop, runs):
    shop.store.delete_run(runs["a.log"])
    assert kinds_of(shop, shop.standings.baseline())["worse.log"] == "worse"


def test_another_baseline_of_the_same_name_is_another(shop, runs):
    kinds_of(shop, shop.standings.baseline())
    baselines.save_baseline(shop.store, "good", [runs["worse.log"]])
    assert kinds_of(shop, shop.standings.baseline())["a.log"] == "better"


def test_without_a_baseline_there_is_nothing_to_tell(shop):
    assert shop.standings.baseline() is None


def test_the_overview_and_run_health_tell_it(shop, runs, app):
    overview = app("overview")
    assert not overview.exception
    table = overview.dataframe[0].value
    assert table.set_index("name")["beside"].to_dict() == {
        "a.log": "the baseline",
        "worse.log": "▲ worse, 10 %",
        "alike.log": "≈ not distinguishable",
        "other.log": "⊘ not comparable",
    }
    health = app("health", run=runs["worse.log"])
    assert not health.exception
    assert "Worse than the baseline “good” by 10" in words(health)
    assert ", up to 3,000.</a> The dashed grey line" in words(health)
    refused = words(app("health", run=runs["other.log"]))
    assert "Not comparable with the baseline “good”: the baseline is stale: it was made under other conditions (" in refused
    assert "dashed grey line" not in refused
    assert "the baseline" not in words(app("health", run=runs["a.log"]))


def test_a_run_that_its_diagnosis_calls_broken_is_never_better_whatever_its_loss(shop, runs):
    """A collapsed run has a low loss; what is said of it later changes how it stands."""
    low = take(shop, log(shift=0.5, rate="0.002"), "low.log")
    base = shop.standings.baseline()
    assert kinds_of(shop, base)["low.log"] == "better"
    head, said = shop.store.run(low), shop.diagnosis(low).to_dict()
    finding = Finding("loss_zero", Severity.CRITICAL, 0, 40, None, Text("The loss is exactly zero.")).to_dict()
    shop.store.save_diagnosis(low, shop.settings.profile, head.version + 1, said | {"findings": [finding]})
    listed = shop.store.runs([low])
    (found,) = shop.standings.beside(listed, base).values()
    assert found.kind == "worse"
    assert "broke down" in found.text.render()
    assert ui_beside.short(found) == "▲ worse: it broke down"
