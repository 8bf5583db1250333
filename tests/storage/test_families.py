"""Logs in the shapes of many frameworks and loops (families*.toml): every row, step, value and unit, and no metric more."""

import math
import tomllib
from pathlib import Path
from typing import Any

import pytest

from storage.reader import LogReader
from storage.types import ROW_SCHEMA, ParseReport

FILES = sorted(Path(__file__).parent.glob("families*.toml"))
FAMILIES = [family for file in FILES for family in tomllib.loads(file.read_text(encoding="utf-8"))["family"]]
NAMES = [family["name"] for family in FAMILIES]


def read(text: str, chunk: int = 1 << 20, name: str = "sample") -> tuple[list[dict[str, Any]], ParseReport]:
    """Return the rows of a text as dicts, and the report; fed in chunks of so many bytes, under the name of a file."""
    reader, data = LogReader(name), text.encode()
    batches = [batch for start in range(0, len(data), chunk) for batch in reader.feed(data[start : start + chunk])]
    batches += reader.finish()
    return [row for batch in batches for row in batch.rows.to_pylist()], reader.report()


def same(wanted: Any, got: Any) -> bool:
    if isinstance(wanted, float | int) and isinstance(got, float | int):
        return math.isclose(wanted, got, rel_tol=1e-12) or (wanted != wanted and got != got)
    return wanted == got


@pytest.mark.parametrize("family", FAMILIES, ids=NAMES)
def test_every_row_is_read_under_the_right_names_and_units(family: dict[str, Any]) -> None:
    rows, report = read(family["text"], name=family.get("file", "sample"))
    assert [row["kind"] for row in rows] == [wanted["kind"] for wanted in family["rows"]]
    for row, wanted in zip(rows, family["rows"], strict=True):
        assert not {key: (value, row.get(key)) for key, value in wanted.items() if not same(value, row.get(key))}
    assert report.unparsed_count == 0
    assert report.records == sum(wanted["kind"] == "train" for wanted in family["rows"])
    assert report.eval_records == sum(wanted["kind"] == "eval" for wanted in family["rows"])
    assert family.get("format", report.format) == report.format


@pytest.mark.parametrize("family", FAMILIES, ids=NAMES)
def test_no_other_metric_is_found(family: dict[str, Any]) -> None:
    rows, _ = read(family["text"], name=family.get("file", "sample"))
    found = {name for row in rows for name, value in row.items() if value is not None} - set(ROW_SCHEMA.names)
    assert sorted(found) == family["metrics"]


@pytest.mark.parametrize("family", FAMILIES, ids=NAMES)
def test_a_log_gives_one_segment(family: dict[str, Any]) -> None:
    assert read(family["text"], name=family.get("file", "sample"))[1].segments == 1
