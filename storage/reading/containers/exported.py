"""Tables as trackers export them: long ones, with a name and a value in each row (`step,metric,value`), are made wide.

The rows of one step become one record: the first opens it, the others add to it (`storage.reading.merge`).
"""

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from messages import N_, Text
from storage.reading import columns
from storage.reading.containers.layout import OF_EXPORT
from storage.reading.containers.named import metric_of

NAMES = ("metric", "metric_name", "metricname", "tag", "scalar", "key", "variable", "series", "name")  # that name the value
VALUES = ("value", "val", "metric_value", "metricvalue", "scalar_value")
_TIMES = ("timestamp", "elapsed_seconds")
_UNNAMED = N_(
    "The table does not say what its values are, nor does the name of its file: write the metric (loss) over the column, or "
    "call the file as TensorBoard does: run-NAME-tag-loss.csv."
)
_BY_FILE = N_("The table does not name its values: by the name of the file they are {metric}.")
_SEVERAL = N_(
    "The table holds {count} runs side by side ({names}), and one table is read as one run: export or upload each alone."
)
_BELOW = N_(
    "The rows of the table belong to {count} runs ({names}), and one table is read as one run: export or upload each alone."
)
_RUN = ("run", "run_id", "run_name", "runid", "runname", "experiment", "experiment_name", "trial", "trial_id")
SHOWN = 5  # runs that are named
MAX_NAMES = 500  # names of one table; a table with more holds something else


class LongTable:
    """Makes blocks of a long table wide; any other table passes as it is."""

    def __init__(self) -> None:
        self._last = -np.inf  # step of the last record
        self._before = -np.inf  # … and of the row before

    def wide(self, table: pa.Table) -> pa.Table:
        """Return a table with a column for each name in place of name and value; `line` and the places stay."""
        name, value = _column(table, NAMES, text=True), _column(table, VALUES, text=False)
        if name is None or value is None or _step(table) is None:
            return table
        texts = table[name].combine_chunks().cast(pa.string())
        found = [text for text in pc.unique(texts).to_pylist() if text]
        if not 0 < len(found) <= MAX_NAMES:
            return table
        rest, numbers = table.drop_columns([name, value]), table[value].combine_chunks()
        spread = {text: pc.if_else(pc.equal(texts, text), numbers, None) for text in found if text not in rest.column_names}
        return pa.table({**{each: rest[each] for each in rest.column_names}, **spread})

    def kinds(self, steps: np.ndarray, kinds: pa.Array, losses: np.ndarray) -> pa.Array:
        """Return the kinds of the rows of a long table: `more` behind the first of a step, telemetry for steps gone by."""
        result = np.array(kinds.to_pylist(), dtype=object)
        for at in np.flatnonzero(result == "train"):
            step = float(steps[at])
            if np.isnan(step):  # it says nothing about its place
                continue
            if step == self._last == self._before:
                result[at] = "more"
            elif not step > self._last and not losses[at]:
                result[at] = "telemetry"
            else:
                self._last = step
            self._before = step
        return pa.array(result.tolist(), pa.string())

    def state(self) -> dict[str, Any]:
        """Return what a later process needs to go on, JSON-able."""
        return {"last": repr(self._last), "before": repr(self._before)}

    def restore(self, state: dict[str, Any]) -> None:
        """Go on from what `state` returned."""
        self._last, self._before = float(state["last"]), float(state["before"])


class Exported:
    """Makes a table of one run out of what a tracker exported; `file`: name or path of the log, which may name its values."""

    def __init__(self, file: str) -> None:
        self._file = file
        self._runs: list[str] = []  # that stand side by side
        self._below: list[str] = []  # … one below the other
        self._value: str | None = None  # what the file says that unnamed values are; "" = nothing

    def plain(self, table: pa.Table, *, bare: bool) -> pa.Table | None:
        """Return the table under the names of its metrics; `bare` = no header: None where nothing says what its values are."""
        return self._named(self._of_one_run(table), bare=bare)

    def _of_one_run(self, table: pa.Table) -> pa.Table:
        """Return the table without the run in its headers, where there is one, and without smallest and largest values."""
        found = {name: match for name in table.column_names if (match := OF_EXPORT.match(name))}
        if not any(match["bound"] for match in found.values()) and not _all_of_runs(table, found):
            return self._stacked(table)
        stepped = any(name not in found and columns.resolve(name).position == "step" for name in table.column_names)
        dropped = {name for name, match in found.items() if match["bound"] or stepped and match["metric"] == "_step"}
        table = table.drop_columns(sorted(dropped))
        runs = list(dict.fromkeys(match["run"] for match in found.values()))
        if len(runs) > 1:
            self._runs = runs
            return table
        return table.rename_columns([found[name]["metric"] if name in found else name for name in table.column_names])

    def _stacked(self, table: pa.Table) -> pa.Table:
        """Return the table; note the runs that its rows belong to, where a column names them."""
        name = next((n for n in table.column_names if columns.squash(n) in _RUN and pa.types.is_string(table[n].type)), None)
        if name is not None and _step(table) is not None:
            known = (text for text in pc.unique(table[name]).to_pylist() if text)
            self._below = list(dict.fromkeys((*self._below, *known)))[:MAX_NAMES]
        return table

    def _named(self, table: pa.Table, *, bare: bool) -> pa.Table | None:
        """Return the table with the name of its one column of values, as the file is called."""
        value = _column(table, VALUES, text=False)
        alone = bare and set(table.column_names) == {"line", value}
        if value is None or not alone and not _says_nothing_else(table, value):
            return table
        self._value = metric_of(self._file)
        if bare and not alone and table.num_rows > 1 and not pc.max(table["step"]).as_py():  # MLflow counts nothing by itself
            table = table.drop_columns("step")
        if self._value:
            return table.rename_columns([self._value if name == value else name for name in table.column_names])
        return None if bare else table

    def notes(self) -> list[Text]:
        """Return what a reader of the report must know."""
        found = []
        if self._value is not None:
            found.append(Text(_BY_FILE, {"metric": self._value}) if self._value else Text(_UNNAMED))
        for said, runs in ((_SEVERAL, self._runs), (_BELOW, self._below)):
            if len(runs) > 1:
                names = ", ".join(run[:40] for run in runs[:SHOWN]) + (", …" if len(runs) > SHOWN else "")
                found.append(Text(said, {"count": len(runs), "names": names}))
        return found

    def state(self) -> list[Any]:
        """Return what a later process needs to go on, JSON-able."""
        return [self._runs, self._value, self._below]

    def restore(self, state: list[Any]) -> None:
        """Go on from what `state` returned."""
        self._runs, self._value, self._below = list(state[0]), state[1], list(state[2])


def _all_of_runs(table: pa.Table, found: dict[str, Any]) -> bool:
    """Say whether every column but the step is that of a run and a metric we know: `mild-sun-3 - train/loss`."""
    known = all(columns.is_known(match["metric"]) or columns.resolve(match["metric"]).role for match in found.values())
    rest = [name for name in table.column_names if name not in found and name != "line"]
    return bool(found) and known and all(columns.resolve(name).position == "step" for name in rest) and bool(rest)


def _says_nothing_else(table: pa.Table, value: str) -> bool:
    """Say whether a table holds steps and values, times perhaps, and nothing more."""
    rest = [columns.resolve(name) for name in table.column_names if name not in ("line", value)]
    places = ("step", "epoch", "timestamp")
    return any(one.position == "step" for one in rest) and all(one.position in places or one.name in _TIMES for one in rest)


def _column(table: pa.Table, wanted: tuple[str, ...], *, text: bool) -> str | None:
    """Return the column under such a name that holds text (the first name goes before), or the only one that holds numbers."""
    named = [name for name in table.column_names if columns.squash(name) in wanted]
    found = [name for name in named if pa.types.is_string(table.schema.field(name).type) == text]
    found.sort(key=lambda name: wanted.index(columns.squash(name)))
    return found[0] if found and (text or len(found) == 1) else None


def _step(table: pa.Table) -> str | None:
    return next((name for name in table.column_names if columns.resolve(name).position == "step"), None)
