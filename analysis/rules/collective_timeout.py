"""A collective operation timed out: the processes waited for one that did not come.

Meaning: In an all-reduce or another operation of all processes one of them did not arrive within the time limit, so the
others gave up. The rank that reports it is usually not the one at fault.

Causes: One process that crashed, hangs or has fewer batches than the others; a network link; or a checkpoint or evaluation
on one rank that takes longer than the limit.

What to do: Find the rank that is missing: compare the last step of every rank and dump stacks. Check the network between
the nodes. Raise the limit only if something legitimate, such as a checkpoint, takes that long.

Source: the messages of the NCCL, RCCL, HCCL and Gloo watchdogs.
"""

from collections.abc import Iterator

from analysis.ending import Incident, told
from analysis.failures import failure, gaps_of, incidents_of
from analysis.findings import Evidence, Finding
from analysis.segment import Segment
from messages import N_, Text

NEEDS = ()
TEXT = True


def check(segment: Segment) -> Iterator[Finding]:
    """Yield each collective operation that timed out: the first message of an incident stands for all processes."""
    for incident in incidents_of(segment, "collective_timeout"):
        yield failure(segment, incident, _title(segment, incident), *_evidence(incident))


def _title(segment: Segment, incident: Incident) -> Text:
    gaps = gaps_of(segment, incident)
    waited, operation = incident.data.get("milliseconds"), incident.data.get("operation")
    if waited is None:
        return Text(N_("The processes waited for one of them in vain after {step} (line {line:,}): {what}"), gaps)
    gaps |= {"minutes": waited / 60_000, "operation": operation or "?"}
    return Text(N_("{operation} gave up after {minutes:.0f} min of waiting, after {step} (line {line:,})"), gaps)


def _evidence(incident: Incident) -> Iterator[Evidence]:
    ranks = sorted({int(told(event)["rank"]) for event in incident.events if "rank" in told(event)})
    line = int(incident.root["line"])
    if ranks:
        yield Evidence(Text(N_("ranks that report it")), ", ".join(map(str, ranks[:16])), line=line)
    if "milliseconds" in incident.data:
        yield Evidence(Text(N_("waited")), round(incident.data["milliseconds"] / 1000, 1), "s", line=line)


def sick() -> Segment:
    """Return a run in which two ranks give up waiting."""
    from analysis.simulate import simulate, with_events

    text = "Watchdog caught collective operation timeout"
    waited = {"milliseconds": 600_123, "operation": "ALLREDUCE"}
    first, second = ((210 + rank, "collective_timeout", text, waited | {"rank": rank}) for rank in (1, 3))
    return with_events(simulate(rows=300, seed=2).segment.head(200), first, second)


def well() -> Segment:
    """Return a run that ran out of memory on one rank, so that another waited: the cause is the memory."""
    from analysis.simulate import simulate, with_events

    return with_events(
        simulate(rows=300, seed=2).segment.head(200),
        (210, "out_of_memory", "CUDA out of memory", {}),
        (230, "collective_timeout", "Watchdog caught a timeout", {}),
    )
