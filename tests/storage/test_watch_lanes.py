"""Files of ranks and nodes that lie together are lanes of one run."""

import pytest

from storage.intake import follow
from storage.intake.places import Places, RuleError, unrotated
from storage.intake.watch import Watcher
from storage.keeping.sources import Watched
from tests.storage.desk import Desk, lines


@pytest.fixture
def desk(tmp_path, monkeypatch):
    """Logs come to rest only when a test says so."""
    monkeypatch.setattr(follow, "QUIET_SECONDS", 1e9)
    monkeypatch.setattr(follow, "QUIET_NEW_SECONDS", 1e9)
    desk = Desk(tmp_path)
    yield desk
    desk.store.close()


def lanes(desk):
    return [(lane.rank, lane.host, lane.rows) for lane in desk.store.lanes(desk.run().id)]


@pytest.mark.parametrize("name", ["rank_{}.log", "workerlog.{}", "log_rank{}.txt", "train-rank-{}.out", "rank_{}/train.log"])
def test_files_of_ranks_are_lanes_of_one_run(desk, name):
    for rank in range(3):
        desk.write(lines(1, 10 + rank), "exp/" + name.format(rank))
    desk.poll(2)
    assert lanes(desk) == [(0, None, 10), (1, None, 11), (2, None, 12)]
    assert desk.run().name.startswith("exp")
    for lane in desk.store.lanes(desk.run().id):
        assert set(desk.store.frame(lane.run, ["rank"])["rank"].to_pylist()) == {lane.rank}


def test_files_of_nodes_are_lanes_with_numbers_of_their_own(desk):
    for host in ("node01", "node02"):
        desk.write(lines(1, 10), f"{host}.log")
        desk.write(lines(1, 10), f"deep/{host}/rank_0.log")
    desk.poll(2)
    runs = {run.name: run.id for run in desk.store.runs()}
    assert set(runs) == {"logs", "deep"}
    assert [(lane.rank, lane.host) for lane in desk.store.lanes(runs["logs"])] == [(0, "node01"), (1, "node02")]
    assert [(lane.rank, lane.host) for lane in desk.store.lanes(runs["deep"])] == [(0, "node01"), (1, "node02 rank 0")]


def test_a_lane_that_comes_later_and_after_a_restart_joins(desk):
    desk.write(lines(1, 10), "rank_0.log")
    desk.poll(2)
    desk.restart()
    desk.write(lines(1, 10), "rank_1.log")
    desk.poll(2)
    desk.restart()
    desk.write(lines(11, 12), "rank_1.log")
    desk.poll(2)
    assert lanes(desk) == [(0, None, 10), (1, None, 12)]


def test_ranks_that_print_the_same_are_each_read(desk):
    for rank in range(4):
        desk.write(lines(1, 50), f"rank_{rank}.log")
    desk.poll(2)
    assert [rows for _, _, rows in lanes(desk)] == [50] * 4


def test_the_lane_that_trains_stands_for_the_run(desk):
    desk.write("[rank0]: torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB\n" * 20, "rank_0.log")
    desk.watcher.drain()
    before = [lane.run for lane in desk.store.lanes(desk.run().id)]
    assert len(before) == 1
    assert desk.run().rows == 0
    desk.write(lines(1, 10), "rank_7.log")
    desk.poll(2)
    assert desk.run().rows == 10
    assert [(lane.rank, lane.rows) for lane in desk.store.lanes(desk.run().id)] == [(0, 0), (7, 10)]
    desk.write(lines(11, 12), "rank_7.log")
    desk.restart()
    desk.poll(2)
    assert desk.run().rows == 12
    assert {source.job for source in desk.store.sources()} == {None, desk.run().id}


def test_the_version_of_a_run_grows_with_every_lane(desk):
    desk.write(lines(1, 10), "rank_0.log")
    desk.write(lines(1, 10), "rank_1.log")
    desk.poll(2)
    before = desk.store.version(desk.run().id)
    desk.write(lines(11, 12), "rank_1.log")
    desk.poll(2)
    assert desk.store.version(desk.run().id) > before


def test_deleting_a_run_deletes_its_lanes_and_restoring_brings_them_back(desk):
    for rank in range(3):
        desk.write(lines(1, 10), f"rank_{rank}.log")
    desk.poll(2)
    run = desk.run().id
    desk.store.delete_run(run)
    desk.write(lines(11, 12), "rank_1.log")
    desk.poll(2)
    assert desk.store.runs() == []
    desk.store.restore_run(run)
    desk.write(lines(13, 13), "rank_1.log")
    desk.poll(2)
    assert lanes(desk) == [(0, None, 10), (1, None, 13), (2, None, 10)]
    desk.store.delete_run(run)
    assert len(desk.store.purge(deleted_days=0)) == 3


def test_a_rotated_lane_stays_one(desk):
    desk.write(lines(1, 10), "rank_0.log")
    desk.poll(2)
    (desk.folder / "rank_0.log").rename(desk.folder / "rank_0.log.1")
    desk.write(lines(11, 20), "rank_0.log")
    desk.poll(4)
    assert lanes(desk) == [(0, None, 20)]


def test_a_rule_of_ones_own(tmp_path):
    desk = Desk(tmp_path, rule=r"(?P<run>[^/]+)/(?P<host>r\d+i\d+)/out-(?P<rank>\d+)")
    desk.write(lines(1, 10), "big/r6i4/out-0.log")
    desk.write(lines(1, 10), "big/r6i5/out-1.log")
    desk.write(lines(1, 10), "other.log")
    desk.poll(2)
    assert desk.run().name == "big"
    assert lanes(desk) == [(0, "r6i4", 10), (1, "r6i5", 10)]
    desk.store.close()


@pytest.mark.parametrize(("rule", "runs"), [("files", 2), ("lanes", 1), ("", 1)])
def test_the_rules_by_name(tmp_path, rule, runs):
    desk = Desk(tmp_path, rule=rule)
    desk.write(lines(1, 10), "node01.log")
    desk.write(lines(1, 10), "node02.log")
    desk.poll(2)
    assert len(desk.store.runs()) == runs
    desk.store.close()


@pytest.mark.parametrize(("rule", "word"), [("(", "expression"), ("(?P<colour>x)", "colour")])
def test_a_rule_that_can_not_be_used_is_said(tmp_path, rule, word):
    with pytest.raises(RuleError, match=word):
        Places(Watched("/x", rule=rule))
    desk = Desk(tmp_path)
    desk.watcher = Watcher(desk.store, [Watched(str(desk.folder), rule=rule)])
    desk.poll()
    assert word in desk.problems()["bad_rule"]
    desk.store.close()


@pytest.mark.parametrize(
    ("name", "base"),
    [
        ("train.log.1", "train.log"),
        ("train.log.12.gz", "train.log"),
        ("train.log-20240501", "train.log"),
        ("train.log.2024-05-01_10-00-00", "train.log"),
        ("train.log.gz", "train.log"),
        ("workerlog.1", "workerlog.1"),
        ("workerlog.1.gz", "workerlog.1"),
        ("run.7", "run.7"),
        ("v1.2.log", "v1.2.log"),
    ],
)
def test_older_pieces_of_a_log_are_told_by_their_names(name, base):
    assert unrotated("/a.b/" + name) == "/a.b/" + base


@pytest.mark.parametrize(
    ("path", "claim", "rank", "host"),
    [
        ("a/train.log", None, None, None),
        ("frank.log", None, None, None),
        ("exp1_rank0.log", "exp1", 0, None),
        ("exp/global_rank3/log.txt", "exp/log.txt", 3, None),
        ("exp/node01_rank3.log", "exp", 3, "node01"),
        ("job/attempt_0/3/stdout.log", "job/attempt_0/stdout.log", 3, None),
        ("host12.out", "", None, "host12"),
    ],
)
def test_what_a_path_says(path, claim, rank, host):
    place = Places(Watched("/w")).of("/w/" + path)
    assert (place.rank, place.host) == (rank, host)
    assert place.claim == ("/w/" + path if claim is None else f"/w/{claim}".rstrip("/"))


@pytest.mark.parametrize("path", ["model.pt", ".hidden.log", "README.txt", "requirements.txt", "vocab.txt", "x.log~", "a.swp"])
def test_what_lies_beside_logs_is_left_alone(path):
    assert Places(Watched("/w")).of("/w/" + path) is None


def test_globs_include_and_exclude_names_and_paths():
    places = Places(Watched("/w", include=("*.dat", "deep/*/x"), exclude=("old*", "*/skip/*")))
    found = [path for path in ("a.dat", "a.log", "old.dat", "b/skip/a.dat", "deep/1/x") if places.of("/w/" + path)]
    assert found == ["a.dat", "deep/1/x"]


def test_a_rule_is_re2_and_cannot_hang():
    rule = Places(Watched("/logs", rule=r"^(?P<run>(?:a+)+)b$"))
    assert rule.of(f"/logs/{'a' * 2000}!.log") is None
    with pytest.raises(RuleError, match="no regular expression"):
        Places(Watched("/logs", rule="(?!x)y"))
