"""What is advised fits what became of a fault, and a cause is called likely only where the log tells something for it."""

from dataclasses import replace

import numpy as np
import pytest

from analysis.advice import CAME_BACK, ENDED
from analysis.attribution import table
from analysis.diagnose import diagnose
from analysis.findings import Cause, Finding, Standing
from analysis.segment import Segment
from analysis.simulate import with_events
from messages import Text
from tests.analysis.losses_lab import run


def broken(*, rows: int = 400, bad: slice = slice(300, None)) -> Segment:
    loss = 3 + np.exp(-np.arange(rows) / 100) + 0.02 * np.random.default_rng(1).standard_normal(rows)
    loss[bad] = np.nan
    return run(loss=loss, total=1000)


def nan(*segments: Segment) -> Finding:
    return next(finding for finding in diagnose(segments).findings if finding.kind == "non_finite")


def advice(finding: Finding) -> str:
    return " ".join(text.render() for text in finding.advice)


def test_only_a_run_that_goes_on_is_to_be_stopped() -> None:
    assert "Stop the run" in advice(nan(broken()))
    failed = with_events(broken(), (401, "traceback", "RuntimeError: loss is nan", {}))
    finished = with_events(broken(), (401, "training_finished", "done", {}))
    for ended in (failed, finished, replace(broken(), total_steps=400)):
        assert "Stop" not in advice(nan(ended))
        assert "Restart from the last checkpoint" in advice(nan(ended))


def test_what_came_back_by_itself_is_not_to_be_stopped_nor_restarted() -> None:
    said = advice(nan(broken(bad=slice(200, 210))))
    assert said.startswith("Nothing is to be stopped")
    assert "Restart" not in said


def test_a_fault_of_an_earlier_launch_is_one_that_has_ended() -> None:
    later = replace(run(loss=np.linspace(4, 3, 200), total=1000), number=1)
    assert "Stop" not in advice(nan(broken(), later))


@pytest.mark.parametrize("kind", sorted(ENDED | CAME_BACK))
def test_other_advice_stands_for_advice_that_there_is(kind: str) -> None:
    assert table().first[kind]
    assert not any("Stop the run" in line for line in (*ENDED.get(kind, ()), *CAME_BACK.get(kind, ())))


def test_a_cause_without_evidence_is_possible_and_never_likely() -> None:
    text = Text("x")
    assert Cause("a", text).standing is Standing.POSSIBLE
    assert Cause("a", text, 3.0, supports=(text,)).standing is Standing.LIKELY
    assert Cause("a", text, -1.0, contradicts=(text,)).standing is Standing.UNLIKELY
    assert {cause.standing for cause in nan(broken()).causes} == {Standing.POSSIBLE}


def test_a_launch_behind_another_that_begins_anew_is_another_run() -> None:
    first, second = (replace(run(loss=np.linspace(9, 4, 200)), number=number) for number in (0, 1))
    (finding,) = [found for found in diagnose([first, second]).findings if found.kind == "restart"]
    assert [(cause.name, cause.standing) for cause in finding.causes][0] == ("another_run", Standing.LIKELY)
    trained = replace(run(loss=np.linspace(2, 1, 200)), number=1)
    (finding,) = [found for found in diagnose([first, trained]).findings if found.kind == "restart"]
    assert {cause.standing for cause in finding.causes} == {Standing.POSSIBLE}


def test_a_model_that_began_trained_has_learned_more_than_word_frequencies() -> None:
    rng = np.random.default_rng(2)
    flat = np.r_[np.geomspace(2, 1, 200), np.full(3000, 1.0)] * np.exp(0.01 * rng.standard_normal(3200))
    finding = next(f for f in diagnose([run(loss=flat, total=20000)]).findings if f.kind == "plateau")
    (labels,) = [cause for cause in finding.causes if cause.name == "labels"]
    assert labels.standing is Standing.UNLIKELY
