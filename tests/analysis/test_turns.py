"""How clearly a course turned upwards: a slope is told from a step and from a level course, in units of the values."""

import numpy as np
import pytest

from analysis.turns import sloping, stepping

AT = np.arange(16)


@pytest.mark.parametrize("start", [0, 6, 12])
def test_a_slope_is_explained_by_a_slope_wherever_it_begins(start: int) -> None:
    slope = np.maximum(AT - start, 0.0)[None]
    spread = np.sqrt(slope.var() * 16)
    assert sloping(slope)[0] == pytest.approx(spread)
    assert stepping(slope)[0] < 0.98 * spread


@pytest.mark.parametrize("share", [0.25, 1.0])
def test_a_step_is_explained_by_a_step_even_within_a_block(share: float) -> None:
    step = ((AT > 7) + share * (AT == 7))[None]
    spread = np.sqrt(step.var() * 16)
    assert stepping(step)[0] == pytest.approx(spread)
    assert sloping(step)[0] < 0.98 * spread


def test_what_falls_or_stands_still_is_no_turn() -> None:
    for course in (np.full((1, 16), 2.0), -AT[None] * 1.0):
        assert sloping(course)[0] == pytest.approx(0.0)
        assert stepping(course)[0] == pytest.approx(0.0)


def test_a_slope_of_noise_is_as_large_as_the_noise() -> None:
    noise = np.random.default_rng(1).normal(0, 0.01, (1000, 16))
    assert np.quantile(sloping(noise), 0.99) < 4 * 0.01
