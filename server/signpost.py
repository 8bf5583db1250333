"""Leads an address that is no page to the start page, which says so in the reader's language.

Streamlit would serve its page under any address and open a dialog over it, in English only.
"""

from collections.abc import Collection
from urllib.parse import quote, urlencode

from starlette.datastructures import MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

ASKED = "no_page"  # the parameter that names the address asked for
LONGEST = 80
FILES = "media/"  # where Streamlit keeps what a page offers to download, web pages among it


class Signpost:
    """ASGI middleware: where the answer would be a web page and its address is none of `pages`, it becomes a redirect."""

    def __init__(self, app: ASGIApp, pages: Collection[str], base_path: str = "") -> None:
        self._app = app
        self._pages = frozenset(pages) | {""}
        self._base = base_path.strip("/")

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a request."""
        name = self._below_base(scope["path"]) if scope["type"] == "http" else ""
        if name in self._pages or name.startswith(FILES):
            await self._app(scope, receive, send)
            return
        turned = False

        async def turning(message: Message) -> None:
            nonlocal turned
            if message["type"] == "http.response.start" and _is_page(message):
                turned = True
                place = target(name, scope["query_string"]).encode("ascii")
                headers = [(b"location", place), (b"cache-control", b"no-store"), (b"content-length", b"0")]
                message = {"type": "http.response.start", "status": 302, "headers": headers}
            elif turned:
                message = {"type": "http.response.body", "body": b"", "more_body": message.get("more_body", False)}
            await send(message)

        await self._app(scope, receive, turning)

    def _below_base(self, path: str) -> str:
        return path.strip("/").removeprefix(self._base).strip("/")


def _is_page(message: Message) -> bool:
    return message["status"] == 200 and MutableHeaders(raw=message["headers"]).get("content-type", "").startswith("text/html")


def target(name: str, query: bytes = b"") -> str:
    """Return where an address leads: relative, so that it holds behind any proxy and under any base path."""
    up = "../" * name.count("/") or "./"
    kept = quote(query.decode("latin-1"), safe="=&%+-._~")
    return f"{up}?{urlencode({ASKED: name[:LONGEST]})}" + (f"&{kept}" if kept else "")
