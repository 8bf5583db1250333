"""Time & cost: before a launch, what logging costs, which checkpoints to keep, totals by tag."""

from analysis.simulate_text import printed
from analysis.simulate_time import timed
from server.costs import Wishes
from server.service import cost_file
from storage.reader import read_file
from tests.pages.helpers import canonical, take, words

PAID = {"gpus": 8, "gpu": "H100", "price": 2.0}


def test_a_launch_from_the_time_of_an_epoch(shop, app):
    run = take(shop, canonical(), "a.log")
    test = app("cost", bound=PAID | {"epoch_minutes": 60.0, "plan_epochs": 10.0}, run=run, view="launch")
    said = words(test)
    assert "It costs about $160.00." in said
    assert "80" in said
    assert "The cards are taken from" in said


def test_a_launch_from_a_known_run_with_other_gpus(shop, app):
    run = take(shop, printed(timed(plan=2000, seed=1).until(0.9), "jsonl"), "a.log")
    plan = {"plan_steps": 50_000, "known_gpus": 4}
    said = words(app("cost", bound=PAID | plan, run=run, view="launch", **{"from": "run"}))
    assert "2× the GPUs" in said


def test_a_launch_without_a_plan_says_what_to_fill_in(shop, app):
    run = take(shop, canonical(), "a.log")
    assert "Fill in the fields" in words(app("cost", run=run, view="launch"))


def test_a_budget_below_the_amount_warns(shop, app):
    run = take(shop, canonical(), "a.log")
    bound = PAID | {"epoch_minutes": 60.0, "plan_epochs": 10.0, "budget": 100.0}
    assert "does not reach" in words(app("cost", bound=bound, run=run, view="launch"))


def test_an_endless_launch_is_no_crash(shop, app):
    run = take(shop, canonical(), "a.log")
    bound = {"epoch_minutes": 1e12, "plan_epochs": 1e9}
    assert "longer than the calendar" in words(app("cost", bound=bound, run=run, view="launch"))


def timed_log(seconds: float, noise: int) -> str:
    lines = (
        f'{{"step": {i}, "loss": {3 - i / 1000:.4f}, "step_time": {seconds + ((i * noise) % 13) / 10_000:.4f}}}\n'
        for i in range(1, 400)
    )
    return "".join(lines)


def test_verbose_logging_that_is_felt_offers_two_actions(shop, app):
    verbose, sparse = take(shop, timed_log(0.55, 7), "verbose.jsonl"), take(shop, timed_log(0.5, 5), "sparse.jsonl")
    said = words(app("cost", run=verbose, view="logging", quiet=sparse))
    assert "Perceptible" in said
    assert "Print less often" in said
    assert "from another thread" in said
    assert "Bytes a step" in said


def test_one_run_alone_is_told_to_bring_the_other(shop, app):
    assert "no second run" in words(app("cost", run=take(shop, canonical(), "a.log"), view="logging"))


def test_checkpoints_of_the_log(shop, app):
    lines = canonical(300).splitlines()
    said = [
        text
        for at, line in enumerate(lines)
        for text in ([line, f"Saving checkpoint to out/step_{at}"] if at % 20 == 19 else [line])
    ]
    test = app("cost", run=take(shop, "\n".join(said) + "\n", "a.log"), view="checkpoints")
    assert not test.exception
    assert "checkpoints: the last 5" in words(test)


def test_checkpoints_of_a_plan(shop, app):
    run = take(shop, canonical(), "a.log")
    assert "no checkpoint with its step" in words(app("cost", run=run, view="checkpoints"))
    assert "of 15 checkpoints" in words(app("cost", bound={"save_every": 200}, run=run, view="checkpoints"))


def test_a_plan_of_checkpoints_is_asked_for_until_it_is_there(shop, app):
    run = take(shop, canonical(300), "a.log")
    asks = "Say how often one is saved"
    assert asks in words(app("cost", run=run, view="checkpoints"))
    planned = words(app("cost", bound={"save_every": 100.0}, run=run, view="checkpoints"))
    assert asks not in planned
    assert "A plan: the log tells of no checkpoint" in planned
    assert "more than 2,000 checkpoints" in words(app("cost", bound={"save_every": 0.01}, run=run, view="checkpoints"))


def test_totals_by_tag(shop, app):
    run = take(shop, printed(timed(plan=2000, seed=1).until(0.6), "jsonl"), "a.log")
    assert "No run has a tag" in words(app("cost", bound=PAID, run=run, view="all"))
    shop.store.keep("tag", "team-a", True, run=run)
    test = app("cost", bound=PAID, run=run, view="all")
    by_tag = next(frame.value for frame in test.dataframe if "tag" in frame.value.columns)
    assert by_tag["tag"].tolist() == ["team-a"]
    assert by_tag["runs"].tolist() == [1]


def test_the_seconds_a_step_are_drawn_from_where_the_first_ones_began(tmp_path):
    rows = (f"2024-01-01 00:{n:02}:00 step: {100 * (n + 1)} loss: 2.5\n" for n in range(20))
    (tmp_path / "a.log").write_text("".join(rows))
    course = cost_file(read_file(tmp_path / "a.log"), Wishes()).course
    assert course["step"].iloc[:2].tolist() == [100, 200]
    assert course["hours"].iloc[:2].tolist() == [0, 1 / 60]
    assert set(course["seconds"]) == {0.6}
