"""Gradient norms: the fixed numbers of the articles, and what is ordinary in a run."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from analysis.diagnose import diagnose
from analysis.findings import Finding, Severity
from analysis.rules import grad_clipped, grad_creep, grad_explosion, grad_vanishing, grad_zero
from analysis.segment import Segment


def of(norm: object, count: int = 300, **columns: object) -> Segment:
    rows = np.arange(1, count + 1)
    return Segment(0, pd.DataFrame({"line": rows, "step": rows, "grad_norm": np.asarray(norm) * np.ones(count), **columns}))


def noisy(count: int = 300, spread: float = 0.1) -> np.ndarray:
    return 0.4 * np.exp(spread * np.random.default_rng(2).standard_normal(count))


def alarms(findings: list[Finding]) -> list[Finding]:
    return [finding for finding in findings if finding.severity is not Severity.INFO]


def by_articles(segment: Segment, kind: str) -> list[Finding]:
    return [finding for finding in diagnose([segment], profile="articles").findings if finding.kind == kind]


@pytest.mark.parametrize(("norm", "found"), [(5.0, 0), (5.01, 1), (4.9, 0), (30.0, 1)])
def test_articles_above_five_it_may_explode(norm: float, found: int) -> None:
    assert len(alarms(by_articles(of(norm), "grad_explosion"))) == found


@pytest.mark.parametrize(("norm", "found"), [(1.0, 0), (1.01, 1)])
def test_articles_above_one_the_batches_are_suspect(norm: float, found: int) -> None:
    notes = [f for f in by_articles(of(norm), "grad_explosion") if f.severity is Severity.INFO]
    assert len(notes) == found
    assert all("look at the data" in f.title.render() for f in notes)


def test_articles_the_mark_can_be_set() -> None:
    thresholds = {"grad_explosion": {"mark_above": 2.0}}
    found = diagnose([of(1.5)], profile="articles", thresholds=thresholds).findings
    assert not [f for f in found if f.kind == "grad_explosion"]


@pytest.mark.parametrize(("norm", "found"), [(0.01, 0), (0.0099, 1), (0.02, 0)])
def test_articles_below_a_hundredth_it_may_vanish(norm: float, found: int) -> None:
    assert len(by_articles(of(norm), "grad_vanishing")) == found


@pytest.mark.parametrize(("rows", "found"), [(9, 0), (10, 1)])
def test_articles_lasting_below_a_thousandth_asks_for_the_initialisation(rows: int, found: int) -> None:
    norm = np.full(300, 0.5)
    norm[100 : 100 + rows] = 0.0009
    titles = [f.title.render() for f in by_articles(of(norm), "grad_vanishing")]
    assert sum("xavier_uniform_" in title for title in titles) == found
    at_limit = np.where(norm < 0.01, 0.001, norm)
    assert not any("xavier" in f.title.render() for f in by_articles(of(at_limit), "grad_vanishing"))


def test_articles_a_fall_to_zero_asks_for_detach() -> None:
    norm = noisy()
    norm[150] = 0.0
    (finding,) = by_articles(of(norm), "grad_zero")
    assert any("detach()" in line.render() for line in finding.advice)


@pytest.mark.parametrize(("factor", "rows", "found"), [(30.0, 1, 1), (9.0, 1, 0), (6.0, 2, 1), (3.0, 2, 0)])
def test_robust_a_burst_is_relative_to_the_run(factor: float, rows: int, found: int) -> None:
    norm = noisy()
    norm[200 : 200 + rows] *= factor
    for scale in (1.0, 1e-4, 1e4):
        findings = list(grad_explosion.check(of(norm * scale)))
        assert len(findings) == found
        assert all(f.first_step == 201 for f in findings)


def test_a_burst_that_lasts_is_critical_and_one_that_is_over_is_not() -> None:
    norm = noisy()
    norm[200:] *= 40
    (lasting,) = grad_explosion.check(of(norm))
    assert (lasting.severity, lasting.last_step) == (Severity.CRITICAL, None)
    norm[210:] /= 40
    (over,) = grad_explosion.check(of(norm))
    assert (over.severity, over.last_step) == (Severity.WARNING, 210)


def test_heavy_tails_of_a_run_are_its_own() -> None:
    norm = 0.4 * np.exp(0.5 * np.random.default_rng(3).standard_t(4, 4000))
    assert alarms(list(grad_explosion.check(of(norm, 4000)))) == []


def test_a_learning_rate_that_jumped_before_a_burst_is_its_cause() -> None:
    norm, lr = noisy(), np.full(300, 1e-4)
    norm[200:205] *= 40
    lr[199:] *= 10
    (finding,) = grad_explosion.check(of(norm, lr=lr))
    assert finding.causes[0].name == "learning_rate"


def test_zero_counts_after_ordinary_values_only() -> None:
    norm = noisy()
    norm[200:] = 0
    (finding,) = grad_zero.check(of(norm))
    assert (finding.first_step, finding.known_step, finding.severity) == (201, 203, Severity.CRITICAL)
    norm[205:] = 0.4
    (over,) = grad_zero.check(of(norm))
    assert (over.last_step, over.severity) == (205, Severity.WARNING)
    assert list(grad_zero.check(of(0.0))) == []
    norm[203:] = 0.4
    norm[200:202] = 0
    assert list(grad_zero.check(of(norm))) == [] or norm[202] == 0


def test_a_small_value_printed_as_zero_is_not_zero() -> None:
    norm = np.round(np.where(np.arange(300) < 200, 0.03, 0.004), 2)
    assert list(grad_zero.check(of(norm))) == []


def test_vanishing_gradients_are_found_unless_the_loss_explains_them() -> None:
    norm = noisy(600)
    norm[300:] *= 0.003
    (finding,) = grad_vanishing.check(of(norm, 600, loss=np.full(600, 3.0)))
    assert abs((finding.first_step or 0) - 301) <= 5
    assert (finding.known_step or 0) <= 330
    learned = np.where(np.arange(600) < 300, 3.0, 0.01)
    assert list(grad_vanishing.check(of(norm, 600, loss=learned))) == []


def test_norms_that_fall_as_a_run_learns_do_not_vanish() -> None:
    steps = np.arange(1, 5001)
    norm = 15 / (1 + steps / 20) ** 0.8 + 0.2
    assert list(grad_vanishing.check(of(norm, 5000))) == []
    assert list(grad_creep.check(of(norm, 5000))) == []


def test_a_collapsed_policy_is_the_cause_where_its_entropy_tells() -> None:
    norm, entropy = noisy(600), np.full(600, 0.3)
    norm[300:] *= 1e-3
    entropy[300:] = 0.001
    (finding,) = grad_vanishing.check(of(norm, 600, entropy=entropy))
    assert finding.causes[0].name == "collapse"


def test_creeping_gradients_are_an_alarm_unless_the_rate_has_decayed() -> None:
    norm = noisy(3000, 0.05) * np.exp(np.linspace(0, 2, 3000))
    (finding,) = grad_creep.check(of(norm, 3000, lr=np.full(3000, 1e-4)))
    assert finding.severity is Severity.WARNING
    decayed = np.where(np.arange(3000) < 700, 1e-4, 1e-6)
    (noted,) = grad_creep.check(of(norm, 3000, lr=decayed))
    assert noted.severity is Severity.INFO
    doubled = noisy(3000, 0.05) * np.exp(np.linspace(0, 0.7, 3000))
    assert list(grad_creep.check(of(doubled, 3000))) == []


def test_clipping_is_noted_by_the_declared_limit_or_where_norms_stop() -> None:
    norm = noisy(600)
    norm[300::10] = 1.5
    run = replace(of(norm, 600), config={"training.max_grad_norm": "1.0"})
    (finding,) = grad_clipped.check(run)
    assert finding.severity is Severity.INFO
    assert finding.title.values["limit"] == 1.0
    assert list(grad_clipped.check(replace(run, config={"max_grad_norm": "2.0"}))) == []
    (pinned,) = grad_clipped.check(of(np.minimum(norm, 1.0), 600))
    assert pinned.title.values["limit"] == 1.0
    assert list(grad_clipped.check(of(noisy(600), 600))) == []
    assert list(grad_clipped.check(of(1.0, 600))) == []


def test_a_burst_is_told_by_its_peak() -> None:
    norm = 0.5 * np.exp(0.05 * np.random.default_rng(1).standard_normal(600))
    norm[400:406] = [8.0, 20.0, 60.0, 30.0, 12.0, 6.0]
    segment = Segment(0, pd.DataFrame({"line": np.arange(600) + 1, "step": np.arange(600) + 1, "grad_norm": norm}))
    (finding,) = [found for found in diagnose([segment]).findings if found.kind == "grad_explosion"]
    assert "from step 401 on to 60 at step 403" in finding.title.render()
    highest = next(item for item in finding.evidence if item.label.render() == "highest gradient norm")
    assert (highest.step, highest.value) == (403, pytest.approx(60))


def test_a_norm_that_climbs_row_by_row_explodes_although_no_row_stands_out() -> None:
    noise = np.exp(0.15 * np.random.default_rng(4).standard_normal(900))
    climb = np.minimum(np.exp(np.maximum(np.arange(900) - 500, 0) / 15), 400)
    (finding,) = alarms(list(grad_explosion.check(of(0.5 * noise * climb, 900))))
    assert str(finding.severity) == "critical"
    assert finding.known_step is not None
    assert 500 < finding.known_step < 580
    assert alarms(list(grad_explosion.check(of(0.5 * noise * climb**0.2, 900)))) == []


def test_norms_fall_by_themselves_while_the_rate_warms_up() -> None:
    rows = np.arange(1200)
    norm = (0.3 + 20 * np.exp(-rows / 40)) * np.exp(0.1 * np.random.default_rng(5).standard_normal(1200))
    lr = 6e-4 * np.minimum((rows + 1) / 200, 1)
    assert alarms(list(grad_vanishing.check(of(norm, 1200, lr=lr)))) == []
    assert alarms(list(grad_vanishing.check(of(norm, 1200))))
