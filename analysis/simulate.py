"""Labelled training runs: a healthy law with its noise, and faults put into it at known rows with known causes.

The law is the learning-rate-annealing law (loss = floor + A (S1 + S0)^-a - C S2, with S1 the area under the learning
rate and S2 the annealed area), the noise Student-t with an autoregressive part, both in the logarithm of the loss.
Healthy kinds include those that naive rules call sick: large noise, a step in the data, a late plateau, lone hard batches.
"""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd

from analysis.segment import EVENT_COLUMNS, Segment
from analysis.simulate_faults import EXPERTS, FAULTS, Label, Spot


@dataclass(frozen=True)
class Kind:
    """What a healthy run is like. Rows are logged steps; `log_every` steps lie between two.

    vocabulary: words, the first loss is its logarithm; floor: loss that can't be learned away; power: exponent a;
    start_area: S0 in rows; anneal: C; sigma: noise of the log loss; ar: share carried to the next row; tails: degrees
    of freedom; warmup, decay_from: shares of the run; schedule: shape of the learning rate; low: its end over its peak.
    """

    vocabulary: int = 6400
    floor: float = 1.7
    power: float = 0.4
    start_area: float = 4.0
    anneal: float = 0.1
    sigma: float = 0.03
    ar: float = 0.4
    tails: float = 8
    warmup: float = 0.02
    schedule: str = "cosine"
    low: float = 0.1
    decay_from: float = 0.8
    peak: float = 5e-4
    log_every: int = 1
    aux: float = 0.0
    missing: float = 0.0
    bump: float = 0.0
    blips: float = 0.0
    batch_growth: float = 1.0
    planned: float = 1.0


@dataclass(frozen=True, eq=False)
class Simulated:
    """A run and the truth about it."""

    segment: Segment
    labels: tuple[Label, ...] = ()


KINDS: dict[str, Kind] = {
    "pretrain": Kind(),
    "wsd": Kind(schedule="wsd", low=0.02),
    "linear": Kind(schedule="linear", low=0.0),
    "constant": Kind(schedule="constant"),
    "step_drop": Kind(schedule="step"),
    "small_batch": Kind(sigma=0.12, tails=5),
    "large_batch": Kind(sigma=0.004, ar=0.6),
    "long_warmup": Kind(warmup=0.15),
    "fine_tune": Kind(vocabulary=60, floor=0.6, sigma=0.2, power=0.2, peak=2e-5, schedule="linear", low=0.0),
    "averaged": Kind(sigma=0.012, log_every=100),
    "moe": Kind(aux=0.02),
    "curriculum": Kind(bump=0.05),
    "blips": Kind(blips=0.0005, tails=6),
    "batch_ramp": Kind(sigma=0.08, batch_growth=8),
    "late_plateau": Kind(power=0.9, schedule="constant", floor=2.2),
    "sparse_loss": Kind(missing=0.3),
}


def simulate(
    *,
    rows: int = 2000,
    seed: int = 0,
    kind: str | None = None,
    fault: str | None = None,
    at: float | None = None,
    hard: bool = False,
) -> Simulated:
    """Return a run of `rows` logged rows, the same for the same arguments.

    kind: one of KINDS; at: the fault's place as share of the run; hard: only 1 to 1.5 times as large as what can be told
    from the run's noise.
    """
    kind = kind or ("moe" if fault in EXPERTS else "pretrain")
    rng = np.random.default_rng([seed, rows, len(kind), sum(map(ord, kind))])
    shape = KINDS[kind]
    columns = _healthy(shape, rows, rng)
    labels: tuple[Label, ...] = ()
    if fault:
        first = int(rows * (at if at is not None else rng.uniform(0.3, 0.6)))
        sigma = shape.sigma * shape.batch_growth**-0.25
        labels = (FAULTS[fault](columns, Spot(first, rng, hard, sigma, _law(shape, _schedule(shape, rows)))),)
    declared: dict[str, Any] = {"use_moe": "False"} if fault == "dense_aux" else {}
    return Simulated(_segment(shape, columns, rows, declared), labels)


def _healthy(kind: Kind, rows: int, rng: np.random.Generator) -> dict[str, np.ndarray]:
    lr = _schedule(kind, rows)
    law = _law(kind, lr)
    sigma = kind.sigma * np.linspace(1, kind.batch_growth, rows) ** -0.5
    noise = _noise(rng, rows, kind) * sigma
    log_main = np.log(law) + noise
    if kind.bump:
        log_main[rows // 2 :] += kind.bump
    blips = rng.random(rows) < kind.blips
    blips[: rows // 20] = False
    log_main[blips] += rng.uniform(0.2, 0.5, blips.sum())
    main = np.exp(log_main)
    norm = 0.5 * (law / law[0]) ** 0.5 * np.exp(0.15 * _noise(rng, rows, kind) + 1.5 * noise)
    aux = kind.aux * np.exp(0.05 * _noise(rng, rows, kind)) if kind.aux else np.zeros(rows)
    seconds = 0.4 * kind.log_every * np.exp(0.03 * rng.standard_normal(rows))
    seconds[0] *= 20
    return {"loss": main + aux, "logits_loss": main, "aux_loss": aux, "lr": lr, "grad_norm": norm, "step_time_seconds": seconds}


def _schedule(kind: Kind, rows: int) -> np.ndarray:
    total = max(int(rows * kind.planned), 1)
    t = (np.arange(rows) + 1) / total
    warm = np.minimum(t / max(kind.warmup, 1 / total), 1)
    u = np.clip((t - kind.warmup) / max(1 - kind.warmup, 1e-9), 0, 1)
    shapes = {
        "cosine": kind.low + (1 - kind.low) * (1 + np.cos(np.pi * u)) / 2,
        "linear": kind.low + (1 - kind.low) * (1 - u),
        "constant": np.ones(rows),
        "wsd": np.where(t < kind.decay_from, 1, kind.low + (1 - kind.low) * np.clip((1 - t) / (1 - kind.decay_from), 0, 1)),
        "step": np.where(t < 0.6, 1, np.where(t < 0.85, 0.3, 0.1)),
    }
    return kind.peak * warm * shapes[kind.schedule]


def _law(kind: Kind, lr: np.ndarray) -> np.ndarray:
    share = lr / kind.peak
    area = np.cumsum(share) + kind.start_area
    falls = np.maximum(-np.diff(share, prepend=share[0]), 0)
    carried = pd.Series(falls).ewm(alpha=0.001, adjust=False).mean().to_numpy() / 0.001
    annealed = np.minimum(np.cumsum(carried) / len(lr), 1) * (1 + kind.anneal)
    height = np.log(kind.vocabulary) - kind.floor
    return kind.floor + height * (area / kind.start_area) ** -kind.power - kind.anneal * annealed


def _noise(rng: np.random.Generator, rows: int, kind: Kind) -> np.ndarray:
    """Return noise of unit scale: half independent Student-t, half carried from row to row."""
    unit = np.sqrt((kind.tails - 2) / kind.tails)
    loose = rng.standard_t(kind.tails, rows) * unit
    tied = pd.Series(rng.standard_normal(rows)).ewm(alpha=1 - kind.ar, adjust=False).mean().to_numpy()
    tied = tied * np.sqrt((1 + kind.ar) / (1 - kind.ar))
    return np.sqrt(0.8) * loose + np.sqrt(0.2) * tied


def _segment(kind: Kind, columns: dict[str, np.ndarray], rows: int, config: dict[str, Any]) -> Segment:
    printed = {name: np.round(values, 9 if name == "lr" else 4) for name, values in columns.items()}
    if not kind.aux:
        printed = {name: values for name, values in printed.items() if name not in ("logits_loss", "aux_loss")}
    steps = (np.arange(rows) + 1) * kind.log_every
    frame = pd.DataFrame({"line": np.arange(rows) + 1, "step": steps, **printed})
    absent: dict[str, np.ndarray] = {}
    if kind.missing:
        gaps = np.random.default_rng(rows).random(rows) < kind.missing
        frame.loc[gaps, "loss"] = np.nan
        absent["loss"] = gaps
    total = int(rows * kind.planned) * kind.log_every
    return Segment(0, frame, absent, total_steps=total, config=config)


def simulate_policy(*, rows: int = 300, seed: int = 0, collapses_at: int | None = None) -> Segment:
    """Return a reinforcement-learning run: reward rises, entropy and answer length fall slowly, the KL grows a little.

    collapses_at: row from which answers shrink to one token, as if empty answers were paid for.
    """
    rng = np.random.default_rng([seed, rows])
    t = np.arange(rows) / rows
    columns = {
        "reward": 0.2 + 0.5 * (1 - np.exp(-3 * t)) + 0.05 * rng.standard_normal(rows),
        "kl": 0.002 + 0.02 * t + 0.002 * np.abs(rng.standard_normal(rows)),
        "entropy": (0.4 - 0.15 * t) * np.exp(0.05 * rng.standard_normal(rows)),
        "response_length": (900 - 250 * t) * np.exp(0.08 * rng.standard_normal(rows)),
        "policy_loss": 0.02 * rng.standard_normal(rows),
        "grad_norm": 0.3 * np.exp(0.2 * rng.standard_normal(rows)),
    }
    if collapses_at is not None:
        left = np.maximum(np.exp(-np.arange(rows - collapses_at) / 3), 1 / 900)
        for name, least in (("response_length", 1.0), ("entropy", 1e-3)):
            columns[name][collapses_at:] = np.maximum(columns[name][collapses_at:] * left, least)
    frame = pd.DataFrame({"line": np.arange(rows) + 1, "step": np.arange(rows) + 1, **columns})
    return Segment(0, frame, total_steps=rows)


def with_events(segment: Segment, *said: tuple[int, str, str, dict[str, Any]]) -> Segment:
    """Return the segment with things that its text says: (line, kind, text, more that the line tells)."""
    rows = [(line, None, kind, text, data) for line, kind, text, data in said]
    events = pd.DataFrame(rows, columns=list(EVENT_COLUMNS)).astype({"step": "Int64"})
    return replace(segment, events=events)


def with_evaluations(
    segment: Segment, *, every: int, noise: float = 0.01, turns_at: float | None = None, steepness: float = 0.5, seed: int = 0
) -> Segment:
    """Return the segment with an evaluation behind each `every`-th row, and, from a share of the run on, worse ones.

    steepness: rise of the logarithm of the evaluation loss from there to the end of the run.
    """
    rng = np.random.default_rng(seed)
    at = np.arange(every - 1, len(segment), every)
    smooth = segment.rows["loss"].ewm(halflife=max(30, len(segment) / 40), ignore_na=True).mean().to_numpy()[at]
    log_loss = np.log(1.02 * smooth) + noise * rng.standard_normal(len(at))
    if turns_at is not None:
        share = np.maximum(at / len(segment) - turns_at, 0) / max(1 - turns_at, 1e-9)
        turn = int(np.searchsorted(share > 0, True))
        log_loss[turn:] = np.maximum(log_loss[turn:], log_loss[max(turn - 1, 0)] + 0 * share[turn:]) + steepness * share[turn:]
    rows = segment.rows.assign(line=np.arange(len(segment)) * 2 + 1)
    steps = segment.steps()[at].astype(np.int64)
    evals = pd.DataFrame({"line": 2 * at + 2, "step": steps, "eval_loss": np.round(np.exp(log_loss), 4)})
    return replace(segment, rows=rows, evals=evals)
