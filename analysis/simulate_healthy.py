"""Healthy runs printed as text, with all that naive rules take for illness: whoever warns of one of them is wrong.

Sixteen kinds of losses, eighteen kinds of machines, and kinds of text: evaluations, resumes, several launches in one file,
lines printed twice, averages since the start of an epoch, words that only look like failures, reinforcement learning.
"""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pandas as pd

from analysis import simulate_hardware as hardware
from analysis import simulate_said as words
from analysis.segment import Segment
from analysis.simulate import KINDS, simulate, simulate_policy, with_evaluations
from analysis.simulate_cases import LENGTHS, POLICY_LENGTHS, SHIFTED, Story, Told, printed

Make = Callable[[int, int, np.random.Generator], Told]
NOISY = ("pretrain", "wsd", "linear", "constant", "small_batch", "large_batch", "fine_tune")


def _evaluated(rows: int, seed: int, rng: np.random.Generator) -> Told:
    run = simulate(rows=rows, seed=seed, kind=str(rng.choice(NOISY))).segment
    every = max(rows // int(rng.integers(20, 120)), 3)
    return Told(with_evaluations(run, every=every, noise=float(rng.uniform(0.002, 0.03)), seed=seed), None, restart=False)


def _flat_evaluation(rows: int, seed: int, rng: np.random.Generator) -> Told:
    """The evaluation stands still while training goes on: no generalisation any more, but no overfitting yet."""
    told = _evaluated(rows, seed, rng)
    evals = told.segment.evals
    held = np.log(evals["eval_loss"].to_numpy())
    half = len(held) // 2
    noise = held[half:] - pd.Series(held[half:]).rolling(9, center=True, min_periods=1).mean().to_numpy()
    evals.loc[half:, "eval_loss"] = np.round(np.exp(held[half] + noise), 4)
    return told


def _spoken(rows: int, seed: int, rng: np.random.Generator) -> Told:
    """Words that look like failures, checkpoints, and a worker's exception that was caught."""
    run = simulate(rows=rows, seed=seed, kind=str(rng.choice(NOISY))).segment
    said = {int(row): [str(rng.choice(words.HARMLESS))] for row in rng.integers(0, rows, 12)}
    for row in range(rows // 10, rows, rows // 10):
        said[row] = words.filled([str(rng.choice(words.SAVES))], run.step(row) or 0, rng)
    said[rows] = ["Training completed. Do not forget to share your model!"]
    return Told(run, None, said=said)


def _resumed(rows: int, seed: int, rng: np.random.Generator) -> Told:
    """Resumed three times, at once with the same loss."""
    run = simulate(rows=rows, seed=seed, kind=str(rng.choice(NOISY))).segment
    places = np.sort(rng.integers(rows // 5, rows - 20, 3))
    order = np.concatenate(
        [np.arange(max(a - 8, 0) if a else 0, b) for a, b in zip((0, *places), (*places, rows), strict=True)]
    )
    frame = run.rows.iloc[order].reset_index(drop=True)
    frame["line"] = np.arange(len(frame)) + 1
    absent = {name: gaps[order] for name, gaps in run.absent.items()}
    said = {int(row) + 1: words.filled([str(rng.choice(words.RESUMES))], 0, rng) for row in np.flatnonzero(np.diff(order) < 0)}
    return Told(replace(run, rows=frame, absent=absent), None, said=said, restart=False)


def _several(rows: int, seed: int, rng: np.random.Generator) -> Told:
    """Three runs one after the other in one file, each from the beginning."""
    parts = [simulate(rows=rows // 3, seed=seed + 7 * part, kind=str(rng.choice(NOISY[:4]))).segment for part in range(3)]
    frame = pd.concat([part.rows for part in parts], ignore_index=True)
    frame["line"] = np.arange(len(frame)) + 1
    return Told(replace(parts[0], rows=frame, absent={}), None, restart=False)


def _twice(rows: int, seed: int, rng: np.random.Generator) -> Told:
    """Every line is printed twice, as by two handlers of one logger."""
    run = simulate(rows=rows, seed=seed, kind=str(rng.choice(NOISY))).segment
    frame = run.rows.iloc[np.repeat(np.arange(rows), 2)].reset_index(drop=True)
    frame["line"] = np.arange(len(frame)) + 1
    return Told(replace(run, rows=frame), None, restart=False)


def _running_mean(rows: int, seed: int, rng: np.random.Generator) -> Told:
    """The loss is printed as the mean since the epoch began: it jumps at each new epoch."""
    run = simulate(rows=rows, seed=seed, kind=str(rng.choice(("pretrain", "wsd", "constant")))).segment
    each = max(rows // int(rng.integers(4, 12)), 50)
    loss, epoch = run.values("loss"), np.arange(rows) // each
    means = pd.Series(loss).groupby(epoch).expanding().mean().to_numpy()
    run.rows["loss"] = np.round(means, 4)
    run.rows["epoch"] = 1 + epoch
    return Told(run, None, ("loss", "epoch"), restart=False)


def _epochs(rows: int, seed: int, rng: np.random.Generator) -> Told:
    """Fine-tuning over three epochs: the loss falls by a step at the start of each, for samples repeat."""
    run = simulate(rows=rows, seed=seed, kind="fine_tune").segment
    epoch = 3 * np.arange(rows) / rows
    run.rows["loss"] = np.round(run.values("loss") * 0.75 ** np.floor(epoch), 4)
    run.rows["epoch"] = epoch
    return Told(run, None, ("loss", "epoch"), restart=False)


def _policy(rows: int, seed: int, rng: np.random.Generator) -> Told:
    return Told(simulate_policy(rows=min(rows, int(rng.choice(POLICY_LENGTHS))), seed=seed), None, ("reward",), restart=False)


def _losses(kind: str) -> Make:
    return lambda rows, seed, rng: Told(simulate(rows=rows, seed=seed, kind=kind).segment, None)


def _machine(kind: str) -> Make:
    def make(rows: int, seed: int, rng: np.random.Generator) -> Told:
        run = hardware.simulate(rows=rows, seed=seed, kind=kind).segment
        return Told(run, None, ("loss", "gpu_utilization_percent"), time=kind == "clock", head={"max_grad_norm": 1.0})

    return make


HEALTHY: dict[str, Make] = {
    **{kind: _losses(kind) for kind in KINDS},
    **{f"machine: {kind}": _machine(kind) for kind in hardware.KINDS},
    "text: evaluations": _evaluated,
    "text: flat evaluation": _flat_evaluation,
    "text: words": _spoken,
    "text: resumed": _resumed,
    "text: several launches": _several,
    "text: printed twice": _twice,
    "text: running mean": _running_mean,
    "text: epochs": _epochs,
    "text: reinforcement": _policy,
}
TRUE_OF: dict[str, frozenset[str]] = SHIFTED | {
    "text: resumed": frozenset({"restart"}),
    "text: several launches": frozenset({"restart"}),
    "text: epochs": frozenset({"level_shift", "dip"}),
    "machine: growing_batch": frozenset({"level_shift"}),
}


def healthy(kind: str, number: int, seed: int) -> Story:
    """Return a healthy run of a kind, printed, the same for the same arguments."""
    rng = np.random.default_rng([seed, number, sum(map(ord, kind))])
    rows = LENGTHS[number % len(LENGTHS)]
    told = HEALTHY[kind](rows, seed + number, rng)
    return printed(told, rng, fault=kind, allowed=TRUE_OF.get(kind, frozenset()) | stopped(told.segment))


def stopped(segment: Segment) -> frozenset[str]:
    """Return what may be said of a log that ends before its plan."""
    return (
        frozenset({"stopped"})
        if segment.total_steps and (segment.step(len(segment) - 1) or 0) < segment.total_steps
        else frozenset()
    )
