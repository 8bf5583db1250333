"""Time & cost: the end, the amount, the ledger, the meaning of epoch_time, all runs."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace

import pytest

from analysis.simulate import simulate
from analysis.simulate_text import printed
from analysis.simulate_time import timed
from server.costs import Wishes
from server.totals import paid
from tests.pages.helpers import canonical, take, words
from ui import all_costs, costs

PAID = {"gpus": 8, "gpu": "H100", "price": 2.5}


def test_the_date_the_amount_and_the_largest_waste(shop, app):
    run = take(shop, printed(timed(plan=2000, seed=1, fault="hang").until(0.6), "jsonl"), "a.log")
    said = words(app("cost", bound=PAID, run=run))
    assert "If it had gone on, it would have been done Mon, May 6, 2024" in said
    assert "$" in said
    assert "of the time was not productive, worth $" in said
    assert "most of it: Hangs (" in said
    assert f"health?run={run}&amp;x0=" in said
    assert "the timestamps of the log" in said


@pytest.mark.parametrize(
    ("last", "left", "begins"),
    [
        (timedelta(days=900), timedelta(hours=5), "If it had gone on, it would have been done "),
        (timedelta(days=3), timedelta(days=9), "If it goes on, it is done "),
        (timedelta(0), timedelta(days=9), "Done "),
    ],
)
def test_a_date_in_the_past_is_no_promise(last, left, begins):
    ended = datetime.now(UTC) - last
    ends = tuple(ended + share * left for share in (0.9, 1.0, 1.1))
    assert costs.dated(ends, ended).startswith(begins)


def test_a_run_that_diverged_is_not_worth_finishing_and_the_number_is_a_condition(shop, app):
    run = simulate(rows=2000, seed=7, fault="divergence").segment
    lines = zip(run.steps().astype(int).tolist(), run.values("loss").tolist(), strict=True)
    text = "".join(f'{{"step": {i}, "total_steps": 4000, "loss": {x:.4f}, "step_time": 2.0}}\n' for i, x in lines)
    run_id = take(shop, text, "a.log")
    shop.diagnosis(run_id)
    assert "has diverged since step" in shop.board.lines()[0].glance.why.render()
    said = words(app("cost", bound=PAID, run=run_id))
    assert "The run has diverged since step " in said
    assert "finishing it from there is of no use. To finish it all the same takes" in said
    assert "if it is finished all the same" in said
    assert "Steps after the loss had gone up for good" in said
    assert "if it is finished all the same" in words(app("health", run=run_id))
    assert app("overview").dataframe[0].value["left"].tolist()[0].endswith(" if finished")


def test_a_flat_run_has_no_gain_that_could_be_told_and_notes_are_joined_as_the_language_does(shop, app):
    clock = [f"2026-03-01 {10 + i // 60:02d}:{i % 60:02d}:00" for i in range(1, 101)]
    run = take(shop, "".join(f"[{at}] step: {i}/200, loss: 3.1\n" for i, at in enumerate(clock, 1)), "a.log")
    said = words(app("cost", bound=PAID, run=run))
    assert "What is still to be gained is too small to tell" in said
    assert "日志的时间戳；未包含今后的故障" in words(app("cost", bound=PAID, run=run, lang="zh_CN"))


def test_what_epoch_time_is_taken_for_is_said_wherever_its_time_left_stands(shop, app):
    line = "Epoch:[1/1]({}/10000), loss: 7.2, logits_loss: 7.2, aux_loss: 0.0000, lr: 0.0005, epoch_time: {}.0min\n"
    run = take(shop, "".join(line.format(100 * i, 60) for i in (1, 2)), "a.log")
    shop.diagnosis(run)
    assert "taken as what is left of the epoch, as MiniMind prints it" in words(app("cost", run=run))
    assert "on an assumption" in words(app("health", run=run))
    assert app("overview").dataframe[0].value["left"].tolist()[0].startswith("≈ ")


def test_what_is_missing_is_said(shop, app):
    run = take(shop, "".join(f"step: {i}, loss: {3 - i / 100:.4f}\n" for i in range(1, 60)), "a.log")
    said = words(app("cost", run=run))
    assert "add the step time" in said
    assert "The log does not say how many GPUs it ran on" in said


def test_one_amount_of_time_has_one_unit_on_the_page(shop, app):
    run = take(shop, printed(timed(plan=2000, seed=1, fault="hang").until(0.6), "jsonl"), "a.log")
    told = shop.cost(run, Wishes())
    said, table = costs.largest(told), costs.ledger_table(told, shop.store.run(run))
    assert len(said) > 1
    assert all(sentence.split(" (")[0] in table for sentence in said)


@pytest.mark.parametrize("lang", ["en", "zh_CN"])
def test_a_log_without_a_time_names_the_field_even_when_it_is_done(shop, app, lang):
    text = "".join(f'{{"step": {i}, "total_steps": 60, "loss": {3 - i / 100}}}\n' for i in range(1, 61))
    said = words(app("cost", run=take(shop, text, "a.log"), lang=lang))
    assert "step_time" in said
    assert ("Done" in said) if lang == "en" else ("已完成" in said)


def test_the_end_of_a_run_that_is_done_is_not_foretold(shop, app):
    run = take(shop, printed(timed(plan=2000, seed=1), "jsonl"), "a.log")
    said = words(app("cost", run=run))
    assert "the plan is done, its last value stands in the log" in said
    assert "expected at the end" not in said


def test_one_line_is_a_first_estimate_and_shows_no_productive_share(shop, app):
    header = "Model Params: 25.8M\nTrainable Params: 25.8M\n"
    line = "Epoch:[1/1](100/10000), loss: 7.2, logits_loss: 7.2, aux_loss: 0.0, lr: 0.0005, epoch_time: 2500.0min\n"
    said = words(app("cost", run=take(shop, header + line, "a.log")))
    assert "a first estimate only: lines so far: 1" in said
    assert "too little of the time to say how it was spent" in said
    assert "productive." not in said


def test_the_meaning_of_epoch_time_can_be_chosen(shop, app):
    run = take(shop, printed(timed(plan=1500, seed=1, habit="slow_steps").until(0.7), "minimind"), "a.log")
    assert "epoch_time is what is left of the epoch" in words(app("cost", run=run))
    assert "as you chose" in words(app("cost", bound={"epoch_time": "total"}, run=run))


def test_what_the_share_of_the_peak_lacks_is_told_in_the_language_of_the_reader(shop, app):
    run = take(shop, canonical(), "a.log")
    said = words(app("cost", run=run, lang="zh_CN"))
    assert "参数量, GPU 数量, GPU 峰值算力, 每秒 token 数" in said
    assert "Epoch_time" not in said


def test_a_budget_that_does_not_reach_warns(shop, app):
    run = take(shop, printed(timed(plan=2000, seed=1).until(0.5), "jsonl"), "a.log")
    assert "does not reach to the end" in words(app("cost", bound=PAID | {"budget": 4.0}, run=run))


def test_a_broken_price_table_is_named(shop, app):
    run = take(shop, canonical(), "a.log")
    (shop.settings.data_dir / "prices.toml").write_text("[[price]]\ngpu = 1\n")
    assert "prices.toml can&#x27;t be used" in words(app("cost", run=run))


def test_all_runs_with_totals_and_a_slow_sibling(shop, app):
    for number, pace in enumerate((1, 1, 1, 1, 60)):
        lines = (
            f'{{"step": {i}, "total_steps": 900, "loss": {3 - i / 100:.3f}, "step_time": {pace + number / 50}}}\n'
            for i in range(1, 80)
        )
        run = take(shop, "".join(lines), f"{number}.log")
        if number < 4:
            shop.diagnosis(run)
    assert "1 run is not counted yet" in words(app("cost", bound=PAID, run=run, view="all"))
    shop.diagnosis(run)
    test = app("cost", bound=PAID, run=run, view="all")
    assert not test.exception
    frame = test.dataframe[0].value
    assert len(frame) == 5
    assert "other runs with the same plan" in frame["waste"].iloc[0]
    assert "By week" in words(test)


def test_the_totals_are_those_of_every_run(shop):
    run = take(shop, printed(timed(plan=500, seed=1), "jsonl"), "a.log")
    shop.diagnosis(run)
    line = shop.board.lines()[0]
    lines = [replace(line, run=replace(line.run, id=str(number))) for number in range(2100)]
    frame = costs.table(paid(lines, Wishes(gpus=8, gpu="H100", price=2.5), None))
    one = shop.cost(run, Wishes(gpus=8, gpu="H100", price=2.5)).report
    assert costs.weeks(frame)["runs"].sum() == len(lines)
    assert frame["spent"].sum() == pytest.approx(len(lines) * one.model.money(one.elapsed))


def test_sums_say_how_many_runs_they_leave_out_and_which_week_they_are_of(shop, app):
    texts = {
        "dated": printed(timed(plan=500, seed=1), "jsonl"),
        "undated": printed(timed(plan=1500, seed=1, habit="slow_steps"), "minimind"),
        "empty": "step: 1, loss: 3.0\nstep: 2, loss: 2.9\n",
    }
    for name, text in texts.items():
        shop.diagnosis(take(shop, text, f"{name}.log"))
    test = app("cost", view="all", bound={"epoch_time": "total"}, run=shop.store.runs()[0].id)
    assert not test.exception
    assert "from 2 of 3 runs" in words(test)
    assert "is about one run: it does not count here" in words(test)
    weeks = test.dataframe[1].value.set_index("week")
    assert weeks.loc["2024-W19", "runs"] == 1
    assert [week.endswith("(brought in)") for week in weeks.index] == [True, False]
    assert weeks["priced"].tolist() == [0, 0]


def test_a_run_judged_before_facts_were_kept_is_judged_again(shop):
    run = take(shop, canonical(), "a.log")
    shop.diagnosis(run)
    version, kept = shop.store.diagnosis(run, shop.settings.profile)
    facts = kept["glance"]["facts"]
    for before in (None, {name: value for name, value in facts.items() if name != "ended"}):
        shop.store.save_diagnosis(run, shop.settings.profile, version, kept | {"glance": kept["glance"] | {"facts": before}})
        shop.board.forget(run)
        assert shop.board.unjudged() == [run]
        shop.diagnosis(run)
        assert shop.board.unjudged() == []


def test_money_of_another_currency_is_not_added():
    def run(name: str, currency: str, price: float | None = 2.0) -> SimpleNamespace:
        return SimpleNamespace(run=SimpleNamespace(id=name), model=SimpleNamespace(currency=currency, price=price))

    mixed = [run("a", "CNY"), run("b", "USD"), run("c", "USD"), run("d", "EUR", price=None)]
    assert all_costs.priced(mixed) == ("USD", {"a"})
