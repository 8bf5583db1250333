"""The other side of a channel: a real HTTP server that remembers what came and answers as it is told."""

import http.server
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from tests.serving import wait_for


@dataclass
class Receiver:
    """status, answer: what is answered; hold: nothing is answered while it is not set; got: path, headers, body of each."""

    port: int = 0
    status: int = 200
    answer: bytes = b"ok"
    hold: threading.Event = field(default_factory=threading.Event)
    got: list[tuple[str, dict[str, str], bytes]] = field(default_factory=list)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def bodies(self) -> list[dict[str, Any]]:
        return [json.loads(body) for _path, _headers, body in self.got]

    def wait(self, count: int = 1) -> list[dict[str, Any]]:
        """Return what came as JSON once so many have come."""
        return wait_for(lambda: len(self.got) >= count and self.bodies())


@contextmanager
def receiving(**told: Any) -> Iterator[Receiver]:
    """Listen on a free port until the block ends."""
    receiver = Receiver(**told)
    receiver.hold.set()

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            receiver.got.append((self.path, {name.lower(): value for name, value in self.headers.items()}, body))
            receiver.hold.wait(120)
            try:
                self.send_response(receiver.status)
                self.send_header("Content-Length", str(len(receiver.answer)))
                self.end_headers()
                self.wfile.write(receiver.answer)
            except OSError:  # the sender was killed meanwhile
                pass

        def log_message(self, *_: Any) -> None:
            """Say nothing."""

    server = http.server.ThreadingHTTPServer(("127.0.0.1", receiver.port), Handler)
    server.daemon_threads = True
    receiver.port = server.server_address[1]
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield receiver
    finally:
        receiver.hold.set()
        server.shutdown()
        server.server_close()
