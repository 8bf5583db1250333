"""Subjects for the tests of comparisons, made of arrays."""

import numpy as np
import pandas as pd

from analysis.compare.subject import Subject, subject

LAW = (1.7, 12.0, 40.0, 0.4)


def law(steps, *, shift: float = 0.0) -> np.ndarray:
    """Return a falling loss at steps, `shift` (relative) above the law."""
    floor, height, start, power = LAW
    return (floor + height * (np.asarray(steps, dtype=float) + start) ** -power) * (1 + shift)


def noisy(steps, *, shift: float = 0.0, sigma: float = 0.02, seed: int = 0) -> np.ndarray:
    """Return the same with noise."""
    return law(steps, shift=shift) * np.exp(sigma * np.random.default_rng(seed).standard_normal(len(steps)))


def run(
    name: str = "a",
    loss=None,
    *,
    every: int = 10,
    rows: int = 400,
    first: int | None = None,
    config: dict | None = None,
    segments=None,
    metric: str = "loss",
    **columns,
) -> Subject:
    """Return a run that logs `loss` (as `metric`) every so many steps, with further columns (arrays or one value for all)."""
    loss = noisy(steps_of(rows, every, first), seed=sum(map(ord, name))) if loss is None else np.asarray(loss, dtype=float)
    steps = steps_of(len(loss), every, first)
    known = {
        name: columns.pop(name)
        for name in ("total_steps", "given", "growing", "launches", "clock", "program", "form", "title")
        if name in columns
    }
    parts = [_part(name, steps, values, segments) for name, values in {metric: loss, **columns}.items()]
    return subject(name, known.pop("title", name), config or {}, pd.concat(parts, ignore_index=True), rows=len(loss), **known)


def steps_of(rows: int, every: int = 10, first: int | None = None) -> np.ndarray:
    """Return the steps that are logged."""
    return np.arange(rows) * every + (every if first is None else first)


def _part(metric: str, steps: np.ndarray, values, segments) -> pd.DataFrame:
    values = np.broadcast_to(np.asarray(values, dtype=float), steps.shape)
    bad = ~np.isfinite(values)
    return pd.DataFrame(
        {
            "metric": metric,
            "segment": 0 if segments is None else segments,
            "x": steps,
            "x_last": steps,
            "mean": np.where(bad, np.nan, values),
            "last": values,
            "count": 1,
            "nonfinite": bad.astype(int),
        }
    )
