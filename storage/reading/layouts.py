"""All layouts of a log: which lines have one, and where new ones are worth learning."""

from collections import Counter
from collections.abc import Collection, Iterator
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from storage.reading.aligned import MAX_BYTES, PATTERNS, Layout, patterns, words_at, words_in
from storage.reading.arrays import edges
from storage.reading.template import Template

MANY = 200  # lines of one pattern that make a layout worth its while
AT_ONCE, OF_PATTERN, OF_LOG = 16, 8, 400  # layouts learnt at once, of one pattern, of one log
FREE, WORTH = 16, 64  # so many layouts of a template are free; more only while each reads so many lines
LINES = 65_536  # lines whose words are held at a time
AT_A_TIME = 4_096  # of these are read: what they need stays in the processor's cache


class Hit(NamedTuple):
    """Lines of one layout: the template, their indices, its numbers in the order of `template.wanted`."""

    template: Template
    at: np.ndarray
    values: list[np.ndarray]


class _OfSize(NamedTuple):
    """The layouts of lines of as many words: those of one pattern are a group, `group` is its number by pattern (0: none)."""

    groups: tuple[tuple[tuple[Template, Layout], ...], ...]
    group: np.ndarray

    @classmethod
    def empty(cls) -> "_OfSize":
        return cls((), np.zeros(PATTERNS, np.int16))

    def of(self, pattern: int) -> tuple[tuple[Template, Layout], ...]:
        """Return the layouts of a pattern."""
        number = int(self.group[pattern])
        return self.groups[number - 1] if number else ()

    def plus(self, template: Template, layout: Layout) -> "_OfSize":
        """Return these layouts and one more; of a pattern the last OF_PATTERN."""
        number = int(self.group[layout.pattern])
        if number:
            groups = list(self.groups)
            groups[number - 1] = (*groups[number - 1][1 - OF_PATTERN :], (template, layout))
            return _OfSize(tuple(groups), self.group)
        group = self.group.copy()
        group[layout.pattern] = len(self.groups) + 1
        return _OfSize((*self.groups, ((template, layout),)), group)


class Layouts:
    """The layouts of a log by the number of words of their lines."""

    def __init__(self) -> None:
        self._by_size: dict[int, _OfSize] = {}
        self._learnt: Counter[int] = Counter()  # id of a template -> layouts made for it
        self._read: Counter[int] = Counter()  # id of a template -> lines read with them

    def read(self, lines: pa.Array) -> list[Hit]:
        """Return the lines that have a layout."""
        if not self._by_size or not len(lines):
            return []
        known = self._by_size
        return [hit for words, at in _words(lines, known) for hit in self._of_size(words, at, known[len(words)])]

    def _of_size(self, words: np.ndarray, at: np.ndarray, known: _OfSize) -> Iterator[Hit]:
        groups = known.group[patterns(words)]
        order = np.argsort(groups, kind="stable")
        ends = np.cumsum(np.bincount(groups, minlength=len(known.groups) + 1))
        for start, end, layouts in zip(ends, ends[1:], known.groups, strict=False):
            for first in range(start, end, AT_A_TIME):
                mine = order[first : min(end, first + AT_A_TIME)]
                alike = mine[-1] - mine[0] < len(mine)  # side by side: there is nothing to copy
                some = words[:, mine[0] : mine[-1] + 1] if alike else words[:, mine]
                yield from self._of_group(some, at[mine], layouts)

    def _of_group(self, words: np.ndarray, at: np.ndarray, layouts: tuple[tuple[Template, Layout], ...]) -> Iterator[Hit]:
        for template, layout in layouts:
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
            self._read[id(template)] += len(taken)
            yield Hit(template, taken, values)
            if whole:
                return
            words, at = words[:, ~fits], at[~fits]

    def learn(self, template: Template, lines: pa.Array) -> bool:
        """Make layouts from lines that only the template could read, where many have one pattern; say if any are new."""
        if len(lines) < MANY:
            return False
        found: list[tuple[int, int]] = []  # how many lines, and the first of them
        for words, at in _words(lines):
            of = patterns(words)
            counts = np.bincount(of, minlength=PATTERNS)
            common = np.argsort(-counts, kind="stable")[:AT_ONCE].tolist()
            found += [(int(counts[one]), int(at[np.argmax(of == one)])) for one in common if counts[one] >= MANY]
        made = [self._add(template, str(lines[at])) for _, at in sorted(found, key=lambda one: -one[0])[:AT_ONCE]]
        return any(made)

    def _add(self, template: Template, line: str) -> bool:
        made, read = self._learnt[id(template)], self._read[id(template)]
        if made >= FREE and read < WORTH * made or self._learnt.total() >= OF_LOG:
            return False
        self._learnt[id(template)] += 1
        layout = template.layout(line)
        known = self._by_size.get(layout.words, _OfSize.empty()) if layout else _OfSize.empty()
        if layout is None or any(layout.key == other.key for _, other in known.of(layout.pattern)):
            return False
        self._by_size[layout.words] = known.plus(template, layout)
        return True


def _words(lines: pa.Array, wanted: Collection[int] | None = None) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Yield the words of lines that have as many (only `wanted` numbers of them, and no more than LINES), and their indices."""
    begins, data = edges(lines).astype(np.int64), lines.buffers()[2]
    lengths = np.diff(begins)
    sizes = words_in(np.minimum(lengths, MAX_BYTES + 1))
    for size in np.flatnonzero(np.bincount(sizes)).tolist():
        if size <= words_in(MAX_BYTES) and (wanted is None or size in wanted):
            every = np.flatnonzero(sizes == size)
            for start in range(0, len(every), LINES):
                at = every[start : start + LINES]
                yield words_at(data, begins[at], lengths[at]), at


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
