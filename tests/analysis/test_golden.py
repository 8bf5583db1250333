"""The golden library: features tell good runs from sick ones, differences are words, and what can't be compared says why."""

import numpy as np
import pandas as pd
import pytest

from analysis import simulate as lab
from analysis.golden import FEATURES, FEWEST_GOLDEN, POINTS, Case, Comparison, case_of, compare, distances
from analysis.segment import Segment
from messages import Text


def case(seed: int, fault: str | None = None, kind: str = "pretrain") -> Case:
    found = case_of(lab.simulate(rows=1500, seed=seed, fault=fault, kind=kind).segment, f"{seed}", kind=fault or "")
    assert isinstance(found, Case)
    return found


@pytest.fixture(scope="module")
def golden() -> list[Case]:
    return [case(seed) for seed in range(FEWEST_GOLDEN + 2)]


def test_a_good_run_is_like_the_golden_ones_and_a_sick_one_is_not(golden: list[Case]) -> None:
    good, sick = compare(case(90), golden), compare(case(90, "divergence"), golden, [case(91, "divergence"), case(92, "dip")])
    assert isinstance(good, Comparison)
    assert isinstance(sick, Comparison)
    assert sick.unlike
    assert sick.distance > 3 * good.distance
    assert good.score > sick.score
    assert sick.failures[0].case.kind == "divergence"


def test_the_three_largest_differences_are_told_in_words(golden: list[Case]) -> None:
    found = compare(case(90, "nan_to_end"), golden)
    assert isinstance(found, Comparison)
    assert "not_finite" in {each.name for each in found.differences}
    assert len(found.differences) == 3
    assert abs(found.differences[0].deviations) >= abs(found.differences[2].deviations)
    assert "12 golden runs" in found.differences[0].text(found.count).render()


def test_fewer_than_ten_golden_runs_of_the_kind_say_so(golden: list[Case]) -> None:
    few = compare(case(90), golden[: FEWEST_GOLDEN - 1])
    assert isinstance(few, Text)
    assert "9 golden runs" in few.render()
    other = compare(case(90, kind="fine_tune"), golden)
    assert isinstance(other, Text)
    assert "fine-tuning" in other.render()


def test_a_run_is_not_compared_with_itself(golden: list[Case]) -> None:
    own = [Case(one.title, one.profile, one.features, one.shape, run=str(n)) for n, one in enumerate(golden)]
    found = compare(own[0], own)
    assert isinstance(found, Comparison)
    assert found.count == len(own) - 1
    assert "0" not in {near.case.run for near in found.near}


def test_short_empty_and_odd_launches_are_no_error(golden: list[Case]) -> None:
    assert isinstance(case_of(Segment(0, pd.DataFrame()), "x"), Text)
    assert isinstance(case_of(lab.simulate(rows=40).segment, "x"), Text)
    for loss in (
        np.full(400, 2.0),
        np.r_[np.full(399, np.nan), 1.0],
        np.geomspace(1e300, 1e-300, 400),
        np.linspace(-1, 1, 400),
    ):
        frame = pd.DataFrame({"step": np.arange(400), "loss": loss, "grad_norm": 0.0, "lr": -1.0})
        found = case_of(Segment(0, frame), "x")
        if isinstance(found, Case):
            assert all(np.isfinite(value) for value in found.features.values())
            assert len(found.shape) == POINTS
            assert compare(found, golden) is not None


def test_a_case_comes_back_from_json_without_features_that_are_gone(golden: list[Case]) -> None:
    data = golden[0].to_dict()
    data["features"]["gone"] = 1.0
    again = Case.from_dict(data, simulated=True)
    assert set(again.features) <= set(FEATURES)
    assert again.simulated
    assert np.allclose(again.shape, golden[0].shape, atol=1e-3)


def test_what_another_run_does_not_know_is_as_usual_and_too_few_features_are_infinitely_far() -> None:
    some = np.array([[0.0] * 5 + [np.nan] * 5, [3.0] * 10])
    apart = distances(some, some)
    assert np.isinf(apart[0]).all()
    assert apart[1, 1] == 0
    assert apart[1, 0] == pytest.approx(3.0)
