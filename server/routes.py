"""HTTP routes beside the pages: what machines ask. See docs/ingest.md and docs/api.md.

The routes are also registered under `server.baseUrlPath`, which custom routes do not get by themselves.
"""

import anyio
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import BaseRoute, Route

from server import api, links, receive, service
from server.guard import guarded


async def healthz(_: Request) -> Response:
    """Say whether the process serves and its store answers: 200 `{"status": "ok", "runs": n}`, else 503 with the reason."""
    try:
        runs = await anyio.to_thread.run_sync(lambda: len(service.get().store.runs()))
    except Exception as error:  # whatever it is, the prober must get an answer
        return JSONResponse({"status": "error", "reason": type(error).__name__}, status_code=503)
    return JSONResponse({"status": "ok", "runs": runs})


def routes(base_path: str = "") -> list[BaseRoute]:
    """Return all routes, at the root and, when Streamlit serves under `base_path`, there as well."""
    prefixes = {"", "/" + base_path.strip("/")} - {"/"}
    return [route for prefix in sorted(prefixes) for route in _under(prefix)]


def _under(prefix: str) -> list[BaseRoute]:
    v1 = f"{prefix}/api/v1"
    return [
        Route(f"{prefix}/healthz", healthz, methods=["GET"]),
        Route(f"{prefix}/s/{{link}}", links.follow, methods=["GET"]),
        Route(f"{v1}/runs", guarded(api.runs), methods=["GET"]),
        Route(f"{v1}/runs/{{run}}", guarded(api.run), methods=["GET"]),
        Route(f"{v1}/runs/{{run}}/series/{{metric:path}}", guarded(api.series), methods=["GET"]),
        Route(f"{v1}/ingest/{{run}}", guarded(receive.offset), methods=["GET"]),
        # PUT too: it is what `curl -T -` says.
        Route(f"{v1}/ingest/{{run}}", guarded(receive.ingest, post=True), methods=["POST", "PUT"]),
        Route(f"{v1}/upload/{{name}}", guarded(receive.upload, post=True), methods=["POST", "PUT"]),
        Route(f"{v1}/read", guarded(api.read, post=True, own=True), methods=["POST"]),
        Route(f"{v1}/cost", guarded(api.cost, own=True), methods=["POST"]),
        Route(f"{v1}/compare", guarded(api.compare, own=True), methods=["POST"]),
        Route(f"{v1}/follow", guarded(api.follow, post=True, own=True), methods=["POST", "DELETE"]),
    ]
