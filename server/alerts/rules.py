"""Rules of alerting: of which happenings in which runs people are told, by which channels, and how often at most.

What is wrong with a run, the rules of diagnosis say; these here only choose among what those find. Three stock rules (loss
spike, loss stall, time anomaly) and one for failures are there from the start; without a channel they tell in the app only.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from fnmatch import fnmatchcase
from typing import Any
from uuid import uuid4

from analysis.findings import Severity
from messages import N_
from storage.store import Store

KIND = "alert_rule"
DELETED: dict[str, Any] = {"deleted": True}  # stands for a stock rule that people have deleted
SICK, FAILED, ENDED = "sick", "failed", "ended"  # happenings that are no finding
GRAVITY = {Severity.INFO: 0, Severity.WARNING: 1, Severity.CRITICAL: 2}
MOST_RULES, MAX_NAME = 100, 80

# What a rule may name besides single classes of findings.
SETS: Mapping[str, tuple[str, ...]] = {
    "spikes": ("spike", "spike_cluster", "spike_unrecovered", "non_finite", "divergence", "grad_explosion"),
    "stalls": ("plateau", "no_learning"),
    "time": ("slowdown", "hang"),
    "failures": ("crash", "out_of_memory", "collective_timeout"),
    "verdict": (SICK, FAILED),
    "end": (ENDED,),
}
SET_WORDS = {
    "spikes": N_("Loss spike, NaN or divergence"),
    "stalls": N_("Loss stall: a plateau, or it never learned"),
    "time": N_("Time anomaly: slower, or no line any more"),
    "failures": N_("Crash, out of memory, collective timeout"),
    "verdict": N_("The verdict became sick or failed"),
    "end": N_("A run ended"),
}


@dataclass(frozen=True)
class Subject:
    """What a rule looks at of a run: its name, its project (empty: none) and its tags."""

    name: str
    project: str = ""
    tags: frozenset[str] = frozenset()


@dataclass(frozen=True)
class AlertRule:
    """One rule. what: names of SETS or classes of findings; least: the least severity of a finding.

    projects, tags, names (globs): which runs, all where none is given; channels: ids; quiet_minutes: for so long the same
    class of the same run is not told again, unless it is graver.
    """

    id: str
    name: str
    what: tuple[str, ...]
    on: bool = True
    least: Severity = Severity.WARNING
    projects: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()
    names: tuple[str, ...] = ()
    channels: tuple[str, ...] = ()
    quiet_minutes: int = 60

    def tells(self, kind: str, severity: Severity) -> bool:
        """Say whether it is about happenings of this class; the end of a run has no severity."""
        named = {each for token in self.what for each in SETS.get(token, (token,))}
        return kind in named and (kind == ENDED or GRAVITY[severity] >= GRAVITY[self.least])

    def covers(self, subject: Subject) -> bool:
        """Say whether it is about this run."""
        return (
            (not self.projects or subject.project in self.projects)
            and (not self.tags or not subject.tags.isdisjoint(self.tags))
            and (not self.names or any(fnmatchcase(subject.name.lower(), glob.lower()) for glob in self.names))
        )


STOCK = {
    rule.id: rule
    for rule in (
        AlertRule("spike", N_("Loss spike"), ("spikes",)),
        AlertRule("stall", N_("Loss stall"), ("stalls",)),
        AlertRule("time", N_("Time anomaly"), ("time",)),
        AlertRule("failure", N_("Failure"), ("failures",)),
    )
}


def new_rule() -> AlertRule:
    """Return a rule to begin with, which is not kept yet."""
    return AlertRule(uuid4().hex[:8], "", ("verdict",))


def rules(store: Store) -> list[AlertRule]:
    """Return all rules: the stock ones as they ship or were changed, then those that people made, the oldest first."""
    kept = {one.name: one.data for one in store.kept(KIND, run="")}
    stock = [_read(rule, kept.get(name, {})) for name, rule in STOCK.items() if kept.get(name) != DELETED]
    own = [_read(replace(new_rule(), id=name), data) for name, data in kept.items() if name not in STOCK]
    return stock + own


def save(store: Store, rule: AlertRule, *, who: str = "") -> None:
    """Keep a rule in the place of the one with its id. Raises ValueError beyond MOST_RULES, StoreError."""
    if rule.id not in {each.id for each in rules(store)} and len(rules(store)) >= MOST_RULES:
        raise ValueError(f"more than {MOST_RULES} rules are not kept")
    store.keep(KIND, rule.id, {name: value for name, value in asdict(rule).items() if name != "id"}, who=who)


def delete(store: Store, rule: AlertRule, *, who: str = "") -> None:
    """Delete a rule; `save` brings it back."""
    if rule.id in STOCK:
        store.keep(KIND, rule.id, DELETED, who=who)
    else:
        store.drop(KIND, rule.id)


def _read(rule: AlertRule, data: Mapping[str, Any]) -> AlertRule:
    known: dict[str, Any] = {name: tuple(value) if isinstance(value, list) else value for name, value in data.items()}
    return replace(rule, **known | {"least": Severity(known.get("least", rule.least))})
