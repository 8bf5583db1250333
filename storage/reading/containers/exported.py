"""Tables as trackers export them: long ones, with a name and a value in each row (`step,metric,value`), are made wide.

The rows of one step become one record: the first opens it, the others add to it (`storage.reading.merge`).
"""

import re
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from storage.reading import columns

NAMES = ("name", "metric", "metric_name", "key", "tag", "scalar", "variable", "series")  # columns that name the value
VALUES = ("value", "val", "metric_value", "scalar_value")
_OF_RUN = re.compile(r"^(?P<run>.+?) - (?P<metric>.+?)(?P<bound>__(?:MIN|MAX))?$")  # `mild-sun-3 - train/loss__MIN`
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


def of_one_run(table: pa.Table) -> pa.Table:
    """Return an exported table without the name of its run in every header; tables of several runs pass as they are."""
    found = {name: match for name in table.column_names if (match := _OF_RUN.match(name))}
    if len({match["run"] for match in found.values()}) != 1 or not any(match["bound"] for match in found.values()):
        return table
    kept = [name for name in table.column_names if name not in found or not found[name]["bound"]]
    return table.select(kept).rename_columns([found[name]["metric"] if name in found else name for name in kept])


def _column(table: pa.Table, wanted: tuple[str, ...], *, text: bool) -> str | None:
    """Return the one column under such a name that holds text, or numbers; None where there is none or several."""
    named = [name for name in table.column_names if columns.squash(name) in wanted]
    found = [name for name in named if pa.types.is_string(table.schema.field(name).type) == text]
    return found[0] if len(found) == 1 else None


def _step(table: pa.Table) -> str | None:
    return next((name for name in table.column_names if columns.resolve(name).position == "step"), None)
