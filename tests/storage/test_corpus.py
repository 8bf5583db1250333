"""Data check of a JSONL corpus: exact counts with line numbers, whatever the size, the encoding or the damage."""

import gzip
import json
from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from storage.reading.corpus import KINDS, blocks, check, lengths
from storage.types import UnreadableLog

GOOD = [json.dumps({"text": f"sample {n} " * (n % 7 + 1), "id": n}) for n in range(200)]
BAD = {
    10: ('{"text": "cut', "broken"),
    20: ('{"text": ""}', "empty"),
    21: ('{"text": " \\n\\t "}', "empty"),
    30: ('{"content": "elsewhere"}', "missing"),
    31: ('{"text": null}', "missing"),
    40: ('["text"]', "not_object"),
    50: ('{"text": 5}', "not_text"),
    60: ('{"text": "' + "x" * 9000 + '"}', "long"),
    70: (GOOD[3], "duplicate"),
}


def corpus() -> list[str]:
    return [BAD[n][0] if n in BAD else line for n, line in enumerate(GOOD, 1)]


def checked(lines: list[str], *, encoding="utf-8", end="\n", size=1 << 20, **given):
    data = (end.join(lines) + end).encode(encoding)
    return check([data[start : start + size] for start in range(0, len(data), size)], **given)


def found(report, kind: str) -> list[int]:
    return [problem.line for problem in report.problems if problem.kind == kind]


@pytest.mark.parametrize("size", [1, 7, 1000, 1 << 20])
def test_every_kind_of_bad_sample_is_counted_with_its_lines(size):
    report = checked(corpus(), size=size)
    wanted = Counter(kind for _text, kind in BAD.values())
    assert report.counts == {kind: wanted[kind] for kind in KINDS}
    for kind in wanted:
        assert found(report, kind) == [line for line, (_text, its) in BAD.items() if its == kind]
    assert (report.lines, report.records, report.blank) == (200, 200, 0)
    assert report.texts == 200 - 7
    details = {problem.line: problem.detail for problem in report.problems}
    assert (details[60], details[70]) == ("9000", "4")
    assert details[10].startswith("Unterminated string")


def test_lengths_are_those_of_the_characters():
    texts = ["训练" * 10, "é" * 30, "a" * 100]
    report = checked([json.dumps({"text": text}, ensure_ascii=False) for text in texts])
    assert (report.p50, report.longest, report.characters) == (30, 100, 150)
    assert sum(count for _first, _last, count in report.bars) == 3


@given(st.lists(st.integers(0, 200_000), min_size=1, max_size=60))
@settings(max_examples=60, deadline=None)
def test_quantiles_are_those_of_numpy(values):
    counted = lengths.Lengths()
    counted.add(np.array(values))
    for share in (0.5, 0.95, 0.99):
        exact = float(np.quantile(values, share, method="inverted_cdf"))
        assert abs(counted.quantile(share) - exact) <= 0.011 * exact
    bars = counted.bars()
    assert sum(count for _first, _last, count in bars) == len(values)
    assert [first for first, _last, _count in bars[1:]] == [last + 1 for _first, last, _count in bars[:-1]]


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "gb18030"])
@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_encodings_and_line_ends_make_no_difference(encoding, end):
    lines = [json.dumps({"text": f"大模型训练 {n} 数据体检"}, ensure_ascii=False) for n in range(50)]
    report = checked(lines, encoding=encoding, end=end)
    assert report.texts == 50
    assert report.counts["broken"] == report.counts["encoding"] == 0
    assert report.encoding == {"utf-8-sig": "utf-8", "utf-16": "utf-16-le"}.get(encoding, encoding)


def test_bytes_that_are_wrong_in_the_encoding_are_named():
    data = b"\n".join(
        [b'{"text": "caf\xc3\xa9"}', b'{"text": "caf\xc3"}', '{"text": "lost \ufffd"}'.encode(), b'{"text": "ok"}']
    )
    report = check([data])
    assert found(report, "encoding") == [2, 3]
    assert report.texts == 4


def test_a_packed_corpus_and_one_that_breaks_off():
    data = gzip.compress(("\n".join(GOOD) + "\n").encode())
    report = check([data])
    assert (report.compression, report.texts, report.damaged) == ("gzip", 200, False)
    assert check([data[:-200]]).damaged


def test_another_name_of_the_field_and_what_the_objects_have():
    lines = [json.dumps({"content": f"sample {n}", "a/b~c": "x"}) for n in range(20)]
    report = checked(lines)
    assert report.counts["missing"] == 20
    assert report.fields == ("content", "a/b~c")
    assert checked(lines, field="content").texts == 20
    assert checked(lines, field="a/b~c").texts == 20


def test_the_limit_can_be_set():
    lines = [json.dumps({"text": "x" * n}) for n in (10, 50, 51)]
    assert found(checked(lines, limit=50), "long") == [3]


def test_blank_lines_are_no_records():
    report = checked([GOOD[0], "", "  ", GOOD[1]])
    assert (report.lines, report.blank, report.records, report.texts) == (4, 2, 2, 2)


def test_without_a_line_end_at_the_end():
    assert check(["\n".join(GOOD).encode()]).lines == 200
    assert check([b'{"text": "one"}']).texts == 1


def test_a_document_that_is_not_one_object_a_line():
    report = check([json.dumps([{"text": "a"}, {"text": "b"}], indent=1).encode()])
    assert report.texts == 0
    assert report.counts["broken"] > 0


def test_a_line_without_an_end_is_let_go(monkeypatch):
    monkeypatch.setattr(blocks, "MAX_LINE_BYTES", 10_000)
    lines = [*GOOD[:5], '{"text": "' + "x" * 100_000 + '"}', *GOOD[5:10]]
    report = checked(lines, size=1000)
    assert found(report, "broken") == [6]
    assert (report.lines, report.texts) == (11, 10)


def test_of_very_many_texts_a_share_is_compared(monkeypatch):
    monkeypatch.setattr(lengths, "MAX_HASHES", 1000)
    lines = [json.dumps({"text": f"sample {n % 5000}"}) for n in range(10_000)]
    report = checked(lines)
    assert report.duplicates_of > 1
    assert abs(report.counts["duplicate"] - 5000) < 1500
    again = [problem for problem in report.problems if problem.kind == "duplicate"]
    assert all(problem.line == int(problem.detail) + 5000 for problem in again)


def test_problems_are_kept_up_to_a_bound(monkeypatch):
    monkeypatch.setattr("storage.reading.corpus.judge.KEPT", 10)
    report = checked(['{"text": ""}'] * 500 + ["nonsense"] * 500)
    assert (report.counts["empty"], report.counts["broken"]) == (500, 500)
    assert len(report.problems) == 20


@pytest.mark.parametrize("data", [b"", b"\x89PNG\r\n\x1a\n" + bytes(range(256)) * 8, bytes(4096)])
def test_what_is_no_text_is_refused(data):
    with pytest.raises(UnreadableLog):
        check([data])


@given(st.binary(max_size=400))
@settings(max_examples=80, deadline=None)
def test_any_bytes_are_checked_or_refused(data):
    try:
        report = check([data])
    except UnreadableLog:
        return
    assert report.records + report.blank == report.lines


@given(st.lists(st.text(st.characters(exclude_categories=["Cs"])), min_size=1, max_size=30), st.integers(1, 50))
@settings(max_examples=60, deadline=None)
def test_every_text_is_counted_as_it_is(texts, size):
    data = "".join(json.dumps({"text": text}, ensure_ascii=False) + "\n" for text in texts).encode()
    report = check([data[start : start + size] for start in range(0, len(data), size)])
    assert report.counts["broken"] == 0
    assert report.records == len(texts)
    assert report.texts + report.counts["empty"] == len(texts)
    assert report.longest == max((len(text) for text in texts if text.strip(" \t\n\r\f")), default=0)


def test_deep_and_hostile_json_is_judged():
    deep = '{"text": ' + "[" * 50_000 + "]" * 50_000 + "}"
    report = checked([deep, "[" * 50_000, '{"text": "a", "text": "b"}', '{"text": "\\ud800"}', GOOD[0]])
    assert report.counts["not_text"] == 1
    assert found(report, "broken") == [2, 4]
    assert report.texts == 2
