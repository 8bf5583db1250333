"""The golden library of a store: runs that people call good, failures that they keep as a warning, and those that ship."""

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

import pandas as pd

import analysis
from analysis.ending import current_launch
from analysis.golden import FEWEST_GOLDEN, Case, Comparison, case_of, compare
from analysis.segment import Segment
from messages import Text
from server.live import segments_of
from storage.store import Store

SHIPPED = Path(analysis.__file__).with_name("golden.json")
GOLDEN, FAILURE = "golden", "failure_pattern"  # kinds of kept documents
HOLD = {GOLDEN: "golden run", FAILURE: "failure pattern"}


@dataclass(frozen=True)
class Beside:
    """A run beside the library. found: the comparison, or why there is none; own: it was made with runs of one's own, of
    which there are `marked` in its profile; case: the run itself, None where it can't be compared."""

    found: Comparison | Text
    own: bool = False
    marked: int = 0
    case: Case | None = None


@cache
def shipped() -> tuple[tuple[Case, ...], tuple[Case, ...]]:
    """Return the golden runs and the failure patterns of the simulator."""
    cases = [Case.from_dict(data, simulated=True) for data in json.loads(SHIPPED.read_text(encoding="utf-8"))]
    return tuple(case for case in cases if not case.kind), tuple(case for case in cases if case.kind)


def kept(store: Store, kind: str) -> list[Case]:
    """Return the cases that people have kept, the oldest first; runs that are gone are left out."""
    names = {run.id: run.name for run in store.runs()}
    found = [Case.from_dict(one.data, run=one.run) for one in store.kept(kind)]
    return [replace(case, title=names[case.run]) for case in found if case.run in names]


def launch_of(store: Store, run: str) -> Segment | None:
    """Return the launch that a run is compared by: its longest. Raises UnknownRun."""
    segments = segments_of(store, run)
    return max(segments, key=len) if segments and len(current_launch(segments)) else None


def mark(store: Store, run: str, kind: str, *, label: str = "", who: str = "") -> Text | None:
    """Keep a run as golden, or as the failure pattern `label`, and keep it from ageing; return why that can't be."""
    launch = launch_of(store, run)
    case = case_of(launch or Segment(0, _nothing()), store.run(run).name, kind=label)
    if isinstance(case, Text):
        return case
    store.keep(kind, "", case.to_dict(), run=run, who=who)
    store.hold(run, HOLD[kind])
    return None


def unmark(store: Store, run: str, kind: str) -> None:
    """Take a run out of the library; it may age again."""
    store.drop(kind, "", run=run)
    store.release(run, HOLD[kind])


def beside(store: Store, run: str) -> Beside:
    """Return a run beside one's own golden runs, or beside those that ship while one's own are too few. Raises UnknownRun."""
    launch = launch_of(store, run)
    case = case_of(launch or Segment(0, _nothing()), store.run(run).name)
    if isinstance(case, Text):
        return Beside(case)
    return against(replace(case, run=run), kept(store, GOLDEN), kept(store, FAILURE))


def against(case: Case, golden: Sequence[Case], failures: Sequence[Case]) -> Beside:
    """Return a case beside a library of one's own, filled up with what ships."""
    mine = [each for each in golden if each.profile == case.profile and each.run != case.run]
    own = len(mine) >= FEWEST_GOLDEN
    good, bad = shipped()
    return Beside(compare(case, mine if own else good, [*failures, *bad]), own, len(mine), case)


def _nothing() -> pd.DataFrame:
    return pd.DataFrame()
