"""Run health by other thresholds: the profile in the URL, and those that a project sets for itself."""

from server.thresholds import project_of
from tests.pages.helpers import canonical, take, words


def test_the_profile_of_the_url_judges(shop, app):
    run = take(shop, canonical(1500), "flat.log")
    assert shop.store.diagnosis(run, "articles") is None
    test = app("health", {"profile_picker": "articles"}, run=run)
    assert not test.exception
    assert test.selectbox(key="profile_picker").value == "articles"
    assert shop.store.diagnosis(run, "articles") is not None
    assert "By fixed numbers" in test.selectbox(key="profile_picker").options


def test_a_threshold_of_the_project_is_saved_and_used(shop, app):
    run = take(shop, canonical(600, spike=300), "jump.log")
    assert "Sick" in words(app("health", run=run))
    project = project_of(shop.store, run)
    own = {rule: {"least_rise": 90.0} if rule == "divergence" else {"least_effect": 90.0} for rule in ("spike", "divergence")}
    shop.set_thresholds(project, "robust", own | {"spike_unrecovered": {"patience_share": 100.0}})
    shop.diagnosis(run)
    assert "Loss jumped" not in words(app("health", run=run))
    shop.set_thresholds(project, "robust", {})
    shop.diagnosis(run)
    assert "Sick" in words(app("health", run=run))
