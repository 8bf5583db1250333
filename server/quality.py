"""How much the log of a run can tell, from what its reader counted and what the rules could do with it."""

from dataclasses import dataclass

from analysis.log_lines import framework_of
from analysis.log_quality import LogFacts, Quality, quality
from server.costs import log_weight
from server.service import Service
from storage.types import ParseReport


@dataclass(frozen=True, eq=False)
class LogQuality:
    """The quality of a log, what was counted, the report of the reader, and the framework that seems to write it."""

    quality: Quality
    facts: LogFacts
    report: ParseReport
    framework: str


def log_quality(service: Service, run_id: str) -> LogQuality:
    """Return how much the log of a run can tell. Raises UnknownRun."""
    segments, report = service.segments(run_id), service.store.report(run_id)
    facts = LogFacts(
        lines=report.lines,
        records=report.records,
        evals=report.eval_records,
        unparsed=report.unparsed_count,
        format=report.format or "",
        size=log_weight(segments, report),
    )
    return LogQuality(quality(segments, facts, service.diagnosis(run_id)), facts, report, framework_of(report.format))
