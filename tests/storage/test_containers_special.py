"""The rarer containers: MLPerf lines, boxed records, tables of nvidia-smi, TensorBoard's event files."""

import json
import math
import os
import struct
from pathlib import Path

import google_crc32c
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from storage.reading.containers import Boxes, JsonLines, Mllog, NvidiaSmi
from storage.reading.containers.tfevents import TfEvents

LOGS = Path(os.environ.get("RUNVITALS_SHARED_LOGS", Path(__file__).resolve().parents[3] / "shared" / "logs"))


def rows_of(reader, text: str, pieces: int = 1) -> list[dict]:
    lines = text.encode().splitlines(keepends=True)
    size = max(1, -(-len(lines) // pieces))
    tables = [reader.feed(b"".join(lines[at : at + size]), at + 1) for at in range(0, len(lines), size)]
    return [row for table in [*tables, reader.finish()] if table is not None for row in table.to_pylist()]


def mllog(key: str, value: object, kind: str = "POINT_IN_TIME", **metadata: object) -> str:
    data = {"namespace": "", "time_ms": 1900000000500, "event_type": kind, "key": key, "value": value}
    return ":::MLLOG " + json.dumps({**data, "metadata": {"file": "/a/b.py", "lineno": 7, **metadata}}) + "\n"


class TestMllog:
    def test_rows_configuration_and_intervals(self):
        text = (
            "+ starting\n"
            + mllog("seed", 77)
            + mllog("run_start", None, "INTERVAL_START")
            + "0: "
            + mllog("train_loss", 2.5, samples_count=80, lr=0.001)
            + mllog("tracked_stats", {"train_step_time": 5.5, "reduced_train_loss": 2.25}, step=160.0)
            + mllog("tracked_stats", {"throughput": 14.5}, step=160)
            + mllog("eval_accuracy", 0.9, samples_count=160)
        )
        reader = Mllog()
        rows = rows_of(reader, text)
        assert [(row["line"], row["kind"], row["step"], row["samples_seen"]) for row in rows] == [
            (4, "train", 80.0, 80.0),
            (5, "train", 160.0, 160.0),
            (6, "telemetry", 160.0, 160.0),
            (7, "eval", 160.0, 160.0),
        ]
        assert (rows[0]["train_loss"], rows[0]["lr"], rows[0]["timestamp"]) == (2.5, 0.001, "2030-03-17T17:46:40.500+00:00")
        assert (rows[1]["reduced_train_loss"], rows[1]["train_step_time"]) == (2.25, 5.5)
        assert rows[2]["samples_per_second"] == 14.5
        assert reader.config == {"seed": 77}
        assert reader.problems == []

    def test_readings_are_telemetry(self):
        reader = Mllog()
        assert rows_of(reader, mllog("power_reading", 9943.0))[0]["kind"] == "telemetry"
        assert reader.units["power_reading"] == "W"

    def test_a_broken_line_is_a_problem(self):
        reader = Mllog()
        assert rows_of(reader, mllog("train_loss", 2, step=1)[:-9] + "\n") == []
        assert [problem.line for problem in reader.problems] == [1]

    def test_other_containers_leave_them_alone(self):
        text = (mllog("train_loss", 2.5, step=80) * 5).encode()
        assert JsonLines.score(text) == 0.0
        assert JsonLines().feed(text, 1) is None
        assert Mllog.score(text) >= 0.9
        assert Mllog.score(b"the format :::MLLOG is explained here\n") == 0.0


BOX = """----------------------------------
| rollout/           |          |
|    ep_rew_mean     | {reward} |
| time/              |          |
|    total_timesteps | {steps}  |
| train/             |          |
|    loss            | nan      |
----------------------------------
"""


class TestBoxes:
    @pytest.mark.parametrize("pieces", [1, 5, 16])
    def test_one_row_a_box(self, pieces):
        text = BOX.format(reward="-1.2e+03", steps=2048) + "other\n" + BOX.format(reward="5.5", steps=4096)
        rows = rows_of(Boxes(), text, pieces)
        assert [(row["line"], row["rollout/ep_rew_mean"], row["time/total_timesteps"]) for row in rows] == [
            (2, -1200.0, 2048.0),
            (11, 5.5, 4096.0),
        ]
        assert math.isnan(rows[0]["train/loss"])
        assert Boxes.score(text.encode()) >= 0.5

    @pytest.mark.parametrize(
        "text",
        [
            "| name | value |\n|------|-------|\n| loss | how far off |\n| lr   | how fast    |\n",
            "| a | 1 |\n| b | 2 |\nno edge below\n",
            "+-----+------+\n| GPU | Name |\n+-----+------+\n",
        ],
    )
    def test_other_tables_are_no_records(self, text):
        assert rows_of(Boxes(), text) == []


def smi(load: int, host: str = "", device: int = 0) -> str:
    return (
        f"{host}|   {device}  NVIDIA A100-SXM4-40GB          On  | 00000000:01:00.0 Off |                    0 |\n"
        f"{host}| N/A   45C    P0    98W / 400W |  10240MiB / 40536MiB |     {load}%      Default |\n"
    )


class TestNvidiaSmi:
    @pytest.mark.parametrize("pieces", [1, 3, 6])
    def test_repeated_tables_are_telemetry(self, pieces):
        rows = rows_of(NvidiaSmi(), smi(97) + smi(5) + smi(0), pieces)
        assert [(row["line"], row["utilization.gpu [%]"]) for row in rows] == [(2, 97.0), (4, 5.0), (6, 0.0)]
        assert (rows[0]["memory.used [MiB]"], rows[0]["power.draw [W]"], rows[0]["kind"]) == (10240.0, 98.0, "telemetry")

    def test_hosts_that_interleave(self):
        one, two = (smi(50, f"node{n}: ").splitlines() for n in (1, 2))
        text = "\n".join(line for pair in zip(one, two, strict=True) for line in pair) + "\n"
        rows = rows_of(NvidiaSmi(), text * 3)
        assert [row["host"] for row in rows] == ["node1", "node2"] * 3

    def test_a_table_at_the_start_says_nothing(self):
        assert rows_of(NvidiaSmi(), smi(0) + smi(0, device=1)) == []
        assert NvidiaSmi.score(smi(0).encode()) == 0.0


def record(message: bytes) -> bytes:
    def masked(data: bytes) -> bytes:
        crc = google_crc32c.value(data)
        return struct.pack("<I", ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF)

    length = struct.pack("<Q", len(message))
    return length + masked(length) + message + masked(message)


def field(number: int, wire: int, data: bytes) -> bytes:
    return bytes([number << 3 | wire]) + (varint(len(data)) if wire == 2 else b"") + data


def varint(value: int) -> bytes:
    parts = []
    while value > 0x7F:
        parts.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*parts, value])


def event(step: int, tag: str, value: float, *, tensor: str = "") -> bytes:
    number = field(2, 5, struct.pack("<f", value))
    if tensor == "content":
        number = field(8, 2, field(1, 0, varint(1)) + field(4, 2, struct.pack("<f", value)))
    elif tensor == "value":
        number = field(8, 2, field(1, 0, varint(2)) + field(6, 2, struct.pack("<d", value)))
    summary = field(1, 2, field(1, 2, tag.encode()) + number)
    return record(field(1, 1, struct.pack("<d", 1.9e9 + step)) + field(2, 0, varint(step)) + field(5, 2, summary))


START = record(field(1, 1, struct.pack("<d", 1.9e9)) + field(3, 2, b"brain.Event:2"))


def events_of(data: bytes, size: int = 1 << 20) -> tuple[list[dict], TfEvents]:
    reader = TfEvents()
    tables = [reader.feed(data[at : at + size]) for at in range(0, len(data), size)]
    return [row for table in [*tables, reader.finish()] if table is not None for row in table.to_pylist()], reader


class TestTfEvents:
    def test_the_checksum_is_the_right_one(self):
        assert google_crc32c.value(b"123456789") == 0xE3069283

    @pytest.mark.parametrize("size", [1, 13, 1 << 20])
    def test_rows_by_step_from_pieces_of_any_size(self, size):
        data = START + event(1, "lm loss", 2.5) + event(80, "lm loss vs samples", 2.5) + event(1, "lr", 0.5, tensor="content")
        data += event(2, "lm loss", math.nan) + event(2, "eval/acc", 0.25, tensor="value") + event(3, "eval/acc", 0.5)
        rows, reader = events_of(data, size)
        assert TfEvents.score(data) == 1.0
        assert [(row["line"], row["step"], row["kind"]) for row in rows] == [
            (2, 1.0, "train"),
            (5, 2.0, "train"),
            (7, 3.0, "eval"),
        ]
        assert (rows[0]["lm loss"], rows[0]["lr"], rows[1].get("eval/acc")) == (2.5, 0.5, 0.25)
        assert math.isnan(rows[1]["lm loss"])
        assert rows[0]["timestamp"] == "2030-03-17T17:46:41.000+00:00"
        assert "lm loss vs samples" not in rows[0]
        assert reader.problems == []

    def test_cut_and_damaged(self):
        data = START + event(1, "loss", 2.5) + event(2, "loss", 2.25)
        rows, reader = events_of(data[:-5])
        assert [row["loss"] for row in rows] == [2.5]
        assert [problem.reason.render() for problem in reader.problems] == ["the last record is cut"]
        rows, reader = events_of(START + event(1, "loss", 2.5) + b"\xff" * 40 + event(2, "loss", 2.0))
        assert [row["loss"] for row in rows] == [2.5]
        assert "damaged" in reader.problems[0].reason.render()

    def test_a_record_whose_checksum_does_not_hold_is_left_out_and_told(self):
        broken = bytearray(event(2, "loss", 2.25))
        broken[20] ^= 1
        rows, reader = events_of(START + event(1, "loss", 2.5) + bytes(broken) + event(3, "loss", 2.0))
        assert [(row["line"], row["loss"]) for row in rows] == [(2, 2.5), (4, 2.0)]
        assert [(problem.line, problem.reason.render()) for problem in reader.problems] == [
            (3, "the checksum of this record does not hold")
        ]

    def test_what_another_library_reads_is_the_same(self):
        messages = pytest.importorskip("tensorboard.compat.proto.event_pb2")
        written = messages.Event(wall_time=1.9e9, step=7)
        written.summary.value.add(tag="loss", simple_value=0.1)
        written.summary.value.add(tag="picture").image.height = 4
        rows, reader = events_of(START + record(written.SerializeToString()))
        assert [(row["step"], row["loss"]) for row in rows] == [(7.0, written.summary.value[0].simple_value)]
        assert reader.problems == []

    def test_a_huge_record_is_passed_over(self):
        data = START + record(b"\x00" * (17 << 20)) + event(1, "loss", 2.5)
        rows, reader = events_of(data, 1 << 20)
        assert [row["loss"] for row in rows] == [2.5]
        assert reader.problems == []

    def test_goes_on_from_its_state(self):
        data = START + event(1, "loss", 2.5) + event(2, "loss", 2.0)
        first, second = TfEvents(), TfEvents()
        assert first.feed(data[:-30]) is None
        second.restore(json.loads(json.dumps(first.state())))
        assert [row["loss"] for row in second.feed(data[-30:]).to_pylist()] == [2.5]
        assert [row["loss"] for row in second.finish().to_pylist()] == [2.0]

    @settings(max_examples=80, deadline=None)
    @given(st.binary(max_size=200), st.integers(1, 50))
    def test_any_bytes(self, data, size):
        events_of(data, size)
        events_of(START + record(data), size)
        assert TfEvents.score(data) in (0.0, 1.0)


@pytest.mark.logs
@pytest.mark.skipif(not LOGS.is_dir(), reason="the logs beside the repository are absent")
@pytest.mark.parametrize(
    ("name", "count", "first", "last"),
    [
        ("181-llama2_70b_lora-result_7.txt", 38, (80, 2.354905128479004), (3040, 1.2847411632537842)),
        ("183-mangoboost-result_5.txt", 43, (80, 2.035835027694702), (3440, 1.2730581760406494)),
    ],
)
def test_real_mlperf_logs(name, count, first, last):
    rows = [row for row in rows_of(Mllog(), (LOGS / name).read_text(errors="replace"), 3) if row["kind"] == "train"]
    assert (len(rows), *((row["step"], row["train_loss"]) for row in (rows[0], rows[-1]))) == (count, first, last)


@pytest.mark.logs
@pytest.mark.skipif(not LOGS.is_dir(), reason="the logs beside the repository are absent")
def test_a_real_event_file():
    rows, reader = events_of((LOGS / "141-events.out.tfevents.1623897586.dgx0064.2550897.0").read_bytes(), 1000)
    assert [(len(rows), rows[0]["step"], rows[-1]["step"], rows[0]["lm loss"], rows[-1]["lm loss"])] == [
        (100, 1.0, 100.0, 11.06849479675293, 9.000529289245605)
    ]
    assert reader.problems == []
