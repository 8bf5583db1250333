"""Epochs that stand on a line of their own above the records that print none: `Epoch 1/3`, `==== Epoch 2 ====`, `第 3 轮`.

A line that says more than that (`Epoch 1 finished in 50 s`) is none: it may stand below the records. One that says how long the
epoch took (`Epoch: 01 | Time: 0m 8s`) is one only where no record stands above the first of them.
"""

import re
from functools import cache
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
_TOOK = r"(?i:(?:epoch )?time|took|elapsed|duration)"
_TIMED = rf"^{_FILL}(?i:epoch){_FILL}{_COUNT}{_FILL}{_TOOK}{_FILL}[0-9][0-9:.]*(?: ?[a-z]+ ?[0-9.]*)*{_FILL}$"
_CHINESE = rf"^{_LOGGER}{_FILL}第 ?{_COUNT} ?轮{_FILL}(?:开始|训练|开始训练)?{_FILL}$"
_FORMS = ((b"poch", f"{_LATIN}|{_TIMED}"), (b"POCH", f"{_LATIN}|{_TIMED}"), ("轮".encode(), _CHINESE))


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
        self._known, self._timed = Found.none(), Found.none()
        self._record = np.inf  # the first line with a record

    def feed(self, lines: Lines, numbers: np.ndarray) -> None:
        """Look for headings among lines that are no records, and their numbers in the log."""
        for mark, pattern in _FORMS:
            at = np.flatnonzero(shapes.match(lines.texts(), _without_names(pattern))) if mark in lines.block else ()
            if len(at):
                texts, places = lines.texts().take(pa.array(at)), numbers[at].astype(float)
                self._known = _both(self._known, _found(texts, places, _CHINESE if pattern == _CHINESE else _LATIN))
                self._timed = _both(self._timed, _found(texts, places, _TIMED))

    def above(self, lines: np.ndarray) -> tuple[np.ndarray, np.ndarray] | None:
        """Return epoch and planned epochs of the heading above each line (NaN: none), None in a log without headings."""
        self._record = min(self._record, float(lines.min())) if len(lines) else self._record
        known = self._known
        if len(self._timed.lines) and self._timed.lines[0] < self._record:
            known = _both(known, self._timed)
        if not len(known.lines):
            return None
        at = np.searchsorted(known.lines, lines) - 1
        return tuple(np.where(at >= 0, values[np.maximum(at, 0)], np.nan) for values in known[1:])  # type: ignore[return-value]

    def state(self) -> list[list[float | None]]:
        """Return what must be remembered, JSON-able (NaN and infinity as None)."""
        kept = (*self._known, *self._timed, np.array([self._record]))
        return [[value if np.isfinite(value) else None for value in values.tolist()] for values in kept]

    def restore(self, state: list[Any]) -> None:
        """Go on from what `state` returned."""
        kept = [np.array(values, float) for values in state]
        self._known, self._timed = Found(*kept[:3]), Found(*kept[3:6]) if len(kept) > 3 else Found.none()
        self._record = float(np.nan_to_num(kept[6], nan=np.inf)[0]) if len(kept) > 3 else np.inf


@cache
def _without_names(pattern: str) -> str:
    return re.sub(r"\(\?P<[a-z]+>", "(?:", pattern)


def _found(texts: pa.Array, places: np.ndarray, pattern: str) -> Found:
    fits = pc.match_substring_regex(texts, pattern)
    found = pc.extract_regex(texts.filter(fits), pattern)
    counts = (pc.struct_field(found, name) for name in ("epoch", "epochs"))
    return Found(places[fits.to_numpy(zero_copy_only=False)], *map(_numbers, counts)) if fits.true_count else Found.none()


def _both(one: Found, more: Found) -> Found:
    """Return two sets of headings as one, in the order of the log; of too many, the last ones and the very first."""
    if not len(more.lines):
        return one
    order = np.argsort(np.concatenate((one.lines, more.lines)), kind="stable")
    order = np.concatenate((order[:1], order[1:][-MAX_HEADINGS:]))
    return Found(*(np.concatenate(pair)[order] for pair in zip(one, more, strict=True)))


def _numbers(texts: pa.Array) -> np.ndarray:
    """Return whole numbers as float64, NaN for empty texts."""
    given = pc.if_else(pc.equal(texts, ""), None, texts)
    return given.cast(pa.float64()).fill_null(np.nan).to_numpy(zero_copy_only=False)
