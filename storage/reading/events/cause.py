"""Why a run ended: of all failures in its text the one that explains the others."""

from collections.abc import Iterable

from storage.types import Event

# How specific a kind is as the cause of an end; the most specific wins, of equals the first.
FAILURES = {
    "out_of_memory": 10,
    "xid": 10,
    "ecc": 10,
    "disk_full": 10,
    "port_in_use": 9,
    "argument_error": 9,
    "import_error": 9,
    "cancelled": 9,
    "interrupted": 9,
    "file_not_found": 8,
    "cuda_error": 8,
    "traceback": 7,
    "collective_timeout": 7,
    "killed": 7,
    "not_finite": 9,
    "exception": 5,
    "hang": 6,
    "nccl_error": 6,
    "connection_error": 4,
    "child_failed": 2,
}
_OUTSIDE = ("cancelled", "interrupted")  # somebody ended the run: a cause only where it was not failing already
_CALM_LINES = 1500  # lines without a failure between two incidents


def why_failed(events: Iterable[Event], *, after: int | None = None) -> Event | None:
    """Return the event that best explains how the log ends; None where it ends without a failure.

    `after` is the line of the last record: what failed before it was survived. Without it the last incident counts:
    failures of the last launch that lie close together.
    """
    every = sorted(events, key=lambda event: event.line)
    finished = max((event.line for event in every if event.kind == "training_finished"), default=-1)
    failures = [event for event in every if event.kind in FAILURES and not event.data.get("warning")]
    failures = [event for event in failures if event.line > (finished if after is None else max(after, 0))]
    incident = _last_incident(failures)
    weights = [_weight(event, incident[:place]) for place, event in enumerate(incident)]
    return incident[weights.index(max(weights))] if incident else None


def _last_incident(failures: list[Event]) -> list[Event]:
    """Return the failures from the end back to the first calm stretch or other launch."""
    begin = len(failures)
    while begin > 0:
        event, later = failures[begin - 1], failures[min(begin, len(failures) - 1)]
        if event.segment != failures[-1].segment or later.line - event.line > _CALM_LINES:
            break
        begin -= 1
    return failures[begin:]


def _weight(event: Event, before: list[Event]) -> float:
    """Return how well an event explains the end, given the failures before it in the same incident."""
    weight = float(FAILURES[event.kind])
    if event.kind in _OUTSIDE and event.data.get("signal") == "SIGTERM":
        weight = 3.0  # launchers end the other processes so
    if event.kind in _OUTSIDE and any(FAILURES[earlier.kind] >= 6 and earlier.kind not in _OUTSIDE for earlier in before):
        weight = 3.0
    if event.kind == "child_failed" and "rank" in event.data:
        weight += 0.5
    return weight
