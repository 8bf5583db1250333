"""Log formats: lines in, what each gives at once; a format of one's own is saved, used, downloaded, deleted, brought back."""

import pytest

from storage.reading import contract, formats
from tests.pages.helpers import canonical, take, words
from ui import teach as lesson

LINES = "E[3] B[20/300] C=0.53\nE[3] B[21/300] C=nan\nhello\n"
PATTERN = r"^E\[{epoch}\] B\[{step}/{steps_per_epoch}\] C={loss}"


def page(app, text=LINES, way="known", pattern=""):
    return app("formats", {"lines": text, "way": way, "pattern": pattern})


def test_known_formats_are_listed_with_a_line_of_each(shop, app):
    table = app("formats").dataframe[0].value
    assert "MiniMind" in table["title"].tolist()
    assert table.loc[table["name"] == "minimind", "sample"].iloc[0].startswith("Epoch:[1/2]")


def test_lines_of_a_known_format_show_what_each_gives(shop, app):
    test = page(app, canonical(5))
    assert "5 lines give a row · read as MiniMind" in words(test)
    table = test.dataframe[0].value
    assert table["Loss"].notna().sum() == 5
    assert table["Step"].tolist()[:2] == ["10", "20"]


def test_what_is_learnt_is_shown_for_lines_nobody_knows(shop, app):
    text = "".join(f"it={n} cost={3 - n / 100} lr=0.01\n" for n in range(1, 6))
    assert "No known format" in words(page(app, text))
    test = page(app, text, "learnt")
    assert test.dataframe[0].value["cost"].tolist()[:2] == ["2.99", "2.98"]
    assert "Nothing could be learnt" in words(page(app, "Dear diary", "learnt"))


def test_a_pattern_of_ones_own_shows_every_value_and_a_nan(shop, app):
    test = page(app, way="own", pattern=PATTERN)
    table = test.dataframe[0].value
    assert table["Loss"].dropna().tolist() == ["0.53", "NaN"]
    assert "Lines that fit the pattern: 2 of 3." in words(test)


@pytest.mark.parametrize(
    ("pattern", "sentence"),
    [
        ("", "Write a pattern"),
        ("(", "be used: missing"),
        ("hello", "It names no number"),
        ("(?P<loss>hel+o)", "line 3 the group loss holds “hello”"),
        (r"(?:(?:E|B)+)+\$", "pattern: 0 of 3"),
    ],
)
def test_a_pattern_that_gives_nothing_says_why(shop, app, pattern, sentence):
    test = page(app, way="own", pattern=pattern)
    assert not test.exception
    assert sentence in words(test)


def save(test, title="Ours", seen="our loop"):
    test.text_input(key="format_title").set_value(title)
    test.text_input(key="format_seen").set_value(seen)
    return next(button for button in test.button if button.label == "Save for the team").click().run()


def test_a_saved_format_reads_the_next_log_and_can_be_deleted_and_brought_back(shop, app):
    test = save(page(app, way="own", pattern=PATTERN))
    assert not test.exception
    assert "“Ours” is saved" in words(test)
    assert (shop.settings.data_dir / "formats" / "ours.toml").exists()
    run = take(shop, LINES * 3, "ours.log")
    assert shop.store.report(run).format_title == "Ours"
    text = contract.formats.load()["ours"].source
    test.session_state["deleted_format"] = ("ours", "Ours", lesson.teach.remove(shop.settings.data_dir / "formats", "ours"))
    test.run()
    assert "ours" not in formats.load()
    next(button for button in test.button if button.label == "Undo").click().run()
    assert formats.load()["ours"].source == text


def test_what_would_take_other_logs_is_not_saved(shop, app):
    test = save(page(app, way="own", pattern=r"(?P<loss>[0-9.]+)"))
    assert "make the pattern narrower" in words(test)
    assert formats.team() == {}


def test_what_was_learnt_can_be_saved(shop, app):
    text = "".join(f"it={n} cost={3 - n / 100} lr=0.01\n" for n in range(1, 6))
    save(page(app, text, "learnt"))
    assert formats.team().keys() == {"ours"}
    assert contract.read(text.split("\n")[0])[1].format == "ours"


def test_a_file_that_can_not_be_used_is_named(shop, app):
    folder = shop.settings.data_dir / "formats"
    folder.mkdir()
    (folder / "bad.toml").write_text("title = <script>")
    formats.use(folder)
    text = words(app("formats"))
    assert "bad.toml can" in text
    assert "<script>" not in text


@pytest.mark.parametrize("text", ["\x00\x01" * 50, "<script>alert(1)</script>\n" * 3, "\n\n", "🚀" * 3000, '{"loss": '])
@pytest.mark.parametrize("way", ["known", "learnt", "own"])
def test_any_text_can_be_pasted(shop, app, text, way):
    assert not page(app, text, way, PATTERN).exception
