"""A page that shows a run is drawn when rows of the run come, not only when its live interval is over.

Streamlit has no call for that. This does what it does itself when a source file has changed: it asks the session for a rerun
with what its browser sent last. Only while nothing runs there: else a visitor's click that is being worked on would be undone.
Where no page is woken, its interval draws it.
"""

import asyncio
import threading
import time
from dataclasses import dataclass
from functools import partial
from typing import Any

from streamlit import runtime
from streamlit.proto.ClientState_pb2 import ClientState
from streamlit.runtime.scriptrunner import get_script_run_ctx

from server import service

PAUSE_SHARE = 0.5  # of the live interval: so long after a page was drawn it is not woken
SPACING_SECONDS = 0.4  # between two pages that are woken: many viewers of a run do not all draw at once
AGAIN_SECONDS = 0.1  # until it is seen again whether a session is done
MOST_PAGES = 512  # that are woken
IDLE = "APP_NOT_RUNNING"


@dataclass
class Page:
    """The live fragment of a session: which run it shows, how long it rests after `drawn` (monotonic seconds), whether it
    `waits` to be woken."""

    fragment: str
    run: str
    pause_seconds: float
    drawn: float
    waits: bool = False


class Pages:
    """The open pages that are live, by session. What wakes them runs in the event loop of the server."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._open: dict[str, Page] = {}
        self._free = 0.0

    def show(self, session: str, page: Page | None) -> None:
        """Note what a session shows now; None: nothing live."""
        with self._lock:
            self._open.pop(session, None)
            if page is not None:
                self._open[session] = page
            while len(self._open) > MOST_PAGES:
                del self._open[next(iter(self._open))]

    def runs(self) -> set[str]:
        """Return the runs that are shown."""
        with self._lock:
            return {page.run for page in self._open.values()}

    def hear(self, runs: list[str]) -> None:
        """Wake the pages of runs that have got rows. Returns at once."""
        with self._lock:
            shown = [session for session, page in self._open.items() if page.run in runs]
        for session in shown:
            info = runtime.get_instance()._session_mgr.get_active_session_info(session)
            if info is None:  # closed
                self.show(session, None)
            else:
                info.session._call_soon_on_event_loop(partial(self._wake, info.session))

    def _wake(self, session: Any) -> None:
        page, now = self._open.get(session.id), time.monotonic()
        if page is None or page.waits:
            return
        due = max(page.drawn + page.pause_seconds, self._free)
        if due > now:
            self._later(session, page, due - now)
        elif session._state.name != IDLE:
            self._later(session, page, AGAIN_SECONDS)
        else:
            page.drawn, self._free = now, now + SPACING_SECONDS
            ask(session, page.fragment)

    def _later(self, session: Any, page: Page, seconds: float) -> None:
        page.waits = True

        def again() -> None:
            page.waits = False
            self._wake(session)

        asyncio.get_running_loop().call_later(seconds, again)


def ask(session: Any, fragment: str) -> None:
    """Ask a session for a rerun of a fragment, with the widgets, the address and the page that its browser sent last."""
    state = ClientState()
    state.CopyFrom(session._client_state)
    state.fragment_id, state.is_auto_rerun = fragment, True
    del state.cached_message_hashes[:]  # what the browser has by now is not known here
    session.request_rerun(state)


PAGES = Pages()


def shows(run: str, key: str, every_seconds: float) -> None:
    """Say, in the fragment `key`, which run it shows and its live interval (0: it is not live)."""
    context = get_script_run_ctx(suppress_warning=True)
    if context is None or not runtime.exists():
        return
    page = None
    if every_seconds:
        (fragment,) = context.fragment_storage.resolve_target(key)
        page = Page(fragment, run, PAUSE_SHARE * every_seconds, time.monotonic())
    PAGES.show(context.session_id, page)
    here = service.get()
    if PAGES.hear not in here.on_rows:
        here.on_rows.append(PAGES.hear)
        here.looked_at = PAGES.runs
