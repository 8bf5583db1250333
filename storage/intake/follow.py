"""One log that is followed: its file and the older pieces of it, and what to do when it grows, turns or starts anew.

A log is a path. What is written there goes into one run, whatever happens to the file: rotated (renamed or copied, packed
or not), truncated, deleted and made again. Each such turn begins another generation of the same run, after the one before
was read to its end where it still lies. A training that starts anew under the path shows as a further launch of the run.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from storage.intake.feed import Fed, Feeder, Found
from storage.intake.files import LogFile, Next
from storage.intake.places import Place, age_order
from storage.intake.scan import Entry, Problem
from storage.keeping.sources import SETTLED, WHOLE, Source

PROBE_BYTES, BUDGET_BYTES = 1 << 20, 8 << 20  # read at a time: to see whether it is a log at all; in one transaction
LATE_SECONDS = 10.0  # for what a network file system shows as zeros to arrive
# To take the unfinished end of a log as its end costs reading the log again should it go on: 10 s, and 10 s a MB.
QUIET_SECONDS, QUIET_BYTES = 10.0, 100_000
QUIET_NEW_SECONDS = 2.0  # for a log that has no run yet: there is nothing to be read again


@dataclass
class Log:
    """A log and how far it was read. `sources` are its generations, none while it has no run.

    `files` are its file and older pieces as they were seen last, `known` which generation they held then, `done` how they
    were when they were read to their end. `dirty`: it is to be looked at in the next poll, `more`: at once; `open_end`: its
    end was not taken yet. `seen` is when it changed last (monotonic seconds), `grew` the same without
    its first sight, `since` when it changed first after it was read. `problem` is what keeps it from being read.
    """

    base: str
    place: Place
    files: dict[str, Entry] = field(default_factory=dict)
    known: dict[str, tuple[Entry, int | None]] = field(default_factory=dict)
    done: dict[str, Entry] = field(default_factory=dict)
    sources: list[Source] = field(default_factory=list)
    unborn: Source | None = None
    dirty: bool = True
    more: bool = False
    open_end: bool = True
    seen: float = field(default_factory=time.monotonic)
    since: float = 0.0
    grew: float | None = None
    problem: Problem | None = None
    shrunk: bool = False
    hole_since: float | None = None

    @property
    def run(self) -> str | None:
        """The run that it feeds."""
        return self.sources[-1].run if self.sources else None

    @property
    def behind(self) -> int:
        """Bytes of its file that were not read yet, about."""
        size = self.files[self.base][0] if self.base in self.files else 0
        last = self.sources[-1] if self.sources else self.unborn
        return max(0, size - last.offset) if last and last.path == self.base else size

    def chain(self) -> list[str]:
        """Return its older pieces, the oldest first, and last its file."""
        return sorted(self.files, key=lambda path: (path == self.base, age_order(path, self.files[path][1])))

    def changed(self, path: str, entry: Entry) -> None:
        """Note that a file of it is new or changed."""
        self.seen = time.monotonic()
        self.since = self.since if self.dirty and self.files else self.seen
        self.grew = self.seen if path in self.files else self.grew
        self.files[path] = entry
        self.dirty = self.open_end = True

    def quiet(self, now_ns: int) -> bool:
        """Say whether it has not changed for so long that its end can be taken.

        `now_ns` is the wall clock. One that jumps makes it sooner or later, which costs reading again at most.
        """
        size, changed = self.files[self.base][:2] if self.base in self.files else (0, now_ns)
        idle = max(time.monotonic() - self.seen, (now_ns - changed) / 1e9)
        return idle >= (QUIET_SECONDS + size / QUIET_BYTES if self.sources else QUIET_NEW_SECONDS)


class Follower:
    """Reads what logs have to give. `beside` gives a log that gets a run its place beside others: job, rank and host."""

    def __init__(self, feeder: Feeder, beside: Callable[[Log], Source]) -> None:
        self._feeder = feeder
        self._beside = beside

    def advance(self, log: Log) -> list[Fed]:
        """Read what comes next in a log, about BUDGET_BYTES a file, and say what it gave."""
        log.dirty = log.more = False
        if not log.files:
            return []
        if not log.sources:
            return self._probe(log)
        if log.sources[-1].mode == WHOLE or self._just_shrunk(log):
            return []
        return self._go_on(log)

    def settle(self, log: Log) -> list[Fed]:
        """Take the end of a log that has been quiet."""
        log.open_end = False
        path = log.base if log.base in log.files else next(reversed(log.chain()), None)
        if path is None:
            return []
        with LogFile(path) as file:
            if not file.size:
                return []
            if not log.sources:
                return self._end_of_unborn(log, file)
            last = log.sources[-1]
            if last.mode == WHOLE:
                if (file.device, file.inode, file.changed) == (last.device, last.inode, last.changed):
                    return []
                return self._noted(log, self._feeder.again(file.text, file.all(last)))
            rest = None if last.mode == SETTLED else file.next(last, BUDGET_BYTES, whole=True)
            return self._noted(log, self._feeder.settle(rest.pieces, rest.source)) if rest and not rest.more else []

    # A log without a run

    def _probe(self, log: Log) -> list[Fed]:
        """Look for something to store; make the run when there is."""
        chain = log.chain()
        if log.unborn is None or log.unborn.path not in chain:
            log.unborn = self._new(log, chain[0])
        if log.unborn.offset == 0:
            self._feeder.probe_new(log.base)
        with LogFile(log.unborn.path) as file:
            come = self._next(log, file, log.unborn, PROBE_BYTES)
            found = self._feeder.probe(log.base, come.pieces) if come else None
            if come is None or found is None:
                log.unborn, log.dirty = None, True
                return []
            log.more = come.more
            if found:
                log.more = log.more or file.path != chain[-1]
                return self._born(log, file, found, come.source)
        later = chain[chain.index(come.source.path) + 1 :]
        begin_next = bool(later) and not come.size and not come.hole
        log.unborn = self._new(log, later[0]) if begin_next else come.source
        log.more = log.more or (bool(later) and not come.hole)
        return []

    def _born(self, log: Log, file: LogFile, found: Found, source: Source) -> list[Fed]:
        """Make the run of a log in which something was found, up to `source`."""
        place = self._new(log, file.path)
        source = replace(source, job=place.job, rank=place.rank, host=place.host)
        self._feeder.forget(log.base)
        return self._noted(log, self._feeder.begin(found, file.text(source.offset), source, log.place.name))

    def _end_of_unborn(self, log: Log, file: LogFile) -> list[Fed]:
        rest = file.next(log.unborn, BUDGET_BYTES, whole=True) if log.unborn and log.unborn.path == file.path else None
        if rest is None:
            self._feeder.forget(log.base)
        log.unborn = None
        found = self._feeder.probe_end(log.base, rest.pieces if rest else (), file.text())
        return self._born(log, file, found, file.all(self._new(log, file.path))) if found else []

    def _new(self, log: Log, path: str) -> Source:
        return replace(self._beside(log), path=path)

    # A log with a run

    def _go_on(self, log: Log) -> list[Fed]:
        """Read on in every file that holds something of this log; then turn to the files that came after."""
        chain, last = log.chain(), log.sources[-1].generation
        held = {path: self._generation(log, path) for path in chain}
        fed: list[Fed] = []
        for path, generation in held.items():
            if generation is not None and (path != log.base or generation == last):
                fed += self._feed(log, path, log.sources[generation])
        at = max((place for place, path in enumerate(chain) if held[path] == last), default=None)
        if log.more or log.dirty or at == len(chain) - 1:
            return fed
        if fed and at is not None:
            log.dirty = True  # one poll more: its writer may not have turned to the new file yet
            return fed
        if at is None:
            changed = log.sources[-1].changed
            new = [path for path in chain if path == log.base or log.files[path][1] > changed]
        else:
            fed += self._end_line(log, chain[at])
            new = chain[at + 1 :]
        for path in new:
            if held[path] is None and not log.more:
                fed += self._turn(log, path)
        return fed

    def _just_shrunk(self, log: Log) -> bool:
        """Say whether the file is shorter than what was read of it, for the first time: an old size may have been shown."""
        entry, last = log.files.get(log.base), log.sources[-1]
        same = entry is not None and entry[2:] == (last.device, last.inode) and not _packed(log.base)
        shrunk = same and entry is not None and entry[0] < last.offset
        log.dirty = shrunk and not log.shrunk
        log.shrunk = shrunk
        return log.dirty

    def _generation(self, log: Log, path: str) -> int | None:
        """Return the number of the generation that a file holds, None if it holds another content."""
        entry, (before, generation) = log.files[path], log.known.get(path, (None, None))
        if before != entry:
            newest_first = log.sources[::-1]
            generation = next((source.generation for source in newest_first if entry == _as_read(source)), None)
            if generation is None:
                with LogFile(path) as file:
                    generation = next((source.generation for source in newest_first if file.same(source)), None)
            log.known[path] = (entry, generation)
        return generation

    def _feed(self, log: Log, path: str, source: Source) -> list[Fed]:
        """Feed what a file holds behind a source."""
        entry = log.files[path]
        if log.done.get(path) == entry or entry == _as_read(source):
            return []
        with LogFile(path) as file:
            found = self._next(log, file, source, BUDGET_BYTES)
            if found is None:  # it changed a moment ago
                log.known.pop(path, None)
                log.dirty = True
                return []
            log.more = log.more or found.more
            if not found.more and not found.hole:
                log.done[path] = entry
            late = source.generation != log.sources[-1].generation
            return self._noted(log, self._feeder.feed(found.pieces, found.source, late=late)) if found.size else []

    def _end_line(self, log: Log, path: str) -> list[Fed]:
        """Give the last line of an older piece an end: the next piece begins with a line of its own."""
        with LogFile(path) as file:
            rest = file.next(log.sources[-1], BUDGET_BYTES, whole=True)
            return self._noted(log, self._feeder.feed([*rest.pieces, b"\n"], rest.source)) if rest and rest.size else []

    def _turn(self, log: Log, path: str) -> list[Fed]:
        """Begin the next generation with a file."""
        last = log.sources[-1]
        fresh = replace(last, generation=last.generation + 1, path=path, head="", head_bytes=0, tail="", crc=None, offset=0)
        with LogFile(path) as file:
            found = self._next(log, file, fresh, BUDGET_BYTES)
            if found is None or not found.size:
                return []
            log.more = log.more or found.more
            log.known.pop(path, None)
            return self._noted(log, self._feeder.feed(found.pieces, found.source))

    def _next(self, log: Log, file: LogFile, source: Source, budget: int) -> Next | None:
        """Return what comes next in a file; what shows as zeros is waited for, but not for ever."""
        late = log.hole_since is not None and time.monotonic() - log.hole_since >= LATE_SECONDS
        found = file.next(source, budget, through_hole=late)
        waits = found is not None and found.hole and not found.size
        if not waits:
            log.hole_since = None
        elif log.hole_since is None:
            log.hole_since = time.monotonic()
        log.dirty = log.dirty or waits
        return found

    def _noted(self, log: Log, fed: Fed | None) -> list[Fed]:
        if fed is None:
            return []
        log.sources[fed.source.generation : fed.source.generation + 1] = [fed.source]
        log.unborn = log.problem = None
        return [fed]


def _as_read(source: Source) -> Entry:
    """Return how the file of a source looks while nothing was added (never so for a packed one)."""
    return source.offset, source.changed, source.device, source.inode


def _packed(path: str) -> bool:
    return path.endswith((".gz", ".zst"))
