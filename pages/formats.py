"""Which log formats are known, and how to teach Runvitals another one from a few lines."""

from pathlib import Path

import streamlit as st

from messages import N_
from server import service
from storage.reading import formats, teach
from ui import html
from ui import teach as lesson
from ui.text import _, ngettext, number, say

TITLE = N_("Log formats")
ICON = ":material/text_compare:"
SECTION = N_("Bring in")
ORDER = 430

ROW_PX = 35
EXAMPLE = "[Epoch 1] batch 10 of 500 — cost 2.3145 | speed 51.2\n[Epoch 1] batch 20 of 500 — cost 2.2871 | speed 51.0"


def page() -> None:
    """Lines and what they give on top, the known formats below."""
    with st.container(horizontal=True, vertical_alignment="center", key="bar"):
        html.title(_(TITLE))
    _undo()
    html.section(_("Try lines of your log"))
    lines, result = st.columns([2, 3], gap="large")
    with lines:
        text = st.text_area(
            _("Lines of the log"),
            key="lines",
            height=240,
            max_chars=lesson.MAX_CHARS,
            placeholder=EXAMPLE,
            help=_("A dozen lines are enough; records and a few others."),
        )
        way, pattern = _way(text)
    with result:
        found = _result(text, way, pattern)
    if found is not None and found.rows and way != lesson.KNOWN:
        _save_form()
    _known()


def folder() -> Path:
    """Return where the team's formats are kept."""
    return service.get().settings.data_dir / "formats"


def _way(text: str) -> tuple[str, str]:
    words = {lesson.KNOWN: _("A known format"), lesson.LEARNT: _("Learnt from them"), lesson.OWN: _("My own pattern")}
    if text.strip():
        words |= {way: f"{words[way]} ({len(_yields(text, way).rows)})" for way in (lesson.KNOWN, lesson.LEARNT)}
    way = st.segmented_control(
        _("Read them by"), list(words), default=lesson.KNOWN, format_func=lambda key: words[key], key="way", required=True
    )
    if way != lesson.OWN:
        return str(way), ""
    help_text = _(
        "A regular expression (RE2) that a line must hold. {step} stands for a number called step; (?P<step>…) works too. "
        "Common names: step, epoch, loss, lr, grad_norm, eval_loss, tokens_per_second."
    )
    pattern = st.text_input(
        _("Pattern"),
        key="pattern",
        live=True,
        placeholder=r"^\[Epoch {epoch}\] batch {step} of {steps_per_epoch} — cost {loss} \| speed {samples_per_second}",
        help=help_text,
    )
    return lesson.OWN, pattern


def _yields(text: str, way: str, pattern: str = "") -> lesson.Yield:
    return lesson.yields(text, way, pattern, id(formats.load()))


def _result(text: str, way: str, pattern: str) -> lesson.Yield | None:
    """Show what each line gives, at once."""
    if not text.strip():
        html.quiet(_("Paste lines on the left: here stands at once what each of them gives."))
        return None
    found = _yields(text, way, pattern)
    count = ngettext("{n} line gives a row", "{n} lines give a row", len({row["line"] for row in found.rows}))
    by = _("read as {format}").format(format=_(found.report.format_title)) if way == lesson.KNOWN and found.rows else ""
    html.label(" · ".join(filter(None, [count, by])))
    for sentence in found.told:
        html.quiet(say(sentence))
    if found.report:
        for item in found.report.unparsed[:3]:
            html.warn(_("Line {line} is damaged: {reason}").format(line=number(item.line), reason=say(item.reason)))
    table = lesson.table(text, found)
    st.dataframe(
        table,
        hide_index=True,
        row_height=ROW_PX,
        height=min(330, ROW_PX * (len(table) + 1) + 2),
        placeholder="–",
        alt=_("What each line gives"),
        column_config={"#": st.column_config.NumberColumn(width=50), _("Line"): st.column_config.TextColumn(width=260)},
    )
    return found


def _save_form() -> None:
    if service.get().settings.read_only:
        html.quiet(_("The store is open for reading only: a format can't be saved here."))
        return
    with st.container(horizontal=True, vertical_alignment="bottom", key="actions"):
        st.text_input(_("Name of the format"), key="format_title", max_chars=60, width=260)
        st.text_input(_("Where such lines come from"), key="format_seen", max_chars=200, width=360)
        st.button(_("Save for the team"), type="primary", icon=":material/save:", on_click=_save)
    for reason in st.session_state.pop("format_faults", []):
        html.warn(say(reason))


def _save() -> None:
    """Keep what now stands in the fields as a format if it proves itself; else say what is in the way."""
    now = st.session_state
    title, seen, text, way = (now[key] for key in ("format_title", "format_seen", "lines", "way"))
    if not (title.strip() and seen.strip()):
        st.toast(_("Name the format, and say where such lines come from."), icon=":material/edit:")
        return
    name, found = teach.name_for(title), _yields(text, way, now.get("pattern", "") if way == lesson.OWN else "")
    try:
        teach.save(folder(), name, teach.propose(name, title, seen, text, found.patterns, pairs=way == lesson.LEARNT))
    except teach.NotSaved as error:
        st.session_state["format_faults"] = error.reasons
        return
    for key in ("lines", "pattern", "format_title", "format_seen"):
        st.session_state[key] = ""
    st.session_state["way"] = lesson.KNOWN
    st.session_state["saved_format"] = title


def _known() -> None:
    table = lesson.known_formats()
    html.section(_("Known formats"), number(len(table)))
    if saved := st.session_state.pop("saved_format", None):
        words = _("“{title}” is saved: logs that come in from now on are read with it.").format(title=saved)
        html.write(html.tag("p", html.icon("check_circle") + html.escape(words), "rv-done"))
    for name, reason in lesson.broken().items():
        html.warn(_("{name}.toml can't be used: {reason}").format(name=name, reason=reason))
    column = st.column_config
    chosen = st.dataframe(
        table,
        hide_index=True,
        row_height=ROW_PX,
        height=min(420, ROW_PX * (len(table) + 1) + 2),
        key="formats",
        on_select="rerun",
        selection_mode="single-row",
        alt=_("Known formats"),
        column_config={
            "name": None,
            "title": column.TextColumn(_("Format"), width=190),
            "seen": column.TextColumn(_("Where it is seen"), width=300),
            "origin": column.TextColumn(_("From"), width=90),
            "sample": column.TextColumn(_("A line of it")),
        },
    ).selection
    if chosen.rows and chosen.rows[0] < len(table):
        _detail(str(table["name"].iloc[chosen.rows[0]]))
    else:
        html.quiet(_("Tick a format to see it, to download it, or to delete one of your own."))


def _detail(name: str) -> None:
    found = formats.load()[name]
    with st.container(border=True, key="format"):
        with st.container(horizontal=True, vertical_alignment="center"):
            html.write(html.tag("p", html.escape(_(found.title)), "rv-sentence"))
            st.download_button(
                _("Download"), found.source, f"{name}.toml", "application/toml", icon=":material/download:", type="tertiary"
            )
            if name in formats.team() and not service.get().settings.read_only:
                st.button(_("Delete"), icon=":material/delete:", type="tertiary", on_click=_delete, args=(name,))
        if found.samples:
            st.button(
                _("Try its sample above"), icon=":material/arrow_upward:", on_click=_try, args=(found.samples[0]["text"],)
            )
        st.code(found.source, language="toml", wrap_lines=True, height=320)


def _try(sample: str) -> None:
    st.session_state["lines"], st.session_state["way"] = sample.strip("\n"), lesson.KNOWN


def _delete(name: str) -> None:
    title = formats.load()[name].title
    st.session_state["deleted_format"] = (name, title, teach.remove(folder(), name))


def _undo() -> None:
    removed = st.session_state.get("deleted_format")
    if removed is None:
        return
    with st.container(horizontal=True, vertical_alignment="center", key="undo"):
        html.write(html.tag("p", html.escape(_("Deleted: {names}").format(names=removed[1])), "rv-line"))
        st.button(_("Undo"), icon=":material/undo:", on_click=_bring_back)


def _bring_back() -> None:
    name, _title, text = st.session_state.pop("deleted_format")
    teach.save(folder(), name, text)


page()
