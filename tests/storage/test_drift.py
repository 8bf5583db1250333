"""Where a log changes the form of its records (R30), and what is no such change."""

import json

import pytest

from storage.keeping.reports import dump_report, load_report
from storage.reader import LogReader
from storage.reading.tally import NAMES_LENGTH, _few
from storage.types import ParseReport

FIRST = "step: {i} | loss: 2.{i:04} | lr: 3.0e-04 | grad_norm: 1.25\n"


def read(text: str, chunk: int = 1 << 20, *, again: bool = False) -> ParseReport:
    data, reader = text.encode(), LogReader("log")
    for at in range(0, len(data), chunk):
        reader.feed(data[at : at + chunk])
        if again:
            reader = LogReader("log", state=json.loads(json.dumps(reader.state())))
    reader.finish()
    return reader.report()


def log(*forms: tuple[str, int]) -> str:
    text, i = "", 0
    for form, count in forms:
        text += "".join(form.format(i=i + n) for n in range(1, count + 1))
        i += count
    return text


OTHERS = {
    "another separator": "step: {i}, loss: 2.{i:04}, lr: 3.0e-04, grad_norm: 1.25\n",
    "another sign between name and value": "step={i} | loss=2.{i:04} | lr=3.0e-04 | grad_norm=1.25\n",
    "another order": "step: {i} | lr: 3.0e-04 | loss: 2.{i:04} | grad_norm: 1.25\n",
    "another logger": "2025-01-02 03:04:05,678 - train - INFO - step: {i} | loss: 2.{i:04} | lr: 3.0e-04 | grad_norm: 1.25\n",
    "another format": "iter {i}: loss 2.{i:04}, time 250.5ms, mfu 30.5%\n",
}
SAME = {
    "one key renamed": "step: {i} | loss: 2.{i:04} | learning_rate: 3.0e-04 | grad_norm: 1.25\n",
    "one key with an unknown name": "step: {i} | loss: 2.{i:04} | lr: 3.0e-04 | my_thing: 1.25\n",
    "a new field": "step: {i} | loss: 2.{i:04} | lr: 3.0e-04 | grad_norm: 1.25 | tok/s: 1234\n",
    "another precision": "step: {i} | loss: 2.{i:06}11 | lr: 0.0003 | grad_norm: 1.2\n",
    "a unit": "step: {i} | loss: 2.{i:04} | lr: 3.0e-04 | grad_norm: 1.25 | time: 3.5ms\n",
    "nan": "step: {i} | loss: nan | lr: 3.0e-04 | grad_norm: inf\n",
}


@pytest.mark.parametrize("chunk", [333, 1 << 20])
@pytest.mark.parametrize("name", OTHERS)
def test_another_form_is_told_with_its_first_line_and_step(name: str, chunk: int) -> None:
    report = read(log((FIRST, 60), (OTHERS[name], 40)), chunk)
    assert [(change.line, change.step) for change in report.drifts] == [(61, 61)]
    assert report.records == 100
    assert report.drifts[0].text.startswith(OTHERS[name].format(i=61)[:20])
    assert sum("another form" in note.template for note in report.notes) == 1


@pytest.mark.parametrize("name", SAME)
def test_what_is_no_other_form(name: str) -> None:
    report = read(log((FIRST, 60), (SAME[name], 60)))
    assert report.drifts == ()
    assert report.records == 120


def test_a_form_that_comes_back_is_told_twice_and_a_few_lines_between_are_not() -> None:
    other = OTHERS["another separator"]
    assert [change.line for change in read(log((FIRST, 60), (other, 40), (FIRST, 30))).drifts] == [61, 101]
    assert read(log((FIRST, 60), (other, 4), (FIRST, 30), (other, 9), (FIRST, 30))).drifts == ()
    assert read(log(*[(FIRST, 1), (other, 1)] * 40)).drifts == ()


def test_a_form_that_begins_just_before_the_end_counts_sooner() -> None:
    assert [change.line for change in read(log((FIRST, 60), (OTHERS["another order"], 4))).drifts] == [61]
    assert read(log((FIRST, 60), (OTHERS["another order"], 2))).drifts == ()


@pytest.mark.parametrize("chunk", [100, 4000])
def test_pieces_and_another_process_make_no_difference(chunk: int) -> None:
    text = log((FIRST, 300), (OTHERS["another order"], 100), (FIRST, 8), (OTHERS["another logger"], 300))
    whole = read(text).drifts
    assert [(change.line, change.step) for change in whole] == [(301, 301), (409, 409)]
    assert read(text, chunk).drifts == whole
    assert read(text, chunk, again=True).drifts == whole


def test_a_kept_report_has_the_changes_too() -> None:
    report = read(log((FIRST, 60), (OTHERS["another order"], 40)))
    assert load_report(dump_report(report)) == report


def test_reports_of_older_versions_are_still_read() -> None:
    kept = json.loads(dump_report(read(log((FIRST, 9)))))
    del kept["drifts"]
    kept |= {
        "notes": ["An old note {with} braces."],
        "unparsed": [{"line": 3, "text": "x", "reason": "loss: 2.x is not a number"}],
    }
    report = load_report(json.dumps(kept))
    assert report.drifts == ()
    assert [note.render() for note in report.notes] == ["An old note {with} braces."]
    assert report.unparsed[0].reason.render() == "loss: 2.x is not a number"


DICT = "{{'loss': 2.{i:04}, 'learning_rate': 0.0003, 'grad_norm': 1.25, 'epoch': 0.{i:03}}}\n"
JSON = '{{"step": {i}, "total_steps": 100, "loss": 2.{i:04}, "lr": 0.0003}}\n'
CELLS = "{i},100,2.{i:04},0.0003\n"
HEAD = "step,total_steps,loss,lr\n"


@pytest.mark.parametrize("chunk", [333, 1 << 20])
def test_dicts_after_lines_and_lines_after_dicts_are_another_form(chunk: int) -> None:
    assert [change.line for change in read(log((FIRST, 60), (DICT, 40)), chunk).drifts] == [61]
    assert [change.line for change in read(log((DICT, 60), (FIRST, 40)), chunk).drifts] == [61]
    assert read(log(*[(FIRST, 1), (DICT, 1)] * 40), chunk).drifts == ()


@pytest.mark.parametrize("chunk", [333, 1 << 20])
@pytest.mark.parametrize(("head", "own"), [("", JSON), (HEAD, CELLS)])
def test_what_follows_on_a_table_or_json_lines_and_is_not_read_is_said(head: str, own: str, chunk: int) -> None:
    for other in (FIRST, OTHERS["another logger"]):
        report = read(head + log((own, 60), (other, 40)), chunk, again=True)
        (change,) = report.drifts
        assert (change.line, change.read) == (61 + bool(head), False)
        assert report.records == 60
        assert sum("not read" in note.template for note in report.notes) == 1
        assert load_report(dump_report(report)) == report
        assert "not read" in read(head + log((own, 60), (other, 10))).notes[-1].template


@pytest.mark.parametrize(("head", "own"), [("", JSON), (HEAD, CELLS)])
def test_a_few_lines_other_text_and_lines_between_records_are_no_rest(head: str, own: str) -> None:
    assert read(head + log((own, 60), (FIRST, 9))).drifts == ()
    assert read(head + log((own, 60), ("saving the checkpoint, loss and all, to disk {i}\n", 40))).drifts == ()
    assert read(head + log(*[(own, 3), (FIRST, 3)] * 20, (own, 1))).drifts == ()


def test_the_fill_of_a_progress_bar_is_no_other_form():
    text = "".join(
        f"Loss: 2.{i:04}: {i:3d}%|{'█' * (i // 10)}{' ' * (10 - i // 10)}| {i}/100 [00:{i % 60:02}<01:00,  1.20s/it]\n"
        for i in range(1, 101)
    )
    assert read(text).records == 100
    assert not read(text).drifts


@pytest.mark.parametrize("names", [["a_long_name_of_a_field_" + "x" * 40] * 9, ["y" * 500, "b"], ["loss"]])
def test_names_in_a_note_are_whole_or_left_out_with_a_sign(names):
    told = _few(names)
    assert len(told) <= NAMES_LENGTH + 3
    assert told.endswith("…") == (len(names) > 1)
    assert all(name in names or len(name) == NAMES_LENGTH for name in told.removesuffix(", …").split(", "))
