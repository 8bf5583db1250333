"""Overview: the worst first, found by name and setting, grouped, tagged, renamed, deleted and brought back."""

import pytest

from server import tags as kept_tags
from tests.pages.helpers import canonical, take, words
from ui import listing, search, tags


def judged(shop, text: str, name: str) -> str:
    """Bring a log in and judge it, as the monitor of a server does."""
    run = take(shop, text, name)
    shop.diagnosis(run)
    return run


def shown(test) -> list[str]:
    return test.dataframe[0].value["name"].tolist()


def test_what_needs_attention_stands_first(shop, app):
    judged(shop, canonical(1000, spike=400), "jump.log")
    judged(shop, canonical(600), "calm.log")
    table = app("overview").dataframe[0].value
    assert table["name"].tolist() == ["jump.log", "calm.log"]
    assert list(table["verdict"].tolist()[0]) == ["✖ Sick"]
    assert table["steps"].tolist() == [10000, 6000]


def test_the_page_judges_nothing_itself(shop, app, monkeypatch):
    for rows in (600, 610):
        take(shop, canonical(rows), f"{rows}.log")
    monkeypatch.setattr(type(shop), "diagnosis", lambda *_: pytest.fail("a list must not wait for a diagnosis"))
    verdicts = app("overview").dataframe[0].value["verdict"].tolist()
    assert list(map(list, verdicts)) == [["– Not judged"]] * 2  # no monitor runs here
    shop.monitor = object()
    assert listing.look_of(shop.board.lines()[0].verdict).word == "Being checked"
    shop.monitor = None


def test_older_verdicts_are_shown_as_such(shop):
    run = judged(shop, canonical(600), "calm.log")
    shop.store.rename_run(run, "other.log")
    (line,) = shop.board.lines()
    assert (line.verdict, line.stale, line.run.name) == ("healthy", True, "other.log")
    assert shop.board.unjudged() == [run]
    shop.diagnosis(run)
    assert not shop.board.lines()[0].stale


def test_a_search_keeps_what_has_all_words(shop, app):
    for name in ("llama base.log", "llama tiny.log", "other.log"):
        take(shop, canonical() + f"# {name}\n", name)
    assert shown(app("overview", {"q": "LLAMA tiny"})) == ["llama tiny.log"]
    assert "No run is like that" in words(app("overview", {"q": "nothing"}))


def test_settings_values_verdicts_and_tags_are_found(shop):
    for rate in ("5e-4", "1e-3"):
        run = judged(shop, f"Namespace(lr={rate}, batch_size=16)\n{canonical()}", f"lr {rate}.log")
        shop.store.keep(kept_tags.KIND, f"t{rate}", True, run=run)
    lines, given = shop.board.lines(), tags.by_run()

    def names(text: str) -> list[str]:
        return [line.run.name for line in search.found(lines, text, given)]

    assert names("lr=0.0005") == names("lr=5e-4") == names("tag:T5e-4") == ["lr 5e-4.log"]
    assert names("lr>6e-4") == ["lr 1e-3.log"]
    assert len(names("loss<9")) == len(names("is:healthy batch_size=16")) == 2
    assert names("is:sick") == names("seed=3") == names("lr=") == names("loss>nan") == []


def test_a_term_takes_the_place_of_one_of_its_key():
    term = search.Term("project", ":", "a b")
    assert search.with_term("x is:sick project:old", term) == 'x is:sick project:"a b"'
    assert search.value_of('project:"a b"', "project") == "a b"
    assert search.with_term('x project:"a b"', search.Term("project", ":", "")) == "x"


def test_groups_have_mean_and_range(shop, app):
    for number, rate in enumerate(("5e-4", "5e-4", "1e-3")):
        judged(shop, f"Namespace(lr={rate}, seed={number})\n{canonical(300 + number)}", f"{number}.log")
    table = app("overview", {"group_picker": "lr"}).dataframe[0].value
    assert table[["value", "runs"]].to_numpy().tolist() == [["0.0005", 2], ["0.001", 1]]
    assert (table["low"] <= table["mean"]).all()
    assert (table["mean"] <= table["high"]).all()
    assert table["low"][0] < table["high"][0]


def test_a_view_is_saved_and_opened(shop, app):
    take(shop, canonical(), "a.log")
    test = app("overview", {"q": "is:pending", "views": True})
    test.text_input(key="view_name").set_value("mine")
    test.button(key="save_view").click().run()
    test.button(key="save_view").click().run()
    assert "name first" in test.toast[0].value
    assert [(one.name, one.data["q"]) for one in shop.store.kept("view")] == [("mine", "is:pending")]
    test = app("overview", {"views": True})
    test.button(key="view-own-mine").click().run()
    assert test.text_input(key="q").value == "is:pending"
    assert not test.exception


def test_a_deleted_run_can_be_brought_back(shop, app):
    run = take(shop, canonical(), "a.log")
    shop.store.delete_run(run)
    test = app("overview")
    test.session_state["deleted"] = [[(run, "<a>.log")]]
    test.run()
    assert "Deleted: &lt;a&gt;.log" in words(test)
    test.button[-1].click().run()
    assert [one.id for one in shop.store.runs()] == [run]


def test_ticks_stay_with_their_runs_whatever_the_order(shop, app):
    runs = {name: take(shop, canonical(rows), name) for name, rows in (("a.log", 60), ("b.log", 70))}
    test = app("overview")
    test.session_state["ticked"] = [runs["b.log"]]
    for change in (lambda: take(shop, canonical(80), "c.log"), lambda: shop.store.delete_run(runs["a.log"])):
        change()  # lines move
        test.run()
        assert [one.value for one in test.text_input if str(one.key).startswith("rename-table")] == ["b.log"]


def test_after_a_delete_nothing_is_ticked_and_each_can_be_undone(shop, app):
    runs = [take(shop, canonical(rows), f"{rows}.log") for rows in (60, 70, 80)]
    test = app("overview")
    for run, more in zip(runs[:2], (90, 100), strict=True):
        test.session_state["ticked"] = [run]
        take(shop, canonical(more), f"{more}.log")  # lines move
        test.run()
        test.button(key="do-delete-table").click().run()
        assert "tick lines to compare" in words(test)
    for left in (4, 5):
        next(button for button in test.button if button.label == "Undo").click().run()
        assert len(shop.store.runs()) == left
    assert not [button for button in test.button if button.label == "Undo"]


def test_cards_link_to_the_health_of_their_run(shop, app):
    run = take(shop, canonical(), "a.log")
    assert f'href="health?run={run}"' in words(app("overview"))


def test_a_spark_has_only_numbers(shop):
    take(shop, canonical(300, nan=150), "nan.log")
    (curve,) = listing.table(shop.board.lines(), {})["curve"].to_pylist()
    assert len(curve) > 10
    assert all(value == value for value in curve)


def test_on_a_phone_a_run_is_renamed_and_deleted_too(shop, app):
    run = take(shop, canonical(), "a.log")
    test = app("overview", {"manage_box": True})
    test.text_input(key=f"rename-phone-{run}").set_value("b.log")
    test.button(key="do-rename-phone").click().run()
    assert shop.store.run(run).name == "b.log"
    test.button(key="do-delete-phone").click().run()
    assert shop.store.runs() == []
    assert not test.exception


def test_only_what_is_followed_grows(shop, tmp_path):
    from storage.intake.watch import Watcher
    from storage.keeping.sources import Watched
    from ui import state

    uploaded = take(shop, canonical(100, plan=5000), "up.log")
    assert not state.growing([shop.store.run(uploaded)])
    (tmp_path / "logs").mkdir()
    (tmp_path / "logs" / "live.log").write_text(canonical(80, plan=4000))
    shop.watcher = Watcher(shop.store, [Watched(str(tmp_path / "logs"))])
    shop.watcher.drain()
    live = next(run for run in shop.store.runs() if run.name == "live.log")
    assert state.growing([live, shop.store.run(uploaded)]) == {live.id}


@pytest.mark.parametrize(
    ("lang", "told"),
    [("en", ["Parameters 5M · foo 2", "Parameters 63.9M · foo 1"]), ("zh_CN", ["参数量 5M · foo 2", "参数量 63.9M · foo 1"])],
)
def test_what_differs_is_told_under_names_that_all_logs_share(shop, app, lang, told):
    for size, foo in (("63910000", 1), ("5000000", 2)):
        judged(shop, f"Namespace(model_params={size}, foo={foo}, batch_size=8)\n" + canonical(600 + foo), f"{size}.log")
    table = app("overview", lang=lang).dataframe[0].value
    assert sorted(table["differs"]) == told
