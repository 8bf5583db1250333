"""The contract that every file of formats/ must keep."""

import math
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from storage.reader import LogReader
from storage.reading import formats
from storage.types import ParseReport

EVERY = formats.load()
SAMPLES = [(name, i, sample) for name, found in EVERY.items() for i, sample in enumerate(found.samples)]
REJECTS = [(name, i, reject) for name, found in EVERY.items() for i, reject in enumerate(found.rejects)]
KINDS = {"train", "eval", "telemetry", "summary", "more", "ignore"}


def read(text: str, format_name: str | None = None) -> tuple[list[dict[str, Any]], ParseReport]:
    """Return the rows of whole lines as dicts, and the report."""
    reader = LogReader("sample", format_name=format_name)
    batches = reader.feed(text.rstrip("\n").encode() + b"\n") + reader.finish()
    return [row for batch in batches for row in batch.rows.to_pylist()], reader.report()


def same(wanted: Any, got: Any) -> bool:
    if isinstance(wanted, float | int) and isinstance(got, float | int):
        return wanted == got or math.isclose(wanted, got, rel_tol=1e-15) or (wanted != wanted and got != got)
    return wanted == got


@pytest.mark.parametrize("name", EVERY)
def test_a_format_says_what_it_is_and_where_it_is_seen(name: str) -> None:
    assert EVERY[name].title
    assert EVERY[name].seen
    assert {form.kind for form in EVERY[name].forms} <= KINDS


@pytest.mark.parametrize("name", [name for name, found in EVERY.items() if found.kind in ("lines", "pairs")])
def test_a_text_format_proves_itself(name: str) -> None:
    assert EVERY[name].samples
    assert EVERY[name].rejects


@pytest.mark.parametrize(("name", "number", "sample"), SAMPLES, ids=[f"{n}-{i}" for n, i, _ in SAMPLES])
@pytest.mark.parametrize("forced", [False, True], ids=["guessed", "named"])
def test_a_sample_gives_the_rows_it_promises(name: str, number: int, sample: dict[str, Any], forced: bool) -> None:
    rows, report = read(sample["text"], name if forced else None)
    assert [row["kind"] for row in rows] == [wanted["kind"] for wanted in sample["rows"]]
    for row, wanted in zip(rows, sample["rows"], strict=True):
        wrong = {key: (value, row.get(key)) for key, value in wanted.items() if not same(value, row.get(key))}
        assert not wrong
    assert report.unparsed_count == 0
    assert report.records == sum(wanted["kind"] == "train" for wanted in sample["rows"])


@pytest.mark.parametrize(("name", "number", "sample"), SAMPLES, ids=[f"{n}-{i}" for n, i, _ in SAMPLES])
def test_no_other_format_claims_a_sample(name: str, number: int, sample: dict[str, Any]) -> None:
    _, report = read(sample["text"])
    assert report.format == name


@pytest.mark.parametrize(("name", "number", "reject"), REJECTS, ids=[f"{n}-{i}" for n, i, _ in REJECTS])
def test_a_reject_gives_no_row(name: str, number: int, reject: dict[str, Any]) -> None:
    rows, report = read(reject["text"])
    assert rows == []
    assert report.unparsed_count == reject.get("unparsed", report.unparsed_count)


@pytest.mark.parametrize("name", formats.shipped())
def test_every_pattern_that_comes_with_the_product_can_be_used(name: str) -> None:
    found = formats.shipped()[name]
    assert formats.parse(name, found.source).forms == found.forms  # which tries each pattern, as it does with those of a team


def test_a_wrong_format_file_is_named_with_its_fault() -> None:
    with pytest.raises(formats.BadFormat, match="formats/mine.toml"):
        formats.parse("mine", "title = 'x'\n[[line]]\npattern = '('\n")
    with pytest.raises(formats.BadFormat, match="title"):
        formats.parse("mine", "seen = []")
    with pytest.raises(formats.BadFormat, match="No format is called"):
        LogReader(format_name="nothing-like-it")


@pytest.mark.parametrize("name", EVERY)
def test_the_prefilter_lets_every_line_of_a_format_pass(name: str) -> None:
    for text in [sample["text"] for sample in EVERY[name].samples if EVERY[name].kind in ("lines", "pairs")]:
        lines = pa.array([line + "\n" for line in text.split("\n") if line])
        declared = pc.is_valid(pa.array([found and found[0].format for found in formats.match(lines)], pa.string()))
        assert pc.all(pc.or_(pa.array(formats.candidates(lines)), pc.invert(declared))).as_py()


def test_every_format_that_comes_with_the_product_is_documented() -> None:
    page = (formats.FOLDER.parent / "docs" / "formats.md").read_text(encoding="utf-8")
    assert not [name for name in formats.shipped() if f"\n| {name} |" not in page]


def test_every_line_that_a_pattern_fits_holds_its_mark() -> None:
    lines = [line + "\n" for _, _, sample in SAMPLES for line in sample["text"].splitlines()]
    for form in formats.forms():
        for pattern in filter(None, (form.pattern, form.looks)):
            fits = pc.match_substring_regex(pa.array(lines), pattern).to_pylist()
            assert all(formats.mark(pattern) in line.encode() for line, one in zip(lines, fits, strict=True) if one)


@pytest.mark.parametrize(
    ("pattern", "mark"),
    [
        (r"^it (?P<step>[0-9]+): cost=", b": cost="),
        (r"(?i)loss: ", b""),
        (r"loss|cost", b""),
        (r"\x41BC", b""),
        (r"ab+c?d{2,3}(?:ef)?", b"ab"),
        (r"[[:alpha:]]x", b""),
        (r"损失率\[[^\]]+\] =", "损失率[".encode()),
    ],
)
def test_the_mark_of_a_pattern_is_what_it_can_not_do_without(pattern: str, mark: bytes) -> None:
    assert formats.mark(pattern) == mark
