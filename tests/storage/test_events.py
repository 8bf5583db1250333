"""Events from text: every kind by its examples, near misses, tracebacks among other lines, and the cause of an end."""

import json
import os
import re
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from analysis import ending
from storage.reading.events import FAILURES, EventScanner, scan, why_failed
from storage.reading.events.memory import memory_of
from storage.reading.events.rules import _TABLE, RULES, TRIGGER
from storage.types import Event

LOGS = Path(os.environ.get("RUNVITALS_SHARED_LOGS", Path(__file__).resolve().parents[3] / "shared" / "logs"))
EXAMPLES = [(entry["kind"], text) for entry in _TABLE["rule"] for text in entry["examples"]]
REJECTS = [(entry["kind"], text) for entry in _TABLE["rule"] for text in entry.get("rejects", ())]


def events_of(text: str, pieces: int = 1) -> list[Event]:
    scanner = EventScanner()
    lines = text.encode().splitlines(keepends=True)
    size = max(1, -(-len(lines) // pieces))
    events = [e for at in range(0, len(lines), size) for e in scanner.feed(b"".join(lines[at : at + size]), at + 1)]
    return events + scanner.finish()


def kinds_of(text: str) -> list[str]:
    return [event.kind for event in events_of(text)]


class TestRules:
    @pytest.mark.parametrize(("kind", "text"), EXAMPLES)
    def test_examples(self, kind, text):
        assert kinds_of(text + "\n") == [kind]
        assert re.search(TRIGGER, text)

    @pytest.mark.parametrize(("kind", "text"), REJECTS)
    def test_rejects(self, kind, text):
        assert kind not in kinds_of(text + "\n")

    def test_every_rule_has_an_example_and_every_failure_a_rule(self):
        assert all(entry["examples"] for entry in _TABLE["rule"])
        assert {rule.kind for rule in RULES} | {"traceback"} >= set(FAILURES)

    @pytest.mark.parametrize(
        "text",
        [
            'raise RuntimeError("CUDA out of memory")',
            '    logger.info("Saving model checkpoint to %s", path)',
            "# resuming from checkpoint if there is one",
            "def save_checkpoint(state):  # saving checkpoint",
            'if "out of memory" in str(error):',
            "    except KeyboardInterrupt:",
            '"""Loaded checkpoint from disk."""',
            "assert port, 'Address already in use'",
            "  --resume RESUME       resume training from this checkpoint",
            "checkpoint_activations .......... True",
            "save_checkpoint = saved_model_path",
            "Epoch:[1/2](100/9924), loss: 7.2804, lr: 0.00049989, epoch_time: 35.0min",
            "step:1 - actor/pg_loss:0.03 - timing_s/save_checkpoint:2.5 - perf/time:4",
        ],
    )
    def test_source_code_and_settings_are_no_events(self, text):
        assert kinds_of(text + "\n") == []


class TestData:
    def test_sizes_of_an_old_message(self):
        text = (
            "CUDA out of memory. Tried to allocate 768.00 MiB (GPU 3; 79.35 GiB total capacity; 52.52 GiB already allocated; "
            "552.12 MiB free; 53.97 GiB reserved in total by PyTorch)"
        )
        assert memory_of(text) == {
            "tried_bytes": 768 * 2**20,
            "capacity_bytes": round(79.35 * 2**30),
            "allocated_bytes": round(52.52 * 2**30),
            "free_bytes": round(552.12 * 2**20),
            "reserved_bytes": round(53.97 * 2**30),
            "gpu": 3,
        }

    def test_sizes_of_a_new_message(self):
        text = (
            "CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 23.65 GiB of which 1.5 GiB is free"
            " Process 77 has 22.10 GiB in use. Of the allocated memory 20.00 GiB is allocated by PyTorch, and 1.25 GiB is"
            " reserved by PyTorch but unallocated."
        )
        data = memory_of(text)
        assert (data["tried_bytes"], data["free_bytes"], data["allocated_bytes"]) == (2 * 2**30, 3 * 2**29, 20 * 2**30)
        assert data["reserved_bytes"] == 5 * 2**28

    def test_memory_of_the_machine_itself(self):
        assert events_of("slurmstepd: error: Detected 1 oom_kill event in StepId=7.0.\n")[0].data == {"host": True}

    @pytest.mark.parametrize(
        ("text", "data"),
        [
            (
                EXAMPLES[[kind for kind, _ in EXAMPLES].index("collective_timeout")][1],
                {"milliseconds": 600321, "operation": "ALLREDUCE", "rank": 5},
            ),
            ("NVRM: Xid (PCI:0000:17:00): 79, pid=7, GPU has fallen off the bus.", {"device": "0000:17:00", "xid": 79}),
            (
                "[deepspeed] OVERFLOW! Rank 0 Skipping step. Attempted loss scale: 65536, reducing to 32768",
                {"loss_scale": 32768.0},
            ),
            (" iteration 20/ 90 | number of skipped iterations:   8 |", {"count": 8}),
            (
                "slurmstepd: error: *** JOB 7 ON n1 CANCELLED AT 2031-05-27T21:52:36 DUE TO TIME LIMIT ***",
                {"job": "7", "host": "n1", "time": "2031-05-27T21:52:36", "reason": "time_limit"},
            ),
            (
                "slurmstepd: error: *** JOB 7 ON n1 CANCELLED AT 2031-05-27T21:52:36 DUE TO PREEMPTION ***",
                {"job": "7", "host": "n1", "time": "2031-05-27T21:52:36", "reason": "preempted"},
            ),
            ("    save-checkpoint ................................: (64.17, 65.23)", {"seconds": 0.06523}),
            ("Saved checkpoint to out/step_700.pt in 12.5 s", {"seconds": 12.5, "path": "out/step_700.pt"}),
            ("[launch.py:328:sigkill_handler] Main process received SIGINT, exiting", {"signal": "SIGINT"}),
            ("DataLoader worker (pid 7) is killed by signal: Killed.", {"signal": "SIGKILL"}),
            (
                "train.py: error: unrecognized arguments: --learning-rat 3",
                {"message": "unrecognized arguments: --learning-rat 3"},
            ),
        ],
    )
    def test_what_else_a_line_says(self, text, data):
        assert events_of(text + "\n")[0].data == data

    @pytest.mark.parametrize(
        ("text", "step"),
        [
            ("  successfully saved checkpoint at iteration     700 to /c", 700),
            ("Saving model checkpoint to out/checkpoint-500", 500),
            ("[Torch] Checkpoint global_step70 is ready now!", 70),
            ("  Resumed at step 30000, skipping 9M tokens", 30000),
            ("=> saving checkpoint to out/ckpt.pth", None),
        ],
    )
    def test_steps(self, text, step):
        assert events_of(text + "\n")[0].step == step


TRACEBACK = """Traceback (most recent call last):
  File "train.py", line 70, in main
    run(args)
  File "/lib/model.py", line 7, in forward
    raise RuntimeError("CUDA out of memory")
{last}
"""


def test_analysis_weighs_failures_as_the_reader_does():
    assert {kind: weight for kind, (_, weight) in ending.FAILURES.items()} == FAILURES


class TestWrapped:
    """What a container's collector puts around the lines of a program is no part of them."""

    JSON = ('{{"log": {line}, "stream": "stderr", "time": "2025-03-04T10:11:12.5Z"}}', json.dumps)
    CRI = ("2025-03-04T10:11:12.123456789Z stderr F {line}", lambda line: line.rstrip("\n"))

    @pytest.mark.parametrize(("form", "written"), [JSON, CRI])
    def test_a_traceback_is_read_within(self, form, written):
        lines = TRACEBACK.format(last="ValueError: bad shape").splitlines(keepends=True)
        events = events_of("".join(form.format(line=written(line)) + "\n" for line in lines))
        assert [(event.kind, event.text) for event in events] == [("traceback", "ValueError: bad shape")]
        assert events[0].data["frame"] == "/lib/model.py:7 in forward"

    @pytest.mark.parametrize(("form", "written"), [JSON, CRI])
    def test_what_must_stand_at_the_start_of_a_line_is_found_and_shown_alone(self, form, written):
        (event,) = events_of(form.format(line=written("Killed\n")) + "\n")
        assert (event.kind, event.text) == ("killed", "Killed")


class TestTracebacks:
    @pytest.mark.parametrize("pieces", [1, 2, 6])
    def test_one_event_at_the_last_line(self, pieces):
        events = events_of("start\n" + TRACEBACK.format(last="ValueError: bad shape"), pieces)
        assert [(event.line, event.kind, event.text) for event in events] == [(7, "traceback", "ValueError: bad shape")]
        assert events[0].data == {
            "exception": "ValueError",
            "message": "bad shape",
            "begins": 2,
            "frame": "/lib/model.py:7 in forward",
        }

    @pytest.mark.parametrize(
        ("last", "kind"),
        [
            ("torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 20.00 MiB", "out_of_memory"),
            ("KeyboardInterrupt", "interrupted"),
            ("ModuleNotFoundError: No module named 'x'", "import_error"),
            ("FileNotFoundError: [Errno 2] No such file or directory: 'a'", "file_not_found"),
            ("OSError: [Errno 28] No space left on device", "disk_full"),
            ("RuntimeError: CUDA error: device-side assert triggered", "cuda_error"),
            ("OSError: [Errno 98] Address already in use", "port_in_use"),
            ("torch.distributed.DistBackendError: NCCL error in: x.cpp:7", "nccl_error"),
            ("ray.exceptions.RayTaskError(AssertionError): ray::main() (pid=7)", "traceback"),
            ("AssertionError", "traceback"),
        ],
    )
    def test_the_exception_gives_the_kind(self, last, kind):
        assert kinds_of(TRACEBACK.format(last=last)) == [kind]

    def test_ranks_that_interleave(self):
        mine = TRACEBACK.format(last="TypeError: on rank 0").splitlines()
        theirs = TRACEBACK.format(last="TypeError: on rank 1").splitlines()
        lines = [
            line
            for pair in zip(mine, theirs, strict=True)
            for line in (f"[rank0]: {pair[0]}", "step 5 loss 2.0", f"[rank1]: {pair[1]}")
        ]
        events = events_of("\n".join(lines) + "\n", pieces=3)
        assert [event.text for event in events] == ["TypeError: on rank 0", "TypeError: on rank 1"]

    def test_chained_exceptions(self):
        text = (
            TRACEBACK.format(last="ImportError: no lib")
            + "\nThe above exception was the direct cause of the following exception:\n\n"
            + TRACEBACK.format(last="RuntimeError: failed to import")
        )
        events = events_of(text)
        assert [event.kind for event in events] == ["import_error", "traceback"]
        assert why_failed(events).kind == "import_error"

    def test_a_warning_is_marked_and_no_cause(self):
        text = "".join(
            f"W0530 14:48:26.433000 77 convert.py:1233] {line}\n" for line in TRACEBACK.format(last="KeyError: 5").splitlines()
        )
        events = events_of(text)
        assert events[0].data["warning"] is True
        assert why_failed(events) is None

    def test_a_cut_traceback(self):
        text = TRACEBACK.format(last="").replace('RuntimeError("CUDA out of memory")', "EOFError").rstrip() + "\n"
        assert [(event.kind, event.text) for event in events_of(text)] == [("traceback", "EOFError")]

    def test_the_same_from_every_rank_is_one(self):
        assert len(events_of(TRACEBACK.format(last="ValueError: x") * 64)) == 1

    def test_a_printed_header_is_none(self):
        assert kinds_of('print("Traceback (most recent call last):")\n') == []


ROOT = """torch.distributed.elastic.multiprocessing.errors.ChildFailedError:
============================================================
train.py FAILED
------------------------------------------------------------
Failures:
  <NO_OTHER_FAILURES>
------------------------------------------------------------
Root Cause (first observed failure):
[0]:
  time      : 2031-04-01_08:33:18
  host      : node-7
  rank      : 12 (local_rank: 4)
  exitcode  : -9 (pid: 4711)
  error_file: <N/A>
  traceback : Signal 9 (SIGKILL) received by PID 4711
============================================================
"""


class TestScanner:
    @pytest.mark.parametrize("pieces", [1, 5, 15])
    def test_root_cause_of_torchrun(self, pieces):
        event = next(event for event in events_of(ROOT, pieces) if "rank" in event.data)
        assert (event.line, event.kind) == (8, "child_failed")
        assert event.data == {"host": "node-7", "time": "2031-04-01_08:33:18", "rank": 12, "exitcode": -9}

    def test_several_lines_about_one_checkpoint(self):
        text = (
            "[Torch] Checkpoint global_step50 is about to be saved!\nSaving model checkpoint: /c/global_step50/a.pt\n"
            "zero checkpoint saved /c/global_step50/rank_0.pt\nzero checkpoint saved /c/global_step50/rank_1.pt\n"
            "[Torch] Checkpoint global_step50 is ready now!\nloss 5\n"
        )
        assert [(e.line, e.step) for e in events_of(text + text.replace("50", "100"))] == [(1, 50), (7, 100)]

    def test_checkpoints_without_a_step_are_counted_each(self):
        assert len(events_of(("saving checkpoint to out\n" + "loss 5\n" * 20) * 7)) == 7

    def test_at_the_end_of_a_progress_bar(self):
        text = (
            "\r".join(f"{n}it [00:10, 5.0it/s]" for n in range(5000)) + "slurmstepd: error: *** JOB 7 ON n CANCELLED AT x ***\n"
        )
        assert kinds_of(text) == ["cancelled"]

    def test_given_line_numbers(self):
        scanner = EventScanner()
        events = scanner.feed(b"ok\nKeyboardInterrupt\n", 0, np.array([70, 90]))
        assert [event.line for event in events] == [90]

    def test_too_many_are_counted_but_not_kept(self):
        scanner = EventScanner(limit=3000)
        text = "".join(f"overflow detected. set loss_scale = {n}\n" for n in range(5000)) + "".join(
            f"Xid: {n}\n" for n in range(5000)
        )
        events = scanner.feed(text.encode(), 1)
        assert scanner.counts == {"loss_scale_overflow": 5000, "xid": 5000}
        assert len(events) == 3000
        assert sum(event.kind == "loss_scale_overflow" for event in events) == 2000

    def test_goes_on_from_its_state(self):
        head, tail = TRACEBACK.format(last="ValueError: x").encode().split(b'  File "/lib')
        first = EventScanner()
        assert first.feed(head, 1) == []
        second = EventScanner()
        second.restore(json.loads(json.dumps(first.state())))
        events = second.feed(b'  File "/lib' + tail, 4)
        assert [(event.line, event.data["begins"]) for event in events] == [(6, 1)]

    @settings(max_examples=80, deadline=None)
    @given(
        st.lists(
            st.sampled_from([text for _, text in EXAMPLES] + [*TRACEBACK.splitlines(), *ROOT.splitlines(), "", "\r", "x" * 9]),
            max_size=40,
        )
    )
    def test_any_order_of_lines(self, lines):
        text = "\n".join(lines) + "\n"
        events = events_of(text)
        assert [(e.line, e.kind, e.text) for e in events] == [(e.line, e.kind, e.text) for e in events_of(text, 3)]
        why_failed(events)

    @settings(max_examples=60, deadline=None)
    @given(st.binary(max_size=300))
    def test_any_bytes(self, data):
        text = data.decode("utf-8", "replace").encode()
        assert all(1 <= event.line <= text.count(b"\n") + 1 and event.text for event in scan(text, 1))


class TestCause:
    @staticmethod
    def why(text: str, after: int | None = None) -> str | None:
        event = why_failed(events_of(text), after=after)
        return event and event.kind

    def test_out_of_memory_explains_the_rest(self):
        text = (
            TRACEBACK.format(last="torch.OutOfMemoryError: CUDA out of memory.")
            + "Main process received SIGTERM, exiting\n"
            + ROOT
        )
        assert self.why(text) == "out_of_memory"

    def test_a_generic_exception_explains_launcher_lines(self):
        assert (
            self.why("Main process received SIGTERM, exiting\n" + TRACEBACK.format(last="TypeError: x") + ROOT) == "traceback"
        )

    def test_interrupted_by_hand(self):
        assert (
            self.why("KeyboardInterrupt\n" + TRACEBACK.format(last="RuntimeError: DataLoader worker exited")) == "interrupted"
        )

    def test_a_hang_explains_the_cancelled_job(self):
        timeout = "[Rank 5] Watchdog caught collective operation timeout: ran for 600321 milliseconds before timing out.\n"
        assert (
            self.why(timeout + "slurmstepd: error: *** JOB 7 ON n CANCELLED AT x DUE TO TIME LIMIT ***\n")
            == "collective_timeout"
        )

    def test_an_earlier_incident_was_survived(self):
        text = TRACEBACK.format(last="torch.OutOfMemoryError: CUDA out of memory.") + "loss 5\n" * 3000 + "KeyboardInterrupt\n"
        assert self.why(text) == "interrupted"

    def test_records_behind_a_failure_mean_it_was_survived(self):
        text = TRACEBACK.format(last="ConnectionError: x") + "loss 5\n" * 9
        assert self.why(text) == "connection_error"
        assert self.why(text, after=15) is None

    def test_a_finished_run_did_not_fail(self):
        assert self.why(TRACEBACK.format(last="ConnectionError: x") + "Training completed.\n") is None
        assert self.why("loss 5\n") is None


@pytest.mark.logs
@pytest.mark.skipif(not LOGS.is_dir(), reason="the logs beside the repository are absent")
@pytest.mark.parametrize(
    ("name", "line", "kind"),
    [
        ("007-minimind-wandb-170430.log", 56, "interrupted"),
        ("012-meg_ds_zero_gpt2_perf_n16-1999616.out", 6117, "cancelled"),
        ("102-dpo.log", 329, "interrupted"),
        ("112-grpo.log", 164, "import_error"),
        ("135-deformable-detr-slurm.out", 1, "cancelled"),
        ("140-megatron-nohup.out", 14383, "file_not_found"),
        ("145-llamafactory-train.out", 7017, "traceback"),
        ("175-sevila-causalvidqa_20575253.err", 234, "cancelled"),
        ("205-ivlabs-output.log", 105, "traceback"),
        ("020-llmc-main.log", None, None),
        ("030-parametergolf-baseline-train.log", None, None),
        ("110-output.log", None, None),
        ("210-megatron-finetune.log", None, None),
    ],
)
def test_real_logs(name, line, kind):
    event = why_failed(scan((LOGS / name).read_bytes(), 1))
    assert (event and event.line, event and event.kind) == (line, kind)
