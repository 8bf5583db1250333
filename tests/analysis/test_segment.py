"""Tables are cut into launches, and "not printed" never becomes "printed NaN"."""

import numpy as np
import pyarrow as pa

from analysis.diagnose import diagnose
from analysis.segment import split_segments

NAN = float("nan")


def table(**columns: list[object]) -> pa.Table:
    return pa.table(columns)


def test_a_gap_is_not_a_printed_nan() -> None:
    rows = table(step=[1, 2, 3, 4], loss=pa.array([2.0, None, NAN, float("inf")], from_pandas=False))
    (segment,) = split_segments(rows)
    assert segment.printed("loss").tolist() == [True, False, True, True]
    assert np.isnan(segment.values("loss")[1:3]).all()
    assert np.isinf(segment.values("loss")[3])


def test_launches_are_cut_and_evaluation_rows_stay_apart() -> None:
    rows = table(
        kind=["train", "eval", "train", "train", "eval"],
        segment=[0, 0, 0, 1, 1],
        line=[1, 2, 3, 10, 11],
        step=[1, 1, 2, 1, 1],
        loss=[3.0, None, 2.9, 3.1, None],
        eval_loss=[None, 3.2, None, None, 3.3],
    )
    first, second = split_segments(rows)
    assert first.rows["step"].tolist() == [1, 2]
    assert not first.has("eval_loss")
    assert first.evals["eval_loss"].tolist() == [3.2]
    assert (second.number, len(second), second.line(0)) == (1, 1, 10)


def test_launches_that_interleave_keep_their_own_rows() -> None:
    rows = table(segment=[0, 1, 0, 1], step=[1, 1, 2, 2], loss=[1.0, 2.0, 3.0, 4.0])
    assert [s.rows["loss"].tolist() for s in split_segments(rows)] == [[1.0, 3.0], [2.0, 4.0]]


def test_the_plan_comes_from_the_rows_before_the_argument() -> None:
    assert split_segments(table(step=[1], total_steps=[500.0]), total_steps=9)[0].total_steps == 500
    assert split_segments(table(step=[1], epochs=[2.0], steps_per_epoch=[1000.0]))[0].total_steps == 2000
    assert split_segments(table(step=[1], loss=[1.0]), total_steps=9)[0].total_steps == 9
    assert split_segments(table(step=[1], loss=[1.0]))[0].total_steps is None


def test_a_launch_without_rows_keeps_its_events() -> None:
    event = {"line": 7, "kind": "out_of_memory", "text": "no memory", "step": None, "segment": 1}
    rows = table(segment=[0], step=[1], loss=[1.0])
    assert [len(s) for s in split_segments(rows, events=[event])] == [1, 0]
    only = split_segments(rows.slice(0, 0), events=[event])
    assert [(s.number, len(s), s.events["kind"].tolist()) for s in only] == [(1, 0, ["out_of_memory"])]
    assert split_segments(rows.slice(0, 0)) == []


def test_a_log_without_steps_has_rows_but_no_step() -> None:
    (segment,) = split_segments(table(step=pa.array([None, None], pa.int64()), loss=[2.0, 1.0]))
    assert segment.step(0) is None
    assert segment.steps().tolist() == [1.0, 2.0]


def test_of_several_ranks_the_lowest_stands_for_the_run() -> None:
    (segment,) = split_segments(table(step=[1, 1, 2, 2], rank=[0, 1, 0, 1], loss=[1.0, 9.0, 2.0, 9.0]))
    assert segment.rows["loss"].tolist() == [1.0, 2.0]


def test_the_head_is_what_was_known_then() -> None:
    event = {"line": 3, "kind": "traceback", "text": "", "step": None, "segment": 0}
    (segment,) = split_segments(table(line=[1, 2, 4], step=[1, 2, 3], loss=[3.0, 2.0, 1.0]), events=[event])
    assert (len(segment.head(2)), len(segment.head(2).events), len(segment.head(3).events)) == (2, 0, 1)


def test_a_norm_that_is_zero_throughout_while_the_loss_moves_is_measured_by_nobody() -> None:
    falls, still = np.linspace(9, 4, 40), np.full(40, 9.0)
    norms = {"zeros": np.zeros(40), "one": np.r_[np.zeros(39), 0.1], "nan": np.r_[np.zeros(39), NAN]}
    for loss, norm, there in ((falls, "zeros", False), (still, "zeros", True), (falls, "one", True), (falls, "nan", True)):
        (segment,) = split_segments(table(step=np.arange(40), loss=loss, grad_norm=norms[norm]))
        assert segment.has("grad_norm") is there
        assert segment.head(30).unmeasured == (frozenset() if there else frozenset({"grad_norm"}))
        texts = [blind.text.template for blind in diagnose([segment]).not_assessable if blind.rule == "grad_explosion"]
        assert any("only zeros" in text for text in texts) is not there


def test_a_plan_in_steps_says_nothing_of_rows_that_print_no_step() -> None:
    table = {"kind": ["train"] * 3, "step": [1, 2, 3], "loss": [3.0, 2.9, 2.8], "total_steps": [1500.0] * 3}
    printed = {**table, "step_printed": pa.array([100, 200, 300], pa.int64())}
    counted = {**table, "step_printed": pa.array([None] * 3, pa.int64())}
    assert split_segments(pa.table(printed))[0].total_steps == 1500
    assert split_segments(pa.table(counted))[0].total_steps is None
