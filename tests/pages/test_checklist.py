"""Checklist: answers from the log, answers of people, the paper."""

from dataclasses import replace
from datetime import UTC, datetime

from analysis.checklist import State
from server import checklist as answers
from server.alerts import channels, rules
from server.alerts.channels import Channel
from tests.pages.helpers import canonical, take, words
from ui import checklist


def test_conditions_items_and_dimensions_are_answered(shop, app):
    said = words(app("checklist", run=take(shop, canonical(), "a.log")))
    assert "It is not shown yet that the run goes from end to end" in said
    for part in ("Data is loaded without errors", "Tokeniser and one sample", "Scaling", "Alerts when something goes wrong"):
        assert part in said


def test_a_nan_fails(shop, app):
    assert "does not go from end to end" in words(app("checklist", run=take(shop, canonical(nan=120), "a.log")))


def test_a_person_answers_and_takes_it_back(shop, app):
    run = take(shop, canonical(), "a.log")
    answers.answer(shop, run, "sample", State.PASS, "one <b>sentence</b>", "Kim")
    test = app("checklist", run=run)
    said = words(test)
    assert "answered by Kim" in said
    assert "one &lt;b&gt;sentence&lt;/b&gt;" in said
    test.button(key=f"back-{run}-sample").click().run()
    assert not test.exception
    assert not answers.ticks_of(shop, run)


def test_what_is_kept_and_can_t_be_read_is_unknown(shop, app):
    run = take(shop, canonical(), "a.log")
    shop.store.keep("tick", "sample", ["nonsense"], run=run)
    shop.store.keep("tick", "corpus", {"state": "maybe"}, run=run)
    assert not app("checklist", run=run).exception


def test_the_paper_needs_nothing_else_and_holds_hostile_names(shop, app):
    run = take(shop, canonical(), "<script>alert(1)</script>.log")
    app("checklist", run=run)
    found = answers.run_checklist(shop, run)
    page = checklist.paper(found, shop.store.run(run), datetime.now(UTC), ["Only this run."])
    assert page.startswith("<!doctype html>")
    assert "<script>" not in page
    assert page.count("<li>") == 4 + 11 + 7 + 3
    assert "Only this run." in page


def test_the_paper_has_the_date_of_an_answer_in_print_that_can_be_read(shop, app):
    run = take(shop, canonical(), "a.log")
    answers.answer(shop, run, "sample", State.PASS, "tried", "Kim")
    app("checklist", run=run)
    page = checklist.paper(answers.run_checklist(shop, run), shop.store.run(run), datetime.now(UTC), [])
    assert "ago" not in page
    assert "�" not in page


def test_alerts_are_set_up_when_a_rule_that_is_on_has_a_channel(shop):
    run = take(shop, canonical(), "train.log")

    def state():
        return next(item.state for item in answers.run_checklist(shop, run).production if item.key == "production_alerts")

    assert state() is State.UNKNOWN
    channels.save(shop.store, Channel("hook", "hook", "webhook", {"url": "https://example.org"}))
    assert state() is State.UNKNOWN
    rules.save(shop.store, replace(rules.STOCK["spike"], channels=("hook",)))
    assert state() is State.PASS
