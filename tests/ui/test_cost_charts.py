"""The charts of Time & cost compile, with their data, in light and dark."""

from types import SimpleNamespace

import pandas as pd
import pytest

from tests.ui.test_charts import compiled
from ui import cost_charts, costs


class Table(pd.DataFrame):
    def to_pandas(self) -> pd.DataFrame:
        return pd.DataFrame(self)


PARTS = Table(
    [
        {"name": "productive", "title": "Productive", "lane": "", "from": 0.0, "until": 3.0, "amount": "3 hr", "share": "75%"}
        | {"tone": "green", "opacity": 0.45},
        {"name": "hangs", "title": "it's \\ hung", "lane": "", "from": 3.0, "until": 4.0, "amount": "1 hr", "share": "25%"}
        | {"tone": "violet", "opacity": 1.0},
    ]
)
COURSE = Table({"step": [10, 20, 30], "seconds": [1.0, 40.0, 1.2], "hours": [0.1, 0.2, 0.3], "launch": [1, 1, 2]})


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_every_chart_compiles(theme: str) -> None:
    bar = {**cost_charts.ledger("Part", "Time", "Share", "min"), "datasets": {cost_charts.PARTS: PARTS}}
    assert compiled(bar, theme).count("<path") >= 2
    for log in (False, True):
        way = cost_charts.course("Step", "Seconds", "Hours", "Launch", log=log)
        assert "<svg" in compiled({**way, "datasets": {cost_charts.COURSE: COURSE}}, theme)
    end = Table([{"step": 60, "loss": 2.0, "low": 1.9, "high": 2.1}])
    blocks = Table({"step": [10, 20, 30], "loss": [3.0, 2.5, 2.3]})
    loss = {**cost_charts.loss("Step", "Loss", "Low", "High"), "datasets": {cost_charts.BLOCKS: blocks, cost_charts.END: end}}
    assert "<svg" in compiled(loss, theme)


def test_every_part_of_the_ledger_has_a_colour() -> None:
    from analysis.ledger import PARTS as NAMES

    assert NAMES.keys() == cost_charts.TONES.keys()


@pytest.mark.parametrize(
    ("seconds", "unit"), [(90, " sec"), (240, " min"), (3 * 3600, " hr"), (5 * 86_400, " days"), (0, " sec")]
)
def test_the_axis_of_the_ledger_counts_in_a_unit_that_fits(seconds: float, unit: str) -> None:
    book = SimpleNamespace(seconds=seconds, items=())
    assert costs.unit_of(SimpleNamespace(report=SimpleNamespace(book=book)))[0] == unit


def test_the_axis_of_the_ledger_counts_in_the_language_of_the_reader(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(costs, "language", lambda: "zh_CN")
    book = SimpleNamespace(seconds=240, items=())
    assert costs.unit_of(SimpleNamespace(report=SimpleNamespace(book=book)))[0] == "分钟"
