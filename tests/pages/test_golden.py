"""Golden & baselines: a run beside golden ones, marked and unmarked, kept from ageing, and said where that can't be."""

from server.golden import FAILURE, GOLDEN, against, beside, kept, mark, shipped, unmark
from tests.pages.helpers import canonical, take, words
from ui.verdict import titles


def test_without_runs_it_says_so(shop, app):
    assert "No run yet" in words(app("golden"))


def test_a_run_is_compared_with_what_ships_which_is_said(shop, app):
    run = take(shop, canonical(600), "calm.log")
    test = app("golden", run=run)
    assert not test.exception
    text = words(test)
    assert "simulated golden runs that ship" in text
    assert "Nearest failures" in text
    assert "standard deviations" in text
    assert len(test.get("vega_lite_chart")) == 1


def test_what_is_marked_is_counted_in_words_that_agree_with_the_list(shop, app):
    run = take(shop, canonical(600), "calm.log")
    mark(shop.store, run, GOLDEN)
    text = words(app("golden", run=run))
    assert "1 run is marked as golden. From 10 of one kind on" in text
    assert "beside this one 0 runs of your own of its kind (pretraining) are marked; from 10 on" in text
    other = take(shop, canonical(620), "other.log")
    assert "beside this one 1 run of your own of its kind (pretraining) is marked" in words(app("golden", run=other))


def test_a_short_run_says_why_it_cannot_be_compared(shop, app):
    run = take(shop, canonical(40), "short.log")
    assert "are needed to compare it" in words(app("golden", run=run))


def test_marking_keeps_a_run_from_ageing_and_unmarking_lets_it(shop, app):
    run = take(shop, canonical(600), "calm.log")
    test = app("golden", run=run)
    test.button(key="mark").click().run()
    assert [case.run for case in kept(shop.store, GOLDEN)] == [run]
    assert shop.store.holds()[run] == ["golden run"]
    test.button(key="unmark").click().run()
    assert kept(shop.store, GOLDEN) == []
    assert run not in shop.store.holds()


def test_ten_of_ones_own_take_the_place_of_those_that_ship(shop):
    runs = [take(shop, canonical(600 + 2 * n), f"{n}.log") for n in range(11)]
    for run in runs[:10]:
        assert mark(shop.store, run, GOLDEN) is None
    own = beside(shop.store, runs[10])
    assert (own.own, own.marked) == (True, 10)
    assert not beside(shop.store, runs[0]).own
    unmark(shop.store, runs[0], GOLDEN)
    assert not beside(shop.store, runs[10]).own


def test_a_failure_that_was_kept_is_named_when_another_run_looks_like_it(shop):
    sick, other = (take(shop, canonical(600 + n, spike=300 + n), f"{n}.log") for n in (0, 20))
    assert mark(shop.store, sick, FAILURE, label="spike_unrecovered") is None
    found = beside(shop.store, other).found
    assert found.failures[0].case.run == sick
    assert found.failures[0].case.kind == "spike_unrecovered"
    shop.store.delete_run(sick)
    assert kept(shop.store, FAILURE) == []


def test_what_ships_is_of_two_kinds_of_training_and_marked_as_simulated():
    golden, failures = shipped()
    assert {case.profile for case in golden} == {"pretraining", "fine_tuning"}
    assert all(case.simulated for case in (*golden, *failures))
    assert {"divergence", "plateau", "spike", "non_finite"} <= {case.kind for case in failures}
    assert against(golden[0], [], []).found.count >= 10


def test_the_failure_that_was_chosen_is_kept_when_keep_is_clicked_at_once(shop, app):
    run = take(shop, canonical(600, spike=300, nan=450), "sick.log")
    shop.diagnosis(run)
    test = app("golden", {"keep": True}, run=run)
    wanted = test.selectbox(key="pattern").options[-1]
    test.selectbox(key="pattern").select_index(len(test.selectbox(key="pattern").options) - 1)
    test.button(key="do_keep").click().run()
    (case,) = kept(shop.store, FAILURE)
    assert not test.exception
    assert titles()[case.kind] == wanted
