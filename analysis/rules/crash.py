"""The run ended with an error.

Meaning: An exception, a failed kernel, a hardware fault or a kill ended the process. Of everything that is printed then,
by every rank and by the launcher, the most specific message is taken as the root and shown with its line.

Causes: An error in the script or its data, wrong arguments, missing files or packages, a full disk, a kernel that fails
(often an index or label out of range), the GPU itself (Xid, ECC), the network, or a kill by the system.

What to do: Read the root message named here before any other. Remove its cause and resume from the last checkpoint.

Source: the messages of Python, PyTorch, NCCL, the NVIDIA driver, torchrun and the common schedulers.
"""

from collections.abc import Iterator

from analysis.ending import Incident
from analysis.failures import failure, gaps_of, harmless, incidents_of, shortened
from analysis.findings import Evidence, Finding
from analysis.segment import Segment
from messages import N_, Text

NEEDS = ()
TEXT = True


def check(segment: Segment) -> Iterator[Finding]:
    """Yield each incident in which something failed, with its root."""
    for incident in incidents_of(segment, "crash"):
        yield failure(segment, incident, _title(segment, incident), *_evidence(incident))


def _title(segment: Segment, incident: Incident) -> Text:
    gaps = gaps_of(segment, incident)
    if incident.row < 0 and not len(segment):
        return Text(N_("It failed before any training step was printed (line {line:,}): {what}"), gaps)
    if incident.row < 0:
        return Text(N_("Before the first training step the log tells of an error (line {line:,}): {what}"), gaps)
    if incident.survived:
        return Text(N_("An error after {step}, and training went on (line {line:,}): {what}"), gaps)
    if harmless(segment, incident):
        return Text(N_("An error after training was done (line {line:,}): {what}"), gaps)
    return Text(N_("The run failed after {step} (line {line:,}): {what}"), gaps)


def _evidence(incident: Incident) -> Iterator[Evidence]:
    line = int(incident.root["line"])
    labels = {"exception": N_("exception"), "frame": N_("raised at"), "signal": N_("signal"), "exitcode": N_("exit code")}
    for name, label in labels.items():
        if incident.data.get(name) not in (None, ""):
            yield Evidence(Text(label), shortened(incident.data[name]), line=line)


def sick() -> Segment:
    """Return a run that ends with an exception, which the launcher reports once more."""
    from analysis.simulate import simulate, with_events

    raised = {"exception": "IndexError", "frame": "train.py:71 in step"}
    said = [(230, "traceback", "IndexError: index 9 is out of range", raised), (260, "child_failed", "ChildFailedError", {})]
    return with_events(simulate(rows=300, seed=2).segment.head(200), *said)


def well() -> Segment:
    """Return a run in which a worker's exception was caught and training went on."""
    from analysis.simulate import simulate, with_events

    return with_events(simulate(rows=300, seed=2).segment, (150, "traceback", "OSError: retrying", {"exception": "OSError"}))
