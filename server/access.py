"""Who may use the HTTP interface: whoever has a token, and without one only programs on this machine.

Tokens are compared in constant time. A request that came through a proxy or from a web page of another site is not from
this machine, whatever its address says.
"""

import hmac
import ipaddress
from collections.abc import Iterable, Mapping

from messages import N_, Text

FORWARDED = ("forwarded", "x-forwarded-for", "x-forwarded-host", "x-real-ip")


def has_token(headers: Mapping[str, str], tokens: Iterable[str]) -> bool:
    """Say whether a request carries one of the tokens: `Authorization: Bearer TOKEN`."""
    kind, _, given = headers.get("authorization", "").partition(" ")
    if kind.lower() != "bearer" or not given.strip():
        return False
    asked = given.strip().encode()
    return any(hmac.compare_digest(asked, token.encode()) for token in tokens)


def is_local(headers: Mapping[str, str], client: str | None) -> bool:
    """Say whether a request comes from a program on this machine."""
    if any(name in headers for name in FORWARDED) or not _loopback(client or ""):
        return False
    origin = headers.get("origin")
    if origin is not None and not _loopback(_host(origin.partition("://")[2])):
        return False
    return headers.get("sec-fetch-site", "none") in ("none", "same-origin") and _loopback(_host(headers.get("host", "")))


def why_not(headers: Mapping[str, str], client: str | None, tokens: Iterable[str], *, local: str, post: bool) -> Text | None:
    """Return why a request is refused, None if it may be answered.

    `local` is the token of this server's own command line. Posting needs a token as soon as one is set.
    """
    tokens = tuple(tokens)
    if has_token(headers, (*tokens, local)):
        return None
    if "authorization" in headers:
        return Text(N_("The token is not one of this server's."))
    if is_local(headers, client) and not (post and tokens):
        return None
    if tokens:
        return Text(N_("A token is needed: send the header 'Authorization: Bearer TOKEN'."))
    return Text(
        N_(
            "No token is set on this server, so only programs on its own machine may use this. "
            "Set RUNVITALS_TOKENS there and send the header 'Authorization: Bearer TOKEN'."
        )
    )


def _host(netloc: str) -> str:
    return netloc.rpartition("]")[0].lstrip("[") if netloc.startswith("[") else netloc.partition(":")[0].partition("/")[0]


def _loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return False
    mapped = getattr(address, "ipv4_mapped", None)
    return bool(address.is_loopback or (mapped and mapped.is_loopback))
