"""Reinforcement learning: a collapse is seen in what the policy does, never in the level of its loss."""

import numpy as np

from analysis.diagnose import diagnose
from analysis.registry import all_rules
from analysis.simulate import simulate_policy
from tests.analysis.losses_lab import alarms, found, run


def test_answers_must_shrink_to_a_fifth_for_three_rows() -> None:
    for share, rows, there in ((0.35, 40, 0), (0.1, 2, 0), (0.1, 40, 1)):
        segment = simulate_policy(rows=300, seed=1)
        segment.rows.loc[150 : 150 + rows - 1, "response_length"] *= share
        assert len(alarms("reward_collapse", segment)) == there, (share, rows)


def test_signs_that_come_together_are_one_collapse_known_at_the_first() -> None:
    (finding,) = found("reward_collapse", simulate_policy(rows=300, seed=1, collapses_at=100))
    assert str(finding.severity) == "critical"
    assert 100 <= (finding.known_step or 0) <= 115
    assert len(finding.evidence) >= 4


def test_a_reward_that_falls_back_is_a_warning() -> None:
    segment = simulate_policy(rows=300, seed=2)
    segment.rows.loc[200:, "reward"] -= 0.6
    (finding,) = alarms("reward_collapse", segment)
    assert abs((finding.first_step or 0) - 201) <= 3
    assert str(finding.severity) == "warning"


def test_a_rising_reward_with_shorter_answers_is_healthy() -> None:
    for seed in range(10):
        assert alarms("reward_collapse", simulate_policy(rows=400, seed=seed)) == []


def test_the_level_of_a_policy_loss_is_not_judged_and_that_is_said() -> None:
    segment = simulate_policy(rows=300, seed=3)
    segment.rows["loss"] = segment.rows["policy_loss"]
    segment.rows.loc[150, "loss"] = 50.0
    diagnosis = diagnose([segment])
    level = {rule.name for rule in all_rules() if rule.level}
    assert not level & {finding.kind for finding in diagnosis.findings}
    blind = {item.rule: item.text.render() for item in diagnosis.not_assessable}
    assert all("reinforcement-learning" in blind[name] for name in level)


def test_gaps_in_a_signal_do_not_hide_a_collapse() -> None:
    segment = simulate_policy(rows=300, seed=1, collapses_at=100)
    segment.rows.loc[np.arange(300) % 10 == 9, ["response_length", "reward"]] = np.nan
    assert len(alarms("reward_collapse", segment)) == 1


def test_a_kl_that_climbs_slowly_runs_away_all_the_same() -> None:
    rows = np.arange(1500)
    kl = np.abs(0.02 + 0.004 * np.random.default_rng(3).standard_normal(1500)) + 0.02 * np.expm1(
        np.clip(rows - 700, 0, 700) / 100
    )
    (finding,) = alarms("reward_collapse", run(loss=np.full(1500, 0.01), reward=np.full(1500, 0.5), kl=kl))
    assert finding.known_step is not None
    assert 1000 < finding.known_step < 1150
    assert alarms("reward_collapse", run(loss=np.full(1500, 0.01), kl=0.001 + 0.6 * rows / 1500)) == []
