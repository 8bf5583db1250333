"""What pasted lines give under a known format, under what is learnt from them, and under a pattern of one's own."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from messages import N_, Text
from storage.reading import contract, formats, teach
from storage.reading.columns import canonical
from storage.reading.formats import BadFormat
from storage.types import ParseReport
from ui import state
from ui.text import _

MAX_CHARS = 100_000  # pasted
SHOWN_LINES, SHOWN_COLUMNS, SHOWN_CHARS = 200, 24, 160
KNOWN, LEARNT, OWN = "known", "learnt", "own"
PLACES = ("kind", "step", "epoch", "timestamp", "rank")


@dataclass(frozen=True)
class Yield:
    """What lines give: the rows by line, what the reader says of it, and what a person should know."""

    rows: list[dict[str, Any]]
    report: ParseReport | None = None
    told: tuple[Text, ...] = ()
    patterns: tuple[str, ...] = ()


@state.cached
def yields(text: str, way: str, pattern: str, version: int) -> Yield:
    """Return what the lines give in one of the three ways; `version` is that of the team's formats."""
    if way == KNOWN:
        rows, report = contract.read(text)
        if report.format in (None, "generic"):
            return Yield([], report, (Text(N_("No known format reads these lines.")),))
        return Yield(rows, report)
    if way == LEARNT:
        return _learnt(text)
    return _own(text, pattern)


def _learnt(text: str) -> Yield:
    rows, report = contract.read(text, "generic")
    lines = text.split("\n")
    found = (teach.learnt(lines[row["line"] - 1]) for row in rows if row["line"] <= len(lines))
    patterns = tuple(dict.fromkeys(pattern for pattern in found if pattern))
    if rows:
        return Yield(rows, report, (), patterns)
    message = N_("Nothing could be learnt: it needs lines such as “step: 10 loss: 2.31”, three of a kind at least.")
    return Yield([], report, (Text(message),))


def _own(text: str, pattern: str) -> Yield:
    if not pattern.strip():
        return Yield([], None, (Text(N_("Write a pattern: {step} stands for a number that is the step."), {"step": "{step}"}),))
    try:
        found = teach.draft([pattern], pairs=False)
    except BadFormat as error:
        return Yield([], None, (Text(N_("The pattern can't be used: {error}"), {"error": str(error)}),))
    with formats.trying(found):
        rows, report = contract.read(text, teach.DRAFT)
    return Yield(rows, report, tuple(_explained(text, found.forms[0].pattern, len(rows))), (pattern,))


def _explained(text: str, pattern: str, rows: int) -> Iterator[Text]:
    """Say how many lines fit a pattern, and which group holds something that is no number."""
    lines = pa.array(text.split("\n"))
    fits = pc.match_substring_regex(lines, pattern)
    gaps: dict[str, Any] = {"fit": fits.true_count, "all": len([line for line in text.split("\n") if line.strip()])}
    yield Text(N_("Lines that fit the pattern: {fit} of {all}."), gaps)
    if not fits.true_count or rows >= fits.true_count:
        return
    if "(?P<" not in pattern:
        yield Text(N_("It names no number: write {loss} or (?P<loss>…) where the loss stands."), {"loss": "{loss}"})
        return
    for number, line, groups in zip(range(1, len(lines) + 1), fits, pc.extract_regex(lines, pattern), strict=True):
        wrong = [name for name, value in (groups.as_py() or {}).items() if line.as_py() and not _is_number(value)]
        if wrong:
            gaps = {"name": wrong[0], "text": groups.as_py()[wrong[0]][:40], "line": number}
            yield Text(N_("In line {line} the group {name} holds “{text}”, which is no number."), gaps)
            return


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def table(text: str, found: Yield) -> pd.DataFrame:
    """Return one row a pasted line: its number, its text, and what it gives; a line may give nothing."""
    lines = text.rstrip("\n").split("\n")[:SHOWN_LINES]
    names = _names(found.rows)
    by_line = {row["line"]: row for row in found.rows}
    cells = [{"#": n, _("Line"): line[:SHOWN_CHARS]} for n, line in enumerate(lines, 1)]
    for cell in cells:
        row = by_line.get(cell["#"], {})
        cell.update({name: _shown(row.get(name)) for name in names})
    return pd.DataFrame(cells).rename(columns={name: title(name) for name in names})


def _shown(value: Any) -> str | None:
    """Return a value as text, exact; a NaN is a value, not a gap."""
    if isinstance(value, float):
        return repr(int(value)) if value.is_integer() and abs(value) < 1e15 else str(value).replace("nan", "NaN")
    return None if value is None else str(value)


def _names(rows: list[dict[str, Any]]) -> list[str]:
    used = dict.fromkeys(name for row in rows for name, value in row.items() if value is not None)
    places = [name for name in PLACES if name in used and not (name == "kind" and {row["kind"] for row in rows} == {"train"})]
    others = [name for name in used if name not in (*PLACES, "line", "segment", "step_printed")]
    return (places + others)[:SHOWN_COLUMNS]


def title(name: str) -> str:
    """Return what a column is called over a table: its title, and its name where that says something else."""
    known = {"kind": _("Kind"), "step": _("Step"), "epoch": _("Epoch"), "timestamp": _("Time"), "rank": _("Rank")}
    return known.get(name) or (state.metric_title(name) if name in canonical() else name)


def known_formats() -> pd.DataFrame:
    """Return every format: its name, title, where it is seen, how it is read, its first sample; the team's own first."""
    own = formats.team()
    rows = [
        {
            "name": name,
            "title": _(found.title),
            "seen": "; ".join(found.seen),
            "origin": _("your team") if name in own else "Runvitals",
            "sample": _first_line(found.samples[0]["text"]) if found.samples else "",
        }
        for name, found in formats.load().items()
    ]
    return pd.DataFrame(rows)


def _first_line(text: str) -> str:
    return text.strip().split("\n", 1)[0][:SHOWN_CHARS]


def broken() -> dict[str, str]:
    """Return the team's files that can't be used, with the reason."""
    return {name: str(found) for name, found in formats.team().items() if isinstance(found, BadFormat)}
