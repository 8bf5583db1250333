"""Which checkpoints to keep, on the page Time & cost: those that the log tells of, or those of a plan."""

import pandas as pd
import streamlit as st

from analysis.checkpoint_policy import Policy, checkpoint_policy
from storage.types import Run
from ui import html, inputs, pictures, state
from ui.html import figure
from ui.text import _, number, percent, say, size_words
from ui.words import as_sentence

KEEP_ALL, MOST_DRAWN = 5, 2_000
LISTED = 60
STRIP_PX = 54


def show(run: Run) -> None:
    """Ask for the rules, and show which of the checkpoints stay. Raises ValueError for rules that can't be."""
    saved = sorted(
        {one.step for one in state.events(run.id, run.version) if one.kind == "checkpoint_saved" and one.step is not None}
    )
    with st.container(horizontal=True, vertical_alignment="bottom", key="plan"):
        last = inputs.amount("keep_last", _("Keep the last"), 130, whole=True)
        every = inputs.amount("keep_every", _("Of older ones, one in so many steps"), 260, whole=True)
        size = inputs.amount("checkpoint_gb", _("Size of one (GB)"), 150)
        interval = None if saved else inputs.amount("save_every", _("Saved every so many steps"), 210, whole=True)
    if not saved:
        saved = _planned(run, interval)
        html.quiet(_why_planned(run, interval, bool(saved)))
        if not saved:
            return
    best = _best(run)
    found = checkpoint_policy(
        saved, last=KEEP_ALL if last is None else int(last), every=int(every) if every else None, best=_nearest(saved, best)
    )
    html.write(html.tag("p", html.escape(as_sentence(say(found.text))), "rv-line"))
    html.write(html.figures(_figures(found, size)))
    _strip(found)
    _lists(found)
    html.quiet(
        _("Save the state of the optimizer with each, and load one now and then: what was never loaded is no checkpoint.")
    )


def _planned(run: Run, interval: float | None) -> list[int]:
    end = run.total_steps or run.last_step
    if not interval or not end or end / interval > MOST_DRAWN:
        return []
    return list(range(int(interval), int(end) + 1, int(interval)))


def _why_planned(run: Run, interval: float | None, planned: bool) -> str:
    """Return why there is a plan in the place of what the log tells, or why there is none."""
    if planned:
        return _("A plan: the log tells of no checkpoint with its step.")
    if not interval:
        return _("The log tells of no checkpoint with its step. Say how often one is saved, and the plan is shown.")
    if not (run.total_steps or run.last_step):
        return _("No plan: the log prints no steps.")
    return _("No plan: this interval gives none, or more than {most} checkpoints.").format(most=number(MOST_DRAWN))


def _best(run: Run) -> int | None:
    """Return the step of the best evaluation, None where there is none."""
    found = state.store().buckets(run.id, ["eval_loss"], width=1)
    steps = found["min_step"].dropna() if len(found) else found
    return int(steps.iloc[-1]) if len(steps) else None


def _nearest(saved: list[int], best: int | None) -> int | None:
    """Return the checkpoint that holds the best evaluation: the first one at or after it."""
    return next((step for step in saved if step >= best), None) if best is not None else None


def _figures(found: Policy, size: float | None) -> list[str]:
    count = len(found.keep) + len(found.delete)
    shown = [figure(_("Kept"), number(len(found.keep)), _("of {n}").format(n=number(count)))]
    shown.append(figure(_("Freed"), percent(len(found.delete) / max(count, 1)), ""))
    if size:
        freed, kept = (size_words(round(len(steps) * size * 1e9)) for steps in (found.delete, found.keep))
        shown.append(figure(_("Disk freed"), freed, _("{size} stay").format(size=kept)))
    return shown


def _strip(found: Policy) -> None:
    """Draw every checkpoint over the steps: full ones stay, hollow ones go."""
    rows = [(step, True) for step in found.keep] + [(step, False) for step in found.delete]
    frame = pd.DataFrame(sorted(rows)[-MOST_DRAWN:], columns=["step", "kept"])
    frame["label"] = [_("kept") if kept else _("to delete") for kept in frame["kept"]]
    spec = {**pictures.strip(_("Step"), _("Checkpoint")), "datasets": {"strip": frame}}
    alt = _("Checkpoints over the steps: {kept} are kept, {gone} can go").format(kept=len(found.keep), gone=len(found.delete))
    st.vega_lite_chart(spec=spec, key="checkpoints", alt=alt, width="stretch")


def _lists(found: Policy) -> None:
    left, right = st.columns(2, gap="medium")
    for place, title, steps in ((left, _("Keep"), found.keep), (right, _("Can be deleted"), found.delete)):
        with place:
            html.section(title, number(len(steps)))
            shown = ", ".join(number(step) for step in steps[-LISTED:])
            more = _("… and {n} before").format(n=number(len(steps) - LISTED)) if len(steps) > LISTED else ""
            html.quiet(" ".join(part for part in (more, shown) if part) or "–")
