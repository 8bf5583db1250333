"""The reader as a whole: exact rows and report, any chunks, any bytes, stop and go on."""

import gzip
import json
import math
import os
import random
import re
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from backports import zstd
from hypothesis import given, settings
from hypothesis import strategies as st

from storage.reader import LogReader, read_file
from storage.reading import decode
from storage.types import ROW_SCHEMA, Event, ParseReport, UnreadableLog

LOGS = Path(os.environ.get("RUNVITALS_SHARED_LOGS", Path(__file__).parents[3] / "shared" / "logs"))


def canonical(epoch: int, step: int, loss: str = "2.5", *, epochs: int = 2, of: int = 100) -> str:
    return (
        f"Epoch:[{epoch}/{epochs}]({step}/{of}), loss: {loss}, logits_loss: {loss}, aux_loss: 0.0000, "
        f"lr: 0.00050000, epoch_time: 45.2min\n"
    )


def run(
    data: bytes, cuts: list[int] | None = None, *, resume: bool = False
) -> tuple[list[dict[str, Any]], list[Event], ParseReport]:
    """Read bytes in these pieces; with `resume` a new reader goes on after every piece."""
    reader, batches, start = LogReader("test"), [], 0
    for cut in [*(cuts or []), len(data)]:
        batches += reader.feed(data[start:cut])
        start = cut
        if resume:
            state = json.loads(json.dumps(reader.state()))
            reader = LogReader("test", state=state)
            batches += reader.feed(data[state["offset"] : start])
    batches += reader.finish()
    rows = [row for batch in batches for row in batch.rows.to_pylist()]
    return rows, [event for batch in batches for event in batch.events], reader.report()


def plain(rows: list[dict[str, Any]]) -> list[dict[str, str]]:
    """Return rows comparable: without empty cells, NaN equal to itself."""
    return [{name: repr(value) for name, value in row.items() if value is not None} for row in rows]


def counted(report: ParseReport) -> tuple[Any, ...]:
    return (
        report.format, report.encoding, report.compression, report.lines, report.records, report.eval_records, report.ignored,
        report.unparsed, report.segments, report.notes, sorted(column.name for column in report.columns),
    )  # fmt: skip


MIXED = (
    "".join(canonical(1, step, f"{9 - step / 20:.4f}") for step in range(10, 101, 10))
    + "saving checkpoint to out/pretrain_512.pth\n"
    + canonical(2, 10, "nan")
    + "Epoch:[2/2](20/100), loss: 4.x, logits_loss: 4.1, aux_loss: 0.0, lr: 0.0001, epoch_time: 3.0min\n"
    + "\x1b[31mwarning\x1b[0m: slow\r\n  5%|▌    | 5/100 [00:01<00:20,  4.7it/s]\r 10%|█    | 10/100 [00:02<00:19,  4.7it/s]\n"
    + canonical(2, 30, "inf")
    + canonical(1, 10, "8.5")
).encode()
GENERIC = "".join(f"epoch={i // 4} it={i * 5} loss={3 - i / 10:.3f} lr=1e-{i % 4 + 3} grad={i}\n" for i in range(12)).encode()
ARROWS = "".join(
    f"[2024-03-05 10:20:{i:02d}] Step {i}/90 | Loss: {3 - i / 20:.2f} → {2.95 - i / 20:.2f} (Δ-0.05)\n"
    f"GPU-Util: {80 + i}% | Mem-Usage: 30GB/40GB | Power: 250W\nlr: 5.0e-5 → 4.9e-5 (warmup_steps=10)\n"
    "grad_norm: 1.5 | max_grad: 0.5\n"
    for i in range(1, 9)
).encode()
JSONL = b"".join(json.dumps({"step": i, "loss": 2.5, "lr": 1e-4}).encode() + b"\n" for i in range(30))
CSV = b"step,loss,lr\n" + b"".join(f"{i},{2.5 + i},0.001\n".encode() for i in range(30))
TEXTS = {"mixed": MIXED, "generic": GENERIC, "arrows": ARROWS, "jsonl": JSONL, "csv": CSV}


def test_the_canonical_line_gives_all_eight_values_R1() -> None:
    line = "Epoch:[1/2](1/1000), loss: 8.7523, logits_loss: 8.7501, aux_loss: 0.0022, lr: 0.00050000, epoch_time: 45.2min\n"
    (row,), _, report = run(line.encode())
    wanted = {"epoch": 1, "epochs": 2, "step_printed": 1, "steps_per_epoch": 1000, "loss": 8.7523, "logits_loss": 8.7501}
    wanted |= {
        "aux_loss": 0.0022,
        "lr": 0.0005,
        "epoch_time_minutes": 45.2,
        "line": 1,
        "kind": "train",
        "segment": 0,
        "step": 1,
    }
    assert {name: row[name] for name in wanted} == wanted
    assert (report.format, report.records, report.lines, report.ignored, report.unparsed_count) == ("minimind", 1, 1, 0, 0)


def test_the_global_step_is_monotonic_over_epochs_and_no_row_is_lost_R7() -> None:
    text = "".join(canonical(epoch, step, epochs=3) for epoch in (1, 2, 3) for step in range(1, 101))
    rows, _, report = run(text.encode())
    assert [row["step"] for row in rows] == list(range(1, 301))
    assert report.records == 300
    assert report.segments == 1


def test_epochs_from_zero_are_counted_from_zero() -> None:
    text = "".join(canonical(epoch, step, epochs=1) for epoch in (0, 1) for step in (50, 100))
    assert [row["step"] for row in run(text.encode())[0]] == [50, 100, 150, 200]


def test_the_schema_is_the_contract() -> None:
    reader = LogReader("test")
    (batch,) = reader.feed(MIXED) + reader.finish()
    assert batch.rows.schema.names[: len(ROW_SCHEMA)] == ROW_SCHEMA.names
    assert batch.rows.schema.types[: len(ROW_SCHEMA)] == ROW_SCHEMA.types
    assert {batch.rows.schema.field(name).type for name in batch.rows.schema.names[len(ROW_SCHEMA) :]} == {pa.float64()}


def test_the_report_is_exact_and_a_damaged_line_is_named_R28_R31() -> None:
    rows, events, report = run(MIXED)
    assert report.lines == MIXED.count(b"\n")
    assert report.records == 13
    assert [(one.line, one.text[:20], one.reason.render()) for one in report.unparsed] == [
        (13, "Epoch:[2/2](20/100),", "loss: 4.x is not a number")
    ]
    assert report.ignored == report.lines - 13 - 1
    assert [row["line"] for row in rows] == [*range(1, 11), 12, 16, 17]
    assert report.segments == 2
    assert [row["segment"] for row in rows] == [0] * 12 + [1]
    assert {event.kind for event in events} >= {"launch"}


def test_nan_and_inf_are_kept_and_a_missing_value_is_null_R27_R32() -> None:
    rows, _, _ = run(
        MIXED + b"Epoch:[1/2](20/100), loss: 7.5, lr: 0.0005, epoch_time: 44min, logits_loss: 7.5, aux_loss: 0.1\n"
    )
    assert math.isnan(rows[10]["loss"])
    assert rows[11]["loss"] == math.inf
    megatron = " iteration 1/ 9 | elapsed time per iteration (ms): 5.0 | learning rate: 0.1 | loss scale: 1.0 |\n"
    megatron += (
        " iteration 2/ 9 | elapsed time per iteration (ms): 5.0 | learning rate: 0.1 | lm loss: nan | loss scale: 1.0 |\n"
    )
    rows, _, _ = run(megatron.encode())
    assert rows[0]["loss"] is None
    assert math.isnan(rows[1]["loss"])


@pytest.mark.parametrize("name", TEXTS)
def test_byte_by_byte_gives_the_same_as_all_at_once(name: str) -> None:
    data = TEXTS[name]
    whole, by_byte = run(data), run(data, list(range(1, len(data))))
    assert plain(by_byte[0]) == plain(whole[0])
    assert by_byte[1] == whole[1]
    assert counted(by_byte[2]) == counted(whole[2])


@settings(max_examples=40, deadline=None)
@given(st.data())
def test_a_reader_that_stops_and_goes_on_reads_the_same(data: st.DataObject) -> None:
    text = TEXTS[data.draw(st.sampled_from(sorted(TEXTS)))]
    packed = data.draw(
        st.sampled_from([lambda raw: raw, gzip.compress, zstd.compress, lambda raw: raw.decode().encode("utf-16")])
    )(text)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(packed)), max_size=4)))
    whole, pieces = run(packed), run(packed, cuts, resume=True)
    assert plain(pieces[0]) == plain(whole[0])
    assert counted(pieces[2]) == counted(whole[2])
    assert plain(whole[0]) == plain(run(text)[0])


def test_the_last_line_waits_for_its_end() -> None:
    reader = LogReader("test")
    first = canonical(1, 10) + canonical(1, 20)
    assert sum(batch.rows.num_rows for batch in reader.feed(first.encode() + canonical(1, 30)[:50].encode())) == 2
    (batch,) = reader.feed(canonical(1, 30)[50:].encode())
    assert batch.rows["step"].to_pylist() == [30]
    assert reader.finish() == []


def test_a_cut_last_line_is_reported_not_read() -> None:
    _, _, report = run((canonical(1, 10) + canonical(1, 20)[:60]).encode())
    assert report.records == 1
    assert [one.line for one in report.unparsed] == [2]


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-16-be", "gb18030"])
@pytest.mark.parametrize("ends", ["\n", "\r\n"])
def test_encodings_and_line_ends(encoding: str, ends: str) -> None:
    text = ("开始训练，学习率 0.0005\n" if encoding == "gb18030" else "start\n") + canonical(1, 10) + canonical(1, 20)
    rows, _, report = run(text.replace("\n", ends).encode(encoding))
    assert [row["step"] for row in rows] == [10, 20]
    assert report.encoding == encoding.removesuffix("-sig") if encoding != "utf-16" else report.encoding == "utf-16-le"
    assert report.lines == 3


def test_latin_1_is_the_last_resort() -> None:
    rows, _, report = run("café à la carte\n".encode("latin-1") + canonical(1, 10).encode())
    assert report.encoding == "latin-1"
    assert len(rows) == 1


def test_a_lone_carriage_return_ends_a_line_but_not_its_number() -> None:
    text = "  1%| | 1/90 [00:01<00:20, 4.7it/s]\r  2%| | 2/90 [00:01<00:20, 4.7it/s]\n" + canonical(1, 10)
    rows, _, report = run(text.encode())
    assert rows[0]["line"] == 2
    assert report.lines == 2


def test_a_file_that_is_one_line_of_progress_bars_is_read_in_pieces() -> None:
    reader = LogReader("test")
    for i in range(3_000):
        reader.feed(f"\r {i // 30}%|    | {i}/3000 [00:01<00:20,  4.7it/s]".encode())
    reader.finish()
    assert reader.report().lines == 1
    assert len(json.dumps(reader.state())) < 200_000


@pytest.mark.parametrize("pack", [gzip.compress, zstd.compress])
def test_packed_logs_and_packed_logs_that_break_off(pack: Any) -> None:
    losses = random.Random(3)
    text = "".join(canonical(1, step, f"{losses.random():.9f}", of=40_000) for step in range(1, 40_001)).encode()
    packed = pack(text)
    rows, _, report = run(packed)
    assert len(rows) == 40_000
    assert report.compression in ("gzip", "zstd")
    rows, _, report = run(packed[: len(packed) * 2 // 3])
    assert 20_000 < len(rows) < 40_000
    assert any("damaged" in note.render() for note in report.notes)


@pytest.mark.parametrize("pack", [gzip.compress, zstd.compress])
def test_a_decompression_bomb_is_refused(pack: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("storage.reading.unpack.MAX_BYTES", 1 << 22)
    monkeypatch.setattr("storage.reading.unpack.MAX_RATIO", 10)
    with pytest.raises(UnreadableLog) as caught:
        run(pack(b"\n" * (1 << 24)))
    assert caught.value.code == "too_large"


@pytest.mark.parametrize(
    ("data", "code"),
    [
        (b"", "empty"),
        (b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR" + bytes(range(256)) * 8, "binary"),
        (b"\xff\xd8\xff\xe0" + bytes(200), "binary"),
        (b"PK\x03\x04" + bytes(range(200)), "binary"),
        (bytes(range(256)) * 40, "binary"),
        (bytes(5000), "binary"),
        (gzip.compress(b"some text that is packed\n" * 40, mtime=0)[:11], "truncated_archive"),
        (gzip.compress(b"", mtime=0), "empty"),
    ],
)
def test_what_is_no_log_is_refused_with_a_sentence(data: bytes, code: str) -> None:
    with pytest.raises(UnreadableLog) as caught:
        run(data)
    assert caught.value.code == code
    assert str(caught.value).endswith((".", "?"))


def test_zero_bytes_that_log_rotation_leaves_are_no_reason_to_refuse() -> None:
    rows, _, _ = run(bytes(3000) + b"\n" + canonical(1, 10).encode() + b"\0\0" + canonical(1, 20).encode())
    assert [row["step"] for row in rows] == [10, 20]


def test_a_very_long_line_is_cut_with_a_note_and_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decode, "LINE_LIMIT", 5000)
    data = canonical(1, 10).encode() + b"x" * 50_000 + b"\n" + canonical(1, 20).encode()
    whole, pieces = run(data), run(data, list(range(1, len(data), 777)))
    assert [row["step"] for row in whole[0]] == [10, 20]
    assert counted(whole[2]) == counted(pieces[2])
    assert "lines 2" in whole[2].notes[0].render()


@pytest.mark.parametrize(
    "text",
    [
        "def train(lr=0.0005):\n    loss = 0.5\n    step = 10\n" * 30,
        '{"role": "user", "content": "loss: 0.5 at step 3"}\n' * 30,
        "A loss of 0.5 at step 100 is fine, but at step 200 the loss must be 0.4.\n" * 30,
        "# Loss\n\n- step 1: read the data\n- step 2: loss is 3 times smaller\n- step 3: done\n",
        "batch_size: 32\nlearning_rate: 0.0005\nepochs: 3\nseed: 42\nwarmup_steps: 100\n",
        "Successfully installed torch-2.1.0 loss-0.5\npip 23.0 from /usr/lib (python 3.11)\n",
        Path(__file__).read_text(encoding="utf-8"),
        (Path(__file__).parents[2] / "README.md").read_text(encoding="utf-8"),
        (Path(__file__).parents[2] / "storage" / "reading" / "template.py").read_text(encoding="utf-8"),
    ],
)
def test_code_chats_prose_and_settings_give_no_metric(text: str) -> None:
    rows, _, report = run(text.encode())
    assert rows == []
    assert report.records == 0
    assert report.format is None


def test_a_log_behind_its_own_source_code_is_read() -> None:
    code = (Path(__file__).parents[2] / "storage" / "reading" / "segments.py").read_text(encoding="utf-8")
    log = "".join(f"step:{i}/90 train_loss:{4 - i / 30:.4f} train_time:{i * 250}ms step_avg:250.0ms\n" for i in range(1, 91))
    rows, _, report = run((code + log).encode())
    assert report.format == "modded-nanogpt"
    assert [row["step"] for row in rows] == list(range(1, 91))


def test_what_follows_a_record_goes_into_its_row_R13_R17() -> None:
    rows, _, _ = run(ARROWS)
    train = [row for row in rows if row["kind"] == "train"]
    telemetry = [row for row in rows if row["kind"] == "telemetry"]
    assert [row["step"] for row in train] == [row["step"] for row in telemetry] == list(range(1, 9))
    assert {(row["lr_before"], row["lr"], row["warmup_steps"], row["grad_norm"], row["max_grad"]) for row in train} == {
        (5e-5, 4.9e-5, 10, 1.5, 0.5)
    }
    assert telemetry[0]["gpu_utilization_percent"] == 81
    assert telemetry[0]["memory_total_bytes"] == 40 * 2**30


def test_a_log_without_steps_numbers_its_records_and_says_so() -> None:
    text = "".join(f"{{'loss': {3 - i / 10:.2f}, 'learning_rate': 0.001, 'epoch': {i / 10}}}\n" for i in range(1, 6))
    rows, _, report = run(text.encode())
    assert [row["step"] for row in rows] == [1, 2, 3, 4, 5]
    assert [row["step_printed"] for row in rows] == [None] * 5
    assert any("numbered" in note.render() for note in report.notes)


def test_a_step_that_falls_a_little_is_a_resume_and_far_a_launch() -> None:
    steps = [*range(10, 501, 10), *range(450, 601, 10), *range(10, 51, 10)]
    rows, events, report = run("".join(canonical(1, step, of=1000) for step in steps).encode())
    assert report.segments == 2
    assert [(event.kind, event.data["from"], event.data["to"]) for event in events] == [
        ("resume", 500, 450),
        ("launch", 600, 10),
    ]
    assert [row["segment"] for row in rows] == [0] * 66 + [1] * 5


def test_a_format_that_drifts_is_reported_with_its_line_R30() -> None:
    one = "".join(f"step={i} loss={3 - i / 50:.2f}\n" for i in range(1, 30))
    two = "".join(f"step={i} loss={3 - i / 50:.2f} grad_norm=1.5\n" for i in range(30, 60))
    rows, _, report = run((one + two).encode())
    assert len(rows) == 59
    assert any("line 30" in note.render() and "grad_norm" in note.render() for note in report.notes)


def test_two_names_for_one_column_never_meet_in_one_cell() -> None:
    text = "".join(f"step={i} loss={i}.5 train_loss={i}.25\n" for i in range(1, 9))
    rows, _, _ = run(text.encode())
    assert (rows[0]["loss"], rows[0]["train_loss"]) == (1.5, 1.25)


@settings(max_examples=150, deadline=None)
@given(st.binary(max_size=400))
def test_any_bytes_are_read_or_refused(data: bytes) -> None:
    refused, rows, report = None, [], None
    try:
        rows, _events, report = run(data)
    except UnreadableLog as error:
        refused = error
    assert (report is None) == (refused is not None)
    assert refused is None or (refused.code and len(str(refused)) > 30)
    if report is None:
        return
    assert report.records == sum(row["kind"] == "train" for row in rows)
    assert all(1 <= row["line"] <= report.lines for row in rows)


WORDS = st.sampled_from(
    ["Epoch:[1/2](3/9), ", "loss: ", "step ", "2.5", "nan", "\n", "\r", "{'loss': 1.5, 'epoch': 0.1}", '{"step": 1, "loss": 2}',
     ", ", "|", "=", "\x1b[1m", "iteration 3/ 9 | ", "lm loss: 1.0 |", "  5%|▌ | 5/100 [00:01<00:20,  4.7it/s]", "s:1 trl:2.5 ",
     "é", "\0", "1,2,3\n", "step,loss\n", "Traceback (most recent call last):\n", "2024-02-30 10:00:00 ", "1" * 40,
     "loss: 1e999, ", "\x85", "\u2028", "step:1/9 train_loss:", "step,metric,value\n", "10,loss,2.5\n10,lr,0.5\n", "{\n",
     '  "step": 10,\n', '  "loss": 2.5\n}\n', '{"step": 1, "name": "loss", "value": 2}\n', '{"loss": [1, 2, 3]', "}",
     "loss: 2.5\n", "Step 5:\n", "Timing:\n", "tensor(2.5, device='cuda:0')", "[  10/90]", "| 10/ 90 batches | ms/batch 5 ",
     'DLLL {"step": [0, 1], "data": {"loss": 2.5}}\n']
)  # fmt: skip


@settings(max_examples=150, deadline=None)
@given(st.lists(WORDS, max_size=40), st.data())
def test_pieces_of_logs_in_any_order_are_read_the_same_in_any_chunks(words: list[str], data: st.DataObject) -> None:
    text = "".join(words).encode()
    cuts = sorted(data.draw(st.lists(st.integers(0, len(text)), max_size=5)))
    try:
        whole = run(text)
    except UnreadableLog as refused:
        with pytest.raises(UnreadableLog, match=re.escape(str(refused))):
            run(text, cuts)
        return
    pieces = run(text, cuts)
    assert plain(pieces[0]) == plain(whole[0])
    assert counted(pieces[2]) == counted(whole[2])


FORMS = ["minimind", "pairs", "megatron", "jsonl", "csv"]
FLOATS = st.one_of(st.floats(allow_nan=True, allow_infinity=True), st.floats(-1e4, 1e4).map(lambda x: round(x, 4)))


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.tuples(FLOATS, FLOATS, FLOATS), min_size=3, max_size=12),
    st.sampled_from(["minimind", "pairs", "megatron", "jsonl", "csv"]),
)
def test_a_printed_record_reads_back_exactly(values: list[tuple[float, float, float]], form: str) -> None:
    forms = {
        "minimind": lambda i, a, b, c: (
            f"Epoch:[1/1]({i}/99), loss: {a}, logits_loss: {b}, aux_loss: {c}, lr: 1e-5, epoch_time: 1.5min"
        ),
        "pairs": lambda i, a, b, c: f"step={i} loss={a} logits_loss={b} aux_loss={c}",
        "megatron": lambda i, a, b, c: (
            f" iteration {i}/ 99 | learning rate: {i}E-05 | lm loss: {a} | logits_loss: {b} | aux_loss: {c} |"
        ),
        "jsonl": lambda i, a, b, c: json.dumps({"step": i, "loss": a, "logits_loss": b, "aux_loss": c}),
        "csv": lambda i, a, b, c: f"{i},{a},{b},{c}",
    }
    text = "step,loss,logits_loss,aux_loss\n" if form == "csv" else ""
    text += "".join(forms[form](i + 1, *value) + "\n" for i, value in enumerate(values))
    rows, _, report = run(text.encode())
    assert report.records == len(values)
    got = [(row.get("loss"), row.get("logits_loss"), row.get("aux_loss")) for row in rows]
    assert repr(got) == repr(values)


@pytest.mark.logs
@pytest.mark.parametrize("name", ["007", "020", "016", "105", "133", "155", "210", "221"])
def test_real_logs_give_the_same_rows_in_any_chunks(name: str) -> None:
    found = list(LOGS.glob(f"{name}-*"))
    if not found:
        pytest.skip("no real logs beside the repository")
    data = found[0].read_bytes()
    whole = run(data)
    pieces = run(data, list(range(3, len(data), max(1, len(data) // 23))), resume=True)
    assert plain(pieces[0]) == plain(whole[0])
    assert counted(pieces[2]) == counted(whole[2])


def test_read_file_reads_what_a_reader_reads(tmp_path: Path) -> None:
    path = tmp_path / "train.log"
    path.write_bytes(MIXED)
    result = read_file(path)
    assert plain(result.rows.to_pylist()) == plain(run(MIXED)[0])
    assert counted(result.report) == counted(run(MIXED)[2])
