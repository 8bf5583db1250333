"""ParseReport to JSON and back, tolerant of reports that an older or newer version wrote."""

import json
from dataclasses import MISSING, fields
from typing import Any, TypeVar

from messages import Text
from storage.types import Column, Drift, ParseReport, Unparsed

T = TypeVar("T")
OLD = "{text}"  # the sentence of a report that older versions wrote: English alone
NOT_READ = ParseReport(
    format=None,
    format_title="",
    encoding="utf-8",
    compression=None,
    bytes=0,
    lines=0,
    records=0,
    eval_records=0,
    ignored=0,
    unparsed_count=0,
    unparsed=(),
    segments=0,
    columns=(),
    config={},
)


def dump_report(report: ParseReport) -> str:
    """Return the report as JSON text; values JSON does not know become their text."""
    # Not by `asdict`, which copies everything, too: this is done for every line of a log that grows slowly.
    parts = {
        "unparsed": [vars(item) | {"reason": item.reason.to_dict()} for item in report.unparsed],
        "columns": list(map(vars, report.columns)),
        "drifts": list(map(vars, report.drifts)),
        "notes": [note.to_dict() for note in report.notes],
        "config": dict(report.config),
    }
    return dump_json(vars(report) | parts)


def load_report(text: str | None) -> ParseReport:
    """Read back what `dump_report` wrote; None gives the report of a run of which nothing was read."""
    if text is None:
        return NOT_READ
    data = json.loads(text)
    unparsed = (item | {"reason": _text(item.get("reason", ""))} for item in data.get("unparsed", ()))
    data["unparsed"] = tuple(_build(Unparsed, item) for item in unparsed)
    data["columns"] = tuple(_build(Column, item) for item in data.get("columns", ()))
    data["drifts"] = tuple(_build(Drift, item) for item in data.get("drifts", ()))
    data["notes"] = tuple(map(_text, data.get("notes", ())))
    return _build(ParseReport, data, NOT_READ)


def dump_json(value: Any) -> str:
    """Return `value` as JSON text that any UTF-8 column takes (lone surrogates are escaped)."""
    return json.dumps(value, default=str, ensure_ascii=True)


def clean_text(text: str) -> str:
    """Return `text` as valid UTF-8 text: a lone surrogate, which a log can hold, becomes a question mark."""
    return text.encode("utf-8", "replace").decode("utf-8")


def _text(data: Any) -> Text:
    """Read a sentence; older versions kept the English one alone."""
    return Text.from_dict(data) if isinstance(data, dict) else Text(OLD, {"text": str(data)})


def _build(kind: type[T], data: dict[str, Any], defaults: Any = None) -> T:
    values = {}
    for field in fields(kind):  # type: ignore[arg-type]
        if field.name in data:
            values[field.name] = data[field.name]
        elif field.default is MISSING and field.default_factory is MISSING:
            values[field.name] = getattr(defaults, field.name, None)
    return kind(**values)
