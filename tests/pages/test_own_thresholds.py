"""Run health by other thresholds: the profile in the URL, and those that a project sets for itself."""

from server.thresholds import of_project, project_of
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


def test_a_number_that_was_typed_counts_when_save_is_clicked_at_once(shop, app):
    run = take(shop, canonical(600, spike=300), "jump.log")
    test = app("health", {"thresholds": True, "threshold_rule": "spike"}, run=run)
    name = next(field.key for field in test.number_input if field.key.endswith("-least_effect"))
    test.number_input(key=name).set_value(77.0)
    test.button(key="save_thresholds").click().run()
    assert not test.exception
    project = project_of(shop.store, run)
    assert of_project(shop.store, project, "robust")["spike"]["least_effect"] == 77.0
    next(button for button in test.button if button.label == "Back to default").click().run()
    assert of_project(shop.store, project, "robust") == {}
    assert test.number_input(key=name).value != 77.0
