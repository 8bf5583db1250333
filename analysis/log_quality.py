"""How much a log can tell: four classes of fields, six dimensions, a grade, and what is impossible without which field.

The dimensions are those of the source articles; each score is a plain share that its evidence explains:

    completeness     mean of the four classes: layered losses, learning rate, progress, time
    plausibility     share of the checks of its numbers that they pass, of those that can be made
    comparability    stable form, steps, epochs, configuration, batch size
    observability    lines understood, a clock, gradient norm, course of the rate, memory, throughput
    attributability  share of the rules about numbers that could be applied
    overhead         length of a line, lines to a record, how often it prints
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from analysis.diagnose import Diagnosis
from analysis.ending import current_launch
from analysis.log_fields import GRADIENTS, MEMORY, SPEED, USUAL, Part, aspects, classes, cover, cover_of_steps, coverage
from analysis.log_overhead import LogSize
from analysis.losses import is_reinforcement, loss_kind
from analysis.machine import hardware
from analysis.registry import all_rules
from analysis.rules.dense_aux import routed
from analysis.schedule import schedule
from analysis.segment import Segment
from analysis.to_log import Wanted
from analysis.wall import wall
from messages import N_, Text

GRADES = (("A", 0.9), ("B", 0.75), ("C", 0.6), ("D", 0.4), ("E", 0.0))  # each from this mean of the dimensions on
LINE_BYTES = ((400, 1.0), (1_000, 0.8), (4_000, 0.5))  # a line up to so long: this score
LINES_A_RECORD = ((2, 1.0), (5, 0.8), (20, 0.5))
LEAST = 0.25  # beyond all of these
LEAST_CONFIG = 5  # settings that make a configuration
IMPLAUSIBLE = ("initial_loss", "no_learning", "dense_aux", "aux_imbalance", "decomposition", "loss_zero")
UNSTABLE = ("format_change", "field_missing")
MOST_BAD = 0.001  # of the values, that may be NaN or infinite


@dataclass(frozen=True)
class LogFacts:
    """What the reader counted, and what the log weighs a step (None where it holds no steps)."""

    lines: int
    records: int
    evals: int
    unparsed: int
    format: str
    size: LogSize | None


@dataclass(frozen=True)
class Stamps:
    """The clock of the lines: share of rows with one, seconds that its print can't resolve, whether it tells the date."""

    share: float
    unit_seconds: float | None
    dated: bool
    notes: tuple[Text, ...]


@dataclass(frozen=True, eq=False)
class Quality:
    """What a log can tell.

    grade: A to E from score, the mean of the dimensions (both None where no training step was read); classes, dimensions,
    aspects: see the module; stamps: of the lines; wanted: fields worth printing; coverage: one row a column
    (`column, printed, first_line, last_line, share`); breaks: findings about the form of the lines, as sentences.
    """

    grade: str | None
    score: float | None
    classes: tuple[Part, ...]
    dimensions: tuple[Part, ...]
    aspects: tuple[Part, ...]
    stamps: Stamps | None
    wanted: tuple[Wanted, ...]
    coverage: pd.DataFrame
    breaks: tuple[Text, ...] = ()

    @property
    def missing(self) -> tuple[str, ...]:
        """The columns that are missed, those that matter most first."""
        return tuple(one.column for one in self.wanted)


def quality(segments: Sequence[Segment], facts: LogFacts, diagnosis: Diagnosis) -> Quality:
    """Return how much a log can tell; of several launches the last one with rows is graded."""
    known = [segment for segment in segments if len(segment)]
    if not known:
        return Quality(None, None, (), (), (), None, diagnosis.to_log(), coverage([]))
    segment = current_launch(segments)
    beside = beside_the_point(segments)
    wanted = tuple(one for one in diagnosis.to_log() if one.causes or set(one.rules) - beside)
    parts = classes(segment)
    breaks = tuple(finding.title for finding in diagnosis.findings if finding.kind in UNSTABLE)
    dimensions = (
        _completeness(parts),
        _plausibility(segment, diagnosis),
        _comparability(segment, breaks),
        _observability(segment, facts),
        _attributability(segment, diagnosis, beside),
        _overhead(facts),
    )
    scores = [part.score for part in dimensions if part.score is not None]
    score = float(np.mean(scores))
    grade = next(letter for letter, least in GRADES if score >= least)
    return Quality(grade, score, parts, dimensions, aspects(segments), stamps(segment), wanted, coverage(known), breaks)


def _completeness(parts: Sequence[Part]) -> Part:
    lacking = [part for part in parts if not part.score]
    seen = [Text(N_("{n} of 4 classes of fields are there"), {"n": len(parts) - len(lacking)})]
    score = float(np.mean([part.score or 0.0 for part in parts]))
    return Part("completeness", N_("Completeness"), score, tuple(seen), tuple(text for part in lacking for text in part.lost))


def _checked(checks: Iterator[tuple[bool, Text]]) -> tuple[float | None, tuple[Text, ...], tuple[Text, ...]]:
    """Return the share of checks that are passed, what the passed ones saw, and what the others did."""
    done = list(checks)
    score = float(np.mean([good for good, _text in done])) if done else None
    return score, tuple(text for good, text in done if good), tuple(text for good, text in done if not good)


def _plausibility(segment: Segment, diagnosis: Diagnosis) -> Part:
    return Part("plausibility", N_("Plausibility"), *_checked(_plausible(segment, diagnosis)))


def _plausible(segment: Segment, diagnosis: Diagnosis) -> Iterator[tuple[bool, Text]]:
    """Yield the checks of the numbers that can be made: whether each is passed, and what was seen."""
    found = {one.kind for one in diagnosis.findings if one.segment == segment.number}
    blind = {blind.rule for blind in diagnosis.not_assessable}
    titles = {rule.name: rule.title for rule in all_rules()}
    for name in IMPLAUSIBLE:
        if name in found:
            yield False, Text(titles[name])
        elif name not in blind:
            yield True, Text(GOOD[name])
    values = [segment.values(name)[segment.printed(name)] for name in _metrics(segment)]
    bad = sum(int((~np.isfinite(column)).sum()) for column in values)
    share = bad / max(sum(map(len, values)), 1)
    text = Text(N_("{share:.2%} of the numbers are NaN or infinite"), {"share": share})
    yield share <= MOST_BAD, text if bad else Text(N_("every number is finite"))


GOOD = {
    "initial_loss": N_("the first loss is that of a sound start"),
    "no_learning": N_("the loss falls"),
    "dense_aux": N_("the routing loss fits the structure"),
    "aux_imbalance": N_("the routing loss stays level"),
    "decomposition": N_("the total is the sum of its parts"),
    "loss_zero": N_("the loss is nowhere exactly zero"),
}


def _metrics(segment: Segment) -> list[str]:
    known = ("loss", "logits_loss", "aux_loss", "lr", "grad_norm", *SPEED)
    return [name for name in known if segment.has(name)]


def _comparability(segment: Segment, breaks: Sequence[Text]) -> Part:
    checks = [
        (not breaks, N_("lines keep one form"), N_("lines change their form: values before and after may differ")),
        (cover_of_steps(segment) >= USUAL, N_("can be put together by step"), N_("no steps to put runs side by side")),
        (segment.has("epoch"), N_("can be put together by epoch"), N_("no epochs to put together")),
        (
            len(segment.config) >= LEAST_CONFIG,
            N_("the configuration is printed"),
            N_("the configuration is not printed: nobody can say what was equal"),
        ),
        (
            segment.has("batch_size") or any("batch" in key.lower() for key in segment.config),
            N_("the batch size is printed"),
            N_("the batch size is not printed"),
        ),
    ]
    told = ((bool(good), Text(yes if good else no)) for good, yes, no in checks)
    return Part("comparability", N_("Comparability"), *_checked(told))


def _observability(segment: Segment, facts: LogFacts) -> Part:
    rows = facts.records + facts.evals
    understood = rows / max(rows + facts.unparsed, 1)
    known = schedule(segment)
    course = known is not None and known.shape != "other" and cover(segment, "lr") >= USUAL
    checks = [
        (understood >= 0.999, N_("lines that look like records were all understood"), N_("some records could not be read")),
        (
            cover_of(segment, "timestamp") >= USUAL or segment.has("elapsed_seconds"),
            N_("a clock in the lines"),
            N_("no clock in the lines"),
        ),
        (any(segment.has(name) for name in GRADIENTS), N_("gradient norm"), N_("no gradient norm")),
        (course, N_("the course of the learning rate"), N_("no course of the learning rate that can be recognised")),
        (any(segment.logs(name) for name in MEMORY), N_("memory"), N_("no memory in use")),
        (any(segment.has(name) for name in SPEED), N_("throughput or step time"), N_("no throughput and no step time")),
    ]
    told = ((bool(good), Text(yes if good else no)) for good, yes, no in checks)
    return Part("observability", N_("Observability"), *_checked(told))


def beside_the_point(segments: Sequence[Segment]) -> set[str]:
    """Return the rules that say nothing about this kind of run: of experts without any, of ranks on one GPU, of rewards."""
    segment = current_launch(segments)
    off = set() if is_reinforcement(segment) else {"reward_collapse"}
    if loss_kind(segment).problem is not None:
        off |= {rule.name for rule in all_rules() if rule.level}
    if not routed(segment.config) and not segment.has("aux_loss"):
        off |= {rule.name for rule in all_rules() if "aux_loss" in rule.needs}
    if not len(segment.ranks) and (hardware(segments).gpus or 1) < 2:
        off |= {rule.name for rule in all_rules() if "rank" in rule.needs}
    return off


def _attributability(segment: Segment, diagnosis: Diagnosis, beside: set[str]) -> Part:
    """Return the share of the rules that numbers allow: what does not apply to this kind of run does not count."""
    rules = {rule.name for rule in all_rules() if not rule.text} - beside
    lacking = [blind for blind in diagnosis.not_assessable if blind.rule in rules and blind.missing]
    applied = len(rules) - len(lacking)
    seen = [Text(N_("{applied} of {all} rules about numbers could be applied"), {"applied": applied, "all": len(rules)})]
    if segment.has("loss") and segment.has("lr"):
        seen.append(Text(N_("loss and learning rate stand side by side")))
    lost = (Text(N_("kinds of trouble that can't be found: {n}, see below"), {"n": len(lacking)}),) if lacking else ()
    return Part("attributability", N_("Attributability"), applied / max(len(rules), 1), tuple(seen), lost)


def _overhead(facts: LogFacts) -> Part:
    if facts.size is None:
        return Part("overhead", N_("Overhead"), None)
    a_record = facts.lines / max(facts.records + facts.evals, 1)
    scores = (_graded(facts.size.bytes_per_line, LINE_BYTES), _graded(a_record, LINES_A_RECORD))
    seen = (
        Text(
            N_("{bytes:.0f} bytes a line, lines to a record: {lines:.3g}"),
            {"bytes": facts.size.bytes_per_line, "lines": a_record},
        ),
        Text(N_("steps from record to record: {steps:.3g}"), {"steps": facts.size.steps_per_record}),
    )
    lost = () if scores[1] == 1.0 else (Text(N_("most lines are no records: they are read, moved and kept for nothing")),)
    return Part("overhead", N_("Overhead"), float(np.mean(scores)), seen, lost)


def _graded(value: float, steps: Sequence[tuple[float, float]]) -> float:
    return next((score for limit, score in steps if value <= limit), LEAST)


def stamps(segment: Segment) -> Stamps | None:
    """Return what the clock of the lines is like, None where the lines have none."""
    share = cover_of(segment, "timestamp")
    if not share:
        return None
    known = wall(segment)
    if known is None or known.source != "timestamp":
        return Stamps(share, None, True, ())
    return Stamps(share, known.unit_s, known.first is not None, known.notes)


def cover_of(segment: Segment, place: str) -> float:
    """Return the share of the training rows that have a place (`timestamp`, `epoch`)."""
    return float(segment.rows[place].notna().mean()) if segment.has(place) and len(segment) else 0.0
