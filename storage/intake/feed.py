"""Logs that grow into runs that grow: what comes next of a log, its rows and how far it was read, in one transaction.

A log gets a run when it gives its first row or event, not before: what holds neither is no training log.
"""

from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any

import pyarrow as pa

from messages import N_, Text
from storage.keeping.group import Group
from storage.keeping.sources import SETTLED, STREAM, WHOLE, Source
from storage.keeping.writer import RunWriter
from storage.reader import LogReader, can_go_on
from storage.store import Store
from storage.types import Batch, UnreadableLog

MAX_READERS = 256  # kept between the pieces of a log; others are made again from their state


@dataclass(frozen=True)
class Fed:
    """What a transaction brought: the source as it is now (with its run), and how many rows and events."""

    source: Source
    rows: int
    events: int


@dataclass(frozen=True)
class Found:
    """What was found in a log that is not stored yet: the reader behind it, rows and events, how to go on (see Source)."""

    reader: LogReader
    batches: list[Batch]
    state: dict[str, Any]
    mode: str

    def __bool__(self) -> bool:
        return any(batch.rows.num_rows or batch.events for batch in self.batches)


class Feeder:
    """Feeds the runs of a store. Not thread-safe: one feeder for one thread, and one for a run at a time.

    After an error nothing of the piece is stored, and the same piece can be fed again.
    """

    def __init__(self, store: Store) -> None:
        self.store = store
        self._readers: OrderedDict[str, LogReader] = OrderedDict()
        self._writer = store.writer

    @contextmanager
    def together(self) -> Iterator[Group]:
        """Bring what is fed in the block into the store at once at its end, or nothing of it."""
        with self.store.together() as group:
            self._writer = group.writer
            try:
                yield group
            finally:
                self._writer = self.store.writer

    def feed(self, pieces: Iterable[bytes], after: Source, *, late: bool = False) -> Fed:
        """Bring the next pieces into the run of `after`, which says where the source stands behind them.

        A settled log is read again from what was kept of it (unless it is not kept any more: then the run only goes on);
        should that give less than before, its end is taken again. `late`: the run has gone on to another file since.
        """
        reader, again = self._reader(after)
        held = self.store.run(after.run).rows if again else 0
        with self._writer(after.run, replace=again) as writer:
            held = held if again else writer.rows
            kept = self.store.original(after.run) if again else ()
            for piece in chain(kept, pieces):
                _read(writer, reader, piece, after.rank)
            settled = again and writer.rows < held
            if settled:
                _append(writer, reader.finish(), after.rank)
            mode, state = (SETTLED, {}) if settled else (STREAM, reader.state())
            fed = _commit(writer, reader, replace(after, mode=mode), state, before=held, late=late)
        if not settled:
            self._keep(after.run, reader)
        return fed

    def _reader(self, after: Source) -> tuple[LogReader, bool]:
        """Return the reader that goes on with the run of `after`, and whether it must read all that was kept first.

        Raises UnreadableLog when it must, and not everything is kept.
        """
        reader = self._take(after.run)
        if reader is not None and after.mode != SETTLED:
            return reader, False
        state = self.store.reader_state(after.run)
        if after.mode != SETTLED and can_go_on(state):
            return LogReader(after.path, state=state), False
        if self.store.all_kept(after.run):
            return LogReader(after.path), True
        if after.mode == SETTLED:
            return reader or LogReader(after.path), False
        message = N_(
            "This log was read by an older version of Runvitals, which can't be gone on from, and its first lines are not kept "
            "any more. Delete the run: then its file is read anew."
        )
        raise UnreadableLog("old_state", Text(message))

    def probe(self, log: str, pieces: Iterable[bytes]) -> "Found | None":
        """Read the next pieces of a log that has no run yet; return what they hold, empty if that is nothing.

        None: this feeder has forgotten what came before. Begin again with the first byte (`probe_new`).
        """
        reader = self._take(log)
        if reader is None:
            return None
        batches = [batch for piece in pieces for batch in reader.feed(piece)]
        self._keep(log, reader)
        return Found(reader, batches, reader.state(), STREAM)

    def probe_new(self, log: str) -> None:
        """Begin to probe a log from its first byte."""
        self._keep(log, LogReader(log))

    def probe_end(self, log: str, rest: Iterable[bytes], everything: Iterable[bytes]) -> "Found":
        """Return what a log that was probed holds if it ends with `rest`; `everything` is read if that was forgotten."""
        reader = self._take(log)
        return _to_end(reader, rest) if reader else _to_end(LogReader(log), everything)

    def begin(self, found: "Found", content: Iterable[bytes], after: Source, name: str) -> Fed:
        """Make a run, called `name`, of what was found in all the content of a log so far."""
        with self._writer(name=name, source=after.path) as writer:
            fed = _put(writer, found, content, after)
        if fed.source.mode == STREAM:
            self._keep(fed.source.run, found.reader)
        return fed

    def again(self, content: Callable[[], Iterable[bytes]], after: Source) -> Fed | None:
        """Put what a document holds now in the place of what its run held; None (and no change) if it holds nothing."""
        found = _to_end(LogReader(after.path), content())
        if not found:
            return None
        with self._writer(after.run, replace=True) as writer:
            return _put(writer, found, content(), after)

    def settle(self, rest: Iterable[bytes], after: Source) -> Fed | None:
        """Take the end of a log that has been quiet for a while: its last line may have no end, rows may have waited.

        Returns None, and nothing is changed, if that gives nothing.
        """
        reader, again = self._reader(after)
        if again:
            return self._settle_again(reader, rest, after)
        rest = list(rest)
        found = replace(_to_end(reader, rest), mode=SETTLED, state={})
        if not found:
            return None
        with self._writer(after.run) as writer:
            return _put(writer, found, rest, after)

    def _settle_again(self, reader: LogReader, rest: Iterable[bytes], after: Source) -> Fed | None:
        """Take the end of a log that is read again from what was kept of it."""
        held = self.store.run(after.run).rows
        with self._writer(after.run, replace=True) as writer:
            for piece in chain(self.store.original(after.run), rest):
                _read(writer, reader, piece, after.rank)
            _append(writer, reader.finish(), after.rank)
            if writer.rows == held and not writer.events:
                return None
            return _commit(writer, reader, replace(after, mode=SETTLED), {}, before=held)

    def forget(self, key: str) -> None:
        """Let go of the reader of a run or log."""
        self._readers.pop(key, None)

    def _take(self, key: str) -> LogReader | None:
        # Out of the cache while it is used: after an error it is not where the store is.
        return self._readers.pop(key, None)

    def _keep(self, key: str, reader: LogReader) -> None:
        self._readers[key] = reader
        if len(self._readers) > MAX_READERS:
            self._readers.popitem(last=False)


def _read(writer: RunWriter, reader: LogReader, piece: bytes, rank: int | None) -> None:
    _append(writer, reader.feed(piece), rank)
    writer.keep(piece, reader.report().encoding)


def _append(writer: RunWriter, batches: Iterable[Batch], rank: int | None) -> None:
    for batch in batches:
        writer.append(Batch(stamped(batch.rows, rank), batch.events))


def _to_end(reader: LogReader, pieces: Iterable[bytes]) -> Found:
    """Return what the last pieces of a log hold."""
    batches = [batch for piece in pieces for batch in reader.feed(piece)]
    state, end = reader.state(), reader.finish()
    mode = WHOLE if reader.state().get("fresh") else SETTLED if end else STREAM
    return Found(reader, batches + end, state if mode == STREAM else {}, mode)


def _put(writer: RunWriter, found: Found, content: Iterable[bytes], after: Source) -> Fed:
    """Store what was found in a log, and its content."""
    before = writer.rows
    _append(writer, found.batches, after.rank)
    encoding = found.reader.report().encoding
    for piece in content:
        writer.keep(piece, encoding)
    return _commit(writer, found.reader, replace(after, mode=found.mode), found.state, before=before)


def _commit(
    writer: RunWriter, reader: LogReader, source: Source, state: dict[str, Any], *, before: int = 0, late: bool = False
) -> Fed:
    rows, events = writer.rows - before, writer.events
    writer.came_from(source)
    writer.commit(report=reader.report(), offset=None if late else source.offset, reader_state=state)
    return Fed(replace(source, run=writer.run_id), rows, events)


def stamped(rows: pa.Table, rank: int | None) -> pa.Table:
    """Return rows with the rank of their lane where the line printed none."""
    if rank is None or not rows["rank"].null_count:
        return rows
    return rows.set_column(rows.column_names.index("rank"), "rank", rows["rank"].fill_null(pa.scalar(rank, pa.int32())))
