"""Bring in training logs: files, a whole folder, or a sample to try."""

from pathlib import Path

import streamlit as st

from messages import N_
from server import service
from ui import html, state, upload
from ui.text import _, number, say

TITLE = N_("Upload")
ICON = ":material/upload:"
SECTION = N_("Bring in")
ORDER = 410

SAMPLES = Path(__file__).resolve().parent.parent / "samples"
SHOWN_OUTCOMES = 50
SAMPLE_TITLES = {
    "healthy-pretrain": N_("A pretraining run in good health"),
    "lr-jump-pretrain": N_("A run whose learning rate jumps half way"),
}


def page() -> None:
    """Uploaders and samples on top, what became of each file below."""
    settings = service.get().settings
    with st.container(horizontal=True, key="bar"):
        html.title(_("Bring in a training log"))
    if settings.read_only:
        html.empty(_("The store is open for reading only, so nothing can be brought in here."))
        return
    html.quiet(
        _("Any plain log that training prints: text, JSON lines, CSV, trainer_state.json; also .gz, .bz2, .xz, .zip and .tar.")
    )
    drop, samples = st.columns([3, 2], gap="large")
    with drop:
        files = _uploaders(settings.max_upload_mib)
    with samples:
        _samples()
    if files:
        _take(files)
    _outcomes()


def _uploaders(limit_mib: int) -> list:
    help_text = _("Up to {limit} MiB in the browser. Larger logs: python cli.py ingest FILE on the server.").format(
        limit=number(limit_mib)
    )
    html.words_of_uploader(_("Choose files"))
    some, folder = st.tabs([_("Files"), _("A folder")])
    with some:
        files = upload.uploader(
            _("Drop one or more logs here"), folder=False, key="files", limit_mib=limit_mib, help_text=help_text
        )
    with folder:
        files += upload.uploader(
            _("Drop a folder of logs here"), folder=True, key="folder", limit_mib=limit_mib, help_text=help_text
        )
    html.quiet(help_text)
    return files


def _samples() -> None:
    html.section(_("Try a sample log"))
    html.quiet(_("Logs that come with Runvitals; no upload needed."))
    for path in sorted(SAMPLES.glob("*.log")):
        if st.button(
            _(SAMPLE_TITLES.get(path.stem, path.stem)), help=path.name, icon=":material/play_arrow:", key=f"sample-{path.stem}"
        ):
            with path.open("rb") as file:
                _keep(upload.bring_in(path.name, file, lambda _share: None))
            _open_if_new()


def _take(files: list) -> None:
    bar = st.progress(0.0)
    for index, file in enumerate(files):
        name = upload.name_of(file)

        def show(share: float, name: str = name, index: int = index) -> None:
            words = _("Reading {name} ({index} of {all})").format(name=name, index=index + 1, all=len(files))
            bar.progress(min(1.0, (index + min(share, 1.0)) / len(files)), html.escape_markdown(words))

        show(0.0)
        _keep(upload.bring_in(name, file, show))
    upload.turn(files)
    if len(files) == 1:
        _open_if_new()
    st.rerun()


def _keep(outcome: upload.Outcome) -> None:
    kept = st.session_state.setdefault("outcomes", [])
    st.session_state["outcomes"] = [outcome, *kept][:SHOWN_OUTCOMES]


def _open_if_new() -> None:
    """One file that was read goes straight to its health; everything else stays here to be read."""
    outcome = st.session_state["outcomes"][0]
    if outcome.run_id and outcome.clean:
        state.open_run(outcome.run_id)


def _outcomes() -> None:
    outcomes = st.session_state.get("outcomes", [])
    if not outcomes:
        return
    html.section(_("What became of your files"), number(len(outcomes)))
    for index, outcome in enumerate(outcomes):
        with st.container(key=f"outcome-{index}"):
            html.write(_outcome(outcome))
            run = state.known(outcome.run_id) if outcome.run_id else None  # it may have been deleted since
            if run:
                label = html.escape_markdown(_("Run health: {run}").format(run=run.name))
                icon = ":material/monitor_heart:"
                st.page_link("pages/health.py", label=label, icon=icon, query_params={"run": run.id})


def _outcome(outcome: upload.Outcome) -> str:
    css, sign, word = "rv-good", "check_circle", _("Read")
    if outcome.known:
        css, sign, word = "rv-none", "info", _("Already here")
    elif outcome.run_id is None:
        css, sign, word = "rv-bad", "error", _("Not read")
    elif not outcome.clean:
        css, sign, word = "rv-warn", "warning", _("Read in part")
    badge = html.tag("span", html.icon(sign) + html.escape(word), "rv-badge")
    name = html.tag("span", html.escape(outcome.name), "rv-sentence")
    said = html.tag("p", html.escape(" ".join(map(say, outcome.sentences))), "rv-quiet")
    return html.tag("div", html.tag("p", badge + name, "rv-line") + said, f"rv-outcome {css}")


page()
