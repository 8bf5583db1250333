"""What people add to the runs stays, belongs to its run, and goes with it."""

import pytest

from storage.keeping.kept import MAX_BYTES
from storage.store import Store, UnknownRun


@pytest.fixture
def store(tmp_path):
    with Store(tmp_path) as opened:
        yield opened


def test_a_document_replaces_the_one_of_its_name_and_is_there_after_opening_again(tmp_path):
    with Store(tmp_path) as store:
        run = store.create_run("a")
        store.keep("tag", "colour", {"word": "蓝"}, run=run, who="me")
        store.keep("tag", "colour", {"word": "red"}, run=run, who="you")
        store.keep("view", "mine", ["x"])
    with Store(tmp_path) as store:
        (found,) = store.kept("tag")
        assert (found.run, found.name, found.data, found.who) == (run, "colour", {"word": "red"}, "you")
        assert [document.data for document in store.kept("view", "")] == [["x"]]
        store.drop("tag", "colour", run=run)
        assert store.kept("tag", run) == []


def test_documents_go_when_their_run_is_purged(store):
    run, other = store.create_run("a"), store.create_run("b")
    for each in (run, other):
        store.keep("tag", "t", 1, run=each)
    store.delete_run(run)
    store.purge(deleted_days=0)
    assert [document.run for document in store.kept("tag")] == [other]


def test_hostile_documents(store):
    with pytest.raises(UnknownRun):
        store.keep("tag", "t", 1, run="'; drop table runs")
    with pytest.raises(ValueError, match="not kept"):
        store.keep("view", "large", "x" * (MAX_BYTES + 1))
    store.keep("view", "'; --\ud800", {"sur\ud800rogate": "\x00"})
    assert len(store.kept("view")) == 1
