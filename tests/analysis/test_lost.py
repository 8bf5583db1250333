"""From where on a loss is no number is one row for the rule, the ledger and the forecast: the first that is printed so."""

import numpy as np
import pandas as pd
import pytest

from analysis.diagnose import diagnose
from analysis.ledger import ledger
from analysis.lost import lost_row, of_no_use
from analysis.segment import Segment


def broken(loss: np.ndarray, **columns: np.ndarray) -> Segment:
    """Return a launch of a row every ten steps and seconds; a loss of zero stands for a row that prints none."""
    steps = 10 * (np.arange(len(loss)) + 1)
    rows = pd.DataFrame({"line": steps // 10, "step": steps, "loss": np.where(loss == 0, np.nan, loss), **columns})
    rows["elapsed_seconds"] = steps.astype(float)
    return Segment(0, rows, {"loss": loss == 0}, total_steps=4000)


def course(rows: int = 200) -> np.ndarray:
    return 2 + 3 * np.exp(-np.arange(rows) / 40)


@pytest.mark.parametrize("unprinted", [0, 1, 4])
def test_rows_without_a_loss_are_not_yet_bad(unprinted: int) -> None:
    loss = course()
    loss[118 - unprinted : 118] = 0
    loss[118:] = np.nan
    segment = broken(loss)
    diagnosis = diagnose([segment])
    (finding,) = [found for found in diagnosis.findings if found.kind == "non_finite"]
    assert finding.first_step == 1190
    assert lost_row(segment) == 118
    reason = of_no_use(segment, diagnosis.findings)
    assert reason is not None
    assert "1,190" in reason.render()
    known = ledger([segment], findings=diagnosis.findings)
    assert known is not None
    assert [item.step for item in known.items if item.name == "after_nan"] == [1190]


def test_a_loss_that_was_bad_before_tells_since_when_it_is_so_for_good() -> None:
    loss = course()
    loss[50:52] = np.nan
    loss[118:] = np.nan
    segment = broken(loss)
    title = next(f.title.render() for f in diagnose([segment]).findings if f.kind == "non_finite")
    assert title == "Loss is NaN or infinite since step 1,190, and was so before from step 510 on (rows: 84)"
    assert lost_row(segment) == 118


def test_rows_that_came_back_are_told_with_their_first_and_last() -> None:
    loss = course()
    loss[50:100:7] = np.nan
    segment = broken(loss)
    title = next(f.title.render() for f in diagnose([segment]).findings if f.kind == "non_finite")
    assert title == "Loss was NaN or infinite in 8 rows between step 510 and step 1,000, and came back"
    assert lost_row(segment) is None


def test_a_total_that_breaks_before_its_main_part_is_lost_from_there() -> None:
    total, main = course(), course()
    total[118:], main[120:] = np.nan, np.nan
    assert lost_row(broken(total, logits_loss=main)) == 118
