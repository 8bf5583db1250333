"""The losses of every process side by side, where several print: one row a step, one column a rank."""

from dataclasses import dataclass, replace
from typing import Any

import bottleneck as bn
import numpy as np
import pandas as pd

from analysis.evidence import place
from analysis.findings import Evidence, Finding, Severity
from analysis.readings import Readings, finding
from analysis.segment import Segment
from messages import Text

MOST_RANKS = 64  # columns that are looked at; more than that are taken evenly
LOSSES = ("loss", "logits_loss")


@dataclass(frozen=True, eq=False)
class Ranks:
    """Losses by step and rank, in log order; only steps that every rank printed, of steps done again the first time.

    column: which loss; numbers: the ranks (r,); losses: (m, r); series: their median (m,) with the place of each step;
    known: training row at which each step was complete (m,).
    """

    column: str
    numbers: np.ndarray
    losses: np.ndarray
    series: Readings
    known: np.ndarray

    def finding(
        self, kind: str, severity: Severity, title: Text, evidence: tuple[Evidence, ...], span: tuple[int, int, int | None]
    ) -> Finding:
        """Return a finding about rows first, known, end (None: goes on) of the table."""
        segment, (first, known, end) = self.series.segment, span
        made = finding(kind, severity, self.series, title, evidence, first=first, known=known, end=end)
        return replace(made, known_step=place(segment, int(self.known[known])))


def ranks(segment: Segment) -> Ranks | None:
    """Return the losses of every rank, None where fewer than two print one; worked out once a segment."""
    return segment.once("ranks", lambda: _ranks(segment))


def _ranks(segment: Segment) -> Ranks | None:
    frame = segment.ranks
    column = next((name for name in LOSSES if name in frame), None)
    if column is None or not {"step", "rank", "line"} <= set(frame.columns) or not segment.has("line"):
        return None
    frame = frame[["line", "step", "rank", column]].dropna(subset=["line", "step", "rank"])
    numbers = np.unique(frame["rank"].to_numpy())
    if len(numbers) < 2:
        return None
    numbers = numbers[:: -(-len(numbers) // MOST_RANKS)]
    frame = frame[frame["rank"].isin(numbers)].drop_duplicates(["step", "rank"])
    rows, steps = pd.factorize(frame["step"])
    ranked = np.searchsorted(numbers, frame["rank"].to_numpy())
    losses = np.full((len(steps), len(numbers)), np.nan)
    losses[rows, ranked] = frame[column].to_numpy(dtype=np.float64)
    lines = np.zeros(len(steps), dtype=np.int64)
    np.maximum.at(lines, rows, frame["line"].to_numpy(dtype=np.int64))
    whole = np.isfinite(losses).all(axis=1)
    return _table(segment, column, numbers, losses[whole], steps[whole], lines[whole]) if whole.any() else None


def _table(segment: Segment, column: str, numbers: np.ndarray, losses: np.ndarray, steps: Any, lines: np.ndarray) -> Ranks:
    middle = bn.median(losses, axis=1)
    places = pd.DataFrame({"step": steps, "line": lines})
    series = Readings(segment, column, places, np.arange(len(middle)), middle)
    known = np.searchsorted(segment.rows["line"].to_numpy(), lines)
    return Ranks(column, numbers, losses, series, np.minimum(known, len(segment) - 1))
