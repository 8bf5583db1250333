"""Folders on this server whose logs come in by themselves, while training runs."""

from dataclasses import replace
from pathlib import Path

import streamlit as st

from messages import N_
from server import service
from storage.intake.watch import FolderStatus
from storage.keeping.sources import Watched
from ui import folders, html, state
from ui.text import _, ngettext, say

TITLE = N_("Watched folders")
ICON = ":material/folder_eye:"
SECTION = N_("Bring in")
ORDER = 420

LOOK_SECONDS = 3
SHOWN_PROBLEMS = 3
ROW_PX = 35
OWN_PATTERN = r"^(?P<run>[^/]+)/(?:.*rank(?P<rank>\d+))?.*\.log$"


def page() -> None:
    """The form when it is asked for (or there is no folder yet), then every folder with its state and its files."""
    read_only = service.get().settings.read_only
    some = bool(folders.listed())
    with st.container(horizontal=True, vertical_alignment="center", key="bar"):
        html.title(_(TITLE))
        if some and not read_only and _editing() is None:
            st.button(_("Add a folder"), icon=":material/create_new_folder:", on_click=_edit, args=("",))
    if read_only:
        html.quiet(_("The store is open for reading only: nothing is watched, and nothing can be set here."))
    _undo()
    if not some:
        html.empty(_("Name a folder in which your training writes its logs. Every log there becomes a run and grows with it."))
    if not read_only and (_editing() is not None or not some):
        _form(_editing() or "")
    if some:
        st.fragment(_list, run_every=LOOK_SECONDS, key="folders")(read_only)
    _elsewhere(expanded=not some)


def _editing() -> str | None:
    return st.session_state.get("folder_edited")


def _edit(folder: str | None) -> None:
    st.session_state["folder_edited"] = folder
    for key in ("folder", "rule", "pattern", "include", "exclude"):
        st.session_state.pop(f"form_{key}", None)


def _form(folder: str) -> None:
    """What to watch and how; beside it at once what that would give."""
    before = next((watched for watched, _status in folders.listed() if watched.folder == folder), Watched(""))
    with st.container(border=True, key="form"):
        fields, result = st.columns([2, 3], gap="large")
        with fields:
            watched = _fields(before)
            with st.container(horizontal=True):
                words = _("Save") if folder else _("Watch this folder")
                st.button(words, type="primary", on_click=_save, args=(before,), disabled=not _ready(watched))
                if folders.listed():
                    st.button(_("Cancel"), on_click=_edit, args=(None,))
        with result:
            _preview(watched)


def _ready(watched: Watched) -> bool:
    return bool(watched.folder) and Path(watched.folder).is_absolute()


def _fields(before: Watched) -> Watched:
    """Draw the fields and return what stands in them."""
    named = folders.rule_words()
    own = before.rule not in named
    st.text_input(_("Folder on this server"), before.folder, key="form_folder", live=True, placeholder="/srv/training/logs")
    rule = st.selectbox(
        _("How files become runs"),
        list(named),
        index=list(named).index("own" if own else before.rule),
        format_func=lambda key: named[key],
        key="form_rule",
    )
    if rule == "own":
        help_text = _("A regular expression (RE2) over the path below the folder. What it does not match is no log.")
        st.text_input(
            _("Pattern with the groups run, rank, host"),
            before.rule if own else OWN_PATTERN,
            key="form_pattern",
            live=True,
            help=help_text,
        )
    globs = _("File names as in a shell, separated by blanks. Empty: the usual ones.")
    st.text_input(
        _("Only these files"), " ".join(before.include), key="form_include", live=True, placeholder="*.log *.jsonl", help=globs
    )
    st.text_input(
        _("Not these files"), " ".join(before.exclude), key="form_exclude", live=True, placeholder="debug*", help=globs
    )
    return _entered(before)


def _entered(before: Watched) -> Watched:
    """Return what now stands in the fields."""
    now = st.session_state
    folder = now["form_folder"].strip()
    folder = folder.rstrip("/") or folder
    rule = now.get("form_pattern", OWN_PATTERN).strip() if now["form_rule"] == "own" else now["form_rule"]
    include, exclude = (tuple(now[key].split()) for key in ("form_include", "form_exclude"))
    return replace(before, folder=folder, include=include, exclude=exclude, rule=rule)


def _preview(watched: Watched) -> None:
    html.section(_("What this would bring in"))
    if not watched.folder:
        html.quiet(_("Type the path of a folder; its logs are shown here before anything is read."))
        return
    if not _ready(watched):
        html.quiet(_("Give the whole path, from / on."))
        return
    seen = folders.preview(watched)
    for problem in seen.problems:
        html.warn(say(problem))
    if seen.logs or seen.others or not seen.problems:
        html.quiet(folders.told(seen))
    if seen.files:
        st.dataframe(
            folders.preview_table(seen),
            hide_index=True,
            row_height=ROW_PX,
            height=min(360, ROW_PX * (len(seen.files) + 1) + 2),
            placeholder="–",
            alt=_("Files that match, and the runs they would be"),
        )


def _save(before: Watched) -> None:
    """Watch what now stands in the fields: arguments would be those of the run of the page before."""
    watched = _entered(before)
    if not _ready(watched):
        return
    if before.folder and before.folder != watched.folder:
        state.store().unwatch(before.folder)
    state.store().watch(watched)
    folders.look()
    _edit(None)


def _list(read_only: bool) -> None:
    listed = folders.listed()
    files = folders.followed(watched.folder for watched, _status in listed)
    for index, (watched, status) in enumerate(listed):
        with st.container(border=True, key=f"watched-{index}"):
            with st.container(horizontal=True, vertical_alignment="top", key=f"head-{index}"):
                html.write(folders.card(watched, status))
                if status and status.fixed:
                    html.label(_("Set by RUNVITALS_WATCH, so not changed here"))
                elif not read_only:
                    _buttons(watched, index)
            _problems(status)
            _files(files[watched.folder], index)


def _buttons(watched: Watched, index: int) -> None:
    with st.container(horizontal=True, horizontal_alignment="right", width="content"):
        st.button(
            _("Edit"), icon=":material/edit:", type="tertiary", key=f"edit-{index}", on_click=_edit, args=(watched.folder,)
        )
        words, sign = (_("Go on"), "play_arrow") if watched.paused else (_("Pause"), "pause")
        st.button(words, icon=f":material/{sign}:", type="tertiary", key=f"pause-{index}", on_click=_pause, args=(watched,))
        st.button(
            _("Remove"), icon=":material/delete:", type="tertiary", key=f"remove-{index}", on_click=_remove, args=(watched,)
        )


def _pause(watched: Watched) -> None:
    state.store().watch(replace(watched, paused=not watched.paused))
    folders.look()


def _remove(watched: Watched) -> None:
    state.store().unwatch(watched.folder)
    st.session_state["unwatched"] = watched
    folders.look()


def _take_back() -> None:
    state.store().watch(st.session_state.pop("unwatched"))
    folders.look()


def _undo() -> None:
    removed = st.session_state.get("unwatched")
    if removed is None:
        return
    with st.container(horizontal=True, vertical_alignment="center", key="undo"):
        words = _("{folder} is watched no more; its runs stay.").format(folder=removed.folder)
        html.write(html.tag("p", html.escape(words), "rv-line"))
        st.button(_("Undo"), icon=":material/undo:", on_click=_take_back)


def _problems(status: FolderStatus | None) -> None:
    said = folders.problems(status) if status else []
    for sentence in said[:SHOWN_PROBLEMS]:
        html.warn(sentence)
    if len(said) > SHOWN_PROBLEMS:
        more = ngettext("{n} more", "{n} more", len(said) - SHOWN_PROBLEMS)
        with st.expander(more, key=f"problems-{status.watched.folder}"):
            for sentence in said[SHOWN_PROBLEMS:]:
                html.warn(sentence)


def _files(table, index: int) -> None:
    if not len(table):
        return
    column = st.column_config
    chosen = st.dataframe(
        table,
        hide_index=True,
        row_height=ROW_PX,
        height=min(10 * ROW_PX, ROW_PX * (len(table) + 1) + 2),
        placeholder="–",
        key=f"files-{index}",
        on_select="rerun",
        selection_mode="single-cell",
        alt=_("Files that are followed"),
        column_config={
            "id": None,
            "run": column.TextColumn(_("Run")),
            "file": column.TextColumn(_("File")),
            "rank": column.NumberColumn(_("Rank"), width=70),
            "node": column.TextColumn(_("Node"), width=100),
            "age": column.TextColumn(_("Last rows")),
            "read": column.TextColumn(_("Bytes read")),
        },
    ).selection
    if chosen.cells and chosen.cells[0][0] < len(table):
        state.open_run(table["id"].iloc[chosen.cells[0][0]])


def _elsewhere(*, expanded: bool) -> None:
    with st.expander(_("Logs on another machine"), expanded=expanded, icon=":material/cloud_upload:"):
        html.quiet(
            _("One line on that machine sends a log as it grows; it can be stopped and started again, nothing is doubled:")
        )
        st.code(folders.agent_line(), language="sh", wrap_lines=True)
        html.quiet(
            _("Or once, on this server: python cli.py ingest FILE. Or for all to see: a folder that both machines mount.")
        )


page()
