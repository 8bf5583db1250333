"""What kept diagnoses say of runs for a comparison."""

from collections.abc import Mapping, Sequence
from typing import Any

from analysis.compare.judged import Judged, judged
from storage.types import Run


def said_of(runs: Sequence[Run], kept: Mapping[str, Any]) -> dict[str, Judged]:
    """Return by id what the diagnoses that are `kept` (by id) say of the current launch of these runs."""
    return {run.id: judged(kept[run.id], max(run.segments, 1) - 1, None) for run in runs if run.id in kept}
