"""How the clocks of the nodes of one run differ, told from the moments at which they print the same step.

All nodes of a synchronous training finish a step together (the collective makes them wait for each other), so the difference
of the times that two of them print for it is that of their clocks, but for the time that printing takes. The median over
many steps takes that out; medians of windows follow a clock that drifts and show one that was set.

Times are milliseconds since 1970, as printed: differences of milliseconds survive, and where a log prints whole seconds
only, no more than that can be told (`resolution_ms`).
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import pandas as pd

MIN_STEPS = 3  # printed by both, before a difference is told
WINDOW = 101  # matching steps of a running median
JUMP_MS, JUMP_NOISE = 500.0, 8.0  # a clock was set: a shift of the running median of so much, and so many times the noise


@dataclass(frozen=True)
class Offset:
    """By how much the clock of a node is ahead of the reference (negative: behind).

    ms: the median; residual_ms: what the correction leaves, the median of the absolute differences behind it; steps: how
    many were compared; times_ms, offsets_ms: the running median where it changes; jumps: where the clock was set, as
    (time in ms, step, by how much in ms).
    """

    ms: float
    residual_ms: float
    steps: int
    times_ms: np.ndarray = field(default_factory=lambda: np.zeros(0))
    offsets_ms: np.ndarray = field(default_factory=lambda: np.zeros(0))
    jumps: tuple[tuple[float, int, float], ...] = ()


@dataclass(frozen=True)
class Clocks:
    """The clocks of the nodes of a run: `reference` is the node in the middle, `offsets` are against it.

    resolution_ms: to what the logs print their times; residual_ms: the largest that is left, what two corrected times
    may differ by.
    """

    reference: str
    offsets: Mapping[str, Offset]
    resolution_ms: float

    @property
    def residual_ms(self) -> float:
        """What is left after the correction, at most, of the nodes."""
        return max((offset.residual_ms for offset in self.offsets.values()), default=0.0)

    def offset_ms(self, node: str, time_ms: float) -> float:
        """Return by how much a node's clock is ahead at a time of its own (0 where that is not known)."""
        offset = self.offsets.get(node)
        if offset is None or not len(offset.times_ms):
            return offset.ms if offset else 0.0
        return float(offset.offsets_ms[np.clip(np.searchsorted(offset.times_ms, time_ms, "right") - 1, 0, None)])

    def corrected_ms(self, node: str, times_ms: np.ndarray) -> np.ndarray:
        """Return times of a node as the reference would have printed them."""
        offset = self.offsets.get(node)
        if offset is None:
            return times_ms
        if not len(offset.times_ms):
            return times_ms - offset.ms
        return times_ms - offset.offsets_ms[np.clip(np.searchsorted(offset.times_ms, times_ms, "right") - 1, 0, None)]


def clocks(stamps: Mapping[str, pd.DataFrame]) -> Clocks | None:
    """Return how the clocks of nodes differ; None where no two of them print the time of the same steps.

    stamps: of each node the columns `segment`, `step`, `time_ms`, in the order printed; of a step that is printed several
        times the first counts.
    """
    times = {node: _by_step(frame) for node, frame in stamps.items() if len(frame)}
    if len(times) < 2:
        return None
    table = pd.DataFrame(times)
    table = table[table.notna().sum(axis=1) >= 2]
    if len(table) < MIN_STEPS:
        return None
    reference = _middle(table)
    offsets = {node: offset for node in table.columns if (offset := _offset(table, node, reference)) is not None}
    return Clocks(reference, offsets, _resolution(table.to_numpy())) if len(offsets) > 1 else None


def _by_step(frame: pd.DataFrame) -> pd.Series:
    first = frame.drop_duplicates(["segment", "step"]).set_index(["segment", "step"])["time_ms"]
    return first.astype(np.float64)


def _middle(table: pd.DataFrame) -> str:
    """Return the node whose clock is in the middle of all, of those that print about as many steps as any."""
    counts = table.notna().sum()
    ahead = table.sub(table.median(axis=1), axis=0).median()[counts >= 0.5 * counts.max()]
    return str((ahead - ahead.median()).abs().idxmin())


def _offset(table: pd.DataFrame, node: str, reference: str) -> Offset | None:
    both = table[[node]].assign(reference=table[reference]).dropna()
    if len(both) < MIN_STEPS:
        return None
    both = both.sort_index()
    # A clock that was set back shows some times twice: those count as before it was set.
    times = np.maximum.accumulate(both[node].to_numpy())
    ahead = (both[node] - both["reference"]).to_numpy()
    steps = both.index.get_level_values("step").to_numpy()
    running, jumps = _running(ahead, times, steps)
    left = float(np.median(np.abs(ahead - running)))
    changes = np.concatenate(([True], running[1:] != running[:-1]))
    return Offset(float(np.median(ahead)), left, len(ahead), times[changes], running[changes], jumps)


def _running(
    ahead: np.ndarray, times: np.ndarray, steps: np.ndarray
) -> tuple[np.ndarray, tuple[tuple[float, int, float], ...]]:
    """Return the running median of the differences, cut where the clock was set, and the places of the cuts."""
    window = min(WINDOW, len(ahead) // 2 * 2 - 1)
    if window < 2 * MIN_STEPS:
        return np.full(len(ahead), np.median(ahead)), ()
    cuts = _cuts(ahead, window // 2)
    parts = np.split(ahead, cuts)
    running = np.concatenate([_median_over(part, window) for part in parts])
    medians = [float(np.median(part)) for part in parts]
    jumps = tuple((float(times[cut]), int(steps[cut]), medians[n + 1] - medians[n]) for n, cut in enumerate(cuts))
    return running, jumps


def _cuts(ahead: np.ndarray, half: int) -> list[int]:
    """Return where the medians of the `half` values before and behind differ by far more than the values do."""
    near = min(half, 15)
    padded = np.lib.stride_tricks.sliding_window_view(ahead, near)
    medians = np.median(padded, axis=1)
    shift = np.abs(medians[near:] - medians[:-near])  # at place near … len - near
    noise = float(np.median(np.abs(np.diff(ahead)))) if len(ahead) > 1 else 0.0
    found: list[int] = []
    limit = max(JUMP_MS, JUMP_NOISE * noise)
    for place in np.argsort(-shift, kind="stable"):
        if shift[place] <= limit:
            break
        at = int(place) + near
        if all(abs(at - other) > near for other in found):
            found.append(at)
    return sorted(_sharp(ahead, at, near) for at in found)


def _sharp(ahead: np.ndarray, at: int, near: int) -> int:
    """Return the place near `at` where the largest step lies."""
    low = max(1, at - near)
    return low + int(np.argmax(np.abs(np.diff(ahead[low - 1 : at + near]))))


def _median_over(values: np.ndarray, window: int) -> np.ndarray:
    """Return the running median over a window centred at each value, shorter at the ends."""
    return pd.Series(values).rolling(window, center=True, min_periods=1).median().to_numpy()


def _resolution(times: np.ndarray) -> float:
    known = times[np.isfinite(times)].astype(np.int64)
    return next((float(size) for size in (60_000, 1000, 100, 10) if not (known % size).any()), 1.0)
