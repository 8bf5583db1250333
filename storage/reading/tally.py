"""The exact count of what was understood and what not, line by line, kept while reading."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from messages import N_, Text
from storage.reading import formats
from storage.reading.containers.lines import SHOWN
from storage.reading.decode import Decoder
from storage.reading.rows import is_kind
from storage.reading.segments import Placer
from storage.reading.text import MAX_COLUMNS, TextReader
from storage.types import Drift, ParseReport, Unparsed

KEPT = SHOWN  # unparsed lines that are kept with their text
NAMES_LENGTH = 200  # of the names in a note
MAX_DRIFTS = 5
_COUNTS = ("_rows_lines", "_unparsed_count", "_last_row_line", "_last_unparsed_line", "_unparsed_lines")


class Tally:
    """Counts rows by kind, lines that gave rows, and lines that should have."""

    def __init__(self) -> None:
        self.kinds: dict[str, int] = {}
        self._rows_lines = self._unparsed_count = self._unparsed_lines = 0
        self._last_row_line = self._last_unparsed_line = 0
        self._kept: list[Unparsed] = []

    def rows(self, table: pa.Table) -> None:
        """Count these rows; several of one line (a progress bar) are one line."""
        train = is_kind(table, "train")
        counts = {"train": int(np.count_nonzero(train))}
        if counts["train"] < len(train):
            others = pc.value_counts(table["kind"].filter(pa.array(~train))).to_pylist()
            counts |= {entry["values"]: entry["counts"] for entry in others}
        for kind, count in counts.items():
            if count:
                self.kinds[kind] = self.kinds.get(kind, 0) + count
        lines = table["line"].to_numpy()
        self._rows_lines += int(np.count_nonzero(lines[1:] != lines[:-1])) + bool(lines[0] != self._last_row_line)
        self._last_row_line = int(lines[-1])

    def unparsed(self, lines: Sequence[Unparsed], more: Sequence[np.ndarray] = ()) -> None:
        """Count lines of a block that should have been rows; of `more` there are only the numbers."""
        if not lines and not more:
            return
        numbers = np.sort(np.concatenate((np.array([one.line for one in lines], np.int64), *more)))
        self._unparsed_count += len(numbers)
        self._unparsed_lines += int(np.count_nonzero(np.diff(numbers, prepend=-1)))
        self._unparsed_lines -= int(self._last_unparsed_line in numbers)
        self._last_unparsed_line = int(numbers[-1])
        if len(self._kept) < KEPT:
            self._kept += sorted(lines, key=lambda one: one.line)[: KEPT - len(self._kept)]

    @property
    def room(self) -> int:
        """How many lines are kept yet."""
        return KEPT - len(self._kept)

    def report(
        self,
        decoder: Decoder,
        text: TextReader,
        placer: Placer,
        mode: str | None,
        config: dict[str, Any],
        joined: int,
        beyond: tuple[Drift, ...] = (),
    ) -> ParseReport:
        """Return the report so far; `joined` = lines whose numbers went into the row of another, `beyond`: not read."""
        drifts = (*text.forms.changes, *beyond)
        name = format_of(text, mode) if self.kinds else None
        known = formats.load().get(name or "")
        return ParseReport(
            format=name,
            format_title=known.title if known else (name or ""),
            encoding=decoder.encoding,
            compression=decoder.compression,
            bytes=decoder.bytes,
            lines=decoder.lines,
            records=self.kinds.get("train", 0),
            eval_records=self.kinds.get("eval", 0),
            ignored=max(0, decoder.lines - self._rows_lines - self._unparsed_lines - joined),
            unparsed_count=self._unparsed_count,
            unparsed=tuple(sorted(self._kept, key=lambda one: one.line)),
            segments=max(placer.segments, int(bool(self.kinds))),
            columns=tuple(text.columns.values()),
            config=config,
            drifts=drifts,
            notes=tuple(notes(decoder, text, placer, drifts)),
        )

    def state(self) -> dict[str, Any]:
        """Return what must be remembered, JSON-able."""
        kept = [[one.line, one.text, one.reason.to_dict()] for one in self._kept]
        return {"kinds": self.kinds, "counts": [getattr(self, name) for name in _COUNTS], "kept": kept}

    def restore(self, state: dict[str, Any]) -> None:
        """Go on from what `state` returned."""
        self.kinds = dict(state["kinds"])
        for name, count in zip(_COUNTS, state["counts"], strict=True):
            setattr(self, name, count)
        self._kept = [Unparsed(line, text, Text.from_dict(reason)) for line, text, reason in state["kept"]]


def format_of(text: TextReader, mode: str | None) -> str:
    """Return the name of the format that most of the log is: the container, or that of the first training loss."""
    if mode not in (None, "text"):
        return str(mode)
    return text.belief.main or max(text.rows, key=lambda name: text.rows[name], default="generic")


def notes(decoder: Decoder, text: TextReader, placer: Placer, drifts: tuple[Drift, ...] = ()) -> list[Text]:
    """Return what a reader of the report must know besides the counts."""
    found = []
    if placer.numbered:
        found.append(Text(N_("The log prints no step for some records: they are numbered in the order of the log.")))
    if placer.beyond:
        beyond = N_(
            "From line {line} on, steps are printed that are too large to be steps: those records have no step of their own."
        )
        found.append(Text(beyond, {"line": placer.beyond}))
    if placer.unsteady:
        unsteady = N_(
            "The steps go back and forth from line {line} on (the newest lines come first, or several processes write at "
            "once): this is not taken for restarts."
        )
        found.append(Text(unsteady, {"line": placer.unsteady}))
    if text.commas and any(text.rows.values()):
        found.append(Text(N_("Numbers are printed with a decimal comma: 2,345 is read as 2.345, in every column.")))
    if text.belief.examples:
        examples = N_("This is a document: {count} lines that look like a log were taken for examples.")
        found.append(Text(examples, {"count": text.belief.examples}))
    if text.crowded:
        found.append(
            Text(N_("The log prints more than {count} names: those that came later are not kept."), {"count": MAX_COLUMNS})
        )
    if decoder.cut:
        where = ", ".join(map(str, decoder.cut[:5]))
        found.append(Text(N_("Lines longer than 1 MiB were cut; the first are lines {lines}."), {"lines": where}))
    if decoder.damaged:
        found.append(Text(N_("The packed file is damaged or breaks off: what stands behind the damage is missing.")))
    if text.ended.count:
        breaks = N_("{count} lines break off in their last number, the first is line {line}: that number is not kept.")
        one = N_("Line {line} breaks off in its last number: that number is not kept.")
        gaps = {"count": text.ended.count, "line": text.ended.first}
        found.append(Text(breaks if text.ended.count > 1 else one, gaps))

    for change in drifts[:MAX_DRIFTS]:
        told: dict[str, Any] = {"line": change.line, "step": change.step, "form": change.text}
        stepped = N_("From line {line} (step {step}) on, the log has another form: {form}")
        plain = N_("From line {line} on, the log has another form: {form}")
        unread = N_("From line {line} on, lines look like records of another form and are not read: {form}")
        known = plain if change.step is None else stepped
        found.append(Text(known if change.read else unread, told))
    for line, names in text.drifts[:MAX_DRIFTS]:
        values = {"line": line, "names": _few(names)}
        found.append(Text(N_("From line {line} on, lines print other fields: {names}"), values))
    return found


def _few(names: Sequence[str]) -> str:
    """Return the first names in a row, whole, and a sign where there are more."""
    ends = np.cumsum([len(name) + 2 for name in names])
    kept = max(1, int(np.searchsorted(ends, NAMES_LENGTH, "right")))
    return ", ".join(names[:kept])[:NAMES_LENGTH] + (", …" if kept < len(names) else "")
