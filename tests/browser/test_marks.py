"""What a chart draws, read from the drawn marks: nothing of a million steps disappears.

RUNVITALS_MARKS_STEPS=10000000 asks the same of ten million.
"""

import os
import re

import numpy as np
import pyarrow as pa
import pytest
from playwright.sync_api import expect

from storage.store import Store
from storage.types import ROW_SCHEMA, Batch
from tests.serving import serving

pytestmark = pytest.mark.browser
STEPS = int(os.environ.get("RUNVITALS_MARKS_STEPS", "1000000"))
SPIKE, BAD = STEPS * 37 // 100, STEPS * 71 // 100
PATHS = """() => [...document.querySelectorAll('.stVegaLiteChart svg .mark-area path')]
  .map(path => path.getAttribute('d')).filter(d => d && d.length > 500)"""


def rows() -> pa.Table:
    """A calm curve with ten times its loss in one step and a NaN in another."""
    steps = np.arange(STEPS)
    loss = 2 + 3 * np.exp(-5 * steps / STEPS) + np.random.default_rng(1).normal(0, 0.02, STEPS)
    loss[SPIKE] *= 10
    loss[BAD] = np.nan
    known = {"line": steps + 1, "step": steps, "step_printed": steps, "segment": np.zeros(STEPS, np.int32)}
    places = [pa.array(known[f.name], f.type) if f.name in known else pa.nulls(STEPS, f.type) for f in ROW_SCHEMA]
    places[1] = pa.DictionaryArray.from_arrays(np.zeros(STEPS, np.int8), ["train"]).cast(pa.string())
    return pa.table([*places, loss], names=[*ROW_SCHEMA.names, "loss"])


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    place = tmp_path_factory.mktemp("marks")
    with Store(place / "data") as store, store.writer(name="long") as writer:
        writer.append(Batch(rows()))
        writer.commit()
    with serving(place / "data", place / "server.log") as running:
        yield running, writer.run_id


def points(path: str) -> np.ndarray:
    """Return the corners of a drawn path, x and y in px."""
    return np.array([[float(x), float(y)] for x, y in re.findall(r"[ML](-?[\d.e-]+),(-?[\d.e-]+)", path)])


def test_one_spike_and_one_nan_of_all_steps_are_drawn_at_full_zoom_out(visit, served):
    running, run = served
    window = visit(running).open(f"/health?run={run}&cut=false&live=0")
    window.chart()
    window.page.wait_for_function(f"({PATHS})().length > 0")
    window.settled()
    band = points(window.page.evaluate(PATHS)[0])
    width = band[:, 0].max()
    top = band[band[:, 1].argmin()]
    calm = np.median(band[:, 1])
    assert abs(top[0] / width - SPIKE / STEPS) < 0.01  # where the spike is
    assert calm - top[1] > 5 * (band[:, 1].max() - calm)  # and as high above the curve
    crosses = window.page.locator(".stVegaLiteChart svg text", has_text="✕")
    expect(crosses).to_have_count(1)
    assert abs(place(crosses.first) / width - BAD / STEPS) < 0.01


def test_what_is_cut_off_says_its_value(visit, served):
    running, run = served
    window = visit(running).open(f"/health?run={run}&live=0")
    window.chart()
    hidden = window.page.locator(".stVegaLiteChart svg text", has_text="▲").first
    expect(hidden).to_have_text(re.compile(r"▲ \d"))
    assert 20 < float(hidden.text_content().removeprefix("▲ ")) < 60


def place(text) -> float:
    """Return the x of a drawn sign in px of its panel."""
    return float(re.search(r"translate\((-?[\d.]+)", text.get_attribute("transform"))[1])
