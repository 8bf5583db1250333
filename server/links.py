"""Short links: `/s/<id>` leads to a page with all that its URL says. The same view has the same link, kept once."""

import hashlib
import json
import re
from collections.abc import Mapping
from urllib.parse import urlencode

import anyio
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from server import service
from storage.store import Store

KIND = "link"
LENGTH = 8  # of 16 possible digits: a million links share one with a chance of 1 in 4,000 for the next
UNKNOWN = "overview?link=unknown"
_PAGE = re.compile(r"[a-z_]{1,40}")


def keep(store: Store, page: str, query: Mapping[str, str]) -> str:
    """Keep a view and return its id. Raises StoreError where the store is read only."""
    data = {"page": page, "query": dict(sorted(query.items()))}
    link = hashlib.sha256(json.dumps(data, sort_keys=True).encode()).hexdigest()[:LENGTH]
    store.keep(KIND, link, data)
    return link


def target(store: Store, link: str) -> str:
    """Return where a link leads, relative to the root of the app; to a page that says so where it is not known."""
    found = next((one.data for one in store.kept(KIND, run="") if one.name == link), None)
    if not isinstance(found, dict) or not _PAGE.fullmatch(str(found.get("page"))):
        return UNKNOWN
    query = found.get("query")
    pairs = {str(key): str(value) for key, value in query.items()} if isinstance(query, dict) else {}
    return f"{found['page']}?{urlencode(pairs)}" if pairs else str(found["page"])


async def follow(request: Request) -> Response:
    """Lead to the page behind a short link. The answer is relative: it holds behind any proxy and under any base path."""
    link = request.path_params["link"]
    place = await anyio.to_thread.run_sync(lambda: target(service.get().store, link))
    return RedirectResponse(f"../{place}", status_code=302, headers={"Cache-Control": "no-store"})
