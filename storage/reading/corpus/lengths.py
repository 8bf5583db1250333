"""Lengths of texts and repeated texts, counted in memory that does not grow with the corpus."""

import numpy as np

EXACT = 1 << 16  # lengths below are counted one by one …
GROWTH = 1.01  # … and above in bins that are 1 % wide
MAX_HASHES = 8 << 20  # texts that are compared with each other; of more, a share that is chosen by their hash
BARS = 48


class Lengths:
    """How many texts have which length, in characters. Quantiles are exact below EXACT, within 1 % above."""

    def __init__(self) -> None:
        self._exact = np.zeros(EXACT, np.int64)
        self._large: dict[int, int] = {}
        self.count = self.total = self.largest = 0

    def add(self, lengths: np.ndarray) -> None:
        """Count these lengths."""
        if not len(lengths):
            return
        self.count += len(lengths)
        self.total += int(lengths.sum())
        self.largest = max(self.largest, int(lengths.max()))
        self._exact += np.bincount(lengths[lengths < EXACT], minlength=EXACT)
        large = np.floor(np.log(lengths[lengths >= EXACT]) / np.log(GROWTH)).astype(int)
        for level, count in zip(*np.unique(large, return_counts=True), strict=True):
            self._large[int(level)] = self._large.get(int(level), 0) + int(count)

    def quantile(self, share: float) -> int | None:
        """Return the length that this share of the texts does not exceed, None without a text."""
        if not self.count:
            return None
        lengths, counts = self._table()
        at = int(np.searchsorted(np.cumsum(counts), share * self.count))
        return min(int(lengths[min(at, len(lengths) - 1)]), self.largest)

    def bars(self) -> list[tuple[int, int, int]]:
        """Return at most BARS bars of a histogram whose steps grow with the length: (from, up to, how many)."""
        if not self.count:
            return []
        lengths, counts = self._table()
        edges = np.unique(np.round(np.geomspace(1, self.largest + 1, BARS + 1)).astype(np.int64))
        edges[0] = 0
        edges = np.append(edges, self.largest + 1) if edges[-1] <= self.largest else edges
        sums, _ = np.histogram(lengths, bins=edges, weights=counts)
        return [(int(a), int(b) - 1, int(n)) for a, b, n in zip(edges[:-1], edges[1:], sums, strict=True)]

    def _table(self) -> tuple[np.ndarray, np.ndarray]:
        small = np.flatnonzero(self._exact)
        levels = sorted(self._large)
        large = np.minimum(np.floor(GROWTH ** (np.array(levels, float) + 1)), self.largest)
        lengths = np.concatenate((small, large.astype(np.int64)))
        return lengths, np.concatenate((self._exact[small], np.array([self._large[n] for n in levels], np.int64)))


class Twins:
    """Texts that come again, found by a 64-bit hash. Beyond MAX_HASHES only 1 of `share` texts is looked at."""

    def __init__(self) -> None:
        self.share = 1
        self._hashes: list[np.ndarray] = []
        self._lines: list[np.ndarray] = []
        self._held = 0

    def add(self, hashes: np.ndarray, lines: np.ndarray) -> None:
        """Remember the texts of these lines by their hashes (uint64)."""
        self._keep(hashes, lines)
        while self._held > MAX_HASHES:
            self.share *= 2
            held, numbers = np.concatenate(self._hashes), np.concatenate(self._lines)
            self._hashes, self._lines, self._held = [], [], 0
            self._keep(held, numbers)

    def _keep(self, hashes: np.ndarray, lines: np.ndarray) -> None:
        # The upper bits: whoever sorts or buckets by the lower ones does not meet a chosen few.
        chosen = (hashes >> np.uint64(40)) % np.uint64(self.share) == 0
        self._hashes.append(hashes[chosen])
        self._lines.append(lines[chosen])
        self._held += int(chosen.sum())

    def found(self) -> tuple[int, np.ndarray, np.ndarray]:
        """Return about how many texts were there before, and lines that repeat one, with the line that has it first."""
        if not self._held:
            return 0, np.empty(0, np.int64), np.empty(0, np.int64)
        hashes, lines = np.concatenate(self._hashes), np.concatenate(self._lines)
        order = np.argsort(hashes, kind="stable")
        same = np.append(False, hashes[order][1:] == hashes[order][:-1])
        starts = np.maximum.accumulate(np.where(same, 0, np.arange(len(order))))
        again, first = lines[order][same], lines[order][starts][same]
        by_line = np.argsort(again, kind="stable")
        return int(same.sum()) * self.share, again[by_line], first[by_line]
