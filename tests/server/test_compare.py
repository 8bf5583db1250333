"""A comparison says of a run what the other pages say of it: one diagnosis, one ledger."""

import json
from datetime import UTC, datetime, timedelta

import numpy as np
import pytest

from server import answers, compare, sweep
from server.compare import comparison
from server.costs import Wishes
from server.monitor import Monitor
from server.subjects import set_condition
from tests.pages.conftest import shop as shop
from tests.pages.helpers import canonical, take

START = datetime(2024, 1, 1, tzinfo=UTC)


def log(rising_from: int | None = None, rows: int = 400) -> str:
    """A line every ten seconds; from a row on the loss goes up for good."""
    row = np.arange(rows)
    loss = 2 + 6 * 0.985**row + 0.01 * np.sin(7.0 * row)
    if rising_from is not None:
        loss[rising_from:] = loss[rising_from] * np.exp(0.02 * np.arange(rows - rising_from))
    at = [START + timedelta(seconds=10 * int(n)) for n in row]
    lines = [f"{at[n]:%Y-%m-%d %H:%M:%S} step: {n + 1} loss: {loss[n]:.4f} lr: 0.0005" for n in row]
    return "\n".join(lines) + "\n"


@pytest.fixture
def pair(shop) -> list[str]:
    return [take(shop, log(), "well.log"), take(shop, log(rising_from=200), "rises.log")]


def test_the_productive_share_is_that_of_time_and_cost(shop, pair):
    told = comparison(shop, pair)
    shares = [shop.cost(run, Wishes()).report.book.goodput for run in pair]
    assert [one.goodput for one in told.numbers] == pytest.approx(shares)
    assert shares[1] < 0.7 < shares[0]


def test_the_divergence_is_that_of_the_finding(shop, pair):
    found = next(one for one in shop.diagnosis(pair[1]).findings if one.kind == "divergence")
    state = next(state for state in comparison(shop, pair).states if state.code == "diverged")
    assert (state.run, state.step) == (pair[1], found.first_step)
    assert found.title.render() in state.text.render()


def test_of_many_rows_only_what_is_already_judged_is_told(shop, pair, monkeypatch):
    monkeypatch.setattr(compare, "JUDGED_ROWS", 100)
    shop.diagnosis(pair[1])
    numbers = comparison(shop, pair).numbers
    assert numbers[0].goodput is None or shop.store.judged(ids=pair).keys() == set(pair)
    assert numbers[1].goodput == pytest.approx(shop.cost(pair[1], Wishes()).report.book.goodput)


def test_a_page_hears_when_a_run_was_judged_since(shop, pair):
    before = compare.judged_versions(shop, pair)
    for run in pair:
        shop.diagnosis(run)
    after = compare.judged_versions(shop, pair)
    assert len(after) == 2
    assert set(before) <= set(after)


def test_without_writing_the_share_is_worked_out_all_the_same(shop, pair, monkeypatch):
    want = shop.cost(pair[1], Wishes()).report.book.goodput
    monkeypatch.setattr(shop.store, "judged", lambda *_: {})  # nothing was ever kept
    assert comparison(shop, pair).numbers[1].goodput == pytest.approx(want)


def test_where_a_monitor_judges_nobody_waits_for_it(shop, pair):
    shop.monitor = Monitor(lambda run: (None, shop.diagnosis(run)))  # has not come to these runs yet
    assert compare.awaited(shop, pair) == pair
    assert [one.goodput for one in comparison(shop, pair).numbers] == [None, None]
    assert not shop.store.judged(ids=pair)
    shop.diagnosis(pair[1])
    assert compare.awaited(shop, pair) == pair[:1]
    told = comparison(shop, pair)
    assert told.numbers[1].goodput == pytest.approx(shop.cost(pair[1], Wishes()).report.book.goodput)
    assert [state.code for state in told.states if state.run == pair[1]][:1] == ["diverged"]


def test_where_nothing_judges_by_itself_nothing_is_awaited(shop, pair):
    assert compare.awaited(shop, pair) == []


# The usual base


def test_the_usual_base_is_a_run_that_did_not_break_down_and_has_most_in_common(shop):
    broke, lone = take(shop, log(rising_from=200), "broke.log"), take(shop, strange(), "strange.jsonl")
    first, second = take(shop, log(), "first.log"), take(shop, log(rows=410), "second.log")
    for run in (broke, lone, first, second):
        shop.diagnosis(run)
    heads = [shop.store.run(run) for run in (broke, lone, first, second)]
    assert compare.usual_base(shop, heads) == first
    assert compare.usual_base(shop, heads[:2]) == lone
    few = take(shop, log(rows=3), "few.log")
    assert compare.usual_base(shop, [shop.store.run(few), *heads[2:]]) == first


def test_the_usual_base_is_the_middle_of_a_sweep_and_that_of_the_command_line(shop):
    sizes = [(32, 2), (64, 2), (64, 4), (128, 2)]
    texts = [f"Namespace(hidden_size={width}, num_layers={layers})\n{log()}" for width, layers in sizes]
    runs = [take(shop, text, f"{n}.log") for n, text in enumerate(texts)]
    order = [runs[2], runs[0], runs[1], runs[3]]
    asked = dict.fromkeys(("axis", "metric", "reach", "gpus", "price"))
    assert answers.compare(shop, order, None, asked)["base"] == runs[1]
    assert compare.usual_base(shop, [shop.store.run(run) for run in order]) == runs[1]


# Sweeps


def strange(rows: int = 400) -> str:
    """Another program: other things under other names, of another task."""
    lines = [{"step": n + 1, "loss": 9 - n / 100, "grad_norm": 1.0, "kl": 0.1, "tokens_per_second": 5.0} for n in range(rows)]
    return "".join(json.dumps(line) + "\n" for line in lines)


def sized(batch: int, *, vocabulary: int = 100, rows: int = 400) -> str:
    return f"Namespace(batch_size={batch}, vocab_size={vocabulary}, weight_decay={batch / 100})\n" + log(rows=rows)


@pytest.mark.parametrize("one_by_one", [True, False])
def test_a_sweep_leaves_out_what_a_comparison_would_not_set_beside_the_others(shop, monkeypatch, one_by_one):
    monkeypatch.setattr(sweep, "MOST", 50 if one_by_one else 1)
    kept = [take(shop, sized(n + 1), f"{n}.log") for n in range(9)]
    other = take(shop, sized(3, vocabulary=50_000), "vocabulary.log")
    lone = take(shop, strange(), "strange.jsonl")
    told, table = sweep.sweep_of(shop, [lone, *kept, other])
    assert list(table.index) == kept
    assert told.runs == len(kept)
    assert {reason.code: reason.runs for reason in told.left} == {"differs_vocabulary": (other,), "other_program": (lone,)}
    said = " ".join(reason.text.render() for reason in told.left)
    assert "left out: vocabulary" in said
    assert "Vocabulary" in said
    pair = comparison(shop, [kept[0], other])
    assert {reason.code for reason in pair.fair.reasons} >= {"differs_vocabulary"}


def test_a_sweep_of_few_runs_names_what_varies(shop):
    runs = [take(shop, sized(n + 1, rows=400 + 100 * n), f"{n}.log") for n in range(3)]
    told, table = sweep.sweep_of(shop, runs)
    assert told.keys == ()
    assert set(told.varied) == {"batch", "weight_decay"}
    assert table[list(told.varied)].notna().all(axis=None)
    said = " ".join(note.render() for note in told.notes)
    assert "after 400 to 600 steps" in said


def test_a_sweep_says_whose_steps_are_other_steps(shop):
    runs = [take(shop, canonical(60 + n, plan=plan), f"{n}.log") for n, plan in enumerate((1000, 1000, 4000))]
    told, _table = sweep.sweep_of(shop, runs)
    assert told.runs == 3
    (said,) = [note.render() for note in told.notes if "other steps" in note.render()]
    assert said.startswith(
        "counted, though their steps are other steps: 2 — of the first of them: 2 and 0: steps an epoch 4,000"
    )


def test_a_sweep_says_which_runs_have_no_result_and_which_broke_down(shop):
    runs = [take(shop, sized(n + 1), f"{n}.log") for n in range(2)]
    runs += [take(shop, f"Namespace(batch_size=9, vocab_size=100)\n{log(rising_from=200)}", "rises.log")]
    runs += [take(shop, sized(4).replace("loss:", "nothing:"), "none.log")]
    shop.diagnosis(runs[2])
    told, table = sweep.sweep_of(shop, runs)
    said = " ".join(note.render() for note in told.notes)
    assert "not counted: 1" in said
    assert said.endswith("all the same: rises.log")
    assert table[sweep.BROKE].to_dict() == {run: run == runs[2] for run in runs}


def test_runs_that_broke_down_are_marked_however_many_there_are(shop, monkeypatch):
    monkeypatch.setattr(sweep, "MOST", 1)
    runs = [take(shop, log(rising_from=200 if n < 8 else None, rows=400 + n), f"{n}.log") for n in range(9)]
    for run in runs:
        shop.diagnosis(run)
    told, table = sweep.sweep_of(shop, runs)
    assert table[sweep.BROKE].tolist() == [True] * 8 + [False]
    (said,) = [note.render() for note in told.notes if "broke down" in note.render()]
    assert said.endswith("(8 in all)")


def test_a_run_of_a_few_rows_has_no_end_in_a_sweep(shop):
    runs = [take(shop, sized(n + 1, rows=rows), f"{n}.log") for n, rows in enumerate((400, 400, 2, 1))]
    told, table = sweep.sweep_of(shop, runs)
    assert told.runs == 2
    assert table[sweep.RESULT].notna().tolist() == [True, True, False, False]
    (said,) = [note.render() for note in told.notes if "fewer than" in note.render()]
    assert said == "have fewer than 4 values of the result, which is no end, and are not counted: 2.log, 3.log"


@pytest.mark.parametrize(("count", "end"), [(4, 3.0), (10, 8.5), (20, 17.5), (60, 53.5), (3, None)])
def test_the_result_of_a_run_is_the_mean_over_its_last_fifth(count, end):
    assert sweep.end_of(np.arange(count, dtype=np.float32)) == end
    assert sweep.end_of(np.full(count, np.nan, dtype=np.float32)) is None


def test_a_condition_by_hand_counts_in_a_sweep(shop):
    runs = [take(shop, sized(n + 1), f"{n}.log") for n in range(3)]
    set_condition(shop.store, runs[2], "dataset", "another")
    set_condition(shop.store, runs[1], "dataset", "one")
    told, _table = sweep.sweep_of(shop, runs)
    assert "dataset" in told.varied


# Names


def test_a_name_that_turns_the_text_around_is_shown_as_what_it_is(shop):
    run = take(shop, log(), "a\u202egol.b\u2066c\u200f.log")
    other = take(shop, log(rising_from=200), "b.log")
    assert shop.store.run(run).name == "a�gol.b�c�.log"
    assert {head.name for head in shop.store.runs()} == {"a�gol.b�c�.log", "b.log"}
    assert {side.subject.name for side in comparison(shop, [run, other]).sides} == {"a�gol.b�c�.log", "b.log"}
