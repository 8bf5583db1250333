"""A page is one file that says its own place in the menu."""

import pytest

from ui import navigation


def test_every_page_is_found_in_menu_order():
    pages = navigation.page_files()
    assert [page.order for page in pages] == sorted(page.order for page in pages)
    assert {"overview", "health", "upload"} <= {page.name for page in pages}
    assert all(page.title and page.section and page.help and page.icon.startswith(":material/") for page in pages)


def test_orders_are_unique_and_sections_stay_together():
    pages = navigation.page_files()
    assert len({page.order for page in pages}) == len(pages)
    sections = [page.section for page in pages]
    assert len([s for i, s in enumerate(sections) if i == 0 or sections[i - 1] != s]) == len(set(sections))


def test_a_page_that_says_too_little_is_named(tmp_path):
    page = tmp_path / "new.py"
    page.write_text('"""Help."""\nTITLE = N_("New")\nORDER = 1\n', encoding="utf-8")
    with pytest.raises(ValueError, match=r"new\.py does not set ICON, SECTION"):
        navigation._declared(page)
