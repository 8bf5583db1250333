"""The few types that pass between the reader, the store and those who ask them."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from messages import Text

# Every batch has these columns first; all others are metrics (float64) under canonical names with their unit.
ROW_SCHEMA = pa.schema(
    [
        ("line", pa.int64()),  # 1-based line of the decoded log
        ("kind", pa.string()),  # train | eval | telemetry | summary
        ("segment", pa.int32()),  # 0-based launch within the log
        ("step", pa.int64()),  # global step, monotonic within a segment; null where none can be derived
        ("step_printed", pa.int64()),  # the step as printed (may restart each epoch)
        ("epoch", pa.float64()),  # as printed
        ("timestamp", pa.timestamp("ms")),  # wall clock as printed (UTC where a zone is printed), else null
        ("rank", pa.int32()),  # null where the log does not say
    ]
)


@dataclass(frozen=True)
class Column:
    """One metric of a log: canonical name, the name as printed, its unit and what it is (role), None where not known."""

    name: str
    printed: str
    unit: str = ""
    role: str | None = None


@dataclass(frozen=True)
class Event:
    """Something the text says that is not a row: `kind` is a word such as `out_of_memory`, `traceback`, `checkpoint_saved`."""

    line: int
    kind: str
    text: str
    step: int | None = None
    segment: int = 0
    data: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Unparsed:
    """A line that should have been a row and was not: number, text (cut), and why."""

    line: int
    text: str
    reason: Text


@dataclass(frozen=True)
class Drift:
    """A line from which on records have another form: its number, the step there (None: not known), and its text (cut).

    read: whether those lines are read; records behind a table or JSON lines in another form are not.
    """

    line: int
    step: int | None
    text: str
    read: bool = True


@dataclass(frozen=True)
class ParseReport:
    """What a reader understood of a log so far, and what not.

    lines = every line of the decoded text; records = training-step records; ignored = lines with nothing to measure;
    unparsed_count = lines that look like records of the log's own format and could not be read (damaged, cut).
    """

    format: str | None
    format_title: str
    encoding: str
    compression: str | None
    bytes: int
    lines: int
    records: int
    eval_records: int
    ignored: int
    unparsed_count: int
    unparsed: tuple[Unparsed, ...]
    segments: int
    columns: tuple[Column, ...]
    config: Mapping[str, Any]
    notes: tuple[Text, ...] = ()
    drifts: tuple[Drift, ...] = ()


@dataclass(frozen=True)
class Batch:
    """Rows and events read from the next `bytes_read` decoded-source bytes: what one store transaction takes."""

    rows: pa.Table
    events: tuple[Event, ...] = ()


@dataclass(frozen=True)
class Run:
    """A run as the store lists it; times are UTC, `total_steps` and `source` None where not known."""

    id: str
    name: str
    source: str | None
    created: Any
    updated: Any
    rows: int
    segments: int
    first_step: int | None
    last_step: int | None
    total_steps: int | None
    bytes: int
    offset: int
    version: int


class UnreadableLog(ValueError):
    """The source holds nothing that can be read as a log; `message` is a sentence for a person: what, and what to do.

    `code` is one word for scripts: `empty`, `binary`, `too_large`, `too_deep`, `truncated_archive`, …
    """

    def __init__(self, code: str, message: Text) -> None:
        super().__init__(message.render())
        self.code = code
        self.message = message
