"""The original lines: kept byte for byte, found by number, shown without terminal escapes, safe against a crash."""

import random
import subprocess

import pytest
from hypothesis import given
from hypothesis import strategies as st

from storage.keeping import archive
from storage.keeping.archive import ArchiveFile, Frame, FrameCutter, clean, display_lines, joined
from storage.store import Store, StoreError


@pytest.fixture
def small_frames(monkeypatch):
    monkeypatch.setattr(archive, "FRAME_BYTES", 64)
    monkeypatch.setattr(archive, "LONGEST_FRAME_BYTES", 256)
    monkeypatch.setattr("storage.keeping.originals.FRAME_BYTES", 64)


def cut_up(data, sizes, encoding="utf-8"):
    """All frames of `data`, fed in pieces of the given sizes in turn."""
    cutter, frames, place, turn = FrameCutter(), [], 0, 0
    while place < len(data):
        size = sizes[turn % len(sizes)]
        frames += cutter.feed(data[place : place + size], encoding)
        place, turn = place + size, turn + 1
    return frames + cutter.rest(encoding)


@given(
    lines=st.lists(st.text(st.characters(codec="utf-8", exclude_characters="\n\r\ufeff"), max_size=300), max_size=40),
    sizes=st.lists(st.integers(1, 500), min_size=1, max_size=5),
    encoding=st.sampled_from(["utf-8", "utf-16-le", "utf-16-be"]),
    ended=st.booleans(),
)
def test_frames_hold_every_byte_and_number_every_line(lines, sizes, encoding, ended):
    data = ("\n".join(lines) + ("\n" if ended else "")).encode(encoding)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(archive, "FRAME_BYTES", 64)
        patch.setattr(archive, "LONGEST_FRAME_BYTES", 256)
        frames = cut_up(data, sizes, encoding)
    assert b"".join(frame.data for frame in frames) == data
    line, byte = 1, 0
    for frame in frames:
        assert (frame.first_line, frame.byte) == (line, byte)
        line, byte = line + frame.lines, byte + len(frame.data)
        assert len(frame.data) <= 256
    assert line == 1 + data.decode(encoding).count("\n")


def test_neighbouring_frames_are_joined_and_gaps_kept():
    frames = [Frame(1, 1, 0, b"a\n"), Frame(2, 1, 2, b"b\n"), Frame(9, 1, 50, b"c\n")]
    assert list(joined(frames)) == [Frame(1, 2, 0, b"a\nb\n"), Frame(9, 1, 50, b"c\n")]


@pytest.mark.parametrize(
    ("raw", "shown"),
    [
        (b"\x1b[32mloss\x1b[0m: 1.5", "loss: 1.5"),
        (b"\x1b]0;title\x07step 1", "step 1"),
        (b"\x1b]8;;http://x\x1b\\link\x1b]8;;\x1b\\", "link"),
        (b"a\tb\x00\x07c\r", "a\tbc"),
        ("学习率".encode(), "学习率"),
        (b"bad \xff byte", "bad � byte"),
        (b" 10%|#| 1/10\r 20%|##| 2/10\r", " 10%|#| 1/10 ␍  20%|##| 2/10"),
    ],
)
def test_a_line_is_shown_as_text(raw, shown):
    assert display_lines([Frame(1, 0, 0, raw)], 1, 1, "utf-8") == [shown]


def test_a_giant_line_is_shown_cut():
    [line] = display_lines([Frame(1, 1, 0, b"x" * 100_000 + b"\n")], 1, 1, "utf-8", longest=100)
    assert line == "x" * 100 + "…"


def text_of(numbers):
    return "".join(f"line {number} {'x' * (number % 37)}\n" for number in numbers).encode()


@pytest.mark.parametrize("transactions", [1, 7, 300])
def test_any_lines_are_found_whatever_transactions_wrote_them(tmp_path, small_frames, transactions):
    data = text_of(range(1, 301))
    edges = [0, *sorted(random.Random(transactions).sample(range(1, len(data)), transactions - 1)), len(data)]
    with Store(tmp_path) as store:
        run = store.create_run("a")
        for start, stop in zip(edges, edges[1:], strict=False):
            with store.writer(run) as writer:
                writer.keep(data[start:stop])
                writer.commit()
        expected = data.decode().split("\n")[:-1]
        for first, last in ((1, 1), (1, 300), (150, 152), (300, 300), (299, 400), (-5, 3)):
            assert store.lines(run, first, last) == expected[max(0, first - 1) : last]
        assert store.lines(run, 301, 400) == []
        assert b"".join(store.original(run)) == data


def test_the_archive_file_is_the_log_for_anybody_who_has_zstd(tmp_path):
    data = text_of(range(100_000))
    with Store(tmp_path) as store, store.writer(name="a") as writer:
        writer.keep(data)
        writer.commit()
    [path] = (tmp_path / "archive").iterdir()
    try:
        unpacked = subprocess.run(["zstdcat", str(path)], capture_output=True, check=True).stdout
    except FileNotFoundError:
        pytest.skip("no zstdcat here")
    assert data.startswith(unpacked)
    assert len(unpacked) > len(data) / 2


def test_what_a_crash_left_in_the_archive_is_cut_off_at_the_next_start(tmp_path):
    with Store(tmp_path) as store, store.writer(name="a") as writer:
        writer.keep(text_of(range(100_000)))
        writer.commit()
    [path] = (tmp_path / "archive").iterdir()
    whole = path.read_bytes()
    path.write_bytes(whole + b"left by a crash")
    (tmp_path / "archive" / "unknown.0.zst").write_bytes(b"never committed")
    with Store(tmp_path) as store:
        assert path.read_bytes() == whole
        assert list((tmp_path / "archive").iterdir()) == [path]
        with store.writer(writer.run_id) as again:
            again.keep(text_of(range(100_000, 200_000)))
            again.commit()
        assert b"".join(store.original(writer.run_id)) == text_of(range(200_000))


def test_a_read_only_store_cleans_nothing(tmp_path):
    Store(tmp_path).close()
    (tmp_path / "archive").mkdir()
    (tmp_path / "archive" / "unknown.0.zst").write_bytes(b"x")
    Store(tmp_path, read_only=True).close()
    assert (tmp_path / "archive" / "unknown.0.zst").exists()


def test_taking_back_leaves_the_file_as_it_was(tmp_path):
    path = tmp_path / "run.zst"
    first = ArchiveFile(path, 0)
    first.append(b"abc")
    first.close(keep=False)
    assert not path.exists()
    path.write_bytes(b"abcGARBAGE")
    second = ArchiveFile(path, 3)
    assert second.append(b"def") == 3
    second.close(keep=False)
    assert path.read_bytes() == b"abc"
    assert clean(tmp_path, {"run.zst": 3}) == []


def test_a_damaged_archive_is_an_error_that_names_the_file(tmp_path):
    with Store(tmp_path) as store:
        with store.writer(name="a") as writer:
            writer.keep(text_of(range(100_000)))
            writer.commit()
        [path] = (tmp_path / "archive").iterdir()
        path.write_bytes(path.read_bytes()[:1000])
        with pytest.raises(StoreError, match=f"lines.*{path.name}"):
            store.lines(writer.run_id, 1, 1)
        path.unlink()
        with pytest.raises(StoreError, match=f"lines.*{path.name}"):
            store.lines(writer.run_id, 1, 1)
