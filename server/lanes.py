"""The lanes of a run side by side: their rows as one table, their clocks, and what each wrote at one moment."""

from dataclasses import dataclass, replace
from datetime import datetime, timedelta

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from analysis.clocks import Clocks, clocks
from storage.keeping.sources import Lane
from storage.store import Store
from storage.types import ROW_SCHEMA, Event

# Of the lanes that do not stand for the run: what comparing ranks needs.
COMPARED = ("loss", "grad_norm", "step_time_seconds", "tokens_per_second", "gpu_utilization_percent", "gpu_temperature_celsius")
MAX_LINES = 200  # of one lane around a moment


@dataclass(frozen=True)
class LaneLines:
    """What a lane wrote around a moment: `lines` from line `first` on, `at` the one nearest to the moment.

    off_ms: how far that line is from the moment, by the corrected clock; None where the lane was aligned by its steps.
    """

    lane: Lane
    first: int
    at: int
    lines: tuple[str, ...]
    off_ms: float | None


def rows_and_events(store: Store, run: str) -> tuple[pa.Table, list[Event]]:
    """Return the rows of every kind and the events of a run and all its lanes, with the rank of each row.

    Lines are those of the lane that stands for the run: of another lane's row or event, the line at the same step.
    """
    rows, events = store.frame(run, kind=None), list(store.events(run))
    others = [lane for lane in store.lanes(run) if lane.run != run]
    if not others:
        return rows, events
    places = _Places(rows)
    tables = [rows]
    lowest = min(
        (lane for lane in [*others, *store.lanes(run)] if lane.rows), key=lambda lane: lane.rank or 0, default=others[0]
    )
    for lane in others:
        # The rules judge the rows of the lowest rank, whichever lane it was that stands for the run.
        table = store.frame(lane.run, None if lane == lowest else [*ROW_SCHEMA.names, *COMPARED])
        tables.append(table.set_column(table.column_names.index("line"), "line", places.lines(table["step"])))
        events += [
            replace(event, line=places.line(event.step), text=_told(lane, event.text)) for event in store.events(lane.run)
        ]
    return pa.concat_tables(tables, promote_options="default"), sorted(events, key=lambda event: event.line)


class _Places:
    """At which line of a run a step is."""

    def __init__(self, rows: pa.Table) -> None:
        known = rows.filter(rows["step"].is_valid())
        order = np.argsort(known["step"].to_numpy(), kind="stable")
        self._steps, self._lines = known["step"].to_numpy()[order], known["line"].to_numpy()[order]
        self._last = int(pc.max(rows["line"]).as_py() or 1)

    def lines(self, steps: pa.ChunkedArray) -> pa.Array:
        """Return the lines of steps; of one that is not there, that of the next."""
        if not len(self._steps):
            return pa.array(np.full(len(steps), self._last))
        at = np.searchsorted(self._steps, steps.fill_null(0).to_numpy())
        return pa.array(np.append(self._lines, self._last)[at])

    def line(self, step: int | None) -> int:
        """Return the line of a step, the last one without a step."""
        return self._last if step is None else int(self.lines(pa.chunked_array([[step]]))[0].as_py())


def _told(lane: Lane, text: str) -> str:
    name = lane.host if lane.host else f"rank {lane.rank}"
    return f"[{name}] {text}"


def clocks_of(store: Store, run: str) -> Clocks | None:
    """Return how the clocks of the lanes of a run differ, None where fewer than two print time and step."""
    return clocks({lane.run: _stamps(store, lane) for lane in store.lanes(run)})


def _stamps(store: Store, lane: Lane) -> pd.DataFrame:
    rows = store.frame(lane.run, ["segment", "step", "timestamp"])
    rows = rows.filter(pc.and_(rows["step"].is_valid(), rows["timestamp"].is_valid()))
    time_ms = rows["timestamp"].cast(pa.int64()).to_numpy()
    return pd.DataFrame({"segment": rows["segment"].to_numpy(), "step": rows["step"].to_numpy(), "time_ms": time_ms})


def around(
    store: Store, run: str, *, moment: datetime | None = None, step: int | None = None, before: int = 10, after: int = 20
) -> list[LaneLines]:
    """Return what every lane of a run wrote around a moment (UTC, by the clock of the lane that stands for the run).

    Without a moment, around a step; where a lane prints no time, it is aligned by its steps. Raises UnknownRun.
    """
    found = clocks_of(store, run)
    lanes = store.lanes(run)
    main = next(lane for lane in lanes if lane.run == run)
    rows = {lane.run: store.frame(lane.run, ["line", "step", "timestamp"], kind=None) for lane in lanes}
    if moment is None and step is not None:
        moment = _time_at(rows[main.run], step)
    elif step is None and moment is not None:
        step = _step_at(rows[main.run], moment)
    before, after = min(before, MAX_LINES), min(after, MAX_LINES)
    return [_lines_of(store, lane, rows[lane.run], _shifted(moment, found, main, lane), step, before, after) for lane in lanes]


def _lines_of(
    store: Store, lane: Lane, rows: pa.Table, moment: datetime | None, step: int | None, before: int, after: int
) -> LaneLines:
    off: float | None = None
    at = _nearest(rows["step"], rows["line"], step) if step is not None else None
    if moment is not None and rows["timestamp"].null_count < rows.num_rows:
        wanted = int(pd.Timestamp(moment).value // 1_000_000)
        stamps = rows.filter(rows["timestamp"].is_valid())
        place = int(np.argmin(np.abs(stamps["timestamp"].cast(pa.int64()).to_numpy() - wanted)))
        at = stamps["line"][place].as_py()
        off = float(stamps["timestamp"].cast(pa.int64())[place].as_py() - wanted)
    at = at or 1
    first = max(1, at - before)
    return LaneLines(lane, first, at, tuple(store.lines(lane.run, first, at + after)), off)


def _shifted(moment: datetime | None, found: Clocks | None, main: Lane, lane: Lane) -> datetime | None:
    """Return a moment of the main lane's clock as the clock of another lane shows it."""
    if moment is None or found is None or main.run not in found.offsets or lane.run not in found.offsets:
        return moment
    at_ms = pd.Timestamp(moment).value / 1e6
    return moment + timedelta(milliseconds=found.offset_ms(lane.run, at_ms) - found.offset_ms(main.run, at_ms))


def _time_at(rows: pa.Table, step: int) -> datetime | None:
    stamps = rows.filter(pc.and_(rows["timestamp"].is_valid(), rows["step"].is_valid()))
    if not stamps.num_rows:
        return None
    return stamps["timestamp"][int(np.argmin(np.abs(stamps["step"].to_numpy() - step)))].as_py()


def _step_at(rows: pa.Table, moment: datetime) -> int | None:
    stamps = rows.filter(pc.and_(rows["timestamp"].is_valid(), rows["step"].is_valid()))
    if not stamps.num_rows:
        return None
    wanted = int(pd.Timestamp(moment).value // 1_000_000)
    return int(stamps["step"][int(np.argmin(np.abs(stamps["timestamp"].cast(pa.int64()).to_numpy() - wanted)))].as_py())


def _nearest(steps: pa.ChunkedArray, lines: pa.ChunkedArray, step: int) -> int | None:
    known = np.flatnonzero(steps.is_valid().to_numpy())
    if not len(known):
        return None
    place = known[int(np.argmin(np.abs(steps.drop_null().to_numpy() - step)))]
    return int(lines[int(place)].as_py())
