"""The care of the store that nobody has to ask for: once a day what is too old goes, what was deleted is removed for good.

Also how full the disk is: a person should know before nothing can be stored any more.
"""

import logging
import shutil
import threading
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING

from messages import N_, Text
from server.settings import Settings
from storage.keeping.retention import ROWS, Plan, Policy

if TYPE_CHECKING:
    from server.service import Service

LOG = logging.getLogger("runvitals.care")
DAY_SECONDS = 86_400.0
FIRST_SECONDS = 300.0  # after the start: it should not make a server that was just opened slow
PROFILES = ("robust", "articles")
WARNING_SHARE = 0.8  # of the budget, or of the disk
GIB = 1 << 30


@dataclass(frozen=True)
class DiskStatus:
    """How much the store takes, and of how much: `state` is ok, warning (from 80 %) or full; bytes. `budget` None: not set."""

    state: str
    used: int
    budget: int | None
    free: int
    parts: dict[str, int]
    message: Text


def policy(settings: Settings) -> Policy:
    """Return what the settings say of ageing; 0 days there means never."""
    return Policy(
        lines_days=settings.keep_lines_days or None,
        rows_days=settings.keep_rows_days or None,
        aggregates_days=settings.keep_aggregates_days or None,
        around=settings.keep_around,
    )


def retain(service: "Service", *, dry_run: bool = False, at: datetime | None = None) -> Plan:
    """Let go of what is older than the settings say (with `dry_run`: only say what that is).

    Runs that were never diagnosed are diagnosed first, and those that lose rows under every profile: afterwards that
    could not be done any more. `at`: as if it were then.
    """
    rules = policy(service.settings)
    plan = service.store.retention(rules, dry_run=True, at=at)
    for run in plan.undiagnosed:
        service.diagnosis(run)
    plan = service.store.retention(rules, dry_run=True, at=at)
    for run in [] if dry_run else [step.run for step in plan.steps if step.what == ROWS]:
        for profile in PROFILES:
            service.diagnosis(run, profile)
    return service.store.retention(rules, dry_run=dry_run, at=at)


def disk_status(service: "Service") -> DiskStatus:
    """Return how full the store's budget is, and the disk itself."""
    parts = service.store.disk()
    used, free = sum(parts.values()), shutil.disk_usage(service.settings.data_dir).free
    budget = round(service.settings.disk_budget_gib * GIB) or None
    limit = used + free if budget is None else min(budget, used + free)
    state = "full" if used >= limit else "warning" if used >= WARNING_SHARE * limit else "ok"
    gaps = {"used": round(used / GIB, 2), "limit": round(limit / GIB, 2)}
    if state == "ok":
        message = Text(N_("The store takes {used} GiB of {limit} GiB."), gaps)
    elif state == "warning":
        message = Text(
            N_("The store takes {used} GiB of {limit} GiB: let older rows go (keep_rows_days) or give it more room."), gaps
        )
    else:
        message = Text(N_("The store takes {used} GiB, more than the {limit} GiB it may. Run: python cli.py retain"), gaps)
    return DiskStatus(state, used, budget, free, parts, message)


class Care:
    """Looks after the store once a day, in a thread of its own."""

    def __init__(self, service: "Service", *, first_seconds: float = FIRST_SECONDS, seconds: float = DAY_SECONDS) -> None:
        self._service = service
        self._first_seconds, self._seconds = first_seconds, seconds
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="care", daemon=True)

    def start(self) -> None:
        """Begin; the first time a few minutes after the start."""
        self._thread.start()

    def stop(self) -> None:
        """End after the transaction it is in."""
        self._stop.set()
        self._thread.join(timeout=60)

    def _run(self) -> None:
        wait = self._first_seconds
        while not self._stop.wait(wait):
            wait = self._seconds
            try:
                self.once()
            except Exception:  # the next day is another one
                LOG.exception("The care of the store failed")

    def once(self) -> None:
        """Do what is due now."""
        store = self._service.store
        if self._service.settings.object_store:
            store.mirror_to(self._service.settings.object_store)
            store.mirror()  # before anything goes
        removed = store.purge()
        plan = retain(self._service)
        hot_days = self._service.settings.hot_days
        cooled = store.cool(hot_days) if hot_days else {}
        for step in plan.steps:
            LOG.info("%s %s of run %s are no longer kept, about %s bytes", step.count, step.what, step.run, step.bytes)
        if cooled:
            LOG.info("The rows of %s runs are in Parquet files now", len(cooled))
        if removed:
            LOG.info("%s deleted runs were removed for good", len(removed))
        status = disk_status(self._service)
        if status.state != "ok":
            LOG.warning("%s", status.message.render())
