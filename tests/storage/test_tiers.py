"""Buckets against a brute-force count over the raw rows: no spike and no NaN is lost at any zoom, from any tier."""

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from storage.keeping import series
from storage.keeping.tiers import Groups, single
from storage.store import Store
from storage.types import ROW_SCHEMA, Batch

HUGE = [1e308, -1e308, 5e-324, 0.0, -0.0]
BAD = [np.nan, np.inf, -np.inf]


def table(rows: dict) -> pa.Table:
    """Rows (ROW_SCHEMA and metrics) from numpy arrays; NaN stays NaN, a masked value is null."""
    count = len(rows["step"])
    arrays, names = [], []
    for field in ROW_SCHEMA:
        value = rows.get(field.name)
        arrays.append(pa.nulls(count, field.type) if value is None else pa.array(value, field.type))
        names.append(field.name)
    for name in rows.keys() - set(names):
        arrays.append(pa.array(np.ma.getdata(rows[name]), pa.float64(), mask=np.ma.getmaskarray(rows[name])))
        names.append(name)
    return pa.table(arrays, names=names)


def write_in_pieces(store, rows: pa.Table, cuts) -> str:
    """Store the rows in one transaction a piece."""
    run = store.create_run("a")
    edges = [0, *sorted(set(cuts)), rows.num_rows]
    for start, stop in zip(edges, edges[1:], strict=False):
        with store.writer(run) as writer:
            writer.append(Batch(rows.slice(start, stop - start)))
            writer.commit()
    return run


@st.composite
def logs(draw):
    """A run of up to 3,600 rows in up to three launches, its steps restarting, with spikes, NaN, gaps and summary rows."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    lengths = draw(st.lists(st.integers(1, 1200), min_size=1, max_size=3))
    segment = np.repeat(np.arange(len(lengths)), lengths)
    count = len(segment)
    step = np.concatenate([int(rng.integers(0, 500)) + np.cumsum(rng.integers(1, 4, n)) for n in lengths])
    loss = np.ma.masked_array(rng.normal(2, 0.1, count), rng.random(count) < draw(st.sampled_from([0, 0.3])))
    for place in draw(st.lists(st.integers(0, count - 1), max_size=6)):
        loss[place] = draw(st.sampled_from(HUGE + BAD))
    kind = np.where(rng.random(count) < draw(st.sampled_from([0, 0.02])), "summary", "train")
    lines = np.cumsum(rng.integers(1, 5, count))
    rows = {"line": lines, "kind": kind, "segment": segment, "step": step, "loss": loss, "lr": rng.random(count)}
    return rows | {"timestamp": 1_700_000_000_000 + lines * 1000, "tokens_seen": step * 2048.0, "epoch": step / 1000}


def brute(rows, metric, segment, low, high, axis="step"):
    """What a bucket from `low` to `high` must say of the finite and the other values in it."""
    taken = (rows["segment"] == segment) & (rows[axis] >= low) & (rows[axis] <= high) & (rows["kind"] != "summary")
    taken &= ~np.ma.getmaskarray(rows[metric])
    values, lines = np.ma.getdata(rows[metric])[taken], rows["line"][taken]
    return values, values[np.isfinite(values)], lines


@given(data=st.data(), rows=logs())
@settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))
def test_every_bucket_is_what_the_rows_say(tmp_path_factory, data, rows):
    width = data.draw(st.sampled_from([1, 2, 7, 30, 1000]), "width")
    cuts = data.draw(st.lists(st.integers(1, max(1, len(rows["step"]) - 1)), max_size=4), "cuts")
    axis = data.draw(st.sampled_from(["step", "line", "tokens_seen", "epoch"]), "x")
    with Store(tmp_path_factory.mktemp("store")) as store:
        found = store.buckets(write_in_pieces(store, table(rows), cuts), ["loss", "lr"], x=axis, width=width)
    assert (found.groupby(["metric", "segment"]).size() <= width).all()
    for metric in ("loss", "lr"):
        for number in range(rows["segment"].max() + 1):
            buckets = found[(found["metric"] == metric) & (found["segment"] == number)]
            values, finite, _ = brute(rows, metric, number, -np.inf, np.inf)
            assert (buckets["count"].sum(), buckets["nonfinite"].sum()) == (len(values), len(values) - len(finite))
            assert buckets["x"].is_monotonic_increasing
    for bucket in found.itertuples():
        values, finite, lines = brute(rows, bucket.metric, bucket.segment, bucket.x, bucket.x_last, axis)
        assert (bucket.count, bucket.nonfinite) == (len(values), len(values) - len(finite))
        np.testing.assert_equal([bucket.first, bucket.last], values[[0, -1]])
        if len(finite):
            assert (bucket.min, bucket.max) == (finite.min(), finite.max())
            scale = np.abs(finite).max() or 1
            assert bucket.mean / scale == pytest.approx(np.mean(finite / scale), abs=1e-9)
            assert values[lines == bucket.min_line] == bucket.min
            assert values[lines == bucket.max_line] == bucket.max
        else:
            assert np.isnan([bucket.min, bucket.max, bucket.mean]).all()


@given(data=st.data(), rows=logs())
@settings(max_examples=15, deadline=None, suppress_health_check=list(HealthCheck))
def test_a_zoom_shows_every_value_of_its_range(tmp_path_factory, data, rows):
    width = data.draw(st.sampled_from([1, 7, 30]), "width")
    low, high = sorted(data.draw(st.tuples(*[st.integers(-10, 5000)] * 2), "range"))
    with Store(tmp_path_factory.mktemp("store")) as store:
        found = store.buckets(write_in_pieces(store, table(rows), []), ["loss"], first=low, last=high, width=width)
    for number in range(rows["segment"].max() + 1):
        buckets = found[found["segment"] == number]
        assert len(buckets) <= width
        values, finite, _ = brute(rows, "loss", number, low, high)
        assert buckets["count"].sum() >= len(values)
        assert buckets["nonfinite"].sum() >= len(values) - len(finite)
        if len(finite):
            assert buckets["max"].max() >= finite.max()
            assert buckets["min"].min() <= finite.min()


@pytest.fixture(scope="module")
def long_run(tmp_path_factory):
    """A store with one run of 300,000 steps, one of them a spike and one NaN, written in unequal transactions."""
    count = 300_000
    loss = 2 + np.random.default_rng(1).normal(0, 0.01, count)
    loss[123_456], loss[234_567] = 99.0, np.nan
    steps = np.arange(count)
    rows = {"line": steps + 1, "kind": np.full(count, "train"), "segment": np.zeros(count, int), "step": steps, "loss": loss}
    with Store(tmp_path_factory.mktemp("store")) as store:
        yield store, write_in_pieces(store, table(rows), [17, 49, 50, 999, 1001, 200_000, 299_990])


@pytest.mark.parametrize("width", [1, 10, 100, 1000, 3000, 100_000])
@pytest.mark.parametrize("zoom", [(None, None), (120_000, 240_000), (123_400, 234_600), (123_456, 234_567)])
def test_a_spike_and_a_nan_of_one_step_are_seen_at_every_zoom(long_run, width, zoom):
    store, run = long_run
    found = store.buckets(run, ["loss"], first=zoom[0], last=zoom[1], width=width)
    spike = found[found["max"] == 99.0]
    assert (spike["max_step"].item(), spike["max_line"].item()) == (123_456, 123_457)
    assert spike["x"].item() <= 123_456 <= spike["x_last"].item()
    bad = found[found["nonfinite"] > 0]
    assert bad["nonfinite"].tolist() == [1]
    assert bad["x"].item() <= 234_567 <= bad["x_last"].item()


def test_rows_come_in_the_order_logged_from_any_number_of_transactions(long_run):
    store, run = long_run
    assert store.frame(run, ["line"])["line"].to_pylist() == list(range(1, 300_001))
    part = store.frame(run, ["step"], first_step=199_000, last_step=201_000)
    assert part["step"].to_pylist() == list(range(199_000, 201_001))


def test_each_tier_is_used_where_it_is_meant_to_be(long_run, monkeypatch):
    store, run = long_run
    used = []
    choose = series.Chart._tier
    monkeypatch.setattr(series.Chart, "_tier", lambda *asked: used.append(choose(*asked)) or used[-1])
    for width, zoom in ((100, None), (1000, None), (10_000, None), (1000, (0, 150_000)), (1000, (0, 50_000))):
        first, last = zoom or (None, None)
        store.buckets(run, ["loss"], width=width, first=first, last=last)
    assert used == [1000, 50, None, 50, None]


def test_ranks_and_kinds_are_not_mixed_in_a_cell(tmp_path):
    steps = np.repeat(np.arange(1000), 2)
    rows = {"line": np.arange(2000) + 1, "kind": np.tile(["train", "telemetry"], 1000), "segment": np.zeros(2000, int)}
    rows |= {"step": steps, "rank": np.tile([0, 1], 1000), "loss": np.ma.masked_array(steps, np.tile([False, True], 1000))}
    with Store(tmp_path) as store:
        run = write_in_pieces(store, table(rows), [])
        found = store.buckets(run, ["loss"], width=1)
    assert (found["count"].item(), found["max"].item(), found["last"].item()) == (1000, 999, 999)


def test_wall_clock_and_elapsed_seconds(tmp_path):
    steps = np.arange(100)
    rows = {"line": steps + 1, "kind": np.full(100, "train"), "segment": np.zeros(100, int), "step": steps}
    rows |= {"timestamp": 1_700_000_000_000 + 500 * steps, "loss": steps.astype(float)}
    with Store(tmp_path) as store:
        run = write_in_pieces(store, table(rows), [60])
        elapsed = store.buckets(run, ["loss"], x="elapsed_seconds", width=10)
        clock = store.buckets(run, ["loss"], x="timestamp", width=10)
        assert store.buckets(run, ["loss"], x="tokens_seen").empty
        assert store.buckets(run, ["nothing"]).empty
        part = store.buckets(
            run, ["loss"], x="timestamp", first=clock["x"][3].to_pydatetime(), last=clock["x"][4].to_pydatetime()
        )
    assert elapsed["x"][0] == 0
    assert elapsed["x_last"].iloc[-1] == 49.5
    assert str(clock["x"].dtype) == "datetime64[ms]"
    assert clock["x"][0].isoformat() == "2023-11-14T22:13:20"
    assert part["first"].tolist()[0] == 30.0


def test_rows_without_the_x_are_not_in_the_chart(tmp_path):
    step = np.ma.masked_array(np.arange(10), np.arange(10) > 6)
    rows = {"line": np.arange(10) + 1, "kind": np.full(10, "train"), "segment": np.zeros(10, int)}
    rows |= {"step": pa.array(step.data, mask=step.mask), "loss": np.arange(10.0)}
    with Store(tmp_path) as store:
        run = write_in_pieces(store, table(rows), [])
        assert store.buckets(run, ["loss"])["count"].sum() == 7
        assert store.buckets(run, ["loss"], x="line")["count"].sum() == 10


def test_windows_of_steps_epochs_and_hours(tmp_path):
    steps = np.arange(5, 205)
    rows = {"line": steps, "kind": np.full(200, "train"), "segment": np.zeros(200, int), "step": steps, "loss": steps * 1.0}
    rows |= {"epoch": steps / 100, "timestamp": 1_700_000_000_000 + steps * 60_000}
    with Store(tmp_path) as store:
        run = write_in_pieces(store, table(rows), [100])
        tens = store.windows(run, ["loss"], 10)
        epochs = store.windows(run, ["loss"], 1, x="epoch")
        hours = store.windows(run, ["loss"], 3600, x="timestamp")
    assert tens["x"].tolist() == [5, *range(10, 201, 10)]
    assert tens.loc[1, ["mean", "min", "max", "first", "last", "count", "nonfinite"]].tolist() == [14.5, 10, 19, 10, 19, 10, 0]
    assert epochs["count"].tolist() == [95, 100, 5]
    assert set(hours["x"].dt.hour.diff().dropna()) <= {1, -23}
    assert hours["count"].sum() == 200


@pytest.mark.parametrize("lengths", [[4, 4, 4], [4, 3, 5]])
def test_an_extreme_is_where_its_first_value_is_whether_groups_are_of_one_length_or_not(lengths):
    values = np.array([[3.0, 1, 1, 2, np.nan, np.nan, 5, np.nan, 7, 7, 7, np.inf], [np.nan] * 8 + [0.0, -1, -1, 5]])
    places = np.arange(12)
    merged = Groups(np.repeat([0, 1, 2], lengths)).merge(single(values, places, places))
    edges = np.cumsum([0, *lengths])
    for row, of_row in enumerate(values):
        for group, (start, stop) in enumerate(zip(edges, edges[1:], strict=False)):
            finite = [place for place in range(start, stop) if np.isfinite(of_row[place])]
            for name, extreme in (("min", min), ("max", max)):
                wanted = extreme(finite, key=lambda place: of_row[place], default=np.nan)
                assert np.array_equal(merged[f"{name}_step"][row, group], wanted, equal_nan=True)
