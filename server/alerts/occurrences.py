"""What happened to a run that somebody may want to be told: a finding, a verdict that became bad, the end of the run."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from typing import Any

from analysis.diagnose import Diagnosis
from analysis.findings import Finding, Severity
from messages import N_, Text
from server.alerts.rules import ENDED, FAILED, GRAVITY, SETS, SICK
from server.board import finding_key
from storage.keeping.outbox import Alert

BAD = (SICK, FAILED)
SHOWN_BY_A_ROW = frozenset({*SETS["spikes"], *SETS["stalls"], "slowdown"})


@dataclass(frozen=True)
class Occurrence:
    """A happening, as it is kept and told. kind: the class of a finding, or SICK, FAILED, ENDED.

    cause, standing: the first cause of a finding and how it stands; advice: what to do first; verdict, sentence: of the run.
    """

    kind: str
    severity: Severity
    segment: int
    first_step: int | None
    last_step: int | None
    title: Text
    verdict: str
    sentence: Text
    cause: Text | None = None
    standing: str = ""
    advice: Text | None = None
    run_name: str = ""
    rules: tuple[str, ...] = ()
    known_step: int | None = None  # whose row shows it; None where no row does: an end, a silence, what the text says
    line_at: float | None = None  # when that row arrived, seconds since 1970; None where that was not seen
    at_step: int | None = None  # how far the run was when it was told

    @property
    def key(self) -> str:
        """Return the name of its finding among those of the run."""
        return finding_key(self.kind, self.segment, self.first_step)

    def to_dict(self) -> dict[str, Any]:
        """Return a JSON-ready form."""
        texts = {name: text.to_dict() if text else None for name, text in self._texts().items()}
        return asdict(self) | {"severity": str(self.severity), "rules": list(self.rules)} | texts

    def _texts(self) -> dict[str, Text | None]:
        return {"title": self.title, "sentence": self.sentence, "cause": self.cause, "advice": self.advice}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> "Occurrence":
        """Read back what `to_dict` wrote, also an earlier release's: what is of no use any more is left out."""
        names = {field.name for field in fields(cls)}
        texts = {name: Text.from_dict(data[name]) if data[name] else None for name in ("title", "sentence", "cause", "advice")}
        known = {name: value for name, value in data.items() if name in names}
        return cls(**{**known, "severity": Severity(data["severity"]), "rules": tuple(data["rules"]), **texts})


def occurrences(
    before: Diagnosis | None,
    now: Diagnosis,
    new: Sequence[Finding],
    told: Sequence[Alert],
    *,
    launch: int,
    over: bool,
    muted: frozenset[str] = frozenset(),
) -> Iterator[Occurrence]:
    """Yield what is to be told of a run, the gravest first.

    before: its last diagnosis, None when this is the first; new: findings that are not in that; told: the alerts that were
    raised for the run; launch: the number of its current one; over: it has ended; muted: keys of findings that are not wanted.

    A finding counts when it is new, or when it goes on in the current launch and was not told: so nothing is lost when the
    server stops between the diagnosis and the alert, nor by a quiet period. What is over by the first diagnosis is history.
    """
    known = [Occurrence.from_dict(alert.data) for alert in told]
    wanted = [
        finding for finding in now.findings if finding_key(finding.kind, finding.segment, finding.first_step) not in muted
    ]
    for finding in wanted:
        fresh = before is not None and finding in new
        goes_on = finding.last_step is None and finding.segment >= launch
        if fresh or (goes_on and not _told(known, finding.kind, finding.segment, finding.severity, finding.first_step)):
            yield _of_finding(finding, now)
    muted_away = len(wanted) < len(now.findings) and not any(finding.severity is Severity.CRITICAL for finding in wanted)
    if now.verdict in BAD and not (now.verdict == SICK and muted_away):
        changed = before is not None and before.verdict not in BAD
        if changed or not _told(known, now.verdict, launch, Severity.CRITICAL, now.since_step):
            yield _of_run(now.verdict, Severity.CRITICAL, launch, now, now.sentence)
    if over and not _told(known, ENDED, launch, Severity.INFO, None):
        yield _of_run(ENDED, Severity.INFO, launch, now, Text(N_("The run has ended")))


def _told(known: Sequence[Occurrence], kind: str, segment: int, severity: Severity, since: int | None) -> bool:
    """Say whether this was told: one that began after the last time that its class was told is another one."""
    return any(
        (each.kind, each.segment) == (kind, segment)
        and GRAVITY[each.severity] >= GRAVITY[severity]
        and (since is None or each.at_step is None or since <= each.at_step)
        for each in known
    )


def _of_finding(finding: Finding, now: Diagnosis) -> Occurrence:
    cause = finding.causes[0] if finding.causes else None
    return Occurrence(
        finding.kind,
        finding.severity,
        finding.segment,
        finding.first_step,
        finding.last_step,
        finding.title,
        str(now.verdict),
        now.sentence,
        cause=cause.text if cause else None,
        standing=str(cause.standing) if cause else "",
        advice=finding.advice[0] if finding.advice else None,
        known_step=finding.known_step if finding.kind in SHOWN_BY_A_ROW else None,
    )


def _of_run(kind: str, severity: Severity, launch: int, now: Diagnosis, title: Text) -> Occurrence:
    lead = next((finding for finding in now.findings if finding.title == now.sentence), None)
    advice = lead.advice[0] if lead and lead.advice else None
    return Occurrence(kind, severity, launch, now.since_step, None, title, str(now.verdict), now.sentence, advice=advice)
