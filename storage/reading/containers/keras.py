"""Keras' progress bars: one record an epoch, of the bar that is complete; the epoch stands on a line above.

    Epoch 1/2
    500/500 [==============================] - 2s 4ms/step - loss: 1.5000 - val_loss: 1.2500

Keras 3 prints a complete bar twice, the second time with the evaluation: that one is an evaluation row. A bar without an
epoch above it (`evaluate`) is one too.
"""

import re
from typing import Any

import numpy as np
import pyarrow as pa

from storage.reading.containers import prefix
from storage.reading.containers.lines import Lines, Problem, as_lines, sample_lines
from storage.reading.containers.objects import ObjectRows

_MAYBE = r"Epoch [0-9]+/[0-9]+|[0-9]/[0-9]+ (?:\[=|- |━)"
_EPOCH = re.compile(rb"Epoch (\d{1,9})/(\d{1,9})\s*$")
_BAR = re.compile(rb" {0,9}(\d{1,12})/(\d{1,12}) (?:\[=+\] - |- |\xe2\x94\x81[^ -]* )\d[^:]{0,40}? - (?=[\w ./-]{1,80}: )")
_PAIR = re.compile(rb"([A-Za-z_][\w./-]{0,80}): ([+-]?(?:[\d.]+(?:e[+-]?\d+)?|nan|inf))(?= - |\s*$)", re.IGNORECASE)
_PACE = re.compile(rb"(\d+(?:\.\d+)?)(us|ms|s)/(?:step|sample)")
_SECONDS = {b"us": 1e6, b"ms": 1e3, b"s": 1.0}


class Keras:
    """Reads completed bars; the epoch above is remembered, also over blocks."""

    name = "keras"
    own_numbers = True  # `feed` takes the numbers of the lines
    per_epoch = True  # the step starts again in each epoch

    def __init__(self) -> None:
        self.problems: list[Problem] = []
        self._objects = ObjectRows()
        self._epoch: list[int] = []  # epoch and epochs of the line above
        self._done = False

    @property
    def units(self) -> dict[str, str]:
        """Units of the columns whose numbers were printed as text with a unit."""
        return self._objects.units

    @staticmethod
    def score(sample: bytes) -> float:
        """Return how sure it is (0…1) that the sample holds such bars under an epoch."""
        table = Keras().feed(sample_lines(sample, returns=True).block, 1)
        return 0.9 if table is not None and "epoch" in table.column_names else 0.0

    def feed(self, text: bytes | Lines, first_line: int, own: np.ndarray | None = None) -> pa.Table | None:
        """Return one row for each completed bar in these whole lines; `own` numbers lines that are not one after another."""
        lines = as_lines(text)
        rows: list[dict[str, Any]] = []
        numbers: list[int] = []
        for index in np.flatnonzero(lines.fits(_MAYBE)).tolist():
            whole = lines.raw(index)[:4000]
            raw = whole[prefix.length(whole) :]
            if found := _EPOCH.match(raw):
                self._epoch, self._done = [int(number) for number in found.groups()], False
            elif row := self._bar(raw):
                stamp = prefix.stamp(whole)
                rows.append(row | ({"timestamp": stamp} if stamp else {}))
                numbers.append(int(own[index]) if own is not None else first_line + index)
        return self._objects.from_rows(rows, numbers) if rows else None

    def finish(self) -> pa.Table | None:
        """Nothing is held back."""
        return None

    def state(self) -> dict[str, Any]:
        """Return what a later process needs to go on, JSON-able."""
        return {"epoch": self._epoch, "done": self._done, "objects": self._objects.state()}

    def restore(self, state: dict[str, Any]) -> None:
        """Go on from what `state` returned."""
        self._epoch, self._done = list(state["epoch"]), state["done"]
        self._objects.restore(state["objects"])

    def _bar(self, raw: bytes) -> dict[str, Any] | None:
        """Return the row of a complete bar, None for anything else."""
        found = _BAR.match(raw)
        if found is None or found[1] != found[2]:
            return None
        values = {name.decode(): float(value) for name, value in _PAIR.findall(raw, found.end())}
        if not values:
            return None
        if self._done:
            values = {name: value for name, value in values.items() if name.startswith("val_")}
            return {"kind": "eval", "epoch": self._epoch[0], **values} if values else None
        if not self._epoch:
            return {"kind": "eval", **{f"eval_{name}": value for name, value in values.items()}}
        self._done = True
        place = {"epoch": self._epoch[0], "epochs": self._epoch[1], "step": int(found[1]), "steps_per_epoch": int(found[2])}
        pace = _PACE.search(raw)
        time = {"step_time": float(pace[1]) / _SECONDS[pace[2]]} if pace else {}
        return {"kind": "train", **place, **time, **values}
