"""Aggregates of 50 and 1,000 logged rows: a min/max pyramid that grows with the run and loses no spike and no NaN.

A cell covers consecutive rows of a run, in the order logged, and keeps of a metric mean, min and max (of the finite values,
NaN where there are none), first and last, the count of values, how many of them were NaN or infinite, and the step and
line of the min and of the max. Rows of different launches, kinds and ranks are never mixed in one cell.

Only complete cells are kept, so the pyramid is only ever appended to; whoever reads it takes the rows behind the last
complete cell as they are. A row is a cell of one row: one function, `Groups.merge`, makes cells of rows, larger cells of
cells and the buckets of a chart of either. This module knows no SQL.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa

TENS, SMALL, LARGE = 10, 50, 1_000  # rows a cell; TENS only of rows that are no longer kept themselves

STATS = ("mean", "min", "max", "first", "last", "count", "nonfinite", "min_step", "max_step", "min_line", "max_line")
MEANS = ("mean", "min", "max", "last", "count", "nonfinite")  # what curves need that show no extremes and where they are
LANE = ("segment", "kind", "rank")
# Column of the rows -> name in the cells, where `first_…` is its smallest and `last_…` its largest value in a cell.
PLACES = {"line": "line", "step": "step", "timestamp": "time", "epoch": "epoch"}
CELL_SCHEMA = pa.schema(
    [("run", pa.int32()), ("metric", pa.int32()), ("cell", pa.int64())]
    + [("segment", pa.int32()), ("kind", pa.string()), ("rank", pa.int32())]
    + [
        (f"{end}_{name}", pa.float64() if name == "epoch" else pa.int64())
        for name in PLACES.values()
        for end in ("first", "last")
    ]
    + [(name, pa.float64() if name in STATS[:5] else pa.int64()) for name in STATS]
)

STACKED = 1 << 18  # values of several metrics that are aggregated at once at most (of one metric: as many as there are)

# Arrays by name, of one length along their last axis; several metrics printed by the same rows can stand above each other.
# An integer that can be missing is in here a float, NaN where it is missing.
Cells = dict[str, np.ndarray]


def single(values: np.ndarray, step: np.ndarray, line: np.ndarray) -> Cells:
    """Return a cell for each value: the STATS of that one value."""
    bad = ~np.isfinite(values)
    finite, nonfinite = values, np.broadcast_to(np.int64(0), values.shape[-1])
    if bad.any():
        finite, nonfinite = np.where(bad, np.nan, values), bad.astype(np.int64)
    return {
        **dict.fromkeys(("mean", "min", "max"), finite),
        **dict.fromkeys(("first", "last"), values),
        "count": np.broadcast_to(np.int64(1), values.shape[-1]),
        "nonfinite": nonfinite,
        "min_step": step,
        "max_step": step,
        "min_line": line,
        "max_line": line,
    }


class Groups:
    """Which of some cells belong together: those of equal `key`, merged in ascending order of it.

    Cells of one key must be in the order logged. `lengths` says how many cells each group has.
    """

    def __init__(self, key: np.ndarray) -> None:
        self._order = np.argsort(key, kind="stable") if (key[1:] < key[:-1]).any() else None
        key = self._ordered(key)
        self._starts = np.flatnonzero(np.concatenate(([True], key[1:] != key[:-1]))) if len(key) else key
        self.lengths = np.diff(np.append(self._starts, len(key)))

    @cached_property
    def _group(self) -> np.ndarray:
        """The number of the group of each cell."""
        return np.repeat(np.arange(len(self._starts)), self.lengths)

    def _ordered(self, values: np.ndarray) -> np.ndarray:
        return values if self._order is None else values[..., self._order]

    def first(self, values: np.ndarray) -> np.ndarray:
        """Return the first value of each group."""
        return self._ordered(values)[..., self._starts]

    def smallest(self, values: np.ndarray) -> np.ndarray:
        """Return the smallest value of each group, NaN only where there is no other."""
        return np.fmin.reduceat(self._ordered(values), self._starts, axis=-1) if values.size else values

    def largest(self, values: np.ndarray) -> np.ndarray:
        """Return the largest value of each group, NaN only where there is no other."""
        return np.fmax.reduceat(self._ordered(values), self._starts, axis=-1) if values.size else values

    def merge(self, cells: Cells) -> Cells:
        """Return the STATS of each group: all, or MEANS where the cells have no more."""
        whole = "min_step" in cells
        names = STATS if whole else MEANS
        if not cells["count"].size:
            return {name: cells[name] for name in names}
        cells = {name: self._ordered(cells[name]) for name in names}
        merged = {name: np.add.reduceat(cells[name], self._starts, axis=-1) for name in ("count", "nonfinite")}
        if whole:
            merged["first"] = cells["first"][..., self._starts]
        merged["last"] = cells["last"][..., self._starts + self.lengths - 1]
        for name, reduce in (("min", np.fmin), ("max", np.fmax)):
            merged[name] = reduce.reduceat(cells[name], self._starts, axis=-1)
            if whole:
                merged |= self._places(cells, name, merged[name])
        merged["mean"] = np.clip(self._mean(cells, merged), merged["min"], merged["max"])
        return merged

    def _places(self, cells: Cells, name: str, extreme: np.ndarray) -> Cells:
        """Return step and line of the min or the max (`name`) of each group, which is `extreme`."""
        found = self._first_equal(cells[name], extreme)
        places = (f"{name}_step", f"{name}_line")
        return {place: _missing_where(np.isnan(extreme), _taken(cells[place], found)) for place in places}

    def _mean(self, cells: Cells, merged: Cells) -> np.ndarray:
        weights, finite = cells["count"] - cells["nonfinite"], merged["count"] - merged["nonfinite"]
        with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
            sums = cells["mean"] if (weights == 1).all() else cells["mean"] * weights
            mean = np.add.reduceat(sums, self._starts, axis=-1) / finite
            if not np.isfinite(mean).all():  # a group without a finite value, or a sum of huge ones
                shares = cells["mean"] * (weights / finite[..., self._group])
                mean = np.add.reduceat(np.where(weights > 0, shares, 0.0), self._starts, axis=-1)
        return mean

    def _first_equal(self, values: np.ndarray, wanted: np.ndarray) -> np.ndarray:
        """Return for each group the place of its first value equal to `wanted`, that of its start where there is none."""
        if (self.lengths == self.lengths[0]).all():  # most often: three times as fast, and no array of every value's group
            groups = values.reshape(*wanted.shape, self.lengths[0])
            return self._starts + np.equal(groups, wanted[..., np.newaxis]).argmax(axis=-1)
        found = np.flatnonzero(values == np.repeat(wanted, self.lengths, axis=-1))
        metric, place = np.divmod(found, values.shape[-1])
        group = metric * wanted.shape[-1] + self._group[place]
        first = np.concatenate(([True], group[1:] != group[:-1])) if len(found) else np.empty(0, bool)
        places = np.broadcast_to(self._starts, wanted.shape).copy()
        places.ravel()[group[first]] = place[first]
        return places


def _taken(values: np.ndarray, places: np.ndarray) -> np.ndarray:
    return values[places] if values.ndim == 1 else np.take_along_axis(values, places, axis=-1)


def _missing_where(missing: np.ndarray, values: np.ndarray) -> np.ndarray:
    return np.where(missing, np.nan, values) if missing.any() else values


def numbers(column: pa.ChunkedArray) -> np.ndarray:
    """Return a column as numpy; integers become floats if some are missing (NaN)."""
    return column.to_numpy()


def printed(rows: pa.Table, column: str | int) -> np.ndarray | slice | None:
    """Return which rows have a value in a column: all (a slice), the numbers of some, or None when none has."""
    nulls = rows[column].null_count
    if nulls == rows.num_rows:
        return None
    return np.flatnonzero(rows[column].is_valid().to_numpy()) if nulls else slice(None)


def first_row_needed(before: int, after: int) -> int:
    """Return the number of the first row that `pyramid` needs when a run grows from `before` to `after` rows."""
    size = LARGE if after // LARGE > before // LARGE else SMALL
    return before // size * size


def pyramid(rows: pa.Table, metrics: Mapping[str, int], before: int, after: int) -> Iterator[tuple[int, Cells]]:
    """Yield the cells that become complete when a run grows from `before` to `after` rows: tier, and cells by metric.

    `rows` begin with `first_row_needed`, have their number in `row` and times in milliseconds; `metrics` says which number
    belongs to a column. Nothing is yielded for a metric that was not printed.
    """
    rows = rows.slice(0, after // SMALL * SMALL - rows["row"][0].as_py())
    if not rows.num_rows:
        return
    places = Places.of(rows)
    whole: Cut | None = None
    for which, stack in _stacks(rows, metrics):
        if isinstance(which, slice):
            cut = whole = whole or Cut(places, before, after)
        else:
            cut = Cut(places.only(which), before, after)
        for tier, cells in cut.cells(_values(rows, stack)):
            yield tier, _of_metrics([metrics[column] for column in stack], cells)


def tens(rows: pa.Table, metrics: Mapping[str, int]) -> Iterator[Cells]:
    """Yield the cells of TENS rows of the metrics that these rows print; a block must not be split."""
    places = Places.of(rows)
    for which, stack in _stacks(rows, metrics):
        mine = places.only(which)
        groups, ends = mine.grouped(mine.at["row"] // TENS)
        cells = groups.merge(single(_values(rows, stack), mine.at["step"], mine.at["line"]))
        yield _of_metrics([metrics[column] for column in stack], cells | ends)


def _stacks(rows: pa.Table, metrics: Iterable[str]) -> Iterator[tuple[np.ndarray | slice, list[str]]]:
    """Yield columns that can be aggregated at once, and which rows print them."""
    whole: list[str] = []
    for column in metrics:
        which = printed(rows, column)
        if isinstance(which, slice):
            whole.append(column)
        elif which is not None:
            yield which, [column]
    size = max(1, STACKED // rows.num_rows)
    for start in range(0, len(whole), size):
        yield slice(None), whole[start : start + size]


def _values(rows: pa.Table, stack: Sequence[str]) -> np.ndarray:
    """Return the values of some columns, one above the other."""
    return np.stack([rows[column].drop_null().to_numpy() for column in stack])


def _of_metrics(metrics: Sequence[int], cells: Cells) -> Cells:
    """Return the cells of several metrics one after the other, each with the number of its metric."""
    shape = (len(metrics), len(cells["cell"]))
    flat = {name: np.broadcast_to(array, shape).ravel() for name, array in cells.items()}
    return flat | {"metric": np.repeat(metrics, shape[1])}


@dataclass(frozen=True)
class Places:
    """Where rows stand: the columns PLACES, `row`, LANE (`kind` as a number, see `words`) and `lane`, one of `lanes`."""

    at: Cells
    lanes: int
    words: np.ndarray

    @classmethod
    def of(cls, rows: pa.Table) -> "Places":
        """Return where these rows stand."""
        at = {name: numbers(rows[name]) for name in ("row", "segment", "rank", *PLACES)}
        lane, lanes = np.zeros(rows.num_rows, np.int64), 1
        for name in LANE:
            codes, values = _coded(rows[name])
            lane, lanes = (lane * len(values) + codes, lanes * len(values)) if len(values) > 1 else (lane, lanes)
            if name == "kind":
                at["kind"], words = codes, values
        return cls(at | {"lane": lane}, lanes, words)

    def only(self, which: np.ndarray | slice) -> "Places":
        """Return some of them."""
        return Places({name: array[which] for name, array in self.at.items()}, self.lanes, self.words)

    def grouped(self, cell: np.ndarray) -> tuple[Groups, Cells]:
        """Group by cell and lane; return what each group has in common and where it begins and ends."""
        ends = {f"{end}_{place}": self.at[name] for name, place in PLACES.items() for end in ("first", "last")}
        groups, cells = _grouped({name: self.at[name] for name in ("lane", *LANE)} | ends | {"cell": cell}, self.lanes)
        return groups, cells | {"kind": self.words[cells["kind"]]}


class Cut:
    """How some rows are cut into cells; the same for all metrics that these rows print."""

    def __init__(self, rows: Places, before: int, after: int) -> None:
        self._step, self._line = rows.at["step"], rows.at["line"]
        self._small, self._places = rows.grouped(rows.at["row"] // SMALL)
        self._complete = slice(np.searchsorted(self._places["cell"], before // SMALL), None)
        self._large: Groups | None = None
        if after // LARGE > before // LARGE:
            self._whole = slice(np.searchsorted(self._places["cell"], after // LARGE * (LARGE // SMALL)))
            whole = _only(self._places, self._whole)
            self._large, self._large_places = _grouped(whole | {"cell": whole["cell"] // (LARGE // SMALL)}, rows.lanes)

    def cells(self, values: np.ndarray) -> Iterator[tuple[int, Cells]]:
        """Yield the cells of metrics that have these values, by tier."""
        small = self._small.merge(single(values, self._step, self._line))
        yield SMALL, _only(small | self._places, self._complete)
        if self._large is not None:
            yield LARGE, self._large.merge(_only(small, self._whole)) | self._large_places


def _grouped(cells: Cells, lanes: int) -> tuple[Groups, Cells]:
    """Group by cell and lane; return what each group has in common and where it begins and ends."""
    # Counted from the first cell: the product must not overflow.
    cell = cells["cell"]
    groups = Groups((cell - cell[0]) * lanes + cells["lane"] if len(cell) else cell)
    places = {name: groups.first(cells[name]) for name in ("cell", "lane", *LANE)}
    places |= {f"first_{place}": groups.smallest(cells[f"first_{place}"]) for place in PLACES.values()}
    return groups, places | {f"last_{place}": groups.largest(cells[f"last_{place}"]) for place in PLACES.values()}


def _only(cells: Cells, wanted: slice) -> Cells:
    return {name: array[..., wanted] for name, array in cells.items()}


def _coded(column: pa.ChunkedArray) -> tuple[np.ndarray, np.ndarray]:
    """Return a column as numbers of its distinct values, and these."""
    array = column.combine_chunks()
    if pa.types.is_integer(array.type) and not array.null_count and (array.to_numpy() == array[0].as_py()).all():
        return np.zeros(len(array), np.int64), array[:1].to_numpy()
    encoded = array if pa.types.is_dictionary(array.type) else array.dictionary_encode(null_encoding="encode")
    return encoded.indices.to_numpy().astype(np.int64), np.asarray(encoded.dictionary.to_pylist(), object)


def cells_rows(run_no: int, cells: Sequence[Cells]) -> pa.Table:
    """Return cells as rows of CELL_SCHEMA, metric by metric: one curve can then be read without the others.

    The cells are used up.
    """
    order = np.argsort(np.concatenate([each["metric"] for each in cells]), kind="stable")

    def column(field: pa.Field) -> pa.Array:  # let go of one after the other: all of them would be held three times
        if field.name == "run":
            return pa.array(np.full(len(order), run_no)).cast(field.type)
        return _column(np.concatenate([each.pop(field.name) for each in cells])[order], field.type)

    return pa.table([column(field) for field in CELL_SCHEMA], schema=CELL_SCHEMA)


def _column(values: np.ndarray, kind: pa.DataType) -> pa.Array:
    missing = np.isnan(values) if pa.types.is_integer(kind) and values.dtype.kind == "f" else None
    return pa.array(values, mask=missing).cast(kind)
