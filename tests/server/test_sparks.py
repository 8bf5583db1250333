"""A small curve shows what is bad: a single step, a tail, NaN; and never anything but numbers."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from server.sparks import drawn
from storage.keeping.spark import Spark


def spark(values: np.ndarray) -> np.ndarray:
    found = Spark.empty()
    found.add(values)
    return drawn(found.points)


def losses(steps: int = 20_000) -> np.ndarray:
    at = np.arange(steps)
    return 2 + 6 * np.exp(-at / 600) + 0.05 * np.sin(at * 1.7)


def test_a_healthy_curve_is_that_of_its_means():
    calm = spark(losses())
    assert len(calm) <= 64
    assert np.abs(np.diff(calm[len(calm) // 3 :])).max() < 0.05


@pytest.mark.parametrize("factor", [0.1, 10.0])
def test_one_bad_step_is_seen_and_flattens_nothing(factor):
    values = losses()
    values[12_345] *= factor
    curve, calm = spark(values), spark(losses())
    place = 12_345 * len(curve) // len(values)
    others = np.delete(curve, place)
    assert abs(curve[place] - calm[place]) > 0.3 * np.ptp(others)
    assert np.ptp(others) > 0.3 * np.ptp(curve)


def test_a_tail_that_is_worse_is_seen_beside_a_spike():
    values = losses()
    values[5_000] *= 100
    values[14_000:] += 1
    curve = spark(values)
    assert curve[-5:].mean() - curve[len(curve) // 2 : len(curve) * 2 // 3].mean() > 0.15 * np.ptp(curve)


def test_a_tail_of_nan_lies_at_the_upper_edge():
    values = losses()
    values[14_000:] = np.nan
    curve = spark(values)
    assert (curve[-10:] == curve.max()).all()
    assert curve[len(curve) // 2] < curve.max() - 0.5 * np.ptp(curve)


@given(st.lists(st.floats() | st.floats(1, 2), max_size=300))
@settings(deadline=None)
def test_a_cell_gets_numbers_only(values):
    curve = spark(np.array(values, float))
    assert np.isfinite(curve).all()
    assert len(curve) <= 64
