"""Upload: each bad input has a clear sentence and leaves the store as it was; a good one leads to its run."""

import io
from pathlib import Path

import pytest

from tests.pages.helpers import canonical, take, words
from ui import upload
from ui.text import say

ROOT = Path(__file__).parents[2]
PNG = b"\x89PNG\r\n\x1a\n" + bytes(range(256)) * 8


def bring(name: str, content: bytes) -> upload.Outcome:
    return upload.bring_in(name, io.BytesIO(content), lambda _share: None)


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("empty.log", b""),
        ("binary.bin", bytes(range(256)) * 64),
        ("picture.log", PNG),
        ("prose.txt", b"Dear diary, nothing was trained today.\n" * 20),
        ("blank.log", b"\n\n   \n"),
    ],
)
def test_bad_input_is_refused_in_words_and_nothing_is_stored(shop, app, name, content):
    outcome = bring(name, content)
    assert outcome.run_id is None
    assert len(say(outcome.sentences[0])) > 20
    assert shop.store.runs() == []


def test_an_upload_above_the_limit_is_refused(shop, monkeypatch):
    monkeypatch.setattr(type(shop.settings), "max_upload_mib", 0, raising=False)
    object.__setattr__(shop.settings, "max_upload_mib", 0)
    outcome = bring("large.log", canonical().encode())
    assert outcome.run_id is None
    assert "limit" in say(outcome.sentences[0])
    assert shop.store.runs() == []


def test_a_cut_last_line_is_named_and_the_rest_kept(shop):
    outcome = bring("cut.log", canonical(100).encode()[:-60])
    assert outcome.run_id is not None
    told = " ".join(map(say, outcome.sentences))
    assert "lines 100, training steps among them 99" in told
    assert "line 100" in told


def test_what_is_to_be_minded_about_a_file_is_said_where_it_is_brought_in(shop):
    rows = "".join(f"{step},{3 - step / 100:.3f},{2 - step / 100:.3f}\n" for step in range(60))
    outcome = bring("export.csv", b"Step,red-1 - loss,blue-2 - loss\n" + rows.encode())
    assert outcome.clean
    assert "2 runs side by side (red-1, blue-2)" in " ".join(map(say, outcome.sentences))


def test_the_same_file_twice_is_recognised(shop):
    first, second = bring("a.log", canonical().encode()), bring("b.log", canonical().encode())
    assert second.known
    assert second.run_id == first.run_id
    assert len(shop.store.runs()) == 1
    shop.store.rename_run(first.run_id, "renamed <b>.log")
    assert "the run “renamed <b>.log”" in say(bring("c.log", canonical().encode()).sentences[0])


def test_what_became_of_a_file_leads_to_its_run_as_long_as_there_is_one(shop, app):
    bring("a.log", canonical().encode())
    again = bring("b.log", canonical().encode())
    shop.store.rename_run(again.run_id, "re*named*.log")
    test = app("upload", {"outcomes": [again]})
    (link,) = [one.proto for one in test.get("page_link") if one.proto.query_string]
    assert link.label == "Run health\\: re\\*named\\*\\.log"
    assert link.query_string == f"run={again.run_id}"
    shop.store.delete_run(again.run_id)
    assert not [one for one in test.run().get("page_link") if one.proto.query_string]


def test_an_error_nobody_thought_of_is_a_sentence(shop, monkeypatch):
    def fails(*_args, **_named):
        raise OSError("disk full")

    monkeypatch.setattr(type(shop), "ingest_upload", fails)
    outcome = bring("a.log", b"x")
    assert outcome.run_id is None
    assert "OSError" in say(outcome.sentences[0])


def test_a_sample_needs_no_upload(shop, app):
    test = app("upload")
    sample = sorted((ROOT / "samples").glob("*.log"))[0].stem
    test.button(key=f"sample-{sample}").click().run()
    assert not test.exception
    assert len(shop.store.runs()) == 1


def test_a_dropped_file_is_stored(shop, app):
    test = app("upload")
    test.file_uploader[0].upload("a.log", canonical().encode(), "text/plain").run()
    assert not test.exception
    assert [run.name for run in shop.store.runs()] == ["a.log"]


def test_what_became_of_a_file_stays_readable(shop, app):
    take(shop, canonical(), "a.log")
    test = app("upload")
    test.session_state["outcomes"] = [bring("<b>.log", b""), bring("a.log", canonical().encode())]
    test.run()
    assert not test.exception
    assert "Not read" in words(test)
    assert "Already here" in words(test)
    assert "<b>" not in words(test)
