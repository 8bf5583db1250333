"""`read` says why the run failed where nothing, or not the end, was a record."""

from pathlib import Path

from storage.reader import read_file
from storage.reading.summary import summarise

LINE = "Epoch:[1/1]({step}/900), loss: 2.5, logits_loss: 2.5, aux_loss: 0.0, lr: 0.0005, epoch_time: 9.0min\n"
FULL = "OSError: [Errno 28] No space left on device\n"


def why(tmp_path: Path, text: str) -> dict | None:
    path = tmp_path / "train.log"
    path.write_text(text)
    return summarise(read_file(path))["why_failed"]


def test_a_log_without_a_record_says_why(tmp_path: Path) -> None:
    found = why(tmp_path, "loading\nusage: train.py [-h]\ntrain.py: error: unrecognized arguments: --lrr 1\n")
    assert found is not None
    assert (found["line"], found["kind"]) == (3, "argument_error")


def test_the_failure_behind_the_last_record_counts(tmp_path: Path) -> None:
    records = LINE.format(step=1) + LINE.format(step=2)
    found = why(tmp_path, records + FULL)
    assert found == {"line": 3, "kind": "disk_full", "text": FULL.strip()}


def test_what_was_survived_is_no_reason(tmp_path: Path) -> None:
    assert why(tmp_path, LINE.format(step=1) + FULL + LINE.format(step=2)) is None
