"""Pages that are open are drawn when rows of their run come: once, when they have rested, and while nothing runs there."""

import asyncio
import time
from types import SimpleNamespace

import pytest
from streamlit.proto.ClientState_pb2 import ClientState

from tests.event_loop import finished
from ui import wake
from ui.wake import Page, Pages

NEVER, LONG_AGO = 1e9, -1e9


class Session:
    """What is used of a session of Streamlit."""

    def __init__(self, name: str, state: str = wake.IDLE) -> None:
        self.id, self._state, self._client_state = name, SimpleNamespace(name=state), ClientState()
        self._client_state.query_string = "run=a"
        self._client_state.cached_message_hashes.append("old")
        self.asked: list[ClientState] = []

    def _call_soon_on_event_loop(self, call) -> None:
        asyncio.get_running_loop().call_soon(call)

    def request_rerun(self, state: ClientState) -> None:
        self.asked.append(state)


@pytest.fixture
def sessions(monkeypatch):
    """Sessions by name that Streamlit knows."""
    known: dict[str, Session] = {}
    manager = SimpleNamespace(get_active_session_info=lambda name: known.get(name) and SimpleNamespace(session=known[name]))
    monkeypatch.setattr(wake.runtime, "get_instance", lambda: SimpleNamespace(_session_mgr=manager))
    monkeypatch.setattr(wake, "SPACING_SECONDS", 0.0)
    monkeypatch.setattr(wake, "AGAIN_SECONDS", 0.0)
    return known


async def until(check) -> None:
    end = time.monotonic() + 120
    while not check():
        assert time.monotonic() < end
        await asyncio.sleep(0.001)


async def all_called() -> None:
    """Let everything run that is to run at once."""
    for _ in range(5):
        await asyncio.sleep(0)


def test_a_page_of_the_run_is_asked_once_with_what_its_browser_sent(sessions):
    async def scene():
        pages, session, other = Pages(), Session("s"), Session("t")
        sessions.update(s=session, t=other)
        pages.show("s", Page("fragment", "a", NEVER, LONG_AGO * 2))
        pages.show("t", Page("fragment", "b", 0.0, LONG_AGO))
        pages.hear(["a", "c"])
        pages.hear(["a"])  # it was drawn a moment ago
        await all_called()
        (state,) = session.asked
        assert (state.fragment_id, state.query_string, state.is_auto_rerun) == ("fragment", "run=a", True)
        assert not state.cached_message_hashes
        assert other.asked == []

    finished(scene())


def test_a_page_that_was_drawn_a_moment_ago_is_woken_when_it_has_rested(sessions):
    async def scene():
        pages, session = Pages(), Session("s")
        sessions["s"] = session
        pages.show("s", Page("fragment", "a", 0.01, time.monotonic() + 0.01))
        pages.hear(["a"])
        pages.hear(["a"])
        await until(lambda: session.asked)
        await all_called()
        assert len(session.asked) == 1

    finished(scene())


def test_a_session_in_which_something_runs_is_left_alone_until_it_is_done(sessions):
    async def scene():
        pages, session = Pages(), Session("s", "APP_IS_RUNNING")
        sessions["s"] = session
        pages.show("s", Page("fragment", "a", 0.0, LONG_AGO))
        pages.hear(["a"])
        await all_called()
        assert session.asked == []
        session._state.name = wake.IDLE
        await until(lambda: session.asked)

    finished(scene())


def test_a_page_that_is_live_no_more_or_closed_is_not_woken(sessions):
    async def scene():
        pages, session = Pages(), Session("s")
        sessions["s"] = session
        for name in ("s", "closed"):
            pages.show(name, Page("fragment", "a", 0.0, LONG_AGO))
        pages.show("s", None)
        pages.hear(["a"])
        await all_called()
        assert session.asked == []
        assert pages._open == {}

    finished(scene())


def test_of_many_pages_those_opened_last_are_woken(sessions):
    pages = Pages()
    for number in range(wake.MOST_PAGES + 2):
        pages.show(str(number), Page("fragment", "a", 0.0, LONG_AGO))
    assert len(pages._open) == wake.MOST_PAGES
    assert "0" not in pages._open
