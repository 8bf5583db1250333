"""Folders that are watched: every second it is seen what changed in them, and what logs have to give goes into the store.

Polled by size, time and identity (inode and fingerprints), for notifications do not come from network file systems. One
thread does all of it. What is watched and how far each file was read stands in the store, so a restart goes on.
"""

import logging
import os
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from itertools import groupby

from messages import N_, Text
from storage.intake import folders
from storage.intake.feed import Fed, Feeder
from storage.intake.folders import Folder, FolderStatus, Wanted, folder_of, only, order, status_of, would_be_log
from storage.intake.follow import BUDGET_BYTES, Follower, Log
from storage.intake.origins import Origins
from storage.intake.places import unrotated
from storage.intake.scan import Entry, Problem, Scan, scan, unreadable
from storage.keeping.group import Group
from storage.keeping.sources import STREAM, Source, Watched
from storage.store import Store, StoreError, UnknownRun
from storage.types import UnreadableLog

LOG = logging.getLogger("runvitals.watch")
LITTLE_BYTES = 1 << 16  # that a log has to give at most to share a transaction with others
GROUP_LOGS, GROUP_BYTES = 64, 4 << 20  # that share a transaction at most: so much is read again should it fail
TURN_SECONDS = 0.25  # for logs that changed, before it is seen which others have: none is kept waiting for a whole round
STATUS_SECONDS = 1.0  # between two times that people are told
SETTLE_SECONDS = 0.2  # of a poll are given to logs that have come to rest
SCAN_SHARE = 0.2  # of its time the watcher may look into folders: a folder of 100,000 files is polled less often
GLANCE_SECONDS = 0.25  # between two looks at those files alone that grow
GLANCE_SHARE = 0.25  # of a core may go into what is seen at a glance: else a log of many lines is read line by line
GROWS_SECONDS = 60.0  # since its last change that a file counts as one that grows


class Watcher:
    """Watches what the store and the environment (`fixed`) say. `on_rows` hears of runs that got rows or events, `on_poll`
    is called after each poll of the thread; `stored`: watch what is set in the store too.

    Use `start` and `stop` for the thread, or `poll` and `drain` without it.
    """

    def __init__(
        self,
        store: Store,
        fixed: Iterable[Watched] = (),
        *,
        seconds: float = 1.0,
        on_rows: Callable[[list[str]], None] | None = None,
        on_poll: Callable[[], None] | None = None,
        stored: bool = True,
    ) -> None:
        self._store = store
        self._own = str(store.data_dir.resolve())
        self._fixed = {watched.folder: Wanted(watched, fixed=True) for watched in fixed}
        self._others: frozenset[Wanted] = frozenset()
        self._stored = stored
        self._seconds = seconds
        self._on_rows = on_rows
        self._on_poll = on_poll
        self._feeder = Feeder(store)
        self._origins = Origins(store)
        self._follower = Follower(self._feeder, self._origins.beside)
        self._folders: dict[Wanted, Folder] = {}
        self._stop, self._wake = threading.Event(), threading.Event()
        self._thread: threading.Thread | None = None
        self._polling = threading.Lock()
        self._failure: Problem | None = None
        self._waiting: dict[str, Log] = {}
        self._open: dict[str, Log] = {}
        self._growing: dict[str, Folder] = {}
        self._told = 0.0
        self.status: tuple[FolderStatus, ...] = ()

    # The thread

    def start(self) -> None:
        """Begin to watch in a thread of its own."""
        self._thread = threading.Thread(target=self._run, name="watch", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """End the thread after the transaction it is in."""
        self._stop.set()
        self._wake.set()
        if self._thread is not None:
            self._thread.join()

    def look(self) -> None:
        """Poll at once: something was set."""
        self._wake.set()

    def _run(self) -> None:
        while not self._stop.is_set():
            began = time.monotonic()
            try:
                more = self.poll()
                if self._on_poll:
                    self._on_poll()
                scanned = sum(folder.seconds for folder in self._folders.values())
                pause = max(self._seconds - (time.monotonic() - began), scanned * (1 / SCAN_SHARE - 1), 0.02)
                if not more:
                    self._glance_until(time.monotonic() + pause)
            except Exception as error:  # the next poll may succeed; no error ends the watch
                LOG.exception("A poll failed")
                self._failed(error)
                self._wake.wait(self._seconds)
            self._wake.clear()

    def _glance_until(self, end: float) -> None:
        """Glance now and then until a time (monotonic seconds), until there is more to read or somebody wakes the thread."""
        pause, more = GLANCE_SECONDS, False
        while not more and not self._wake.wait(min(pause, max(0.0, end - time.monotonic()))):
            if time.monotonic() >= end:
                return
            used = time.thread_time()
            more = self.glance()
            pause = max(GLANCE_SECONDS, (time.thread_time() - used) * (1 / GLANCE_SHARE - 1))

    # One poll

    def poll(self, *, at_rest: bool = False) -> bool:
        """Look once at everything that is watched; return whether there is more to read at once.

        `at_rest`: take the ends of all logs as they are now.
        """
        with self._polling:
            self._failure = None
            self._set_folders()
            for folder in self._folders.values():
                self._look_into(folder)
            rows = self._read_changed(self._waiting.values())
            self._settle(at_rest)
            if self._thread is None or time.monotonic() - self._told > STATUS_SECONDS:
                self._publish()
        return rows

    def glance(self) -> bool:
        """Read what is new in those files that grew lately, which takes no look at all the others; return as `poll` does.

        What is to be seen once more by a poll, since its file turned or shrank, waits for one.
        """
        with self._polling:
            found = {log.base: log for path, folder in list(self._growing.items()) if (log := self._grown(folder, path))}
            return self._read_changed(found.values()) if found else False

    def _grown(self, folder: Folder, path: str) -> Log | None:
        """Return the log of a file that is longer than when it was seen last."""
        log, before = folder.logs.get(path), folder.entries.get(path)
        if log is None or before is None or time.monotonic() - log.seen > GROWS_SECONDS:
            del self._growing[path]
            return None
        try:
            status = os.stat(path)
        except OSError:  # a poll finds out
            return None
        if log.base in self._waiting or status.st_ino != before[3] or status.st_size <= before[0]:
            return None
        folder.entries[path] = (status.st_size, status.st_mtime_ns, *before[2:])
        self._seen_again(folder, path, folder.entries[path])
        return log

    def drain(self) -> None:
        """Read everything there is now, ends included."""
        while self.poll() or self._waiting:
            time.sleep(0.01)
        self.poll(at_rest=True)

    def has(self, base: str) -> bool:
        """Say whether the log of this path is watched."""
        return base in self._origins.logs

    def follow(self, path: str) -> None:
        """Follow one file, whatever folders are watched, until `leave`."""
        self._others = self._others | {only(path)}
        self.look()

    def learn(self, source: Source) -> None:
        """Know of a file that somebody else has read."""
        with self._polling:
            self._origins.remember(source)

    def run_of(self, path: str) -> str | None:
        """Return the run of a log that is followed, None as long as it has none."""
        log = self._origins.logs.get(unrotated(path))
        return (log.sources[-1].job or log.run) if log and log.sources else None

    def leave(self, path: str) -> None:
        """Follow a file no more that `follow` named."""
        self._others = self._others - {only(path)}

    def read(self, path: str) -> list[Log]:
        """Read a file or all logs of a folder to their ends; return them. Each has a run, or nothing to store, or a problem."""
        wanted = Wanted(Watched(path), shown=False) if os.path.isdir(path) else only(path)
        self._others = self._others | {wanted}
        try:
            while self.poll() or any(log.dirty for log in self._folders[wanted].logs.values()):
                time.sleep(0.01)
            with self._polling:
                logs = list({id(log): log for log in self._folders[wanted].logs.values()}.values())
                for log in logs:
                    if log.open_end:
                        self._guarded(log, self._follower.settle)
            return logs
        finally:
            self._others = self._others - {wanted}

    def _set_folders(self) -> None:
        kept = self._store.watched() if self._stored else []
        wanted = {watched.folder: Wanted(watched) for watched in kept if not watched.paused} | self._fixed
        now = {*wanted.values(), *self._others}
        for gone in self._folders.keys() - now:
            self._leave(self._folders.pop(gone))
        for new in now - self._folders.keys():
            self._folders[new] = folder_of(new)

    def _leave(self, folder: Folder) -> None:
        self._growing = {path: other for path, other in self._growing.items() if other is not folder}
        elsewhere = {id(log) for other in self._folders.values() for log in other.logs.values()}
        for log in folder.logs.values():
            if id(log) not in elsewhere:
                self._origins.leave(log)
                self._waiting.pop(log.base, None)
                self._open.pop(log.base, None)

    def _look_into(self, folder: Folder) -> None:
        places = folder.places
        if places is None:
            return
        began = time.perf_counter()
        deep = folder.wanted.deep
        found = scan(places.folder, lambda path: not deep or path == self._own or places.excluded(path))
        self._compare(folder, found)
        folder.seconds = time.perf_counter() - began

    def _compare(self, folder: Folder, found: Scan) -> None:
        before, files = folder.entries, found.files
        folder.entries, folder.problems = files, found.problems
        changed = [path for path, entry in files.items() if before.get(path) != entry]
        if len(before) + len(changed) > len(files):
            for path in before.keys() - files.keys():
                self._gone(folder, path)
                changed += self._reconsider(folder)
        new = [path for path in changed if not self._seen_again(folder, path, files[path])]
        for path in order(found, new, room=folders.MAX_FILES - len(folder.logs)):
            self._meet(folder, path, files[path])
        if found.others != folder.others:
            folder.others = {path for path in found.others if would_be_log(folder, path)}

    def _seen_again(self, folder: Folder, path: str, entry: Entry) -> bool:
        log = folder.logs.get(path)
        if log is not None:
            self._origins.saw(log, path, entry)
            self._await(log)
            self._growing[path] = folder
        return log is not None or path in folder.ignored

    def _gone(self, folder: Folder, path: str) -> None:
        folder.ignored.pop(path, None)
        log = folder.logs.pop(path, None)
        if log is not None:
            log.files.pop(path, None)
            log.dirty = True
            self._await(log)

    def _reconsider(self, folder: Folder) -> list[str]:
        """Return what was not read because of others, of which one is gone now."""
        paths = [path for path, problem in folder.ignored.items() if problem or path in folder.left_out]
        folder.left_out.clear()
        for path in paths:
            del folder.ignored[path]
        return [path for path in paths if path in folder.entries]

    def _meet(self, folder: Folder, path: str, entry: Entry) -> None:
        """Decide what a file that was not seen before is."""
        place = folder.places.of(path) if folder.places else None
        if place is None:
            folder.ignored[path] = None
            return
        if len(folder.logs) >= folders.MAX_FILES:
            folder.ignored[path] = None
            folder.left_out.add(path)
            return
        try:
            log = self._origins.log_of(path, entry, place)
        except OSError as error:
            folder.problems.append(unreadable(path, error))
            folder.entries.pop(path)  # as if it had not been seen: tried again in the next poll
            return
        if isinstance(log, Problem):
            folder.ignored[path] = log
        else:
            folder.logs[path] = log
            self._origins.saw(log, path, entry)
            self._await(log)

    def _read_changed(self, logs: Iterable[Log]) -> bool:
        """Give logs that changed their turn, the one that waits longest first; return whether there is more to read."""
        until = time.monotonic() + max(TURN_SECONDS, sum(folder.seconds for folder in self._folders.values()))
        for little, alike in groupby(sorted(logs, key=_turn), key=_has_little):
            turn = _Turn(alike, until if self._thread is not None else None, self._stop)
            if little:
                sharing = iter(turn)
                while self._together(sharing):
                    pass
            else:
                for log in turn:
                    self._guarded(log, self._follower.advance)
                    self._had_turn(log)
            if turn.over:
                return not self._stop.is_set()
        return any(log.more for log in self._waiting.values())

    def _together(self, logs: Iterator[Log]) -> bool:
        """Read logs of which each has little to give, as many as may share a transaction; return whether there were any.

        Should the transaction fail, each of them is read by itself.
        """
        read: list[tuple[Log, list[Fed]]] = []
        size = 0
        try:
            with self._feeder.together() as group:
                for log in logs:
                    size += log.behind
                    read.append((log, []))
                    self._share(group, *read[-1])
                    if len(read) >= GROUP_LOGS or size >= GROUP_BYTES:
                        break
        except Exception as error:
            LOG.info("Logs are read one by one: %s", error)
            self._one_by_one(read)
        else:
            self._tell(read)
            for log, _ in read:
                self._had_turn(log)
        return bool(read)

    def _share(self, group: Group, log: Log, fed: list[Fed]) -> None:
        """Read a log in a transaction that it shares; what goes wrong before anything of it is in there concerns it alone."""
        before = group.opened
        try:
            fed.extend(self._follower.advance(log))
        except Exception as error:
            if group.opened > before:
                raise
            self._went_wrong(log, error)

    def _one_by_one(self, read: Iterable[tuple[Log, list[Fed]]]) -> None:
        """Read logs again, each by itself, behind what the store has of what they gave together."""
        for log, fed in read:
            self._again_from_store(log)
            self._tell([(log, [one for one in fed if one.source in log.sources])])
            self._guarded(log, self._follower.advance)
            self._had_turn(log)

    def _had_turn(self, log: Log) -> None:
        if log.dirty or log.more:
            log.since = time.monotonic()
        else:
            self._waiting.pop(log.base, None)

    def _settle(self, at_rest: bool) -> None:
        until, now = time.monotonic() + SETTLE_SECONDS, time.time_ns()
        for log in list(self._open.values()):
            if log.base not in self._waiting and (at_rest or log.quiet(now)):
                self._guarded(log, self._follower.settle)
                self._open.pop(log.base, None)
                if (time.monotonic() > until and not at_rest) or self._stop.is_set():
                    return

    def _await(self, log: Log) -> None:
        self._waiting[log.base] = self._open[log.base] = log

    def _guarded(self, log: Log, read: Callable[[Log], list[Fed]]) -> None:
        """Read a log; whatever goes wrong concerns this log alone and can be tried again."""
        try:
            fed = read(log)
        except Exception as error:
            self._went_wrong(log, error)
        else:
            self._tell([(log, fed)])

    def _went_wrong(self, log: Log, error: Exception) -> None:
        """Note what keeps a log from being read."""
        if isinstance(error, FileNotFoundError):  # gone since it was seen; the next poll knows more
            return
        if isinstance(error, UnreadableLog):
            log.open_end = False
            log.problem = Problem("no_log", log.base, error.message)
        elif isinstance(error, OSError):
            log.problem = unreadable(log.base, error)
        elif not isinstance(error, UnknownRun):  # a deleted run does not come back with the next line
            LOG.error("%s could not be read", log.base, exc_info=error)
            log.dirty = True
            self._failed(error)
        self._again_from_store(log)

    def _tell(self, read: Iterable[tuple[Log, list[Fed]]]) -> None:
        read = list(read)
        for log, fed in read:
            for one in fed:
                self._origins.fed(log, one)
        grown = [one.source.job or one.source.run for log, fed in read for one in fed if one.rows or one.events]
        if self._on_rows and grown:
            self._on_rows(list(dict.fromkeys(grown)))

    def _again_from_store(self, log: Log) -> None:
        """Forget what is known of a log but what the store knows."""
        self._feeder.forget(log.run or log.base)
        log.known, log.done, log.unborn = {}, {}, None
        self._origins.reload(log)

    def _failed(self, error: Exception) -> None:
        if isinstance(error, StoreError):
            message = error.message
        else:
            gaps = {"kind": type(error).__name__, "error": str(error)[:300]}
            message = Text(N_("What was read could not be stored ({kind}: {error}). It is tried again; nothing is lost."), gaps)
        self._failure = Problem("not_stored", "", message)

    # What people are told

    def _publish(self) -> None:
        self._told = time.monotonic()
        self.status = tuple(status_of(folder, self._failure) for wanted, folder in self._folders.items() if wanted.shown)


class _Turn:
    """Logs one after the other until the time (monotonic seconds, None: any) or the watch is over; `over` says that it was."""

    def __init__(self, logs: Iterable[Log], until: float | None, stop: threading.Event) -> None:
        self._logs, self._until, self._stop = logs, until, stop
        self.over = False

    def __iter__(self) -> Iterator[Log]:
        for log in self._logs:
            self.over = self._stop.is_set() or (self._until is not None and time.monotonic() > self._until)
            if self.over:
                return
            yield log


def _has_little(log: Log) -> bool:
    """Say whether a log can share a transaction with others: little is new, and it has a run that only goes on, or will get
    one of its own."""
    # Not a new lane: which of them stands for the others is known once the first one is in the store.
    alone = log.sources[-1].mode == STREAM if log.sources else len(log.files) == 1 and not log.place.lane
    return alone and log.problem is None and log.behind <= LITTLE_BYTES


def _turn(log: Log) -> tuple[bool, float]:
    """Return a key for the order of logs: those that take long last, else the one that waits longest first."""
    return log.behind > BUDGET_BYTES, log.since
