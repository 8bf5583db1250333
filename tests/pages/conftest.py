"""Pages run in this process by Streamlit's AppTest, on a store of their own."""

from pathlib import Path
from typing import Any

import pytest
import streamlit as st
from streamlit.runtime.pages_manager import PagesManager
from streamlit.testing.v1 import AppTest, app_test

from server import service

ROOT = Path(__file__).parents[2]


@pytest.fixture
def shop(tmp_path, monkeypatch):
    """The service on an empty store."""
    monkeypatch.setenv("RUNVITALS_DATA_DIR", str(tmp_path / "data"))
    service.stop()
    st.cache_data.clear()
    yield service.get()
    service.stop()


class NavigationOnly(PagesManager):
    """As on the server, where app.py has called st.navigation before the first session: pages run inside app.py.

    AppTest forgets that before each run, sees a folder `pages/`, and would run a page without app.py.
    """

    def __init__(self, *args: Any, **named: Any) -> None:
        super().__init__(*args, **named)
        PagesManager.uses_pages_directory = False


@pytest.fixture
def app(monkeypatch):
    """Open a page of the app as a browser would: its file name, the parameters in the URL.

    AppTest gives the URL to bound widgets only at the start of a session; `bound` sets those (the browser test has the URL).
    """

    monkeypatch.setattr(app_test, "PagesManager", NavigationOnly)

    def opened(page: str, bound: dict | None = None, **query: str) -> AppTest:
        test = AppTest.from_file(str(ROOT / "app.py"), default_timeout=300)
        test.query_params.update(query)
        test.run()
        test.query_params.update(query)
        for key, value in (bound or {}).items():
            test.session_state[key] = value
        return test.switch_page(f"pages/{page}.py").run()

    return opened
