"""A file into the store: recognised by its content, then read and stored in one transaction, or not at all."""

import hashlib
import os
import re
from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path, PurePath
from typing import Any, BinaryIO

from messages import N_, Text
from storage.keeping.behind import Behind
from storage.keeping.writer import RunWriter
from storage.reader import LogReader, can_go_on
from storage.reading.decode import encoding_of
from storage.reading.unpack import Unpacker, packed_as
from storage.store import AlreadyKnown, Store
from storage.types import Batch, ParseReport, UnreadableLog

CHUNK_BYTES = 4 << 20
WAITING = 2  # pieces of CHUNK_BYTES that are parsed and not stored yet
AHEAD = 6  # of them whose bytes may be kept before they are parsed: as many as are, while the parser learns from the first
PEEKED = 64  # part of a piece at its end that is searched for the end of a line
HEAD_BYTES = 4096  # enough to tell most logs apart before anything is read a second time

# Bytes read so far, bytes in all, rows read so far.
Progress = Callable[[int, int, int], None]


@dataclass(frozen=True)
class Ingested:
    """What became of a file. `known`: the store had exactly this content already, nothing was changed.

    `grown`: the store had the beginning of it, and the run goes on with the rest.
    """

    run_id: str
    known: bool
    report: ParseReport
    grown: bool = False


def ingest_file(
    store: Store,
    path: str | Path,
    *,
    name: str | None = None,
    source: str | None = "",
    progress: Progress | None = None,
) -> Ingested:
    """Read a log into the store as one transaction; `name` (default: that of the file) is what a new run is called.

    `source` is where it comes from for people (default: its path; None where that says nothing).

    Content that the store has already is not stored again, and a log whose beginning it has under the same file name
    continues that run (under another name it may be another launch of the same job, so it is a run of its own). Raises
    UnreadableLog when there is nothing to be read in it, and OSError when the file can't be read; the store is then as it
    was. A log without a metric is stored when it holds events (it may say why a run failed).
    """
    path = Path(path)
    with path.open("rb") as content:
        job = _Job(store, content, str(path) if source == "" else source, name or path.name, progress)
        try:
            return job.run()
        except AlreadyKnown as known:
            return Ingested(known.run_id, True, store.report(known.run_id))


def _plain_name(path: str) -> str:
    """Return the name of a file without what browsers add to the second download of it: `train (1).log` is `train.log`."""
    return re.sub(r" \(\d{1,3}\)(?=\.|$)", "", PurePath(path).name)


class _Job:
    """One file on its way into the store."""

    def __init__(self, store: Store, source: BinaryIO, origin: str | None, name: str, progress: Progress | None) -> None:
        self._store, self._source, self._origin, self._name, self._progress = store, source, origin, name, progress
        self._size = os.fstat(source.fileno()).st_size
        self._digest = hashlib.sha256()
        self._head = source.read(HEAD_BYTES)
        self._read = 0
        source.seek(0)

    def run(self) -> Ingested:
        """Recognise the file and do what there is to do."""
        run_id, known_bytes = self._known_beginning()
        if run_id is not None and known_bytes == self._size:
            return Ingested(run_id, True, self._store.report(run_id))
        if run_id is None or not self._is_called_like(run_id):
            with self._store.writer(name=self._name, source=self._origin) as writer:
                return self._take(writer, LogReader(self._name))
        state = self._store.reader_state(run_id)
        state = state if can_go_on(state) else None
        with self._store.writer(run_id, replace=state is None) as writer:
            self._start_at(known_bytes if state else 0)
            return self._take(writer, LogReader(self._name, state=state), grown=True)

    def _known_beginning(self) -> tuple[str | None, int]:
        """Return the run whose whole log is the longest beginning of this file, and its bytes."""
        known: defaultdict[int, dict[str, str]] = defaultdict(dict)
        for run_id, size, fingerprint in self._store.with_head(self._head):
            known[size][fingerprint] = run_id
        digest, done = hashlib.sha256(), 0
        found: tuple[str | None, int] = (None, 0)
        for size in sorted(size for size in known if size <= self._size):
            for chunk in self._chunks(size - done):
                digest.update(chunk)
            done = size
            if digest.hexdigest() in known[size]:
                found = (known[size][digest.hexdigest()], size)
        self._source.seek(0)
        return found

    def _is_called_like(self, run_id: str) -> bool:
        run = self._store.run(run_id)
        return _plain_name(self._origin or self._name) in {_plain_name(called) for called in (run.source, run.name) if called}

    def _start_at(self, place: int) -> None:
        for chunk in self._chunks(place):
            self._digest.update(chunk)
        self._read = place

    def _chunks(self, size: int | None = None) -> Iterable[bytes]:
        """Yield the next `size` bytes of the source (all by default)."""
        while chunk := self._source.read(self._whole_lines() if size is None else min(CHUNK_BYTES, size)):
            size = None if size is None else size - len(chunk)
            yield chunk

    def _whole_lines(self) -> int:
        """Return how many of the next CHUNK_BYTES are whole lines, where an end is near: nothing is to be joined then."""
        sure = CHUNK_BYTES - CHUNK_BYTES // PEEKED
        end = os.pread(self._source.fileno(), CHUNK_BYTES - sure, self._source.tell() + sure).rfind(b"\n") + 1
        return sure + end if end else CHUNK_BYTES

    def _take(self, writer: RunWriter, reader: LogReader, *, grown: bool = False) -> Ingested:
        """Read the rest of the source and commit."""
        with Behind("rows", WAITING) as rows, Behind("bytes", AHEAD) as kept:
            for chunk in self._kept_ahead(writer, kept):
                rows.do(partial(self._store_rows, writer, reader.feed(chunk)))
                self._tell(writer)
            rows.wait()
            kept.wait()
        self._tell(writer)
        state = self._finish(writer, reader, must_hold=not grown)
        report = reader.report()
        head = (hashlib.sha256(self._head).hexdigest(), len(self._head))
        fingerprint = self._digest.hexdigest()
        writer.commit(report=report, offset=self._read, reader_state=state, fingerprint=fingerprint, head=head)
        return Ingested(writer.run_id, False, report, grown)

    def _kept_ahead(self, writer: RunWriter, kept: Behind) -> Iterator[bytes]:
        """Yield the rest of the source in pieces; `kept` keeps their bytes, those of the next AHEAD pieces already.

        The parser has most to do with the first pieces, from which it learns: the bytes of others are packed meanwhile.
        """
        packed = packed_as(self._head)
        keep = partial(self._keep_bytes, writer, Unpacker(packed) if packed else None, encoding_of(self._head))
        pieces: deque[bytes] = deque()
        for chunk in self._chunks():
            kept.do(partial(keep, chunk))
            pieces.append(chunk)
            if len(pieces) > AHEAD:
                yield pieces.popleft()
        while pieces:
            yield pieces.popleft()

    def _store_rows(self, writer: RunWriter, batches: list[Batch]) -> None:
        for batch in batches:
            writer.append(batch)

    def _keep_bytes(self, writer: RunWriter, unpacker: Unpacker | None, encoding: str, chunk: bytes) -> None:
        self._digest.update(chunk)
        for piece in unpacker.feed(chunk) if unpacker else (chunk,):
            writer.keep(piece, encoding)
        self._read += len(chunk)

    def _tell(self, writer: RunWriter) -> None:
        # Progress is told from the caller's thread: a page can only draw in its own.
        if self._progress and self._read:
            self._progress(self._read, max(self._size, self._read), writer.rows)

    def _finish(self, writer: RunWriter, reader: LogReader, *, must_hold: bool) -> dict[str, Any]:
        """Take the end of the log; return the state from which it can be continued, empty if it must be read again then."""
        state = reader.state()
        ended = reader.finish()
        for batch in ended:
            writer.append(batch)
        if must_hold and writer.rows == 0 and not writer.events:
            raise UnreadableLog("no_metrics", _nothing_found(reader.report()))
        # What the end alone gave (a line that is not complete yet) would be wrong once the log goes on.
        can_go_on = not ended and state.get("offset") == self._read
        return state if can_go_on else {}


def _nothing_found(report: ParseReport) -> Text:
    message = N_(
        "{lines} lines were read and none of them holds a training metric or a known event, so nothing was stored. "
        "Is it the training log? Lines such as 'step: 10 loss: 2.31' or JSON records with a loss can be read."
    )
    return Text(message, {"lines": report.lines})
