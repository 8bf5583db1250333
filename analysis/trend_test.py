"""Whether the last blocks rise: Kendall's tau over every window of blocks at once."""

import numpy as np


def kendall(values: np.ndarray, window: int) -> np.ndarray:
    """Return Kendall's tau of each window of `window` values (n - window + 1,): 1 where each is above all before it."""
    views = np.lib.stride_tricks.sliding_window_view(values, window)
    signs = np.zeros(len(views))
    for lag in range(1, window):
        signs += np.sign(views[:, lag:] - views[:, :-lag]).sum(axis=1)
    return signs / (window * (window - 1) / 2)
