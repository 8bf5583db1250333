"""Every run at a glance, kept in memory: a page with thousands of runs asks the store only for what has changed.

A line of the board is made anew when the version of its run has changed or another diagnosis of it is kept. The board
itself diagnoses nothing: a run without a kept diagnosis has none here until the monitor has judged it.
"""

import sys
import threading
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import PurePath
from typing import Any

import numpy as np

from analysis.findings import Severity
from messages import Text
from server import sparks
from server.glance import Glance
from storage.store import Store
from storage.types import Run

HEADLINES = ("loss", "logits_loss", "policy_loss", "eval_loss", "reward", "perplexity")  # the first that a run has
PROJECT_KEYS = ("project", "project_name", "wandb_project", "experiment_name", "exp_name")
NOTHING = np.empty(0, np.float32)
MAX_KEYS, MAX_VALUE, MAX_FINDINGS = 100, 80, 200  # of a configuration, of a value in it, of one run


@dataclass(frozen=True)
class Brief:
    """A finding as a list shows it; `key` tells it apart from the others of its run and stays when it is judged anew."""

    kind: str
    severity: Severity
    segment: int
    first_step: int | None
    last_step: int | None
    title: Text

    @property
    def key(self) -> str:
        """Return the name under which people's words about it are kept."""
        return finding_key(self.kind, self.segment, self.first_step)


@dataclass(frozen=True)
class Line:
    """A run on the board. verdict: None until it is judged; stale: its newest rows are not judged yet.

    metric, value, curve: the headline metric, its last value, means over its length; spark: what a list draws of it.
    last: every last value. config: what its log prints of its configuration, as text.
    """

    run: Run
    verdict: str | None = None
    stale: bool = False
    sentence: Text | None = None
    since_step: int | None = None
    findings: tuple[Brief, ...] = ()
    glance: Glance = Glance()
    metric: str | None = None
    curve: np.ndarray = field(default_factory=lambda: NOTHING)
    spark: np.ndarray = field(default_factory=lambda: NOTHING)
    last: Mapping[str, float] = field(default_factory=dict)
    config: Mapping[str, str] = field(default_factory=dict)
    project: str = ""

    @property
    def value(self) -> float | None:
        """Return the last value of the headline metric."""
        return self.last.get(self.metric) if self.metric else None


def finding_key(kind: str, segment: int, first_step: int | None) -> str:
    """Return the name of a finding among those of its run."""
    return f"{kind}:{segment}:{'' if first_step is None else first_step}"


class Board:
    """The lines of all runs, the one changed last first."""

    def __init__(self, store: Store, profile: str) -> None:
        self._store, self._profile = store, profile
        self._lock = threading.Lock()
        self._version = -1
        self._runs: list[Run] = []
        self._facts: dict[str, dict[str, Any]] = {}
        self._judged: dict[str, int] = {}
        self._words: dict[str, dict[str, Any]] = {}
        self._lines: dict[str, Line] = {}

    def lines(self) -> list[Line]:
        """Return the board as it is now."""
        with self._lock:
            version = self._store.version()
            looked = version != self._version  # a run that was deleted changes the board, and no run on it
            changed = self._look(version) if looked else set()
            judged = self._store.judged(self._profile)
            if not looked and judged == self._judged:
                return list(self._lines.values())
            rejudged = {run for run, made_for in judged.items() if self._judged.get(run) != made_for} & self._facts.keys()
            self._words |= {run: _words(data) for run, data in self._store.diagnoses(rejudged, self._profile).items()}
            self._judged = judged
            self._lines = {run.id: self._line(run, changed | rejudged) for run in self._runs}
            return list(self._lines.values())

    def forget(self, run: str) -> None:
        """Hear that a run was judged anew although its rows are the same: by other thresholds, or because it fell silent."""
        with self._lock:
            self._judged.pop(run, None)

    def unjudged(self) -> list[str]:
        """Return the runs whose newest rows are not judged, or were before the facts of a glance were kept."""
        return [line.run.id for line in self.lines() if line.verdict is None or line.stale or line.glance.facts is None]

    def _look(self, version: int) -> set[str]:
        """Read what has changed of the runs; return which have."""
        before = {run.id: run.version for run in self._runs}
        self._runs, self._version = self._store.runs(), version
        changed = {run.id for run in self._runs if before.get(run.id) != run.version}
        there = {run.id for run in self._runs}
        self._facts = {run: facts for run, facts in self._facts.items() if run in there}
        self._words = {run: words for run, words in self._words.items() if run in there}
        self._judged = {run: made_for for run, made_for in self._judged.items() if run in there}
        self._facts |= self._read([run for run in self._runs if run.id in changed])
        return changed

    def _read(self, runs: list[Run]) -> dict[str, dict[str, Any]]:
        ids = [run.id for run in runs]
        if not ids:
            return {}
        last: dict[str, dict[str, float]] = {run: {} for run in ids}
        frame = self._store.latest(ids)
        for run, metric, value in zip(frame["run"], frame["metric"], frame["value"], strict=True):
            if run in last:
                last[run][sys.intern(metric)] = value
        headline = {run: next((name for name in HEADLINES if name in values), None) for run, values in last.items()}
        curves: dict[str, np.ndarray] = {}  # mean, lowest, highest
        for name in set(headline.values()) - {None}:
            having = [run for run, metric in headline.items() if metric == name]
            curves |= self._store.sparklines(having, metric=str(name))
        configs = {run: flat(config) for run, config in self._store.configs(ids).items()}
        return {
            run.id: {
                "metric": headline[run.id],
                "curve": curves[run.id][0] if run.id in curves else NOTHING,
                "spark": sparks.drawn(curves[run.id]) if run.id in curves else NOTHING,
                "last": last[run.id],
                "config": configs.get(run.id, {}),
                "project": project(run, configs.get(run.id, {})),
            }
            for run in runs
        }

    def _line(self, run: Run, changed: set[str]) -> Line:
        known = self._lines.get(run.id)
        if known is not None and run.id not in changed:
            return known
        stale = self._judged.get(run.id, -1) < run.version
        return Line(run, stale=stale, **self._facts[run.id], **self._words.get(run.id, {}))


def _words(data: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a kept diagnosis says in short."""
    findings = tuple(
        Brief(
            sys.intern(one["class"]),
            Severity(one["severity"]),
            one["segment"],
            one["first_step"],
            one["last_step"],
            Text.from_dict(one["title"]),
        )
        for one in data["findings"][:MAX_FINDINGS]
    )
    return {
        "verdict": sys.intern(data["verdict"]),
        "sentence": Text.from_dict(data["sentence"]),
        "since_step": data["since_step"],
        "findings": findings,
        "glance": Glance.from_dict(data.get("glance")),
    }


def flat(config: Mapping[str, Any]) -> dict[str, str]:
    """Return a configuration as text by dotted key: at most MAX_KEYS of them, long values cut."""
    found: dict[str, str] = {}
    for key, value in _pairs(config, ""):
        if len(found) >= MAX_KEYS:
            break
        found[sys.intern(key[:MAX_VALUE])] = sys.intern(str(value)[:MAX_VALUE])
    return found


def _pairs(config: Mapping[str, Any], prefix: str) -> Iterator[tuple[str, Any]]:
    for key, value in config.items():
        if isinstance(value, Mapping):
            yield from _pairs(value, f"{prefix}{key}.")
        elif value is not None and not isinstance(value, list):
            yield f"{prefix}{key}", value


def project(run: Run, config: Mapping[str, str]) -> str:
    """Return the project of a run: what its configuration calls so, else the folder of its log."""
    named = next((config[key] for key in PROJECT_KEYS if config.get(key)), None)
    return named or (PurePath(run.source).parent.name if run.source else "")


def distinct(lines: Iterable[Line]) -> dict[str, set[str]]:
    """Return the keys of the configurations that tell runs apart, with their values."""
    found: dict[str, set[str]] = {}
    count = 0
    for line in lines:
        count += 1
        for key, value in line.config.items():
            found.setdefault(key, set()).add(value)
    return {key: values for key, values in sorted(found.items()) if len(values) > 1 and (count < 8 or len(values) < count)}
