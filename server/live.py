"""The diagnosis of stored runs: a short one from all of its rows, a long one that grows from the rows that are new."""

import threading
import time
from collections import OrderedDict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from analysis.diagnose import Diagnosis, diagnose
from analysis.live import EXACT_ROWS, Live, grow, listened
from analysis.segment import Segment, split_segments
from server.lanes import rows_and_events
from storage.store import Store
from storage.types import Drift, Event

CHUNK_ROWS = 1_000_000  # read at a time when a long run is met for the first time
SETTLE_SECONDS = 60.0  # without a row after which a run of at most CHUNK_ROWS rows is judged in one go (about two seconds)
MOST = 64  # runs kept

Thresholds = Mapping[str, Mapping[str, Any]]


@dataclass(frozen=True)
class Judged:
    """A diagnosis and the launches that it was made from: all rows, or what is kept of a long run."""

    diagnosis: Diagnosis
    segments: Sequence[Segment]


@dataclass(frozen=True)
class _Kept:
    """What is kept of a long run: None where only all of its rows explain it; `last` is the line of its last row, `at` when
    it was judged (monotonic seconds)."""

    live: Live | None
    last: int | None = None
    at: float = 0.0


class Growing:
    """The long runs of a store as they grow. Thread-safe for different runs; the caller takes care of one run at a time."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._kept: OrderedDict[tuple[str, str], _Kept] = OrderedDict()
        self._lock = threading.Lock()

    def judge(self, run: str, profile: str, thresholds: Thresholds, silent_seconds: float | None = None) -> Judged:
        """Return the diagnosis of a run as it is now. Raises UnknownRun.

        silent_seconds: how long ago its last row came; None where nobody watches.
        """
        rows = self._store.run(run).rows
        with self._lock:
            known = self._kept.get((run, profile))
        if rows <= EXACT_ROWS or self._has_lanes(run, known, rows):
            return self._whole(run, profile, thresholds, silent_seconds)
        kept = known if known and (known.live is None or known.live.thresholds == thresholds) else None
        if kept is None or kept.live is not None:
            kept = self._grown(run, kept, rows, silent_seconds) if kept else None
            kept = kept or self._grown(run, _Kept(Live(profile, thresholds)), rows, silent_seconds) or _Kept(None)
        with self._lock:
            self._kept[run, profile] = kept
            self._kept.move_to_end((run, profile))
            while len(self._kept) > MOST:
                self._kept.popitem(last=False)
        if kept.live is None or kept.live.diagnosis is None:
            return self._whole(run, profile, thresholds, silent_seconds)
        return Judged(kept.live.diagnosis, kept.live.segments)

    def settles(self, run: str, profile: str) -> float | None:
        """Return in how many seconds a run that gives nothing more is to be judged in one go; None where that is done."""
        with self._lock:
            kept = self._kept.get((run, profile))
        if kept is None or kept.live is None or kept.live.exact or kept.live.rows > CHUNK_ROWS:
            return None
        return max(kept.at + SETTLE_SECONDS - time.monotonic(), 0.0)

    def settle(self, run: str, profile: str, thresholds: Thresholds, silent_seconds: float | None = None) -> Judged:
        """Return the diagnosis of a run in one go; if it goes on growing it is taken up anew. Raises UnknownRun."""
        with self._lock:
            self._kept.pop((run, profile), None)
        return self._whole(run, profile, thresholds, silent_seconds)

    def _has_lanes(self, run: str, known: _Kept | None, rows: int) -> bool:
        """Say whether others write the run, too; looked up where the run itself gave nothing new."""
        grew = known is not None and known.live is not None and known.live.rows < rows
        return not grew and len(self._store.lanes(run)) > 1

    def _grown(self, run: str, kept: _Kept, rows: int, silent_seconds: float | None) -> _Kept | None:
        """Return a run with the rows behind those that were taken; None if the last of these is no longer there."""
        live, last = kept.live or Live(), kept.last
        if live.rows > rows:
            return None
        report = self._store.report(run)
        config, forms = dict(report.config), changes(report.drifts)
        events = as_dicts(self._store.events(run, after=live.line))
        while live.rows < rows or events or live.diagnosis is None or silent_seconds is not None:
            known = min(live.rows, 1)
            part = self._store.frame(run, kind=None, skip=live.rows - known, most=CHUNK_ROWS + known)
            if known and (not part.num_rows or part["line"][0].as_py() != last):
                return None
            part = part.slice(known)
            final = live.rows + part.num_rows >= rows or not part.num_rows
            last = _last_line(part, last)
            now = events if final or last is None else [event for event in events if event["line"] <= last]
            events = [] if final else events[len(now) :]
            silent = silent_seconds if final else None
            live = grow(live, part, now, config=config, forms=forms, silent_seconds=silent)
            if not live.bounded:
                return _Kept(None)
            if final:
                break
        return _Kept(live, last, time.monotonic())

    def _whole(self, run: str, profile: str, thresholds: Thresholds, silent_seconds: float | None) -> Judged:
        segments = segments_of(self._store, run)
        if segments and silent_seconds is not None:
            at = max((n for n, segment in enumerate(segments) if len(segment)), default=len(segments) - 1)
            segments[at] = listened(segments[at], silent_seconds)
        return Judged(diagnose(segments, profile=profile, thresholds=thresholds), segments)


def _last_line(rows: pa.Table, before: int | None) -> int | None:
    return before if not rows.num_rows else rows["line"][-1].as_py()


def segments_of(store: Store, run: str) -> list[Segment]:
    """Return the launches of a run as the rules see them, all rows. Raises UnknownRun."""
    report = store.report(run)
    rows, events = rows_and_events(store, run)
    return split_segments(rows, events=[*as_dicts(events), *changes(report.drifts)], config=dict(report.config))


def as_dicts(events: Iterable[Event]) -> list[dict[str, Any]]:
    """Return events as the analysis takes them."""
    names = ("line", "kind", "text", "step", "segment", "data")
    return [{name: getattr(event, name) for name in names} for event in events]


def changes(drifts: Iterable[Drift]) -> list[dict[str, Any]]:
    """Return where lines of another form begin, as the analysis takes events."""
    return as_dicts(Event(one.line, "form_change", one.text, one.step, data={"read": one.read}) for one in drifts)
