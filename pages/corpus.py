"""Is the training data sound? Counts, lengths, and every line of a JSONL corpus that would not train."""

from pathlib import Path
from typing import BinaryIO

import streamlit as st

from messages import N_
from server import service
from storage.reading.corpus import LIMIT, CorpusReport, check
from storage.types import UnreadableLog
from ui import corpus, html, upload
from ui.text import _, number, say

TITLE = N_("Data check")
ICON = ":material/rule:"
SECTION = N_("Bring in")
ORDER = 440

ROW_PX = 35


def page() -> None:
    """Which file and how on top, the result below."""
    with st.container(horizontal=True, vertical_alignment="center", key="bar"):
        html.title(_(TITLE))
    html.quiet(_("A corpus for training has one JSON object a line, with the text of a sample in a field. Is every line so?"))
    source, settings = st.columns([3, 2], gap="large")
    with settings:
        field = st.text_input(_("Field with the text"), "text", key="field", bind="query-params", max_chars=200)
        limit = st.number_input(
            _("Over-long from so many characters on"), 1, 10**9, LIMIT, key="limit", bind="query-params", width=240
        )
    with source:
        name, asked = _source()
    if asked is not None:
        _run(name, asked, field.strip() or "text", int(limit))
    elif name is None:
        st.session_state.pop("corpus", None)
    _result()


def _source() -> tuple[str | None, tuple | None]:
    """Let a person name a file; return its name and, if it is to be checked now, how to open it and its size."""
    limit_mib = service.get().settings.max_upload_mib
    html.words_of_uploader(_("Choose a file"))
    dropped, on_server = st.tabs([_("From my computer"), _("On this server")])
    with dropped:
        file = st.file_uploader(_("Drop a JSONL file here"), key="corpus_file", max_upload_size=limit_mib)
        html.quiet(_("Up to {limit} MiB; also .gz and .zst. It is only looked at, not kept.").format(limit=number(limit_mib)))
    with on_server:
        path = st.text_input(_("Path of the file"), key="corpus_path", placeholder="/srv/data/pretrain.jsonl").strip()
        html.quiet(_("A file of any size: it is read piece by piece."))
    if file is not None:
        return upload.name_of(file), (lambda: file, file.size)
    if not path:
        return None, None
    if not Path(path).is_file():
        html.warn(_("There is no file {path} on this server.").format(path=path))
        return None, None
    return Path(path).name, (lambda: open(path, "rb"), Path(path).stat().st_size)


def _run(name: str, asked: tuple, field: str, limit: int) -> None:
    """Check the file unless this very check is what is shown."""
    opened, size = asked
    key = (name, size, field, limit)
    if st.session_state.get("corpus", (None,))[0] == key:
        return
    bar = st.progress(0.0)

    def show(taken: int) -> None:
        share = min(1.0, taken / max(size, 1))
        bar.progress(share, html.escape_markdown(_("Checking {name}").format(name=name)))

    file: BinaryIO = opened()
    try:
        file.seek(0)
        report: CorpusReport | UnreadableLog = check(upload.pieces(file), field=field, limit=limit, progress=show)
    except UnreadableLog as error:
        report = error
    except OSError as error:
        html.warn(_("{path} can't be read: {error}").format(path=name, error=error.strerror or type(error).__name__))
        return
    finally:
        bar.empty()
    st.session_state["corpus"] = (key, report)


def _result() -> None:
    if "corpus" not in st.session_state:
        _teach()
        return
    (name, *_rest), report = st.session_state["corpus"]
    html.section(name)
    if isinstance(report, UnreadableLog):
        html.warn(say(report.message))
        return
    html.write(corpus.verdict(report))
    html.quiet(corpus.form(report))
    html.write(corpus.figures(report))
    html.write(corpus.table(report))
    if report.texts:
        html.section(_("How long the texts are"))
        st.vega_lite_chart(spec=corpus.chart(report), key="lengths", alt=corpus.alt_text(report), width="stretch")
    _lines(report, name)


def _lines(report: CorpusReport, name: str) -> None:
    if not report.problems:
        return
    found = sum(report.counts.values())
    with st.container(horizontal=True, vertical_alignment="center", key="lines"):
        html.section(_("Lines that need attention"), number(found))
        st.download_button(
            _("CSV of these lines"),
            lambda: corpus.to_csv(report.problems),
            f"{Path(name).stem}-problems.csv",
            "text/csv",
            icon=":material/download:",
        )
    if found > len(report.problems):
        words = _("Counted are all of them; listed the first {n} of each kind.")
        html.quiet(words.format(n=number(max(corpus.kept(report).values()))))
    table = corpus.problem_lines(report)
    st.dataframe(
        table,
        hide_index=True,
        row_height=ROW_PX,
        height=min(420, ROW_PX * (len(table) + 1) + 2),
        alt=_("Lines that need attention"),
    )


def _teach() -> None:
    html.section(_("What is looked at"))
    names = ", ".join(_(name) for name, _why, _is_bad in corpus.KINDS.values())
    html.quiet(_("Each line: {names}. And of all texts: how many, how long, in which encoding.").format(names=names))
    st.code('{"text": "The first sample."}\n{"text": "The second sample."}', language="json", wrap_lines=True)
    html.quiet(_("In a terminal: python cli.py data-check FILE --json"))


page()
