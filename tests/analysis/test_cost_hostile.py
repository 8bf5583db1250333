"""Whatever a log prints, cost and ledger are finite numbers or sentences, valid JSON, never an exception."""

import json
import warnings

import numpy as np
import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from analysis.cost import cost_model, cost_report
from analysis.segment import split_segments

VALUE = st.one_of(
    st.none(),
    st.floats(),
    st.floats(0, 1e4),
    st.sampled_from([0.0, -1.0, 1e-320, 1e308, -1e308, float("nan"), float("inf"), 2.5, 3.0, 60.0]),
)
NAMES = (
    *("loss", "epoch", "total_steps", "epochs", "steps_per_epoch", "batch_size", "samples_seen", "tokens_seen"),
    *("epoch_time_minutes", "step_time_seconds", "remaining_seconds", "elapsed_seconds", "eta_seconds", "time"),
    *("steps_per_second", "tokens_per_second", "samples_per_second", "interval_runtime", "gpu_power_watts"),
)


@st.composite
def tables(draw: st.DrawFn) -> pa.Table:
    names = draw(st.lists(st.sampled_from(NAMES), min_size=1, max_size=6, unique=True))
    count = draw(st.integers(0, 30)) * draw(st.sampled_from([1, 7]))
    pattern = {name: draw(st.lists(VALUE, min_size=1, max_size=9)) for name in names}
    columns = {name: pa.array([v[i % len(v)] for i in range(count)], pa.float64()) for name, v in pattern.items()}
    if draw(st.booleans()):
        steps = draw(st.lists(st.one_of(st.none(), st.integers(-(2**60), 2**60)), min_size=1, max_size=5))
        columns["step"] = pa.array([steps[i % len(steps)] for i in range(count)], pa.int64())
    else:
        columns["step"] = pa.array(range(count), pa.int64())
    if draw(st.booleans()):
        stamps = draw(st.lists(st.one_of(st.none(), st.integers(-(2**40), 2**43)), min_size=1, max_size=5))
        columns["timestamp"] = pa.array([stamps[i % len(stamps)] for i in range(count)], pa.timestamp("ms"))
    columns["line"] = pa.array(range(1, count + 1), pa.int64())
    columns["segment"] = pa.array(np.arange(count, dtype=np.int32) // 11 if draw(st.booleans()) else np.zeros(count, np.int32))
    columns["kind"] = pa.array(["eval" if i % 5 == 4 else "train" for i in range(count)])
    return pa.table(columns)


@given(tables())
@settings(max_examples=200, deadline=None)
def test_any_table_gets_amounts_or_reasons(table: pa.Table) -> None:
    event = {"line": 3, "kind": "checkpoint_saved", "text": "{braces} %s", "step": None, "segment": 0}
    segments = split_segments(table, events=[event])
    with warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)
        report = cost_report(segments, cost_model(segments, gpus=8, price=2.5, budget=10))
    told = report.to_dict()
    json.dumps(told, allow_nan=False)
    assert (report.left is None) == (report.why is not None)
    if report.book is not None:
        assert sum(item.seconds for item in report.book.items) == np.float64(report.book.seconds).item()
        assert all(item.seconds > 0 for item in report.book.items)
        assert report.book.goodput is None or 0 <= report.book.goodput <= 1
