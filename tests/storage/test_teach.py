"""Formats of a team's own: learnt or written, proven by the contract, kept, and never in the way of reading."""

import tomllib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from storage.reading import contract, formats, teach
from storage.reading.formats import BadFormat

LINES = "E[3] B[20/300] C=0.53\nE[3] B[21/300] C=0.52\nhello\nE[3] B[22/300] C=nan\n"
PATTERN = r"^E\[{epoch}\] B\[{step}/{steps_per_epoch}\] C={loss}"


@pytest.fixture
def folder(tmp_path):
    """The team's folder, in use."""
    formats.use(tmp_path / "formats")
    yield tmp_path / "formats"
    formats.use(None)


def saved(folder, name="ours", text=LINES, patterns=(PATTERN,), pairs=False) -> str:
    written = teach.propose(name, "Ours", "our loop", text, patterns, pairs=pairs)
    teach.save(folder, name, written)
    return written


def test_a_pattern_of_ones_own_reads_what_no_format_does(folder):
    assert contract.read(LINES)[0] == []
    saved(folder)
    rows, report = contract.read(LINES)
    assert [(row["step_printed"], row["loss"]) for row in rows][:2] == [(20, 0.53), (21, 0.52)]
    assert rows[2]["loss"] != rows[2]["loss"]
    assert (report.format, report.format_title) == ("ours", "Ours")


def test_what_was_learnt_is_read_after_saving_as_before(folder):
    text = "".join(f"part 2 it {n}/90 -> cost={3 - n / 100} (lr 0.01) acc=0.{n}\n" for n in range(10, 20))
    before, _ = contract.read(text, "generic")
    saved(folder, text=text, patterns=[teach.learnt(text.split("\n")[0])], pairs=True)
    after, report = contract.read(text)
    assert report.format == "ours"
    assert [row["cost"] for row in after] == [row["cost"] for row in before]
    assert len(contract.read(text.split("\n")[0] + "\n")[0]) == 1  # one line is enough now


def test_prose_is_not_learnt():
    assert teach.learnt("The loss was 0.5 at step 10, which is 3 less than before and nothing to worry about at all.") is None


@pytest.mark.parametrize(
    ("pattern", "reason"),
    [
        ("(", "can't be used: missing )"),
        ("(a)(?P<loss>b)", "unnamed groups"),
        ("(?<loss>a)(?!b)", "can't be used"),
        ("x" * 3000, "longer than"),
        (".*", "nothing to save"),
        ("(?P<loss>hello)", "nothing to save"),
        (r"(?P<loss>\d+)", "make the pattern narrower"),
        (r"^E\[{epoch}\] B\[{step}", "nothing to save"),
    ],
)
def test_what_can_not_be_kept_says_why(folder, pattern, reason):
    with pytest.raises(teach.NotSaved, match=reason.replace(")", r"\)")):
        teach.propose("ours", "Ours", "our loop", LINES, [pattern], pairs=False)


def test_lines_that_a_known_format_reads_need_no_other(folder):
    lines = '{"step": 1, "loss": 2.5}\n{"step": 2, "loss": 2.4}\n{"step": 3, "loss": 2.3}\n'
    with pytest.raises(teach.NotSaved, match="already read as"):
        teach.propose("ours", "Ours", "x", lines, ['"step": {step}, "loss": {loss}'], pairs=False)


def test_a_catastrophic_pattern_ends(folder):
    text = "loss " + "a" * 50_000 + "!\n"
    with pytest.raises(teach.NotSaved):
        teach.propose("ours", "Ours", "x", text, [r"loss (?P<loss>(?:a+)+)$"], pairs=False)


def test_a_removed_format_comes_back(folder):
    written = saved(folder)
    assert teach.remove(folder, "ours") == written
    assert contract.read(LINES)[0] == []
    teach.save(folder, "ours", written)
    assert len(contract.read(LINES)[0]) == 3
    with pytest.raises(KeyError):
        teach.remove(folder, "../../etc/passwd")


def test_a_damaged_file_is_left_out_and_named(folder):
    saved(folder)
    (folder / "bad.toml").write_text("title = ")
    (folder / "groups.toml").write_text('title = "x"\n[[line]]\npattern = "(a)(?P<loss>b)"\n')
    (folder / "odd.toml").write_bytes(b"\xff\xfe")
    (folder / "minimind.toml").write_text('title = "x"\n')
    formats.use(folder)
    assert {name for name, found in formats.team().items() if isinstance(found, BadFormat)} == {
        "bad",
        "groups",
        "odd",
        "minimind",
    }
    assert len(contract.read(LINES)[0]) == 3
    assert formats.load()["minimind"].title == "MiniMind"


def test_names_of_files_are_plain_and_new(folder):
    assert teach.name_for("MiniMind") == "minimind-2"
    assert teach.name_for("../../x") == "x"
    assert teach.name_for("训练") == "format"
    saved(folder, name="format")
    assert teach.name_for("训练") == "format-2"


def test_a_draft_is_tried_in_its_block_alone(folder):
    with formats.trying(teach.draft([PATTERN], pairs=False)):
        assert len(contract.read(LINES)[0]) == 3
    assert contract.read(LINES)[0] == []


@pytest.mark.parametrize("name", ["minimind", "nanogpt", "generic"])
def test_formats_that_come_with_the_product_keep_the_contract(name):
    assert [fault.render() for fault in contract.faults(formats.shipped()[name])] == []


@given(st.text(st.characters(exclude_categories=["Cs"])))
def test_any_text_is_written_as_it_is(text):
    assert tomllib.loads(f"x = {teach._value(text)}\n")["x"] == text


@given(st.floats())
def test_any_number_is_written_as_it_is(value):
    back = tomllib.loads(f"x = {teach._value(value)}\n")["x"]
    assert back == value or (back != back and value != value)
