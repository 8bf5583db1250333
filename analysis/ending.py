"""How a launch ended, as far as its text says: failures that lie close together are one incident with one root.

A crash prints the same trouble many times: every rank its traceback, then the launcher, then the scheduler. Of these the
most specific one explains the others, of equals the first. Somebody stopping a run explains the tracebacks beside it,
unless it was failing already; a signal that a launcher sends to the other processes explains nothing.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from analysis.segment import Segment

# kind of an event -> (class of the finding, how specific it is as the cause of an end)
FAILURES: dict[str, tuple[str, float]] = {
    "out_of_memory": ("out_of_memory", 10),
    "xid": ("crash", 10),
    "ecc": ("crash", 10),
    "disk_full": ("crash", 10),
    "port_in_use": ("crash", 9),
    "argument_error": ("crash", 9),
    "import_error": ("crash", 9),
    "cancelled": ("stopped", 9),
    "interrupted": ("stopped", 9),
    "file_not_found": ("crash", 8),
    "cuda_error": ("crash", 8),
    "collective_timeout": ("collective_timeout", 7),
    "traceback": ("crash", 7),
    "killed": ("crash", 7),
    "not_finite": ("crash", 9),
    "exception": ("crash", 5),
    "hang": ("collective_timeout", 6),
    "nccl_error": ("crash", 6),
    "connection_error": ("crash", 4),
    "child_failed": ("crash", 2),
}
FAILED = frozenset(kind for kind, (name, _) in FAILURES.items() if name != "stopped")
STOPPED = frozenset(FAILURES) - FAILED
REASONS = {"node_failure": "crash", "memory_limit": "out_of_memory"}  # of a scheduler that cancels a job
CONSEQUENCE = 3.0  # weight of a stop that something else caused
CALM_LINES = 1500  # without a failure between two incidents
ROWS_BETWEEN = 3  # other processes may print a few rows while one of them fails


@dataclass(frozen=True, eq=False)
class Incident:
    """Failures that lie close together.

    kind: class of the finding; root: the event that explains the others (`line`, `step`, `kind`, `text`, `data`).
    events: all of them in order; row: the last row before the first of them, -1 without one; rows_after: rows of the
    launch after the last of them; finished: the log had said before that training was done.
    """

    kind: str
    root: Mapping[str, Any]
    events: tuple[Mapping[str, Any], ...]
    row: int
    rows_after: int
    finished: bool

    @property
    def survived(self) -> bool:
        """Say whether training went on afterwards."""
        return self.rows_after > 0

    @property
    def data(self) -> Mapping[str, Any]:
        """Return what more the line of the root tells; may be empty."""
        return told(self.root)


def by_hand(incident: Incident) -> bool:
    """Say whether somebody stopped the run at the keyboard: that is a decision, not trouble."""
    return incident.root["kind"] == "interrupted" and incident.data.get("signal") in (None, "SIGINT")


def told(event: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return what more the line of an event tells; may be empty."""
    data = event.get("data")
    return data if isinstance(data, Mapping) else {}


def current_launch(segments: Sequence[Segment]) -> Segment:
    """Return the last launch that has rows; the last launch if none has."""
    return next((segment for segment in reversed(segments) if len(segment)), segments[-1])


def ending(segments: Sequence[Segment]) -> Incident | None:
    """Return the incident that ended the last launch with rows or came after it, the first if several; None without one."""
    current = current_launch(segments)
    found = [incident for incident in incidents(current) if not incident.survived and not incident.finished]
    later = [segment for segment in segments[segments.index(current) + 1 :] if not len(segment)]
    found += [incident for segment in later for incident in incidents(segment) if not incident.finished]
    return found[0] if found else None


def incidents(segment: Segment) -> tuple[Incident, ...]:
    """Return the incidents of a launch in the order of the log, worked out once a segment."""
    return segment.once("incidents", lambda: tuple(_incidents(segment)))


def incident_at(segment: Segment, line: int) -> Incident | None:
    """Return the incident whose root stands on a line."""
    return next((incident for incident in incidents(segment) if incident.root["line"] == line), None)


def _incidents(segment: Segment) -> Iterator[Incident]:
    events = sorted(segment.events.to_dict("records"), key=lambda event: event["line"])
    failures = [event for event in events if event["kind"] in FAILURES and not told(event).get("warning")]
    if not failures:
        return
    lines = segment.rows["line"].to_numpy() if segment.has("line") else np.zeros(0)
    before = np.searchsorted(lines, [event["line"] for event in failures])
    done = min((event["line"] for event in events if event["kind"] == "training_finished"), default=None)
    start = 0
    for at in range(1, len(failures) + 1):
        if at < len(failures) and _together(failures[at - 1 : at + 1], before[at - 1 : at + 1]):
            continue
        part = failures[start:at]
        root = _root(part)
        finished = done is not None and done < part[0]["line"]
        yield Incident(_class(root), root, tuple(part), int(before[start]) - 1, len(segment) - int(before[at - 1]), finished)
        start = at


def _together(pair: Sequence[Mapping[str, Any]], before: np.ndarray) -> bool:
    return pair[1]["line"] - pair[0]["line"] <= CALM_LINES and before[1] - before[0] <= ROWS_BETWEEN


def _root(events: Sequence[Mapping[str, Any]]) -> Mapping[str, Any]:
    weights = [_weight(event, events[:place]) for place, event in enumerate(events)]
    return events[weights.index(max(weights))]


def _weight(event: Mapping[str, Any], earlier: Sequence[Mapping[str, Any]]) -> float:
    weight = FAILURES[event["kind"]][1]
    if event["kind"] in STOPPED:
        failing = any(other["kind"] in FAILED and FAILURES[other["kind"]][1] >= 6 for other in earlier)
        if failing or told(event).get("signal") == "SIGTERM":
            return CONSEQUENCE
    return weight + 0.5 * (event["kind"] == "child_failed" and "rank" in told(event))


def _class(root: Mapping[str, Any]) -> str:
    return REASONS.get(str(told(root).get("reason")), FAILURES[root["kind"]][0])
