"""When the rows of followed runs arrived, by the clock of this machine: whether a run is silent, and what its rhythm was."""

import os
import threading
import time
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC
from itertools import pairwise

import pandas as pd

from analysis.diagnose import Diagnosis, in_order
from analysis.ending import current_launch
from analysis.registry import Rule, all_rules
from analysis.segment import Segment
from analysis.verdict import judge
from server.live import Judged, Thresholds
from server.monitor import last_printed
from storage.keeping.sources import Source
from storage.store import Store
from storage.types import Run

MOST_ARRIVALS, MOST_RUNS = 512, 1024
FEWEST = 3  # times that rows must have arrived before a run counts as followed
LEAST_BEAT_SECONDS, DAY_SECONDS, WEEK_SECONDS = 15.0, 86_400.0, 7 * 86_400.0
RECENT_SECONDS = 3600.0  # a log that was not written to for so long is history, unless the run is followed
GRAIN_SECONDS = 2.0  # by which the time of a file may lie behind that of this machine


@dataclass(frozen=True)
class Arrival:
    """Rows that arrived: when (seconds since 1970), how many the run had then, and its last step."""

    at: float
    rows: int
    step: int | None


class Arrivals:
    """A run is followed if a file that is watched or a stream feeds it and its rows have arrived several times while this
    process ran, or if its file grew while an earlier process ran, up to the hour before this one began; one that was
    uploaded, or read once to its end, never is."""

    def __init__(self, store: Store) -> None:
        self._store, self._started = store, time.time()
        self._seen: dict[str, deque[Arrival]] = {}
        self._fed: dict[str, bool] = {}
        self._lock = threading.Lock()

    def note(self, runs: Sequence[str]) -> None:
        """Note that runs have got rows or events, and how far they are."""
        for run in self._store.runs(runs):
            self._note(run)

    def _note(self, run: Run) -> None:
        with self._lock:
            seen = self._seen.setdefault(run.id, deque(maxlen=MOST_ARRIVALS))
            if not seen or run.rows > seen[-1].rows:
                seen.append(Arrival(run.updated.timestamp(), run.rows, run.last_step))
            elif run.rows < seen[-1].rows:
                seen.clear()
            while len(self._seen) > MOST_RUNS:
                del self._seen[next(iter(self._seen))]

    def silent(self, run: str) -> float | None:
        """Return for how many seconds a followed run has given no row, None for any other run."""
        with self._lock:
            seen = tuple(self._seen.get(run, ()))
        followed = len(seen) >= FEWEST and self._is_fed(run, seen[0].at)
        last = seen[-1].at if followed else self._last_write(run)
        return None if last is None else max(time.time() - last, 0.0)

    def _last_write(self, run: str) -> float | None:
        """Return when a log was written to last that grew while an earlier process ran, None for any other.

        It grew if it was written to after it was read first and that was read, too: an old log that is only touched gives
        nothing to read, and one that is copied slowly prints another day.
        """
        head = next(iter(self._store.runs([run])), None)
        since = self._started - RECENT_SECONDS
        if head is None or head.created.timestamp() >= self._started or head.updated.timestamp() < since:
            return None
        at = max((_written(source) for source in self._store.sources(run)), default=0.0)
        if at < since or not head.created.timestamp() < at <= head.updated.timestamp() + GRAIN_SECONDS:
            return None
        printed = last_printed(self._store, run, head.last_step)
        other_day = printed is not None and abs(printed.replace(tzinfo=UTC).timestamp() - at) > DAY_SECONDS
        return None if other_day else at

    def arrived(self, run: str, step: int) -> float | None:
        """Return when the row of a step of the current launch arrived (seconds since 1970), None where that was not seen."""
        with self._lock:
            seen = tuple(self._seen.get(run, ()))
        for before, after in reversed(list(pairwise(seen))):
            if before.step is None or after.step is None or not max(before.step, step) <= after.step:
                return None
            if before.step < step:
                return after.at
        return None

    def _is_fed(self, run: str, since: float) -> bool:
        if not self._fed.get(run):
            self._fed[run] = any(_grows(source, since) for source in self._store.sources(run))
        return self._fed[run]

    def rhythm(self, run: str, number: int, total_steps: int | None, silent_seconds: float) -> Segment:
        """Return the arrivals as rows of a launch: what stands in for the clock of a log that prints none."""
        with self._lock:
            seen = tuple(self._seen.get(run, ()))
        rows = pd.DataFrame({"step": [each.step for each in seen], "elapsed_seconds": [each.at - seen[0].at for each in seen]})
        rows = rows.dropna().reset_index(drop=True)
        return Segment(number, rows, total_steps=total_steps, silent_seconds=silent_seconds)


def _grows(source: Source, since: float) -> bool:
    """Say whether a source is a stream, or a file that was written to after its first rows had arrived.

    A long file that is read once arrives in several pieces, too.
    """
    return source.device == 0 or _written(source) >= since


def _written(source: Source) -> float:
    """Return when a file was written to last (seconds since 1970); 0 for a stream and for one that is gone."""
    try:
        return os.stat(source.path).st_mtime if source.device else 0.0
    except OSError:
        return 0.0


def least_seconds(thresholds: Thresholds, profile: str) -> float:
    """Return how long a run must be silent before anything is said."""
    return float({**_hang().thresholds_by(profile), **thresholds.get("hang", {})}["least_seconds"])


def _hang() -> Rule:
    return next(rule for rule in all_rules() if rule.name == "hang")


def hangs(diagnosis: Diagnosis) -> bool:
    """Say whether it is told already that a run is silent."""
    return any(finding.kind == "hang" and finding.last_step is None for finding in diagnosis.findings)


def next_look(diagnosis: Diagnosis, silent_seconds: float | None, least: float) -> float | None:
    """Return after how many seconds a silent run should be looked at again, None where there is nothing to wait for."""
    if silent_seconds is None or hangs(diagnosis) or silent_seconds > WEEK_SECONDS or diagnosis.verdict == "failed":
        return None
    if silent_seconds <= least:
        return least - silent_seconds + 0.1
    return max(min(LEAST_BEAT_SECONDS, least), 0.2 * silent_seconds)


def heard(judged: Judged, rhythm: Segment, profile: str, thresholds: Thresholds) -> Diagnosis:
    """Return the diagnosis with what the arrivals tell of a silence, for a log that prints no clock itself."""
    diagnosis, rule = judged.diagnosis, _hang()
    current = current_launch(judged.segments)
    if not rule.missing(current) or len(rhythm) < FEWEST or _finished(current):
        return diagnosis
    found = [f for f in rule.by(profile)(rhythm, **thresholds.get("hang", {})) if f.last_step is None]
    if not found:
        return diagnosis
    findings = in_order([*diagnosis.findings, *found], current.number, over=False)
    verdict, sentence, since, known = judge(judged.segments, findings)
    blind = tuple(each for each in diagnosis.not_assessable if each.rule != "hang")
    told = replace(diagnosis, verdict=verdict, sentence=sentence, since_step=since, known_step=known)
    return replace(told, findings=findings, not_assessable=blind)


def _finished(launch: Segment) -> bool:
    return bool(len(launch.events)) and bool(launch.events["kind"].eq("training_finished").any())
