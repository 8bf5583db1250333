"""Folders that are watched: every second it is seen what changed in them, and what logs have to give goes into the store.

Polled by size, time and identity (inode and fingerprints), for notifications do not come from network file systems. One
thread does all of it. What is watched and how far each file was read stands in the store, so a restart goes on.
"""

import os
import threading
import time
from collections.abc import Callable, Collection, Iterable
from contextlib import AbstractContextManager, nullcontext

from storage.intake import folders
from storage.intake.folders import Folder, FolderStatus, Wanted, folder_of, only, order, status_of, would_be_log
from storage.intake.follow import Log
from storage.intake.places import unrotated
from storage.intake.scan import Entry, Problem, Scan, scan, unreadable
from storage.intake.turns import LOG, Turns
from storage.keeping.sources import Source, Watched
from storage.store import Store

TURN_SECONDS = 0.25  # for logs that changed, before it is seen which others have: none is kept waiting for a whole round
STATUS_SECONDS = 1.0  # between two times that people are told
SCAN_SHARE = 0.2  # of its time the watcher may look into folders: a folder of 100,000 files is polled less often
GLANCE_SECONDS = 0.25  # between two looks at those files alone that grow
GLANCE_SHARE = 0.25  # of a core may go into what is seen at a glance: else a log of many lines is read line by line
GROWS_SECONDS = 60.0  # since its last change that a file counts as one that grows


class Watcher:
    """Watches what the store and the environment (`fixed`) say. `on_rows` hears of runs that got rows or events, `on_poll`
    is called after each poll of the thread; logs are read in a block of `reading`, those of the runs `looked_at` oftener
    where many grow; `stored`: watch what is set in the store too.

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
        reading: Callable[[], AbstractContextManager[None]] = nullcontext,
        looked_at: Callable[[], Collection[str]] = tuple,
        stored: bool = True,
    ) -> None:
        self._store = store
        self._own = str(store.data_dir.resolve())
        self._fixed = {watched.folder: Wanted(watched, fixed=True) for watched in fixed}
        self._others: frozenset[Wanted] = frozenset()
        self._stored = stored
        self._seconds = seconds
        self._on_poll, self._reading, self._looked_at = on_poll, reading, looked_at
        self._turns = Turns(store, on_rows)
        self._folders: dict[Wanted, Folder] = {}
        self._wake = threading.Event()
        self._thread: threading.Thread | None = None
        self._polling = threading.Lock()
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
        self._turns.ended.set()
        self._wake.set()
        if self._thread is not None:
            self._thread.join()

    def look(self) -> None:
        """Poll at once: something was set."""
        self._wake.set()

    def _run(self) -> None:
        while not self._turns.ended.is_set():
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
                self._turns.failed(error)
                self._wake.wait(self._seconds)
            self._wake.clear()

    def _glance_until(self, end: float) -> None:
        """Glance now and then until a time (monotonic seconds), until there is more to read or somebody wakes the thread."""
        due, due_looked_at, more = 0.0, 0.0, False
        while not more and not self._wake.wait(min(GLANCE_SECONDS, max(0.0, end - time.monotonic()))):
            began, used = time.monotonic(), time.thread_time()
            if began >= end:
                return
            if began >= due:
                more = self.glance()
                due = time.monotonic() + _rest(used)
            elif began >= due_looked_at and (runs := self._looked_at()):
                more = self.glance(runs)
                due_looked_at = time.monotonic() + _rest(used)

    # One poll

    def poll(self, *, at_rest: bool = False) -> bool:
        """Look once at everything that is watched; return whether there is more to read at once.

        `at_rest`: take the ends of all logs as they are now.
        """
        with self._polling:
            self._turns.failure = None
            self._set_folders()
            for folder in self._folders.values():
                self._look_into(folder)
            with self._reading():
                more = self._turns.read(self._turns.waiting.values(), self._until())
            self._turns.settle(at_rest)
            if self._thread is None or time.monotonic() - self._told > STATUS_SECONDS:
                self._publish()
        return more

    def glance(self, runs: Collection[str] | None = None) -> bool:
        """Read what is new in those files that grew lately, which takes no look at all the others; return as `poll` does.

        What is to be seen once more by a poll, since its file turned or shrank, waits for one. `runs`: only what these have.
        """
        with self._polling:
            every = [(folder, path) for path, folder in self._growing.items()]
            grow = [(folder, path) for folder, path in every if runs is None or _run_of(folder.logs.get(path)) in runs]
            found = {log.base: log for folder, path in grow if (log := self._grown(folder, path))}
            if not found:
                return False
            with self._reading():
                return self._turns.read(found.values(), self._until())

    def _until(self) -> float | None:
        """Return when turns are over (monotonic seconds): looking and reading take half of the time each; None: any time."""
        turn = max(TURN_SECONDS, sum(folder.seconds for folder in self._folders.values()))
        return None if self._thread is None else time.monotonic() + turn

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
        if log.base in self._turns.waiting or status.st_ino != before[3] or status.st_size <= before[0]:
            return None
        folder.entries[path] = (status.st_size, status.st_mtime_ns, *before[2:])
        self._seen_again(folder, path, folder.entries[path])
        return log

    def drain(self) -> None:
        """Read everything there is now, ends included."""
        while self.poll() or self._turns.waiting:
            time.sleep(0.01)
        self.poll(at_rest=True)

    def has(self, base: str) -> bool:
        """Say whether the log of this path is watched."""
        return base in self._turns.origins.logs

    def follow(self, path: str) -> None:
        """Follow one file, whatever folders are watched, until `leave`."""
        self._others = self._others | {only(path)}
        self.look()

    def learn(self, source: Source) -> None:
        """Know of a file that somebody else has read."""
        with self._polling:
            self._turns.origins.remember(source)

    def run_of(self, path: str) -> str | None:
        """Return the run of a log that is followed, None as long as it has none."""
        log = self._turns.origins.logs.get(unrotated(path))
        return _run_of(log)

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
                    self._turns.end(log)
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
                self._turns.leave(log)

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
            self._turns.origins.saw(log, path, entry)
            self._turns.wait(log)
            self._growing[path] = folder
        return log is not None or path in folder.ignored

    def _gone(self, folder: Folder, path: str) -> None:
        folder.ignored.pop(path, None)
        log = folder.logs.pop(path, None)
        if log is not None:
            log.files.pop(path, None)
            log.dirty = True
            self._turns.wait(log)

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
            log = self._turns.origins.log_of(path, entry, place)
        except OSError as error:
            folder.problems.append(unreadable(path, error))
            folder.entries.pop(path)  # as if it had not been seen: tried again in the next poll
            return
        if isinstance(log, Problem):
            folder.ignored[path] = log
        else:
            folder.logs[path] = log
            self._turns.origins.saw(log, path, entry)
            self._turns.wait(log)

    # What people are told

    def _publish(self) -> None:
        self._told = time.monotonic()
        self.status = tuple(status_of(folder, self._turns.failure) for wanted, folder in self._folders.items() if wanted.shown)


def _rest(used: float) -> float:
    """Return for how long to rest after a glance that began at this CPU time of the thread."""
    return max(GLANCE_SECONDS, (time.thread_time() - used) * (1 / GLANCE_SHARE - 1))


def _run_of(log: Log | None) -> str | None:
    """Return the run that a log belongs to, None as long as it has none."""
    return log.sources[-1].job or log.run if log and log.sources else None
