"""Which log a file belongs to: known by its path, by its inode, by its content, or new; and which lanes are one run."""

import hashlib
import os
import time
from dataclasses import replace

from messages import N_, Text
from storage.intake.feed import Fed
from storage.intake.files import LogFile, digest
from storage.intake.follow import Log
from storage.intake.places import Place, unrotated
from storage.intake.scan import Entry, Problem
from storage.keeping.sources import SETTLED, STREAM, Source
from storage.store import Store, UnknownRun

STRANGERS_SECONDS = 5.0  # between two looks for runs that were uploaded


class Origins:
    """Remembers what was read of which file; `logs` are those that are followed, by base.

    Of two files of one inode one is read, of two lanes of one rank and node the first. Content alone makes a file known
    when that which was read is gone from its path, or came by upload: a copy beside it is a log of its own.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self.logs: dict[str, Log] = {}
        self._sources: dict[str, list[Source]] = {}  # by run
        self._run_of_base: dict[str, str] = {}
        self._run_of_inode: dict[tuple[int, ...], str] = {}
        self._owner: dict[str, Log] = {}  # by run
        self._at_inode: dict[tuple[int, ...], tuple[Log, str]] = {}
        self._lanes: dict[tuple[str, int | None, str | None], Log] = {}
        self._runs_of_claim: dict[str, list[str]] = {}
        self._leads: set[str] = set()  # runs with rows that stand for their lanes
        self._strangers: tuple[float, list[tuple[str, str, int, int, str]]] = (0.0, [])
        for source in store.sources():
            self.remember(source)

    def log_of(self, path: str, entry: Entry, place: Place) -> Log | Problem:
        """Return the log that a file is or is an older piece of, or why it is not read. Raises OSError."""
        log = self.logs.get(place.base)
        if log is not None:
            return log
        twin = self._twin(path, entry)
        if twin is not None:
            return Problem("same_file", path, twin)
        run = self._run_of_base.get(place.base) or self._by_inode(path, entry)
        owner = self._owner.get(run) if run else None
        if owner is not None and owner.files:
            return owner  # an older piece of it under a name of its own
        rival = self._rival(place)
        if rival is not None:
            return Problem("claimed", path, rival)
        log = self.logs[place.base] = Log(place.base, place)
        self._lanes[_lane(place)] = log
        run = run or self._moved(path, place) or self._stranger(log, path)
        if run:
            self._take_over(log, run)
        return log

    def saw(self, log: Log, path: str, entry: Entry) -> None:
        """Note that a file of a log is new or changed."""
        log.changed(path, entry)
        self._at_inode[entry[2:]] = (log, path)

    def leave(self, log: Log) -> None:
        """Follow a log no more."""
        self.logs.pop(log.base, None)
        log.files = {}  # so that it is in nobody's way: another log may be made of the same files
        if log.run:
            self._owner.pop(log.run, None)

    def beside(self, log: Log) -> Source:
        """Return the source of a log that gets a run now: which run it is a lane of, and its number among the lanes."""
        place = log.place
        alone = Source("", 0, None, place.claim, log.base, place.rank, place.host)
        if not place.lane:
            return alone
        lanes = [self._sources[run][-1] for run in self._runs_of_claim.get(place.claim, [])]
        used = {lane.rank for lane in lanes if lane.rank is not None}
        job = next((lane.job or lane.run for lane in lanes), None)
        if place.rank is not None and place.rank not in used:
            return replace(alone, job=job)
        host = place.host if place.rank is None else f"{place.host or ''} rank {place.rank}".strip()
        return replace(alone, job=job, rank=max(used, default=-1) + 1, host=host)

    def fed(self, log: Log, fed: Fed) -> None:
        """Remember what was read; a lane that trains leads its run if the one that leads has no row."""
        run = fed.source.run
        self.remember(fed.source)
        self._owner[run], log.sources = log, self._sources[run]
        if not fed.rows:
            return
        if fed.source.job is None:
            self._leads.add(run)
        elif fed.source.job not in self._leads:
            self._lead(run, fed.source.job)

    def reload(self, log: Log) -> None:
        """Take what the store says of a log for what was read of it; a run that the store does not have was never read."""
        run = log.run
        if run is None:
            return
        log.sources = [source for source in self._store.sources(run) if source.run == run]
        if log.sources:
            self._sources[run] = log.sources
        else:
            self._forget(run)

    def remember(self, source: Source) -> None:
        """Know how far a source was read."""
        sources = self._sources.setdefault(source.run, [])
        sources[source.generation : source.generation + 1] = [source]
        self._run_of_inode[(source.device, source.inode)] = source.run
        if source is sources[-1]:
            self._run_of_base[unrotated(source.path)] = source.run
        runs = self._runs_of_claim.setdefault(source.claim, [])
        if source.run not in runs:
            runs.append(source.run)

    def _forget(self, run: str) -> None:
        self._sources.pop(run, None)
        self._owner.pop(run, None)
        self._leads.discard(run)
        self._run_of_base = {base: other for base, other in self._run_of_base.items() if other != run}
        self._run_of_inode = {inode: other for inode, other in self._run_of_inode.items() if other != run}
        for runs in self._runs_of_claim.values():
            if run in runs:
                runs.remove(run)

    def _lead(self, run: str, instead_of: str) -> None:
        if self._has_rows(instead_of):
            self._leads.add(instead_of)
            return
        self._store.let_lead(run, instead_of)
        self._leads.add(run)
        for source in self._store.sources(run):
            self.remember(source)
        for lane in {source.run for source in self._store.sources(run)}:
            if lane in self._owner:
                self._owner[lane].sources = self._sources[lane]

    def _has_rows(self, run: str) -> bool:
        return any(lane.rows for lane in self._store.lanes(run) if lane.run == run)

    # Known or not

    def _by_inode(self, path: str, entry: Entry) -> str | None:
        run = self._run_of_inode.get(entry[2:])
        if run is None:
            return None
        with LogFile(path) as file:
            return run if any(file.same(source) for source in self._sources[run]) else None

    def _twin(self, path: str, entry: Entry) -> Text | None:
        """Return that a file is followed already under another path."""
        log, other = self._at_inode.get(entry[2:], (None, ""))
        if log is None or other not in log.files or log.files[other][2:] != entry[2:]:
            return None
        return Text(N_("{path} is the same file as {other}; it is read once."), {"path": path, "other": other})

    def _rival(self, place: Place) -> Text | None:
        """Return why another log is in the place of a lane already."""
        if not place.lane:
            return None
        other = self._lanes.get(_lane(place))
        if other is None or not other.files:
            return None
        message = N_(
            "{path} would be the same lane of the run {run} as {other}, which is read already. "
            "Give the rule a rank or a host that tells them apart, or leave one out."
        )
        return Text(message, {"path": place.base, "run": place.name, "other": other.base})

    def _moved(self, path: str, place: Place) -> str | None:
        """Return the run of a log that is gone from its path and whose content this file has."""
        gone = [
            sources[-1]
            for run, sources in self._sources.items()
            if not place.lane and sources[-1].job is None and sources[-1].offset and not self._lives(run)
        ]
        if not gone:
            return None
        with LogFile(path) as file:
            begins = file.begins()
            heads = {size: digest(begins[:size]) for size in {source.head_bytes for source in gone}}
            found = (source for source in gone if heads[source.head_bytes] == source.head and not os.path.exists(source.path))
            return next((source.run for source in found if file.same(source)), None)

    def _lives(self, run: str) -> bool:
        return run in self._owner and bool(self._owner[run].files)

    def _stranger(self, log: Log, path: str) -> str | None:
        """Return the run that was uploaded with this content or the beginning of it, and note where it comes from."""
        checked, strangers = self._strangers
        if time.monotonic() - checked > STRANGERS_SECONDS:
            strangers = self._store.without_source()
            self._strangers = (time.monotonic(), strangers)
        if not strangers:
            return None
        with LogFile(path) as file:
            head = file.begins(raw=True)
            for run, run_head, head_bytes, size, fingerprint in strangers:
                if run in self._sources or file.size < size or digest(head[:head_bytes]) != run_head:
                    continue
                if _sha256(file, size) == fingerprint and (not file.packed or file.size == size):
                    mode = STREAM if self._store.reader_state(run) else SETTLED
                    source = file.read_to(replace(self.beside(log), run=run, path=path, mode=mode), size)
                    self._store.note_source(source)
                    self.remember(source)
                    return run
        return None

    def _take_over(self, log: Log, run: str) -> None:
        before = self._owner.get(run)
        if before is not None:
            self.logs.pop(before.base, None)
        self._owner[run] = log
        log.sources = self._sources[run]


def holder(store: Store, path: str) -> Source | None:
    """Return the file or stream that was read and holds exactly what this file does, or of which this is the beginning."""
    sources = [source for source in store.sources() if source.offset and source.head]
    with LogFile(path) as file:
        begins = file.begins()
        heads = {size: digest(begins[:size]) for size in {source.head_bytes for source in sources}}
        alike = (source for source in sources if heads[source.head_bytes] == source.head)
        return next((source for source in alike if file.same(source) and is_there(store, source)), None)


def is_there(store: Store, source: Source) -> bool:
    """Say whether the run that a source feeds is there: not deleted."""
    try:
        store.run(source.job or source.run)
    except UnknownRun:
        return False
    return True


def _lane(place: Place) -> tuple[str, int | None, str | None]:
    return place.claim, place.rank, place.host


def _sha256(file: LogFile, size: int) -> str:
    found = hashlib.sha256()
    for piece in file.pieces(raw=True):
        found.update(piece[:size])
        size -= min(size, len(piece))
    return found.hexdigest()
