"""Lanes side by side: all ranks in one table for the rules, clocks corrected, what each node wrote at one moment."""

from datetime import datetime

import pytest

from server.lanes import around, clocks_of, rows_and_events
from server.service import Service
from server.settings import Settings
from storage.intake.watch import Watcher
from storage.keeping.sources import Watched
from tests.storage.desk import line, lines


@pytest.fixture
def service(tmp_path):
    service = Service.open(Settings(data_dir=tmp_path / "data"))
    yield service
    service.close()


def bring(service, tmp_path, **texts):
    folder = tmp_path / "logs"
    folder.mkdir()
    for name, text in texts.items():
        (folder / f"{name}.log").write_text(text)
    Watcher(service.store, [Watched(str(folder))]).drain()
    (run,) = service.store.runs()
    return run.id


def stamped(offset_ms, steps=60):
    """A line every 2 s by a clock that is `offset_ms` ahead."""
    text = ""
    for step in range(1, steps + 1):
        at = 1_714_557_600_000 + 2000 * step + offset_ms
        text += f"{datetime.fromtimestamp(at // 1000):%Y-%m-%d %H:%M:%S},{at % 1000:03d} {line(step)}"
    return text


def test_the_rows_of_all_ranks_with_lines_of_the_one_that_stands_for_the_run(service, tmp_path):
    run = bring(service, tmp_path, rank_0=lines(1, 30), rank_1="loading\n" * 7 + lines(1, 30))
    rows, _ = rows_and_events(service.store, run)
    assert rows.num_rows == 60
    assert sorted(set(rows["rank"].to_pylist())) == [0, 1]
    of_rank_1 = rows.to_pandas().query("rank == 1")
    assert of_rank_1["line"].tolist() == list(range(1, 31))
    (segment,) = service.segments(run)
    assert len(segment) == 30
    assert set(segment.ranks["rank"]) == {0, 1}


def test_a_crash_of_another_rank_is_an_event_of_the_run_and_says_which(service, tmp_path):
    crash = "torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB\n"
    run = bring(service, tmp_path, rank_0=lines(1, 30), rank_3=lines(1, 20) + crash)
    _, events = rows_and_events(service.store, run)
    (event,) = [event for event in events if event.kind == "out_of_memory"]
    assert event.text.startswith("[rank 3]")
    assert 15 <= event.line <= 30


def test_clocks_are_told_in_milliseconds_and_a_moment_is_the_same_for_all(service, tmp_path):
    run = bring(service, tmp_path, node01=stamped(0), node02=stamped(-750), node03=stamped(4321))
    lanes = {lane.host: lane.run for lane in service.store.lanes(run)}
    found = clocks_of(service.store, run)
    ahead = {host: found.offsets[lane].ms - found.offsets[lanes["node01"]].ms for host, lane in lanes.items()}
    assert ahead == {"node01": 0, "node02": -750, "node03": 4321}
    assert found.residual_ms == 0
    moment = service.store.frame(run, ["timestamp"])["timestamp"][29].as_py()
    nodes = around(service.store, run, moment=moment, before=1, after=1)
    assert [node.lane.host for node in nodes] == ["node01", "node02", "node03"]
    for node in nodes:
        assert node.at == 30
        assert node.off_ms == 0
        assert [f"({step}/" in text for step, text in zip((29, 30, 31), node.lines, strict=True)] == [True] * 3


def test_without_times_lanes_are_aligned_by_their_steps(service, tmp_path):
    run = bring(service, tmp_path, rank_0=lines(1, 30), rank_1="loading\n" * 7 + lines(1, 30))
    assert clocks_of(service.store, run) is None
    nodes = around(service.store, run, step=12, before=0, after=0)
    assert [(node.at, node.off_ms) for node in nodes] == [(12, None), (19, None)]
    assert all("(12/" in node.lines[0] for node in nodes)


def test_a_run_of_one_file_has_one_lane(service, tmp_path):
    run = bring(service, tmp_path, train=lines(1, 30))
    assert clocks_of(service.store, run) is None
    (node,) = around(service.store, run, step=500, before=2, after=2)
    assert (node.at, node.first, len(node.lines)) == (30, 28, 3)
