"""The learning rate: what no schedule does, and what schedules do."""

import numpy as np
import pandas as pd

from analysis.findings import Finding
from analysis.rules import lr_anomaly
from analysis.segment import Segment


def found(lr: np.ndarray) -> list[Finding]:
    rows = np.arange(1, len(lr) + 1)
    return list(lr_anomaly.check(Segment(0, pd.DataFrame({"line": rows, "step": 10 * rows, "lr": lr}))))


def cosine(count: int = 600) -> np.ndarray:
    return 5e-4 * (0.55 + 0.45 * np.cos(np.pi * np.arange(count) / count))


def test_a_rate_that_falls_and_comes_back_is_said_once_it_is_back() -> None:
    lr = cosine()
    lr[200:300] /= 10
    (finding,) = found(lr)
    assert (finding.first_step, finding.last_step, finding.known_step) == (2010, 3000, 3010)
    assert "came back" in finding.title.render()
    assert found(lr[:300]) == []


def test_steps_of_a_schedule_warm_restarts_and_habits_raise_no_alarm() -> None:
    steps = np.repeat([5e-4, 5e-5, 5e-6], 200)
    restarts = np.tile(cosine(200) - 4.9e-5, 3)
    groups = np.tile([5e-4, 5e-5], 300)
    again = np.r_[cosine()[:300], 5e-4 * np.arange(1, 101) / 100, cosine()[300:]]
    for lr in (cosine(), steps, restarts, groups, again):
        assert found(lr) == []


def test_a_rate_that_stops_in_the_middle_of_its_fall_is_stuck_and_one_that_reached_its_floor_is_not() -> None:
    share = np.arange(1000) / 1000
    wave = 3e-4 * (1 + np.cos(np.pi * share)) / 2
    for at, there in ((400, 1), (600, 1), (850, 0)):
        stuck = np.where(np.arange(1000) > at, wave[at], wave)
        said = found(stuck)
        assert [finding.first_step for finding in said] == [10 * (at + 1)] * there
    floor = 3e-4 * (0.4 + 0.6 * (1 + np.cos(np.pi * np.minimum(2 * share, 1))) / 2)
    assert found(floor) == []
    line = 3e-4 * np.maximum(1 - 1.5 * share, 0.1)
    assert found(line) == []
    stable = 3e-4 * np.minimum(1, 5 * (1 - share))
    assert found(stable) == []
