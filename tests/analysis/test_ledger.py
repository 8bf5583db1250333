"""The ledger: disjoint parts that add up to the whole, each where it belongs (R102, R112, R164)."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from analysis.cost import CostModel, cost_report
from analysis.diagnose import diagnose
from analysis.findings import Finding, Severity
from analysis.ledger import Ledger, ledger
from analysis.pace import pace
from analysis.segment import Segment
from analysis.simulate import simulate
from analysis.simulate_text import STYLES, printed
from analysis.simulate_time import FAULTS, timed
from messages import Text
from server.service import to_segments
from storage.reader import read_file


def segments(text: str, folder: Path) -> list[Segment]:
    path = folder / "run.log"
    path.write_text(text)
    result = read_file(path)
    return to_segments(result.rows, result.events, dict(result.report.config))


def book(text: str, folder: Path) -> Ledger:
    found = ledger(segments(text, folder))
    assert found is not None
    return found


@pytest.mark.parametrize("style", STYLES)
@pytest.mark.parametrize("fault", [None, *FAULTS])
def test_the_parts_add_up(style: str, fault: str | None, tmp_path: Path) -> None:
    run = timed(plan=1500, seed=5, habit="both", fault=fault)
    found = book(printed(run, style), tmp_path)
    assert sum(item.seconds for item in found.items) == pytest.approx(found.seconds, rel=1e-9)
    assert sum(item.share for item in found.items) == pytest.approx(1)
    assert 0 < found.goodput <= 1
    assert [item.seconds for item in found.waste] == sorted((item.seconds for item in found.waste), reverse=True)


@pytest.mark.parametrize("style", ["jsonl", "megatron", "hf_dict", "modded_nanogpt"])
def test_each_fault_is_found_where_it_was_put(style: str, tmp_path: Path) -> None:
    hung = timed(plan=4000, seed=7, fault="hang")
    assert book(printed(hung, style), tmp_path).part("hangs") == pytest.approx(hung.truth["hang"], rel=0.03)
    slow = timed(plan=4000, seed=7, fault="slow")
    assert book(printed(slow, style), tmp_path).part("slow") == pytest.approx(slow.truth["slow"], rel=0.2)
    back = timed(plan=4000, seed=7, fault="restart")
    assert book(printed(back, style), tmp_path).part("lost_steps") == pytest.approx(back.truth["lost_steps"], rel=0.25)
    if style in ("jsonl", "megatron"):
        assert book(printed(back, style), tmp_path).part("dead_gaps") == pytest.approx(back.truth["dead_gaps"], rel=0.05)
    paused = timed(plan=4000, seed=7, habit="checkpoints")
    assert book(printed(paused, style), tmp_path).part("pauses") == pytest.approx(paused.truth["pauses"], rel=0.1)


def test_a_healthy_run_is_nearly_all_productive_and_says_its_largest_waste(tmp_path: Path) -> None:
    found = book(printed(timed(plan=3000, seed=1), "modded_nanogpt"), tmp_path)
    assert found.goodput > 0.97
    assert found.waste[0].name == "start_up"
    assert found.waste[0].sentence.render() == "20 s (1.6%) were starting up, before step 10"


def test_pauses_keep_their_rhythm_and_their_cause(tmp_path: Path) -> None:
    run = timed(plan=4000, seed=2, habit="both")
    known = pace(segments(printed(run, "megatron"), tmp_path)[0])
    assert known is not None
    causes = {habit.cause: habit for habit in known.habits}
    assert causes["checkpoint"].every == 200
    assert causes["checkpoint"].seconds == pytest.approx(10, rel=0.2)


def rows(count: int = 200, **columns: object) -> Segment:
    steps = np.arange(1, count + 1)
    return Segment(0, pd.DataFrame({"line": steps, "step": steps, "step_time_seconds": 2.0, **columns}))


def lasting(kind: str, first: int, severity: Severity = Severity.CRITICAL, last: int | None = None) -> Finding:
    return Finding(kind, severity, 0, first, last, Text("up"))


def test_steps_after_a_lasting_nan_and_those_that_make_good_a_jump_are_waste() -> None:
    loss = np.full(200, 3.0)
    loss[150:] = np.nan
    finding = Finding("spike_unrecovered", Severity.CRITICAL, 0, 101, 120, Text("jump"))
    found = ledger([rows(loss=loss)], findings=[finding])
    assert found is not None
    assert found.part("after_nan") == pytest.approx(100)
    assert found.part("spikes") == pytest.approx(40)
    assert found.goodput == pytest.approx(260 / 400)


def test_steps_after_the_loss_went_up_for_good_are_lost_and_the_time_left_is_a_condition(tmp_path: Path) -> None:
    run = simulate(rows=2000, seed=7, fault="divergence").segment
    path = tmp_path / "run.jsonl"
    lines = zip(run.steps().astype(int).tolist(), run.values("loss").tolist(), strict=True)
    path.write_text("".join(f'{{"step": {i}, "total_steps": 4000, "loss": {x:.4f}, "step_time": 2.0}}\n' for i, x in lines))
    result = read_file(path)
    launches = to_segments(result.rows, result.events, dict(result.report.config))
    findings = diagnose(launches).findings
    risen = next(finding for finding in findings if finding.kind == "divergence")
    told = cost_report(launches, CostModel(), findings=findings)
    assert told.book is not None
    assert told.book.part("diverged") == pytest.approx(2 * (2001 - (risen.first_step or 0)), rel=0.01)
    assert sum(item.seconds for item in told.book.items) == pytest.approx(told.book.seconds, rel=1e-9)
    assert f"from step {risen.first_step:,}" in told.book.waste[0].sentence.render()
    assert told.of_no_use is not None
    assert (
        told.of_no_use.render() == f"the run has diverged since step {risen.first_step:,}: finishing it from there is of no use"
    )
    assert told.left is not None
    assert told.left.p50 == pytest.approx(4000, rel=0.05)


@pytest.mark.parametrize(
    ("finding", "parts", "words"),
    [
        (lasting("divergence", 101), {"diverged": 100, "after_nan": 100}, "has diverged since step 101"),
        (lasting("spike_unrecovered", 101), {"diverged": 100, "after_nan": 100}, "jumped at step 101 and has not come back"),
        (lasting("divergence", 101, Severity.INFO), {"productive": 300, "after_nan": 100}, "NaN or infinite since step 151"),
        (lasting("divergence", 101, last=150), {"productive": 300, "after_nan": 100}, "NaN or infinite since step 151"),
    ],
)
def test_what_went_up_for_good_is_lost_beside_what_was_no_number(finding: Finding, parts: dict, words: str) -> None:
    loss = np.full(200, 3.0)
    loss[150:] = np.nan
    told = cost_report([rows(loss=loss)], CostModel(), findings=[finding])
    assert told.book is not None
    assert {name: told.book.part(name) for name in parts} == pytest.approx(parts)
    assert sum(item.seconds for item in told.book.items) == pytest.approx(400)
    assert words in told.of_no_use.render()  # type: ignore[union-attr]


def test_a_run_that_is_over_or_healthy_is_not_said_to_be_of_no_use() -> None:
    over = replace(rows(loss=3.0), total_steps=200)
    assert cost_report([over], CostModel(), findings=[lasting("divergence", 101)]).of_no_use is None
    assert cost_report([rows(loss=3.0)], CostModel()).of_no_use is None


def test_a_finished_launch_is_not_undone_by_the_next_one_and_an_unfinished_one_is() -> None:
    one, two = rows(loss=3.0), rows(loss=3.0)
    two = Segment(1, two.rows, total_steps=200)
    done = ledger([Segment(0, one.rows, total_steps=200), two])
    assert done is not None
    assert done.goodput == 1
    cut = Segment(0, one.rows.iloc[:120], total_steps=200)
    found = ledger([cut, two])
    assert found is not None
    assert found.part("lost_steps") == pytest.approx(240)


@pytest.mark.parametrize(
    ("lines", "minutes_a_line", "told"),
    [(1, 25, False), (10, 0.4, False), (10, 2, True)],
)
def test_a_share_is_productive_only_where_a_loss_could_be_seen(lines, minutes_a_line, told, tmp_path: Path) -> None:
    line = "Epoch:[1/1]({}/10000), loss: 7.2, logits_loss: 7.2, aux_loss: 0.0, lr: 0.0005, epoch_time: {}.0min\n"
    left = (int(minutes_a_line * (100 - i)) for i in range(1, lines + 1))
    text = "".join(line.format(100 * i, value) for i, value in enumerate(left, 1))
    found = ledger(segments(text, tmp_path), meaning="remaining")
    assert found is not None
    assert (found.goodput is not None) == told
    assert any("shorter than 180 s are not seen" in note.render() for note in found.notes) == told


def test_one_step_time_shows_no_loss_either() -> None:
    lone = ledger([rows(1, step_time_seconds=np.array([2.0]))])
    assert lone is not None
    assert lone.goodput is None


def test_without_a_clock_there_is_no_ledger() -> None:
    assert ledger([]) is None
    assert ledger([Segment(0, pd.DataFrame({"step": [1.0, 2.0], "loss": [3.0, 2.0]}))]) is None
