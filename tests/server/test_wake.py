"""A page that is open gets new rows without asking: a real server, and a browser as the server sees it."""

import asyncio
import urllib.request

import websockets
from streamlit.proto.ForwardMsg_pb2 import ForwardMsg

from bench.load import Viewer
from tests.event_loop import finished
from tests.pages.helpers import canonical
from tests.serving import serving

PATIENCE_SECONDS = 120.0


async def _seen(url: str, log, more: str, step: str) -> str:
    """Open the page of the newest run, never ask again, add lines to its log; return what the page says of the step."""
    viewer = Viewer(url, "live=2")
    stream = url.replace("http", "ws", 1) + "/_stcore/stream"
    async with websockets.connect(stream, subprotocols=["streamlit"], max_size=None) as socket:
        await viewer.rerun(socket, live=False)
        with log.open("a") as file:
            file.write(more)
        async with asyncio.timeout(PATIENCE_SECONDS):
            while True:
                message = ForwardMsg.FromString(bytes(await socket.recv()))
                if message.WhichOneof("type") == "delta" and step in message.delta.new_element.html.body:
                    return str(message.delta.new_element.html.body)


def test_an_open_page_shows_new_rows_without_being_asked(tmp_path):
    lines = canonical(200, plan=20_000).splitlines(keepends=True)
    log = tmp_path / "logs" / "run.log"
    log.parent.mkdir()
    log.write_text("".join(lines[:90]))
    with serving(tmp_path / "data", tmp_path / "server.log", RUNVITALS_WATCH=str(log.parent)) as served:
        finished(_wait_for_run(served.url))
        assert "950" in finished(_seen(served.url, log, "".join(lines[90:95]), "950"))


async def _wait_for_run(url: str) -> None:
    async with asyncio.timeout(PATIENCE_SECONDS):
        while b'"runs":0' in urllib.request.urlopen(f"{url}/healthz").read():
            await asyncio.sleep(0.1)
