"""Sends one message through Apprise and says in one sentence what the other side answered; secrets never get into it.

Apprise is imported when the first message is sent: its 140 services take half a second.
"""

import logging
import re
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from typing import Any
from urllib.parse import unquote

from messages import N_, Text
from server.alerts.channels import BadChannel, Channel
from server.alerts.plain import plain

CONNECT_SECONDS, READ_SECONDS = 5.0, 10.0  # of one step of a connection
MAX_SAID, LEAST_SECRET = 160, 6  # characters
REASONS = (
    (r"name or service not known|name resolution|getaddrinfo|no address associated", N_("its name is not known (DNS)")),
    (r"connection refused", N_("nobody listens there (connection refused)")),
    (r"timed? ?out", N_("it did not answer in time")),
    (r"certificate|ssl", N_("its certificate or encryption was not accepted")),
    (r"authentication|\b535\b", N_("user or password were not accepted")),
    (r"no route|unreachable", N_("there is no way to it in the network")),
)


@dataclass(frozen=True)
class Message:
    """What is sent, as plain text; facts: the same for programs, which a webhook gets beside it."""

    title: str
    body: str
    grave: bool
    facts: Mapping[str, Any]


Send = Callable[[Channel, Message], Text | None]


def send(channel: Channel, message: Message) -> Text | None:
    """Send a message; return why it was not accepted, None when it was. Takes seconds."""
    try:
        address = channel.address
    except BadChannel as error:
        return error.message
    service = _service(address)
    if service is None:
        return Text(N_("This is no address that Apprise understands."))
    if hasattr(service, "payload_extras"):  # the JSON webhook
        service.payload_extras = {**message.facts, **service.payload_extras}
    for name, seconds in (("socket_connect_timeout", CONNECT_SECONDS), ("socket_read_timeout", READ_SECONDS)):
        setattr(service, name, min(getattr(service, name), seconds))
    apprise = _apprise()
    sender = apprise.Apprise(asset=_asset())
    sender.add(service)
    kind = apprise.NotifyType.FAILURE if message.grave else apprise.NotifyType.WARNING
    with _listening() as lines:
        accepted = sender.notify(message.body, message.title, kind, body_format=apprise.NotifyFormat.TEXT)
    return None if accepted else why(lines, address)


def why(lines: list[str], address: str) -> Text:
    """Return in one sentence what went wrong, of what Apprise noted while it tried; `address`: whose secrets go out of it."""
    whole = "\n".join(lines)
    known = next((words for pattern, words in REASONS if re.search(pattern, whole, re.I)), None)
    status = re.search(r"error=(\d{3})", whole)
    said = re.search(r"(?:Response Details:\s*b?|refused: |rejected .*? msg=)(.*)", whole)
    answer = plain(_without(said[1].strip("'\""), address), MAX_SAID) if said else ""
    if status and answer:
        return Text(N_("It answered {status}: {answer}"), {"status": status[1], "answer": answer})
    if status:
        return Text(N_("It answered {status}."), {"status": status[1]})
    if answer:
        return Text(N_("It refused the message: {answer}"), {"answer": answer})
    if known:
        return Text(N_("It can't be reached: {reason}."), {"reason": Text(known)})
    return Text(N_("It was not accepted, and the other side did not say why."))


def _without(text: str, address: str) -> str:
    """Return text in which no part of an address stands that may be a secret."""
    parts = {part for written in (address, unquote(address)) for part in re.split(r"[/:@?&=+ ]", written)}
    for part in sorted(parts, key=len, reverse=True):
        if len(part) >= LEAST_SECRET:
            text = text.replace(part, "…")
    return text


@contextmanager
def _listening() -> Iterator[list[str]]:
    """Give a list of what Apprise notes in this thread: all that it tells of an answer."""
    lines: list[str] = []
    mine = threading.get_ident()

    class Ear(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            if record.thread == mine:
                lines.append(record.getMessage())

    ear = Ear()
    logging.getLogger("apprise").addHandler(ear)
    try:
        yield lines
    finally:
        logging.getLogger("apprise").removeHandler(ear)


def _service(address: str) -> Any:
    try:
        return _apprise().Apprise.instantiate(address, asset=_asset(), suppress_exceptions=True)
    except Exception:  # a service of a hundred: whatever it raises, the address is of no use, and may be in what it says
        return None


def _asset() -> Any:
    # Redirects could carry a secret to somebody else. No picture: it would be fetched from elsewhere.
    given = {"app_id": "Runvitals", "app_desc": "Runvitals", "app_url": "", "http_redirects": False, "async_mode": False}
    return _apprise().AppriseAsset(**given, image_url_mask=False, service_timeout=0)


@cache
def _apprise() -> Any:
    """Return Apprise, made fit: it says nothing in the log of the server (it would say secrets), and believes no lie."""
    import apprise
    from apprise.plugins import dingtalk, wecombot

    log = logging.getLogger("apprise")
    log.propagate, log.handlers = False, [logging.NullHandler()]
    log.setLevel(logging.DEBUG)
    logging.getLogger("urllib3.connectionpool").setLevel(logging.INFO)  # below that it logs whole addresses
    for plugin in (dingtalk, wecombot):
        vars(plugin)["requests"] = _Honest(vars(plugin)["requests"], log)
    return apprise


class _Honest:
    """`requests` as two plugins see it. DingTalk and WeCom refuse a message with HTTP 200 and an `errcode`, which Apprise
    2.3.0 takes for success: here such an answer is an error."""

    def __init__(self, requests: Any, log: logging.Logger) -> None:
        self._requests, self._log = requests, log

    def __getattr__(self, name: str) -> Any:
        return getattr(self._requests, name)

    def post(self, *args: Any, **named: Any) -> Any:
        """Send, and believe `errcode` rather than the status."""
        response = self._requests.post(*args, **named)
        try:
            said = response.json()
        except ValueError:
            return response
        if isinstance(said, dict) and said.get("errcode"):
            self._log.warning("refused: %s (errcode %s)", said.get("errmsg"), said["errcode"])
            response.status_code = 422
        return response
