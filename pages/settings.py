"""How this installation is set: what judges runs, what is kept and how long, the disk, own prices, the server."""

from collections.abc import Callable

import streamlit as st

from analysis.prices import PriceTableError, price_table
from messages import N_
from server import own_prices, service, thresholds
from server.care import disk_status
from server.settings import SettingsError, origins
from ui import html, runbar, settings, state, text
from ui.text import _, ngettext, number

TITLE = N_("Settings")
ICON = ":material/settings:"
SECTION = N_("Team")
ORDER = 590

SHOWN_NOTES = 20


def page() -> None:
    """What a visitor can change on top, what is set where below."""
    here = service.get()
    with runbar.bar():
        html.title(_(TITLE))
        html.label(_("Runvitals {version}").format(version=settings.version()))
    if here.settings.read_only:
        html.warn(_("The store is open for reading only (read_only): pages show what is there, and nothing can be changed."))
    left, right = st.columns(2, gap="large")
    with left:
        _looks()
        _prices()
        _judging()
    with right:
        _disk()
        _kept()
        _server()


def _origins() -> dict[str, str]:
    try:
        return origins()
    except SettingsError as error:  # the file has changed since the start
        html.warn(str(error))
        return {}


def _looks() -> None:
    html.section(_("Language and theme"))
    chosen = text.LANGUAGES[text.language()]
    html.quiet(
        _("Language: {language}. It is chosen at the bottom of the menu, and is part of every link.").format(language=chosen)
    )
    dark = st.context.theme.type == "dark"
    theme = _("dark") if dark else _("light")
    html.quiet(_("Theme: {theme}, as your system says. Another one: ⋮ at the top right, Settings.").format(theme=theme))


def _judging() -> None:
    html.section(_("How runs are judged"))
    html.write(settings.table(service.get().settings, settings.JUDGING, _origins()))
    own = state.store().kept(thresholds.KIND)
    if not own:
        html.quiet(_("No project has thresholds of its own: every rule uses its own defaults."))
        return
    for one in own:
        rules = {rule for by_rule in one.data.values() for rule in by_rule}  # by profile; see server/thresholds.py
        words = ngettext("{n} rule with own thresholds", "{n} rules with own thresholds", len(rules))
        html.quiet(f"{one.name or _('Runs of no project')}: {words}")


def _disk() -> None:
    html.section(_("Disk"))
    html.write(settings.disk(disk_status(service.get())))
    html.write(settings.mirror(state.store().mirror_status()))


def _kept() -> None:
    html.section(_("What is kept, and how long"))
    html.write(settings.table(service.get().settings, settings.KEEPING, _origins()))
    html.section(_("What the store has noted"))
    html.write(settings.notes(state.store().notes()[-SHOWN_NOTES:]))


def _server() -> None:
    html.section(_("The server"))
    html.write(settings.table(service.get().settings, settings.SERVING, _origins()))
    html.quiet(_("Settings are read at the start, from the file runvitals.toml and from variables RUNVITALS_…, which win."))


def _prices() -> None:
    html.section(_("Own prices"))
    data_dir = service.get().settings.data_dir
    try:
        own = own_prices.prices(data_dir)
    except PriceTableError as error:
        html.warn(_("That can't be: {reason}").format(reason=error))
        own = ()
    if own:
        rows = [{"gpu": one.gpu, "per_hour": one.per_hour, "currency": one.currency, "date": one.date} for one in own]
        column = st.column_config
        titles = {
            "gpu": column.TextColumn(_("GPU")),
            "per_hour": column.NumberColumn(_("An hour"), format="%.4g"),
            "currency": column.TextColumn(_("Currency")),
            "date": column.TextColumn(_("Since")),
        }
        st.dataframe(rows, hide_index=True, column_config=titles, key="own_prices", alt=_("Own prices"))
    else:
        count = number(len(price_table().prices))
        html.quiet(_("None: costs use the {n} public list prices. Put in what you really pay.").format(n=count))
    if not service.get().settings.read_only:
        _new_price()


def _new_price() -> None:
    with st.form("new_price", border=False), st.container(horizontal=True, vertical_alignment="bottom"):
        gpu = st.selectbox(_("GPU"), [one.name for one in price_table().gpus], accept_new_options=True, width=170)
        price = st.number_input(_("An hour"), min_value=0.0, value=None, format="%g", width=120)
        currency = st.text_input(_("Currency"), "USD", max_chars=3, width=90)
        asked = st.form_submit_button(_("Set the price"))
    if asked and gpu and price is not None:
        _try(lambda: own_prices.add(service.get().settings.data_dir, gpu, price, currency))
    box = st.expander(_("The whole table as text"), key="price_text_box", on_change="rerun")
    if box.open:
        with box:
            html.quiet(_("prices.toml in the data directory; the first price of a GPU counts."))
            written = st.text_area(_("prices.toml"), own_prices.read(service.get().settings.data_dir), height=260)
            if st.button(_("Save"), key="save_prices"):
                _try(lambda: own_prices.save(service.get().settings.data_dir, written))


def _try(change: Callable[[], None]) -> None:
    """Change the table and draw the page anew, or say why that can't be."""
    try:
        change()
    except (PriceTableError, OSError) as error:
        html.warn(_("That can't be: {reason}").format(reason=error))
        return
    st.cache_data.clear()  # what runs cost is told anew
    st.rerun()


page()
