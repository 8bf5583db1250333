"""What happens once when the server process starts and once when it ends."""

import gc
import importlib
import os
import signal
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from types import FrameType
from typing import Any

import anyio

from server import address, receive, service, sockets, words

# Imported at start so that the first page does not pay for them (0.8–3 s CPU).
HEAVY_MODULES = ("numpy", "pandas", "pyarrow", "duckdb", "altair")


def serving(url: Callable[[], str]) -> Callable[[Any], AbstractAsyncContextManager[dict[str, Any]]]:
    """Return the lifespan of a server that is reached at what `url` gives once it has started."""

    @asynccontextmanager
    async def lifespan(_: Any) -> AsyncIterator[dict[str, Any]]:
        """Open the service, freeze the start-up heap, say where the server is; close the service at the end."""
        for name in HEAVY_MODULES:
            importlib.import_module(name)
        words.load()
        _draw_once()
        await anyio.to_thread.run_sync(service.start)
        data_dir = service.get().settings.data_dir
        here = address.Address(url(), address.local_token(), os.getpid())
        address.publish(data_dir, here)
        _on_signal(receive.stop)
        sockets.send_at_once()
        # Streamlit collects garbage after every script run; the ~150,000 objects of the imports would be walked each time.
        gc.collect()
        gc.freeze()
        try:
            yield {}
        finally:
            address.withdraw(data_dir, here)
            await anyio.to_thread.run_sync(service.stop)

    return lifespan


def _draw_once() -> None:
    """Let Altair read its schema, and the parts of it that all charts have: the first one takes 15 ms more than the others."""
    import altair as alt

    axis, scale = alt.Axis(grid=False, tickCount=3), alt.Scale(zero=False, nice=True)
    x, y = alt.X("x:Q", title="x", axis=axis, scale=scale), alt.Y("y:Q", title="y", axis=axis, scale=scale)
    colour = alt.Color("role:N", scale=alt.Scale(domain=["a"], range=["blue"]), legend=None)
    line = alt.Chart(alt.NamedData(name="none")).mark_line(strokeWidth=1, clip=True)
    line = line.encode(x=x, y=y, color=colour, tooltip=[alt.Tooltip("x:Q", title="x")])
    line.properties(width="container", height=100, padding={"left": 0}).to_dict()


def _on_signal(stop: Callable[[], None]) -> None:
    """Call `stop` when the process is asked to end, before those who would wait for open requests."""
    if threading.current_thread() is not threading.main_thread():
        return
    for number in (signal.SIGTERM, signal.SIGINT):
        before = signal.getsignal(number)

        def handle(number: int, frame: FrameType | None, before: Any = before) -> None:
            stop()
            if callable(before):
                before(number, frame)

        signal.signal(number, handle)
