"""Streamlit's scripts and styles go out packed to those who take that; everything else is left to Streamlit."""

import gzip
from pathlib import Path

import pytest
import streamlit
from starlette.responses import PlainTextResponse

from server.packed import Packed
from tests.server.asgi import request

FOLDER = Path(streamlit.__file__).parent / "static" / "static"
SCRIPT = next(path for path in sorted(FOLDER.glob("js/*.js")) if path.stat().st_size > 2000)
STYLE = next(FOLDER.glob("css/*.css"))
THEIRS = b"as it is"


def ask(path: str, *, base: str = "", takes: str = "gzip, br", method: str = "GET") -> tuple[dict[bytes, bytes], bytes]:
    """Return the headers and the body for a path; Streamlit would answer THEIRS."""
    app = Packed(PlainTextResponse(THEIRS), FOLDER, base)
    status, headers, body = request(app, path, method=method, headers={"accept-encoding": takes})
    assert status == 200
    return headers, body


@pytest.mark.parametrize("base", ["", "rv", "a/b"])
@pytest.mark.parametrize(("file", "kind"), [(SCRIPT, b"text/javascript"), (STYLE, b"text/css")], ids=["script", "style"])
def test_what_a_page_loads_is_packed_and_may_be_kept(file, kind, base):
    path = f"{'/' + base if base else ''}/static/{file.parent.name}/{file.name}"
    headers, body = ask(path, base=base)
    assert headers[b"content-type"].startswith(kind)
    assert b"immutable" in headers[b"cache-control"]
    assert int(headers[b"content-length"]) == len(body) < file.stat().st_size
    assert gzip.decompress(body) == file.read_bytes()


@pytest.mark.parametrize(
    ("path", "asked"),
    [
        (f"/static/js/{SCRIPT.name}", {"takes": "identity"}),
        (f"/static/js/{SCRIPT.name}", {"method": "HEAD"}),
        (f"/static/js/{SCRIPT.name}", {"base": "rv"}),
        (f"/js/{SCRIPT.name}", {}),
        ("/static/js/nosuch.js", {}),
        ("/static/js/../../index.html", {}),
        ("/static/media/font.woff2", {}),
        ("/health", {}),
    ],
)
def test_all_else_is_left_to_streamlit(path, asked):
    assert ask(path, **asked)[1] == THEIRS
