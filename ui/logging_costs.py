"""What logging costs, on the page Time & cost: what two logs weigh, and whether the verbose one slows the steps."""

import streamlit as st

from analysis.ending import current_launch
from analysis.log_overhead import LogSize, Overhead, overhead
from messages import N_, Text
from server import service
from server.costs import log_weight
from storage.types import Run
from ui import html, state
from ui.html import escape, icon, tag
from ui.text import _, number, say, size_words
from ui.words import as_sentence, format_title

NAME = 30  # characters of a run in the head of the table
LOOKS = {
    "perceptible": ("rv-warn", "speed", N_("Perceptible")),
    "imperceptible": ("rv-good", "check_circle", N_("Not perceptible")),
    "undecided": ("rv-none", "help", N_("Not decided")),
}


@state.cached
def _weight(run_id: str, version: int) -> LogSize | None:
    return log_weight(service.get().segments(run_id), state.report(run_id, version))


@state.cached
def _overhead(verbose: str, quiet: str, versions: tuple[int, int]) -> Overhead | Text:
    segments = [service.get().segments(run) for run in (verbose, quiet)]
    return overhead(*(current_launch(found) for found in segments))


def show(run: Run) -> None:
    """Ask for the other run and say what both logs weigh and whether the difference is felt."""
    html.quiet(_("Run the same training twice, once with the verbose log and once with a sparse one: nothing else may differ."))
    others = {one.id: one.name for one in state.store().runs() if one.id != run.id}
    if not others:
        html.quiet(_("There is no second run yet. Bring in the log of the sparse run."))
        st.page_link("pages/upload.py", label=_("Bring in a log"), icon=":material/upload:")
        _weights([(run, _("Verbose"))])
        return
    words = {"": _("Choose the run with the sparse log")} | dict(list(others.items())[: state.MAX_LISTED])
    quiet = state.pick("quiet", _("Sparse run"), words, "", width=460)
    if not quiet:
        _weights([(run, _("Verbose"))])
        return
    other = state.store().run(quiet)
    found = _overhead(run.id, other.id, (run.version, other.version))
    _verdict(found)
    verbose, sparse = _weight(run.id, run.version), _weight(other.id, other.version)
    if verbose and sparse and verbose.bytes_per_step < sparse.bytes_per_step:
        html.warn(_("The log that is called sparse here writes more a step than the other: swap the two."))
    _weights([(run, _("Verbose")), (other, _("Sparse"))])


def _verdict(found: Overhead | Text) -> None:
    if isinstance(found, Text):
        line = tag("span", icon("help") + escape(_("Not decided")), "rv-badge") + tag(
            "span", escape(as_sentence(say(found))), "rv-sentence"
        )
        html.write(tag("section", tag("p", line, "rv-line"), "rv-verdict rv-none rv-boxed", role="status"))
        return
    css, sign, word = LOOKS[found.verdict]
    line = tag("span", icon(sign) + escape(_(word)), "rv-badge") + tag(
        "span", escape(as_sentence(say(found.text))), "rv-sentence"
    )
    actions = "".join(tag("li", escape(as_sentence(say(text)))) for text in found.actions)
    todo = tag("ul", actions, "rv-causes") if actions else ""
    html.write(tag("section", tag("p", line, "rv-line") + todo, f"rv-verdict {css} rv-boxed", role="status"))


def _weights(runs: list[tuple[Run, str]]) -> None:
    """Show what each log weighs, side by side."""
    html.section(_("What the logs weigh"))
    heads = ("", *(f"{word}: {run.name[:NAME]}" for run, word in runs))
    head = tag("tr", "".join(tag("th", escape(text), "" if not text else "rv-number", scope="col") for text in heads))
    sizes = [_weight(run.id, run.version) for run, _word in runs]
    lines = (
        (_("Bytes a step"), [number(one.bytes_per_step, digits=3) if one else "–" for one in sizes]),
        (_("Lines a step"), [number(one.lines_per_step, digits=3) if one else "–" for one in sizes]),
        (_("Bytes a line"), [number(one.bytes_per_line, digits=3) if one else "–" for one in sizes]),
        (_("Steps between records"), [number(one.steps_per_record, digits=3) if one else "–" for one in sizes]),
        (_("In all"), [size_words(run.bytes) for run, _word in runs]),
        (_("Written as"), [format_title(state.report(run.id, run.version)) or "–" for run, _word in runs]),
    )
    rows = "".join(
        tag("tr", tag("th", escape(name), scope="row") + "".join(tag("td", escape(value), "rv-number") for value in values))
        for name, values in lines
    )
    html.write(html.grid(head + rows, "rv-ledger"))
