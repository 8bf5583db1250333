"""Whatever a log prints, the diagnosis is a sentence and valid JSON, never an exception."""

import json

import numpy as np
import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from analysis.diagnose import Diagnosis, diagnose
from analysis.segment import split_segments
from analysis.time_left import time_left, why_unknown

VALUE = st.one_of(
    st.none(),
    st.floats(),
    st.sampled_from([0.0, -0.0, 1e-320, 1e308, -1e308, float("nan"), float("inf"), 2.5, 2.5, 2.4]),
)
NAMES = (
    *("loss", "logits_loss", "aux_loss", "lr", "grad_norm", "epoch", "total_steps", "epochs", "steps_per_epoch"),
    *("epoch_time_minutes", "step_time_seconds", "remaining_seconds", "elapsed_seconds", "loss_scale"),
    *("eval_loss", "reward", "kl", "entropy", "response_length", "policy_loss", "batch_size", "skipped_iterations"),
)


@st.composite
def tables(draw: st.DrawFn) -> pa.Table:
    names = draw(st.lists(st.sampled_from(NAMES), min_size=1, unique=True))
    rows = draw(st.integers(0, 40))
    pattern = {name: draw(st.lists(VALUE, min_size=1, max_size=12)) for name in names}
    repeat = draw(st.sampled_from([1, 9]))
    count = rows * repeat
    columns = {
        name: pa.array([values[i % len(values)] for i in range(count)], pa.float64()) for name, values in pattern.items()
    }
    steps = draw(st.lists(st.one_of(st.none(), st.integers(-(2**60), 2**60)), min_size=1, max_size=9))
    columns["step"] = pa.array([steps[i % len(steps)] for i in range(count)], pa.int64())
    columns["line"] = pa.array(range(1, count + 1), pa.int64())
    columns["segment"] = pa.array(np.arange(count, dtype=np.int32) // 17 if draw(st.booleans()) else np.zeros(count, np.int32))
    columns["kind"] = pa.array(["eval" if i % 7 == 6 else "train" for i in range(count)])
    return pa.table(columns)


@given(tables())
@settings(max_examples=150, deadline=None)
def test_any_table_gets_a_diagnosis(table: pa.Table) -> None:
    kinds = (
        "traceback",
        "out_of_memory",
        "collective_timeout",
        "interrupted",
        "loss_scale_overflow",
        "resume",
        "dataset_change",
    )
    events = [
        {"line": 3 + at, "kind": kind, "text": "{braces} %s \x00", "step": None, "segment": 0, "data": data}
        for at, (kind, data) in enumerate(zip(kinds, (None, {}, {"rank": 1}, {}, {}, {}, {}), strict=True))
    ]
    segments = split_segments(table, events=events)
    articles = diagnose(segments, profile="articles")
    assert json.dumps(articles.to_dict(), allow_nan=False)
    diagnosis = diagnose(split_segments(table, events=events))
    assert all(item.text.render() for item in diagnosis.to_log())
    assert diagnosis.sentence.render()
    text = json.dumps(diagnosis.to_dict(), allow_nan=False)
    assert Diagnosis.from_dict(json.loads(text)).to_dict() == json.loads(text)
    assert (time_left(segments) is None) == (why_unknown(segments) is not None)
