"""From segments to a verdict: all rules, what could not be judged and why, and one calm sentence."""

from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from analysis.advice import advised, is_over
from analysis.early import Early, early_part, remembered
from analysis.ending import current_launch
from analysis.evidence import finite
from analysis.findings import Finding, Severity
from analysis.losses import loss_kind
from analysis.registry import Rule, all_rules
from analysis.segment import Segment
from analysis.to_log import Wanted, to_log
from analysis.trends import trend
from analysis.verdict import Verdict, judge
from messages import N_, Text

PROFILES = ("robust", "articles")
ORDER = {Severity.CRITICAL: 0, Severity.WARNING: 1, Severity.INFO: 2}


@dataclass(frozen=True)
class Blind:
    """A rule that could not be applied: the columns it misses (may be none) and why, in words."""

    rule: str
    missing: tuple[str, ...]
    text: Text

    def to_dict(self) -> dict[str, Any]:
        """Return a JSON-ready form."""
        return {"rule": self.rule, "missing": list(self.missing), "text": self.text.to_dict()}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> "Blind":
        """Read back what `to_dict` wrote."""
        return cls(data["rule"], tuple(data["missing"]), Text.from_dict(data["text"]))


@dataclass(frozen=True)
class Diagnosis:
    """What is known about the health of a run.

    verdict: a Verdict; sentence: the verdict in one sentence; since_step: the step since which it is so, None if it was
    always so; findings: all segments, most severe of the current launch first; not_assessable: what could not be judged;
    known_step: the step at which the verdict could first be said; profile: the thresholds used.
    early: what could be said within the first 1,000 steps of the current launch, None where it has no more than that.
    """

    verdict: str
    sentence: Text
    since_step: int | None = None
    findings: tuple[Finding, ...] = ()
    not_assessable: tuple[Blind, ...] = ()
    known_step: int | None = None
    profile: str = "robust"
    early: Early | None = None

    def to_log(self) -> tuple[Wanted, ...]:
        """Return what to log to decide: the fields that were missed, those first that would decide about a cause."""
        causes = (cause for finding in self.findings for cause in finding.causes)
        return to_log(causes, ((blind.rule, blind.missing) for blind in self.not_assessable))

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON form that `check --json` prints and the store keeps."""
        return {
            "verdict": str(self.verdict),
            "sentence": self.sentence.to_dict(),
            "since_step": self.since_step,
            "known_step": self.known_step,
            "profile": self.profile,
            "early": self.early.to_dict() if self.early else None,
            "findings": [item.to_dict() for item in self.findings],
            "not_assessable": [item.to_dict() for item in self.not_assessable],
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> "Diagnosis":
        """Read back what `to_dict` wrote."""
        return cls(
            verdict=data["verdict"],
            sentence=Text.from_dict(data["sentence"]),
            since_step=data["since_step"],
            known_step=data["known_step"],
            profile=data["profile"],
            early=Early.from_dict(data["early"]) if data.get("early") else None,
            findings=tuple(map(Finding.from_dict, data["findings"])),
            not_assessable=tuple(map(Blind.from_dict, data["not_assessable"])),
        )


def diagnose(
    segments: Sequence[Segment],
    *,
    profile: str = "robust",
    thresholds: Mapping[str, Mapping[str, Any]] | None = None,
) -> Diagnosis:
    """Apply every rule to every launch and return the verdict about the run.

    profile: `robust` judges in the run's own noise, `articles` by the fixed numbers of the source articles where they give any.
    thresholds: by rule name, values for keyword arguments of its check that replace the defaults.
    The verdict is that of the last launch; what was critical in earlier launches makes it at least `watch`.
    Raises ValueError for an unknown profile.
    """
    if profile not in PROFILES:
        raise ValueError(f"no profile {profile!r}; there are: {', '.join(PROFILES)}")
    if not segments:
        return Diagnosis(Verdict.UNREADABLE, Text(N_("No training step in this log, and nothing that says what happened.")))
    with np.errstate(all="ignore"):  # absurd values of a log overflow to infinity, which the rules handle as such
        return _diagnose(segments, profile, thresholds or {})


def _diagnose(segments: Sequence[Segment], profile: str, thresholds: Mapping[str, Mapping[str, Any]]) -> Diagnosis:
    current = current_launch(segments)
    findings = _found(segments, current, profile, thresholds)
    verdict, sentence, since, known = judge(segments, findings)
    early = early_verdict(current, profile, thresholds)
    return Diagnosis(verdict, sentence, since, findings, tuple(blind_spots(current)), known, profile, early)


def _found(
    segments: Sequence[Segment], current: Segment, profile: str, thresholds: Mapping[str, Mapping[str, Any]]
) -> tuple[Finding, ...]:
    findings = [finding for segment in segments for finding in apply_rules(segment, profile, thresholds)]
    return in_order(findings, current.number, over=is_over(segments))


def in_order(findings: Iterable[Finding], current: int, *, over: bool) -> tuple[Finding, ...]:
    """Return findings as a diagnosis has them: those of the current launch first, the most severe first, and with advice
    that fits a launch that has ended; over: the current launch has."""
    given = (advised(finding, ended=over or finding.segment != current) for finding in findings)
    return tuple(sorted(given, key=lambda f: (f.segment != current, ORDER[f.severity], f.first_step or 0)))


def early_verdict(current: Segment, profile: str, thresholds: Mapping[str, Mapping[str, Any]]) -> Early | None:
    """Judge a launch as if nothing were known beyond its first 1,000 steps."""
    part = early_part(current)
    return None if part is None else remembered(part, (profile, thresholds), lambda part: _early(part, profile, thresholds))


def _early(part: Segment, profile: str, thresholds: Mapping[str, Mapping[str, Any]]) -> Early:
    verdict, sentence, _, known = judge([part], _found([part], part, profile, thresholds))
    return Early(verdict, sentence, int(part.steps()[-1]), known)


def apply_rules(
    segment: Segment, profile: str, thresholds: Mapping[str, Mapping[str, Any]], only: Container[str] | None = None
) -> Iterator[Finding]:
    """Yield what every rule that applies to a launch finds there; `only`: names of the rules to apply, None for all."""
    for rule in all_rules():
        if only is not None and rule.name not in only:
            continue
        there = len(segment) or len(segment.telemetry) or (rule.text and len(segment.events))
        if there and not rule.missing(segment) and not _off(rule, segment):
            yield from map(_writable, rule.by(profile)(segment, **thresholds.get(rule.name, {})))


def _writable(finding: Finding) -> Finding:
    """Return the finding with numbers that survive JSON, however absurd the values of the log are."""
    facts = tuple(
        replace(item, value=str(item.value)) if isinstance(item.value, float) and not np.isfinite(item.value) else item
        for item in finding.evidence
    )
    return replace(finding, title=finite(finding.title), evidence=facts)


def _off(rule: Rule, segment: Segment) -> Text | None:
    return loss_kind(segment).problem if rule.level else None


def blind_spots(segment: Segment) -> Iterator[Blind]:
    """Yield each rule that could not be applied to a launch, or only in part, and why."""
    course = trend(segment)
    rows = course.rows if course else 0
    for rule in all_rules():
        missing, off = rule.missing(segment), _off(rule, segment)
        partly = rule.partly(segment) if rule.partly and not missing else None
        if off:
            yield Blind(rule.name, (), off)
        elif missing:
            names = tuple(need.split("|")[0] for need in missing)
            zero = segment.unmeasured.issuperset(names)
            text = (
                N_("The log prints only zeros, which nobody measured: {columns}")
                if zero
                else N_("The log does not print: {columns}")
            )
            yield Blind(rule.name, names, Text(text, {"columns": ", ".join(names)}))
        elif partly:
            yield Blind(rule.name, *partly)
        elif rows < rule.rows:
            gaps = {"needed": rule.rows, "rows": rows}
            yield Blind(rule.name, (), Text(N_("It needs {needed} rows with a loss to be sure; there are {rows}"), gaps))
