"""What a clue sees in the rows around a finding."""

import numpy as np
import pandas as pd
import pytest

from analysis.clues import scale_fell
from analysis.segment import Segment


def run(scale) -> Segment:
    steps = np.arange(1, 101)
    return Segment(0, pd.DataFrame({"step": steps, "loss": 2.0, "loss_scale": np.broadcast_to(scale, 100).astype(float)}))


@pytest.mark.parametrize("placeholder", [-1.0, 0.0])
def test_a_loss_scale_that_stands_for_none_is_no_clue(placeholder):
    assert scale_fell(run(placeholder), 50, 50) is None


def test_a_loss_scale_that_fell_is_one():
    seen = scale_fell(run(np.where(np.arange(100) < 45, 65536, 1024)), 50, 50)
    assert seen is not None
    assert seen.holds
