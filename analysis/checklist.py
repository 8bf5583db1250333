"""Does the training run end to end, and is it ready for more: conditions, items and dimensions, answered from the log.

An answer is pass, fail or unknown. Unknown never counts as a pass: what the log can't answer, a person may, with a note.
The four conditions, eleven items and seven dimensions are those of the source articles.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from analysis import answers
from analysis.answers import Answer, Known, State, known_of
from analysis.diagnose import Diagnosis
from analysis.ending import current_launch, ending
from analysis.log_quality import Quality
from analysis.segment import HARDWARE, Segment
from messages import N_, Text

__all__ = ["Checklist", "Item", "State", "Tick", "checklist", "outcome", "together"]

FINISHED = 0.999  # of the plan


@dataclass(frozen=True)
class Tick:
    """What a person answered: state, note, who, and when (as it is shown)."""

    state: State
    note: str = ""
    who: str = ""
    when: str = ""


@dataclass(frozen=True)
class Item:
    """A question and its answer.

    key: of a person's tick; title: the question; state; seen: what the log shows; how: what to do to find out;
    criterion: when it is passed (dimensions only); tick: a person's answer, which counts where the log has none.
    """

    key: str
    title: str
    state: State
    seen: tuple[Text, ...] = ()
    how: str = ""
    criterion: str = ""
    tick: Tick | None = None


@dataclass(frozen=True)
class Checklist:
    """The answers about a run: verdict over the four conditions, these, the items, the dimensions, what production needs,
    and how the run ended, in words."""

    verdict: State
    conditions: tuple[Item, ...]
    items: tuple[Item, ...]
    dimensions: tuple[Item, ...]
    production: tuple[Item, ...]
    outcome: Text

    @property
    def passed(self) -> int:
        """How many of the items are passed."""
        return sum(item.state is State.PASS for item in self.items)


def checklist(
    segments: Sequence[Segment],
    diagnosis: Diagnosis,
    quality: Quality,
    *,
    alerts: int | None = None,
    ticks: Mapping[str, Tick] | None = None,
) -> Checklist:
    """Return the answers about a run; alerts: how many channels tell somebody (None: not known); ticks: by key of an item."""
    known = known_of(segments, diagnosis, quality)
    given = ticks or {}
    conditions = _ticked(_conditions(known), given)
    by_key = {item.key: item for item in conditions}
    items = _ticked(_items(known, by_key), given)
    dimensions = _ticked(_dimensions(known, by_key | {item.key: item for item in items}), given)
    production = _ticked(_production(known, by_key, alerts), given)
    return Checklist(together(conditions), conditions, items, dimensions, production, outcome(segments, diagnosis))


def together(items: Sequence[Item]) -> State:
    """Return pass if every item is passed, fail if one failed, else unknown."""
    states = {item.state for item in items}
    return State.FAIL if State.FAIL in states else State.UNKNOWN if State.UNKNOWN in states else State.PASS


def _ticked(items: Iterator[Item], ticks: Mapping[str, Tick]) -> tuple[Item, ...]:
    """Put a person's answers where the log has none."""
    found = []
    for item in items:
        tick = ticks.get(item.key)
        open_ = item.state is State.UNKNOWN and tick is not None and tick.state is not State.UNKNOWN
        found.append(replace(item, state=tick.state, tick=tick) if open_ and tick else item)
    return tuple(found)


def _conditions(known: Known) -> Iterator[Item]:
    yield Item("data", N_("Data is loaded without errors"), *answers.data(known))
    yield Item("falls", N_("The main loss falls, without unexpected spikes"), *answers.falls(known))
    yield Item("finite", N_("No NaN and no infinity"), *answers.finite(known))
    how = N_("Stop the run, load the last checkpoint, and let it train on: the log then shows both.")
    yield Item("checkpoint", N_("A checkpoint is saved and can be resumed from"), *answers.checkpoint(known), how)


def _items(known: Known, conditions: Mapping[str, Item]) -> Iterator[Item]:
    how = N_("Print versions and card at the start, or look: torch.__version__, torch.cuda.get_device_name().")
    yield Item("versions", N_("Versions are pinned and the card is recognised"), *answers.versions(known), how)
    how = N_("Encode and decode one sample and train on it alone until its loss is near zero.")
    yield Item("sample", N_("Tokeniser and one sample pass through the whole chain"), State.UNKNOWN, (), how)
    how = N_("Bring the corpus to the page Data check, and decide what happens with broken samples.")
    yield Item("corpus", N_("The corpus has the right form, broken samples are handled"), State.UNKNOWN, (), how)
    how = N_("Change one argument after the other in short runs and see whether the run changes as meant.")
    yield Item("arguments", N_("Arguments were checked one by one and do what they should"), *answers.arguments(known), how)
    yield Item("start", N_("The first loss is plausible and the main loss falls steadily"), *answers.start(known))
    yield Item("values", N_("No NaN, no infinity, no abnormal spikes"), *answers.values(known))
    how = N_("Print whether the model routes (use_moe), or look at it: a dense one has an auxiliary loss of zero.")
    yield Item("structure", N_("The auxiliary loss fits the structure of the model"), *answers.structure(known), how)
    how = N_("Print memory, installed memory and step time, or watch nvidia-smi for some hundred steps.")
    yield Item("resources", N_("Memory has room, and the time of a step is steady"), *answers.resources(known), how)
    yield replace(conditions["checkpoint"], key="resume")
    how = N_("Let every process print its rank and its loss, or compare a run on one card with one on several.")
    yield Item("ranks", N_("Several processes share the data and agree in their losses"), *answers.ranks(known), how)
    yield Item("fields", N_("The fields of the log suffice to find the cause of trouble"), *answers.fields(known))


# Key, title, the items it rests on (none: answered apart), how to find out, when it is passed.
DIMENSIONS = (
    (
        "function",
        N_("Function"),
        ("data", "checkpoint"),
        N_("Run the whole chain once at a small scale."),
        N_("A checkpoint comes out, and training goes on from it."),
    ),
    (
        "control",
        N_("Control"),
        ("arguments",),
        N_("Change the arguments one by one and watch what changes."),
        N_("The run does what the argument says, without a change of the code."),
    ),
    (
        "convergence",
        N_("Convergence"),
        ("falls",),
        N_("Train for a short while and look at the curve."),
        N_("The loss falls on the whole, without divergence or a long plateau."),
    ),
    (
        "performance",
        N_("Performance and resources"),
        ("resources",),
        N_("Measure with a fixed batch and sequence length."),
        N_("Memory has room, and the time of a step is steady."),
    ),
    (
        "scaling",
        N_("Scaling"),
        ("ranks",),
        N_("Compare one process with several under equal conditions."),
        N_("No data is trained on twice, and the curves have the same shape."),
    ),
    (
        "stability",
        N_("Stability"),
        (),
        N_("Inject faults: broken data, little memory, a missing package."),
        N_("It ends with a clear error and does not hang in silence."),
    ),
    (
        "observable",
        N_("Observability"),
        ("fields",),
        N_("Look at the fields of the log and at what a checkpoint says of itself."),
        N_("The scene of trouble can be reproduced, and runs can be compared."),
    ),
)


def _dimensions(known: Known, given: Mapping[str, Item]) -> Iterator[Item]:
    """Yield the seven dimensions: each rests on the items that stand for it."""
    for key, title, keys, how, criterion in DIMENSIONS:
        items = [given[name] for name in keys]
        state, seen = _resting_on(items) if items else answers.stability(known)
        yield Item(f"dimension_{key}", title, state, seen, how, criterion)


def _resting_on(items: Sequence[Item]) -> Answer:
    state = together(items)
    return state, tuple(text for item in items if item.state is state for text in item.seen[:2])


def _production(known: Known, conditions: Mapping[str, Item], alerts: int | None) -> Iterator[Item]:
    yield replace(conditions["checkpoint"], key="production_resume", title=N_("Resuming from a checkpoint"))
    state, seen = State.UNKNOWN, Text(N_("it is not known whether anybody is told"))
    if alerts is not None:
        state = State.PASS if alerts else State.FAIL
        seen = (
            Text(N_("ways to be told that are set up: {n}"), {"n": alerts})
            if alerts
            else Text(N_("nobody is told: no alert is set up"))
        )
    how = N_("Set up who is told (Team: Alerts), and try it once.")
    yield Item("production_alerts", N_("Alerts when something goes wrong"), state, (seen,), how)
    watched = [name for name in sorted(HARDWARE) if known.segment.logs(name)]
    if watched:
        text = Text(N_("measurements of the hardware in the log: {n}"), {"n": len(watched)})
        yield Item("production_monitoring", N_("Monitoring of resources and metrics"), State.PASS, (text,))
    else:
        how = N_("Write nvidia-smi into a log beside the training and bring it in, or point at the monitor that you have.")
        nothing = (Text(N_("no measurement of the hardware is in the log")),)
        yield Item("production_monitoring", N_("Monitoring of resources and metrics"), State.UNKNOWN, nothing, how)


def outcome(segments: Sequence[Segment], diagnosis: Diagnosis) -> Text:
    """Return how the run ended: finished, a clear error, a silent hang, NaN to the end, stopped, or still open."""
    if not segments:
        return Text(N_("Nothing in this log says how the run went."))
    current = current_launch(segments)
    last = current.step(len(current) - 1) if len(current) else None
    if not len(current) and ending(segments) is None:
        return Text(N_("Nothing in this log says how the run went."))
    said = any("training_finished" in set(segment.events["kind"]) for segment in segments)
    if said or (last is not None and current.total_steps and last >= FINISHED * current.total_steps):
        return Text(N_("It ran to its end."))
    end = ending(segments)
    if end is not None:
        gaps = {"line": int(end.root["line"]), "text": str(end.root["text"])[:120]}
        words = (
            N_("It was stopped (line {line:,}).")
            if end.kind == "stopped"
            else N_("It ended with a clear error in line {line:,}: {text}")
        )
        return Text(words, gaps)
    still = [one.kind for one in diagnosis.findings if one.segment == current.number and one.last_step is None]
    if "non_finite" in still:
        return Text(N_("Its loss is NaN to the end: everything after it was wasted."))
    if "hang" in still:
        return Text(N_("It fell silent without an error: it hangs, or was killed without a word."))
    return Text(N_("The log breaks off without an error: the run goes on, or nobody wrote its end."))
