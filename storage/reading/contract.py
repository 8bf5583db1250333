"""What a format must prove before it is used: the same for those that come with the product and for a team's own.

Each sample gives the rows that it promises, whether the format is named or guessed; no reject gives a row; and no other
format's samples are claimed.
"""

import math
from collections.abc import Iterator
from typing import Any

from messages import N_, Text
from storage.reader import LogReader
from storage.reading import formats
from storage.reading.formats import LogFormat
from storage.types import ParseReport, UnreadableLog

KINDS = {"train", "eval", "telemetry", "summary", "more", "ignore"}


def read(text: str, format_name: str | None = None) -> tuple[list[dict[str, Any]], ParseReport]:
    """Return the rows of whole lines as dicts, and the report; a text that can't be read gives none."""
    text = text if text.endswith("\n") else text + "\n"
    reader = LogReader("sample", format_name=format_name)
    try:
        batches = reader.feed(text.encode()) + reader.finish()
    except UnreadableLog:
        batches = []
    return [row for batch in batches for row in batch.rows.to_pylist()], reader.report()


def faults(found: LogFormat) -> Iterator[Text]:
    """Yield what keeps a format from being used, each in a sentence."""
    if not found.title.strip() or not found.seen:
        yield Text(N_("A format needs a title and a word about where such lines come from."))
    for kind in {form.kind for form in found.forms} - KINDS:
        yield Text(N_("A kind of line is called {kind}; it can be one of {kinds}."), {"kind": kind, "kinds": ", ".join(KINDS)})
    if not (found.samples and found.rejects) and found.kind in ("lines", "pairs"):
        yield Text(N_("A format needs a sample (lines, and the rows that they give) and a line that it does not take."))
    with formats.trying(found):
        for number, sample in enumerate(found.samples, 1):
            yield from _sample(found, number, sample)
        for reject in found.rejects:
            yield from _reject(reject)
        yield from _neighbours(found)


def _sample(found: LogFormat, number: int, sample: Any) -> Iterator[Text]:
    gaps: dict[str, Any]
    for name in (found.name, None):
        rows, report = read(sample["text"], name)
        if name is None and report.format != found.name:
            gaps = {"format": report.format_title or "–"}
            yield Text(N_("These lines are already read as “{format}”: a format of your own would never be asked."), gaps)
            return
        if len(rows) != len(sample["rows"]):
            gaps = {"number": number, "wanted": len(sample["rows"]), "found": len(rows)}
            yield Text(N_("Sample {number} promises {wanted} rows and gives {found}."), gaps)
            return
        for row, wanted in zip(rows, sample["rows"], strict=True):
            wrong = [key for key, value in wanted.items() if not same(value, row.get(key))]
            if wrong:
                gaps = {"number": number, "name": wrong[0], "wanted": str(wanted[wrong[0]]), "found": str(row.get(wrong[0]))}
                yield Text(N_("Sample {number}: {name} should be {wanted} and is {found}."), gaps)
                return


def _reject(reject: Any) -> Iterator[Text]:
    rows, report = read(reject["text"])
    if rows or report.unparsed_count != reject.get("unparsed", report.unparsed_count):
        text = str(reject["text"]).strip()[:80]
        yield Text(N_("“{text}” is no record and is taken for one."), {"text": text})


def _neighbours(found: LogFormat) -> Iterator[Text]:
    """Say from which shipped formats this one would take samples, or rejects."""
    taken = []
    for other in formats.shipped().values():
        texts = [each["text"] for each in (*other.samples, *other.rejects)] if other.name != found.name else []
        if any(read(text)[1].format == found.name for text in texts):
            taken.append(other.title)
    if taken:
        gaps = {"format": taken[0], "count": len(taken) - 1}
        message = N_("It would also take lines of “{format}” and {count} other formats: make the pattern narrower.")
        yield Text(message if gaps["count"] else N_("It would also take lines of “{format}”: make the pattern narrower."), gaps)


def same(wanted: Any, got: Any) -> bool:
    """Say whether a value is the one that was promised; NaN is NaN."""
    if isinstance(wanted, float | int) and isinstance(got, float | int):
        return wanted == got or math.isclose(wanted, got, rel_tol=1e-15) or (wanted != wanted and got != got)
    return bool(wanted == got)
