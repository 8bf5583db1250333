"""What a rule says: a finding with its evidence, its ranked causes and its advice."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from messages import Text


class Severity(StrEnum):
    """How much a finding matters: `info` explains, `warning` wants a look, `critical` wants an action."""

    INFO = "info"
    WARNING = "warning"
    CRITICAL = "critical"


@dataclass(frozen=True)
class Evidence:
    """One measured fact behind a finding: what was measured, its value with its unit, and where."""

    label: Text
    value: float | int | str | None
    unit: str = ""
    step: int | None = None
    line: int | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return a JSON-ready form."""
        return {"label": self.label.to_dict(), "value": self.value, "unit": self.unit, "step": self.step, "line": self.line}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> "Evidence":
        """Read back what `to_dict` wrote."""
        return cls(Text.from_dict(data["label"]), data["value"], data["unit"], data["step"], data["line"])


class Standing(StrEnum):
    """How a cause stands: `likely` has evidence that outweighs what speaks against it, `unlikely` has only evidence against
    it, `possible` is a usual cause of such a finding of which the log tells nothing, or as much for as against."""

    LIKELY = "likely"
    POSSIBLE = "possible"
    UNLIKELY = "unlikely"


@dataclass(frozen=True)
class Cause:
    """A possible cause: `score` is the sum of the weights of the evidence for it less the evidence against it.

    `unobservable` names the columns that would decide and are not in the log: absence is never counted as evidence.
    """

    name: str
    text: Text
    score: float = 0.0
    supports: tuple[Text, ...] = ()
    contradicts: tuple[Text, ...] = ()
    unobservable: tuple[str, ...] = ()

    @property
    def standing(self) -> Standing:
        """Return how the cause stands."""
        if self.supports and self.score > 0:
            return Standing.LIKELY
        return Standing.UNLIKELY if self.score < 0 else Standing.POSSIBLE

    @property
    def untold(self) -> bool:
        """Say whether the log tells nothing for or against it."""
        return not self.supports and not self.contradicts

    def to_dict(self) -> dict[str, Any]:
        """Return a JSON-ready form."""
        return {
            "name": self.name,
            "text": self.text.to_dict(),
            "score": self.score,
            "standing": str(self.standing),
            "supports": [item.to_dict() for item in self.supports],
            "contradicts": [item.to_dict() for item in self.contradicts],
            "unobservable": list(self.unobservable),
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> "Cause":
        """Read back what `to_dict` wrote."""
        return cls(
            data["name"],
            Text.from_dict(data["text"]),
            data["score"],
            tuple(map(Text.from_dict, data["supports"])),
            tuple(map(Text.from_dict, data["contradicts"])),
            tuple(data["unobservable"]),
        )


@dataclass(frozen=True)
class Finding:
    """One diagnosis of one segment of a run.

    `kind` is the class in the sense of `check --json` (`spike`, `non_finite`, …); `first_step` and `last_step` are global
    steps, `last_step` None while it goes on; `known_step` is the step at which the rule could first say so; the lines
    are 1-based lines of the log, None where the source has no lines.
    """

    kind: str
    severity: Severity
    segment: int
    first_step: int | None
    last_step: int | None
    title: Text
    evidence: tuple[Evidence, ...] = ()
    causes: tuple[Cause, ...] = ()
    advice: tuple[Text, ...] = ()
    known_step: int | None = None
    first_line: int | None = None
    last_line: int | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON form that `check --json` prints and the store keeps (`kind` is called `class` there)."""
        return {
            "class": self.kind,
            "severity": str(self.severity),
            "segment": self.segment,
            "first_step": self.first_step,
            "last_step": self.last_step,
            "known_step": self.known_step,
            "first_line": self.first_line,
            "last_line": self.last_line,
            "title": self.title.to_dict(),
            "evidence": [item.to_dict() for item in self.evidence],
            "causes": [item.to_dict() for item in self.causes],
            "advice": [item.to_dict() for item in self.advice],
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> "Finding":
        """Read back what `to_dict` wrote."""
        return cls(
            kind=data["class"],
            severity=Severity(data["severity"]),
            segment=data["segment"],
            first_step=data["first_step"],
            last_step=data["last_step"],
            known_step=data["known_step"],
            first_line=data["first_line"],
            last_line=data["last_line"],
            title=Text.from_dict(data["title"]),
            evidence=tuple(map(Evidence.from_dict, data["evidence"])),
            causes=tuple(map(Cause.from_dict, data["causes"])),
            advice=tuple(map(Text.from_dict, data["advice"])),
        )
