"""The early verdict is worked out once for the same first thousand steps, and anew when anything of them is another."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from analysis import diagnose as diagnosing
from analysis import early
from analysis.diagnose import early_verdict
from analysis.segment import Segment
from analysis.simulate import simulate


@pytest.fixture(autouse=True)
def _nothing_known(monkeypatch):
    monkeypatch.setattr(early, "_known", type(early._known)())


@pytest.fixture
def judged(monkeypatch) -> list[int]:
    """Return the lengths of the parts that are judged, as they are."""
    lengths: list[int] = []
    whole = diagnosing._early

    def counted(part: Segment, *rest):
        lengths.append(len(part))
        return whole(part, *rest)

    monkeypatch.setattr(diagnosing, "_early", counted)
    return lengths


def run(**options) -> Segment:
    return simulate(rows=1500, seed=6, **options).segment


def test_a_launch_that_grows_has_its_early_verdict_judged_once_and_it_is_that_of_a_first_look(judged, monkeypatch):
    segment = run(fault="nan_to_end", at=0.4)
    each = [early_verdict(segment.head(rows), "robust", {}) for rows in (1100, 1200, 1500)]
    assert judged == [1000]
    monkeypatch.setattr(early, "_known", type(early._known)())
    assert each == [early_verdict(segment.head(rows), "robust", {}) for rows in (1100, 1200, 1500)]
    assert each[0] is not None
    assert each[0].verdict == "sick"


def other_value(segment: Segment) -> Segment:
    rows = segment.rows.copy()
    rows.loc[500, "loss"] = np.nan
    return replace(segment, rows=rows)


def other_gap(segment: Segment) -> Segment:
    return replace(segment, absent={"loss": np.arange(len(segment)) == 500})


def other_event(segment: Segment) -> Segment:
    told = pd.DataFrame([[2, 1, "oom", "out of memory", {}]], columns=["line", "step", "kind", "text", "data"])
    return replace(segment, events=told.astype({"step": "Int64"}))


CHANGES = {
    "value": other_value,
    "gap": other_gap,
    "event": other_event,
    "evaluation": lambda segment: replace(segment, evals=pd.DataFrame({"line": [3], "eval_loss": [2.0]})),
    "setting": lambda segment: replace(segment, config={**segment.config, "seed": 7}),
    "plan": lambda segment: replace(segment, total_steps=9_999),
    "number": lambda segment: replace(segment, number=segment.number + 1),
    "unmeasured": lambda segment: replace(segment, unmeasured=frozenset({"grad_norm"})),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_whatever_is_another_in_these_steps_is_judged_anew(change, judged):
    segment = run()
    early_verdict(segment, "robust", {})
    early_verdict(change(segment), "robust", {})
    assert len(judged) == 2


def test_other_thresholds_and_another_profile_are_judged_anew(judged):
    segment = run()
    longer = {"hang": {"least_seconds": 900.0}}
    for profile, thresholds in (("robust", {}), ("robust", longer), ("articles", {}), ("robust", {})):
        early_verdict(segment, profile, thresholds)
    assert len(judged) == 3


def test_no_more_are_remembered_than_said(judged, monkeypatch):
    monkeypatch.setattr(early, "MOST_REMEMBERED", 2)
    segments = [replace(run(), number=number) for number in (0, 1, 2, 0)]
    for segment in segments:
        early_verdict(segment, "robust", {})
    assert len(judged) == 4
    assert len(early._known) == 2
