"""What happened in a run, as signs over its charts: findings, restarts, checkpoints, failures, evaluations."""

import numpy as np
import pandas as pd

from analysis.diagnose import Diagnosis
from storage.types import Event, Run
from ui import axes, series, state
from ui.axes import Course
from ui.text import _, say

MAX_EVALUATIONS = series.MAX_PLANNED


def frame(
    run: Run, version: int, diagnosis: Diagnosis, segment: int | None, buckets: pd.DataFrame, course: Course
) -> pd.DataFrame:
    """Return the markers (columns `series.MARKER_COLUMNS`), x in drawn units; of one launch (None: of all)."""
    seen = [(i, f, say(f.title)) for i, f in enumerate(diagnosis.findings) if segment in (None, f.segment)]
    told = [event for event in state.events(run.id, version) if segment in (None, event.segment)]
    told += [
        Event(line, "evaluation", _("Evaluation"), step)
        for line, step, launch in evaluations(run.id, version)
        if segment in (None, launch)
    ]
    last = run.last_step if run.last_step is not None else 0
    return axes.at_steps(series.markers(seen, told, last), buckets, course)


@state.cached
def evaluations(run_id: str, version: int) -> list[tuple[int, int, int]]:
    """Return line, step and launch of the evaluations that the log prints as rows, thinned to so many as can be drawn."""
    rows = state.store().frame(run_id, ["line", "step", "segment"], kind="eval")
    places = [rows[name].to_numpy(zero_copy_only=False) for name in ("line", "step", "segment")]
    kept = np.flatnonzero(~pd.isna(places[1]))
    kept = kept[:: max(1, -(-len(kept) // MAX_EVALUATIONS))]
    return [(int(line), int(step), int(launch)) for line, step, launch in zip(*(place[kept] for place in places), strict=True)]
