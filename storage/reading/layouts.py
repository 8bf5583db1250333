"""All layouts of a log: which lines have one, and where new ones are worth learning."""

from collections import Counter
from collections.abc import Iterator
from threading import Lock
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from storage.reading.aligned import MAX_BYTES, Layout, words_at
from storage.reading.arrays import edges
from storage.reading.template import Template

MANY = 16  # lines of one length that make a layout worth its while
AT_ONCE, OF_LENGTH, OF_LOG = 4, 8, 400  # layouts learnt at once, of one length, of one log
FREE, WORTH = 8, 64  # so many layouts of a template are free; more only while each reads so many lines
LINES = 16_384  # lines whose words are held at a time


class Hit(NamedTuple):
    """Lines of one layout: the template, their indices, its numbers in the order of `template.wanted`."""

    template: Template
    at: np.ndarray
    values: list[np.ndarray]


class Layouts:
    """The layouts of a log by the length of their lines; threads may read and learn at the same time."""

    def __init__(self) -> None:
        self._by_length: dict[int, tuple[tuple[Template, Layout], ...]] = {}
        self._learnt: Counter[int] = Counter()  # id of a template -> layouts made for it
        self._read: Counter[int] = Counter()  # id of a template -> lines read with them
        self._lock = Lock()

    def read(self, lines: pa.Array) -> list[Hit]:
        """Return the lines that have a layout."""
        if not self._by_length or not len(lines):
            return []
        begins = edges(lines).astype(np.int64)
        data = lines.buffers()[2]
        lengths = np.diff(begins)
        present = np.bincount(np.minimum(lengths, MAX_BYTES + 1))
        hits: list[Hit] = []
        for length, known in tuple(self._by_length.items()):
            if length < len(present) and present[length]:
                every = np.flatnonzero(lengths == length)
                for start in range(0, len(every), LINES):
                    at = every[start : start + LINES]
                    hits += self._of_length(words_at(data, begins[at], length), at, known)
        return hits

    def _of_length(self, words: np.ndarray, at: np.ndarray, known: tuple[tuple[Template, Layout], ...]) -> Iterator[Hit]:
        for template, layout in known:
            if not len(at):
                return
            digits, fits = layout.check(words)
            if not fits.any():
                continue
            whole = fits.all()
            values, sound = layout.read(digits if whole else digits[:, fits])
            taken = at if whole else at[fits]
            if not sound.all():
                taken, values = taken[sound], [value[sound] for value in values]
            layout.hits += len(taken)
            self._read[id(template)] += len(taken)
            yield Hit(template, taken, values)
            if whole:
                return
            words, at = words[:, ~fits], at[~fits]

    def learn(self, template: Template, lines: pa.Array) -> bool:
        """Make layouts from lines that only the template could read, where many have the same length; say if any are new."""
        if len(lines) < MANY:
            return False
        lengths = np.diff(edges(lines))
        present = np.bincount(np.minimum(lengths, MAX_BYTES + 1))[: MAX_BYTES + 1]
        common = [length for length in np.argsort(-present, kind="stable")[:AT_ONCE].tolist() if present[length] >= MANY]
        made = [self._add(template, str(lines[int(np.argmax(lengths == length))])) for length in common]
        return any(made)

    def _add(self, template: Template, line: str) -> bool:
        with self._lock:
            made, read = self._learnt[id(template)], self._read[id(template)]
            if made >= FREE and read < WORTH * made or self._learnt.total() >= OF_LOG:
                return False
            self._learnt[id(template)] += 1
            layout = template.layout(line)
            known = self._by_length.get(layout.length, ()) if layout else ()
            if layout is None or any(layout.key == other.key for _, other in known):
                return False
            ranked = sorted(known, key=lambda entry: -entry[1].hits)
            self._by_length[layout.length] = (*ranked[: OF_LENGTH - 1], (template, layout))
            return True


def merged(hits: list[Hit], count: int) -> tuple[np.ndarray, list[np.ndarray]]:
    """Return the indices of lines of one template, in order, and its numbers; `count` = all lines that were looked at."""
    if len(hits) == 1:
        return hits[0].at, hits[0].values
    taken = np.zeros(count, bool)
    for hit in hits:
        taken[hit.at] = True
    at, place = np.flatnonzero(taken), np.cumsum(taken) - 1
    columns = [np.empty(len(at)) for _ in hits[0].values]
    for hit in hits:
        places = place[hit.at]
        for column, values in zip(columns, hit.values, strict=True):
            column[places] = values
    return at, columns
