"""From the browser's upload to the store: in pieces, with progress, and without keeping the file in memory."""

import logging
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, BinaryIO

import streamlit as st
from streamlit.runtime.scriptrunner import get_script_run_ctx

from messages import N_, Text
from server import service
from storage.types import ParseReport, UnreadableLog
from ui.words import format_title

LOG = logging.getLogger("runvitals.upload")
PIECE_BYTES = 1 << 20


@dataclass(frozen=True)
class Outcome:
    """What became of one file: its run (None where nothing was stored), whether it was there before, what to say.

    clean: it is new and every line of it that looked like a record was understood.
    """

    name: str
    run_id: str | None
    known: bool
    sentences: tuple[Text, ...]
    clean: bool = False


def name_of(file: Any) -> str:
    """Return the name of a file as its owner sees it: browsers send a quotation mark in it as %22."""
    return str(file.name).replace("%22", '"')


def bring_in(name: str, file: BinaryIO, progress: Callable[[float], None]) -> Outcome:
    """Store one file and return what became of it; no error escapes, the store stays as it was where one happened."""
    try:
        done = service.get().ingest_upload(
            name, pieces(file), progress=lambda read, total, _rows: progress(read / max(total, 1))
        )
    except UnreadableLog as error:
        return Outcome(name, None, False, (error.message, Text(N_("Nothing was stored."))))
    except Exception as error:
        LOG.exception("An upload failed")
        gaps = {"kind": type(error).__name__}
        return Outcome(name, None, False, (Text(N_("It could not be stored ({kind}); the server's output says why."), gaps),))
    if done.known:
        gaps = {"run": service.get().store.run(done.run_id).name}
        words = N_("This file is already here as the run “{run}”; nothing was doubled.")
        return Outcome(name, done.run_id, True, (Text(words, gaps),))
    return Outcome(name, done.run_id, False, tuple(told(done.report)), clean=not done.report.unparsed_count)


def told(report: ParseReport) -> Iterator[Text]:
    """Yield in sentences what of a file was understood and what not, and what to mind about it."""
    gaps = {"records": report.records, "lines": report.lines, "format": format_title(report)}
    if report.records:
        yield Text(N_("Read as {format}: lines {lines}, training steps among them {records}."), gaps)
    else:
        yield Text(N_("No training step (lines: {lines}): its curves can't be shown. Its text is kept."), gaps)
    if report.unparsed_count:
        first = report.unparsed[0]
        gaps = {"count": report.unparsed_count, "line": first.line, "text": first.text[:80]}
        yield Text(N_("Lines not understood: {count}, the first is line {line}: “{text}”. Everything else was kept."), gaps)
    yield from report.notes


def pieces(file: BinaryIO) -> Iterator[bytes]:
    """Yield the file in pieces of 1 MiB."""
    while piece := file.read(PIECE_BYTES):
        yield piece


def release(file_ids: list[str]) -> None:
    """Let go of uploaded files, which Streamlit would keep in memory until the session ends.

    The way there is not public: should it change, uploads still work and only need more memory.
    """
    context = get_script_run_ctx()
    if context is None:
        return
    for file_id in file_ids:
        try:
            context.uploaded_file_mgr.remove_file(context.session_id, file_id)  # type: ignore[attr-defined]
        except Exception:
            LOG.warning("The memory of an upload could not be released", exc_info=True)


def uploader(label: str, *, folder: bool, key: str, limit_mib: int, help_text: str) -> list:
    """Show an uploader that is empty again after each turn (see `turn`) and return the files that were dropped."""
    turn = st.session_state.get("upload_turn", 0)
    return list(
        st.file_uploader(
            label,
            accept_multiple_files="directory" if folder else True,
            key=f"{key}-{turn}",
            max_upload_size=limit_mib,
            help=help_text,
        )
        or []
    )


def turn(files: list) -> None:
    """Release the files of this turn and begin the next with an empty uploader."""
    release([file.file_id for file in files])
    st.session_state["upload_turn"] = st.session_state.get("upload_turn", 0) + 1
