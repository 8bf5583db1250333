"""The strip of headline figures of a run: how far, how long still, the loss and where it goes, how fast, what it costs."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from server.glance import Glance
from server.monitor import Heartbeat
from storage.types import Run
from ui import html, outcome, state
from ui.costs import money
from ui.text import _, ago, ago_seconds, as_utc, duration, moment, ngettext, number, percent, say

RATES = (("tokens_per_second", "tok/s"), ("samples_per_second", "samples/s"), ("steps_per_second", "steps/s"))
SILENT_SECONDS = 120.0  # a node that is so far behind the newest one


@dataclass(frozen=True)
class Loss:
    """The headline loss: metric, whether only evaluations print it, its relative change over so many steps."""

    metric: str
    of_evaluations: bool = False
    trend: tuple[float, int] | None = None


def strip(
    run: Run,
    last: Mapping[str, float],
    *,
    loss: Loss | None,
    glance: Glance,
    printed: datetime | None,
    beats: Sequence[Heartbeat] = (),
) -> str:
    """Return the HTML of the strip. What is not known is left out or said to be unknown."""
    value = last.get(loss.metric) if loss else None
    items = [_progress(run), _time_left(run, glance), _loss(value, loss), *_speed(last), _cost(glance)]
    return html.figures(item for item in (*items, _fresh(run, printed, beats)) if item)


def _progress(run: Run) -> str:
    step = number(run.last_step)
    if not run.total_steps:
        note = _("planned number not in the log")
        return html.figure(_("Steps"), step, note)
    done = (run.last_step or 0) / run.total_steps
    note = _("{step} of {total} steps").format(step=step, total=number(run.total_steps))
    return html.figure(_("Progress"), percent(done, digits=1 if done < 0.1 else 0), note, below=html.bar(done))


def _time_left(run: Run, glance: Glance) -> str:
    why = say(glance.why) if glance.why else ""
    if glance.left is None:
        return html.figure(_("Time left"), "–", why)
    early, middle, late = glance.left
    if late <= 0:
        return html.figure(_("Time left"), outcome.over(run, as_told=True), title=why)
    if glance.no_use:
        words = _("{low} to {high}, if it is finished all the same")
    else:
        words = _("{low} to {high}") if duration(early) != duration(late) else ""
    note = words.format(low=duration(early), high=duration(late))
    note = " · ".join(words for words in (note, _("on an assumption") if glance.assumed else "") if words)
    return html.figure(_("Time left"), duration(middle), note, title=why)


def _loss(value: float | None, loss: Loss | None) -> str:
    if loss is None or value is None:
        return ""
    note = ""
    if loss.trend is not None and abs(loss.trend[0]) >= 5e-5 and math.isfinite(value):
        way = "▼" if loss.trend[0] < 0 else "▲"
        change = f"{way} {percent(abs(loss.trend[0]), digits=2 if abs(loss.trend[0]) < 0.01 else 1)}"
        note = ngettext("{change} a step", "{change} per {n} steps", loss.trend[1]).replace("{change}", change)
    return html.figure(_name(loss), number(value), note)


def _name(loss: Loss) -> str:
    if loss.of_evaluations:
        return _("Last evaluation loss")
    return _("Last loss") if loss.metric == "loss" else state.metric_title(loss.metric)


def _speed(last: Mapping[str, float]) -> Iterator[str]:
    for name, unit in RATES:
        if name in last:
            yield html.figure(_("Throughput"), number(last[name], digits=3), unit)
            return


def _cost(glance: Glance) -> str:
    if glance.spent is None:
        return ""
    note = "" if glance.over or glance.total is None else _("of ≈ {whole}").format(whole=money(glance.total, glance.currency))
    return html.figure(_("Cost so far"), money(glance.spent, glance.currency), note)


def _fresh(run: Run, printed: datetime | None, beats: Sequence[Heartbeat]) -> str:
    silent = _silent(beats)
    if printed is not None:
        return html.figure(_("Last line"), ago(printed), silent, title=moment(printed))
    note = silent or ngettext("{n} row read", "{n} rows read", run.rows)
    age = ago_seconds((datetime.now(UTC) - as_utc(run.updated)).total_seconds())
    return html.figure(_("Brought in"), age, note, title=moment(run.updated))


def _silent(beats: Sequence[Heartbeat]) -> str:
    """Say which of the nodes have fallen behind the others."""
    if len(beats) < 2:
        return ""
    newest = min(beat.age_seconds for beat in beats)
    late = [beat for beat in beats if beat.age_seconds > newest + SILENT_SECONDS]
    if not late:
        return ngettext("from {n} node", "from all {n} nodes", len(beats))
    names = ", ".join(str(beat.host or beat.rank) for beat in late[:3])
    return ngettext("{n} node is silent: {names}", "{n} nodes are silent: {names}", len(late)).replace("{names}", names)
