"""The diagnosis of a run that grows: each call looks at the new rows, not at all that there are.

While a launch is short every rule sees all of its rows. Once it has more than EXACT_ROWS, its older rows are kept as samples
and means only (`analysis/strand.py`), and a finding of its past stays as it was made. From then on

* rules that look back over a bounded number of rows see the near view, and count where they become sure in its tail;
* rules about the whole course see the means, whenever the run has grown by a share;
* what goes on is brought up to date by either: its end, its title.

So classes and first steps are those of the finished run, with these differences, which `tests/analysis/test_live.py` holds
it to: first steps may differ by a hundredth of the run (where a creep of the gradients began, by a tenth); a jump counts as
not recovered after 200 rows, not after a share of all rows so far, so one that comes back very late keeps that class; of a
rhythm longer than a tenth of the tail that began late, the single pauses are told; a jump or dip that was told before the
swing, rise or step was known that it belongs to stays; counts in a title may be those of the moment at which it was found.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from analysis.advice import is_over
from analysis.diagnose import PROFILES, Diagnosis, apply_rules, blind_spots, early_verdict, in_order
from analysis.early import Early
from analysis.findings import Finding
from analysis.losses import loss_kind
from analysis.registry import all_rules
from analysis.running_mean import is_running_mean
from analysis.segment import Segment, split_segments
from analysis.step_time import clock
from analysis.strand import Means, Strand, cleaned
from analysis.trends import trend
from analysis.verdict import judge
from messages import Text

EXACT_ROWS = 20_000  # up to here a diagnosis of all rows costs less than a tenth of a second
TAIL_ROWS = 2560  # of the near view at least: a jump is followed for 2,000 rows, and a value needs LOOKBACK before it
WARM_ROWS = 448  # of the tail, in which what comes before it still shows
GROWN = 1 / 100  # of the run after which its whole course is looked at again: a block of it is at least that long
EVENTS = 2000  # that are kept of a launch
LAUNCHES = 32  # of which a view is kept
WHOLE = frozenset(
    {
        *("aux_imbalance", "aux_share", "divergence", "grad_creep", "grad_vanishing", "level_shift", "memory_leak"),
        *("no_learning", "oscillation", "plateau", "reward_collapse"),
    }
)
FIRST = frozenset({"initial_loss", *WHOLE - {"oscillation"}})  # not of the near view: what it skips would mislead them
UNBROKEN = frozenset({"hang", "oscillation"})  # the tail alone: to them what is skipped in between is a gap


@dataclass(frozen=True, eq=False)
class Limits:
    """From when on, and how, a launch is kept in parts (see the constants)."""

    exact: int = EXACT_ROWS
    tail: int = TAIL_ROWS
    warm: int = WARM_ROWS
    grown: float = GROWN


@dataclass(frozen=True, eq=False)
class Launch:
    """What is kept of the launch that grows.

    strands: its rows by kind; means: of its training rows before the tail; events: the last that its text said.
    findings: so far; early: the early verdict once it stands; first, lowest: level at the start and lowest loss of the rows
    before the tail; pause: longest pause before the tail, seconds; looked: rows at which the whole course was looked at.
    """

    number: int
    strands: Mapping[str, Strand] = field(default_factory=dict)
    means: Means = Means()
    events: tuple[Mapping[str, Any], ...] = ()
    findings: tuple[Finding, ...] = ()
    early: Early | None = None
    first: float | None = None
    lowest: float = np.inf
    pause: float = 0.0
    looked: int = 0

    @property
    def train(self) -> Strand:
        """Return the training rows."""
        return self.strands.get("train") or Strand(pa.table({"line": pa.array([], pa.int64())}))


@dataclass(frozen=True, eq=False)
class Live:
    """A run that grows. rows, line: how many rows of any kind, and the line up to which its events, were taken.

    done, past: findings and views of earlier launches. bounded: False for a log of which all rows must be kept (several
    ranks in one file, no step, means since the start of an epoch, very many launches): it is diagnosed from the store.
    segments: every launch in the view that its verdict was made from: all its rows, or means of them.
    exact: the diagnosis was made from all rows of the last launch: it is that of one go.
    """

    profile: str = "robust"
    thresholds: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    limits: Limits = Limits()
    rows: int = 0
    line: int = 0
    done: tuple[Finding, ...] = ()
    launch: Launch | None = None
    past: tuple[Segment, ...] = ()
    segments: tuple[Segment, ...] = ()
    diagnosis: Diagnosis | None = None
    bounded: bool = True
    exact: bool = True


def grow(
    live: Live,
    rows: pa.Table,
    events: Sequence[Mapping[str, Any]] = (),
    *,
    config: Mapping[str, Any] | None = None,
    forms: Sequence[Mapping[str, Any]] = (),
    silent_seconds: float | None = None,
) -> Live:
    """Return the run with further rows of any kind (as `split_segments` takes them) and events, and its diagnosis.

    forms: events about where lines of another form begin, all that are known by now: they are told late, each time all.
    silent_seconds: how long ago the last row came, None where nobody watches. Raises ValueError for an unknown profile.
    """
    if live.profile not in PROFILES:
        raise ValueError(f"no profile {live.profile!r}; there are: {', '.join(PROFILES)}")
    with np.errstate(all="ignore"):
        parts = list(_launches(live, rows, events))
        for number, part, said in parts or [(live.launch.number if live.launch else 0, rows, tuple(events))]:
            live = _grown(live, number, part, said, config or {}, forms, silent_seconds)
    lines = [event["line"] for event in events if event.get("line") is not None]
    return replace(live, rows=live.rows + rows.num_rows, line=max(lines, default=live.line))


def _launches(
    live: Live, rows: pa.Table, events: Sequence[Mapping[str, Any]]
) -> Iterator[tuple[int, pa.Table, tuple[Mapping[str, Any], ...]]]:
    """Yield (number, rows, events) of each launch among new rows, in order; events belong to it up to the next's first line."""
    if not rows.num_rows:
        return
    numbers = pc.fill_null(rows["segment"], 0).to_numpy() if "segment" in rows.column_names else np.zeros(rows.num_rows)
    order = list(dict.fromkeys(numbers.astype(int).tolist()))
    left = list(events)
    for at, number in enumerate(order):
        part = rows if len(order) == 1 else rows.filter(pa.array(numbers == number))
        until = _first_line(rows, numbers == order[at + 1]) if at + 1 < len(order) else np.inf
        yield number, part, tuple(event for event in left if (event.get("line") or 0) < until)
        left = [event for event in left if (event.get("line") or 0) >= until]


def _first_line(rows: pa.Table, which: np.ndarray) -> float:
    if "line" not in rows.column_names:
        return np.inf
    first = pc.min(rows["line"].filter(pa.array(which))).as_py()
    return np.inf if first is None else float(first)


def _grown(
    live: Live,
    number: int,
    rows: pa.Table,
    events: tuple[Mapping[str, Any], ...],
    config: Mapping[str, Any],
    forms: Sequence[Mapping[str, Any]],
    silent_seconds: float | None,
) -> Live:
    launch = live.launch
    if launch is None or launch.number != number:
        ahead = tuple(event for event in launch.events if (event.get("segment") or 0) == number) if launch else ()
        before = tuple(segment for segment in live.segments if segment.number < number)
        told = live.diagnosis.findings if live.diagnosis else ()
        live = replace(live, done=tuple(f for f in told if f.segment < number), past=before[:LAUNCHES])
        launch = Launch(number, events=ahead)
    launch = replace(launch, strands=_with(launch.strands, rows), events=(*launch.events, *events)[-EVENTS:])
    near, *later = _near(launch, config, forms)
    near = listened(near, silent_seconds)
    if not _bounded(near) or len(live.past) == LAUNCHES:
        live = replace(live, bounded=False)
    judged = _judged(launch, near)
    launch = _found(live, launch, near, judged)
    said = [finding for segment in later for finding in apply_rules(segment, live.profile, live.thresholds)]
    findings = in_order([*live.done, *launch.findings, *said], number, over=is_over([judged, *later]))
    verdict, sentence, since, known = judge([judged, *later], findings)
    blind = tuple(blind_spots(near))
    diagnosis = Diagnosis(verdict, sentence, since, findings, blind, known, live.profile, launch.early)
    live = replace(live, segments=(*live.past, judged, *later), diagnosis=diagnosis, exact=judged is near)
    return replace(live, launch=_trimmed(launch, near, live))


def listened(segment: Segment, silent_seconds: float | None) -> Segment:
    """Return a launch with how long ago its last row came; not where it has said that training is done."""
    done = len(segment.events) and segment.events["kind"].eq("training_finished").any()
    return segment if done else replace(segment, silent_seconds=silent_seconds)


def _with(strands: Mapping[str, Strand], rows: pa.Table) -> dict[str, Strand]:
    kinds = rows["kind"].to_numpy(zero_copy_only=False) if "kind" in rows.column_names else np.full(rows.num_rows, "train")
    grown = dict(strands)
    for kind in dict.fromkeys(kinds):
        part = rows if (kinds == kind).all() else rows.filter(pa.array(kinds == kind))
        grown[kind] = grown[kind].grown(part) if kind in grown else Strand(part)
    return grown


def _near(launch: Launch, config: Mapping[str, Any], forms: Sequence[Mapping[str, Any]] = ()) -> list[Segment]:
    """Return the launch in its near view, and launches behind it that left only text."""
    tables = [strand.table() for strand in launch.strands.values()]
    table = pa.concat_tables(tables, promote_options="default") if tables else launch.train.tail
    if len(tables) > 1 and "line" in table.column_names:
        table = table.take(pa.array(np.argsort(table["line"].to_numpy(), kind="stable")))
    first = _first_line(table, np.ones(table.num_rows, bool)) if forms else 0
    mine = [{**form, "segment": launch.number} for form in forms if form["line"] >= first]
    segments = split_segments(table, events=[*launch.events, *mine], config=config)
    near = next((segment for segment in segments if segment.number == launch.number), None)
    later = [segment for segment in segments if segment.number > launch.number]
    return [Segment(launch.number, pd.DataFrame(), config=config) if near is None else near, *later]


def _bounded(near: Segment) -> bool:
    main = loss_kind(near).main
    return not len(near.ranks) and (near.has("step") or not len(near)) and not (main and is_running_mean(near, main))


def _judged(launch: Launch, near: Segment) -> Segment:
    """Return the view of a launch that a verdict is made from: its whole course."""
    train = launch.train
    if not train.gone:
        return near
    course = launch.means.course(cleaned(near, train.before, len(near)))
    course.index = pd.RangeIndex(len(course))
    judged = replace(near, rows=course, absent={})
    main = loss_kind(judged).main
    seen, last = trend(replace(judged)), trend(near)
    if main and seen and last and launch.first is not None:
        drop = 1 - last.last / launch.first if launch.first > 0 and last.last > 0 else None
        lowest = min(launch.lowest, last.lowest)
        whole = replace(seen, rows=len(train), first=launch.first, last=last.last, lowest=lowest, relative_drop=drop)
        judged.once(("trend", main), lambda: whole)
    return judged


def _found(live: Live, launch: Launch, near: Segment, judged: Segment) -> Launch:
    """Return the launch with its findings as they are now."""
    profile, thresholds, train = live.profile, live.thresholds, launch.train
    if not train.gone:
        found = tuple(apply_rules(near, profile, thresholds))
        early = launch.early or early_verdict(near, profile, thresholds)
        return replace(launch, findings=found, early=early, looked=len(train))
    names = {rule.name for rule in all_rules()} - FIRST - UNBROKEN
    scaled = _scaled(live, launch)
    found = tuple(apply_rules(near, profile, scaled, names))
    settled = near.step(min(train.before + live.limits.tail // 2, len(near) - 1)) or 0  # a swing is one against what was
    alone = apply_rules(_tail(near, train.before), profile, scaled, UNBROKEN)
    found += tuple(f for f in alone if f.kind != "oscillation" or _known(f) >= settled)
    sure = near.step(min(train.before + live.limits.warm, len(near) - 1))
    findings = merged(launch.findings, found, WHOLE - UNBROKEN, sure)
    if len(train) < launch.looked * (1 + live.limits.grown):
        return replace(launch, findings=findings)
    steps = judged.steps()
    course = [
        _from_start(finding, steps, launch.means.size)
        for finding in apply_rules(judged, profile, thresholds, WHOLE)
        if finding.kind != "oscillation" or "growth" not in finding.title.template  # of which means tell nothing
    ]
    since = steps[min(int(launch.looked / max(len(train), 1) * len(steps)), len(steps) - 1)]
    kinds = frozenset(rule.name for rule in all_rules()) - WHOLE
    return replace(launch, findings=merged(findings, course, kinds, since, redo=False), looked=len(train))


def _from_start(finding: Finding, steps: np.ndarray, size: int) -> Finding:
    """Return a finding from means with the first step of its first group, where the group's own place is its last."""
    at = int(np.searchsorted(steps, finding.first_step or 0))
    if not 0 < at < len(steps) or finding.first_step is None:
        return finding
    each = (steps[at] - steps[at - 1]) / size
    return replace(finding, first_step=int(round(steps[at - 1] + each)))


def merged(
    known: Sequence[Finding], found: Sequence[Finding], others: frozenset[str], since: float | None, *, redo: bool = True
) -> tuple[Finding, ...]:
    """Return known findings brought up to date by those of another look, and what that look alone can tell.

    since: step from which on the look is to be trusted; what is known from there on stands as the look has it (`redo`) or
    stays. others: kinds that the look says nothing about.
    """
    limit = -np.inf if since is None else since
    kept = [f for f in known if f.kind in others or not redo or _known(f) < limit]
    kept = [f if f.kind in others else _brought_up(f, found) for f in kept]
    rhythm = any(f.kind == "periodic_pause" for f in kept)  # which the tail may be too short to see
    new = [f for f in found if _known(f) >= limit and not any(same(f, old) or _explains(old, f) for old in kept)]
    return tuple(kept + [f for f in new if not (rhythm and f.kind == "step_time_spike")])


def _explains(jump: Finding, rise: Finding) -> bool:
    """Say whether a rise of the means is a jump that is known already."""
    if rise.kind != "divergence" or jump.kind not in ("spike", "spike_unrecovered") or jump.segment != rise.segment:
        return False
    span = max(_known(rise) - _first(rise), 0)
    return _first(rise) - span <= _first(jump) <= _known(rise)


def _known(finding: Finding) -> float:
    return -np.inf if finding.known_step is None else finding.known_step


def same(one: Finding, other: Finding) -> bool:
    """Say whether two findings are about the same trouble: of one class, at steps that overlap (a rhythm: of one period)."""
    if (one.kind, one.segment) != (other.kind, other.segment):
        return False
    if "every" in one.title.values and "every" in other.title.values:
        return abs(one.title.values["every"] - other.title.values["every"]) <= 0.1 * one.title.values["every"]
    return _first(one) <= _last(other) and _first(other) <= _last(one)


def _first(finding: Finding) -> float:
    return finding.first_step or 0


def _last(finding: Finding) -> float:
    return np.inf if finding.last_step is None else finding.last_step


def _brought_up(finding: Finding, found: Iterable[Finding]) -> Finding:
    """Return a finding that went on with its end and title of now."""
    now = next((other for other in found if same(other, finding)), None)
    if finding.last_step is not None or now is None or finding.kind == "periodic_pause":
        return finding
    higher = now.title.values.get("ratio", 0) > finding.title.values.get("ratio", 0)
    names = ("step", "ratio", "peak") if finding.kind.startswith("spike") and not higher else ("step",)
    started = {name: finding.title.values[name] for name in names if name in finding.title.values}
    title = Text(now.title.template, {**now.title.values, **{k: v for k, v in started.items() if k in now.title.values}})
    last = max(filter(None, (now.last_line, finding.last_line)), default=None)
    return replace(finding, last_step=now.last_step, last_line=last, title=title, severity=now.severity)


def _tail(near: Segment, start: int) -> Segment:
    """Return the last rows alone."""
    rows = near.rows.iloc[start:]
    rows.index = pd.RangeIndex(len(rows))
    return replace(near, rows=rows, absent={name: gaps[start:] for name, gaps in near.absent.items()})


def _scaled(live: Live, launch: Launch) -> Mapping[str, Mapping[str, Any]]:
    """Return the thresholds with what the near view can't know: how many rows there are, and pauses before the tail."""
    own = {name: _own(live, name) for name in ("hang", "spike_cluster")}
    if "longest_times" in own["hang"]:
        own["hang"]["least_seconds"] = max(own["hang"]["least_seconds"], own["hang"]["longest_times"] * launch.pause)
    if "window_share" in own["spike_cluster"]:
        window = min(own["spike_cluster"]["window_share"] * len(launch.train), live.limits.tail / 2)
        own["spike_cluster"]["window_rows"] = max(own["spike_cluster"]["window_rows"], int(window))
    return {**live.thresholds, **own}


def _own(live: Live, name: str) -> dict[str, Any]:
    rule = next(rule for rule in all_rules() if rule.name == name)
    return {**rule.thresholds_by(live.profile), **live.thresholds.get(name, {})}


def _trimmed(launch: Launch, near: Segment, live: Live) -> Launch:
    """Return a launch that has become long without the rows before its tail, which go into the means."""
    limits, train = live.limits, launch.train
    if not live.bounded or len(train) <= limits.exact or train.tail.num_rows <= 2 * limits.tail:
        return launch
    strands = {kind: strand.trimmed(limits.tail) for kind, strand in launch.strands.items()}
    start, end = train.before, train.before + strands["train"].gone - train.gone
    course, usual = trend(near), _pauses(_tail(near.head(end), start))
    longest = max(300.0, 15 * float(np.median(usual)), 2 * launch.pause) if len(usual) else 0.0
    return replace(
        launch,
        strands=strands,
        means=launch.means.grown(cleaned(near, start, end)),
        first=launch.first if launch.first is not None or course is None else course.first,
        lowest=min(launch.lowest, course.lowest) if course else launch.lowest,
        pause=max(launch.pause, float(usual[usual <= 2 * longest].max(initial=0.0))),
    )


def _pauses(rows: Segment) -> np.ndarray:
    """Return the seconds between rows that follow each other, as far as the log tells them."""
    told = clock(rows)
    seconds = np.diff(told[1][np.isfinite(told[1])]) if told else rows.values("step_time_seconds")
    return seconds[np.isfinite(seconds) & (seconds > 0)]
