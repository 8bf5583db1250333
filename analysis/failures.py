"""What a rule that reads the text makes of an incident: one finding for one root cause, not one for each line."""

from collections.abc import Iterator
from typing import Any

from analysis.attribution import explain
from analysis.ending import Incident, by_hand, incidents
from analysis.evidence import at_step, where
from analysis.findings import Evidence, Finding, Severity
from analysis.segment import Segment
from messages import N_, Text

DONE = 0.999  # of the plan, after which a failure costs nothing
MOST = 50  # incidents shown of one launch


def incidents_of(segment: Segment, kind: str) -> Iterator[Incident]:
    """Yield the incidents of a launch whose root belongs to a class."""
    yield from [incident for incident in incidents(segment) if incident.kind == kind][:MOST]


def harmless(segment: Segment, incident: Incident) -> bool:
    """Say whether training was done before, as the log said or by its plan."""
    progress = segment.progress(incident.row) if incident.row >= 0 else None
    return incident.finished or (progress is not None and progress >= DONE)


def failure(segment: Segment, incident: Incident, title: Text, *evidence: Evidence, mild: bool = False) -> Finding:
    """Return the finding about an incident: critical (mild: a warning) where it ended the launch, else only worth a look,
    and information once training was done."""
    root, row = incident.root, incident.row
    line = int(root["line"])
    causes, advice = explain(segment, incident.kind, row, known=line)
    known = min(row + 1, len(segment) - 1) if incident.survived else row
    return Finding(
        kind=incident.kind,
        severity=_severity(segment, incident, mild=mild),
        segment=segment.number,
        first_step=segment.step(row) if row >= 0 else None,
        last_step=segment.step(known) if incident.survived else None,
        known_step=segment.step(known) if known >= 0 else None,
        first_line=int(incident.events[0]["line"]),
        last_line=int(incident.events[-1]["line"]),
        title=title,
        evidence=(
            Evidence(Text(N_("what the log says")), shortened(root["text"], 300), line=line),
            *evidence,
            *_rest(incident),
        ),
        causes=causes,
        advice=advice,
    )


def gaps_of(segment: Segment, incident: Incident) -> dict[str, Any]:
    """Return what every title may use: {what} the log says, at which {line}, and the {step} before (0: none was logged)."""
    step = where(segment, incident.row) if incident.row >= 0 else at_step(segment, 0)
    return {"what": shortened(incident.root["text"]), "line": int(incident.root["line"]), "step": step}


def shortened(text: object, length: int = 160) -> str:
    """Return a line of a log in one line and not too long."""
    line = " ".join(str(text).split())
    return line if len(line) <= length else line[: length - 1] + "…"


def _severity(segment: Segment, incident: Incident, *, mild: bool) -> Severity:
    if harmless(segment, incident) or by_hand(incident):
        return Severity.INFO
    if incident.survived:
        return Severity.INFO if mild or incident.kind == "crash" else Severity.WARNING
    return Severity.WARNING if mild else Severity.CRITICAL


def _rest(incident: Incident) -> Iterator[Evidence]:
    yield Evidence(Text(N_("lines of the log that tell of it")), len(incident.events), line=int(incident.events[0]["line"]))
    others = {event["kind"]: event for event in reversed(incident.events) if event["kind"] != incident.root["kind"]}
    for event in sorted(others.values(), key=lambda event: event["line"])[:4]:
        yield Evidence(Text(N_("also")), shortened(event["text"], 120), line=int(event["line"]))
