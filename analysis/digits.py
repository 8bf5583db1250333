"""How many digits a log prints: what is smaller can't be told from nothing."""

import numpy as np


def print_unit(values: np.ndarray) -> float:
    """Return the power of ten of which all values are multiples: 1e-8 for a decay printed as 0.00049812; at least 1e-12."""
    few = np.unique(np.abs(values[:: max(len(values) // 2000, 1)]))
    for digits in range(12):
        scaled = few * 10.0**digits
        if np.all(np.abs(scaled - np.round(scaled)) <= 1e-6 * np.maximum(scaled, 1e-3)):
            return float(10.0**-digits)
    return 1e-12
