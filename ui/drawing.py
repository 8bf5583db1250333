"""The panels of a run as they are drawn: made once for all who look at the same rows in the same way."""

from dataclasses import dataclass
from typing import Any

import pandas as pd
import pyarrow as pa

from analysis.diagnose import Diagnosis
from storage.types import Run
from ui import axes, marks, panels, phases, series, state
from ui.axes import STEP
from ui.controls import View

Panels = dict[str, tuple[str, ...]]


@dataclass(frozen=True)
class Asked:
    """What to draw: a version of a run and which diagnosis of it (`stamp`), a launch (None: all), how, in which language.

    stressed: metrics that have a panel beside the usual ones, because of the scenario.
    """

    version: int
    stamp: str
    segment: int | None
    stressed: tuple[str, ...]
    view: View
    language: str


@dataclass(frozen=True)
class Drawing:
    """Panels with their metrics, all metrics asked for, the spec with its datasets, and what they are made of.

    Shared: nobody may change it.
    """

    panels: Panels
    metrics: tuple[str, ...]
    buckets: pd.DataFrame
    signs: pd.DataFrame
    spec: dict[str, Any]


def of(run: Run, asked: Asked, diagnosis: Diagnosis) -> Drawing:
    """Return the drawing of a run."""
    return _drawing(run.id, asked, run, diagnosis)


@state.shared
def _drawing(run_id: str, asked: Asked, _run: Run, _diagnosis: Diagnosis) -> Drawing:
    """The stamp stands for the diagnosis, id and version for the run: what begins with _ is not hashed."""
    view, segment = asked.view, asked.segment
    chosen = panels.metrics_of(state.columns(run_id, asked.version))
    metrics = (*panels.flat(chosen), *asked.stressed, *view.more)
    buckets = state.drawn(run_id, asked.version, metrics, view.course, view.span, segment, panels.BUCKETS, log=view.log_x)
    chosen = panels.with_more(panels.worth_drawing(chosen, buckets), (*asked.stressed, *view.more))
    chosen = panels.with_evaluations(chosen, buckets)
    frames = panels.frames_of(buckets, chosen, smoothing=view.smoothing, log=view.log, cut=view.cut)
    signs = marks.frame(_run, asked.version, _diagnosis, segment, buckets, view.course)
    band = axes.at_steps(phases.band(run_id, asked.version, segment), buckets, view.course)
    domain = view.span or (axes.whole(buckets) if view.log_x else None)
    axis = view.course.axis(log=view.log_x)
    spec = panels.spec(chosen, frames, signs, log=view.log, domain=domain, axis=axis, phases=band)
    sent = {name: _sent(data) for name, data in spec["datasets"].items()}
    return Drawing(chosen, metrics, buckets, signs, spec | {"datasets": sent})


def _sent(table: pa.Table) -> bytes:
    """Return a table as it goes to the browser, so that it is written once."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as stream:
        stream.write_table(table)
    return sink.getvalue().to_pybytes()


@state.shared
def trend(
    run_id: str, version: int, stamp: str, segment: int | None, metric: str, _diagnosis: Diagnosis
) -> tuple[float, int] | None:
    """Return where the loss goes: its relative change and the steps it is for (see `series.trend`)."""
    buckets = state.buckets(run_id, version, (metric,), STEP, None, segment, panels.BUCKETS)
    return series.trend(buckets, since=series.last_turn(_diagnosis.findings, segment))
