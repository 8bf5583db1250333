"""`cli.py compare`: files and runs side by side, the keys of its JSON, the real sweep."""

import json
import os
import re
from pathlib import Path

import pytest
from click.testing import CliRunner

from cli import cli
from server.service import Service
from server.settings import Settings
from server.sweep import NAME, RESULT, sweep_of
from tests.pages.helpers import canonical

SHARED = Path(os.environ.get("RUNVITALS_SHARED_LOGS", Path(__file__).parents[2] / "shared" / "logs"))
real = pytest.mark.skipif(not SHARED.is_dir(), reason="the shared logs are not here")


def asked(*words: object, code: int = 0) -> str:
    done = CliRunner().invoke(cli, ["compare", *map(str, words)])
    assert done.exit_code == code, done.output
    return done.output


def answer(*words: object) -> dict:
    return json.loads(asked(*words, "--json"))


@pytest.fixture
def two(tmp_path) -> list[Path]:
    """Two logs of 300 rows, the second with ten times the learning rate in its header."""
    paths = []
    for name, rate in (("a.log", "0.0005"), ("b.log", "0.005")):
        header = f"Namespace(learning_rate={rate}, batch_size=32, max_seq_len=512, seed=42)\n"
        path = tmp_path / name
        path.write_text(header + canonical(), encoding="utf-8")
        paths.append(path)
    return paths


def test_the_json_has_what_was_promised(two):
    told = answer(*two)
    assert {"differs", "comparable", "reasons", "metrics", "verdict"} <= set(told)
    assert [row["key"] for row in told["differs"]] == ["lr"]
    assert told["comparable"] is True
    assert told["verdict"]["kind"] == "not_distinguishable"
    assert len(told["metrics"]) == 2


def test_it_says_the_same_in_words(two):
    words = asked(*two)
    assert words.splitlines()[0].startswith("a and b are not distinguishable") or "not distinguishable" in words.splitlines()[0]
    assert "Learning rate is what differs" in words


def test_runs_of_the_store_and_files_compare(two, tmp_path):
    data = tmp_path / "data"
    done = CliRunner().invoke(cli, ["ingest", str(two[0]), "--data-dir", str(data)])
    assert done.exit_code == 0
    told = answer("a.log", two[1], "--data-dir", data, "--base", "a.log")
    assert [run["name"] for run in told["runs"]] == ["a", "b"]


def test_the_same_file_twice_is_one_run(two):
    told = answer(two[0], two[0])
    assert told["verdict"]["kind"] == "unknown"
    assert len(told["runs"]) == 1
    assert "more than once" in told["notes"][0]


def test_one_run_alone_is_a_sentence(two):
    said = asked(two[0])
    assert said.startswith("one run alone has nothing to be compared with: it takes two runs or more")
    assert "not known from the logs" not in said


def test_an_unknown_run_is_a_sentence(tmp_path):
    assert "No run is called" in asked("nobody", "else", "--data-dir", tmp_path / "data", code=4)


def test_logs_with_nothing_in_common_and_no_overlap_are_a_sentence(tmp_path, two):
    rewards = tmp_path / "r.jsonl"
    rewards.write_text("".join(f'{{"step": {n}, "reward": {n / 50}}}\n' for n in range(1, 60)), encoding="utf-8")
    assert answer(two[0], rewards)["verdict"]["kind"] == "unknown"
    assert "no metric in common" in asked(two[0], rewards)
    early, late = tmp_path / "early.jsonl", tmp_path / "late.jsonl"
    for path, first in ((early, 1), (late, 5000)):
        rows = (f'{{"step": {first + n}, "loss": {3 + 5 * 0.9**n}}}\n' for n in range(100))
        path.write_text("".join(rows), encoding="utf-8")
    assert "do not overlap" in asked(early, late)


def test_ten_thousand_settings_and_types_that_clash_are_compared(tmp_path):
    paths = [tmp_path / "a.log", tmp_path / "b.log"]
    kinds = (lambda n: n, lambda n: f"'{n}'" if n % 3 else f"[{n}]")
    for path, kind in zip(paths, kinds, strict=True):
        settings = ", ".join(f"key_{n}={kind(n)}" for n in range(10_000))
        path.write_text(f"Namespace({settings})\n{canonical()}", encoding="utf-8")
    told = answer(*paths)
    assert told["verdict"]["kind"]
    assert any("variables" in reason["text"] for reason in told["reasons"])
    assert len(asked(*paths)) < 20_000


@pytest.mark.parametrize("verb", [("compare", "{}", "{}"), ("cost", "{}"), ("series", "{}", "loss")])
@pytest.mark.parametrize(("name", "said"), [("folder", "is a folder"), ("gone.log", "There is no file")])
def test_what_is_no_run_is_called_what_it_is(tmp_path, verb, name, said):
    (tmp_path / "folder").mkdir()
    words = [word.format(tmp_path / name) for word in verb]
    done = CliRunner().invoke(cli, [*words, "--data-dir", str(tmp_path / "data")])
    assert done.exit_code == 4
    assert said in done.output


def test_numbers_in_sentences_are_written_for_people(tmp_path):
    paths = [tmp_path / "a.log", tmp_path / "b.log"]
    for path, count in zip(paths, (4_980_000, 63_910_000), strict=True):
        path.write_text(f"Namespace(num_params={count})\n{canonical()}", encoding="utf-8")
    assert "4,980,000 → 63,910,000" in asked(*paths)


def test_a_file_without_a_step_is_refused(tmp_path, two):
    empty = tmp_path / "empty.log"
    empty.write_bytes(b"")
    done = CliRunner().invoke(cli, ["compare", str(two[0]), str(empty), "--json"])
    assert done.exit_code == 3
    assert json.loads(done.stdout)["error"] == "empty"


def test_price_and_gpus_give_money(tmp_path):
    paths = [tmp_path / "a.log", tmp_path / "b.log"]
    for path in paths:
        lines = (f"2024-01-01 00:{n // 2:02}:{n % 2 * 30:02} step: {n + 1} loss: {3 + 5 * 0.9**n:.4f}\n" for n in range(100))
        path.write_text("".join(lines), encoding="utf-8")
    told = answer(*paths, "--gpus", 4, "--price", 2)
    assert "money" in told["axes"]
    figures = next(iter(told["metrics"].values()))
    assert figures["money"] == pytest.approx(figures["hours"] * 8)


@pytest.mark.parametrize("wish", [("--price", -3), ("--gpus", 0), ("--price", "nan"), ("--reach", "soon")])
def test_a_wish_that_cannot_be_is_refused(two, wish):
    done = CliRunner().invoke(cli, ["compare", *map(str, [*two, *wish])])
    assert done.exit_code == 4
    assert len(done.output.splitlines()) == 1


def test_each_figure_has_its_name(two):
    line = asked(*two).splitlines()[-1]
    assert "at the start" in line
    assert "at the end (mean of its last" in line
    assert asked(*two, "--reach", "50%").splitlines()[-1].count("50.0% of the first loss after") >= 1


def log(number: str) -> Path:
    return next(SHARED.glob(f"{number}-*"))


@real
@pytest.mark.logs
def test_the_real_sweep():
    told = answer(*map(log, [*map(str, range(300, 314)), "007", "325"]))
    name = {run["run"]: run["name"] for run in told["runs"]}
    assert name[told["base"]] == "305"
    assert sorted(sorted(name[run] for run in group) for group in told["groups"] if len(group) > 1) == [
        ["007", "301", "305", "310", "313"]
    ]
    varied = {name[pair["run"]]: pair["varied"] for pair in told["pairs"]}
    assert varied == dict.fromkeys(["306", "307", "308", "309", "311"], ["Learning rate"]) | dict.fromkeys(
        ["300", "302", "303", "304", "325"], ["Parameters"]
    ) | {"312": ["Steps an epoch"]} | dict.fromkeys(["301", "310", "313", "007"], [])
    states = {(name[state["run"]], state["code"]): state["text"] for state in told["states"]}
    assert "Learning rate 0.05" in states["307", "diverged"]
    assert "Learning rate 0.005" in states["306", "slow_fall"]
    assert 60 < int(re.search(r"(\d+)×", states["325", "slow_step"])[1]) < 75
    kinds = {name[pair["run"]]: pair["kind"] for pair in told["pairs"]}
    assert kinds["310"] == kinds["313"] == "not_distinguishable"
    assert kinds["306"] == kinds["307"] == "worse"


@real
@pytest.mark.logs
def test_the_real_sweep_as_a_sweep(tmp_path):
    service = Service.open(Settings(data_dir=tmp_path))
    for number in [*map(str, range(300, 314)), "007", "325"]:
        service.read_path(log(number))
    told, table = sweep_of(service, [run.id for run in service.store.runs()])
    service.close()
    assert told.runs == 13
    assert set(told.varied) == {"lr", "parameters"}
    assert sorted(name[:3] for name in table[table[RESULT].isna()][NAME]) == ["300", "301", "325"]
    assert any("other steps: 312" in note.render() for note in told.notes)


@real
@pytest.mark.logs
def test_steps_of_different_batches_are_refused_and_samples_offered():
    told = answer(log("305"), log("312"), "--x", "step")
    assert told["comparable"] is False
    assert told["verdict"]["kind"] == "refused"
    assert "39,695" in told["verdict"]["text"]
    assert answer(log("305"), log("312"))["axis"] == "epochs"


@real
@pytest.mark.logs
@pytest.mark.parametrize("pair", [("305", "310"), ("305", "313"), ("310", "313")])
def test_repeats_of_the_real_sweep_are_not_distinguishable(pair):
    assert answer(*map(log, pair))["verdict"]["kind"] == "not_distinguishable"


@real
@pytest.mark.logs
def test_the_same_job_with_and_without_deepspeed():
    told = answer(log("015"), log("016"))
    assert [row["title"] for row in told["differs"] if row["variable"]] == ["DeepSpeed"]
    assert told["states"][0]["code"] == "diverged"
    assert told["states"][0]["run"] == told["runs"][0]["run"]
    assert "first differ at Step 3" in told["pairs"][0]["parting"]
    assert told["verdict"]["better"] == told["runs"][1]["run"]
