"""The same curves of many runs: one query for all their rows and one for each tier of cells, whatever the number of runs."""

from collections.abc import Iterator, Mapping, Sequence

import duckdb
import numpy as np
import pandas as pd
import pyarrow as pa

from storage.keeping.series import Axis, Chart, RunHead
from storage.keeping.tiers import MEANS, Cells, Groups, numbers, printed, single

COLUMNS = ("metric", "segment", "x", "x_last", *MEANS)
_PLACES = ("which", "row", "segment", "first_x", "last_x")  # which: place of the run × metrics + place of the metric


def buckets_many(
    cursor: duckdb.DuckDBPyConnection, charts: Mapping[str, Chart], metrics: Sequence[str], width: int
) -> dict[str, pd.DataFrame]:
    """Return by run (id) what `Chart.buckets` gives for those of the metrics that it has, of the STATS only MEANS.

    Runs without any are left out.
    """
    cells = _in_order(list(_read(cursor, list(charts.values()), metrics, width)))
    if not len(cells["which"]):
        return {}
    run = cells["which"] // len(metrics)
    groups, number = _grouped(cells, run, width)
    places = {"segment": groups.first(cells["segment"])}
    places |= {"x": groups.smallest(cells["first_x"]), "x_last": groups.largest(cells["last_x"])}
    found = groups.merge(cells) | places
    named = pd.Categorical.from_codes(groups.first(cells["which"]) % len(metrics), list(metrics))
    frame = pd.DataFrame({"metric": named, **{name: found[name] for name in COLUMNS[1:]}})
    ends = np.searchsorted(groups.first(run), np.arange(len(charts) + 1))
    return {name: frame.iloc[ends[at] : ends[at + 1]] for at, name in enumerate(charts) if at in number}


def _grouped(cells: Cells, run: np.ndarray, width: int) -> tuple[Groups, set[int]]:
    """Return the buckets, by run, metric, segment and x, each run cut by its own length; and the places of the runs."""
    runs = Groups(run)
    low = runs.smallest(cells["first_x"])
    high = np.fmax(runs.largest(np.where(np.isfinite(cells["last_x"]), cells["last_x"], np.nan)), low)
    of_run = np.repeat(np.arange(len(low)), runs.lengths)
    with np.errstate(all="ignore"):
        size = ((high - low) / width)[of_run]
        bucket = np.where(size > 0, np.floor((cells["first_x"] - low[of_run]) / size), 0)
    bucket = np.clip(np.nan_to_num(bucket), 0, width - 1).astype(np.int64)
    segment = cells["segment"].astype(np.int64)
    key = (cells["which"].astype(np.int64) * (segment.max() + 1) + segment) * width + bucket
    return Groups(key), set(runs.first(run).tolist())


def _read(cursor: duckdb.DuckDBPyConnection, charts: Sequence[Chart], metrics: Sequence[str], width: int) -> Iterator[Cells]:
    """Yield the cells and the rows of all charts."""
    tiers: dict[tuple[int, Axis], list[int]] = {}
    rows = []
    for place, chart in enumerate(charts):
        tier, start = chart.source(width)
        if tier is not None:
            tiers.setdefault((tier, chart.axis), []).append(place)
        if start < chart.run.rows:
            rows.append(f"select {place:d} as place, * from ({chart.rows_sql(metrics, start)})")
    for (tier, _axis), places in tiers.items():
        yield _cells(cursor, charts, places, metrics, tier)
    if rows:
        yield from _rows(cursor.sql(" union all ".join(rows)).to_arrow_table(), len(metrics))


def _cells(
    cursor: duckdb.DuckDBPyConnection, charts: Sequence[Chart], places: Sequence[int], metrics: Sequence[str], tier: int
) -> Cells:
    """Return the cells of those of the charts (places) that have the same axis: one scan, whatever their number."""
    runs = [charts[place].run for place in places]
    wanted = {run.metrics[name] for run in runs for name in metrics if name in run.metrics}
    table = cursor.sql(charts[places[0]].cells_sql(wanted, tier, [run.no for run in runs], MEANS)).to_arrow_table()
    which = _which(runs, places, metrics)[numbers(table["run"]), numbers(table["metric"])]
    kept = np.flatnonzero(which >= 0) if (which < 0).any() else slice(None)
    return {"which": which[kept]} | {name: numbers(table[name])[kept] for name in (*_PLACES[1:], *MEANS)}


def _which(runs: Sequence[RunHead], places: Sequence[int], metrics: Sequence[str]) -> np.ndarray:
    """Return `which` by the numbers of run and metric, -1 where it was not asked for."""
    found = np.full((max(run.no for run in runs) + 1, max(no for run in runs for no in run.metrics.values()) + 1), -1)
    for place, run in zip(places, runs, strict=True):
        for number, name in enumerate(metrics):
            if name in run.metrics:
                found[run.no, run.metrics[name]] = place * len(metrics) + number
    return found


def _rows(table: pa.Table, metrics: int) -> Iterator[Cells]:
    """Yield for each metric its rows as cells of one row."""
    at = {name: numbers(table[number]) for number, name in enumerate(("place", "row", "segment", "step", "line", "x"))}
    for number in range(metrics):
        which = printed(table, 6 + number)
        if which is not None:
            mine = {name: array[which] for name, array in at.items()}
            values = single(table[6 + number].drop_null().to_numpy(), mine["step"], mine["line"])
            ends = (mine["place"] * metrics + number, mine["row"], mine["segment"], mine["x"], mine["x"])
            yield {name: values[name] for name in MEANS} | dict(zip(_PLACES, ends, strict=True))


def _in_order(parts: Sequence[Cells]) -> Cells:
    """Return all cells by run and metric, those of one in the order logged."""
    cells = {name: np.concatenate([part[name] for part in parts] or [np.empty(0)]) for name in (*_PLACES, *MEANS)}
    which, row = cells["which"], cells["row"]
    if ((which[1:] > which[:-1]) | (which[1:] == which[:-1]) & (row[1:] >= row[:-1])).all():
        return cells
    order = np.lexsort((row, which))
    return {name: array[order] for name, array in cells.items()}


def printed_steps(cursor: duckdb.DuckDBPyConnection, runs: Sequence[RunHead], most: int) -> dict[str, float]:
    """Return which share of the first `most` rows of each run that train print a step; runs without such rows are left out."""
    each = [f"select {at:d} as place, step_printed, kind from {run.table} where row < {most:d}" for at, run in enumerate(runs)]
    rows = f"from ({' union all '.join(each)}) where kind = 'train'"
    counts = f"select place, count(*), count(step_printed) {rows} group by place"
    found = cursor.execute(counts).fetchall() if each else []
    return {runs[place].id: told / rows for place, rows, told in found}
