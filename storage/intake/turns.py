"""Logs that have something to give get their turn: those that wait longest first, those that have little together.

Whatever goes wrong with a log concerns this log alone, and is tried again from what the store knows.
"""

import logging
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from itertools import groupby

from messages import N_, Text
from storage.intake.feed import Fed, Feeder
from storage.intake.follow import BUDGET_BYTES, Follower, Log
from storage.intake.origins import Origins
from storage.intake.scan import Problem, unreadable
from storage.keeping.group import Group
from storage.keeping.sources import STREAM
from storage.store import Store, StoreError, UnknownRun
from storage.types import UnreadableLog

LOG = logging.getLogger("runvitals.watch")
LITTLE_BYTES = 1 << 16  # that a log has to give at most to share a transaction with others
GROUP_LOGS, GROUP_BYTES = 64, 4 << 20  # that share a transaction at most: so much is read again should it fail
SETTLE_SECONDS = 0.2  # of a poll are given to logs that have come to rest


class Turns:
    """Reads logs into the store. `on_rows` hears of runs that got rows or events.

    origins: which log a file belongs to. waiting: logs that changed, by path. failure: why nothing could be stored, if so.
    ended: set to stop before the next log.
    """

    def __init__(self, store: Store, on_rows: Callable[[list[str]], None] | None) -> None:
        self.origins = Origins(store)
        self.waiting: dict[str, Log] = {}
        self.failure: Problem | None = None
        self.ended = threading.Event()
        self._on_rows = on_rows
        self._feeder = Feeder(store)
        self._follower = Follower(self._feeder, self.origins.beside)
        self._open: dict[str, Log] = {}

    def wait(self, log: Log) -> None:
        """Take a log that changed."""
        self.waiting[log.base] = self._open[log.base] = log

    def leave(self, log: Log) -> None:
        """Forget a log that is followed no more."""
        self.origins.leave(log)
        self.waiting.pop(log.base, None)
        self._open.pop(log.base, None)

    def read(self, logs: Iterable[Log], until: float | None) -> bool:
        """Give logs their turn until a time (monotonic seconds, None: any); return whether there is more to read."""
        for little, alike in groupby(sorted(logs, key=_turn), key=_has_little):
            turn = _Turn(alike, until, self.ended)
            if little:
                sharing = iter(turn)
                while self._together(sharing):
                    pass
            else:
                for log in turn:
                    self._guarded(log, self._follower.advance)
                    self._had_turn(log)
            if turn.over:
                return not self.ended.is_set()
        return any(log.more for log in self.waiting.values())

    def settle(self, at_rest: bool) -> None:
        """Take the ends of logs that have come to rest; `at_rest`: of all of them."""
        until, now = time.monotonic() + SETTLE_SECONDS, time.time_ns()
        for log in list(self._open.values()):
            if log.base not in self.waiting and (at_rest or log.quiet(now)):
                self._guarded(log, self._follower.settle)
                self._open.pop(log.base, None)
                if (time.monotonic() > until and not at_rest) or self.ended.is_set():
                    return

    def end(self, log: Log) -> None:
        """Take the end of a log as it is now."""
        if log.open_end:
            self._guarded(log, self._follower.settle)

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
            self.waiting.pop(log.base, None)

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
            self.failed(error)
        self._again_from_store(log)

    def _tell(self, read: Iterable[tuple[Log, list[Fed]]]) -> None:
        read = list(read)
        for log, fed in read:
            for one in fed:
                self.origins.fed(log, one)
        grown = [one.source.job or one.source.run for log, fed in read for one in fed if one.rows or one.events]
        if self._on_rows and grown:
            self._on_rows(list(dict.fromkeys(grown)))

    def _again_from_store(self, log: Log) -> None:
        """Forget what is known of a log but what the store knows."""
        self._feeder.forget(log.run or log.base)
        log.known, log.done, log.unborn = {}, {}, None
        self.origins.reload(log)

    def failed(self, error: Exception) -> None:
        """Note why nothing could be stored."""
        if isinstance(error, StoreError):
            message = error.message
        else:
            gaps = {"kind": type(error).__name__, "error": str(error)[:300]}
            message = Text(N_("What was read could not be stored ({kind}: {error}). It is tried again; nothing is lost."), gaps)
        self.failure = Problem("not_stored", "", message)


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
