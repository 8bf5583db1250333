"""Several processes side by side: the same data, or one that drifts away."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from analysis.causes.ranks import seeds
from analysis.diagnose import blind_spots
from analysis.findings import Severity
from analysis.ranks import ranks
from analysis.rules import rank_divergence, rank_duplicate
from analysis.segment import Segment, split_segments


def table(losses: np.ndarray) -> Segment:
    """Losses (steps, ranks), printed step by step, rank by rank."""
    steps, count = losses.shape
    rows = {
        "line": np.arange(1, losses.size + 1),
        "step": np.repeat(np.arange(1, steps + 1), count),
        "rank": pa.array(np.tile(np.arange(count), steps), pa.int32()),
        "loss": losses.reshape(-1),
    }
    (segment,) = split_segments(pa.table(rows))
    return segment


def own(steps: int = 400, count: int = 4, spread: float = 0.03) -> np.ndarray:
    course = np.linspace(4, 3, steps)[:, None]
    return np.round(course * np.exp(spread * np.random.default_rng(5).standard_normal((steps, count))), 4)


def test_the_losses_of_all_ranks_stand_side_by_side() -> None:
    losses = own(20)
    found = ranks(table(losses))
    assert found is not None
    assert np.array_equal(found.losses, losses)
    assert found.numbers.tolist() == [0, 1, 2, 3]
    assert len(table(losses)) == 20
    assert ranks(table(losses[:, :1])) is None


def test_a_step_that_a_rank_left_out_is_left_out() -> None:
    segment = table(own(20))
    frame = segment.ranks.drop(index=[6])
    found = ranks(replace(segment, ranks=frame))
    assert found is not None
    assert len(found.losses) == 19


def test_ranks_that_never_name_their_step_are_no_ranks() -> None:
    segment = table(own(20))
    assert ranks(replace(segment, ranks=segment.ranks.assign(step=float("nan")))) is None
    assert ranks(replace(segment, ranks=segment.ranks.iloc[:0])) is None


def test_without_ranks_it_is_not_assessable() -> None:
    plain = Segment(0, pd.DataFrame({"line": [1], "step": [1], "loss": [2.0]}))
    assert {item.rule: item.missing for item in blind_spots(plain)}["rank_duplicate"] == ("rank",)


def test_ranks_with_data_of_their_own_raise_no_alarm() -> None:
    for spread in (0.002, 0.03, 0.2):
        segment = table(own(spread=spread))
        assert list(rank_divergence.check(segment)) == []
        assert list(rank_duplicate.check(segment)) == []


def test_one_rank_that_drifts_away_is_named() -> None:
    losses = own(800)
    losses[400:, 2] *= 1 + np.minimum(np.arange(400) / 100, 1) * 0.2
    (finding,) = rank_divergence.check(table(losses))
    assert finding.severity is Severity.CRITICAL
    assert finding.title.values["rank"] == 2
    assert 400 <= (finding.first_step or 0) <= 460
    assert (finding.known_step or 0) <= 560


def test_a_rank_that_was_always_a_little_off_is_left_alone() -> None:
    losses = own(800)
    losses[:, 1] *= 1.05
    assert list(rank_divergence.check(table(losses))) == []


@pytest.mark.parametrize(("same", "found"), [(17, 0), (18, 1)])
def test_the_same_loss_in_18_of_20_steps(same: int, found: int) -> None:
    losses = own(200)
    losses[100 : 100 + same, 3] = losses[100 : 100 + same, 0]
    findings = list(rank_duplicate.check(table(losses)))
    assert len(findings) == found
    assert all(finding.first_step == 101 for finding in findings)


def test_two_of_four_ranks_with_the_same_data_are_named() -> None:
    losses = own()
    losses[:, 3] = losses[:, 1]
    (finding,) = rank_duplicate.check(table(losses))
    assert finding.title.values["ranks"] == "1, 3"
    assert finding.severity is Severity.CRITICAL


def test_all_ranks_alike_from_the_start_may_be_a_printed_mean() -> None:
    losses = np.repeat(own()[:, :1], 4, axis=1)
    (finding,) = rank_duplicate.check(table(losses))
    assert finding.severity is Severity.WARNING
    assert finding.causes[0].name == "averaged"


def test_a_constant_loss_tells_nothing() -> None:
    assert list(rank_duplicate.check(table(np.full((100, 4), 2.0)))) == []


def test_seeds_are_compared_where_the_configuration_names_them_by_rank() -> None:
    losses = own()
    losses[200:, 1] = losses[200:, 0]
    segment = replace(table(losses), config={"rank0.seed": 42, "rank1.seed": 42, "lr": 1e-4})
    assert seeds(segment) == {0: "42", 1: "42"}
    (finding,) = rank_duplicate.check(segment)
    assert finding.causes[0].name == "seed"
    (other,) = rank_duplicate.check(replace(segment, config={"rank0.seed": 42, "rank1.seed": 43}))
    assert "seed" not in other.causes[0].name
