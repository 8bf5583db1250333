"""Whatever a log prints about time, hardware, gradients and ranks: findings in valid JSON, never an exception."""

import json
from dataclasses import replace

import numpy as np
import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from analysis.registry import all_rules
from analysis.segment import split_segments

VALUE = st.one_of(st.none(), st.floats(), st.sampled_from([0.0, -1.0, 1e-320, 1e308, -1e308, np.nan, np.inf, 2.5, 2.5, 90.0]))
STEP = st.one_of(st.none(), st.integers(-(2**60), 2**60), st.integers(1, 50))
STAMP = st.one_of(st.none(), st.integers(-(10**14), 10**15), st.integers(0, 10**7))
NAMES = (
    *("loss", "grad_norm", "lr", "step_time_seconds", "elapsed_seconds", "time", "tokens_per_second", "steps_per_second"),
    *("epoch", "steps_per_epoch", "epoch_time_minutes", "total_steps", "batch_size", "data_time_seconds", "memory_bytes"),
    *("memory_total_bytes", "memory_peak_bytes", "gpu_utilization_percent", "gpu_temperature_celsius", "index", "entropy"),
)
OURS = (
    *("grad_explosion", "grad_clipped", "grad_vanishing", "grad_zero", "grad_creep", "slowdown", "step_time_spike"),
    *("periodic_pause", "step_time_jitter", "hang", "restart", "utilisation_low", "memory_near_limit", "memory_leak"),
    *("temperature_high", "rank_divergence", "rank_duplicate"),
)
RULES = [rule for rule in all_rules() if rule.name in OURS]


@st.composite
def tables(draw: st.DrawFn) -> pa.Table:
    names = draw(st.lists(st.sampled_from(NAMES), min_size=1, unique=True))
    count = draw(st.sampled_from([0, 1, 2, 9, 40, 250]))
    steady = draw(st.booleans())

    def column(strategy: st.SearchStrategy[object], kind: pa.DataType) -> pa.Array:
        pattern = draw(st.lists(strategy, min_size=1, max_size=12))
        return pa.array([pattern[i % len(pattern)] for i in range(count)], kind)

    columns = {name: column(VALUE, pa.float64()) for name in names}
    columns["step"] = pa.array(range(1, count + 1), pa.int64()) if steady else column(STEP, pa.int64())
    columns["timestamp"] = column(STAMP, pa.timestamp("ms"))
    columns["rank"] = column(st.sampled_from([None, 0, 1, 2]), pa.int32())
    columns["line"] = pa.array(range(1, count + 1), pa.int64())
    columns["kind"] = column(st.sampled_from(["train", "train", "telemetry", "eval"]), pa.string())
    return pa.table(columns)


@given(tables(), st.sampled_from([None, 10.0, 1e9, np.inf, np.nan]), st.sampled_from(["robust", "articles"]))
@settings(max_examples=150, deadline=None)
def test_any_table_gets_findings_in_valid_json(table: pa.Table, silent: float | None, profile: str) -> None:
    events = [
        {"line": line, "kind": kind, "text": "{braces} %s", "segment": 0} for line, kind in ((3, "resume"), (1, "traceback"))
    ]
    for segment in split_segments(table, events=events, config={"max_grad_norm": "x", "rank1.seed": None}):
        watched = replace(segment, silent_seconds=silent)
        for rule in RULES:
            if not rule.missing(watched):
                with np.errstate(all="ignore"):
                    for finding in rule.by(profile)(watched):
                        assert finding.title.render()
                        json.dumps(finding.to_dict(), allow_nan=False)
