"""Periods in a metric: windows of values, of single rows and of means of 8 and of 64, each looked at in its own spectrum.

A line in the spectrum counts where it towers over its neighbouring frequencies, so that noise that rows share (a red
spectrum) does not make one; its strength is its share of all power but the slowest.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from analysis.ladder import clipped
from analysis.noise import Track

WINDOWS = ((64, 1), (256, 1), (64, 8), (256, 8), (64, 64), (256, 64))  # values a window, rows a value
STEPS = 4  # windows begin at quarters of each other
SLOWEST = 4  # cycles a window below which a line can't be told from a trend
SAME_LINE = 0.06  # share by which a period may be off in a longer stretch
SIDE = 8  # frequencies on each side that a line is compared with
AT_ONCE = 1 << 20  # values transformed at a time: bounded memory


@dataclass(frozen=True, eq=False)
class Lines:
    """The strongest line of each window (k,); windows are `size` values or `rows` rows long and a quarter of that apart.

    end: position in the track of the window's last value. period: in values of the track; tower: power over the median
    of its neighbours; share: of all power; amplitude: half of the whole swing.
    """

    size: int
    rows: int
    end: np.ndarray
    period: np.ndarray
    tower: np.ndarray
    share: np.ndarray
    amplitude: np.ndarray


def lines(track: Track) -> Iterator[Lines]:
    """Yield the strongest lines at each scale at which there are windows."""
    values = clipped(track)
    for size, scale in WINDOWS:
        means = values[: len(values) // scale * scale].reshape(-1, scale).mean(axis=1) if scale > 1 else values
        if len(means) >= size:
            yield _lines(means, size, scale)


def tower_of(values: np.ndarray, period: float) -> float:
    """Return by how much a period of so many values towers over its neighbours in the spectrum of all values (n,).

    Over a stretch of several windows a swing stays one narrow line; slow wander, which now and then has the same period in
    some windows one after the other, spreads.
    """
    straight = _straightened(values[None, :])[0]
    spectrum = np.abs(np.fft.rfft(straight * np.hanning(len(values)))) ** 2
    place = len(values) / period
    low = max(int(place * (1 - SAME_LINE)), 2)
    peak = low + int(np.argmax(spectrum[low : int(place * (1 + SAME_LINE)) + 2]))
    near = peak + np.r_[-SIDE:-2, 3 : SIDE + 1]
    floor = float(np.median(spectrum[near[(near >= 2) & (near < len(spectrum))]]))
    return float(spectrum[peak]) / max(floor, 1e-300)


def _lines(means: np.ndarray, size: int, scale: int) -> Lines:
    windows = sliding_window_view(means, size)[:: size // STEPS]
    count = AT_ONCE // size
    parts = [_strongest(windows[at : at + count]) for at in range(0, len(windows), count)]
    place, tower, share, amplitude = (np.concatenate(column) for column in zip(*parts, strict=True))
    end = (np.arange(len(windows)) * (size // STEPS) + size) * scale - 1
    return Lines(size, size * scale, end, size / place * scale, tower, share, amplitude)


def _strongest(windows: np.ndarray) -> tuple[np.ndarray, ...]:
    """Return (frequency, tower, share, amplitude) of the strongest line of each window (m, size), the frequency refined."""
    size = windows.shape[1]
    taper = np.hanning(size)
    spectrum = np.abs(np.fft.rfft(_straightened(windows) * taper, axis=1)) ** 2
    rows, last = np.arange(len(windows)), spectrum.shape[1] - 2
    peak = SLOWEST + np.argmax(spectrum[:, SLOWEST : last + 1], axis=1)
    near = peak[:, None] + np.r_[-SIDE:-2, 3 : SIDE + 1]
    near = np.where(near < SLOWEST - 1, near + 2 * SIDE + 1, np.where(near > last, near - 2 * SIDE - 1, near))
    floor = np.median(spectrum[rows[:, None], near], axis=1)
    before, at, after = (spectrum[rows, peak + side] for side in (-1, 0, 1))
    with np.errstate(divide="ignore", invalid="ignore"):
        share = (before + at + after) / spectrum[:, SLOWEST - 1 :].sum(axis=1)
        place = peak + (after - before) / np.maximum(before + at + after, 1e-300)
        tower = np.where(before > at, 0.0, at / floor)  # what leaks in from slower than the window can tell is no line
        return place, tower, share, 2 * np.sqrt(at) / taper.sum()


def _straightened(windows: np.ndarray) -> np.ndarray:
    """Return windows (m, size) without their mean and slope."""
    at = np.arange(windows.shape[1]) - (windows.shape[1] - 1) / 2
    level = windows - windows.mean(axis=1, keepdims=True)
    return level - (level @ at / (at @ at))[:, None] * at
