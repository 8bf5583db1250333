"""A sentence calls a place by what the log numbers: a step, else an epoch where each row is one, else a row."""

import numpy as np
import pyarrow as pa
import pytest

from analysis.diagnose import diagnose
from analysis.evidence import at_step, where
from analysis.findings import Severity
from analysis.segment import Segment, split_segments


def launch(*, printed: bool, epoch: np.ndarray | None) -> Segment:
    """Return a launch of 60 rows that jumps at the 40th and stays there for ten."""
    at = np.arange(60)
    loss = (2 + np.exp(-at / 10)) * np.exp(0.005 * np.random.default_rng(1).standard_normal(60))
    loss[39:49] *= 2
    steps = pa.array(at + 1, pa.int64())
    columns = {"line": steps, "step": steps, "step_printed": steps if printed else pa.nulls(60, pa.int64()), "loss": loss}
    (segment,) = split_segments(pa.table(columns if epoch is None else {**columns, "epoch": epoch}))
    return segment


@pytest.mark.parametrize(
    ("printed", "epoch", "unit", "words"),
    [
        (True, np.arange(60) + 1.0, "step", "step 40"),
        (False, np.arange(60) + 3.0, "epoch", "epoch 42"),
        (False, (np.arange(60) // 10) + 1.0, "row", "row 40"),
        (False, np.arange(60) / 20, "row", "row 40"),
        (False, None, "row", "row 40"),
    ],
)
def test_a_place_is_called_what_the_log_numbers(printed: bool, epoch: np.ndarray | None, unit: str, words: str) -> None:
    segment = launch(printed=printed, epoch=epoch)
    assert segment.unit == unit
    assert where(segment, 39).render() == at_step(segment, 40).render() == words
    diagnosis = diagnose([segment])
    titles = [finding.title.render() for finding in diagnosis.findings if finding.severity is not Severity.INFO]
    assert titles
    assert all(words in title for title in titles)
    if unit != "step":
        assert not any(" step " in text for text in [*titles, diagnosis.sentence.render()])


def test_a_rate_per_1000_steps_is_only_told_where_there_are_steps() -> None:
    at = np.arange(2000)
    loss = 9 * (at + 1.0) ** -0.2
    columns = {"step": pa.array(at + 1), "step_printed": pa.nulls(2000, pa.int64()), "loss": loss}
    assert "per 1,000 steps" not in diagnose(split_segments(pa.table(columns))).sentence.render()


@pytest.mark.parametrize("epoch", [np.inf, -np.inf, np.nan, 1e300])
def test_an_absurd_epoch_names_no_place(epoch: float) -> None:
    (segment,) = split_segments(pa.table({"epoch": [epoch], "loss": [2.0]}))
    assert where(segment, 0).render() == "row 1"


def test_the_head_of_a_launch_keeps_its_unit() -> None:
    assert launch(printed=False, epoch=None).head(10).unit == "row"
