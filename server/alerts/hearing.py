"""Hears every diagnosis that the monitor makes, and puts into the outbox what people are to be told of live runs."""

import os
import time
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING
from uuid import uuid4

from analysis.diagnose import Diagnosis
from analysis.findings import Finding, Severity
from server import tags
from server.alerts.occurrences import Occurrence, occurrences
from server.alerts.rules import ENDED, FAILED, GRAVITY, AlertRule, Subject, rules
from server.arrivals import RECENT_SECONDS
from server.finding_states import muted
from server.glance import Glance
from server.monitor import last_printed
from server.thresholds import project_of
from storage.keeping.outbox import Alert
from storage.keeping.sources import Source
from storage.types import Run

if TYPE_CHECKING:
    from server.service import Service

BEHIND_BYTES = 1 << 20  # of a log that are not read yet: what is found until then may be long ago


def hear(service: "Service", run: str, before: Diagnosis | None, now: Diagnosis, new: Sequence[Finding]) -> bool:
    """Keep the alerts that a diagnosis of a run gives rise to; say whether there are any. Raises UnknownRun.

    before: its last diagnosis, None for its first; new: the findings that are not in that one.
    """
    wanted = [rule for rule in rules(service.store) if rule.on]
    about_ends = any(rule.tells(ENDED, Severity.INFO) for rule in wanted)
    head = service.store.run(run)
    launch = head.segments - 1
    told = service.store.outbox.alerts(run)
    possible = occurrences(before, now, new, told, launch=launch, over=about_ends)
    if not any(rule.tells(one.kind, one.severity) for one in possible for rule in wanted) or not is_live(service, head):
        return False  # at most looks: nothing more is asked of the store
    quiet = frozenset(muted(service.store, run))
    over = about_ends and (now.verdict == FAILED or _over(service, run))
    found = list(occurrences(before, now, new, told, launch=launch, over=over, muted=quiet))
    kept = list(_to_keep(service, head, found, wanted, told)) if found else []
    if kept:
        service.store.outbox.add(kept)
    return bool(kept)


def _over(service: "Service", run: str) -> bool:
    kept = service.store.diagnosis(run, service.settings.profile)
    return kept is not None and Glance.from_dict(kept[1].get("glance")).over


def _to_keep(
    service: "Service", run: Run, found: Sequence[Occurrence], wanted: Sequence[AlertRule], told: Sequence[Alert]
) -> list[tuple[Alert, list[str]]]:
    """Return what is alerted, each with its channels: what some rule is about and was not told in the rule's quiet period."""
    moment, kept = datetime.now(UTC), []
    subject = Subject(run.name, project_of(service.store, run.id), tags.of_run(service.store, run.id))
    mine = [rule for rule in wanted if rule.covers(subject)]
    for one in found:
        last = [alert for alert in told if _as_grave(alert, one)]
        telling = [rule for rule in mine if rule.tells(one.kind, one.severity) and not _quiet(rule, last, moment)]
        if telling:
            names = tuple(rule.name for rule in telling)
            whole = replace(one, run_name=run.name, rules=names, line_at=_arrived(service, run, one), at_step=run.last_step)
            channels = list(dict.fromkeys(channel for rule in telling for channel in rule.channels))
            alert = Alert(uuid4().hex, run.id, whole.to_dict(), moment)
            kept.append((alert, channels))
            told = [alert, *told]
    return kept


def _arrived(service: "Service", run: Run, one: Occurrence) -> float | None:
    if one.known_step is None or one.segment < run.segments - 1:
        return None
    return service.arrivals.arrived(run.id, one.known_step)


def _as_grave(alert: Alert, one: Occurrence) -> bool:
    known = Occurrence.from_dict(alert.data)
    return known.kind == one.kind and GRAVITY[known.severity] >= GRAVITY[one.severity]


def _quiet(rule: AlertRule, last: Sequence[Alert], moment: datetime) -> bool:
    return any(moment - alert.made < timedelta(minutes=rule.quiet_minutes) for alert in last)


def is_live(service: "Service", run: Run) -> bool:
    """Say whether a run goes on now, so that somebody may want to be told: what was read from an old log is history.

    It is live when it was seen to grow since the server started; when its log was written to after it was read first, and
    within the last hour; or when its last line is of the last hour by its own clock. An upload never is, nor is a log of
    which much is still to be read.
    """
    files = {source.run: source for source in service.store.sources(run.id)}.values()  # the last generation of each lane
    states = [_stat(source) for source in files]
    if not files or any(_behind(source, state) for source, state in zip(files, states, strict=True)):
        return False
    since = max(run.created.replace(tzinfo=UTC).timestamp(), time.time() - RECENT_SECONDS)
    written = any(state is not None and state.st_mtime > since for state in states)
    return written or service.arrivals.silent(run.id) is not None or _printed(service, run)


def _stat(source: Source) -> os.stat_result | None:
    """Return the state of a file; None of a stream, which must be seen to grow, and of a file that is gone."""
    try:
        return os.stat(source.path) if source.device else None
    except OSError:
        return None


def _behind(source: Source, state: os.stat_result | None) -> bool:
    return state is not None and state.st_size - source.offset > BEHIND_BYTES


def _printed(service: "Service", run: Run) -> bool:
    """Say whether the last row is of the last hour, by a clock that is UTC or that of this machine."""
    printed = last_printed(service.store, run.id, run.last_step)
    clocks = (datetime.now(), datetime.now(UTC).replace(tzinfo=None))
    return printed is not None and any(0 <= (clock - printed).total_seconds() < RECENT_SECONDS for clock in clocks)
