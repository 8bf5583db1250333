"""What is kept of the rows of a growing launch, however long it becomes: its first rows, samples, means, and its last rows.

Two views are made of it. The near one has the first rows, stretches of rows from in between and the last rows, each as
printed: what rules need that look back over a bounded number of rows. The far one has the mean of each so many rows, from
the first to the last: what rules need that look at the whole course, which they see in at most 256 blocks anyway.
"""

from dataclasses import dataclass, field, replace

import numpy as np
import pandas as pd
import pyarrow as pa

from analysis.ladder import clipped
from analysis.noise import track
from analysis.segment import NOT_METRICS, Segment

HEAD_ROWS = 320
BURST_ROWS = 160  # of one sample: neighbours, so that noise and rhythm stay what they are
ALIGNED = 160  # rows: blocks of rows begin in the near view where they begin in the whole launch
BURSTS = 8  # at least so many samples are kept, at most twice as many
GROUPS = 2048  # likewise
CLIPPED = ("loss", "logits_loss", "aux_loss", "grad_norm")  # of which one wild row must not move a mean


@dataclass(frozen=True, eq=False)
class Strand:
    """Rows of one kind in the order logged. tail: the last ones, all of them while none are `gone` (rows before the tail).

    head: the first; bursts: (number of the first row, rows) of samples in between, `every` rows apart.
    """

    tail: pa.Table
    gone: int = 0
    head: pa.Table | None = None
    bursts: tuple[tuple[int, pa.Table], ...] = ()
    every: int = 2 * BURST_ROWS

    def __len__(self) -> int:
        return self.gone + self.tail.num_rows

    @property
    def before(self) -> int:
        """Return how many rows of `table` come before the tail."""
        return (self.head.num_rows if self.head else 0) + sum(rows.num_rows for _, rows in self.bursts)

    def grown(self, rows: pa.Table) -> "Strand":
        """Return the strand with further rows."""
        return replace(self, tail=pa.concat_tables([self.tail, rows], promote_options="default"))

    def table(self) -> pa.Table:
        """Return first rows, samples and last rows."""
        parts = [] if self.head is None else [self.head, *(rows for _, rows in self.bursts)]
        return pa.concat_tables([*parts, self.tail], promote_options="default")

    def trimmed(self, keep: int) -> "Strand":
        """Return the strand with a tail of `keep` rows or a few more; of those before it the samples stay."""
        count = (self.tail.num_rows - keep) // ALIGNED * ALIGNED
        if count < HEAD_ROWS:
            return self
        head = self.head if self.head is not None else _copy(self.tail, 0, HEAD_ROWS)
        every, bursts = self.every, list(self.bursts)
        while (self.gone + count) // every > 2 * BURSTS:
            every *= 2
        start = max(-(-self.gone // every) * every, -(-HEAD_ROWS // every) * every)
        for first in range(start, self.gone + count - BURST_ROWS, every):
            bursts.append((first, _copy(self.tail, first - self.gone, BURST_ROWS)))
        bursts = [burst for burst in bursts if burst[0] % every == 0]
        return Strand(_copy(self.tail, count, self.tail.num_rows), self.gone + count, head, tuple(bursts), every)


def _copy(rows: pa.Table, first: int, count: int) -> pa.Table:
    """Return rows without holding on to the table that they come from."""
    return rows.take(pa.array(np.arange(first, min(first + count, rows.num_rows))))


@dataclass(frozen=True, eq=False)
class Means:
    """Means of `size` rows each, in order, and the rows behind the last of them that do not make a group yet.

    Places (step, line, time) are those of the last row of a group: the moment at which its mean is known.
    """

    size: int = 1
    groups: pd.DataFrame = field(default_factory=pd.DataFrame)
    loose: pd.DataFrame = field(default_factory=pd.DataFrame)

    def grown(self, rows: pd.DataFrame) -> "Means":
        """Return the means with further rows (as `cleaned` gives them)."""
        size, groups, loose = self.size, self.groups, _joined(self.loose, rows)
        while len(groups) + len(loose) // size > 2 * GROUPS:
            spare = len(groups) % 2
            if spare:  # the odd group goes back to the rows as one row for each of its own
                last = groups.iloc[-1:]
                loose, groups = _joined(last.loc[last.index.repeat(size)], loose), groups.iloc[:-1]
            groups, size = grouped(groups, 2), 2 * size
        whole = len(loose) // size * size
        return Means(size, _joined(groups, grouped(loose.iloc[:whole], size)), loose.iloc[whole:].copy())

    def course(self, rows: pd.DataFrame) -> pd.DataFrame:
        """Return the means up to the end of further rows; the last group may have fewer rows."""
        rest = _joined(self.loose, rows)
        whole = len(rest) // self.size * self.size
        parts = [self.groups, grouped(rest.iloc[:whole], self.size)]
        if whole < len(rest):
            parts.append(grouped(rest.iloc[whole:], len(rest) - whole))
        return pd.concat([part for part in parts if len(part)], ignore_index=True)


def _joined(one: pd.DataFrame, other: pd.DataFrame) -> pd.DataFrame:
    found = [part for part in (one, other) if len(part)]
    return pd.concat(found, ignore_index=True) if found else other


def cleaned(segment: Segment, start: int, end: int) -> pd.DataFrame:
    """Return rows `start`…`end` - 1 of a launch with what a mean is made of: finite values, wild losses clipped."""
    columns = {}
    for name in segment.rows.columns:
        values = segment.rows[name].to_numpy()[start:end]
        if name not in NOT_METRICS:
            values = np.where(np.isfinite(values), values, np.nan)
            if name in CLIPPED and not (values <= 0).any():
                course = track(segment, name)
                inside = (course.rows >= start) & (course.rows < end)
                values[course.rows[inside] - start] = np.exp(clipped(course)[inside])
        columns[name] = values
    return pd.DataFrame(columns)


def grouped(rows: pd.DataFrame, size: int) -> pd.DataFrame:
    """Return the mean of each `size` rows: of logarithms where a column is positive, of values else; the last place."""
    if size == 1 or not len(rows):
        return rows
    columns = {}
    for name in rows.columns:
        values = rows[name].to_numpy().reshape(-1, size)
        if name in NOT_METRICS or values.dtype.kind not in "fiu":
            columns[name] = values[:, -1]
            continue
        there = np.isfinite(values)
        count = there.sum(axis=1)
        positive = bool((values[there] > 0).all())
        total = np.where(there, np.log(np.where(there, values, 1.0)) if positive else values, 0.0).sum(axis=1)
        with np.errstate(invalid="ignore", divide="ignore"):
            mean = total / np.where(count, count, np.nan)
        columns[name] = np.exp(mean) if positive else mean
    return pd.DataFrame(columns)
