"""Logs that are sent instead of being read from a file: each has a name, and the place up to which it has come."""

import hashlib
import threading
import time
from contextlib import closing
from dataclasses import dataclass, field, replace

from messages import N_, Text
from storage.intake.feed import Fed, Feeder, Found
from storage.intake.files import HEAD_BYTES, digest
from storage.keeping.sources import STREAM, Source
from storage.reader import LogReader
from storage.reading.unpack import packed_as
from storage.store import Store

PREFIX = "stream:"
REST_SECONDS = 10.0  # after which the unfinished end of a stream is taken as its end
MAX_NAME = 200


class Refused(Exception):
    """What is sent can't be taken; `code` is one word, `offset` the place at which the sender should go on."""

    def __init__(self, code: str, message: Text, offset: int) -> None:
        super().__init__(message.render())
        self.code = code
        self.message = message
        self.offset = offset


@dataclass
class Stream:
    """What is known of one stream in this process. `sender` is who may add to it now; `seen` when it was added to."""

    source: Source
    name: str
    lock: threading.Lock = field(default_factory=threading.Lock)
    sender: object = None
    seen: float = field(default_factory=time.monotonic)
    open_end: bool = False


class Streams:
    """All streams of a store. Thread-safe; `feeder` has a lock of each stream around it."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._streams: dict[tuple[str, int | None, str | None], Stream] = {}
        self._lock = threading.Lock()

    def get(self, name: str, *, rank: int | None = None, host: str | None = None) -> Stream:
        """Return a stream by its name (or the id of its run), and of which lane; one that is new has no run yet."""
        name, claim, lanes = self._find(name)
        with self._lock:
            key = (claim, rank, host)
            if key not in self._streams:
                mine = [source for source in lanes if (source.rank, source.host) == (rank, host)]
                job = next((source.job or source.run for source in lanes), None)
                new = Source("", 0, job, claim, claim, rank, host)
                self._streams[key] = Stream(mine[-1] if mine else new, name)
            return self._streams[key]

    def _find(self, name: str) -> tuple[str, str, list[Source]]:
        claim = PREFIX + name[:MAX_NAME]
        lanes = self._store.sources(claim=claim)
        if lanes:
            return name, claim, lanes
        mine = [source for source in self._store.sources(name) if source.run == name]
        if mine and not mine[0].claim.startswith(PREFIX):
            message = N_("Run {run} is read from the file {path}. What is sent must have a name of its own.")
            raise Refused("claimed", Text(message, {"run": name, "path": mine[-1].path}), mine[-1].offset)
        if mine:
            return mine[0].claim.removeprefix(PREFIX), mine[0].claim, self._store.sources(claim=mine[0].claim)
        return name, claim, []

    def rest(self, *, at_once: bool = False) -> list[str]:
        """Take the ends of streams to which nothing was added for a while; return the runs that this gave something."""
        now = time.monotonic()
        with self._lock:
            resting = [stream for stream in self._streams.values() if stream.open_end]
        return [
            stream.source.run for stream in resting if (at_once or now - stream.seen > REST_SECONDS) and self.settle(stream)
        ]

    def forget(self, stream: Stream) -> None:
        """Take nothing that is known of a stream for granted: its run is gone."""
        with self._lock:
            self._streams = {key: known for key, known in self._streams.items() if known is not stream}

    def end(self, sending: "Sending") -> tuple[str | None, bool]:
        """Take the end of what was sent as its end; return its run, and whether all of it was here before as that run.

        What was sent whole and holds nothing is not kept: the run is then None.
        """
        stream, store = sending.stream, self._store
        self.settle(stream)
        run, whole = stream.source.run, sending.whole
        if not run or whole is None:
            return run or None, False
        if not store.run(run).rows and not store.events(run):
            self._drop(stream)
            return None, False
        known = store.find_by_fingerprint(whole[0])
        if known is not None and known != run:
            self._drop(stream)
            return known, True
        with stream.lock, store.writer(run) as writer:
            writer.commit(fingerprint=whole[0], head=whole[1:])
        return run, False

    def _drop(self, stream: Stream) -> None:
        self._store.delete_run(stream.source.run)
        self.forget(stream)

    def settle(self, stream: Stream) -> bool:
        """Take the end of a stream as its end; say whether that gave anything. It can go on all the same."""
        with stream.lock:
            stream.open_end = False
            if not stream.source.run or stream.source.mode != STREAM:
                return False
            fed = Feeder(self._store).settle((), stream.source)
            stream.source = fed.source if fed else stream.source
            return fed is not None


class Sending:
    """One request that adds to a stream, from `offset` on (None: at its end). A later request takes its place.

    What was sent before and is sent again is compared with what is kept, and not stored twice. Raises Refused.
    """

    def __init__(self, store: Store, stream: Stream, offset: int | None = None) -> None:
        self.stream = stream
        self._store = store
        self._feeder = Feeder(store)
        self._digest, self._head = hashlib.sha256(), b""
        with stream.lock:
            at = stream.source.offset
            self._new = at == 0
            if offset is not None and offset > at:
                message = N_("{offset} bytes are here, so the log goes on at byte {offset}, not at {sent}.")
                raise Refused("wrong_offset", Text(message, {"offset": at, "sent": offset}), at)
            stream.sender = self
        self._at = at if offset is None else offset
        if self._at < at and not store.all_kept(stream.source.run):
            message = N_("What is sent again can't be compared: it is not kept any more. The log goes on at byte {offset}.")
            raise Refused("wrong_offset", Text(message, {"offset": at}), at)

    @property
    def source(self) -> Source:
        """The stream as it is now."""
        return self.stream.source

    @property
    def whole(self) -> tuple[str, str, int] | None:
        """SHA-256 of all of the log, SHA-256 and size of its head, if this request has sent all of it."""
        if not self._new or self._at != self.stream.source.offset:
            return None
        return self._digest.hexdigest(), digest(self._head), len(self._head)

    def add(self, data: bytes) -> int:
        """Store the next bytes in one transaction; return how many rows and events they gave."""
        stream = self.stream
        with stream.lock:
            if stream.sender is not self:
                message = N_("Another sender has taken over this log; it has come to byte {offset}.")
                raise Refused("superseded", Text(message, {"offset": stream.source.offset}), stream.source.offset)
            data = self._new_of(data)
            if not data:
                return 0
            after = replace(stream.source, offset=stream.source.offset + len(data))
            fed = self._feeder.feed([data], after) if after.run else self._begin(data, after)
            stream.source, stream.seen, stream.open_end = fed.source, time.monotonic(), True
            return fed.rows + fed.events

    def _new_of(self, data: bytes) -> bytes:
        """Return what of the next bytes is not here yet."""
        self._digest.update(data)
        self._head += data[: HEAD_BYTES - len(self._head)]
        known = data[: self.stream.source.offset - self._at]
        if known and not self._is_kept(known):
            at = self.stream.source.offset
            message = N_(
                "What is sent again differs from what is here. The log goes on at byte {offset}; or give it another name."
            )
            raise Refused("differs", Text(message, {"offset": at}), at)
        self._at += len(data)
        return data[len(known) :]

    def _is_kept(self, data: bytes) -> bool:
        with closing(self._store.original(self.stream.source.run, self._at)) as pieces:
            for piece in pieces:
                if data[: len(piece)] != piece[: len(data)]:
                    return False
                data = data[len(piece) :]
                if not data:
                    return True
        return False

    def _begin(self, data: bytes, after: Source) -> Fed:
        if packed_as(data):
            message = N_("What is sent is a packed file. Send it with the header Content-Encoding: gzip, or unpack it first.")
            raise Refused("packed", Text(message), 0)
        # A run at once, even if it holds nothing yet: unlike a file, what was sent can't be had again.
        reader = LogReader(self.stream.name)
        found = Found(reader, reader.feed(data), reader.state(), STREAM)
        return self._feeder.begin(found, [data], after, self.stream.name)
