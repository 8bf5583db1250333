"""`cli.py cost`: keys that scripts rely on (docs/cli.md), bad input, and the real logs where they are."""

import json
import os
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from click.testing import CliRunner

from analysis.simulate_text import printed
from analysis.simulate_time import timed
from cli import cli

LOGS = Path(os.environ.get("RUNVITALS_SHARED_LOGS", Path(__file__).parents[2] / "shared" / "logs"))
KEYS = {"epoch_time_meaning", "elapsed_s", "remaining_s", "total_s", "cost", "waste", "goodput"}
H100 = ("--gpus", 8, "--gpu", "H100", "--price", 2.5)


def run(*arguments: object) -> tuple[int, dict]:
    result = CliRunner().invoke(cli, ["cost", *map(str, arguments), "--json"])
    return result.exit_code, json.loads(result.stdout)


def log(folder: Path, text: str) -> Path:
    (folder / "run.log").write_text(text)
    return folder / "run.log"


def test_the_keys_and_the_sums(tmp_path: Path) -> None:
    whole = timed(plan=3000, seed=3, habit="checkpoints", fault="hang")
    now = whole.until(0.5)
    code, told = run(log(tmp_path, printed(now, "megatron")), *H100)
    assert code == 0
    assert told.keys() >= KEYS
    left = whole.seconds - now.seconds
    assert told["remaining_s"]["p50"] == pytest.approx(left, rel=0.06)
    assert told["remaining_s"]["p10"] < told["remaining_s"]["p50"] < told["remaining_s"]["p90"]
    assert told["total_s"] == pytest.approx(told["elapsed_s"] + told["remaining_s"]["p50"])
    assert told["cost"]["spent"] == pytest.approx(20 * told["elapsed_s"] / 3600)
    lost = sum(item["seconds"] for item in told["waste"])
    assert lost + told["goodput"] * told["elapsed_s"] == pytest.approx(told["elapsed_s"], rel=1e-3)
    assert told["waste"][0]["part"] == "hangs"
    assert told["ends"]["p50"].startswith("2024-05-")


def test_the_canonical_line_alone_gives_a_first_estimate(tmp_path: Path) -> None:
    line = "Epoch:[1/2](1/1000), loss: 8.7523, logits_loss: 8.7501, aux_loss: 0.0022, lr: 0.00050000, epoch_time: 45.2min\n"
    _, told = run(log(tmp_path, line), *H100)
    assert told["epoch_time_meaning"] is None
    assert told["remaining_s"]["p50"] == pytest.approx(2 * 45.2 * 60, rel=0.01)
    _, chosen = run(log(tmp_path, line), *H100, "--epoch-time", "total")
    assert chosen["epoch_time_meaning"] == "total"


def dated(rows: int, total: int, ended: datetime) -> str:
    """Return a log of rows a minute apart, the last one at `ended`."""
    stamps = [f"{ended - timedelta(minutes=rows - i):%Y-%m-%d %H:%M:%S}" for i in range(1, rows + 1)]
    return "".join(f"[{stamp}] step: {i}/{total}, loss: {3 - i / 1000:.4f}\n" for i, stamp in enumerate(stamps, 1))


CRASH = "Traceback (most recent call last):\nValueError: x\n"


@pytest.mark.parametrize(
    ("total", "days", "last", "words"),
    [
        (9000, 0, "", " UTC: the timestamps"),
        (9000, 2, "", " UTC if it goes on: "),
        (9000, 900, "", "would have been done "),
        (150, 900, "", "  the last planned step is done"),
        (150, 900, CRASH, "  the last planned step is done"),
        (9000, 900, CRASH, "  the run has ended after 150 of 9,000 planned steps"),
        (9000, 900, "Training finished\n", "  the log says that training is finished after 150 of 9,000 planned steps"),
    ],
)
def test_going_on_stopped_and_done_are_told_apart(tmp_path: Path, total: int, days: int, last: str, words: str) -> None:
    path = log(tmp_path, dated(150, total, datetime.now(UTC) - timedelta(days=days)) + last)
    said = CliRunner().invoke(cli, ["cost", str(path), "--gpus", "8", "--price", "2"]).stdout
    assert words in said
    over = total == 150 or bool(last)
    assert (" left (" in said) == (" of " in said.split(" USD: as given")[0].splitlines()[-1]) == (not over)
    _, told = run(path)
    assert told["over"] == over


def test_a_loss_that_is_no_number_any_more_makes_the_time_left_a_condition(tmp_path: Path) -> None:
    losses = [f"{3 - i / 100:.3f}" if i < 60 else "nan" for i in range(1, 100)]
    lines = (f"step: {i}/400, loss: {loss}, step_time: 2.0\n" for i, loss in enumerate(losses, 1))
    path = log(tmp_path, "".join(lines))
    said = CliRunner().invoke(cli, ["cost", str(path)]).stdout
    assert "the loss is NaN or infinite since step 60: finishing the run from there is of no use" in said
    assert "if it is finished all the same: 10.0 min left" in said
    _, told = run(path)
    assert "of no use" in told["of_no_use"]
    assert told["remaining_s"]["p50"] == pytest.approx(602, rel=0.02)


def test_no_time_no_price_no_gpus(tmp_path: Path) -> None:
    text = "".join(f"step: {i}, loss: {3 - i / 100:.4f}\n" for i in range(1, 50))
    code, told = run(log(tmp_path, text))
    assert code == 0
    assert (told["elapsed_s"], told["total_s"], told["goodput"], told["cost"]["spent"]) == (None, None, None, None)
    assert "add the step time" in told["remaining_unknown"]
    assert len(told["missing"]) == 2
    out = CliRunner().invoke(cli, ["cost", str(tmp_path / "run.log")])
    assert out.exit_code == 0
    assert "does not tell the time" in out.output


def of_the_day(form: str) -> str:
    """Return 100 rows, ten seconds apart, over midnight, with a clock that has no date."""
    start = datetime(2026, 3, 1, 23, 52)
    return "".join(form.format(start + timedelta(seconds=10 * i), i) + "\n" for i in range(1, 101))


def test_a_clock_without_a_date_before_a_line_passes_midnight(tmp_path: Path) -> None:
    for form in ("[{0:%H:%M:%S}] step: {1}/400, loss: 3.1", "{0:%H:%M:%S} INFO step {1}/400 loss 3.1"):
        _, told = run(log(tmp_path, of_the_day(form)))
        assert told["elapsed_s"] == pytest.approx(990)
        assert told["remaining_s"]["p50"] == pytest.approx(3000, rel=0.02)
        assert told["ends"] is None
        assert "the clock has no date and passed midnight 1 times" in told["notes"]


def test_a_clock_without_a_date_under_a_name_passes_midnight(tmp_path: Path) -> None:
    _, told = run(log(tmp_path, of_the_day("time: {0:%H:%M:%S}, step: {1}/400, loss: 3.1")))
    assert told["elapsed_s"] == pytest.approx(990)
    assert told["remaining_s"]["p50"] == pytest.approx(3000, rel=0.02)
    assert "the clock has no date and passed midnight 1 times" in told["notes"]


def test_negative_and_jumping_clocks_count_as_usual_and_are_named(tmp_path: Path) -> None:
    start = datetime(2026, 3, 1)
    jumps = {40: -3600, 60: 40 * 86_400}
    stamps = [start + timedelta(seconds=10 * i + sum(s for at, s in jumps.items() if i >= at)) for i in range(1, 101)]
    text = "".join(f"[{stamp:%Y-%m-%d %H:%M:%S}] step: {i}/400, loss: 3.1\n" for i, stamp in enumerate(stamps, 1))
    _, told = run(log(tmp_path, text))
    assert told["elapsed_s"] == pytest.approx(990)
    assert told["remaining_s"]["p50"] == pytest.approx(3000, rel=0.02)
    assert any("ran back 1 times (first at line 40)" in note for note in told["notes"])
    assert any("leapt by more than 30 days 1 times (first at line 60)" in note for note in told["notes"])
    assert len(told["notes"]) == len(set(told["notes"]))
    negative = "".join(f"step: {i}/400, loss: 3.1, step_time: -2.0\n" for i in range(1, 101))
    _, told = run(log(tmp_path, negative))
    assert (told["elapsed_s"], told["remaining_s"]) == (None, None)


def test_price_zero_no_price_and_an_unknown_gpu(tmp_path: Path) -> None:
    path = log(tmp_path, printed(timed(plan=600), "jsonl"))
    _, free = run(path, "--gpus", 2, "--price", 0)
    assert (free["cost"]["spent"], free["missing"]) == (0, [])
    _, told = run(path, "--gpus", 2, "--gpu", "Cerebras <b>X9</b>")
    assert (told["cost"]["spent"], told["cost"]["gpu"]) == (None, "Cerebras <b>X9</b>")
    assert told["cost"]["gpu_hours_spent"] > 0
    unknown = "the table of GPUs does not know “Cerebras <b>X9</b>”: give price and power yourself"
    assert told["missing"] == [unknown, "no price: give one for a GPU and hour"]
    assert told["cost"]["sources"]["gpu"] == unknown


def test_what_epoch_time_is_taken_for_is_a_condition_and_the_range_holds_the_rest(tmp_path: Path) -> None:
    line = "Epoch:[1/1]({}/10000), loss: 7.2, logits_loss: 7.2, aux_loss: 0.0000, lr: 0.0005, epoch_time: {}.0min\n"
    path = log(tmp_path, line.format(100, 60))
    _, told = run(path)
    assert (told["epoch_time_meaning"], told["epoch_time_assumed"]) == (None, "remaining")
    assert told["epoch_time_possible"] == ["remaining", "elapsed", "total"]
    assert told["remaining_s"]["p50"] == pytest.approx(3630, rel=0.05)
    assert told["remaining_s"]["p90"] == pytest.approx(60 * 61 / 100 * 9900, rel=0.01)  # 60 minutes may have passed
    assert "taken as what is left" in told["elapsed_source"]
    said = CliRunner().invoke(cli, ["cost", str(path)]).stdout
    assert said.count("what epoch_time means can't be told yet (lines so far: 1); it is taken as what is left") == 1
    assert "the range holds what the other possible meanings of epoch_time make of it" in said
    path = log(tmp_path, "".join(line.format(at, 60 - at * 60 // 10_000) for at in range(100, 6000, 100)))
    _, told = run(path)
    assert (told["epoch_time_meaning"], told["epoch_time_assumed"]) == ("remaining", None)


def test_zero_progress_is_said(tmp_path: Path) -> None:
    _, none = run(log(tmp_path, "Starting training of 400 steps\n"))
    assert (none["elapsed_s"], none["remaining_unknown"]) == (None, "there is no training step yet")
    _, first = run(log(tmp_path, "[2026-03-01 10:00:00] step: 0/400, loss: 10.9\n"))
    assert first["remaining_s"] is None
    assert "only the first steps" in first["remaining_unknown"]
    stuck = "".join(f"[2026-03-01 10:{i:02d}:00] step: 0/400, loss: 10.9\n" for i in range(30))
    _, told = run(log(tmp_path, stuck))
    assert told["remaining_s"] is None
    assert told["remaining_unknown"]


@pytest.mark.parametrize("wish", [("--price", -1), ("--gpus", -2), ("--idle", 1)])
def test_a_wish_that_can_not_be_is_refused_in_a_sentence(tmp_path: Path, wish: tuple[str, int]) -> None:
    code, told = run(log(tmp_path, printed(timed(plan=300), "jsonl")), *wish)
    assert code == 4
    assert "can't be" in told["message"]


def test_a_run_of_the_store_and_an_unknown_one(tmp_path: Path) -> None:
    path = log(tmp_path, printed(timed(plan=1500), "jsonl"))
    store = ("--data-dir", tmp_path / "data")
    CliRunner().invoke(cli, ["ingest", str(path), "--data-dir", str(tmp_path / "data")])
    code, told = run("run.log", *H100, *store)
    assert code == 0
    assert told["remaining_s"]["p90"] == 0
    assert run("nobody", *store)[0] == 4


def real(name: str) -> Path:
    found = sorted(LOGS.glob(f"{name}-*"))
    if not found:
        pytest.skip("no real logs here")
    return found[0]


@pytest.mark.logs
@pytest.mark.parametrize("name", ["007", *map(str, range(300, 314)), "325"])
def test_the_epoch_time_of_real_logs_is_what_is_left(name: str) -> None:
    _, told = run(real(name), *H100)
    assert told["epoch_time_meaning"] == "remaining"


@pytest.mark.logs
def test_real_logs_that_print_both_agree_with_their_own_end() -> None:
    _, told = run(real("050"), *H100)
    assert told["elapsed_s"] == 6 * 3600 + 37 * 60 + 47
    assert told["remaining_s"]["p50"] == 0
    _, told = run(real("055"), *H100)
    assert told["remaining_s"]["p50"] == pytest.approx((2 * 24 + 12) * 3600 + 56 * 60 + 35, rel=0.02)
    _, told = run(real("145"), *H100)
    assert told["elapsed_s"] == 3600 + 2 * 60 + 17
