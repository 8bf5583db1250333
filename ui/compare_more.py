"""What else a comparison has: stages of a run, one GPU against several, tuning methods, conditions by hand, baselines."""

import pandas as pd
import streamlit as st

from analysis.compare.comparison import Comparison
from analysis.compare.conditions import GROUP_TITLES, kinds
from analysis.compare.curve_shape import Shape, curve_shape
from analysis.compare.methods import TITLES as METHODS
from analysis.compare.methods import methods
from analysis.compare.stages import EPOCH, PHASE, THIRD, stages
from analysis.compare.subject import EPOCH as EPOCH_UNIT
from analysis.compare.subject import LINE, STEP
from messages import N_, Text
from server import baselines, service, subjects
from ui import html, state
from ui.compare_frames import labels
from ui.html import escape, tag
from ui.text import _, number, percent, say, size_words

UNITS = {STEP: N_("Steps"), EPOCH_UNIT: N_("Epochs"), LINE: N_("Rows")}  # what the x of a run counts


def body(told: Comparison) -> None:
    """Show what applies, most of it folded away."""
    _methods(told)
    _shape(told)
    _stages(told)
    if not service.get().settings.read_only:
        _by_hand(told)
        _baselines(told)


def _methods(told: Comparison) -> None:
    """Full, LoRA and QLoRA side by side, where a run says that it trains adapters."""
    rows = methods([side.subject for side in told.sides], told.numbers)
    if not rows:
        return
    html.section(_("Tuning methods"))
    named = labels(told)
    frame = pd.DataFrame(
        {
            _("Run"): named,
            _("Method"): [_(METHODS[row.method]) for row in rows],
            _("Trained"): ["–" if row.trained is None else percent(row.trained, digits=2) for row in rows],
            _("Memory"): ["–" if row.memory is None else size_words(int(row.memory)) for row in rows],
            _("Memory, × full"): [number(row.memory_share, digits=2) for row in rows],
            _("Throughput"): [number(row.speed, digits=3) for row in rows],
            _("Speed, × full"): [number(row.speed_ratio, digits=2) for row in rows],
        }
    )
    st.dataframe(frame, hide_index=True, key="methods")


def _shape(told: Comparison) -> None:
    """One GPU against several: the score and what to suspect, in order."""
    gpus = [side.subject.gpus for side in told.sides]
    single = next((n for n, count in enumerate(gpus) if count == 1), None)
    others = [n for n, count in enumerate(gpus) if count is not None and count > 1]
    if single is None or not others:
        return
    html.section(_("One GPU and several"))
    one = told.sides[single]
    for n in others[:5]:
        side = told.sides[n]
        found = curve_shape(one.subject, side.subject, (one.said, side.said), (one.name, side.name))
        html.quiet(say(found.text if isinstance(found, Shape) else found))
        if isinstance(found, Shape) and found.suspicions:
            html.write(tag("ol", "".join(_suspicion(each.text, each.evidence) for each in found.suspicions), "rv-causes"))


def _suspicion(text: Text, evidence: Text | None) -> str:
    return tag("li", escape(say(text)) + (tag("p", escape(say(evidence)), "rv-quiet") if evidence else ""))


def _stages(told: Comparison) -> None:
    with st.expander(_("Stage by stage: one run against itself")):
        left, right = st.columns(2)
        named = {side.subject.id: side.name for side in told.sides}
        with left:
            run = st.selectbox(_("Run"), list(named), format_func=lambda one: named[one], key="stage_run")
        with right:
            words = {PHASE: _("Phases"), EPOCH: _("Epochs"), THIRD: _("Thirds")}
            by = st.selectbox(_("Parts"), list(words), format_func=lambda one: words[one], key="stage_by")
        subject = next((side.subject for side in told.sides if side.subject.id == run), told.sides[0].subject)
        found = stages(subject, by)
        if not found:
            html.quiet(_("This run prints too little of a loss to be cut into parts."))
            return
        frame = pd.DataFrame(
            {
                _("Part"): [say(one.name) for one in found],
                _(UNITS[subject.unit]): [f"{number(one.first)}–{number(one.last)}" for one in found],
                _("Loss"): [f"{number(one.begins)} → {number(one.ends)}" for one in found],
                _("Fell by"): [percent(one.fall, digits=1) for one in found],
                _("Noise"): ["–" if one.noise is None else percent(one.noise, digits=1) for one in found],
                _("Step time"): [
                    "–" if one.step_seconds is None else f"{number(one.step_seconds, digits=3)} s" for one in found
                ],
                _("Learning rate"): [number(one.lr) for one in found],
            }
        )
        st.dataframe(frame, hide_index=True, key="stages")


def _by_hand(told: Comparison) -> None:
    with st.expander(_("Conditions that the log does not say")):
        html.quiet(_("What is known of a run but not printed: its GPUs, its data, how it was mixed. It counts like the log."))
        with st.form("conditions", border=False):
            run, name, value = st.columns(3)
            named = {side.subject.id: side.name for side in told.sides}
            with run:
                chosen = st.selectbox(_("Run"), list(named), format_func=lambda one: named[one])
            with name:
                table = {kind.name: f"{_(kind.title)} — {_(GROUP_TITLES[kind.group])}" for kind in kinds().values()}
                key = st.selectbox(
                    _("Condition"), list(table), format_func=lambda one: table.get(one, one), accept_new_options=True
                )
            with value:
                said = st.text_input(_("Value (empty: take it away)"), max_chars=300)
            if st.form_submit_button(_("Keep")) and key:
                subjects.set_condition(state.store(), chosen, key, said)
                st.rerun()
        for side in told.sides:
            if side.subject.given:
                given = ", ".join(
                    f"{_(kinds()[key].title) if key in kinds() else key}: {value}" for key, value in side.subject.given.items()
                )
                html.quiet(f"{side.name}: {given}")


def _baselines(told: Comparison) -> None:
    with st.expander(_("Baselines")):
        html.quiet(
            _("A baseline keeps where a run began, how it fell, its pace, memory and conditions; other runs are set beside it.")
        )
        base = told.sides[told.base]
        group = next(group for group in told.groups if told.base in group)
        runs = [told.sides[n].subject.id for n in group if n == told.base or told.sides[n].subject.id not in told.broken]
        with st.form("baseline", border=False):
            name = st.text_input(_("Name"), value=labels(told)[told.base][:80], max_chars=80)
            words = _("Save {run} as a baseline") if len(runs) == 1 else _("Save {run} and its repeats as a baseline")
            if st.form_submit_button(words.format(run=base.name)) and name.strip():
                baselines.save_baseline(state.store(), name, runs)
                st.rerun()
        for one in baselines.baselines(state.store())[:20]:
            line, button = st.columns([5, 1], vertical_alignment="center")
            with line:
                html.quiet(f"{one.name} · {', '.join(one.runs)}")
            with button:
                if st.button(_("Remove"), key=f"drop-{one.name}"):
                    baselines.drop_baseline(state.store(), one.name)
                    st.rerun()
