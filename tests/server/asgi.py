"""One request to an ASGI application, without a server."""

import asyncio
from concurrent.futures import ThreadPoolExecutor

from starlette.types import ASGIApp, Message


def request(
    app: ASGIApp, path: str, *, query: str = "", method: str = "GET", headers: dict[str, str] | None = None
) -> tuple[int, dict[bytes, bytes], bytes]:
    """Return status, headers and body of the answer."""
    given = [(name.encode(), value.encode()) for name, value in (headers or {}).items()]
    scope = {"type": "http", "method": method, "path": path, "query_string": query.encode(), "headers": given}
    sent: list[Message] = []

    async def send(message: Message) -> None:
        sent.append(message)

    async def receive() -> Message:
        return {"type": "http.disconnect"}

    with ThreadPoolExecutor() as apart:  # the tests of the browser have a loop in this thread
        apart.submit(asyncio.run, app(scope, receive, send)).result()
    return sent[0]["status"], dict(sent[0]["headers"]), b"".join(message.get("body", b"") for message in sent[1:])
