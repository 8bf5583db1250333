"""Exports of trackers: what their files are called, what the report says, and that a reader can go on in between."""

import json

import pytest

from storage.reader import LogReader
from storage.reading.containers.named import metric_of
from storage.types import ParseReport

TENSORBOARD = "Wall time,Step,Value\n" + "".join(f"{1893492000 + 7 * n}.5,{n * 10},{2.5 - n / 100}\n" for n in range(30))
TWO_RUNS = '"Step","run-a - loss","run-a - loss__MIN","run-a - loss__MAX","run-b - loss"\n' + "".join(
    f'"{n}","{2.5 - n / 100}","2","3","{3.5 - n / 100}"\n' for n in range(30)
)


def report_of(name: str, text: str, cut: int | None = None) -> ParseReport:
    """Return the report of a file that is read in one go, or in two processes."""
    reader, data = LogReader(name), text.encode()
    reader.feed(data[:cut])
    if cut is not None:
        state = json.loads(json.dumps(reader.state()))
        reader = LogReader(name, state=state)
        reader.feed(data[state["offset"] :])
    reader.finish()
    return reader.report()


@pytest.mark.parametrize(
    ("file", "metric"),
    [
        ("run-train_loss.csv", "train_loss"),
        ("run-foo-tag-train_loss.csv", "train_loss"),
        ("foo_train-tag-loss.csv.gz", "loss"),
        ("C:\\logs\\run-.-tag-lr.csv", "lr"),
        ("run-1_test-tag-train_loss.csv", "train_loss"),
        ("run-1_eval-tag-loss.csv", "eval_loss"),
        ("exp3-loss (1).csv", "loss"),
        ("foo-val-loss.csv", "val-loss"),
        ("foo_eval_aux_loss.csv", "eval_aux_loss"),
        ("mlruns/0/ab/metrics/val/loss", "val/loss"),
        ("metrics/grad_norm.csv", "grad_norm"),
        ("run-style-loss.csv", ""),
        ("run-1.csv", ""),
        ("steps.csv", ""),
        ("", ""),
    ],
)
def test_a_file_is_called_after_a_metric_or_not(file, metric):
    assert metric_of(file) == metric


@pytest.mark.parametrize("cut", [None, 500])
def test_the_report_says_where_the_name_of_a_value_comes_from(cut):
    named = report_of("run-x-tag-train_loss.csv", TENSORBOARD, cut)
    assert [column.name for column in named.columns] == ["loss"]
    assert any("train_loss" in note.render() for note in named.notes)
    unnamed = report_of("run-x.csv", TENSORBOARD, cut)
    assert [column.role for column in unnamed.columns] == [None]
    assert any("does not say what its values are" in note.render() for note in unnamed.notes)


@pytest.mark.parametrize("cut", [None, 500])
def test_the_report_names_the_runs_that_stand_side_by_side(cut):
    report = report_of("export.csv", TWO_RUNS, cut)
    assert any("2 runs side by side (run-a, run-b)" in note.render() for note in report.notes)
    assert [column.printed for column in report.columns] == ["run-a - loss", "run-b - loss"]


def test_milliseconds_and_two_numbers_are_no_metric_where_no_file_says_so():
    report = report_of("access.log", "".join(f"{1893492000250 + n} {200 + n % 3} {n * 100}\n" for n in range(30)))
    assert not report.records
    assert not report.columns


@pytest.mark.parametrize("cut", [None, 300])
def test_an_export_without_smallest_and_largest_values_is_one_too(cut):
    rows = "".join(f"{n},{2.5 - n / 100},{3.5 - n / 100}\n" for n in range(60))
    several = report_of("export.csv", "Step,run-a - train/loss,big lr - train/loss\n" + rows, cut)
    assert any("2 runs side by side (run-a, big lr)" in note.render() for note in several.notes)
    one = report_of("export.csv", "Step,run-a - train/loss,run-a - lr\n" + rows, cut)
    assert sorted(column.name for column in one.columns) == ["loss", "lr"]


@pytest.mark.parametrize("cut", [None, 300])
def test_the_report_names_the_runs_whose_rows_stand_one_below_the_other(cut):
    rows = "".join(f"{run},{n},{2.5 - n / 100}\n" for run in ("run-a", "run-b") for n in range(60))
    report = report_of("runs.csv", "run,step,loss\n" + rows, cut)
    assert any("belong to 2 runs (run-a, run-b)" in note.render() for note in report.notes)
    assert not report_of("runs.csv", "run,step,loss\n" + rows.replace("run-b", "run-a"), cut).notes
