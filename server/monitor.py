"""Watches the runs themselves: after rows have arrived a run is diagnosed again, and whoever wants to know hears what is new.

One thread of its own; it never keeps an ingest waiting. Rows that come quickly are taken together: a run is diagnosed at
most every `seconds`, and the longer its diagnosis takes the less often.
"""

import logging
import math
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime

from analysis.diagnose import Diagnosis
from analysis.findings import Finding
from storage.keeping.sources import Lane
from storage.store import Store, UnknownRun

LOG = logging.getLogger("runvitals.monitor")
SHARE = 0.1  # of the time of this thread that one run's diagnosis may take
AHEAD_SECONDS = 5.0  # a printed time so far in the future is a clock that is wrong
STOP_SECONDS = 30.0
MOST_TOLD = 256  # runs of which is remembered what was told last

Hook = Callable[[str, Diagnosis | None, Diagnosis, list[Finding]], None]


@dataclass(frozen=True)
class Heartbeat:
    """How long ago a lane of a run last gave rows: `age_seconds` by the clock of this machine, so that no other matters.

    `clock_ahead_seconds`: how far its last printed time lies in the future, 0 where it does not or prints none.
    """

    run: str
    rank: int | None
    host: str | None
    last_step: int | None
    age_seconds: float
    clock_ahead_seconds: float = 0.0


class Monitor:
    """Diagnoses the runs of which `changed` is told. After each diagnosis `on_diagnosis` are called with the run, its last
    diagnosis (None: this is its first), this one, and the findings that the last one had not; an error in one of them is
    logged and hinders nobody."""

    def __init__(
        self,
        diagnose: Callable[[str], tuple[Diagnosis | None, Diagnosis]],
        *,
        seconds: float = 5.0,
        next_look: Callable[[str, Diagnosis], float | None] | None = None,
        give_way: Callable[[], None] = lambda: None,
    ) -> None:
        """`diagnose` returns of a run the diagnosis kept so far (None without one) and the one of its rows as they are.

        next_look: after how many seconds a run is diagnosed again although it gives no row (it may hang); None: never.
        """
        self.on_diagnosis: list[Hook] = []
        self._diagnose = diagnose
        self._next_look, self._give_way = next_look, give_way
        self._told: dict[str, Diagnosis] = {}
        self._seconds = seconds
        self._due: dict[str, float] = {}
        self._pause: dict[str, float] = {}
        self._changed = threading.Condition()
        self._stopped = False
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Begin in a thread of its own."""
        self._thread = threading.Thread(target=self._run, name="monitor", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """End after the diagnosis that is being made."""
        with self._changed:
            self._stopped = True
            self._changed.notify()
        if self._thread is not None:
            self._thread.join(STOP_SECONDS)

    def changed(self, run: str) -> None:
        """Hear that a run has got rows or events. Returns at once."""
        self._look_at(run, max(time.monotonic(), self._pause.get(run, 0.0)))

    def _look_at(self, run: str, when: float) -> None:
        with self._changed:
            if when < self._due.get(run, math.inf):
                self._due[run] = when
                self._changed.notify()

    def _run(self) -> None:
        while (run := self._next()) is not None:
            self._give_way()
            began = time.monotonic()
            self.look(run)
            took = time.monotonic() - began
            with self._changed:
                self._pause[run] = time.monotonic() + max(self._seconds - took, took * (1 / SHARE - 1))
                if run in self._due:  # rows that came during the diagnosis wait as well
                    self._due[run] = max(self._due[run], self._pause[run])

    def _next(self) -> str | None:
        """Wait for the run that is due first; None at the end."""
        with self._changed:
            while not self._stopped:
                run = min(self._due, key=lambda run: self._due[run], default=None)
                wait = None if run is None else self._due[run] - time.monotonic()
                if run is not None and wait is not None and wait <= 0:
                    del self._due[run]
                    return run
                self._changed.wait(wait)
        return None

    def look(self, run: str) -> None:
        """Diagnose a run now and tell what is new."""
        try:
            before, now = self._diagnose(run)
        except UnknownRun:  # deleted meanwhile
            return
        except Exception:  # one run must not end the monitoring of all
            LOG.exception("Run %s could not be diagnosed", run)
            return
        wait = self._next_look(run, now) if self._next_look else None
        if wait is not None:
            self._look_at(run, time.monotonic() + wait)
        before = self._told.pop(run, before)
        new = new_findings(before, now)
        self._told[run] = now  # a page may have asked in between: what it was the first to see is new here all the same
        while len(self._told) > MOST_TOLD:
            del self._told[next(iter(self._told))]
        for hook in self.on_diagnosis:
            try:
                hook(run, before, now, new)
            except Exception:
                LOG.exception("Telling of run %s failed", run)


def new_findings(before: Diagnosis | None, now: Diagnosis) -> list[Finding]:
    """Return the findings that were not there before: of another class or launch, at other steps, or graver."""
    known = before.findings if before else ()
    return [finding for finding in now.findings if not any(_same(finding, other) for other in known)]


def _same(finding: Finding, known: Finding) -> bool:
    """Say whether two findings are one that is only seen later: its first step may then be told more exactly."""
    if (finding.kind, finding.segment, finding.severity) != (known.kind, known.segment, known.severity):
        return False
    first, last = finding.first_step or 0, finding.last_step
    known_first, known_last = known.first_step or 0, known.last_step
    return (last is None or known_first <= last) and (known_last is None or first <= known_last)


def heartbeats(store: Store, run: str) -> list[Heartbeat]:
    """Return for each lane of a run how long it has been silent. Raises UnknownRun."""
    now = datetime.now(UTC)
    return [_heartbeat(store, lane, now) for lane in store.lanes(run)]


def _heartbeat(store: Store, lane: Lane, now: datetime) -> Heartbeat:
    printed = last_printed(store, lane.run, lane.last_step)
    ahead = 0.0 if printed is None else (printed - now.replace(tzinfo=None)).total_seconds()
    age = max(0.0, (now - lane.updated).total_seconds())
    return Heartbeat(lane.run, lane.rank, lane.host, lane.last_step, age, ahead if ahead > AHEAD_SECONDS else 0.0)


def last_printed(store: Store, run: str, last_step: int | None) -> datetime | None:
    """Return the time that a run or lane prints at its last step, by the clock of its log; None where it prints none."""
    if last_step is None:
        return None
    stamps = store.frame(run, ["timestamp"], first_step=last_step)["timestamp"].drop_null()
    return stamps[-1].as_py() if len(stamps) else None
