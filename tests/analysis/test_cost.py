"""Amounts exist where what they need is known, and say what they rest on (R36, R102, R156–R159, R164)."""

import json
import re
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from analysis.cost import CostModel, cost_model, cost_report
from analysis.prices import PriceTableError, price_table
from analysis.segment import Segment, split_segments
from analysis.time_left import FailureRate, time_left


def run(count: int = 100, total: int | None = 400, config: dict | None = None, **columns: object) -> Segment:
    steps = np.arange(1, count + 1)
    frame = pd.DataFrame({"line": steps, "step": steps, "loss": 3.0 - 0.001 * steps, **columns})
    return Segment(0, frame, total_steps=total, config=config or {})


def timed_run(**more: object) -> Segment:
    return run(step_time_seconds=36.0 + 0.1 * np.sin(np.arange(100)), **more)  # type: ignore[arg-type]


def test_hours_become_gpu_hours_and_money() -> None:
    segments = [timed_run()]
    report = cost_report(segments, cost_model(segments, gpus=8, gpu="H100", price=2.5))
    assert report.elapsed == pytest.approx(3600, rel=0.01)
    assert report.total is not None
    assert report.total[1] == pytest.approx(4 * 3600, rel=0.02)
    told = report.to_dict()
    assert told["cost"]["spent"] == pytest.approx(20, rel=0.01)
    assert told["cost"]["total"]["p50"] == pytest.approx(80, rel=0.02)
    assert told["cost"]["kwh_total"] == pytest.approx(8 * 0.7 * 4, rel=0.02)
    assert told["cost"]["sources"]["energy"]["text"] == "upper estimate: rated 700 W all the time"
    assert set(told["remaining_s"]) >= {"p10", "p50", "p90"}
    json.dumps(told, allow_nan=False)


def test_the_log_says_which_gpus_and_the_table_has_a_list_price_with_its_date() -> None:
    segments = [timed_run(config={"gpu": "NVIDIA A100-SXM4-80GB", "world size": 16, "world_size": 1})]
    model = cost_model(segments)
    assert (model.gpus, model.gpu) == (16, "A100")
    assert model.price == price_table().price(price_table().gpu("a100")).per_hour  # type: ignore[union-attr]
    said = dict(model.sources)["price"].render()
    assert "list price of 20" in said
    assert "put in what you pay" in said


def test_what_is_missing_is_named_and_no_amount_is_made_up() -> None:
    segments = [timed_run()]
    report = cost_report(segments, cost_model(segments))
    told = report.to_dict()["cost"]
    assert told["spent"] is None
    assert told["total"] == {"p10": None, "p50": None, "p90": None}
    assert [text.render() for text in report.missing] == [
        "the log does not say how many GPUs it ran on",
        "no price: give one for a GPU and hour",
    ]


def test_price_zero_is_a_price_and_an_unknown_gpu_has_none() -> None:
    segments = [timed_run()]
    free = cost_report(segments, cost_model(segments, gpus=2, price=0.0))
    assert free.to_dict()["cost"]["spent"] == 0
    unknown = cost_model(segments, gpus=2, gpu="Cerebras <b>X9</b>")
    assert unknown.price is None
    assert unknown.watts is None
    assert "does not know" in dict(unknown.sources)["gpu"].render()


@pytest.mark.parametrize(
    "wish", [{"gpus": -1}, {"price": -2.0}, {"price": float("nan")}, {"pue": float("inf")}, {"idle_share": 1.0}]
)
def test_nonsense_is_refused(wish: dict) -> None:
    with pytest.raises(ValueError, match="can't be"):
        cost_model([timed_run()], **wish)


def test_another_currency_does_not_take_the_list_price() -> None:
    assert cost_model([timed_run()], gpus=1, gpu="H100", currency="EUR").price is None
    assert cost_model([timed_run()], gpus=1, gpu="H100", currency="EUR", price=2.0).currency == "EUR"


def test_storage_idle_time_pue_and_carbon_dioxide() -> None:
    model = CostModel(gpus=4, price=1.0, watts=500, pue=1.5, co2_kg_per_kwh=0.4, storage_per_hour=2.0, idle_share=0.2)
    assert model.gpu_hours(3600) == pytest.approx(5)
    assert model.money(3600) == pytest.approx(7)
    assert model.kwh(3600) == pytest.approx(3)
    assert model.co2_kg(3600) == pytest.approx(1.2)


def test_measured_power_comes_before_the_rated_one_and_utilisation_scales_it() -> None:
    measured = cost_model([timed_run(gpu_power_watts=300.0)], gpus=1, gpu="H100")  # type: ignore[arg-type]
    assert measured.watts == 300
    used = cost_model([timed_run(gpu_utilization_percent=50.0)], gpus=1, gpu="H100")  # type: ignore[arg-type]
    assert used.watts == 350
    assert "50% utilisation" in dict(used.sources)["energy"].render()


@pytest.mark.parametrize(
    ("budget", "words"), [(10, "is spent"), (60, "does not reach to the end"), (80.2, "may not reach"), (500, None)]
)
def test_the_budget_warns_before_the_end(budget: float, words: str | None) -> None:
    segments = [run(step_time_seconds=36.0 * np.exp(0.3 * np.random.default_rng(1).standard_normal(100)))]
    mean = float(segments[0].rows["step_time_seconds"].mean())
    report = cost_report(segments, cost_model(segments, gpus=8, price=2.5 * 36 / mean, budget=budget))
    told = [text.render() for text in report.warnings]
    assert (words is None and not told) or (words is not None and words in told[0])


def test_a_small_budget_is_told_as_it_is() -> None:
    segments = [run(step_time_seconds=np.full(100, 36.0))]
    (told,) = cost_report(segments, cost_model(segments, gpus=1, price=1.0, budget=0.25)).warnings
    assert told.render() == "the budget of 0.25 USD is spent: 1.00 so far"


def test_no_gpu_is_no_number_of_gpus() -> None:
    with pytest.raises(ValueError, match="leave it out where it is not known"):
        CostModel(gpus=0)


def test_no_time_at_all_asks_for_a_field() -> None:
    report = cost_report([run()], CostModel(gpus=8, price=2.5))
    assert report.elapsed is None
    assert report.total is None
    assert report.book is None
    assert "add the step time" in report.why.render()  # type: ignore[union-attr]


def test_zero_progress_and_nothing_at_all_are_said() -> None:
    assert cost_report([], CostModel()).why.render() == "there is no training step yet"  # type: ignore[union-attr]
    first = cost_report([run(count=1, step_time_seconds=30.0)], CostModel(gpus=1, price=1))
    assert first.left is None
    assert "only the first steps" in first.why.render()  # type: ignore[union-attr]


def test_a_printed_time_left_beside_rows_without_a_step_has_a_range() -> None:
    step = pa.array([0 if i % 2 else None for i in range(20)], pa.int64())
    left = pa.array([60.0] * 20)
    table = pa.table(
        {
            "step": step,
            "total_steps": pa.array([1.0] * 20),
            "remaining_seconds": left,
            "line": list(range(1, 21)),
            "segment": pa.array([0] * 20, pa.int32()),
            "kind": ["train"] * 20,
        }
    )
    estimate = time_left(split_segments(table, events=[]))
    assert estimate is not None
    assert (estimate.p10, estimate.p50, estimate.p90) == (60.0, 60.0, 60.0)


def test_a_failure_rate_adds_its_time() -> None:
    segments = [timed_run()]
    plain = cost_report(segments, CostModel())
    risky = cost_report(segments, CostModel(), failures=FailureRate(hours_between=1.0, hours_lost=0.5))
    assert risky.left.p50 > plain.left.p50 + 1800  # type: ignore[union-attr]
    assert "one in 1 hours" in risky.left.notes[-1].render()  # type: ignore[union-attr]


def test_an_own_price_table_comes_first_and_a_broken_one_is_named(tmp_path: Path) -> None:
    own = tmp_path / "prices.toml"
    own.write_text('[[price]]\ngpu = "H100"\nper_hour = 1.75\nkind = "reserved"\nsource = "our contract"\ndate = "2026-01"\n')
    table = price_table(own)
    assert table.price(table.gpu("H100 80GB HBM3")).per_hour == 1.75  # type: ignore[union-attr]
    own.write_text('[[price]]\ngpu = "H100"\nper_hour = -1\n')
    with pytest.raises(PriceTableError, match=r"prices\.toml can't be used"):
        price_table(own)


@pytest.mark.parametrize(
    ("printed", "name"),
    [
        ("NVIDIA H100 80GB HBM3", "H100"),
        ("NVIDIA H100 PCIe", "H100 PCIe"),
        ("Tesla V100-SXM2-16GB", "V100"),
        ("NVIDIA GeForce RTX 4090", "RTX 4090"),
        ("NVIDIA A10G", "A10G"),
        ("A100", "A100"),
        ("NVIDIA L40S", "L40S"),
        ("GTX 1660 SUPER", None),
        (None, None),
    ],
)
def test_printed_names_of_gpus(printed: str | None, name: str | None) -> None:
    found = price_table().gpu(printed)
    assert (found.name if found else None) == name


def test_every_list_price_has_a_source_a_date_and_a_known_gpu() -> None:
    table = price_table()
    names = {gpu.name for gpu in table.gpus}
    assert all(price.gpu in names and price.source for price in table.prices)
    assert all(re.fullmatch(r"20\d\d-\d\d(-\d\d)?", price.date) for price in table.prices)
