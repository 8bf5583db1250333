"""Around every route: who may use it, and every error as one JSON answer with a word and a sentence."""

import json
import logging
from collections.abc import Awaitable, Callable
from typing import Any

from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response

from messages import N_, Text
from server import address, service
from server.access import has_token, why_not
from server.answers import UnknownMetric
from storage.intake.streams import Refused
from storage.store import StoreError, UnknownRun
from storage.types import UnreadableLog

LOG = logging.getLogger("runvitals.http")
Handler = Callable[[Request], Awaitable[Response]]
STATUS: dict[type[Exception], tuple[int, str]] = {
    UnknownRun: (404, "unknown_run"),
    UnknownMetric: (404, "unknown_metric"),
    FileNotFoundError: (404, "no_file"),
    PermissionError: (403, "not_readable"),
    StoreError: (503, "store"),
}


class BadRequest(ValueError):
    """The request can't be understood, or is more than may be sent; `status` is that of HTTP."""

    def __init__(self, message: Text, *, status: int = 400, code: str = "bad_request") -> None:
        super().__init__(message.render())
        self.status, self.code = status, code


def guarded(handler: Handler, *, post: bool = False, own: bool = False) -> Handler:
    """Return a handler that answers only those who may: `post` changes runs, `own` is for this server's command line."""

    async def answered(request: Request) -> Response:
        refusal = _refused(request, post=post, own=own)
        if refusal is not None:
            return refusal
        try:
            return await handler(request)
        except Refused as error:
            return answer({"error": error.code, "message": str(error), "offset": error.offset}, 409)
        except UnreadableLog as error:
            return answer({"error": error.code, "message": str(error)}, 413 if error.code == "too_large" else 422)
        except BadRequest as error:
            return answer({"error": error.code, "message": str(error)}, error.status)
        except ClientDisconnect:
            return Response(status_code=499)  # to nobody
        except tuple(STATUS) as error:
            status, code = next(found for kind, found in STATUS.items() if isinstance(error, kind))
            return answer({"error": code, "message": str(error)}, status)
        except Exception as error:
            LOG.exception("%s %s failed", request.method, request.url.path)
            message = Text(N_("The request failed ({kind}); the server's output says why."), {"kind": type(error).__name__})
            return answer({"error": "failed", "message": message.render()}, 500)

    return answered


def is_own(request: Request) -> bool:
    """Say whether a request comes from this server's own command line."""
    return has_token(request.headers, [address.local_token()])


def _refused(request: Request, *, post: bool, own: bool) -> Response | None:
    settings, client = service.get().settings, request.client.host if request.client else None
    reason = why_not(request.headers, client, settings.tokens, local=address.local_token(), post=post)
    if reason is None and own and not is_own(request):
        reason = Text(N_("Only the command line of this server may do that."))
    if reason is not None and (settings.tokens or "authorization" in request.headers):
        return answer({"error": "unauthorized", "message": reason.render()}, 401, {"WWW-Authenticate": "Bearer"})
    if reason is not None:
        return answer({"error": "forbidden", "message": reason.render()}, 403)
    if post and settings.read_only:
        message = Text(N_("The store is open for reading only: nothing can be changed."))
        return answer({"error": "read_only", "message": message.render()}, 503)
    return None


def answer(value: Any, status: int = 200, headers: dict[str, str] | None = None) -> Response:
    """Return a value as JSON. A NaN or an infinity of a log stays one: NaN, Infinity (as Python and jq read them)."""
    content = json.dumps(value, ensure_ascii=False, default=str)
    return Response(content, status, {"Cache-Control": "no-store", **(headers or {})}, "application/json")
