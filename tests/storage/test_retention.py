"""What ages and what stays: windows around findings, held runs, aggregates in the place of rows, and no half of anything."""

import os
from datetime import UTC, datetime, timedelta

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from storage.keeping import retention
from storage.keeping.archive import GONE, Frame, cut
from storage.keeping.retention import Plan, Policy, merged
from storage.store import Store, StoreError
from storage.types import ROW_SCHEMA, Batch

LATER = datetime.now(UTC) + timedelta(days=40)
ALL = Policy(lines_days=7, rows_days=30, aggregates_days=None, around=20)


def rows_of(steps, loss):
    """One training row a step; line = step + 1."""
    count = len(steps)
    places = {"line": steps + 1, "kind": ["train"] * count, "segment": np.zeros(count, int), "step": steps}
    arrays = [pa.array(places[f.name], f.type) if f.name in places else pa.nulls(count, f.type) for f in ROW_SCHEMA]
    return pa.table([*arrays, pa.array(loss, pa.float64())], names=[*ROW_SCHEMA.names, "loss"])


def text_of(first, last):
    return "".join(f"line {number}\n" for number in range(first, last + 1)).encode()


def finding(first, last=None):
    return {"findings": [{"first_line": first, "last_line": last or first, "evidence": []}]}


def filled(store, count=5500, spots=(3001,), **bad):
    """A run of `count` rows with a diagnosis; `bad`: values by step number s<step>."""
    loss = np.random.default_rng(3).normal(2, 0.1, count)
    for name, value in bad.items():
        loss[int(name[1:])] = value
    run = store.create_run("a")
    for start in range(0, count, 2500):
        stop = min(count, start + 2500)
        with store.writer(run) as writer:
            writer.append(Batch(rows_of(np.arange(start, stop), loss[start:stop])))
            writer.keep(text_of(start + 1, stop))
            version = writer.commit(offset=stop)
    data = {"findings": [each for spot in spots for each in finding(spot)["findings"]]}
    store.save_diagnosis(run, "robust", version, data)
    return run, loss


@pytest.fixture
def store(tmp_path):
    with Store(tmp_path) as opened:
        yield opened


def test_a_dry_run_says_what_would_go_and_changes_nothing(store):
    run, _ = filled(store)
    before = store.frame(run), store.lines(run, 1, 5500)
    plan = store.retention(ALL, dry_run=True, at=LATER)
    assert {step.what: step.count > 4000 for step in plan.steps} == {"lines": True, "rows": True}
    assert all(step.bytes > 0 for step in plan.steps if step.what == "lines")
    assert (store.frame(run), store.lines(run, 1, 5500)) == before
    assert store.retention(ALL, dry_run=True) == Plan(())


def test_what_goes_is_what_was_announced_and_then_nothing_is_due(store):
    run, _ = filled(store)
    announced = store.retention(ALL, dry_run=True, at=LATER)
    assert store.retention(ALL, at=LATER) == announced
    assert store.retention(ALL, at=LATER) == Plan(())
    gone = {step.what: step for step in announced.steps}
    assert store.frame(run).num_rows == gone["rows"].kept == 5500 - gone["rows"].count
    lines = [line for line in store.lines(run, 1, 5500) if line != GONE]
    assert len(lines) == gone["lines"].kept == 5500 - gone["lines"].count


def test_lines_and_rows_around_a_finding_stay(store):
    run, loss = filled(store)
    store.retention(ALL, at=LATER)
    assert store.lines(run, 2981, 3021) == [f"line {number}" for number in range(2981, 3022)]
    assert store.lines(run, 2979, 2982) == [GONE, GONE, "line 2981", "line 2982"]
    assert store.lines(run, 1, 3) == ["line 1", "line 2", "line 3"]
    assert store.lines(run, 5499, 5500) == ["line 5499", "line 5500"]
    with pytest.raises(StoreError, match="1000 to 1001"):
        store.lines(run, 1000, 1001)
    left = store.frame(run)
    assert set(range(2980, 3030)) | set(range(5000, 5500)) == set(left["step"].to_pylist())
    np.testing.assert_array_equal(left["loss"].to_numpy(), loss[left["step"].to_numpy()])


@pytest.mark.parametrize("width", [1, 7, 100, 3000])
@pytest.mark.parametrize("zoom", [(None, None), (2900, 3100), (900, 1300)])
def test_no_spike_and_no_nan_is_lost_with_the_rows(store, width, zoom):
    run, loss = filled(store, s1234=99.0, s3000=-5.0, s4321=np.nan)
    store.retention(ALL, at=LATER)
    found = store.buckets(run, ["loss"], first=zoom[0], last=zoom[1], width=width)
    low, high = zoom[0] or 0, zoom[1] or 5499
    taken = loss[low : high + 1]
    finite = taken[np.isfinite(taken)]
    assert found["max"].max() >= finite.max()
    assert found["min"].min() <= finite.min()
    if zoom == (None, None):
        assert found["count"].sum() == 5500
        assert found["nonfinite"].sum() == 1
        assert np.average(found["mean"], weights=found["count"] - found["nonfinite"]) == pytest.approx(finite.mean())
    for bucket in found.itertuples():
        values = loss[int(bucket.x) : int(bucket.x_last) + 1]
        assert bucket.count == len(values)
        assert (bucket.first, bucket.last) == (values[0], values[-1]) or np.isnan(values[[0, -1]]).any()


def test_windows_of_ten_steps_are_the_same_before_and_after(store):
    run, _ = filled(store, s777=50.0)
    before = store.windows(run, ["loss"], 10)
    store.retention(ALL, at=LATER)
    after = store.windows(run, ["loss"], 10)
    assert len(after) == len(before)
    for name in ("min", "max", "first", "last", "count", "nonfinite", "x", "x_last", "max_line"):
        np.testing.assert_array_equal(after[name], before[name])
    np.testing.assert_allclose(after["mean"], before["mean"])


def test_a_held_run_is_never_aged(store):
    run, _ = filled(store)
    store.hold(run, "baseline")
    store.hold(run, "pinned")
    assert store.holds() == {run: ["baseline", "pinned"]}
    plan = store.retention(ALL, at=LATER)
    assert (plan.steps, plan.held) == ((), (run,))
    assert store.frame(run).num_rows == 5500
    store.release(run, "baseline")
    store.release(run, "pinned")
    assert {step.what for step in store.retention(ALL, at=LATER).steps} == {"lines", "rows"}


def test_a_run_without_a_diagnosis_is_not_aged(store):
    run = store.create_run("a")
    with store.writer(run) as writer:
        writer.keep(text_of(1, 3000))
        writer.commit()
    plan = store.retention(ALL, at=LATER)
    assert (plan.steps, plan.undiagnosed) == ((), (run,))
    assert len(store.lines(run, 1, 3000)) == 3000


def test_young_lines_and_growing_runs_stay(store):
    run, _ = filled(store)
    assert store.retention(ALL, at=datetime.now(UTC) + timedelta(days=6)) == Plan(())
    plan = store.retention(ALL, at=datetime.now(UTC) + timedelta(days=8))
    assert [step.what for step in plan.steps] == ["lines"]
    assert store.frame(run).num_rows == 5500
    assert not store.thinned(run)


def test_nothing_is_due_where_nothing_ever_goes(store):
    filled(store)
    assert store.retention(Policy(None, None, None), at=LATER + timedelta(days=9999)) == Plan(())


def test_aggregates_go_after_the_rows_and_what_is_known_stays(store):
    run, _ = filled(store)
    store.retention(ALL, at=LATER)
    plan = store.retention(Policy(aggregates_days=365), at=LATER + timedelta(days=366))
    assert [step.what for step in plan.steps] == ["aggregates"]
    assert store.buckets(run, ["loss"])["count"].sum() == store.frame(run).num_rows < 5500
    assert store.latest()["step"].tolist() == [5499]
    assert store.sparklines()[run].size
    assert store.diagnosis(run)[1]["findings"]
    kept, _ = filled(store)
    assert store.retention(Policy(lines_days=None, aggregates_days=365), at=LATER + timedelta(days=366)) == Plan(())
    assert store.buckets(kept, ["loss"])["count"].sum() == 5500


def test_an_aged_run_goes_on_growing_and_ages_again(store):
    run, loss = filled(store, s10=77.0)
    version = store.version(run)
    store.retention(ALL, at=LATER)
    assert store.version(run) == version
    more = np.linspace(1, 2, 3000)
    with store.writer(run) as writer:
        writer.append(Batch(rows_of(np.arange(5500, 8500), more)))
        writer.keep(text_of(5501, 8500))
        writer.commit()
    assert store.lines(run, 5400, 5502) == [*[GONE] * 81, *(f"line {n}" for n in range(5481, 5503))]
    assert store.run(run).rows == 8500
    assert store.buckets(run, ["loss"], width=50)["count"].sum() == 8500
    store.retention(ALL, at=LATER + timedelta(days=40))
    found = store.buckets(run, ["loss"], width=10_000)
    assert found["count"].sum() == 8500
    assert found["max"].max() == 77.0
    assert 2980 in store.frame(run, ["step"])["step"].to_pylist()


def test_original_gives_what_is_kept_and_says_that_it_is_not_all(store):
    run, _ = filled(store)
    assert store.all_kept(run)
    store.retention(ALL, at=LATER)
    assert not store.all_kept(run)
    assert b"".join(store.original(run)).decode().splitlines()[:22][-2:] == ["line 21", "line 2981"]


def test_a_replaced_run_is_whole_again(store):
    run, _ = filled(store)
    store.retention(ALL, at=LATER)
    with store.writer(run, replace=True) as writer:
        writer.append(Batch(rows_of(np.arange(3000), np.ones(3000))))
        writer.keep(text_of(1, 3000))
        writer.commit()
    assert not store.thinned(run)
    assert store.frame(run).num_rows == store.buckets(run, ["loss"], width=9999)["count"].sum() == 3000
    assert len(store.lines(run, 1, 3000)) == 3000


def test_long_archives_are_cut_frame_by_frame(store, monkeypatch):
    monkeypatch.setattr("storage.keeping.archive.FRAME_BYTES", 1000)
    monkeypatch.setattr("storage.keeping.originals.FRAME_BYTES", 1000)
    run, _ = filled(store, spots=(700, 701, 4000))
    store.retention(ALL, at=LATER)
    files = list((store.data_dir / "archive").iterdir())
    assert [file.name for file in files] == [f"{run}.1.zst"]
    assert [line for line in store.lines(run, 1, 5500) if line != GONE] == [
        f"line {n}" for low, high in ((1, 21), (680, 721), (3980, 4020), (5481, 5500)) for n in range(low, high + 1)
    ]


@pytest.mark.parametrize("phase", ["insert", "drop_lines", "commit", "unlink"])
def test_a_kill_leaves_all_or_nothing(tmp_path, phase, monkeypatch):
    monkeypatch.setattr("storage.keeping.archive.FRAME_BYTES", 1000)
    monkeypatch.setattr("storage.keeping.originals.FRAME_BYTES", 1000)
    with Store(tmp_path) as store:
        run, loss = filled(store, s1234=99.0)
    pid = os.fork()
    if pid == 0:
        _die_in(phase, tmp_path)
    assert os.WEXITSTATUS(os.waitpid(pid, 0)[1]) == 9
    with Store(tmp_path) as store:
        lines = store.lines(run, 1, 5500)
        aged = store.thinned(run)
        assert aged == (phase == "unlink")
        assert len(lines) == 5500
        assert (GONE in lines) == aged
        assert (store.frame(run).num_rows < 5500) == aged
        found = store.buckets(run, ["loss"], width=9999)
        assert (found["count"].sum(), found["max"].max()) == (5500, 99.0)
        assert len(list((tmp_path / "archive").iterdir())) == 1
        store.retention(ALL, at=LATER)
        assert store.retention(ALL, at=LATER) == Plan(())


def _die_in(phase, folder):
    """Age in this process, and end it in the phase without any tidying up."""
    store = Store(folder)
    if phase == "unlink":
        type(store.data_dir).unlink = lambda *_, **__: os._exit(9)
    elif phase == "commit":
        drop = retention.drop_lines
        retention.drop_lines = lambda *given: (drop(*given), os._exit(9))
    else:
        setattr(retention, phase, lambda *_: os._exit(9))
    store.retention(ALL, at=LATER)
    os._exit(0)


@given(
    lines=st.lists(st.text(st.characters(codec="utf-8", exclude_characters="\n"), max_size=9), min_size=1, max_size=30),
    windows=st.lists(st.tuples(st.integers(-3, 40), st.integers(0, 9)), max_size=5),
    first=st.integers(1, 9),
    ended=st.booleans(),
    encoding=st.sampled_from(["utf-8", "utf-16-le"]),
)
@settings(suppress_health_check=list(HealthCheck))
def test_cutting_a_frame_keeps_every_byte_and_every_number(lines, windows, first, ended, encoding):
    wanted = merged((low, low + more) for low, more in windows)
    data = ("\n".join(lines) + ("\n" if ended else "")).encode(encoding)
    frame = Frame(first, len(lines) - 1 + ended, 100, data)
    parts = list(cut(frame, wanted, encoding))
    assert b"".join(part.data for part, _ in parts) == data
    line, byte = first, 100
    for part, stays in parts:
        assert (part.first_line, part.byte) == (line, byte)
        line, byte = line + part.lines, byte + len(part.data)
        inside = [number for low, high in wanted for number in range(low, high + 1)]
        assert all((number in inside) == stays for number in range(part.first_line, max(line, part.first_line + 1)))
    assert line == first + frame.lines
