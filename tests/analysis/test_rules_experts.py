"""Parts of the loss and experts: within the rounding and beyond it, declared and not."""

from dataclasses import replace

import numpy as np
import pytest

from analysis.segment import Segment
from analysis.simulate import simulate
from tests.analysis.losses_lab import alarms, found, run


def parts(rows: int = 400, *, gap: float = 0.0, weight: float = 1.0) -> Segment:
    rng = np.random.default_rng(2)
    main = np.round(3 + 2 * np.exp(-np.arange(rows) / 100) + 0.05 * rng.standard_normal(rows), 4)
    aux = np.round(0.02 + 0.001 * rng.standard_normal(rows), 4)
    total = np.round(main + weight * aux + np.where(np.arange(rows) >= 200, gap, 0.0), 4)
    return run(loss=total, logits_loss=main, aux_loss=aux)


def test_parts_that_differ_by_their_rounding_are_right_and_by_more_are_not() -> None:
    assert found("decomposition", parts()) == []
    (finding,) = alarms("decomposition", parts(gap=0.004))
    assert (finding.first_step, finding.known_step) == (201, 203)
    assert finding.evidence[0].value == pytest.approx(0.004, abs=0.0003)


def test_three_of_five_rows_must_differ() -> None:
    for count, there in ((2, 0), (3, 1)):
        segment = parts()
        segment.rows.loc[250 : 250 + count - 1, "loss"] += 0.05
        assert len(alarms("decomposition", segment)) == there, count


def test_a_constant_weight_of_the_auxiliary_loss_is_said_and_is_no_fault() -> None:
    said = found("decomposition", parts(weight=0.01))
    assert [str(finding.severity) for finding in said] == ["info"]
    assert said[0].title.values["weight"] == pytest.approx(0.01, abs=0.005)


def test_declared_dense_is_an_error_undeclared_is_a_question_declared_routed_is_right() -> None:
    base = simulate(rows=300, seed=6, kind="moe").segment
    for config, severities in (({"use_moe": False}, ["critical"]), ({}, ["info"]), ({"model/num_experts": 8}, [])):
        segment = replace(base, config=config)
        assert [str(finding.severity) for finding in found("dense_aux", segment)] == severities


def test_ten_rows_with_an_auxiliary_loss_are_needed() -> None:
    for rows, there in ((9, 0), (10, 1)):
        aux = np.where(np.arange(100) < rows, 0.01, 0.0)
        segment = run(config={"use_moe": "false"}, loss=np.linspace(4, 3, 100) + aux, aux_loss=aux)
        assert len(found("dense_aux", segment)) == there, rows


def test_an_auxiliary_loss_must_rise_by_two_fifths_over_its_best() -> None:
    for factor, there in ((1.25, 0), (1.7, 1)):
        segment = simulate(rows=2000, seed=7, kind="moe").segment
        segment.rows.loc[1200:, "aux_loss"] *= factor
        assert len(alarms("aux_imbalance", segment)) == there, factor


def test_a_share_that_grows_because_the_main_loss_falls_is_healthy() -> None:
    segment = simulate(rows=3000, seed=8, kind="moe").segment
    assert alarms("aux_share", segment) == []
    stands = simulate(rows=3000, seed=8, kind="moe", fault="plateau").segment
    stands.rows.loc[1500:, "aux_loss"] *= 4
    stands.rows["loss"] = stands.rows["logits_loss"] + stands.rows["aux_loss"]
    assert len(alarms("aux_share", stands)) == 1


def test_a_total_that_fluctuates_with_the_auxiliary_loss_only_is_noted() -> None:
    rng = np.random.default_rng(9)
    main = 3 + 0.002 * rng.standard_normal(600)
    aux = np.abs(0.1 + 0.03 * rng.standard_normal(600))
    said = found("aux_share", run(loss=main + aux, logits_loss=main, aux_loss=aux))
    assert [str(finding.severity) for finding in said] == ["info"]
