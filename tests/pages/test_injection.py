"""The injection lab: faults in a copy of a run are found or said to be missed, and nothing is stored."""

import numpy as np
import pandas as pd
import pytest

from analysis.segment import Segment
from server.injection import in_text
from tests.pages.helpers import canonical, take, words
from ui.injection_parts import FOUND, fate


def test_without_runs_a_simulated_one_is_used(shop, app):
    test = app("injection")
    assert not test.exception
    text = words(test)
    assert "faults were found" in text
    assert "Learning rate" in text
    assert "Nothing is stored" in text
    assert len(test.get("vega_lite_chart")) == 1
    assert shop.store.runs() == []


def test_a_run_of_ones_own_gets_every_fault_and_keeps_its_diagnosis(shop, app):
    run = take(shop, canonical(600), "calm.log")
    before = shop.diagnosis(run)
    text = words(app("injection", run=run))
    assert "could not be put in" in text
    assert "is reported as damaged" in text
    assert shop.diagnosis(run) == before
    assert len(shop.store.runs()) == 1


@pytest.mark.parametrize(
    ("columns", "told"),
    [
        ({"loss": 2.5, "lr": 1e-4, "grad_norm": 1.0}, "Line 101 is reported as damaged"),
        ({"elapsed_seconds": 1.5, "loss": 2.5}, "Line 101 is no row any more"),
    ],
)
def test_what_the_reader_reports_of_a_damaged_line_counts_as_found(columns, told):
    rows = pd.DataFrame({"step": np.arange(1, 201), **{name: np.full(200, value) for name, value in columns.items()}})
    found = in_text(Segment(0, rows), "cut_line")
    assert fate(found) == FOUND
    assert found.told.render().startswith(told)


def test_a_run_that_is_too_short_says_so(shop, app):
    run = take(shop, canonical(60), "short.log")
    assert "are needed to put a fault into them" in words(app("injection", run=run))
