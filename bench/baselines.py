"""What others call sick, as small functions: rows (positions) at which each warns, from the loss and the gradient norm alone.

Each criterion is written anew from the description that its source gives of it, and runs on the same logs as our rules.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pandas as pd

JUMPS = ("spike", "spike_unrecovered", "spike_cluster")
BROKEN = ("non_finite",)


@dataclass(frozen=True)
class Baseline:
    """A criterion: its source, the classes that it claims to find, and the rows at which it warns, from (loss, grad norm)."""

    source: str
    claims: tuple[str, ...]
    rows: Callable[[np.ndarray, np.ndarray], np.ndarray]


def olmo(loss: np.ndarray, norm: np.ndarray) -> np.ndarray:
    """Loss or norm above mean + 6 standard deviations of the last 128, once 64 are there."""
    return np.flatnonzero(_above(loss, 6, 128, 64) | _above(norm, 6, 128, 64))


def automations(loss: np.ndarray, norm: np.ndarray) -> np.ndarray:
    """|z| of the loss against the last 30 values above 3."""
    past = pd.Series(loss).shift().rolling(30, min_periods=30)
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.flatnonzero(np.abs(loss - past.mean().to_numpy()) / past.std().to_numpy() > 3)


def megatron(loss: np.ndarray, norm: np.ndarray) -> np.ndarray:
    """Loss of ten times the highest of the first hundred, never estimated again; NaN is another check of it."""
    if len(loss) < 100:
        return np.flatnonzero(~np.isfinite(loss))
    high = np.nanmax(np.where(np.isfinite(loss[:100]), loss[:100], np.nan)) if np.isfinite(loss[:100]).any() else np.inf
    return np.flatnonzero((loss >= 10 * high) & (np.arange(len(loss)) >= 100) | ~np.isfinite(loss))


def kill_loss_spike(loss: np.ndarray, norm: np.ndarray) -> np.ndarray:
    """Loss of at least twice the mean of the last hundred for five rows in a row, or half of the last hundred above 10."""
    mean = pd.Series(loss).shift().rolling(100, min_periods=100).mean().to_numpy()
    with np.errstate(invalid="ignore"):
        high = pd.Series(loss >= 2 * mean).rolling(5).sum().to_numpy() >= 5
        beyond = pd.Series(loss > 10).rolling(100).mean().to_numpy() > 0.5
    return np.flatnonzero(high | beyond)


def zclip(loss: np.ndarray, norm: np.ndarray) -> np.ndarray:
    """z of the gradient norm above 2.5 against exponential averages (0.97) after 25 rows."""
    if not np.isfinite(norm).any():
        return np.zeros(0, dtype=int)
    series = pd.Series(norm).where(np.isfinite(norm))
    mean = series.ewm(alpha=0.03, ignore_na=True).mean().shift()
    spread = np.sqrt((series**2).ewm(alpha=0.03, ignore_na=True).mean().shift() - mean**2)
    with np.errstate(invalid="ignore", divide="ignore"):
        hot = ((series - mean) / spread > 2.5).to_numpy() & (np.arange(len(norm)) >= 25)
    return np.flatnonzero(hot)


def _above(values: np.ndarray, deviations: float, window: int, least: int) -> np.ndarray:
    past = pd.Series(values).shift().rolling(window, min_periods=least)
    with np.errstate(invalid="ignore"):
        return values > past.mean().to_numpy() + deviations * past.std().to_numpy()


BASELINES: dict[str, Baseline] = {
    "OLMo-core, levanter 6 sd / 128": Baseline("SkipStepOptimizer, skip_bad_steps", JUMPS, olmo),
    "W&B automation z 3 / 30": Baseline("documentation of its z-score automation", (*JUMPS, "divergence"), automations),
    "Megatron 10x of first 100": Baseline("rerun state machine", (*JUMPS, *BROKEN), megatron),
    "llm-foundry KillLossSpike": Baseline("callback of that name", (*JUMPS, "divergence"), kill_loss_spike),
    "ZClip z 2.5": Baseline("its paper; warns where it would clip", JUMPS, zclip),
}
