"""What stands around every page: page settings, style, menu, language, and a calm sentence when something fails."""

import logging

import streamlit as st

from messages import N_
from server import service
from server.signpost import ASKED, LONGEST
from storage.store import StoreLocked
from ui import beginner, html, links, state, text
from ui.navigation import page_files, sections
from ui.text import _

LOG = logging.getLogger("runvitals.ui")
LOGO = html.STYLE.with_name("logo.svg")
ICON = html.STYLE.with_name("icon.svg")
NO_PAGE = "no_page"  # the path that somebody asked for and that is no page
START = "start"


def run() -> None:
    """Draw the frame, then the page that the URL names."""
    st.set_page_config(page_title="Runvitals", page_icon=ICON, layout="wide")
    state.remember_asked()
    _take_language_from_url()
    html.style()
    st.logo(LOGO, size="large")
    page = st.navigation(_menu(), expanded=True)
    with st.sidebar:
        language_picker()
        beginner.switch()
        place = st.container()
    try:
        service.get()
    except StoreLocked as error:
        st.error(html.escape_markdown(error), icon=":material/lock:")
        return
    links.unknown()
    if page.url_path and (asked := st.session_state.pop(NO_PAGE, None)):
        html.warn(_("There is no page “{name}”: choose one in the menu.").format(name=asked[:LONGEST]))
    page.run()
    with place:  # after the page, which may have set what the link says
        links.popover(page.url_path)


def _menu() -> dict[str, list]:
    menu: dict[str, list] = {"": [st.Page(_start, title=_("Start"), url_path=START, default=True, visibility="hidden")]}
    for section, files in sections().items():
        menu[_(section)] = [
            st.Page(file.path, title=_(file.title), icon=file.icon, url_path=file.name, help=_(file.help)) for file in files
        ]
    return menu


def page_names() -> list[str]:
    """Return the addresses that are pages."""
    return [START, *(file.name for file in page_files())]


def _start() -> None:
    """Lead to the page that fits: nothing there yet, one run, or many; an address without a page is told there."""
    if asked := st.query_params.get(ASKED):
        st.session_state[NO_PAGE] = asked
    count = len(service.get().store.runs())
    name = "upload" if count == 0 else "health" if count == 1 else "overview"
    st.switch_page(f"pages/{name}.py")


def _take_language_from_url() -> None:
    asked = st.query_params.get(text.LANGUAGE_KEY)
    start = asked if asked in text.LANGUAGES else text.browser_language(asked or st.context.locale)
    st.session_state.setdefault(text.LANGUAGE_KEY, start)


def language_picker() -> None:
    """Let the reader choose the language; the URL keeps a choice that differs from the browser's language."""
    chosen = st.selectbox(
        _("Language"),
        list(text.LANGUAGES),
        format_func=lambda code: text.LANGUAGES[code],
        key=text.LANGUAGE_KEY,
        label_visibility="collapsed",
    )
    if chosen != text.browser_language(st.context.locale):
        st.query_params[text.LANGUAGE_KEY] = chosen
    else:
        st.query_params.pop(text.LANGUAGE_KEY, None)


def address() -> str:
    """Return the URL at which this server is reached from its own machine; the port is known once it has started."""
    host = st.get_option("server.address") or "127.0.0.1"
    host = {"0.0.0.0": "127.0.0.1", "::": "[::1]"}.get(host, f"[{host}]" if ":" in host else host)
    scheme = "https" if st.get_option("server.sslCertFile") else "http"
    base = st.get_option("server.baseUrlPath").strip("/")
    return f"{scheme}://{host}:{st.get_option('server.port')}{'/' + base if base else ''}"


FAILED = N_(
    "This page could not be drawn ({kind}). Your logs and results are untouched. "
    "The server's output has the details; reload the page, or report it with the address of this page."
)


def on_script_error(error: Exception) -> bool:
    """Show one sentence in place of the stack trace, which goes to the server's log. Always handles the error."""
    LOG.error("A page failed", exc_info=error)
    st.error(_(FAILED).format(kind=type(error).__name__), icon=":material/report:")
    return True
