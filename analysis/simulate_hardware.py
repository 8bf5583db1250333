"""Labelled runs of the machine side: step times, pauses, utilisation, memory, temperature, processes and gradient norms.

A healthy run of `analysis.simulate` gets the columns that a machine adds, with the fluctuations of real ones; faults are
put in at known rows with known causes. Healthy kinds include those that naive rules call sick: long checkpoint pauses,
slow single steps, wandering step time, growing batches, memory that settles, sparse readings.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd

from analysis.segment import Segment
from analysis.simulate import Label, Simulated
from analysis.simulate import simulate as simulate_losses

GIB = 2**30
CAP = 80 * GIB
EXTRA = ("loss_scale", "params_norm", "gpu_power_watts")  # printed only by runs with a fault that shows in them
Columns = dict[str, np.ndarray]


@dataclass(frozen=True)
class Machine:
    """What a healthy machine is like. Seconds of a step, spreads of their logarithm; pauses as (every rows, times the step).

    jitter, tails: of single steps, tails as degrees of freedom; wander: slow part over `memory_rows` rows.
    hiccups: share of rows that take 2 to 6 times as long; pauses: periodic ones; batches: how many times the batch doubles.
    util, heat: usual utilisation (%) and temperature (°C); memory: share of the cap; settles: share of it that grows in
    over the first tenth; prints: time columns that the log prints; sparse: every so many rows print hardware.
    ranks: processes that print their loss.
    """

    seconds: float = 0.8
    jitter: float = 0.03
    tails: float = 6
    wander: float = 0.005
    wander_rows: int = 200
    hiccups: float = 0.002
    pauses: tuple[tuple[int, float], ...] = ()
    batches: int = 0
    util: float = 94
    heat: float = 68
    memory: float = 0.7
    settles: float = 0.02
    prints: tuple[str, ...] = ("step_time_seconds", "timestamp")
    sparse: int = 1
    ranks: int = 0
    losses: str = "pretrain"


KINDS: dict[str, Machine] = {
    "plain": Machine(),
    "steady": Machine(jitter=0.002, wander=0.001, hiccups=0),
    "variable": Machine(jitter=0.15, tails=4),
    "wandering": Machine(wander=0.015, wander_rows=300),
    "checkpoints": Machine(pauses=((200, 15),)),
    "evaluations": Machine(pauses=((100, 6), (500, 20))),
    "long_pauses": Machine(seconds=2, pauses=((300, 130),)),
    "hiccups": Machine(hiccups=0.03),
    "growing_batch": Machine(batches=3),
    "averaged": Machine(seconds=40, jitter=0.006, losses="averaged"),
    "sparse": Machine(sparse=10),
    "settling": Machine(settles=0.3, memory=0.85),
    "full": Machine(memory=0.89, heat=76),
    "throughput": Machine(prints=("tokens_per_second",)),
    "clock": Machine(prints=("timestamp",)),
    "elapsed": Machine(seconds=3, prints=("elapsed_seconds",)),
    "ranks": Machine(ranks=4),
    "fine_tune": Machine(jitter=0.25, util=85, losses="fine_tune"),
}


def simulate(
    *,
    rows: int = 2000,
    seed: int = 0,
    kind: str = "plain",
    fault: str | None = None,
    at: float | None = None,
    hard: bool = False,
) -> Simulated:
    """Return a run of `rows` logged rows, the same for the same arguments.

    at: place of the fault as a share of the run; hard: only 1 to 1.5 times as large as the least that counts.
    """
    machine = KINDS[kind]
    if fault in RANK_FAULTS and not machine.ranks:
        machine = replace(machine, ranks=4)
    rng = np.random.default_rng([seed, rows, sum(map(ord, kind)), 7])
    base = simulate_losses(rows=rows, seed=seed, kind=machine.losses).segment
    columns = _columns(base, machine, rows, rng)
    first = int(rows * (at if at is not None else rng.uniform(0.35, 0.6)))
    labels: tuple[Label, ...] = ()
    if fault in FAULTS:
        labels = (FAULTS[fault](columns, first, rng, hard),)
    ranks = _ranks(columns["loss"], machine.ranks, rng)
    if fault in RANK_FAULTS:
        labels = (RANK_FAULTS[fault](ranks, first, rng, hard),)
    segment = _segment(base, machine, columns, ranks)
    if fault in RESTARTS:
        segment, label = RESTARTS[fault](segment, first, rng)
        labels = (label,)
    return Simulated(segment, labels)


def _columns(base: Segment, machine: Machine, rows: int, rng: np.random.Generator) -> Columns:
    columns = {name: base.values(name).copy() for name in ("step", "loss", "lr", "grad_norm")}
    seconds = machine.seconds * np.exp(_fluctuation(machine, rows, rng))
    batch = np.repeat(256.0 * 2 ** np.arange(machine.batches + 1), -(-rows // (machine.batches + 1)))[:rows]
    seconds *= batch / 256
    pause = np.zeros(rows)
    slow = rng.random(rows) < machine.hiccups
    pause[slow] += rng.uniform(1, 5, slow.sum()) * seconds[slow]
    for every, factor in machine.pauses:
        pause[every - 1 :: every] += factor * machine.seconds * rng.uniform(0.9, 1.1, len(pause[every - 1 :: every]))
    seconds[0] *= 20
    noise = rng.standard_normal((3, rows))
    columns |= {"step_seconds": seconds, "pause": pause, "batch_size": batch, "data_time_seconds": 0.03 * seconds}
    columns["gpu_utilization_percent"] = np.clip(machine.util + 2 * noise[0] - 60 * (pause > 2 * seconds), 0, 100)
    columns["gpu_temperature_celsius"] = machine.heat + 1.5 * _slow(noise[1], 50) * 7
    grown = machine.settles * (np.exp(-np.arange(rows) / max(rows / 30, 5)))
    columns["memory_bytes"] = CAP * (machine.memory - grown * machine.memory + 0.002 * np.abs(noise[2]))
    return columns


def _fluctuation(machine: Machine, rows: int, rng: np.random.Generator) -> np.ndarray:
    fast = rng.standard_t(machine.tails, rows) * np.sqrt((machine.tails - 2) / machine.tails)
    slow = _slow(rng.standard_normal(rows), machine.wander_rows) * np.sqrt(2 * machine.wander_rows)
    return machine.jitter * fast + machine.wander * np.clip(slow, -3, 3)


def _slow(noise: np.ndarray, rows: int) -> np.ndarray:
    noise = np.r_[noise[:1] / np.sqrt(2 * rows), noise[1:]]  # as spread as what follows
    return pd.Series(noise).ewm(alpha=1 / rows, adjust=False).mean().to_numpy()


def _segment(base: Segment, machine: Machine, columns: Columns, ranks: np.ndarray) -> Segment:
    rows, count = len(columns["step"]), max(machine.ranks, 1)
    whole = columns["step_seconds"] + columns["pause"]
    passed = np.cumsum(whole)
    each = float(np.median(np.diff(columns["step"]))) if rows > 1 else 1.0
    times = {
        "step_time_seconds": np.round(whole / each, 5),
        "elapsed_seconds": np.round(passed, 3),
        "timestamp": np.datetime64("2026-01-05T08:00:00", "ms") + np.round(passed).astype("timedelta64[s]"),
        "tokens_per_second": np.round(columns["batch_size"] * 2048 / whole, 1),
    }
    frame = pd.DataFrame({"line": np.arange(rows) * count + 1, "step": columns["step"].astype(np.int64)})
    for name in ("loss", "lr", "grad_norm", "batch_size", *(name for name in EXTRA if name in columns)):
        frame[name] = np.round(columns[name], 9 if name == "lr" else 4)
    for name in machine.prints:
        frame[name] = times[name]
    absent: dict[str, np.ndarray] = {}
    quiet = np.arange(rows) % machine.sparse != 0
    for name in ("gpu_utilization_percent", "gpu_temperature_celsius", "memory_bytes", "data_time_seconds"):
        frame[name] = np.where(quiet, np.nan, np.round(columns[name], 0 if name != "data_time_seconds" else 4))
        absent[name] = quiet
    frame["memory_total_bytes"] = float(CAP)
    return replace(base, rows=frame, absent=absent, ranks=_rank_frame(frame, ranks), config={"max_grad_norm": "1.0"})


def _ranks(loss: np.ndarray, count: int, rng: np.random.Generator) -> np.ndarray:
    """Return the losses of every process (rows, count): the same course, each with its own batches."""
    return loss[:, None] * np.exp(0.03 * rng.standard_normal((len(loss), count)))


def _rank_frame(frame: pd.DataFrame, ranks: np.ndarray) -> pd.DataFrame:
    rows, count = ranks.shape
    if not count:
        return pd.DataFrame()
    frame["loss"] = np.round(ranks[:, 0], 4)
    lines = np.arange(rows * count) + 1
    steps, numbers = np.repeat(frame["step"].to_numpy(), count), np.tile(np.arange(count), rows)
    return pd.DataFrame({"line": lines, "step": steps, "rank": numbers, "loss": np.round(ranks.reshape(-1), 4)})


def _size(rng: np.random.Generator, hard: bool, least: float, low: float, high: float) -> float:
    """Return the size of a fault: 1 to 1.5 times the least that counts in a hard case, else low to high."""
    return float(least * rng.uniform(1.0, 1.5) if hard else rng.uniform(low, high))


def _jitter_of(columns: Columns, first: int) -> float:
    return float(np.std(np.diff(np.log(columns["step_seconds"][1:first])))) / np.sqrt(2)


def _slower(columns: Columns, first: int, rng: np.random.Generator, hard: bool, high: float = 0.5) -> float:
    """Return by how much steps become slower: 10 % is the least that counts, or the jitter of a step where it is larger."""
    least = max(0.1, _jitter_of(columns, first))
    return _size(rng, hard, least, 1.5 * least, max(high, 3 * least))


def _slowdown(columns: Columns, first: int, rng: np.random.Generator, hard: bool) -> Label:
    columns["step_seconds"][first:] *= 1 + _slower(columns, first, rng, hard)
    return Label("slowdown", first, None, None)


def _loader(columns: Columns, first: int, rng: np.random.Generator, hard: bool) -> Label:
    more = _slower(columns, first, rng, hard)
    columns["data_time_seconds"][first:] += more * columns["step_seconds"][first:]
    columns["step_seconds"][first:] *= 1 + more
    columns["gpu_utilization_percent"][first:] /= 1 + more
    return Label("slowdown", first, None, "loader", frozenset({"utilisation_low"}))


def _throttling(columns: Columns, first: int, rng: np.random.Generator, hard: bool) -> Label:
    columns["gpu_temperature_celsius"][first:] = 89 + rng.standard_normal(len(columns["step"]) - first)
    columns["step_seconds"][first:] *= 1 + _slower(columns, first, rng, hard)
    return Label("slowdown", first, None, "throttling", frozenset({"temperature_high"}))


def _passing(columns: Columns, first: int, rng: np.random.Generator, hard: bool) -> Label:
    length = int(rng.integers(100, 300))
    columns["step_seconds"][first : first + length] *= 1 + _slower(columns, first, rng, hard)
    return Label("slowdown", first, first + length, None)


def _creeping(columns: Columns, first: int, rng: np.random.Generator, hard: bool) -> Label:
    """Steps become slower and slower to the end."""
    left = len(columns["step"]) - first
    columns["step_seconds"][first:] *= 1 + 2 * _slower(columns, first, rng, hard) * np.arange(left) / left
    return Label("slowdown", first, None, None)


def _spike(columns: Columns, first: int, rng: np.random.Generator, hard: bool) -> Label:
    columns["pause"][first] += _size(rng, hard, 4, 8, 40) * columns["step_seconds"][first]
    return Label("step_time_spike", first, first, None)


def _pauses(columns: Columns, first: int, rng: np.random.Generator, hard: bool) -> Label:
    every = int(rng.integers(20, max(len(columns["step"]) // 12, 21)))
    columns["pause"][first::every] += _size(rng, hard, 4, 5, 20) * np.median(columns["step_seconds"])
    return Label("periodic_pause", first, None, None, frozenset({"hang"}))


def _jitter(columns: Columns, first: int, rng: np.random.Generator, hard: bool) -> Label:
    """Three times as unsteady as before, and by 5 % at least."""
    usual = _jitter_of(columns, first)
    wanted = _size(rng, hard, max(3.2 * usual, 0.07), max(4 * usual, 0.15), max(6 * usual, 0.5))
    left = len(columns["step"]) - first
    columns["step_seconds"][first:] *= np.exp(wanted * rng.standard_normal(left))
    return Label("step_time_jitter", first, None, None, frozenset({"slowdown", "step_time_spike"}))


def _waiting(columns: Columns, first: int, rng: np.random.Generator, hard: bool) -> Label:
    """Steps that wait for data now and then."""
    usual = _jitter_of(columns, first)
    wanted = _size(rng, hard, max(3.2 * usual, 0.07), max(4 * usual, 0.15), max(6 * usual, 0.5))
    more = columns["step_seconds"][first:] * np.expm1(wanted * np.abs(rng.standard_normal(len(columns["step"]) - first)) * 1.6)
    columns["step_seconds"][first:] += more
    columns["data_time_seconds"][first:] += more
    return Label("step_time_jitter", first, None, "loader", frozenset({"slowdown", "step_time_spike"}))


def _hang(columns: Columns, first: int, rng: np.random.Generator, hard: bool) -> Label:
    usual = float(np.median(columns["step_seconds"]))
    longest = float((columns["pause"] + columns["step_seconds"])[1:first].max())
    columns["pause"][first] += max(300.0, 15 * usual, 2 * longest) * _size(rng, hard, 1.02, 1.5, 9)
    return Label("hang", first, first, None, frozenset({"step_time_spike"}))


def _idle(columns: Columns, first: int, rng: np.random.Generator, hard: bool) -> Label:
    """Below 60 %."""
    usual = float(np.median(columns["gpu_utilization_percent"]))
    columns["gpu_utilization_percent"][first:] *= 58 / _size(rng, hard, 1.0, 1.4, 2.5) / usual
    return Label("utilisation_low", first, None, None)


def _starved(columns: Columns, first: int, rng: np.random.Generator, hard: bool) -> Label:
    """Below 60 % because steps wait for data."""
    label = _idle(columns, first, rng, hard)
    more = 0.5 * columns["step_seconds"][first:]
    columns["step_seconds"][first:] += more
    columns["data_time_seconds"][first:] += more
    return Label(label.kind, first, None, "loader", frozenset({"slowdown"}))


def _full(columns: Columns, first: int, rng: np.random.Generator, hard: bool) -> Label:
    """Above 95 % of the cap from one row to the next."""
    share = 0.9535 + (0.01 * rng.random() if hard else rng.uniform(0.01, 0.04))
    columns["memory_bytes"][first:] = CAP * (share - 0.002 * rng.random(len(columns["step"]) - first))
    return Label("memory_near_limit", first, None, "longest_sample")


def _leak(columns: Columns, first: int, rng: np.random.Generator, hard: bool) -> Label:
    """Grow steadily, by 4 % of the cap at least."""
    left = len(columns["step"]) - first
    start = float(np.median(columns["memory_bytes"][max(first - 50, 0) : first]))
    whole = min(_size(rng, hard, 0.045 * CAP, 0.1 * CAP, 0.25 * CAP), 0.99 * CAP - start)
    columns["memory_bytes"][first:] += whole * np.arange(left) / left
    return Label("memory_leak", first, None, "leak", frozenset({"memory_near_limit"}))


def _hot(columns: Columns, first: int, rng: np.random.Generator, hard: bool) -> Label:
    """85 °C and more."""
    above = rng.uniform(0.2, 1.0) if hard else rng.uniform(1, 6)
    columns["gpu_temperature_celsius"][first:] = 85 + above + rng.random(len(columns["step"]) - first)
    return Label("temperature_high", first, None, None)


def _hot_by_power(columns: Columns, first: int, rng: np.random.Generator, hard: bool) -> Label:
    """85 °C and more, with a power that rose."""
    label = _hot(columns, first, rng, hard)
    columns["gpu_power_watts"] = 500 + 5 * rng.standard_normal(len(columns["step"]))
    columns["gpu_power_watts"][first:] *= 1.2
    return Label(label.kind, first, None, "power")


def _explosion(columns: Columns, first: int, rng: np.random.Generator, hard: bool) -> Label:
    """Two rows or more beyond four times the level."""
    length = int(rng.integers(2, 12))
    columns["grad_norm"][first : first + length] *= _size(rng, hard, 4.5, 20, 200)
    return Label("grad_explosion", first, first + length, "unstable")


def _explosion_by_rate(columns: Columns, first: int, rng: np.random.Generator, hard: bool) -> Label:
    label = _explosion(columns, first, rng, hard)
    columns["lr"][first - 2 : label.last_row] *= 5
    return Label(label.kind, first, label.last_row, "learning_rate", frozenset({"lr_anomaly"}))


def _explosion_by_overflow(columns: Columns, first: int, rng: np.random.Generator, hard: bool) -> Label:
    label = _explosion(columns, first, rng, hard)
    columns["loss_scale"] = np.full(len(columns["step"]), 65536.0)
    columns["loss_scale"][first:] = np.maximum(
        65536.0 / 2.0 ** np.minimum(1.0 + np.arange(len(columns["step"]) - first), 40), 128
    )
    return Label(label.kind, first, label.last_row, "fp16")


def _clipped(columns: Columns, first: int, rng: np.random.Generator, hard: bool) -> Label:
    """More than 5 % of the rows beyond the declared limit of 1."""
    high = rng.random(len(columns["step"]) - first) < _size(rng, hard, 0.065, 0.15, 0.5)
    columns["grad_norm"][first:][high] = rng.uniform(1.1, 1.5, high.sum())
    return Label("grad_clipped", first, None, None, frozenset({"grad_explosion"}))


def _vanishing(columns: Columns, first: int, rng: np.random.Generator, hard: bool) -> Label:
    """Below a tenth of what it was."""
    left = len(columns["step"]) - first
    low = 0.1 / _size(rng, hard, 1.1, 4, 30)
    columns["grad_norm"][first:] *= np.maximum(10 ** (-np.arange(left) / (0.03 * len(columns["step"]))), low)
    return Label("grad_vanishing", first, None, None)


def _zero(columns: Columns, first: int, rng: np.random.Generator, hard: bool) -> Label:
    last = first + int(rng.integers(4, 9)) if hard else None
    columns["grad_norm"][first:last] = 0
    return Label("grad_zero", first, last, None, frozenset({"grad_vanishing"}))


def _creep(columns: Columns, first: int, rng: np.random.Generator, hard: bool) -> Label:
    """Grow steadily to 2.2 times and more."""
    left = len(columns["step"]) - first
    columns["grad_norm"][first:] *= _size(rng, hard, 2.6, 4, 9) ** (np.arange(left) / left)
    return Label("grad_creep", first, None, None)


def _creep_with_weights(columns: Columns, first: int, rng: np.random.Generator, hard: bool) -> Label:
    label = _creep(columns, first, rng, hard)
    rows = np.arange(len(columns["step"]))
    columns["params_norm"] = 300 * (1 + 0.5 * np.maximum(rows - first, 0) / (len(rows) - first))
    return Label(label.kind, first, None, "weights")


def _apart(ranks: np.ndarray, first: int, rng: np.random.Generator, hard: bool) -> Label:
    """One process drifts away by 2 % and more."""
    left = len(ranks) - first
    ranks[first:, 2] *= 1 + _size(rng, hard, 0.025, 0.1, 0.5) * np.minimum(np.arange(left) / (0.1 * len(ranks)), 1)
    return Label("rank_divergence", first, None, "synchronisation")


def _apart_at_once(ranks: np.ndarray, first: int, rng: np.random.Generator, hard: bool) -> Label:
    ranks[first:, 2] *= 1 + _size(rng, hard, 0.05, 0.2, 0.6)
    return Label("rank_divergence", first, None, "device")


def _same(ranks: np.ndarray, first: int, rng: np.random.Generator, hard: bool) -> Label:
    """All processes, in a hard case two of them, get the same samples."""
    others = [2] if hard else range(1, ranks.shape[1])
    for rank in others:
        ranks[first:, rank] = ranks[first:, 0]
    return Label("rank_duplicate", first, None, None)


def _again(segment: Segment, first: int, rng: np.random.Generator) -> tuple[Segment, Label]:
    """Go back some rows and train them again; the whole has as many rows as before."""
    lost = int(rng.integers(5, max(first // 3, 6)))
    frame = segment.rows
    lag = float(rng.uniform(120, 1200))
    again = frame.iloc[first - lost : len(frame) - lost].copy()
    again["loss"] = np.round(again["loss"] * np.exp(0.03 * rng.standard_normal(len(again))), 4)
    if "timestamp" in frame:
        shift = frame["timestamp"].iloc[first - 1] - again["timestamp"].iloc[0] + pd.Timedelta(seconds=round(lag))
        again["timestamp"] = again["timestamp"] + shift
    whole = pd.concat([frame.iloc[:first], again], ignore_index=True)
    whole["line"] = frame["line"].to_numpy()
    return replace(segment, rows=whole), Label("restart", first, None, None, frozenset({"stopped"}))


def _again_worse(segment: Segment, first: int, rng: np.random.Generator) -> tuple[Segment, Label]:
    """Go back, and the loss comes back higher: the optimizer's state was lost."""
    segment, label = _again(segment, first, rng)
    left = len(segment) - first
    worse = np.exp(rng.uniform(0.25, 0.6) * np.exp(-np.arange(left) / (0.2 * len(segment))))
    segment.rows.loc[segment.rows.index[first:], "loss"] = np.round(segment.values("loss")[first:] * worse, 4)
    return segment, replace(label, cause="resume")


Fault = Callable[[Columns, int, np.random.Generator, bool], Label]
FAULTS: dict[str, Fault] = {
    "slowdown": _slowdown,
    "slow_loader": _loader,
    "throttling": _throttling,
    "passing_slowdown": _passing,
    "creeping_slowdown": _creeping,
    "step_time_spike": _spike,
    "periodic_pause": _pauses,
    "step_time_jitter": _jitter,
    "waiting_steps": _waiting,
    "hang": _hang,
    "utilisation_low": _idle,
    "starved": _starved,
    "memory_near_limit": _full,
    "memory_leak": _leak,
    "temperature_high": _hot,
    "hot_by_power": _hot_by_power,
    "grad_explosion": _explosion,
    "explosion_by_rate": _explosion_by_rate,
    "explosion_by_overflow": _explosion_by_overflow,
    "grad_clipped": _clipped,
    "grad_vanishing": _vanishing,
    "grad_zero": _zero,
    "grad_creep": _creep,
    "creep_with_weights": _creep_with_weights,
}
RANK_FAULTS: dict[str, Callable[[np.ndarray, int, np.random.Generator, bool], Label]] = {
    "rank_divergence": _apart,
    "rank_apart_at_once": _apart_at_once,
    "rank_duplicate": _same,
}
RESTARTS = {"restart": _again, "restart_worse": _again_worse}
ALL_FAULTS = (*FAULTS, *RANK_FAULTS, *RESTARTS)
