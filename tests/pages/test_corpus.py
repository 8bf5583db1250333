"""Data check: what a corpus is like in one sentence, its figures, every bad line, and the same as CSV and from the URL."""

import json

import pytest

from storage.reading.corpus import check
from tests.pages.helpers import words
from tests.ui.test_charts import compiled
from ui import corpus

GOOD = [json.dumps({"text": f"sample {n} " * 20}) for n in range(300)]
BAD = ['{"text": "cut', '{"text": ""}', '{"content": "x"}', '{"text": "' + "y" * 9000 + '"}', GOOD[0]]


def file(tmp_path, lines, name="data.jsonl"):
    path = tmp_path / name
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return str(path)


def on_server(app, path, **bound):
    return app("corpus", {"corpus_path": path, **bound})


def test_without_a_file_it_says_what_it_looks_at(shop, app):
    text = words(app("corpus"))
    assert "Field missing" in text
    assert "data-check" in text


def test_a_sound_corpus_is_called_so(shop, app, tmp_path):
    text = words(on_server(app, file(tmp_path, GOOD)))
    assert "Sound" in text
    assert "300 lines: all hold a text" in text


def test_bad_lines_are_counted_with_their_numbers(shop, app, tmp_path):
    test = on_server(app, file(tmp_path, GOOD + BAD))
    text = words(test)
    assert "3 lines are of no use as they are, of 305." in text
    table = test.dataframe[0].value
    assert table["Line"].tolist() == [301, 302, 303, 304, 305]
    assert table["Detail"].tolist()[-2:] == ["9,000 characters", "as line 1"]
    assert len(test.get("vega_lite_chart")) == 1


def test_the_field_and_the_limit_can_be_set(shop, app, tmp_path):
    path = file(tmp_path, [json.dumps({"content": "x" * n}) for n in range(1, 100)])
    assert "These fields" in words(on_server(app, path)).replace("these fields", "These fields")
    text = words(on_server(app, path, field="content", limit=90))
    assert "9 want a look" in text


def test_an_upload_is_checked_at_once(shop, app):
    test = app("corpus")
    test.file_uploader(key="corpus_file").upload("up.jsonl", "\n".join(GOOD + BAD).encode(), "text/plain").run()
    assert not test.exception
    assert "Faulty" in words(test)
    assert shop.store.runs() == []


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (b"", "The file is empty"),
        (b"\x89PNG\r\n\x1a\n" + bytes(range(256)) * 8, "PNG"),
        (b'[\n{"text": "a"},\n{}\n]\n', "jq -c"),
    ],
)
def test_what_is_no_corpus_is_explained(shop, app, tmp_path, content, sentence):
    path = tmp_path / "odd.jsonl"
    path.write_bytes(content)
    test = on_server(app, str(path))
    assert not test.exception
    assert sentence in words(test)


def test_a_file_that_is_not_there_is_said(shop, app):
    assert "There is no file /no/such.jsonl" in words(on_server(app, "/no/such.jsonl"))


def test_texts_of_the_corpus_are_only_text(shop, app, tmp_path):
    test = on_server(app, file(tmp_path, ["<script>alert(1)</script>", '{"<b>": 1}'] * 5))
    assert "<script>" not in words(test)
    assert "<b>" not in words(test)


def test_the_csv_has_every_line_and_no_formula():
    report = check([b'=cmd()\n{"text": ""}\n'])
    rows = corpus.to_csv(report.problems).decode("utf-8-sig").splitlines()
    assert rows[0] == "line,problem,detail,begins_with"
    assert rows[1].startswith("1,broken,")
    assert rows[1].endswith("'=cmd()")
    assert rows[2].startswith("2,empty,")


def test_the_histogram_draws(monkeypatch):
    report = check(["\n".join(GOOD + BAD).encode()])
    spec = corpus.chart(report)
    data = {name: type("T", (), {"to_pandas": lambda self, frame=frame: frame})() for name, frame in spec["datasets"].items()}
    svg = compiled({**spec, "width": 600, "datasets": data}, "light")
    assert "limit" in svg
    assert svg.count("mark-rect") >= 1
