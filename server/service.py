"""The one object behind the pages, the routes and the command line: the store and what is known of its runs.

There is one `Service` a process: the server's lifespan starts and stops it; a test or a script that has no lifespan gets
it on first use. Pages keep no state of their own: what they need they ask here.
"""

import logging
import threading
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from uuid import uuid4

from analysis.diagnose import Diagnosis, diagnose
from analysis.edition import edition
from analysis.ending import current_launch
from analysis.segment import Segment, split_segments
from analysis.time_left import Estimate, time_left, why_unknown
from messages import N_, Text
from server.alerts.alerting import Alerts
from server.arrivals import Arrivals, hangs, heard, least_seconds, next_look
from server.beside import Standings
from server.board import Board
from server.care import Care
from server.costs import Costs, Wishes, costs
from server.glance import Glance, glance
from server.live import Growing, Judged, Thresholds, as_dicts, changes, segments_of
from server.monitor import Monitor
from server.precedence import Precedence
from server.reading import Read, read_path, size_of
from server.settings import Settings, load_settings
from server.thresholds import of_run, save
from storage.intake.ingest import Ingested, Progress, ingest_file
from storage.intake.origins import holder
from storage.intake.streams import Streams
from storage.intake.watch import Watcher
from storage.keeping.sources import Watched
from storage.reader import ReadResult
from storage.reading import formats
from storage.store import Store, UnknownRun
from storage.types import Drift, Event, UnreadableLog

log = logging.getLogger(__name__)


@dataclass
class Service:
    """The store, the settings, and the diagnosis of each run (kept in the store, renewed when rows have arrived).

    `watcher`, `monitor` and `care` run in a server only (`start`); `streams` are the logs that are sent to it, `board`
    has every run at a glance, `growing` what is kept of long runs, `arrivals` when the rows of followed ones came,
    `standings` how they stand beside the baselines, `alerts` tells people (in a server only), `precedence` says what goes
    first, `on_rows` hear of runs that have got rows, in the thread that read them, `looked_at` gives those on a live page.
    """

    settings: Settings
    store: Store
    watcher: Watcher | None = None
    monitor: Monitor | None = None
    care: Care | None = None
    precedence: Precedence = field(default_factory=Precedence)
    streams: Streams = field(init=False)
    board: Board = field(init=False)
    growing: Growing = field(init=False)
    arrivals: Arrivals = field(init=False)
    standings: Standings = field(init=False)
    alerts: Alerts = field(init=False)
    on_rows: list[Callable[[list[str]], None]] = field(default_factory=list, repr=False)
    looked_at: Callable[[], Collection[str]] = field(default=tuple, repr=False)
    _diagnosing: defaultdict[str, threading.Lock] = field(init=False, repr=False)
    _editions: defaultdict[str, int] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        self.streams = Streams(self.store)
        self.board = Board(self.store, self.settings.profile)
        self.growing, self.arrivals = Growing(self.store), Arrivals(self.store)
        self.standings, self.alerts = Standings(self.store, self.settings.profile), Alerts(self)
        self._diagnosing = defaultdict(threading.Lock)
        self._editions = defaultdict(int)

    @classmethod
    def open(cls, settings: Settings) -> "Service":
        """Open the store in `settings.data_dir` (made if missing). Raises StoreLocked when another process holds it."""
        settings.data_dir.mkdir(parents=True, exist_ok=True)
        formats.use(settings.data_dir / "formats")
        service = cls(settings, Store(settings.data_dir, read_only=settings.read_only))
        service._sweep_spool()
        service._judge_by_these_rules()
        return service

    def _judge_by_these_rules(self) -> None:
        """Let every run be judged anew whose kept diagnosis other rules than these have made: the product was updated."""
        if self.settings.read_only:
            return
        before = next((one.data for one in self.store.kept("rules", "") if one.name == "edition"), None)
        if before == edition():
            return
        if before is not None:
            log.info("The rules have changed: what was said of the runs is looked at again.")
            self.store.outdate_diagnoses()
        self.store.keep("rules", "edition", edition())

    def _sweep_spool(self) -> None:
        """Remove what uploads left behind that a crash cut off: the store is ours, so none of them is still going on."""
        for left in [] if self.settings.read_only else (self.settings.data_dir / "spool").glob("*"):
            log.warning(
                "An upload was cut off before it was stored (%d bytes): it is removed, upload it again.", left.stat().st_size
            )
            left.unlink(missing_ok=True)

    def start(self) -> None:
        """Begin to watch folders and runs and to look after the store; one that is read only needs none of it."""
        if self.settings.read_only or self.watcher is not None:
            return
        self.monitor = Monitor(
            self._diagnose_anew,
            seconds=self.settings.diagnose_seconds,
            next_look=self._next_look,
            give_way=self.precedence.give_way,
        )
        self.watcher = Watcher(
            self.store,
            [Watched(str(folder)) for folder in self.settings.watch],
            seconds=self.settings.watch_seconds,
            on_rows=self.got_rows,
            on_poll=lambda: self.got_rows(self.streams.rest()),
            reading=self.precedence.first,
            looked_at=lambda: self.looked_at(),
        )
        self.care = Care(self)
        self.monitor.on_diagnosis.append(self.alerts.hear)
        for part in (self.monitor, self.watcher, self.care, self.alerts):
            part.start()
        self.got_rows(self.board.unjudged())

    def close(self) -> None:
        """End what runs and close the store; the object is of no use afterwards."""
        for part in (self.watcher, self.monitor, self.care, self.standings, self.alerts):
            if part is not None:
                part.stop()
        self.store.close()

    def got_rows(self, runs: Iterable[str]) -> None:
        """Tell the monitor that runs have got rows."""
        grown = list(runs)
        if not grown:
            return
        self.arrivals.note(grown)
        if self.monitor is not None:
            for run in grown:
                self.monitor.changed(run)
        for hear in self.on_rows:
            try:
                hear(grown)
            except Exception:  # the rows are stored: whoever reads must not take them for lost
                log.exception("Telling of rows failed")

    def read_path(self, path: Path, *, name: str | None = None) -> list[Read]:
        """Read a file, or every log of a folder, to its end; say of each log what became of it. Raises FileNotFoundError."""
        found = read_path(self.store, self.watcher, path.absolute(), name=name)
        self.got_rows(read.run for read in found if read.run and not read.known)
        return found

    def ingest_upload(self, name: str, chunks: Iterable[bytes], *, progress: Progress | None = None) -> Ingested:
        """Spool `chunks` to disk and read them into the store in one transaction; the monitor diagnoses the run.

        `name` is shown to people and never used as a path. Raises UnreadableLog with a sentence when nothing can be
        read or the limit is passed; the store is then as it was.
        """
        spool = self.settings.data_dir / "spool" / uuid4().hex
        spool.parent.mkdir(exist_ok=True)
        try:
            self._spool(spool, chunks)
            followed = holder(self.store, str(spool))
            if followed is not None and spool.stat().st_size <= max(followed.offset, size_of(followed.path)):
                run = followed.job or followed.run
                return Ingested(run, True, self.store.report(run))
            ingested = ingest_file(self.store, spool, name=name, source=None, progress=progress)
        finally:
            spool.unlink(missing_ok=True)
        self.got_rows([ingested.run_id])
        return ingested

    def _spool(self, path: Path, chunks: Iterable[bytes]) -> None:
        limit = self.settings.max_upload_mib << 20
        size = 0
        with path.open("wb") as spool:
            for chunk in chunks:
                size += len(chunk)
                if size > limit:
                    raise too_large(self.settings.max_upload_mib)
                spool.write(chunk)

    def segments(self, run_id: str) -> list[Segment]:
        """Return the launches of a run as the rules see them."""
        return segments_of(self.store, run_id)

    def diagnosis(self, run_id: str, profile: str | None = None) -> Diagnosis:
        """Return the diagnosis of the run as it is now; computed once for each version of its data."""
        return self._diagnosed(run_id, profile or self.settings.profile)[1]

    def edition(self, run_id: str) -> int:
        """Return how often the same rows of a run were judged anew: a cached diagnosis of an earlier edition is stale."""
        return self._editions[run_id]

    def _diagnose_anew(self, run_id: str) -> tuple[Diagnosis | None, Diagnosis]:
        return self._diagnosed(run_id, self.settings.profile)

    def _diagnosed(self, run_id: str, profile: str) -> tuple[Diagnosis | None, Diagnosis]:
        """Return the diagnosis kept so far (None without one) and the one of the run as it is now."""
        with self._diagnosing[run_id]:  # a page and the monitor may ask at once
            version = self.store.version(run_id)
            thresholds, kept = of_run(self.store, run_id, profile), self.store.diagnosis(run_id, profile)
            before = Diagnosis.from_dict(kept[1]) if kept else None
            silent = self.arrivals.silent(run_id)
            news = silent is not None and silent > least_seconds(thresholds, profile) and not (before and hangs(before))
            settled = self.growing.settles(run_id, profile) == 0.0 and bool(kept and kept[0] == version)
            has_facts = bool(kept and Glance.from_dict(kept[1].get("glance")).facts)  # kept since the totals need them
            news = news or settled or not (has_facts or self.settings.read_only)
            if kept and before and not news and kept[0] == version and kept[1].get("thresholds", {}) == thresholds:
                return before, before
            if kept and before and self.store.thinned(run_id):
                if kept[0] != version and not self.settings.read_only:  # it is what can be known: the run is not waiting
                    self.store.save_diagnosis(run_id, profile, version, kept[1])
                return before, before
            judge = self.growing.settle if settled else self.growing.judge
            judged = judge(run_id, profile, thresholds, silent)
            diagnosis = judged.diagnosis if silent is None else self._heard(run_id, judged, profile, thresholds, silent)
            if not self.settings.read_only:
                told = {"glance": glance(judged.segments, diagnosis.findings, self.settings.data_dir).to_dict()}
                self.store.save_diagnosis(run_id, profile, version, diagnosis.to_dict() | told | {"thresholds": thresholds})
            if kept and kept[0] == version:
                self._editions[run_id] += 1
                self.board.forget(run_id)
            return before, diagnosis

    def set_thresholds(self, name: str, profile: str, values: Thresholds, *, who: str = "") -> None:
        """Keep the thresholds of a project for a profile and judge its runs anew. Raises BadThreshold."""
        save(self.store, name, profile, values, who=who)
        for line in self.board.lines():
            if line.project == name:
                self._editions[line.run.id] += 1
                if self.monitor is not None:
                    self.monitor.changed(line.run.id)

    def _heard(self, run_id: str, judged: Judged, profile: str, thresholds: Thresholds, silent: float) -> Diagnosis:
        launch = current_launch(judged.segments)
        rhythm = self.arrivals.rhythm(run_id, launch.number, launch.total_steps, silent)
        return heard(judged, rhythm, profile, thresholds)

    def _next_look(self, run_id: str, diagnosis: Diagnosis) -> float | None:
        """Return after how many seconds a run should be listened to again although it gives nothing."""
        silent = self.arrivals.silent(run_id)
        profile = self.settings.profile
        least = 0.0 if silent is None else least_seconds(of_run(self.store, run_id, profile), profile)
        waits = (next_look(diagnosis, silent, least), self.growing.settles(run_id, profile))
        return min((wait for wait in waits if wait is not None), default=None)

    def time_left(self, run_id: str) -> Estimate | Text:
        """Return how long the run still needs, or why that can't be told."""
        segments = self.segments(run_id)
        return time_left(segments) or why_unknown(segments) or Text(N_("there is no training step yet"))

    def cost(self, run_id: str, wishes: Wishes) -> Costs:
        """Return time and cost of the run, as the log and `wishes` say. Raises ValueError for a wish that can't be."""
        segments, report = self.segments(run_id), self.store.report(run_id)
        return costs(segments, self.diagnosis(run_id), report, wishes, data_dir=self.settings.data_dir)

    def find_run(self, run: str) -> str:
        """Return the id of the run with this id or, when only one has it, this name. Raises UnknownRun."""
        runs = self.store.runs()
        found = [r.id for r in runs if r.id == run] or [r.id for r in runs if r.name == run]
        if len(found) == 1:
            return found[0]
        raise UnknownRun(f"{len(found)} runs are called {run!r}; use an id." if found else f"No run is called {run!r}.")


def to_segments(
    rows: object, events: Iterable[Event], config: dict[str, object], drifts: Iterable[Drift] = ()
) -> list[Segment]:
    """Cut rows (pa.Table of every kind) and events into launches; the seam between storage and analysis.

    drifts: where lines of another form begin.
    """
    return split_segments(rows, events=[*as_dicts(events), *changes(drifts)], config=config)


def _launches(result: ReadResult) -> list[Segment]:
    return to_segments(result.rows, result.events, dict(result.report.config), result.report.drifts)


def diagnose_file(result: ReadResult, *, profile: str = "robust", thresholds: Thresholds | None = None) -> Diagnosis:
    """Diagnose a file that was read but not stored; `thresholds` replace the rules' defaults."""
    return diagnose(_launches(result), profile=profile, thresholds=thresholds)


def cost_file(result: ReadResult, wishes: Wishes, *, data_dir: Path | None = None) -> Costs:
    """Return time and cost of a file that was read but not stored."""
    segments = _launches(result)
    return costs(segments, diagnose(segments), result.report, wishes, data_dir=data_dir)


def too_large(limit_mib: int) -> UnreadableLog:
    """Return the error for an upload above the limit."""
    message = N_(
        "The upload is larger than the limit of {limit_mib} MiB; nothing was stored. Read it from the server's disk instead: "
        "python cli.py ingest FILE — or raise max_upload_mib."
    )
    return UnreadableLog("too_large", Text(message, {"limit_mib": limit_mib}))


_lock = threading.Lock()
_service: Service | None = None


def get(make: Callable[[], Settings] = load_settings) -> Service:
    """Return the process's service, opening it on first use with the settings that `make` returns."""
    global _service
    with _lock:
        if _service is None:
            _service = Service.open(make())
        return _service


def start() -> None:
    """Open the process's service and let it watch; for the server, which stops it at its end."""
    get().start()


def stop() -> None:
    """Close the process's service if it was opened."""
    global _service
    with _lock:
        if _service is not None:
            _service.close()
            _service = None
