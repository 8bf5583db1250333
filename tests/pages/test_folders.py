"""Watched folders: a preview before anything is read, then the state of each folder and its files, in words."""

from dataclasses import replace

import pytest

from storage.intake.watch import Watcher
from storage.keeping.sources import Watched
from tests.pages.helpers import canonical, take, words
from ui import folders


@pytest.fixture
def logs(tmp_path):
    """A folder with a run of one file, a run of two ranks, and a file that is no log."""
    folder = tmp_path / "logs"
    (folder / "ddp").mkdir(parents=True)
    (folder / "train.log").write_text(canonical())
    for rank in range(2):
        (folder / "ddp" / f"rank_{rank}.log").write_text(canonical(200 + rank))
    (folder / "notes.md").write_text("nothing")
    return folder


def watched(shop, logs, **settings) -> Watched:
    one = Watched(str(logs), **settings)
    shop.store.watch(one)
    shop.watcher = Watcher(shop.store)
    shop.watcher.drain()
    return one


def test_without_a_folder_the_page_teaches_and_has_the_form(shop, app):
    test = app("folders")
    text = words(test)
    assert "Every log there becomes a run" in text
    assert "/api/v1/ingest/" in test.code[0].value
    assert test.text_input(key="form_folder").value == ""
    assert test.button[-1].disabled


def test_the_preview_of_an_empty_folder_says_that_it_is_empty(shop, app, tmp_path):
    (tmp_path / "empty").mkdir()
    test = app("folders")
    test.text_input(key="form_folder").set_value(str(tmp_path / "empty")).run()
    assert "The folder holds no file yet" in words(test)


def test_the_preview_says_what_would_come_before_anything_is_read(shop, app, logs):
    test = app("folders")
    test.text_input(key="form_folder").set_value(str(logs)).run()
    assert "3 files would be 2 runs. 1 other file is left alone." in words(test)
    table = test.dataframe[0].value
    assert sorted(table["File"]) == ["ddp/rank_0.log", "ddp/rank_1.log", "train.log"]
    assert set(table["Run"]) == {"ddp", "train.log"}
    assert shop.store.runs() == []
    assert shop.store.watched() == []


def test_a_folder_is_saved_with_its_globs_and_its_rule(shop, app, logs):
    test = app("folders")
    test.text_input(key="form_folder").set_value(f" {logs}/ ")
    test.text_input(key="form_include").set_value("*.log")
    test.selectbox(key="form_rule").select("own").run()
    test.text_input(key="form_pattern").set_value(r"(?P<run>\w+)/")
    test.button[-1].click().run()
    assert not test.exception
    assert shop.store.watched() == [Watched(str(logs), ("*.log",), (), r"(?P<run>\w+)/")]


@pytest.mark.parametrize(
    ("path", "pattern", "sentence"),
    [
        ("logs", None, "Give the whole path"),
        ("/no/such/folder", None, "is not there"),
        (None, "(", "no regular expression"),
        (None, "(?P<what>x)", "It can have the groups run, rank and host"),
    ],
)
def test_what_can_not_be_watched_is_said(shop, app, logs, path, pattern, sentence):
    test = app("folders")
    test.text_input(key="form_folder").set_value(path or str(logs)).run()
    if pattern:
        test.selectbox(key="form_rule").select("own").run()
        test.text_input(key="form_pattern").set_value(pattern).run()
    assert not test.exception
    assert sentence in words(test)


def test_a_watched_folder_shows_its_state_and_how_far_each_file_was_read(shop, app, logs):
    watched(shop, logs)
    test = app("folders")
    text = words(test)
    assert "Watched" in text
    assert "3 logs" in text
    assert "all read" in text
    table = test.dataframe[0].value
    assert sorted(table["run"]) == ["ddp", "ddp", "train.log"]
    assert all(cell.endswith("(100%)") for cell in table["read"])


def test_problems_are_sentences(shop, app, logs):
    (logs / "again.log").symlink_to(logs / "train.log")
    watched(shop, logs)
    text = words(app("folders"))
    assert "is the same file as" in text
    assert "with gaps" in text


def test_a_folder_that_is_gone_says_so(shop, app, tmp_path):
    (tmp_path / "gone").mkdir()
    one = watched(shop, tmp_path / "gone")
    (tmp_path / "gone").rmdir()
    shop.watcher.poll()
    text = words(app("folders"))
    assert "Not read" in text
    assert f"The folder {one.folder} is not there" in text


def test_pause_and_remove_can_be_undone(shop, app, logs):
    one = watched(shop, logs)
    test = app("folders")
    test.button(key="pause-0").click().run()
    assert shop.store.watched() == [replace(one, paused=True)]
    assert "Paused" in words(test)
    test.button(key="pause-0").click().run()
    test.button(key="remove-0").click().run()
    assert shop.store.watched() == []
    assert "is watched no more; its runs stay" in words(test)
    next(button for button in test.button if button.label == "Undo").click().run()
    assert shop.store.watched() == [one]
    assert len(shop.store.runs()) == 2


def test_a_folder_is_edited_in_place(shop, app, logs):
    watched(shop, logs, exclude=("old*",))
    test = app("folders")
    test.button(key="edit-0").click().run()
    assert test.text_input(key="form_exclude").value == "old*"
    test.text_input(key="form_exclude").set_value("").run()
    next(button for button in test.button if button.label == "Save").click().run()
    assert shop.store.watched() == [Watched(str(logs))]


def test_a_read_only_store_offers_nothing_to_change(shop, app, logs):
    watched(shop, logs)
    object.__setattr__(shop.settings, "read_only", True)
    test = app("folders")
    assert not test.exception
    assert [button.label for button in test.button] == []


def test_names_of_files_are_text(shop, app, logs):
    (logs / "<script>alert(1).log").write_text(canonical(120))
    watched(shop, logs)
    assert "<script>" not in words(app("folders"))


def test_a_folder_of_the_environment_is_shown_and_fixed(shop, app, logs):
    shop.watcher = Watcher(shop.store, [Watched(str(logs))])
    shop.watcher.drain()
    test = app("folders")
    assert "RUNVITALS_WATCH" in words(test)
    assert [button.label for button in test.button] == ["Add a folder"]


def test_a_file_that_is_gone_is_called_gone(shop, logs):
    watched(shop, logs)
    (logs / "train.log").unlink()
    table = folders.followed([str(logs)])[str(logs)]
    assert table.loc[table["file"] == "train.log", "read"].tolist() == ["gone"]


def test_uploaded_runs_are_in_no_folder(shop, logs):
    take(shop, canonical(150), "upload.log")
    assert folders.followed([str(logs)])[str(logs)].empty
