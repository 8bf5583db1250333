"""The run was stopped before its end.

Meaning: Somebody interrupted it, or the scheduler ended it: its time was over, or the machine was wanted. The training
itself did not fail; it is simply not finished.

Causes: A keyboard interrupt, a time limit, a cancelled or preempted job, or a signal from outside.

What to do: Nothing to repair. Resume from the last checkpoint if it was not meant to end here; ask for more time if a limit
ended it.

Source: the messages of Python, slurm, LSF, PBS and the launchers.
"""

from collections.abc import Iterator

from analysis.attribution import explain
from analysis.columns_printed import changes
from analysis.ending import Incident, incidents
from analysis.evidence import where
from analysis.failures import DONE, failure, gaps_of, incidents_of
from analysis.findings import Evidence, Finding, Severity
from analysis.segment import Segment
from messages import N_, Text

NEEDS = ()
TEXT = True


def check(segment: Segment) -> Iterator[Finding]:
    """Yield each time that the run was stopped from outside."""
    for incident in incidents_of(segment, "stopped"):
        yield failure(segment, incident, _title(segment, incident), *_evidence(segment, incident), mild=True)
    goes_on = any(not change.read for change in changes(segment))
    if len(segment) and not goes_on and not incidents(segment) and segment.silent_seconds is None:
        yield from _breaks_off(segment)


def _breaks_off(segment: Segment) -> Iterator[Finding]:
    """A log that ends before its plan and does not say why, which nobody is watching."""
    last = len(segment) - 1
    progress, step = segment.progress(last), segment.step(last)
    finished = len(segment.events) and segment.events["kind"].eq("training_finished").any()
    if progress is None or step is None or progress >= DONE or finished:
        return
    gaps = {"step": where(segment, last), "total": segment.total_steps or 0, "share": progress}
    causes, advice = explain(segment, "stopped", last)
    yield Finding(
        kind="stopped",
        severity=Severity.INFO,
        segment=segment.number,
        first_step=step,
        last_step=None,
        known_step=step,
        first_line=segment.line(last),
        last_line=segment.line(last),
        title=Text(N_("The log ends at {step} of {total:,} without saying why: still running, cut off or killed"), gaps),
        evidence=(Evidence(Text(N_("done, share of the plan")), round(progress, 4), step=step),),
        causes=causes,
        advice=advice,
    )


def _title(segment: Segment, incident: Incident) -> Text:
    gaps = gaps_of(segment, incident) | {"total": segment.total_steps or 0}
    if incident.row < 0:
        return Text(N_("It was stopped before any training step was printed (line {line:,}): {what}"), gaps)
    if incident.survived:
        return Text(N_("It was interrupted after {step} (line {line:,}) and went on"), gaps)
    if incident.data.get("reason") == "time_limit":
        return Text(N_("Its time limit ended the run after {step} (line {line:,})"), gaps)
    if incident.root["kind"] == "cancelled":
        return Text(N_("The scheduler ended the run after {step} (line {line:,})"), gaps)
    if incident.data.get("signal") not in (None, "SIGINT"):
        gaps["signal"] = str(incident.data["signal"])
        return Text(N_("A signal from outside ({signal}) ended the run after {step} (line {line:,})"), gaps)
    if segment.total_steps:
        return Text(N_("The run was stopped by hand after {step} of {total:,} (line {line:,})"), gaps)
    return Text(N_("The run was stopped by hand after {step} (line {line:,})"), gaps)


def _evidence(segment: Segment, incident: Incident) -> Iterator[Evidence]:
    progress = segment.progress(incident.row) if incident.row >= 0 else None
    if progress is not None:
        yield Evidence(Text(N_("done, share of the plan")), round(progress, 4), step=segment.step(incident.row))


def sick() -> Segment:
    """Return a run whose time limit ends it at two thirds of its plan."""
    from analysis.simulate import simulate, with_events

    limit = (230, "cancelled", "CANCELLED DUE TO TIME LIMIT", {"reason": "time_limit"})
    return with_events(simulate(rows=300, seed=2).segment.head(200), limit)


def well() -> Segment:
    """Return a run that somebody stopped at the keyboard at two thirds of its plan: noted, not an alarm."""
    from analysis.simulate import simulate, with_events

    interrupt = (230, "interrupted", "KeyboardInterrupt", {"signal": "SIGINT"})
    return with_events(simulate(rows=300, seed=2).segment.head(200), interrupt)
