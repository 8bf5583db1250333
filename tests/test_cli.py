"""The command line: keys and exit codes that scripts rely on (docs/cli.md)."""

import gzip
import json
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from cli import cli
from commands.common import Verbs

ROOT = Path(__file__).resolve().parent.parent
CANONICAL = "Epoch:[1/2](1/1000), loss: 8.7523, logits_loss: 8.7501, aux_loss: 0.0022, lr: 0.00050000, epoch_time: 45.2min\n"
READ_KEYS = {
    *("format", "encoding", "lines", "records", "first_step", "last_step", "first_loss", "last_loss"),
    *("segments", "columns", "config", "events", "unparsed"),
}
FINDING_KEYS = {"class", "severity", "segment", "first_step", "last_step", "title", "evidence", "causes", "advice"}


def run(*arguments: object) -> tuple[int, dict]:
    result = CliRunner().invoke(cli, [*map(str, arguments), "--json"])
    return result.exit_code, json.loads(result.stdout)


def canonical_log(folder: Path, losses: list[str], name: str = "run.log") -> Path:
    line = "Epoch:[1/1]({i}/{n}), loss: {x}, logits_loss: {x}, aux_loss: 0.0000, lr: 0.00050000, epoch_time: 1.0min\n"
    (folder / name).write_text("".join(line.format(i=i, n=len(losses), x=x) for i, x in enumerate(losses, 1)))
    return folder / name


def test_read_gives_all_eight_values_of_the_canonical_line_R1(tmp_path):
    (tmp_path / "one.log").write_text(CANONICAL)
    code, answer = run("read", tmp_path / "one.log")
    assert code == 0
    assert answer.keys() >= READ_KEYS
    values = {name: column["first"] for name, column in answer["columns"].items()}
    assert [values[name] for name in ("epoch", "epochs", "step", "steps_per_epoch")] == [1, 2, 1, 1000]
    assert [values[name] for name in ("loss", "logits_loss", "aux_loss", "lr", "epoch_time_minutes")] == [
        *(8.7523, 8.7501, 0.0022),
        *(0.0005, 45.2),
    ]
    assert (answer["records"], answer["first_step"], answer["first_loss"]) == (1, 1, 8.7523)
    assert answer["columns"]["lr"]["printed"] == "lr"


def test_two_epochs_give_a_monotonic_global_step_and_lose_no_row_R7(tmp_path):
    path = tmp_path / "two.log"
    path.write_text("".join(CANONICAL.replace("[1/2](1/", f"[{e}/2]({s}/") for e in (1, 2) for s in range(1, 1001)))
    _, answer = run("read", path)
    assert (answer["records"], answer["first_step"], answer["last_step"], answer["segments"]) == (2000, 1, 1000, 1)
    step = answer["columns"]["step"]
    assert (step["first"], step["last"], step["max"], step["count"]) == (1, 2000, 2000, 2000)


def test_a_nan_survives_into_the_json_R32(tmp_path):
    _, answer = run("read", canonical_log(tmp_path, ["3.1", "nan", "inf", "2.9"]))
    assert answer["columns"]["loss"]["nonfinite"] == 2
    assert answer["columns"]["loss"]["count"] == 4


@pytest.mark.parametrize(
    ("content", "word"), [(b"", "empty"), (b"\x89PNG\r\n\x1a\n" + bytes(range(256)) * 40, "binary"), (bytes(4000), "binary")]
)
def test_what_is_no_log_exits_3_with_a_sentence_and_is_never_healthy(tmp_path, content, word):
    (tmp_path / "x.log").write_bytes(content)
    code, answer = run("check", tmp_path / "x.log")
    assert (code, answer["verdict"], answer["error"]) == (3, "unreadable", word)
    assert len(answer["message"]) > 30


def test_what_a_log_does_not_say_is_told_in_words(tmp_path):
    (tmp_path / "a.log").write_text("step: 1, loss: 3.0\n")
    (tmp_path / "b.csv").write_text("timestamp,power.draw [W]\n2024/05/06 10:00:00.000,250.1\n2024/05/06 10:00:01.000,251.0\n")
    said = CliRunner().invoke(cli, ["read", str(tmp_path / "a.log")]).stdout
    assert "1 line, 1 training record, 0 evaluations, 1 launch, 0 lines not understood\n  steps 1 to 1, loss 3.0 to 3.0" in said
    said = CliRunner().invoke(cli, ["read", str(tmp_path / "b.csv")]).stdout
    assert "no steps printed, no training loss printed" in said
    assert "None" not in said


def test_a_text_without_a_metric_is_unreadable(tmp_path):
    (tmp_path / "prose.log").write_text("Dear diary,\ntoday we trained nothing at all.\n" * 20)
    code, answer = run("check", tmp_path / "prose.log")
    assert (code, answer["verdict"], answer["findings"]) == (3, "unreadable", [])


def test_check_says_that_a_packed_file_breaks_off(tmp_path):
    whole = gzip.compress(canonical_log(tmp_path, [f"{3 - i / 500:.4f}" for i in range(900)]).read_bytes())
    (tmp_path / "cut.log.gz").write_bytes(whole[:-400])
    _, answer = run("check", tmp_path / "cut.log.gz")
    assert any("breaks off" in note for note in answer["notes"])


def test_check_says_of_which_lines_the_verdict_says_nothing(tmp_path):
    lines = [f"step {n} loss {3 - n / 500:.4f} lr 3.0e-04" for n in range(1, 101)]
    lines[50] = "WARNING a non-finite loss nan at step 51, the batch is skipped because of that"
    (tmp_path / "words.log").write_text("\n".join(lines) + "\n")
    _, answer = run("check", tmp_path / "words.log")
    assert any("not understood: 1, the first is line 51" in note for note in answer["notes"])


def test_check_is_healthy_on_the_healthy_sample_and_sick_on_the_sick_one():
    assert run("check", ROOT / "samples/healthy-pretrain.log")[0] == 0
    code, answer = run("check", ROOT / "samples/lr-jump-pretrain.log")
    assert (code, answer["verdict"]) == (2, "sick")
    found = {finding["class"]: finding for finding in answer["findings"]}
    assert {"lr_anomaly", "spike_unrecovered"} <= set(found)
    assert all(finding.keys() >= FINDING_KEYS for finding in answer["findings"])
    assert found["lr_anomaly"]["first_step"] == 6610
    assert isinstance(found["lr_anomaly"]["title"], str)
    assert isinstance(answer["not_assessable"], list)


def test_an_empty_store_says_how_a_log_comes_into_it(tmp_path):
    assert run("runs", "--data-dir", tmp_path) == (0, [])
    told = CliRunner().invoke(cli, ["runs", "--data-dir", str(tmp_path)])
    assert (told.exit_code, told.stdout) == (0, "")
    assert "ingest FILE" in told.stderr


def test_a_path_that_is_not_there_keeps_no_other_from_being_read(tmp_path):
    there, store = canonical_log(tmp_path, ["3.5", "3.25", "2.5"]), ("--data-dir", tmp_path / "data")
    code, found = run("ingest", tmp_path / "nowhere.log", there, *store)
    assert code == 4
    assert [one.get("error") for one in found] == ["FileNotFoundError", None]
    assert "nowhere.log" in found[0]["message"]
    assert [one["rows"] for one in run("runs", *store)[1]] == [3]


def test_series_of_a_file_needs_no_store(tmp_path):
    code, points = run("series", canonical_log(tmp_path, ["3.5", "nan", "2.5"]), "loss", "--data-dir", tmp_path / "none")
    assert (code, points["step"]) == (0, [1, 2, 3])
    assert points["value"][::2] == [3.5, 2.5]
    assert not (tmp_path / "none" / "runvitals.duckdb").exists()
    (tmp_path / "empty.log").write_bytes(b"")
    assert run("series", tmp_path / "empty.log", "loss", "--data-dir", tmp_path / "none")[0] == 3


def test_ingest_runs_and_series_agree_and_the_same_file_is_not_doubled(tmp_path):
    path = canonical_log(tmp_path, ["3.1", "nan", "2.9"])
    store = ("--data-dir", tmp_path / "data")
    _, (first,) = run("ingest", path, *store)
    _, (again,) = run("ingest", path, *store)
    assert (first["known"], again["known"], again["run"]) == (False, True, first["run"])
    _, (listed,) = run("runs", *store)
    assert (listed["rows"], listed["first_step"], listed["last_step"]) == (3, 1, 3)
    assert listed["offset"] == listed["bytes"] == path.stat().st_size
    _, points = run("series", first["run"], "loss", *store)
    assert points["step"] == [1, 2, 3]
    assert [str(value) for value in points["value"]] == ["3.1", "nan", "2.9"]
    _, by_printed_name = run("series", "run.log", "epoch_time", *store)
    assert by_printed_name["value"] == [1, 1, 1]


def test_unknown_names_say_what_there_is(tmp_path):
    store = ("--data-dir", tmp_path / "data")
    _, (first,) = run("ingest", canonical_log(tmp_path, ["3.1"]), *store)
    code, answer = run("series", first["run"], "colour", *store)
    assert (code, answer["error"]) == (4, "UnknownMetric")
    assert "logits_loss" in answer["message"]
    assert run("series", "nobody", "loss", *store)[0] == 4


HOLD_STORE = """
import sys
from pathlib import Path
from storage.store import Store
store = Store(Path(sys.argv[1]))
print("open", flush=True)
sys.stdin.readline()
"""


def test_a_store_in_use_is_a_sentence_with_the_pid(tmp_path):
    command = [sys.executable, "-c", HOLD_STORE, tmp_path]
    holder = subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    try:
        holder.stdout.readline()
        code, answer = run("runs", "--data-dir", tmp_path)
        assert (code, answer["error"]) == (4, "StoreLocked")
        assert str(holder.pid) in answer["message"]
    finally:
        holder.communicate(b"\n", timeout=120)


def test_data_check_counts_the_bad_samples_with_their_lines_R201(tmp_path):
    good = [json.dumps({"text": f"sample {n}"}) for n in range(50)]
    bad = ['{"text": ""}', json.dumps({"text": "x" * 200}), '{"content": "x"}', '{"text": "cut']
    (tmp_path / "data.jsonl").write_text("\n".join(good + bad) + "\n")
    code, answer = run("data-check", tmp_path / "data.jsonl", "--limit", 100)
    assert code == 1
    assert {kind: count for kind, count in answer["counts"].items() if count} == {
        "empty": 1,
        "long": 1,
        "missing": 1,
        "broken": 1,
    }
    assert [problem["line"] for problem in answer["problems"]] == [51, 52, 53, 54]
    (tmp_path / "data.jsonl").write_text("\n".join(good))
    assert run("data-check", tmp_path / "data.jsonl")[0] == 0
    (tmp_path / "data.jsonl").write_bytes(b"")
    assert run("data-check", tmp_path / "data.jsonl")[0] == 3


def test_formats_that_the_team_saved_are_read_here_too(tmp_path):
    folder = tmp_path / "data" / "formats"
    folder.mkdir(parents=True)
    (folder / "ours.toml").write_text("title = 'Ours'\nseen = ['x']\n[[line]]\npattern = '^B {step} C={loss}'\npairs = false\n")
    (tmp_path / "a.log").write_text("B 1 C=0.5\nB 2 C=0.4\n")
    _, answer = run("read", tmp_path / "a.log", "--data-dir", tmp_path / "data")
    assert (answer["format_title"], answer["records"]) == ("Ours", 2)
    assert run("read", tmp_path / "a.log", "--data-dir", tmp_path / "other")[1]["records"] == 0


@pytest.mark.parametrize("name", Verbs().list_commands(None))
def test_every_verb_takes_the_options_of_all_and_is_documented(name):
    found = Verbs().get_command(None, name)
    options = {option for parameter in found.params for option in parameter.opts}
    assert {"--data-dir", "--json"} <= options
    assert [p.envvar for p in found.params if p.name == "data_dir"] == ["RUNVITALS_DATA_DIR"]
    assert f"\n| `{name}" in (ROOT / "docs" / "cli.md").read_text()
    assert found.help


def test_check_takes_thresholds_and_says_which_there_are(tmp_path):
    losses = [f"{(2 + 6 * 0.985**row) * (3 if row >= 300 else 1):.4f}" for row in range(600)]
    log = canonical_log(tmp_path, losses)
    code, usual = run("check", log)
    assert "spike_unrecovered" in {each["class"] for each in usual["findings"]}
    mild = ("--threshold", "spike_unrecovered.patience_rows=1000000", "--threshold", "spike.least_effect=90")
    assert not {"spike", "spike_unrecovered"} & {each["class"] for each in run("check", log, *mild)[1]["findings"]}
    refused, answer = run("check", log, "--threshold", "spike.height=8")
    assert refused == 4
    assert "two_of_four" in answer["message"]
    assert run("check", log, "--threshold", "spike.z=8")[0] == code


def test_an_empty_file_is_answered_alike_by_its_name_and_in_its_folder(tmp_path):
    (tmp_path / "logs").mkdir()
    (tmp_path / "logs" / "empty.log").touch()
    answers = [
        run("ingest", path, "--data-dir", tmp_path / "data") for path in (tmp_path / "logs" / "empty.log", tmp_path / "logs")
    ]
    assert answers[0] == answers[1]
    assert answers[0][1][0]["error"] == "empty"
