"""What the text says: one finding for one root cause, with its sizes, its causes and the advice in its order."""

import pytest

from analysis.diagnose import diagnose
from analysis.ending import incidents
from analysis.segment import Segment
from analysis.simulate import simulate, with_events
from tests.analysis.losses_lab import found

GIB = 2**30
HALF = simulate(rows=1200, seed=3).segment.head(600)  # rows stand on lines 1 to 600
SIZES = {"tried_bytes": 2 * GIB, "capacity_bytes": 24 * GIB, "allocated_bytes": 18 * GIB, "reserved_bytes": 23 * GIB}


def test_five_processes_without_memory_are_one_finding() -> None:
    said = [(700 + 40 * gpu, "out_of_memory", "CUDA out of memory", SIZES | {"gpu": gpu}) for gpu in range(5)]
    (finding,) = found("out_of_memory", with_events(HALF, *said, (1000, "child_failed", "ChildFailedError", {})))
    assert (finding.first_line, finding.last_line, finding.first_step) == (700, 1000, 600)
    assert "5 GPUs" in finding.title.render()
    values = {item.label.template: item.value for item in finding.evidence}
    assert values["asked for"] == 2.0
    assert values["reserved and not used (fragmentation)"] == 5.0
    assert finding.causes[0].name == "fragmentation"


def test_memory_that_is_not_fragmented_is_not_called_so() -> None:
    tight = SIZES | {"allocated_bytes": 22.5 * GIB}
    (finding,) = found("out_of_memory", with_events(HALF, (700, "out_of_memory", "CUDA out of memory", tight)))
    assert {cause.name: cause.score for cause in finding.causes}["fragmentation"] < 0
    assert finding.causes[0].name == "batch_too_large"


def test_advice_against_lack_of_memory_comes_in_the_order_of_the_articles() -> None:
    (pretraining,) = found("out_of_memory", with_events(HALF, (700, "out_of_memory", "CUDA out of memory", {})))
    words = [line.render() for line in pretraining.advice]
    assert words[0].startswith("Halve the batch size")
    assert "max_seq_len; a smaller batch" in words[2]
    assert "can't be compared" in words[2]
    tuned = HALF.head(600)
    tuned.rows["loss"] /= 6
    (tuning,) = found("out_of_memory", with_events(tuned, (700, "out_of_memory", "CUDA out of memory", {})))
    assert "a smaller batch, gradient accumulation, mixed precision, LoRA" in tuning.advice[2].render()


@pytest.mark.parametrize(
    ("kind", "data", "cause"),
    [
        ("xid", {}, "hardware"),
        ("ecc", {}, "hardware"),
        ("cuda_error", {}, "device_code"),
        ("disk_full", {}, "disk"),
        ("argument_error", {}, "start_arguments"),
        ("port_in_use", {}, "leftover"),
        ("killed", {"signal": "SIGKILL"}, "ended_from_outside"),
        ("traceback", {"exception": "ValueError"}, "program"),
        ("cancelled", {"reason": "node_failure"}, "hardware"),
    ],
)
def test_a_crash_names_its_cause_and_the_run_has_failed(kind: str, data: dict[str, object], cause: str) -> None:
    segment = with_events(HALF, (700, kind, "what it said", data), (760, "child_failed", "ChildFailedError", {}))
    (finding,) = found("crash", segment)
    assert (finding.first_line, str(finding.severity)) == (700, "critical")
    assert finding.causes[0].name == cause
    assert diagnose([segment]).verdict == "failed"


def test_a_collective_timeout_says_how_long_and_what_was_waited_for() -> None:
    told = {"milliseconds": 600_321, "operation": "ALLREDUCE", "rank": 5}
    (finding,) = found("collective_timeout", with_events(HALF, (700, "collective_timeout", "Watchdog caught", told)))
    assert finding.title.render().startswith("ALLREDUCE gave up after 10 min")
    checkpoint = (690, "checkpoint_saved", "saving checkpoint", {})
    (after,) = found("collective_timeout", with_events(HALF, checkpoint, (700, "collective_timeout", "Watchdog", told)))
    assert after.causes[0].name == "checkpoint_step"


def test_what_one_process_suffered_explains_that_the_others_waited() -> None:
    segment = with_events(HALF, (700, "collective_timeout", "Watchdog", {}), (730, "out_of_memory", "CUDA out of memory", {}))
    assert found("collective_timeout", segment) == []
    assert len(found("out_of_memory", segment)) == 1


@pytest.mark.parametrize(
    ("kind", "data", "words"),
    [
        ("cancelled", {"reason": "time_limit"}, "time limit ended the run after step 600"),
        ("cancelled", {"reason": "preempted"}, "scheduler ended the run after step 600"),
        ("interrupted", {"signal": "SIGTERM"}, "SIGTERM"),
    ],
)
def test_a_run_that_was_stopped_from_outside_is_watched(kind: str, data: dict[str, object], words: str) -> None:
    segment = with_events(HALF, (700, kind, "what it said", data))
    (finding,) = found("stopped", segment)
    assert str(finding.severity) == "warning"
    assert words in finding.title.render()
    assert diagnose([segment]).verdict == "watch"


@pytest.mark.parametrize("data", [{"signal": "SIGINT"}, {}])
def test_a_run_that_somebody_stopped_at_the_keyboard_is_noted_and_no_alarm(data: dict[str, object]) -> None:
    segment = with_events(HALF, (700, "interrupted", "KeyboardInterrupt", data))
    (finding,) = found("stopped", segment)
    assert str(finding.severity) == "info"
    assert "stopped by hand after step 600 of 1,200" in finding.title.render()
    assert diagnose([segment]).verdict == "healthy"


def test_a_stop_that_follows_a_failure_is_its_consequence() -> None:
    segment = with_events(HALF, (700, "traceback", "ValueError", {}), (720, "interrupted", "SIGTERM", {"signal": "SIGTERM"}))
    assert found("stopped", segment) == []
    assert len(found("crash", segment)) == 1


def test_what_the_run_survived_or_what_came_after_its_end_is_no_alarm() -> None:
    survived = with_events(HALF, (300, "traceback", "OSError: retried", {}))
    assert [str(f.severity) for f in found("crash", survived)] == ["info"]
    done = (650, "training_finished", "Training completed", {})
    after = with_events(HALF, done, (700, "traceback", "at exit", {}))
    assert [str(f.severity) for f in found("crash", after)] == ["info"]
    assert diagnose([after]).verdict == "healthy"


def test_incidents_far_apart_are_told_apart() -> None:
    said = [(700, "out_of_memory", "CUDA out of memory", {}), (4000, "file_not_found", "FileNotFoundError", {})]
    assert [incident.kind for incident in incidents(with_events(HALF, *said))] == ["out_of_memory", "crash"]


def test_a_launch_without_rows_is_read_too() -> None:
    empty = with_events(Segment(0, HALF.rows.iloc[:0]), (7, "import_error", "ImportError: no module", {}))
    diagnosis = diagnose([empty])
    assert diagnosis.verdict == "failed"
    assert [(finding.kind, finding.first_step) for finding in diagnosis.findings] == [("crash", None)]


def test_a_log_that_breaks_off_says_so_unless_it_is_done_or_watched() -> None:
    (finding,) = found("stopped", HALF)
    assert str(finding.severity) == "info"
    assert "ends at step 600 of 1,200" in finding.title.render()
    assert found("stopped", simulate(rows=300, seed=3).segment) == []
    assert found("stopped", with_events(HALF, (650, "training_finished", "early stopping", {}))) == []
