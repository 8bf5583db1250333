"""Structured containers: what is read, what is reported, and that nothing damaged or hostile gets through in silence."""

import json
import math
import os
import time
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from storage.reading.containers import CONTAINERS, Delimited, HfDict, JsonLines, TrainerState
from storage.reading.containers.values import to_numbers
from storage.types import UnreadableLog

LOGS = Path(os.environ.get("RUNVITALS_SHARED_LOGS", Path(__file__).resolve().parents[3] / "shared" / "logs"))


def rows_of(container: type, text: str | bytes, pieces: int = 1) -> tuple[list[dict], list]:
    """Feed the text in so many pieces of whole lines; return the rows and the problems."""
    reader = container()
    lines = (text.encode() if isinstance(text, str) else text).splitlines(keepends=True)
    size = max(1, -(-len(lines) // pieces))
    tables = [reader.feed(b"".join(lines[at : at + size]), at + 1) for at in range(0, len(lines), size)]
    tables = [table for table in [*tables, reader.finish()] if table is not None]
    for table in tables:
        assert table.schema.field("line").type == pa.int64()
        assert all(field.type in (pa.float64(), pa.string()) for field in table.schema if field.name != "line")
    return [row for table in tables for row in table.to_pylist()], reader.problems


class TestJsonLines:
    def test_reads_values_with_their_lines(self):
        rows, problems = rows_of(JsonLines, '{"step": 1, "loss": 2.5}\n\n{"step": 2, "loss": null}\n')
        assert rows == [{"line": 1, "step": 1.0, "loss": 2.5}, {"line": 3, "step": 2.0, "loss": None}]
        assert problems == []

    def test_keeps_non_finite_numbers(self):
        rows, _ = rows_of(
            JsonLines, '{"step": 1, "loss": NaN}\n{"step": 2, "loss": -Infinity}\n{"step": 3, "loss": Infinity}\n'
        )
        assert math.isnan(rows[0]["loss"])
        assert [row["loss"] for row in rows[1:]] == [-math.inf, math.inf]

    def test_non_finite_numbers_survive_the_quick_path_too(self):
        lines = [f'{{"step": {n}, "loss": {"NaN" if n % 2 else "1e400"}}}' for n in range(500)]
        rows, problems = rows_of(JsonLines, "\n".join(lines) + "\n")
        assert len(rows) == 500
        assert problems == []
        assert all(math.isnan(row["loss"]) if n % 2 else row["loss"] == math.inf for n, row in enumerate(rows))

    @pytest.mark.parametrize("copies", [1, 300])
    def test_reads_numbers_printed_as_text(self, copies):
        line = (
            '{"at": "7/90", "share": "2.28%", "took": "51s", "left": "36m 53s", "loss": "3.412", "clock": "2 days, 1:02:03"}\n'
        )
        rows, problems = rows_of(JsonLines, line * copies)
        assert rows[-1] == {
            "line": copies,
            "at": 7.0,
            "at_total": 90.0,
            "share": 2.28,
            "took": 51.0,
            "left": 2213.0,
            "loss": 3.412,
            "clock": 2 * 86400 + 3723.0,
        }
        assert problems == []

    def test_reports_what_stands_between_the_rows(self):
        text = '{"step": 1, "loss": 2}\nnoise\n{"step": 2, "loss": \n{"step": 3, "loss": 1}\n{"step": 4,, "loss": 1}\n'
        rows, problems = rows_of(JsonLines, text)
        assert [row["line"] for row in rows] == [1, 4]
        assert sorted(problem.line for problem in problems) == [2, 3, 5]
        assert {problem.text for problem in problems} >= {"noise", '{"step": 2, "loss":'}

    def test_in_a_console_log_only_half_objects_are_reported(self):
        text = "starting\nloading data\nwarning: {slow}\n" * 5 + '{"step": 1, "loss": 2}\n{"step": 2, "lo\n'
        rows, problems = rows_of(JsonLines, text)
        assert [row["step"] for row in rows] == [1.0]
        assert [problem.line for problem in problems] == [17]

    def test_reads_objects_behind_a_prefix_with_their_time(self):
        text = '[2031-04-08 18:48:05,372][train_inner][INFO] - {"loss": "9.2", "num_updates": "200"}\nepoch done\n'
        rows, problems = rows_of(JsonLines, text)
        assert rows == [{"line": 1, "loss": 9.2, "num_updates": 200.0, "timestamp": "2031-04-08 18:48:05,372"}]
        assert problems == []

    def test_flattens_nested_objects_and_short_lists(self):
        rows, _ = rows_of(JsonLines, '{"step": 1, "time": {"data": 0.1, "gpu": {"mean": 2}}, "lr": [0.5], "b": [1, 2]}\n' * 200)
        assert rows[150] == {
            "line": 151,
            "step": 1.0,
            "time/data": 0.1,
            "time/gpu/mean": 2.0,
            "lr": 0.5,
            "b/0": 1.0,
            "b/1": 2.0,
        }

    def test_follows_a_schema_that_drifts(self):
        lines = [{"step": n, "loss": 1.0} if n < 300 else {"step": n, "loss": "2.5", "lr": 0.1} for n in range(600)]
        rows, problems = rows_of(JsonLines, "\n".join(map(json.dumps, lines)) + "\n", pieces=3)
        assert [row["loss"] for row in rows] == [1.0] * 300 + [2.5] * 300
        assert rows[-1]["lr"] == 0.1
        assert problems == []

    def test_alternating_rows_with_equally_many_keys(self):
        lines = [{"step": n, "loss": 1.0} if n % 2 else {"step": n, "eval_accuracy": 0.5} for n in range(1000)]
        rows, problems = rows_of(JsonLines, "\n".join(map(json.dumps, lines)) + "\n")
        assert [row["step"] for row in rows] == list(range(1000))
        assert all((row["loss"] is None) != (row["eval_accuracy"] is None) for row in rows)
        assert problems == []

    def test_a_late_key_is_never_lost(self):
        lines = ['{"step": 1, "loss": 2}'] * 400 + ['{"step": 1, "loss": 2, "grad_norm" : 7}']
        rows, _ = rows_of(JsonLines, "\n".join(lines) + "\n")
        assert rows[-1]["grad_norm"] == 7.0

    def test_text_that_holds_keys_stays_text(self):
        line = json.dumps({"step": 1, "loss": 2.0, "note": 'say "loss": 5, "x": 1'}) + "\n"
        rows, problems = rows_of(JsonLines, line * 200)
        assert len(rows) == 200
        assert all(row["loss"] == 2.0 and set(row) == {"line", "step", "loss", "note"} for row in rows)
        assert problems == []

    @pytest.mark.parametrize(
        "bomb",
        ['{"a":' * 5000 + "1" + "}" * 5000, "[" * 100_000, '{"loss": ' + "9" * 5000 + "}", '{"a": "' + "x" * (2 << 20) + '"}'],
    )
    def test_bombs_become_problems(self, bomb):
        rows, problems = rows_of(JsonLines, f'{{"step": 1, "loss": 2}}\n{bomb}\n{{"step": 2, "loss": 2}}\n')
        assert [row["step"] for row in rows] == [1.0, 2.0]
        assert [problem.line for problem in problems] == [2]
        assert len(problems[0].text) <= 300

    def test_a_block_with_a_new_key_on_each_line_stays_small(self):
        table = JsonLines().feed(b"".join(b'{"loss%d": 1}\n' % n for n in range(30_000)), 1)
        assert table is not None
        assert table.num_columns * table.num_rows <= 16_100_000

    def test_goes_on_from_its_state(self):
        first = JsonLines()
        first.feed(b'{"step": 1, "took": "5s"}\n', 1)
        second = JsonLines()
        second.restore(json.loads(json.dumps(first.state())))
        assert second.feed(b'{"step": 2, "took": "1m 5s"}\n', 2).to_pylist() == [{"line": 2, "step": 2.0, "took": 65.0}]

    @pytest.mark.parametrize(
        ("sample", "sure"),
        [
            ('{"step": 1, "loss": 2}\n{"step": 2, "loss": 1}\n', True),
            ('{"current_steps": "3/7", "lr": "1e-5"}\n', True),
            ('{"messages": [{"role": "user", "content": "loss?"}], "id": 7}\n' * 5, False),
            ('{"text": "the loss was 5", "id": 4}\n' * 5, False),
            (':::MLLOG {"key": "loss", "value": 1, "step": 4}\n' * 5, False),
            ('x = {"loss": 1}\nif loss > {"a"}: pass\n', False),
            ("", False),
        ],
    )
    def test_scores(self, sample, sure):
        assert (JsonLines.score(sample.encode()) >= 0.5) is sure

    @settings(max_examples=40, deadline=None)
    @given(
        st.lists(
            st.dictionaries(
                st.sampled_from(["step", "loss", "lr", "a b", "ü/x"]),
                st.one_of(st.none(), st.integers(-(10**15), 10**15), st.floats(allow_nan=True, allow_infinity=True)),
                min_size=1,
            ),
            min_size=1,
            max_size=150,
        )
    )
    def test_reads_back_what_python_prints(self, records):
        rows, problems = rows_of(JsonLines, "".join(json.dumps(record) + "\n" for record in records))
        assert problems == []
        for row, record in zip(rows, records, strict=True):
            for key, value in record.items():
                assert row[key] is None if value is None else row[key] == value or math.isnan(value) and math.isnan(row[key])


class TestDelimited:
    def test_header_units_blank_lines_and_crlf(self):
        text = "step,  gpu use [%] , memory.used [MiB], name\r\n\r\n 1, 50 %, 1 GiB, A\r\n2, 51 %, 2048 MiB, B\r\n"
        rows, problems = rows_of(Delimited, text)
        assert rows == [
            {"line": 3, "step": 1.0, "gpu use [%]": 50.0, "memory.used [MiB]": 1024.0, "name": "A"},
            {"line": 4, "step": 2.0, "gpu use [%]": 51.0, "memory.used [MiB]": 2048.0, "name": "B"},
        ]
        assert problems == []

    def test_empty_cells_are_null_and_steps_may_repeat(self):
        rows, _ = rows_of(Delimited, "epoch,step,train_loss,val_loss\n0,49,,\n0,49,7.5,\n0,49,,7.1\n")
        assert [(row["train_loss"], row["val_loss"]) for row in rows] == [(None, None), (7.5, None), (None, 7.1)]

    def test_wrong_cells_are_problems_and_never_shift(self):
        text = (
            "step,loss,note\n" + "".join(f"{n},1.5,ok\n" for n in range(1, 20)) + '20,1.5\n21,1.5,ok,9\n22,abc,ok\n23,1.5,"ok\n'
        )
        rows, problems = rows_of(Delimited, text)
        assert [problem.line for problem in sorted(problems)] == [21, 22, 23, 24]
        assert [row["step"] for row in rows] == [*range(1, 20), 22.0]
        assert rows[-1]["loss"] is None

    def test_two_wrong_lines_that_even_out(self):
        text = "step,loss,lr\n" + "1,2,3\n" * 50
        rows, problems = rows_of(Delimited, text + "1,2,3\n1,2\n1,2,3,4\n1,2,3\n", pieces=2)
        assert [problem.line for problem in problems] == [53, 54]
        assert len(rows) == 52

    def test_quotes(self):
        rows, problems = rows_of(Delimited, 'step,note,loss\n1,"a, b",2.5\n2,"say ""x"", y",2\n3,plain,1\n')
        assert [row["note"] for row in rows] == ["a, b", 'say "x", y', "plain"]
        assert problems == []

    def test_non_finite(self):
        rows, _ = rows_of(Delimited, "step,loss\n1,nan\n2,inf\n3,-inf\n4,1e-5\n")
        assert math.isnan(rows[0]["loss"])
        assert [row["loss"] for row in rows[1:]] == [math.inf, -math.inf, 1e-5]

    @pytest.mark.parametrize("delimiter", [",", "\t", ";", "  "])
    def test_delimiters(self, delimiter):
        text = "".join(delimiter.join(cells) + "\n" for cells in (("step", "loss"), ("1", "2.5"), ("2", "2.25")))
        rows, _ = rows_of(Delimited, text)
        assert rows == [{"line": 2, "step": 1.0, "loss": 2.5}, {"line": 3, "step": 2.0, "loss": 2.25}]

    def test_a_tab_leaves_leading_and_trailing_cells_empty(self):
        rows, problems = rows_of(Delimited, "step\tloss\tnote\n1\t2.5\t\n\t2.4\thello\n3\t2.2\tx\n")
        assert [(row["step"], row["note"]) for row in rows] == [(1.0, None), (None, "hello"), (3.0, "x")]
        assert problems == []

    @pytest.mark.parametrize(("losses", "name"), [((9.5, 8.1, 7.2, 6.6), "loss"), ((0.1, 0.4, 0.8, 0.9), "value")])
    def test_bare_columns_of_numbers(self, losses, name):
        rows, _ = rows_of(Delimited, "".join(f"{10 * n},{loss}\n" for n, loss in enumerate(losses, 1)))
        assert rows[0] == {"line": 1, "step": 10.0, name: losses[0]}

    def test_repeated_and_changed_headers(self):
        text = "step,loss\n1,5\n2,4\nstep,loss\n1,5\nstep,loss,lr\n2,4,0.1\n"
        rows, problems = rows_of(Delimited, text)
        assert [(row["line"], row["step"]) for row in rows] == [(2, 1.0), (3, 2.0), (5, 1.0), (7, 2.0)]
        assert rows[-1]["lr"] == 0.1
        assert problems == []

    def test_goes_on_from_its_state(self):
        first = Delimited()
        first.feed(b"step,use\n1,5 %\n", 1)
        second = Delimited()
        second.restore(json.loads(json.dumps(first.state())))
        assert second.feed(b"2,6 %\n", 3).to_pylist() == [{"line": 3, "step": 2.0, "use": 6.0}]

    @pytest.mark.parametrize(
        ("sample", "sure"),
        [
            ("step,loss\n1,2\n2,1\n", True),
            ("Hello, world\nthis is, a text\nwith some, commas\n", False),
            ("name,city\nA,B\nC,D\n", False),
            ("def f(a, b):\n    return a, b\n\nx, y = 1, 2\n", False),
            ("loss 3 is, what\nwe got, 5\n", False),
            ("", False),
            ("\n\n\n", False),
        ],
    )
    def test_scores(self, sample, sure):
        assert (Delimited.score(sample.encode()) >= 0.5) is sure


BAR = " {percent:3d}%|{fill:10}| {step}/{total} [00:10<01:00,  1.51s/it]"


def bar(step: int, total: int) -> str:
    return BAR.format(percent=100 * step // total, fill="#" * (10 * step // total), step=step, total=total)


class TestHfDict:
    def test_step_from_the_bar_before_on_lines_of_its_own(self):
        text = "".join(f"{bar(n, 50)}\n{{'loss': {5 - n / 10}, 'epoch': {n / 25}}}\n" for n in (5, 10, 15))
        rows, problems = rows_of(HfDict, text)
        assert [(row["line"], row["step"], row["total_steps"]) for row in rows] == [(2, 5, 50), (4, 10, 50), (6, 15, 50)]
        assert problems == []

    def test_bars_with_carriage_returns_keep_the_line_number(self):
        text = "".join(
            "\r".join(["", bar(n - 1, 50), bar(n, 50), " " * 40, f"{{'loss': 1.5, 'epoch': {n / 25}}}\n"]) for n in (5, 10)
        )
        rows, _ = rows_of(HfDict, text)
        assert [(row["line"], row["step"]) for row in rows] == [(1, 5.0), (2, 10.0)]

    def test_a_bar_that_belongs_to_the_next_block(self):
        rows, _ = rows_of(
            HfDict, f"{bar(5, 50)}\n{{'loss': 1.5, 'epoch': 0.1}}\n{bar(10, 50)}\n{{'loss': 1.4, 'epoch': 0.2}}\n", pieces=4
        )
        assert [row["step"] for row in rows] == [5.0, 10.0]

    def test_evaluation_and_summary(self):
        text = (
            f"{bar(10, 50)}\n{{'loss': 2.0, 'learning_rate': 1e-05, 'epoch': 1.0}}\n{bar(3, 3)}\n"
            "{'eval_loss': 1.9, 'eval_runtime': 3.5, 'epoch': 1.0}\n"
            "{'train_runtime': 99.5, 'train_samples_per_second': 2.5, 'train_loss': 2.0, 'epoch': 1.0}\n"
        )
        rows, _ = rows_of(HfDict, text)
        assert [(row["kind"], row["step"], row["total_steps"]) for row in rows] == [
            ("train", 10.0, 50.0),
            ("eval", 10.0, 50.0),
            ("summary", 10.0, 50.0),
        ]

    def test_the_bar_tells_the_time_since_the_start_and_the_time_left(self):
        text = (
            "  2%|▏         | 1/50 [01:05<53:05, 65.0s/it]\n{'loss': 1.5, 'epoch': 0.1}\n"
            "  4%|▍         | 2/50 [26:01:10<?, 65.0s/it]\n{'loss': 1.4, 'epoch': 0.2}\n{'eval_loss': 1.3, 'epoch': 0.2}\n"
        )
        rows, _ = rows_of(HfDict, text, pieces=3)
        assert [row.get("elapsed_seconds") for row in rows] == [65.0, 93670.0, None]
        assert [row.get("remaining_seconds") for row in rows] == [3185.0, None, None]

    def test_labelled_bars_are_not_steps(self):
        rows, _ = rows_of(HfDict, "Map:  50%|#####     | 500/1000 [00:01<00:01, 500 examples/s]\n{'loss': 2.0, 'epoch': 0.1}\n")
        assert "step" not in rows[0] or rows[0]["step"] is None

    def test_steps_of_a_buffered_stream_are_not_believed(self):
        dicts = [f"{{'loss': 2.0, 'epoch': {n / 100}}}\n" for n in range(1, 41)]
        text = (
            "".join(f"{bar(10 * n, 400)}\n" for n in range(1, 21))
            + "".join(dicts[:20])
            + f"{bar(400, 400)}\n"
            + "".join(dicts[20:])
        )
        rows, _ = rows_of(HfDict, text)
        assert len(rows) == 40
        assert all(row["step"] is None for row in rows)

    @pytest.mark.parametrize("copies", [1, 200])
    def test_python_values(self, copies):
        line = "{'loss': nan, 'grad_norm': np.float64(inf), 'kl': tensor(0.5, device='cuda:0'), 'lr': '1.07e-05', "
        line += "'x': None, 'y': True}\n"
        rows, problems = rows_of(HfDict, line * copies)
        assert problems == []
        assert math.isnan(rows[-1]["loss"])
        assert rows[-1] | {"loss": 0} == {
            "line": copies,
            "loss": 0,
            "grad_norm": math.inf,
            "kl": 0.5,
            "lr": 1.07e-05,
            "x": None,
            "y": 1.0,
            "kind": "train",
        }

    def test_prefixes_and_a_cut_dict(self):
        text = "[INFO|callbacks.py:310] 2031-01-01 >> {'loss': 1.5, 'learning_rate': 2e-05, 'epoch': 0.1}\n"
        text += "{'loss': 1.4, 'learning_\n"
        rows, problems = rows_of(HfDict, text)
        assert [row["loss"] for row in rows] == [1.5]
        assert [problem.line for problem in problems] == [2]

    @pytest.mark.parametrize(
        "line",
        [
            "{'learning_rate': 0.001, 'epochs': 10, 'batch_size': 32}",
            "config.py: zero {'stage': 2, 'loss_scale': 0}",
            "[INFO] amp_params ... {'loss_scale': 1024, 'window': 5}",
            "print({'loss': loss, 'epoch': epoch})",
            "    metrics = {'loss': 0.5}",
            "{'localhost': [0, 1, 2]}",
        ],
    )
    def test_near_misses(self, line):
        assert rows_of(HfDict, line + "\n") == ([], [])
        assert HfDict.score(line.encode()) < 0.5


STATE = """{
  "best_metric": null,
  "epoch": 1.0,
  "log_history": [
    {
      "epoch": 0.5,
      "loss": 2.5,
      "step": 10
    },
    {
      "epoch": 1.0,
      "eval_loss": NaN,
      "step": 20
    },
    {
      "epoch": 1.0,
      "train_runtime": 7.5,
      "step": 20
    }
  ],
  "max_steps": 40,
  "num_train_epochs": 2,
  "trial_name": null
}
"""


class TestTrainerState:
    @pytest.mark.parametrize("pieces", [1, 7, 100])
    def test_every_entry_with_its_line(self, pieces):
        rows, problems = rows_of(TrainerState, STATE, pieces)
        assert [(row["line"], row["kind"], row["step"], row["total_steps"]) for row in rows] == [
            (5, "train", 10.0, 40.0),
            (10, "eval", 20.0, 40.0),
            (15, "summary", 20.0, 40.0),
        ]
        assert math.isnan(rows[1]["eval_loss"])
        assert problems == []

    def test_the_plan_is_configuration(self):
        reader = TrainerState()
        reader.feed(STATE.encode(), 1)
        reader.finish()
        assert reader.config == {"max_steps": 40, "num_train_epochs": 2}

    def test_on_one_line_and_cut(self):
        flat = STATE.replace("\n", " ")
        assert len(rows_of(TrainerState, flat)[0]) == 3
        rows, problems = rows_of(TrainerState, flat[: flat.index("train_runtime")])
        assert [row["step"] for row in rows] == [10.0, 20.0]
        assert [problem.reason.render() for problem in problems] == ["the document ends within its history"]

    def test_damage_inside_loses_only_that_entry(self):
        rows, problems = rows_of(TrainerState, STATE.replace('"eval_loss": NaN', '"eval_loss": ???'))
        assert [row["kind"] for row in rows] == ["train", "summary"]
        assert [problem.line for problem in problems] == [10]

    def test_absurd_documents_are_refused(self):
        with pytest.raises(UnreadableLog, match="nested too deeply"):
            rows_of(TrainerState, '{"log_history": [{"a": ' + "[" * 200_000 + "\n")
        with pytest.raises(UnreadableLog, match="no log entry"):
            rows_of(TrainerState, '{"log_history": [{"a": "' + "x" * (2 << 20))

    def test_scores(self):
        assert TrainerState.score(STATE.encode()) >= 0.9
        assert TrainerState.score(b'[\n {"step": 1, "loss": 2},\n {"step": 2, "loss": 1}\n]\n') >= 0.5
        assert TrainerState.score(b'{"model": "x", "lr": 0.1}\n') == 0.0


class TestValues:
    @pytest.mark.parametrize(
        ("texts", "values", "unit"),
        [
            (["1,234.5", "nan", None, "x", "-"], [1234.5, math.nan, None, None, None], ""),
            (["32768 MiB", "1 GiB", "5 B"], [32768 * 2.0**20, 2.0**30, 5.0], "B"),
            (["0:01:03", "100:00:01", "12:59:59"], [63.0, 360_001.0, 46_799.0], "s"),
            (["1h 2m", "2d 3h", "45 s", "12ms", "1:02"], [3720.0, 183_600.0, 45.0, 0.012, 62.0], "s"),
            (["np.float64(0.25)", "tensor(1.5, device='cuda:0')", "7B"], [0.25, 1.5, 7e9], ""),
            (["124.0K", "3.5M"], [124_000.0, 3_500_000.0], ""),
            (["9.5 tok/s", "8 tok/s"], [9.5, 8.0], "tok/s"),
            (["12 June", "2031-01-02 03:04:05", "train"], [None, None, None], ""),
        ],
    )
    def test_reads(self, texts, values, unit):
        read = to_numbers(pa.array(texts, pa.string()))
        assert [str(value) for value in read.values.to_pylist()] == [str(value) for value in values]
        assert read.unit == unit

    def test_a_unit_in_the_name_is_kept(self):
        assert to_numbers(pa.array(["20.5ms", "1 s"]), name="dt_ms").values.to_pylist() == [20.5, 1000.0]


@pytest.mark.parametrize("container", CONTAINERS)
class TestContract:
    @settings(max_examples=60, deadline=None)
    @given(data=st.binary(max_size=400))
    def test_any_bytes_are_read_without_an_exception(self, container, data):
        assert 0.0 <= container.score(data) <= 1.0
        rows_of(container, data.decode("utf-8", "replace").encode())

    @settings(max_examples=60, deadline=None)
    @given(text=st.text(alphabet="{}[]\"':,.0123456789eE-+ \n\r\tlosnaif%/|#", max_size=200))
    def test_anything_that_looks_structured_too(self, container, text):
        assert 0.0 <= container.score(text.encode()) <= 1.0
        rows_of(container, text)

    def test_a_long_line_costs_linear_time(self, container):
        for filler in (b"{'loss': ", b'{"loss": 1, ', b"1,", b"[", b"' ", b" | "):
            began = time.process_time()
            rows, _problems = rows_of(container, filler * 40_000 + b"\n")
            assert len(rows) <= 1
            assert time.process_time() - began < 20  # quadratic would be minutes


@pytest.mark.logs
@pytest.mark.skipif(not LOGS.is_dir(), reason="the logs beside the repository are absent")
@pytest.mark.parametrize(
    ("name", "container", "records", "first", "last"),
    [
        ("050-trainer_log.jsonl", JsonLines, 2380, 3.9862, 0.0018),
        ("055-trainer_log.jsonl", JsonLines, 202, 0.6491, 0.4962),
        ("133-train_log.jsonl", JsonLines, 1989, 7.10175, 2.16813),
        ("205-ivlabs-output.log", JsonLines, 3, 7.128603458404541, 154.7353515625),
        ("155-gptlab-metrics.csv", Delimited, 44, 10.8258, 3.1022),
        ("053-result_WebQSP_ChatGLMv2_lora_epoch100.txt", HfDict, 3958, 2.8911, 0.0017),
        ("100-sft.log", HfDict, 49, 4.8797, 4.482),
        ("102-dpo.log", HfDict, 1, 0.6931, 0.6931),
        ("145-llamafactory-train.out", HfDict, 24, 1.5071, 1.0447),
        ("105-trainer_state.json", TrainerState, 16, 0.6922, 0.6804),
    ],
)
def test_real_logs(name, container, records, first, last):
    data = (LOGS / name).read_bytes()
    assert container.score(data) >= 0.5
    losses = [row["loss"] for row in rows_of(container, data, pieces=3)[0] if row.get("loss") is not None]
    assert (len(losses), losses[0], losses[-1]) == (records, first, last)
