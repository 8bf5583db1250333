"""How clearly the last values of a course turned upwards: level and then a slope, or level and then a step.

Both are fitted wherever they may begin, by least squares. How much of the spread a shape explains, in standard deviations
of one value, is its generalised likelihood ratio against a level course: 2 ln L is the square. The difference of the squares
of two shapes tells which of them it rather is.
"""

from functools import cache

import numpy as np

EDGES = (0.25, 0.5, 0.75, 1.0)  # a step may fall within a block


def sloping(windows: np.ndarray, *, after: int = 3) -> np.ndarray:
    """Return what the best slope upwards explains of each window (n, count), in the unit of its values (n,); 0: nothing.

    after: values that lie on the slope, at least.
    """
    return _explained(windows, _slopes(windows.shape[1], after))


def stepping(windows: np.ndarray) -> np.ndarray:
    """Return what the best step upwards explains of each window (n, count), in the unit of its values (n,); 0: nothing."""
    return _explained(windows, _steps(windows.shape[1]))


def _explained(windows: np.ndarray, shapes: np.ndarray) -> np.ndarray:
    off = windows - windows.mean(axis=1, keepdims=True)
    return np.asarray(np.maximum(off @ shapes.T, 0.0).max(axis=1))


@cache
def _slopes(count: int, after: int) -> np.ndarray:
    """Return the shapes (k, count) that are level up to some place and rise from there."""
    at = np.arange(count)
    return _unit(np.array([np.maximum(at - start, 0.0) for start in range(count - after)]))


@cache
def _steps(count: int) -> np.ndarray:
    """Return the shapes (k, count) that are level up to some place and level again from there, higher."""
    at = np.arange(count)
    return _unit(np.array([(at > start) + share * (at == start) for start in range(1, count - 1) for share in EDGES]))


def _unit(shapes: np.ndarray) -> np.ndarray:
    shapes = shapes - shapes.mean(axis=1, keepdims=True)
    return np.asarray(shapes / np.sqrt((shapes**2).sum(axis=1, keepdims=True)))
