"""What was read of a log, as plain JSON-ready values: the answer of `cli.py read`."""

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from storage.reader import ReadResult
from storage.reading.events import why_failed
from storage.types import Column, Event, ParseReport

ROW_ONLY = ("line", "kind", "segment", "step_printed", "rank")  # columns of every row that are no metric


def summarise(result: ReadResult) -> dict[str, Any]:
    """Return format, counts, first and last step and loss as printed, every column, configuration, events, unparsed lines."""
    rows, report = result.rows, result.report
    train = rows.filter(pc.equal(rows["kind"], "train"))
    return {
        "format": report.format,
        "format_title": report.format_title,
        "encoding": report.encoding,
        "compression": report.compression,
        "bytes": report.bytes,
        "lines": report.lines,
        "records": report.records,
        "eval_records": report.eval_records,
        "first_step": _end(train, "step_printed", 0),
        "last_step": _end(train, "step_printed", -1),
        "first_loss": _end(train, "loss", 0),
        "last_loss": _end(train, "loss", -1),
        "segments": report.segments,
        "columns": _columns(rows, report),
        "first_record": _record(train, 0),
        "last_record": _record(train, -1),
        "config": dict(report.config),
        "events": [_event(event) for event in result.events],
        "why_failed": _why_failed(result.events, train),
        "unparsed": {
            "count": report.unparsed_count,
            "first": [{"line": item.line, "text": item.text, "reason": item.reason.render()} for item in report.unparsed],
        },
        "ignored": report.ignored,
        "drifts": [{"line": one.line, "step": one.step, "text": one.text, "read": one.read} for one in report.drifts],
        "notes": [note.render() for note in report.notes],
    }


def _why_failed(events: tuple[Event, ...], train: pa.Table) -> dict[str, Any] | None:
    """Return the failure that best explains how the log ends, None where it ends without one."""
    last = pc.max(train["line"]).as_py() if len(train) else None
    found = why_failed(events, after=last)
    return {"line": found.line, "kind": found.kind, "text": found.text} if found else None


def _columns(rows: pa.Table, report: ParseReport) -> dict[str, dict[str, Any]]:
    described = {column.name: column for column in report.columns}
    names = [name for name in rows.column_names if name not in ROW_ONLY and rows[name].null_count < len(rows)]
    return {name: _column(rows[name], described.get(name, Column(name, name))) for name in names}


def _column(values: pa.ChunkedArray, column: Column) -> dict[str, Any]:
    printed = values.drop_null()
    finite = printed.filter(pc.is_finite(printed)) if pa.types.is_floating(values.type) else printed
    extremes = pc.min_max(finite).as_py()
    return {
        "printed": column.printed,
        "unit": column.unit,
        "role": column.role,
        "count": len(printed),
        "nonfinite": len(printed) - len(finite),
        "first": _plain(printed[0]),
        "last": _plain(printed[-1]),
        "min": _plain(extremes["min"]),
        "max": _plain(extremes["max"]),
    }


def _end(rows: pa.Table, name: str, index: int) -> Any:
    """Return the first (0) or last (-1) printed value of a column, None where it was never printed."""
    if name not in rows.column_names:
        return None
    printed = rows[name].drop_null()
    return printed[index].as_py() if len(printed) else None


def _record(rows: pa.Table, index: int) -> dict[str, Any] | None:
    if not len(rows):
        return None
    last = len(rows) - 1 if index == -1 else index
    record = rows.slice(last, 1).to_pylist()[0]
    return {name: _plain(value) for name, value in record.items() if value is not None}


def _plain(value: Any) -> Any:
    value = value.as_py() if isinstance(value, pa.Scalar) else value
    return value.isoformat() if hasattr(value, "isoformat") else value


def _event(event: Event) -> dict[str, Any]:
    return {
        "line": event.line,
        "kind": event.kind,
        "text": event.text,
        "step": event.step,
        "segment": event.segment,
        "data": dict(event.data),
    }
