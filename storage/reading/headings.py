"""Epochs that stand on a line of their own above the records that print none: `Epoch 1/3`, `==== Epoch 2 ====`, `第 3 轮`.

A line that says more than that (`Epoch 1 finished in 50 s`) is none: it may stand below the records.
"""

from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from storage.reading import shapes
from storage.reading.containers.lines import Lines

MAX_HEADINGS = 10_000  # the last ones of a log
_LOGGER = (
    r"(?:.{0,120}\b(?:INFO|DEBUG|NOTICE)\b(?::[\w.]+:)?|\[?[0-9]{4}[-/][0-9]{2}[-/][0-9]{2}[ T][0-9:.,]+\]?"
    r"|\[?[0-9]{2}:[0-9]{2}:[0-9]{2}\]?)?"
)
_FILL = r"[\s=*#>~|:<.\-\[\]()\x{2500}-\x{25ff}]*"
_BEGINS = r"(?:(?i:start(?:ing|ed)?|begin(?:ning|s)?|training|train|running)\b)?"
_COUNT = r"(?P<epoch>[0-9]{1,6})(?: ?(?:/|of) ?(?P<epochs>[0-9]{1,6}))?"
_LATIN = rf"^{_LOGGER}{_FILL}{_BEGINS}{_FILL}(?i:epoch){_FILL}{_COUNT}{_FILL}{_BEGINS}{_FILL}$"
_CHINESE = rf"^{_LOGGER}{_FILL}第 ?{_COUNT} ?轮{_FILL}(?:开始|训练|开始训练)?{_FILL}$"
_FORMS = ((b"poch", _LATIN), (b"POCH", _LATIN), ("轮".encode(), _CHINESE))


class Found(NamedTuple):
    """Headings: their lines, the epoch and how many are planned (NaN: not said)."""

    lines: np.ndarray
    epoch: np.ndarray
    epochs: np.ndarray

    @staticmethod
    def none() -> "Found":
        return Found(np.empty(0), np.empty(0), np.empty(0))


class Headings:
    """Keeps the headings of a log and says under which of them a line stands."""

    def __init__(self) -> None:
        self._known = Found.none()

    def feed(self, lines: Lines, numbers: np.ndarray) -> None:
        """Look for headings among lines that are no records, and their numbers in the log."""
        for mark, pattern in _FORMS:
            at = np.flatnonzero(shapes.match(lines.texts(), pattern)) if mark in lines.block else ()
            if len(at):
                found = pc.extract_regex(lines.texts().take(pa.array(at)), pattern)
                counts = (pc.struct_field(found, name) for name in ("epoch", "epochs"))
                self._add(Found(numbers[at].astype(float), *map(_numbers, counts)))

    def _add(self, more: Found) -> None:
        both = Found(*(np.concatenate(pair)[-MAX_HEADINGS:] for pair in zip(self._known, more, strict=True)))
        order = np.argsort(both.lines, kind="stable")
        self._known = Found(*(values[order] for values in both))

    def above(self, lines: np.ndarray) -> tuple[np.ndarray, np.ndarray] | None:
        """Return epoch and planned epochs of the heading above each line (NaN: none), None in a log without headings."""
        if not len(self._known.lines):
            return None
        at = np.searchsorted(self._known.lines, lines) - 1
        return tuple(np.where(at >= 0, values[np.maximum(at, 0)], np.nan) for values in self._known[1:])  # type: ignore[return-value]

    def state(self) -> list[list[float | None]]:
        """Return what must be remembered, JSON-able (NaN as None)."""
        return [[None if value != value else value for value in values.tolist()] for values in self._known]

    def restore(self, state: list[Any]) -> None:
        """Go on from what `state` returned."""
        self._known = Found(*(np.array(values, float) for values in state))


def _numbers(texts: pa.Array) -> np.ndarray:
    """Return whole numbers as float64, NaN for empty texts."""
    given = pc.if_else(pc.equal(texts, ""), None, texts)
    return given.cast(pa.float64()).fill_null(np.nan).to_numpy(zero_copy_only=False)
