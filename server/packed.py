"""Streamlit's scripts and styles, packed: a first page is 2.9 MB of them, which Streamlit sends as they are."""

import gzip
from functools import lru_cache
from pathlib import Path

import anyio
from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send

KINDS = {".js": b"text/javascript; charset=utf-8", ".css": b"text/css; charset=utf-8"}
# As Streamlit sends them: their names change with what is in them.
KEPT = b"public, immutable, max-age=31536000"


class Packed:
    """ASGI middleware: a script or style of `folder` goes out packed to who takes gzip; everything else passes as it is."""

    def __init__(self, app: ASGIApp, folder: Path, base_path: str = "") -> None:
        self._app = app
        base = base_path.strip("/")
        self._prefix = f"/{base}/static/" if base else "/static/"
        self._known = {path.relative_to(folder).as_posix(): path for path in folder.glob("*/*") if path.suffix in KINDS}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a request."""
        path = self._known.get(scope["path"].removeprefix(self._prefix)) if scope["type"] == "http" else None
        if path is None or scope["method"] != "GET" or "gzip" not in Headers(scope=scope).get("accept-encoding", ""):
            await self._app(scope, receive, send)
            return
        body = await anyio.to_thread.run_sync(packed, path)
        headers = [(b"content-type", KINDS[path.suffix]), (b"cache-control", KEPT), (b"vary", b"Accept-Encoding")]
        headers += [(b"content-encoding", b"gzip"), (b"content-length", str(len(body)).encode())]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": body})


@lru_cache(maxsize=1024)
def packed(path: Path) -> bytes:
    """Return a file as gzip, made once."""
    return gzip.compress(path.read_bytes(), 6)
