"""Idle, full, leaking and hot GPUs: the fixed numbers of the articles, and what the robust rules leave alone."""

from collections.abc import Callable, Iterator
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from analysis.diagnose import blind_spots, diagnose
from analysis.findings import Finding, Severity
from analysis.rules import memory_leak, memory_near_limit, temperature_high, utilisation_low
from analysis.segment import Segment
from analysis.simulate_hardware import simulate

GB = 2**30
Check = Callable[[Segment], Iterator[Finding]]


def of(count: int = 60, **columns: object) -> Segment:
    rows = np.arange(1, count + 1)
    return Segment(0, pd.DataFrame({"line": rows, "step": rows * 10, **columns}))


def memory(used: object, total: float = 40.0, count: int = 60) -> Segment:
    return of(count, memory_bytes=np.asarray(used) * GB * np.ones(count), memory_total_bytes=np.full(count, total * GB))


def util(percent: object, count: int = 60) -> Segment:
    return of(count, gpu_utilization_percent=np.asarray(percent) * np.ones(count))


def heat(celsius: object, count: int = 60) -> Segment:
    return of(count, gpu_temperature_celsius=np.asarray(celsius) * np.ones(count))


@pytest.mark.parametrize(
    ("percent", "words"),
    [
        (85.0, None),
        (70.0, None),
        (69.9, "to be watched"),
        (50.0, "to be watched"),
        (49.9, "num_workers"),
        (30.0, "num_workers"),
        (29.9, "pin_memory"),
        (0.0, "pin_memory"),
    ],
)
def test_articles_bands_of_utilisation(percent: float, words: str | None) -> None:
    findings = list(utilisation_low.check_articles(util(percent)))
    assert [words in f.title.render() for f in findings] == ([True] if words else [])
    assert [f.severity for f in findings] == ([Severity.WARNING] if words else [])


def test_articles_every_band_is_told_once_with_its_count() -> None:
    percent = np.full(60, 90.0)
    percent[[10, 20, 30]] = [60, 40, 20]
    findings = list(utilisation_low.check_articles(util(percent)))
    assert sorted((f.title.values["limit"], f.title.values["count"], f.first_step) for f in findings) == [
        (30.0, 1, 310),
        (50.0, 1, 210),
        (70.0, 1, 110),
    ]


@pytest.mark.parametrize(("used", "alarms"), [(36.0, 0), (36.01, 1), (35.9, 0), (40.0, 1)])
def test_articles_36_of_40_gigabytes_are_still_good(used: float, alarms: int) -> None:
    findings = list(memory_near_limit.check_articles(memory(used)))
    assert len(findings) == alarms
    for finding in findings:
        advice = [line.render() for line in finding.advice]
        assert [i for word in ("batch", "Mixed", "LoRA", "cache") for i, line in enumerate(advice) if word in line][:4] == [
            0,
            1,
            2,
            3,
        ][:4] or advice[0].startswith("Smaller batch")
    assert len([f for f in diagnose([memory(used)], profile="articles").findings if f.kind == "memory_near_limit"]) == alarms


@pytest.mark.parametrize(("celsius", "alarms"), [(85.0, 0), (85.1, 1), (86.0, 1), (80.0, 0)])
def test_articles_85_degrees_are_still_good(celsius: float, alarms: int) -> None:
    assert len(list(temperature_high.check_articles(heat(celsius)))) == alarms
    assert len([f for f in diagnose([heat(celsius)], profile="articles").findings if f.kind == "temperature_high"]) == alarms


def test_advice_for_full_memory_is_in_order() -> None:
    (finding,) = memory_near_limit.check(memory(38.0))
    advice = [line.render() for line in finding.advice[:5]]
    for line, word in zip(advice, ("Smaller batch", "Mixed precision", "LoRA", "cached", "max_seq_len"), strict=True):
        assert word in line


@pytest.mark.parametrize(
    ("check", "segment", "alarms"),
    [
        (utilisation_low.check, util(61.0), 0),
        (utilisation_low.check, util(55.0), 1),
        (utilisation_low.check, util(np.r_[np.full(40, 98.0), np.full(40, 70.0)], 80), 1),
        (utilisation_low.check, util(np.r_[np.full(40, 98.0), np.full(40, 76.0)], 80), 0),
        (utilisation_low.check, util(np.where(np.arange(200) % 10 < 3, 5.0, 97.0), 200), 0),
        (memory_near_limit.check, memory(36.0), 0),
        (memory_near_limit.check, memory(36.2), 1),
        (memory_near_limit.check, memory(np.where(np.arange(60) % 10 < 8, 38.0, 30.0)), 0),
        (temperature_high.check, heat(84.9), 0),
        (temperature_high.check, heat(85.0), 1),
        (temperature_high.check, heat(np.where(np.arange(60) % 4 == 0, 80.0, 90.0)), 0),
    ],
)
def test_robust_rules_ask_for_most_of_the_readings(check: Check, segment: Segment, alarms: int) -> None:
    assert len([f for f in check(segment) if f.severity is not Severity.INFO]) == alarms


def test_full_but_steady_memory_is_a_warning_and_full_and_growing_memory_is_critical() -> None:
    (steady,) = memory_near_limit.check(memory(39.0))
    assert steady.severity is Severity.WARNING
    (grown,) = memory_near_limit.check(memory(np.r_[np.full(30, 30.0), np.full(60, 39.0)], count=90))
    assert grown.severity is Severity.CRITICAL
    (passed,) = memory_near_limit.check(memory(np.r_[np.full(40, 39.0), np.full(60, 30.0)], count=100))
    assert passed.last_step is not None


def test_without_the_installed_memory_it_is_not_assessable() -> None:
    segment = of(memory_bytes=np.full(60, 39.0 * GB), loss=np.linspace(3, 2, 60))
    blind = {item.rule: item.missing for item in blind_spots(segment)}
    assert blind["memory_near_limit"] == ("memory_total_bytes",)
    assert blind["utilisation_low"] == ("gpu_utilization_percent",)


def test_a_leak_says_when_memory_is_full() -> None:
    used = 20 + 0.02 * np.arange(600) + 0.05 * np.random.default_rng(1).standard_normal(600)
    segment = replace(memory(used, 40.0, 600), total_steps=20_000)
    (finding,) = memory_leak.check(segment)
    assert finding.title.values["full"].values["number"] == pytest.approx(10_000, rel=0.05)  # 20 + 0.002 a step = 40
    assert finding.causes[0].name == "leak"
    settled = memory(30 - 10 * np.exp(-np.arange(600) / 60), 40.0, 600)
    assert list(memory_leak.check(settled)) == []


def test_a_short_log_whose_memory_grows_evenly_from_the_start_leaks_and_a_filling_cache_does_not() -> None:
    (found,) = memory_leak.check(memory(np.linspace(20, 38, 260), 40.0, 260))
    assert found.first_step is not None
    assert found.first_step < 20
    assert list(memory_leak.check(memory(36 - 14 * np.exp(-np.arange(260) / 90), 40.0, 260))) == []


def test_a_leak_is_found_where_the_installed_memory_is_not_known() -> None:
    used = (20 + 0.02 * np.arange(600)) * GB
    (finding,) = memory_leak.check(of(600, memory_bytes=used))
    assert "full" not in finding.title.values


def test_the_highest_memory_so_far_is_no_leak() -> None:
    segment = of(600, memory_peak_bytes=np.linspace(20, 30, 600) * GB)
    assert memory_leak.NEEDS == ("memory_bytes",)
    assert [f.kind for f in diagnose([segment]).findings] == []


def test_heat_that_slows_the_steps_is_critical() -> None:
    run = simulate(rows=900, seed=5, fault="throttling").segment
    (finding,) = (f for f in temperature_high.check(run) if f.last_step is None)
    assert finding.severity is Severity.CRITICAL
    assert "steps take" in finding.title.render()


def test_readings_beside_the_training_rows_get_its_steps() -> None:
    rows = np.arange(1, 301)
    train = pd.DataFrame({"line": rows * 2, "step": rows, "loss": np.linspace(4, 3, 300)})
    beside = pd.DataFrame({"line": rows * 2 + 1, "step": rows, "gpu_utilization_percent": np.where(rows < 200, 95.0, 40.0)})
    (finding,) = utilisation_low.check(Segment(0, train, telemetry=beside))
    assert abs((finding.first_step or 0) - 200) <= 5
    assert diagnose([Segment(0, train, telemetry=beside)]).verdict == "watch"


def test_a_log_of_readings_alone_is_judged() -> None:
    beside = pd.DataFrame({"line": np.arange(1, 101), "gpu_utilization_percent": np.r_[np.zeros(50), np.full(50, 12.0)]})
    diagnosis = diagnose([Segment(0, pd.DataFrame(), telemetry=beside)])
    assert diagnosis.verdict == "watch"
    assert [f.kind for f in diagnosis.findings] == ["utilisation_low"]
    fine = replace(Segment(0, pd.DataFrame()), telemetry=beside.assign(gpu_utilization_percent=95.0))
    assert "Only readings" in diagnose([fine]).sentence.render()


def test_each_gpu_is_read_by_itself() -> None:
    rows = np.arange(1, 401)
    both = pd.DataFrame({"line": rows, "index": rows % 2, "gpu_temperature_celsius": np.where(rows % 2, 92.0, 60.0)})
    (finding,) = temperature_high.check(Segment(0, pd.DataFrame(), telemetry=both))
    assert [item.value for item in finding.evidence if item.label.template == "GPU"] == [1]


def test_a_share_between_0_and_1_is_read_as_one() -> None:
    assert list(utilisation_low.check(util(0.93))) == []
    assert len(list(utilisation_low.check(util(0.35)))) == 1
