"""Clocks of nodes: offsets to the millisecond, drift followed, a clock that was set shown, what can't be told said."""

import numpy as np
import pandas as pd
import pytest

from analysis.clocks import clocks

START = 1_700_000_000_000


def node(offset, *, steps=2000, noise=3.0, seed=0, every=1, segment=0, drift=0.0):
    """Times of steps 2 s apart by a clock that is `offset` (a number or one a step) ms ahead."""
    rng = np.random.default_rng(seed)
    number = np.arange(0, steps, every)
    true = START + 2000.0 * number
    shift = np.broadcast_to(offset, steps)[::every] + drift * 2000.0 * number
    printed = np.round(true + shift + np.abs(rng.normal(0, noise, len(number))))
    return pd.DataFrame({"segment": segment, "step": number, "time_ms": printed})


def test_offsets_are_found_to_the_millisecond_and_the_node_in_the_middle_is_the_reference():
    found = clocks({"a": node(-250, seed=1), "b": node(0, seed=2), "c": node(730, seed=3)})
    assert found.reference == "b"
    assert found.offsets["a"].ms == pytest.approx(-250, abs=1)
    assert found.offsets["c"].ms == pytest.approx(730, abs=1)
    assert found.offsets["b"].ms == 0
    assert found.residual_ms < 4
    assert found.resolution_ms == 1


def test_corrected_times_agree():
    nodes = {"a": node(-250, seed=1), "b": node(0, seed=2), "c": node(730, seed=3)}
    found = clocks(nodes)
    times = [found.corrected_ms(name, frame["time_ms"].to_numpy()) for name, frame in nodes.items()]
    assert np.median(np.ptp(times, axis=0)) < 10


def test_a_drift_is_followed():
    """20 millionths: 1.7 s a day."""
    found = clocks({"a": node(0, steps=40_000, seed=1), "b": node(0, steps=40_000, seed=2, drift=2e-5), "c": node(0, seed=3)})
    drifting = found.offsets["b"]
    assert drifting.residual_ms < 5
    assert found.offset_ms("b", START) - found.offset_ms("a", START) == pytest.approx(0, abs=5)
    end = START + 2000 * 40_000
    assert found.offset_ms("b", end) - found.offset_ms("a", end) == pytest.approx(1600, abs=5)
    assert drifting.jumps == ()


@pytest.mark.parametrize("by", [1500, -40_000])
def test_a_clock_that_was_set_is_shown_where_and_by_how_much(by):
    set_at = np.where(np.arange(2000) >= 700, by, 0)
    found = clocks({"a": node(0, seed=1), "b": node(set_at, seed=2), "c": node(0, seed=3)})
    ((_time, step, shift),) = found.offsets["b"].jumps
    assert step == 700
    assert shift == pytest.approx(by, abs=3)
    assert found.offsets["b"].residual_ms < 5
    assert found.offsets["a"].jumps == () == found.offsets["c"].jumps


def test_steps_that_one_node_prints_rarely_and_stragglers_do_no_harm():
    slow = node(100, seed=4)
    slow.loc[::50, "time_ms"] += 30_000
    found = clocks({"a": node(0, seed=1), "b": slow, "c": node(0, seed=3, every=10)})
    assert found.offsets["b"].ms == pytest.approx(100, abs=2)
    assert found.offsets["b"].jumps == ()
    assert found.offsets["c"].steps == 200


def test_whole_seconds_are_said_to_be_no_more():
    nodes = {name: node(offset, seed=n) for n, (name, offset) in enumerate({"a": 0, "b": 4000}.items())}
    for frame in nodes.values():
        frame["time_ms"] = frame["time_ms"] // 1000 * 1000
    found = clocks(nodes)
    assert found.resolution_ms == 1000
    assert abs(found.offsets["b"].ms - found.offsets["a"].ms) == pytest.approx(4000, abs=1000)


def test_launches_are_matched_by_their_number():
    twice = [
        pd.concat([node(offset, seed=s, steps=100), node(offset, seed=s + 9, steps=100, segment=1)])
        for s, offset in ((1, 0), (2, 50))
    ]
    found = clocks({"a": twice[0], "b": twice[1]})
    assert found.offsets["a"].steps == 200


@pytest.mark.parametrize(
    "nodes",
    [
        {},
        {"a": node(0)},
        {"a": node(0), "b": node(0).assign(step=lambda f: f["step"] + 5000)},
        {"a": node(0, steps=2), "b": node(0, steps=2)},
        {"a": node(0), "b": node(0).iloc[:0]},
    ],
)
def test_where_nothing_can_be_compared_nothing_is_said(nodes):
    assert clocks(nodes) is None


def test_few_steps_give_one_median():
    found = clocks({"a": node(0, steps=4, noise=0), "b": node(42, steps=4, noise=0)})
    assert found.offset_ms("b", START) - found.offset_ms("a", START) == 42
