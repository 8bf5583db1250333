"""What the log answers to each question of the checklist: pass, fail or unknown, and what it rests on."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import numpy as np
import pandas as pd

from analysis.diagnose import Diagnosis
from analysis.ending import current_launch, ending, incidents
from analysis.findings import Finding, Severity
from analysis.log_quality import Quality
from analysis.losses import loss_kind
from analysis.machine import hardware, number_of, squashed
from analysis.rules.dense_aux import routed
from analysis.segment import Segment
from analysis.trends import trend
from messages import N_, Text

SPIKES = ("spike", "spike_unrecovered", "spike_cluster", "divergence")
LEARNS = ("no_learning", "plateau")
MEMORY = ("memory_near_limit", "memory_leak", "out_of_memory")
STEADY = ("slowdown", "step_time_jitter", "hang")
RANKS = ("rank_divergence", "rank_duplicate")
DATA_WORDS = ("dataloader", "data loader", "dataset", "jsondecodeerror", "unicodedecodeerror", "corpus", "tokeniz")
RATE_KEYS = ("learning_rate", "lr", "max_lr", "peak_lr")
CLOSE = 0.02  # relative: as declared
GOOD_ENOUGH = 0.75  # of completeness and attributability, for trouble to be traced


class State(StrEnum):
    """An answer."""

    PASS = "pass"
    FAIL = "fail"
    UNKNOWN = "unknown"


Answer = tuple[State, tuple[Text, ...]]


@dataclass(frozen=True)
class Known:
    """What the answers are drawn from: the current launch and all, findings of the run by kind, rules that were blind."""

    segment: Segment
    segments: tuple[Segment, ...]
    found: Mapping[str, tuple[Finding, ...]]
    blind: Mapping[str, Text]
    quality: Quality
    config: Mapping[str, Any]

    def serious(self, kinds: Sequence[str]) -> Finding | None:
        """Return the first finding of these kinds that is more than a note, None without one."""
        every = (one for kind in kinds for one in self.found.get(kind, ()))
        return next((one for one in every if one.severity is not Severity.INFO), None)

    def blinded(self, kinds: Sequence[str]) -> Text | None:
        """Return why one of these rules could not be applied, None if all could."""
        return next((self.blind[kind] for kind in kinds if kind in self.blind), None)


def known_of(segments: Sequence[Segment], diagnosis: Diagnosis, quality: Quality) -> Known:
    found: dict[str, tuple[Finding, ...]] = {}
    for one in diagnosis.findings:
        found[one.kind] = (*found.get(one.kind, ()), one)
    segment = current_launch(segments) if segments else Segment(0, pd.DataFrame())
    config = {key: value for one in segments for key, value in squashed(one.config).items()}
    return Known(segment, tuple(segments), found, {one.rule: one.text for one in diagnosis.not_assessable}, quality, config)


def data(known: Known) -> Answer:
    """Say whether a line tells of an error with the data."""
    for segment in known.segments:
        for incident in incidents(segment):
            for event in incident.events:
                if any(word in str(event["text"]).lower() for word in DATA_WORDS):
                    text = N_("line {line:,} tells of an error with the data: {text}")
                    return State.FAIL, (Text(text, {"line": int(event["line"]), "text": str(event["text"])[:120]}),)
    if not len(known.segment):
        return State.UNKNOWN, (Text(N_("no training step was read")),)
    return State.PASS, (
        Text(N_("rows logged: {rows:,}; no line tells of an error with the data"), {"rows": len(known.segment)}),
    )


def falls(known: Known) -> Answer:
    """Say whether the main loss falls without an unexpected spike."""
    if problem := loss_kind(known.segment).problem:
        return State.UNKNOWN, (problem,)
    bad = known.serious((*LEARNS, *SPIKES))
    if bad is not None:
        return State.FAIL, (bad.title,)
    course = trend(known.segment)
    if course is None or (blind := known.blinded(("no_learning", "spike"))):
        return State.UNKNOWN, (blind if course is not None and blind else Text(N_("the log prints no loss")),)
    if not course.last < course.first:
        return State.UNKNOWN, (Text(N_("the loss has not fallen yet")),)
    gaps = {"first": course.first, "last": course.last}
    return State.PASS, (Text(N_("from {first:.4g} to {last:.4g}, and no spike that is more than a hard batch"), gaps),)


def finite(known: Known) -> Answer:
    """Say whether every number is one."""
    if bad := known.serious(("non_finite",)):
        return State.FAIL, (bad.title,)
    if blind := known.blinded(("non_finite",)):
        return State.UNKNOWN, (blind,)
    if not len(known.segment):
        return State.UNKNOWN, (Text(N_("no training step was read")),)
    noted = known.found.get("non_finite", ())  # steps that an fp16 scaler skips now and then are part of its work
    return State.PASS, tuple(one.title for one in noted[:1]) or (
        Text(N_("every loss and gradient norm that is printed is a number")),
    )


def checkpoint(known: Known) -> Answer:
    """Say whether a checkpoint was saved and trained on from."""
    events = [event for segment in known.segments for event in segment.events.to_dict("records")]
    saved = next((event for event in events if event["kind"] == "checkpoint_saved"), None)
    loaded = next((event for event in events if event["kind"] in ("resume", "checkpoint_loaded")), None)
    seen = []
    if saved:
        seen.append(Text(N_("line {line:,}: a checkpoint is saved"), {"line": int(saved["line"])}))
    if loaded and len(known.segment):
        seen.append(Text(N_("line {line:,}: training goes on from a checkpoint"), {"line": int(loaded["line"])}))
    if saved and loaded and len(known.segment):
        return State.PASS, tuple(seen)
    if not saved:
        seen.append(Text(N_("no line tells that a checkpoint was saved")))
    if not loaded:
        seen.append(Text(N_("no line shows that one was loaded")))
    return State.UNKNOWN, tuple(seen)


def versions(known: Known) -> Answer:
    """Say whether versions and card are printed."""
    versions = [key for key, value in known.config.items() if "version" in key and any(c.isdigit() for c in str(value))]
    card = hardware(known.segments).gpu if known.segments else None
    seen = []
    if versions:
        names = ", ".join(f"{key} {known.config[key]}" for key in versions[:4])
        seen.append(Text(N_("printed versions: {versions}"), {"versions": names[:200]}))
    if card:
        seen.append(Text(N_("card: {card}"), {"card": card}))
    missing = [] if versions else [Text(N_("no version is printed"))]
    missing += [] if card else [Text(N_("no card is printed"))]
    return (State.UNKNOWN if missing else State.PASS), (*seen, *missing)


def arguments(known: Known) -> Answer:
    """Say what is printed of the arguments, and whether the learning rate is the declared one."""
    if not known.config:
        return State.UNKNOWN, (Text(N_("no argument is printed")),)
    seen = [Text(N_("settings printed: {n}"), {"n": len(known.config)})]
    declared = next((value for key in RATE_KEYS if (value := number_of(known.config.get(key)))), None)
    rates = known.segment.values("lr")
    rates = rates[np.isfinite(rates)]
    if declared and len(rates):
        highest = float(rates.max())
        gaps = {"declared": declared, "highest": highest}
        if highest > declared * (1 + CLOSE):
            return State.FAIL, (
                *seen,
                Text(N_("a learning rate of {declared:.3g} is declared, but {highest:.3g} is used"), gaps),
            )
        if highest >= declared * (1 - CLOSE):
            seen.append(Text(N_("the highest learning rate is the declared one, {declared:.3g}"), gaps))
    return State.UNKNOWN, tuple(seen)


def start(known: Known) -> Answer:
    """Say whether the first losses are sound and the loss falls."""
    if bad := known.serious(("initial_loss",)):
        return State.FAIL, (bad.title,)
    state, seen = falls(known)
    if state is not State.PASS:
        return state, seen
    if blind := known.blinded(("initial_loss",)):
        return State.UNKNOWN, (blind,)
    return State.PASS, (Text(N_("the first losses are those of a sound start")), *seen)


def values(known: Known) -> Answer:
    """Say whether there is neither NaN nor an abnormal spike."""
    state, seen = finite(known)
    if state is not State.PASS:
        return state, seen
    if bad := known.serious(SPIKES):
        return State.FAIL, (bad.title,)
    if blind := known.blinded(("spike",)):
        return State.UNKNOWN, (blind,)
    return State.PASS, (*seen, Text(N_("no spike that is more than a hard batch")))


def structure(known: Known) -> Answer:
    """Say whether the auxiliary loss fits the declared structure."""
    if bad := known.serious(("dense_aux", "aux_imbalance", "aux_share")):
        return State.FAIL, (bad.title,)
    declared, printed = routed(known.segment.config), known.segment.has("aux_loss")
    positive = printed and bool(np.nanmax(known.segment.values("aux_loss"), initial=0.0) > 0)
    if declared is False and not positive:
        return State.PASS, (Text(N_("declared dense, and the auxiliary loss is zero or not printed")),)
    if declared is True and positive:
        return State.PASS, (Text(N_("declared as a mixture of experts, and the auxiliary loss is above zero and level")),)
    if declared is True:
        return State.UNKNOWN, (Text(N_("declared as a mixture of experts, but no auxiliary loss is printed")),)
    return State.UNKNOWN, (Text(N_("the log does not say whether the model routes")),)


def resources(known: Known) -> Answer:
    """Say whether memory has room and steps keep their time."""
    if bad := known.serious((*MEMORY, *STEADY)):
        return State.FAIL, (bad.title,)
    blind = [text for kinds in (("memory_near_limit",), ("slowdown",)) if (text := known.blinded(kinds))]
    if blind or not len(known.segment):
        return State.UNKNOWN, tuple(blind) or (Text(N_("no training step was read")),)
    return State.PASS, (Text(N_("memory stays below its limit, and the time of a step keeps its level")),)


def ranks(known: Known) -> Answer:
    """Say whether several processes agree as those on different data do."""
    if bad := known.serious(RANKS):
        return State.FAIL, (bad.title,)
    if len(known.segment.ranks) and not known.blinded(RANKS):
        count = int(known.segment.ranks["rank"].nunique())
        return State.PASS, (Text(N_("the losses of {n} processes differ as those of different data do"), {"n": count}),)
    gpus = hardware(known.segments).gpus if known.segments else None
    if gpus == 1:
        return State.UNKNOWN, (Text(N_("it runs on one card: there is nothing to compare")),)
    return State.UNKNOWN, (Text(N_("only one process prints its loss")),)


def fields(known: Known) -> Answer:
    """Say whether the fields of the log suffice."""
    quality = known.quality
    if quality.grade is None:
        return State.UNKNOWN, (Text(N_("no training step was read")),)
    lacking = [part for part in quality.classes if not part.score]
    if lacking:
        return State.FAIL, tuple(text for part in lacking for text in part.lost)
    scores = {part.key: part.score or 0.0 for part in quality.dimensions}
    gaps = {"grade": quality.grade, "whole": scores["completeness"], "traced": scores["attributability"]}
    text = Text(N_("grade {grade}: completeness {whole:.0%}, attributability {traced:.0%}"), gaps)
    good = min(scores["completeness"], scores["attributability"]) >= GOOD_ENOUGH
    return (State.PASS if good else State.UNKNOWN), (text,)


def stability(known: Known) -> Answer:
    """Say whether trouble ended in a clear error."""
    silent = known.serious(("hang",))
    if silent is not None and silent.last_step is None:
        return State.FAIL, (silent.title,)
    end = ending(known.segments) if known.segments else None
    if end is not None and end.kind != "stopped":
        text = Text(N_("the run ended with a clear error in line {line:,}"), {"line": int(end.root["line"])})
        return State.PASS, (text,)
    return State.UNKNOWN, (Text(N_("nothing went wrong that would show it")),)
