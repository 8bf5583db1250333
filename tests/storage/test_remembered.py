"""Small answers from memory are never older than what was committed."""

import threading
from datetime import UTC, datetime

import pytest

from storage.keeping.outbox import Alert
from storage.keeping.remembered import MAX_ANSWERS, Remembered
from storage.keeping.sources import Source
from storage.store import Store, UnknownRun
from tests.storage.test_store import batch


def test_an_answer_is_made_once_and_anew_after_a_commit():
    memory, made = Remembered(), []
    ask = lambda: memory.get(("x",), lambda: made.append(1) or len(made))  # noqa: E731
    assert [ask(), ask()] == [1, 1]
    with memory.commit():
        assert ask() == 2  # what is committed may be seen before the commit returns: nothing is told from memory
    assert ask() == 3


def test_an_answer_of_before_a_commit_is_not_kept_after_it():
    memory = Remembered()

    def slow():
        with memory.commit():  # another thread commits while this one looks
            pass
        return "old"

    assert memory.get(("x",), slow) == "old"
    assert memory.get(("x",), lambda: "new") == "new"


def test_a_commit_that_is_about_something_leaves_the_other_answers():
    memory = Remembered()
    for about in ("run", "kept"):
        memory.get((about, 1), lambda: "before")
    with memory.commit({"run"}):
        assert memory.get(("kept", 1), lambda: "looked at") == "looked at"  # while it lasts nothing is told from memory
    assert [memory.get((about, 1), lambda: "after") for about in ("run", "kept")] == ["after", "before"]


CHANGES = {
    "a diagnosis": lambda store, run: store.save_diagnosis(run, "robust", 3, {"verdict": "sick"}),
    "rows": lambda store, run: append(store, run),
    "rows in the place of others": lambda store, run: append(store, run, replace=True),
    "a document": lambda store, run: store.keep("tag", "b", 1, run=run),
    "a document less": lambda store, run: store.drop("tag", "a", run=run),
    "an alert": lambda store, run: store.outbox.add([(Alert("b", run, {}, datetime.now(UTC)), ["mail"])]),
    "a name": lambda store, run: store.rename_run(run, "other"),
    "a place": lambda store, run: store.note_source(Source(run, 0, None, "claim", "/a.log", rank=4)),
    "deleted": lambda store, run: store.delete_run(run),
    "purged": lambda store, run: (store.delete_run(run), store.purge(deleted_days=0)),
}


def append(store: Store, run: str, *, replace: bool = False) -> None:
    with store.writer(run, replace=replace) as writer:
        writer.append(batch(range(3, 5), loss=[2.0] * 2))
        writer.commit()


def everything(store: Store, run: str) -> dict[str, object]:
    """Return all that is remembered, as it is told."""
    asked = {
        "run": lambda: store.run(run),
        "version": lambda: store.version(run),
        "newest": store.version,
        "lanes": lambda: store.lanes(run),
        "judged": store.judged,
        "tags": lambda: [each.name for each in store.kept("tag")],
        "alerts": lambda: [alert.id for alert in store.outbox.alerts(run)],
    }
    told: dict[str, object] = {}
    for name, ask in asked.items():
        try:
            told[name] = ask()
        except UnknownRun:
            told[name] = None
    return told


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_after_any_change_what_is_told_from_memory_is_what_is_stored(change, tmp_path):
    with Store(tmp_path) as store:
        run = store.create_run("one")
        append(store, run)
        store.save_diagnosis(run, "robust", 1, {"verdict": "healthy"})
        store.keep("tag", "a", 1, run=run)
        store.outbox.add([(Alert("a", run, {}, datetime.now(UTC)), [])])
        before = everything(store, run)
        change(store, run)
        told = everything(store, run)
        assert told != before
    with Store(tmp_path) as store:
        assert told == everything(store, run)


def test_the_oldest_answers_go():
    memory = Remembered()
    for number in range(MAX_ANSWERS + 1):
        memory.get((number,), lambda: "kept")
    assert memory.get((0,), lambda: "made anew") == "made anew"
    assert memory.get((MAX_ANSWERS,), lambda: "made anew") == "kept"


def test_an_error_is_no_answer():
    memory = Remembered()
    with pytest.raises(ValueError, match="not now"):
        memory.get(("x",), lambda: (_ for _ in ()).throw(ValueError("not now")))
    assert memory.get(("x",), lambda: 1) == 1


def test_every_change_is_seen_at_once(tmp_path):
    with Store(tmp_path) as store:
        run = store.create_run("one")
        assert (store.run(run).name, store.kept("tag"), store.judged()) == ("one", [], {})
        before = store.version(run), store.version()
        with store.writer(run) as writer:
            writer.append(batch(range(3), loss=[1.0] * 3))
            writer.commit()
            assert store.run(run).rows == 3  # at once, not when the writer has gone
        assert store.version(run) > before[0]
        assert store.version() > before[1]
        assert len(store.lanes(run)) == 1
        store.rename_run(run, "two")
        store.keep("tag", "a", {}, run=run)
        store.save_diagnosis(run, "robust", store.version(run), {})
        assert store.run(run).name == "two"
        assert [one.name for one in store.kept("tag", run)] == ["a"]
        assert store.judged("robust", [run]) == {run: store.version(run)}
        store.delete_run(run)
        with pytest.raises(UnknownRun):
            store.run(run)


def test_what_is_changed_by_the_one_who_asked_stays_his(tmp_path):
    with Store(tmp_path) as store:
        store.keep("tag", "a", {})
        store.kept("tag").clear()
        assert len(store.kept("tag")) == 1


def test_readers_beside_a_writer_never_see_a_version_fall(tmp_path):
    with Store(tmp_path) as store:
        run, seen, over = store.create_run("one"), [], threading.Event()

        def look():
            mine = []
            while not over.is_set():
                mine.append((store.version(run), store.run(run).rows))
            seen.append(mine)

        readers = [threading.Thread(target=look) for _ in range(3)]
        for reader in readers:
            reader.start()
        for number in range(60):
            with store.writer(run) as writer:
                writer.append(batch(range(2 * number, 2 * number + 2), loss=[1.0] * 2))
                writer.commit()
            assert store.run(run).rows == 2 * number + 2
        over.set()
        for reader in readers:
            reader.join()
        assert all(mine == sorted(mine) for mine in seen)
