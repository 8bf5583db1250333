"""A mean since the start of the epoch is recognised and undone; ordinary losses are left as they are."""

import numpy as np
import pandas as pd

from analysis.diagnose import diagnose
from analysis.running_mean import is_running_mean, undone
from analysis.segment import Segment
from analysis.simulate import simulate

EPOCHS, SIZE, EVERY = 8, 400, 10


def run(*, jump_at: int | None = None) -> tuple[Segment, np.ndarray]:
    rng = np.random.default_rng(4)
    steps = np.arange(EPOCHS * SIZE)
    single = np.exp(0.4 + 1.2 * np.exp(-steps / 600) + 0.1 * rng.standard_normal(len(steps)))
    if jump_at is not None:
        single[jump_at : jump_at + 60] *= 4
    within = steps % SIZE
    mean = np.cumsum(single.reshape(EPOCHS, SIZE), axis=1).ravel() / (within + 1)
    shown = within % EVERY == 0
    frame = {"line": steps[shown], "step": steps[shown], "step_printed": within[shown], "epoch": steps[shown] // SIZE}
    truth = np.array([single[max(s - EVERY + 1, s - s % SIZE) : s + 1].mean() for s in steps[shown]])
    return Segment(0, pd.DataFrame({**frame, "loss": mean[shown]})), truth


def test_the_values_behind_a_running_mean_come_back() -> None:
    segment, truth = run()
    assert is_running_mean(segment, "loss")
    np.testing.assert_allclose(undone(segment, "loss"), truth, rtol=1e-9)


def test_new_epochs_are_no_spikes_and_a_jump_late_in_an_epoch_is_one() -> None:
    assert [f.title.render() for f in diagnose([run()[0]]).findings if f.severity != "info"] == []
    jump = 6 * SIZE + 300
    found = [f for f in diagnose([run(jump_at=jump)[0]]).findings if f.severity != "info"]
    assert [f.kind for f in found] == ["spike"]
    assert abs((found[0].first_step or 0) - jump) <= EVERY


def test_an_ordinary_loss_with_epochs_is_left_alone() -> None:
    segment = simulate(rows=2000, seed=2).segment
    segment.rows["epoch"] = np.arange(2000) // 250
    assert not is_running_mean(segment, "loss")
    assert not is_running_mean(simulate(rows=2000, seed=2).segment, "loss")
