"""The link to what is on the screen now: page, run, range, filters, language; short, to be copied."""

from urllib.parse import urlencode

import streamlit as st

from server import links, service
from storage.store import StoreError
from ui import html, text
from ui.text import _


def popover(page: str) -> None:
    """Offer the link of this page as it is; it is only kept when somebody asks for it."""
    box = st.popover(_("Copy link"), icon=":material/link:", key="link_box", on_change="rerun", width="stretch")
    if not box.open:
        return
    with box:
        html.quiet(_("This page as it is now, with its run, range, filters and language."))
        st.code(address(page), language=None, wrap_lines=True)


def address(page: str) -> str:
    """Return the short URL of the page as it is now; the long one where nothing can be kept."""
    query = {key: st.query_params[key] for key in st.query_params if key != "link"} | {text.LANGUAGE_KEY: text.language()}
    root = (st.context.url or "").partition("?")[0].rsplit("/", 1)[0]
    try:
        return f"{root}/s/{links.keep(service.get().store, page, query)}"
    except StoreError:
        return f"{root}/{page}?{urlencode(query)}"


def unknown() -> None:
    """Say that the link somebody followed is not known here."""
    if st.query_params.get("link") == "unknown":
        html.warn(_("This link is not known here: it is from another server, or was copied incompletely."))
