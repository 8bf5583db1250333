"""Settings: each value with where it comes from, own prices that are checked before they are kept, no token shown."""

from dataclasses import replace

import pytest

from analysis.prices import PriceTableError
from server import own_prices
from server.settings import load_settings, origins
from tests.pages.helpers import words


def test_a_value_says_where_it_is_set(tmp_path):
    file = tmp_path / "rv.toml"
    file.write_text("keep_rows_days = 30\nprofile = 'articles'\n")
    environ = {"RUNVITALS_CONFIG": str(file), "RUNVITALS_PROFILE": "robust"}
    told = origins(environ=environ)
    assert told["profile"] == "RUNVITALS_PROFILE"
    assert told["keep_rows_days"] == str(file)
    assert told["hot_days"] == ""
    assert load_settings(environ=environ).profile == "robust"


def test_the_page_shows_the_state_and_hides_tokens(shop, app):
    shop.settings = replace(shop.settings, read_only=True, tokens=("very-secret",))
    test = app("settings")
    said = words(test)
    assert not test.exception
    assert "open for reading only" in said
    assert "very-secret" not in said
    assert "set by RUNVITALS_DATA_DIR" in said
    assert "Nothing: the store was" in said


def test_an_own_price_counts_first_and_a_broken_table_is_refused(shop):
    folder = shop.settings.data_dir
    own_prices.add(folder, 'H100 "x"\n', 1.25, "eur")
    own_prices.add(folder, "A100", 0.9, "USD")
    assert [(one.gpu, one.per_hour, one.currency) for one in own_prices.prices(folder)] == [
        ("A100", 0.9, "USD"),
        ("H100 x", 1.25, "EUR"),
    ]
    for broken in ("[[price]]\ngpu = 1\n", "gpu = ['a']\n", "not toml"):
        with pytest.raises(PriceTableError):
            own_prices.save(folder, broken)
    assert len(own_prices.prices(folder)) == 2


def test_a_price_is_set_on_the_page(shop, app):
    test = app("settings")
    test.number_input[0].set_value(2.5)
    test.button[0].click().run()
    assert not test.exception
    assert [one.per_hour for one in own_prices.prices(shop.settings.data_dir)] == [2.5]
