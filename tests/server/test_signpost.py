"""An address that is no page leads to the start page; pages and data pass as they are."""

from urllib.parse import unquote

import pytest
from starlette.applications import Starlette
from starlette.responses import HTMLResponse, JSONResponse
from starlette.routing import Route

from server.signpost import Signpost, target
from tests.server.asgi import request


def get(address: str, base: str = "") -> tuple[int, str, bytes]:
    """Return status, Location and body for an address of a server that has a page anywhere, as Streamlit has."""
    data = Route("/api/runs", lambda _: JSONResponse([1]))
    page = Route("/{path:path}", lambda _: HTMLResponse("page"))
    app = Signpost(Starlette(routes=[data, page]), ["health", "start"], base)
    path, _, query = address.partition("?")
    status, headers, body = request(app, unquote(path), query=query)
    return status, headers.get(b"location", b"").decode(), body


@pytest.mark.parametrize("address", ["/", "/health", "/health?run=1", "/start", "/health/"])
def test_pages_are_served(address):
    assert get(address) == (200, "", b"page")


def test_data_is_served():
    assert get("/api/runs") == (200, "", b"[1]")


@pytest.mark.parametrize(
    ("address", "place"),
    [
        ("/nosuch", "./?no_page=nosuch"),
        ("/a/b/nosuch?lang=zh_CN", "../../?no_page=a%2Fb%2Fnosuch&lang=zh_CN"),
        ("/%E4%B8%AD%09X:1", "./?no_page=%E4%B8%AD%09X%3A1"),
        ("/x?a=%22%3Cb%3E%0d%0a", "./?no_page=x&a=%22%3Cb%3E%0d%0a"),
        ("/" + "y" * 500, "./?no_page=" + "y" * 80),
    ],
)
def test_all_else_leads_to_the_start_page(address, place):
    assert get(address) == (302, place, b"")


def test_no_line_of_its_own_gets_into_the_answer():
    assert target("a\r\nX: 1", b"b=\r\nX: 1") == "./?no_page=a%0D%0AX%3A+1&b=%0D%0AX%3A%201"


def test_below_a_base_path():
    assert get("/rv/health", "rv")[0] == get("/rv/", "rv")[0] == 200
    assert get("/rv/nosuch", "rv")[1] == "./?no_page=nosuch"


@pytest.mark.parametrize("base", ["", "rv", "a/b"])
def test_a_web_page_that_is_downloaded_passes(base):
    assert get(f"/{base}/media/0ff.html".replace("//", "/"), base) == (200, "", b"page")
