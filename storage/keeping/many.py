"""The same curve of many runs, in one query for the rows and one for each tier of cells, whatever the number of runs."""

from collections.abc import Mapping, Sequence

import duckdb
import numpy as np
import pandas as pd
import pyarrow as pa

from storage.keeping.series import BUCKET_COLUMNS, Chart
from storage.keeping.tiers import STATS, Cells, Groups, numbers, single

COLUMNS = ("run", *BUCKET_COLUMNS)
_PLACES = ("which", "row", "segment", "first_x", "last_x")


def buckets_many(cursor: duckdb.DuckDBPyConnection, charts: Mapping[str, Chart], metric: str, width: int) -> pd.DataFrame:
    """Return of each run (id and chart) what `Chart.buckets` gives for a metric, in the order given, the id as column `run`."""
    cells = _in_order(_read(cursor, list(charts.values()), metric, width))
    if not len(cells["which"]):
        return pd.DataFrame(columns=list(COLUMNS))
    which = cells["which"]
    runs = Groups(which)
    low = runs.smallest(cells["first_x"])
    high = np.fmax(runs.largest(np.where(np.isfinite(cells["last_x"]), cells["last_x"], np.nan)), low)
    of_run = np.repeat(np.arange(len(low)), runs.lengths)
    with np.errstate(all="ignore"):
        size = ((high - low) / width)[of_run]
        bucket = np.where(size > 0, np.floor((cells["first_x"] - low[of_run]) / size), 0)
    bucket = np.clip(np.nan_to_num(bucket), 0, width - 1).astype(np.int64)
    segment = cells["segment"].astype(np.int64)
    groups = Groups((of_run * (segment.max() + 1) + segment) * width + bucket)
    ids = np.asarray(list(charts), object)[groups.first(which)]
    places = {
        "run": ids,
        "metric": pd.Categorical.from_codes(np.zeros(len(ids), np.int8), [metric]),
        "segment": groups.first(cells["segment"]),
    }
    places |= {"x": groups.smallest(cells["first_x"]), "x_last": groups.largest(cells["last_x"])}
    found = groups.merge(cells) | places
    return pd.DataFrame({name: found[name] for name in COLUMNS})


def _read(cursor: duckdb.DuckDBPyConnection, charts: Sequence[Chart], metric: str, width: int) -> list[Cells]:
    """Return the cells and the rows of all charts, each with `which` chart it belongs to."""
    rows, tiers = list[str](), dict[int, list[str]]()
    for which, chart in enumerate(charts):
        tier, start = chart.source(metric, width)
        rows.append(f"select {which:d} as which, * from ({chart.rows_sql([metric], start)})")
        if tier is not None:
            tiers.setdefault(tier, []).append(f"select {which:d} as which, * from ({chart.cells_sql([metric], tier)})")
    found = [_cells(cursor.sql(" union all ".join(each)).to_arrow_table()) for each in tiers.values()]
    return [*found, _single(cursor.sql(" union all ".join(rows)).to_arrow_table())] if rows else []


def _cells(table: pa.Table) -> Cells:
    return {name: numbers(table[name]) for name in (*_PLACES, *STATS)}


def _single(table: pa.Table) -> Cells:
    table = table.filter(table[6].is_valid()) if table[6].null_count else table
    which, row, segment, step, line, x, values = map(numbers, table.columns)
    return single(values, step, line) | dict(zip(_PLACES, (which, row, segment, x, x), strict=True))


def _in_order(parts: Sequence[Cells]) -> Cells:
    """Return all cells by run, those of a run in the order logged."""
    cells = {name: np.concatenate([part[name] for part in parts] or [np.empty(0)]) for name in (*_PLACES, *STATS)}
    which, row = cells["which"], cells["row"]
    if ((which[1:] > which[:-1]) | (which[1:] == which[:-1]) & (row[1:] >= row[:-1])).all():
        return cells
    order = np.lexsort((row, which))
    return {name: array[order] for name, array in cells.items()}
