"""Judging every line of a corpus: DuckDB reads the JSON by the block, numpy counts."""

import dataclasses
import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from messages import N_
from storage.reading.corpus.blocks import Block, Blocks
from storage.reading.corpus.lengths import Lengths, Twins

LIMIT = 8192  # characters beyond which a text counts as over-long
KEPT = 10_000  # problems of one kind that are kept with their line
SHOWN = 120  # characters of a line that are kept
EXPLAINED = 50  # broken lines that are looked at to say what is wrong
MEMORY_MIB = 512
BATCHES = 8  # of a block, which DuckDB's threads share
KINDS = ("broken", "not_object", "missing", "not_text", "empty", "encoding", "long", "duplicate")
# What a line is to DuckDB, in the order in which it is told; 0: a text.
_TEXT, _NOT_OBJECT, _MISSING, _NOT_TEXT, _EMPTY = range(5)
_JUDGE = f"""
    select case when kind = 'VARCHAR' then case when regexp_matches(text, '\\S') then {_TEXT} else {_EMPTY} end
                when kind is null and json_type(line) <> 'OBJECT' then {_NOT_OBJECT}
                when kind is null or kind = 'NULL' then {_MISSING} else {_NOT_TEXT} end as what,
           length(text) as length, hash(text) as hash
    from (select line, json_type(line, $path) as kind, json_extract_string(line, $path) as text from lines)
"""


@dataclass(frozen=True)
class Problem:
    """A line that needs attention: its number, what is wrong (one of KINDS), a detail, and its beginning."""

    line: int
    kind: str
    detail: str
    text: str


@dataclass(frozen=True)
class CorpusReport:
    """What a corpus is like. Lengths are in characters, of all texts that are not empty.

    lines counts every line, blank those without anything, records the others; texts are records with a text. counts says
    how many lines have each problem of KINDS (a line can have several); problems holds the first KEPT of each.
    duplicates_of: one of so many texts was compared. fields: names that the objects have, the most frequent first.
    """

    field: str
    limit: int
    encoding: str
    compression: str | None
    damaged: bool
    bytes: int
    lines: int
    blank: int
    records: int
    texts: int
    characters: int
    p50: int | None
    p95: int | None
    p99: int | None
    longest: int
    counts: dict[str, int]
    duplicates_of: int
    fields: tuple[str, ...]
    bars: tuple[tuple[int, int, int], ...]
    problems: tuple[Problem, ...] = dataclasses.field(repr=False)

    def to_dict(self) -> dict[str, Any]:
        """Return a JSON-ready form."""
        return {**vars(self), "problems": [vars(problem) for problem in self.problems]}


class Corpus:
    """Checks a corpus that comes in pieces: `feed` them, then `finish`. Raises UnreadableLog for what is no text.

    field: the name under which the text stands. limit: characters beyond which a text is over-long.
    """

    def __init__(self, *, field: str = "text", limit: int = LIMIT) -> None:
        self._field, self._limit = field, limit
        self._blocks, self._lengths, self._twins = Blocks(), Lengths(), Twins()
        self._counts: Counter[str] = Counter()
        self._fields: Counter[str] = Counter()
        self._kept: list[Problem] = []
        self._bytes = self._lines = self._blank = 0
        # An own database in memory: the store's is nobody's business here.
        self._db = duckdb.connect(config={"memory_limit": f"{MEMORY_MIB}MiB", "python_enable_replacements": "false"})

    def feed(self, data: bytes) -> None:
        """Take the next bytes of the file."""
        self._bytes += len(data)
        for block in self._blocks.feed(data):
            self._check(block)

    def finish(self) -> CorpusReport:
        """Return what the whole corpus is like."""
        try:
            for block in self._blocks.finish():
                self._check(block)
        finally:
            self._db.close()
        for line in self._blocks.oversized:
            self._note("broken", [line], [N_("longer than 128 MiB")], [""])
        self._duplicates()
        records = self._lines + len(self._blocks.oversized) - self._blank
        quantiles = {f"p{n}": self._lengths.quantile(n / 100) for n in (50, 95, 99)}
        return CorpusReport(
            field=self._field,
            limit=self._limit,
            encoding=self._blocks.encoding,
            compression=self._blocks.compression,
            damaged=self._blocks.damaged,
            bytes=self._bytes,
            lines=records + self._blank,
            blank=self._blank,
            records=records,
            texts=self._lengths.count,
            characters=self._lengths.total,
            **quantiles,
            longest=self._lengths.largest,
            counts={kind: self._counts[kind] for kind in KINDS},
            duplicates_of=self._twins.share,
            fields=tuple(name for name, _count in self._fields.most_common(20)),
            bars=tuple(self._lengths.bars()),
            problems=tuple(sorted(self._kept, key=lambda problem: problem.line)),
        )

    def _check(self, block: Block) -> None:
        lines, numbers = block.lines, block.first + np.arange(len(block.lines))
        self._lines += len(lines)
        filled = pc.match_substring_regex(lines, r"\S")
        if filled.true_count < len(lines):
            self._blank += len(lines) - filled.true_count
            lines, numbers = lines.filter(filled), numbers[filled.to_numpy(zero_copy_only=False)]
        if len(block.wrong):
            wrong = np.isin(numbers, block.first + block.wrong)
            self._report("encoding", lines, numbers, wrong)
        sound = self._sound(lines)
        if sound is not None:
            self._broken(lines, numbers, ~sound)
            lines, numbers = lines.filter(pa.array(sound)), numbers[sound]
        if len(lines):
            self._texts(lines, numbers, self._ask(_JUDGE, lines, path="/" + _pointer(self._field)))

    def _sound(self, lines: pa.Array) -> np.ndarray | None:
        """Return which lines are JSON, None if all are."""
        if not len(lines):
            return None
        valid = self._ask("select json_valid(line) as valid from lines", lines)["valid"]
        return None if valid.all() else valid

    def _ask(self, sql: str, lines: pa.Array, **values: Any) -> dict[str, np.ndarray]:
        size = -(-len(lines) // BATCHES)
        batches = [pa.record_batch({"line": lines.slice(start, size)}) for start in range(0, len(lines), size)]
        self._db.register("lines", pa.Table.from_batches(batches))
        try:
            return dict(self._db.execute(sql, values or None).fetchnumpy())
        finally:
            self._db.unregister("lines")

    def _texts(self, lines: pa.Array, numbers: np.ndarray, told: dict[str, np.ndarray]) -> None:
        what = np.asarray(told["what"])
        for kind, code in (("not_object", _NOT_OBJECT), ("missing", _MISSING), ("not_text", _NOT_TEXT), ("empty", _EMPTY)):
            self._report(kind, lines, numbers, what == code)
        if sum(self._fields.values()) < 1000:
            for line in lines.slice(0, 100).to_pylist():
                self._fields.update(_keys(line))
        good = what == _TEXT
        lengths = np.asarray(told["length"])[good].astype(np.int64)
        self._lengths.add(lengths)
        self._twins.add(np.asarray(told["hash"])[good].astype(np.uint64), numbers[good])
        long = np.zeros(len(what), bool)
        long[np.flatnonzero(good)[lengths > self._limit]] = True
        self._report("long", lines, numbers, long, lengths[lengths > self._limit].tolist())

    def _broken(self, lines: pa.Array, numbers: np.ndarray, where: np.ndarray) -> None:
        room = max(0, EXPLAINED - self._counts["broken"])
        first = lines.filter(pa.array(where)).slice(0, room)
        self._report("broken", lines, numbers, where, [_reason(line) for line in first.to_pylist()])

    def _report(self, kind: str, lines: pa.Array, numbers: np.ndarray, where: np.ndarray, details: Iterable[Any] = ()) -> None:
        at = np.flatnonzero(where)
        room = max(0, KEPT - self._counts[kind])
        texts = pc.utf8_slice_codeunits(lines.take(pa.array(at[:room])), 0, SHOWN).to_pylist()
        self._note(kind, numbers[at].tolist(), details, texts)

    def _note(self, kind: str, numbers: list[int], details: Iterable[Any], texts: list[str]) -> None:
        self._counts[kind] += len(numbers)
        said = iter(details)
        for number, text in zip(numbers, texts, strict=False):
            self._kept.append(Problem(number, kind, str(next(said, "")), text.rstrip("\r\n")))

    def _duplicates(self) -> None:
        count, again, first = self._twins.found()
        self._counts["duplicate"] = count
        for line, before in zip(again[:KEPT].tolist(), first[:KEPT].tolist(), strict=True):
            self._kept.append(Problem(line, "duplicate", str(before), ""))


def check(
    pieces: Iterable[bytes], *, field: str = "text", limit: int = LIMIT, progress: Callable[[int], None] | None = None
) -> CorpusReport:
    """Check a whole corpus; `progress` hears how many bytes were taken. Raises UnreadableLog for what is no text."""
    corpus, taken = Corpus(field=field, limit=limit), 0
    for piece in pieces:
        corpus.feed(piece)
        taken += len(piece)
        if progress:
            progress(taken)
    return corpus.finish()


def _pointer(name: str) -> str:
    """Return a name as a step of a JSON pointer."""
    return name.replace("~", "~0").replace("/", "~1")


def _keys(line: str) -> Iterator[str]:
    try:
        value = json.loads(line)
    except (ValueError, RecursionError):
        return
    yield from (key[:80] for key in value) if isinstance(value, dict) else ()


def _reason(line: str) -> str:
    """Return what is wrong with a line that is no JSON, and at which character."""
    try:
        json.loads(line.rstrip("\r\n"))
    except json.JSONDecodeError as error:
        return f"{error.msg}: character {error.pos + 1}"
    except (ValueError, RecursionError):
        return N_("nested too deep")
    return N_("it holds what JSON does not have")
