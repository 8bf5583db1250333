"""Slow, unsteady, pausing and silent runs, and restarts: where each rule begins and what it leaves alone."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from analysis.diagnose import diagnose
from analysis.findings import Finding, Severity
from analysis.ledger import ledger
from analysis.rules import hang, periodic_pause, restart, slowdown, step_time_jitter, step_time_spike
from analysis.segment import EVENT_COLUMNS, Segment
from analysis.simulate_hardware import simulate

START = np.datetime64("2026-02-03T04:05:06", "ms")


def of(seconds: np.ndarray, *, every: int = 1, **columns: object) -> Segment:
    rows = np.arange(1, len(seconds) + 1)
    return Segment(0, pd.DataFrame({"line": rows, "step": rows * every, "step_time_seconds": seconds, **columns}))


def noisy(count: int, *, spread: float = 0.02, seed: int = 1, usual: float = 0.8) -> np.ndarray:
    return usual * np.exp(spread * np.random.default_rng(seed).standard_normal(count))


def stamped(seconds: np.ndarray, **columns: object) -> Segment:
    """A run whose lines carry the clock: seconds before each line (n,)."""
    rows = np.arange(1, len(seconds) + 1)
    clock = START + np.cumsum(1000 * seconds).astype("timedelta64[ms]")
    return Segment(0, pd.DataFrame({"line": rows, "step": rows, "timestamp": clock, **columns}))


def said(*events: tuple[int, str]) -> pd.DataFrame:
    return pd.DataFrame([[line, None, kind, kind, {}] for line, kind in events], columns=[*EVENT_COLUMNS[:4], "data"][:5])


def titles(findings: list[Finding]) -> list[str]:
    return [finding.title.render() for finding in findings]


# slowdown


@pytest.mark.parametrize("spread", [0.002, 0.02, 0.03])
def test_a_tenth_slower_is_known_within_60_rows(spread: float) -> None:
    seconds = noisy(1000, spread=spread)
    seconds[600:] *= 1.1
    (finding,) = slowdown.check(of(seconds))
    assert finding.known_step is not None
    assert 601 <= finding.known_step <= 660
    assert abs((finding.first_step or 0) - 601) <= 10
    assert finding.last_step is None
    assert titles([finding])[0].startswith("Steps take 1.1× as long since step")


def test_a_little_slower_is_within_what_may_happen() -> None:
    seconds = noisy(1000)
    seconds[600:] *= 1.04
    assert list(slowdown.check(of(seconds))) == []


def test_a_slow_stretch_has_an_end() -> None:
    seconds = noisy(1200)
    seconds[600:800] *= 1.5
    (finding,) = slowdown.check(of(seconds))
    assert abs((finding.last_step or 0) - 800) <= 25


def test_a_larger_batch_is_not_slower() -> None:
    batch = np.where(np.arange(1000) < 500, 32.0, 64.0)
    assert list(slowdown.check(of(noisy(1000) * batch / 32, batch_size=batch))) == []


def test_longer_steps_at_the_same_throughput_do_more_work() -> None:
    seconds = noisy(1000)
    seconds[600:] *= 1.5
    tokens = np.where(np.arange(1000) < 600, 1.0, 1.5) / seconds
    assert list(slowdown.check(of(seconds, tokens_per_second=tokens))) == []
    (finding,) = slowdown.check(of(seconds, tokens_per_second=1 / seconds))
    assert finding.kind == "slowdown"


def test_falling_throughput_is_the_same_seen_from_the_other_side() -> None:
    rate = 1 / noisy(1000)
    rate[600:] /= 1.2
    rows = np.arange(1, 1001)
    (finding,) = slowdown.check(Segment(0, pd.DataFrame({"line": rows, "step": rows, "tokens_per_second": rate})))
    assert abs((finding.first_step or 0) - 601) <= 10


def test_time_doubled_where_lines_are_missing_is_no_alarm() -> None:
    seconds, steps = noisy(300, usual=130.0), np.arange(1, 301) * 250
    for row in (40, 90, 91, 200, 260):
        seconds[row] *= 2
        steps[row:] += 250
    rows = pd.DataFrame({"line": np.arange(300), "step": steps, "time": seconds})
    segment = Segment(0, rows)
    for rule in (slowdown, step_time_spike, step_time_jitter, periodic_pause):
        assert list(rule.check(segment)) == []


def test_waiting_for_data_that_doubles_is_found_before_the_step_shows_it() -> None:
    seconds, waiting = noisy(800), noisy(800, usual=0.05, seed=2)
    waiting[500:] *= 3
    (finding,) = slowdown.check(of(seconds, data_time_seconds=waiting))
    assert titles([finding])[0].startswith("Waiting for data takes")
    assert finding.causes[0].name == "loader"


def test_what_is_not_printed_is_said_to_be_not_observable() -> None:
    seconds = noisy(1000)
    seconds[600:] *= 1.3
    (finding,) = slowdown.check(of(seconds))
    causes = {cause.name: cause for cause in finding.causes}
    assert causes["loader"].unobservable == ("data_time_seconds", "gpu_utilization_percent")
    assert causes["throttling"].unobservable == ("gpu_temperature_celsius", "gpu_power_watts")


# jitter, spikes, rhythm


def test_unsteady_steps_are_found_and_a_new_level_is_not_unsteady() -> None:
    seconds = noisy(1000)
    seconds[600:] *= np.exp(0.25 * np.random.default_rng(3).standard_normal(400))
    (finding,) = step_time_jitter.check(of(seconds))
    assert finding.known_step is not None
    assert finding.known_step - 601 <= 60
    level = noisy(1000)
    level[600:] *= 3
    assert list(step_time_jitter.check(of(level))) == []


def test_a_step_of_more_than_four_times_is_noted_and_less_is_not() -> None:
    seconds = np.tile([0.79, 0.8, 0.81, 0.8], 100)
    seconds[200], seconds[300] = 3.1, 3.5
    (finding,) = step_time_spike.check(of(seconds))
    assert (finding.first_step, finding.severity) == (301, Severity.INFO)


def test_pauses_at_a_fixed_distance_are_a_rhythm_and_no_spikes_from_then_on() -> None:
    seconds = noisy(1000)
    seconds[49::50] += 12
    (rhythm,) = periodic_pause.check(of(seconds, every=10))
    assert rhythm.title.values["every"] == 500
    assert rhythm.known_step == 2500
    assert rhythm.last_step is None
    assert {finding.first_step for finding in step_time_spike.check(of(seconds, every=10))} <= {500, 1000, 1500, 2000, 2500}
    assert list(slowdown.check(of(seconds, every=10))) == []


@pytest.mark.parametrize("every", [1, 10])
def test_the_share_of_pauses_is_that_of_the_ledger_however_few_steps_are_printed(every: int) -> None:
    seconds = noisy(1000)
    seconds[49::50] += 12
    run = of(seconds, every=every)
    (rhythm,) = periodic_pause.check(run)
    book = ledger([run])
    assert book is not None
    assert rhythm.title.values["share"] == pytest.approx(book.part("pauses") / book.seconds)
    assert rhythm.title.values["share"] == pytest.approx(12 * 20 / (0.8 * 1000 * every + 12 * 20), rel=0.05)
    assert rhythm.title.values["ratio"] == pytest.approx(15, rel=0.05)


def test_a_pause_between_rows_that_carry_a_clock_lasts_as_many_steps_as_it_takes() -> None:
    seconds = noisy(600, usual=8.0)
    seconds[49::50] += 12
    run = stamped(seconds)
    (rhythm,) = periodic_pause.check(replace(run, rows=run.rows.assign(step=run.rows["step"] * 10), absent={}))
    assert rhythm.title.values["ratio"] == pytest.approx(15, rel=0.05)


def test_what_pauses_cost_is_not_told_without_a_clock() -> None:
    seconds = noisy(1000)
    seconds[49::50] += 12
    rows = np.arange(1, 1001)
    (rhythm,) = periodic_pause.check(
        Segment(0, pd.DataFrame({"line": rows, "step": rows * 10, "tokens_per_second": 1 / seconds}))
    )
    assert titles([rhythm]) == ["Every 500 steps a pause of 15 step times"]
    assert len(rhythm.evidence) == 3


def test_two_rhythms_are_told_apart() -> None:
    seconds = noisy(3000)
    seconds[69::70] += 5
    seconds[199::200] += 30
    every = [finding.title.values["every"] for finding in periodic_pause.check(of(seconds))]
    assert every == [70, 200]


def test_an_evaluation_or_a_checkpoint_in_the_text_explains_a_pause() -> None:
    seconds = noisy(400)
    seconds[[150, 250]] += 9
    lines = np.arange(1, 401) * 3
    evals = pd.DataFrame({"line": [lines[150] - 1], "step": [150], "eval_loss": [2.0]})
    segment = of(seconds).rows.assign(line=lines)
    events = said((int(lines[250]) - 1, "checkpoint_saved"))
    assert list(step_time_spike.check(Segment(0, segment, evals=evals, events=events))) == []
    assert len(list(step_time_spike.check(Segment(0, segment)))) == 2


# hang


def silent(gap: float, *, at: int = 100, usual: float = 2.0) -> Segment:
    seconds = np.full(200, usual)
    seconds[at] = gap
    return stamped(seconds)


@pytest.mark.parametrize(("gap", "alarms"), [(299.0, 0), (300.0, 0), (301.0, 1)])
def test_articles_five_minutes_of_silence(gap: float, alarms: int) -> None:
    findings = list(hang.check_articles(silent(gap)))
    assert len(findings) == alarms
    assert [f.kind for f in diagnose([silent(gap)], profile="articles").findings if f.kind == "hang"] == ["hang"] * alarms
    assert all((f.first_step, f.known_step) == (100, 101) for f in findings)


def test_the_limit_of_articles_can_be_set() -> None:
    assert len(list(hang.check_articles(silent(100.0), least_seconds=60))) == 1


@pytest.mark.parametrize(
    ("usual", "gap", "alarms"),
    [(2.0, 299.0, 0), (2.0, 301.0, 1), (60.0, 890.0, 0), (60.0, 910.0, 1)],
)
def test_robust_limit_grows_with_the_usual_gap(usual: float, gap: float, alarms: int) -> None:
    assert len(list(hang.check(silent(gap, usual=usual)))) == alarms


def test_a_silence_of_twice_the_longest_pause_counts() -> None:
    seconds = np.full(300, 2.0)
    seconds[[50, 100, 150]] = 250.0
    for gap, alarms in ((490.0, 0), (510.0, 1)):
        seconds[200] = gap
        assert len(list(hang.check(stamped(seconds)))) == alarms


@pytest.mark.parametrize("profile", [hang.check, hang.check_articles])
@pytest.mark.parametrize(("days", "alarms"), [(29, 1), (31, 0)])
def test_a_clock_that_was_set_is_no_silence(profile, days: int, alarms: int) -> None:
    """As for time and cost: no run is silent for longer than a month."""
    seconds = np.full(200, 2.0)
    seconds[100] = days * 86_400.0
    assert len(list(profile(stamped(seconds)))) == alarms


def test_the_first_steps_and_restarts_are_no_hang() -> None:
    seconds = np.full(200, 2.0)
    seconds[[0, 1]] = 900.0
    assert list(hang.check(stamped(seconds))) == []
    again = stamped(np.r_[np.full(100, 2.0), 3600.0, np.full(99, 2.0)])
    again.rows["step"] = np.r_[1:101, 41:141]
    assert list(hang.check(again)) == []


def test_a_checkpoint_in_the_gap_may_take_longer() -> None:
    events = said((101, "checkpoint_saved"))
    assert list(hang.check(replace(silent(900.0), events=events))) == []
    assert len(list(hang.check(silent(900.0)))) == 1
    (finding,) = hang.check(replace(silent(1300.0), events=events))
    assert finding.causes[0].name == "storage"


def test_a_printed_step_time_shows_a_hang_too() -> None:
    seconds = np.full(200, 2.0)
    seconds[100] = 1200.0
    (finding,) = hang.check(of(seconds))
    assert finding.known_step == 101


def test_a_watched_run_hangs_while_it_is_silent() -> None:
    for quiet, alarms in ((None, 0), (299.0, 0), (301.0, 1)):
        findings = list(hang.check(replace(silent(2.0), silent_seconds=quiet)))
        assert len(findings) == alarms
        for finding in findings:
            assert (finding.severity, finding.first_step, finding.last_step) == (Severity.CRITICAL, 200, None)
            assert any("py-spy dump" in line.render() for line in finding.advice)
    assert len(list(hang.check_articles(replace(silent(2.0), silent_seconds=301.0)))) == 1


def test_a_run_that_is_done_or_has_ended_does_not_hang() -> None:
    done = replace(silent(2.0), silent_seconds=9000.0, total_steps=200)
    assert list(hang.check(done)) == []


def test_one_rank_that_falls_silent_is_named() -> None:
    count, ranks = 400, 4
    seconds = np.full(count, 2.0)
    run = stamped(seconds)
    run.rows["line"] = np.arange(count) * ranks + 1
    clock = np.repeat(run.rows["timestamp"].to_numpy(), ranks)
    frame = pd.DataFrame(
        {
            "line": np.arange(count * ranks) + 1,
            "step": np.repeat(np.arange(1, count + 1), ranks),
            "rank": np.tile(np.arange(ranks), count),
            "timestamp": clock,
            "loss": 2.0,
        }
    )
    frame = frame[(frame["rank"] != 2) | (frame["step"] <= 200)]
    (finding,) = hang.check(replace(run, ranks=frame))
    assert finding.title.values["rank"] == 2
    assert finding.first_step == 200
    assert finding.known_step is not None
    assert 345 <= finding.known_step <= 355  # 300 seconds later
    assert finding.causes[0].name in ("host", "straggler")


# restart


def test_what_a_restart_costs_is_stated() -> None:
    steps = np.r_[1:101, 61:161]
    seconds = np.r_[np.full(100, 2.0), 600.0, np.full(99, 2.0)]
    run = stamped(seconds, loss=5 - steps / 200)
    run.rows["step"] = steps
    (finding,) = restart.check(run)
    facts = {item.label.template: item.value for item in finding.evidence}
    assert (finding.first_step, finding.severity) == (61, Severity.INFO)
    assert facts["rows done again"] == 40
    assert facts["time lost, work done again included"] == pytest.approx((39 * 2 + 600) / 60, abs=0.1)
    assert facts["time in which nothing was logged"] == 10.0


def test_a_loss_that_does_not_come_back_after_a_restart_is_an_alarm() -> None:
    run = simulate(rows=1000, seed=8, fault="restart_worse").segment
    (finding,) = restart.check(run)
    assert finding.severity is Severity.WARNING
    assert finding.causes[0].name == "resume"
    same = list(restart.check(simulate(rows=1000, seed=8, fault="restart").segment))
    assert [finding.severity for finding in same] == [Severity.INFO]


def test_a_resume_that_only_the_text_tells_is_noted() -> None:
    run = of(noisy(100))
    (finding,) = restart.check(replace(run, events=said((50, "resume"))))
    assert finding.first_step == 51
    late = replace(run, rows=run.rows.assign(step=np.arange(30_010, 31_010, 10)), events=said((0, "resume")))
    (finding,) = restart.check(late)
    assert "first step here is 30,010" in finding.title.render()
    assert list(restart.check(replace(run, events=said((0, "resume"))))) == []


def test_a_crash_before_a_restart_is_its_cause() -> None:
    run = simulate(rows=600, seed=3, fault="restart", at=0.5).segment
    events = said((int(run.rows["line"].iloc[300]) - 0, "out_of_memory"))
    (finding,) = restart.check(replace(run, events=events))
    assert finding.causes[0].name == "crash"
