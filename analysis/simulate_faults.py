"""Faults of losses, learning rates and experts, put into a simulated run at a known row with a known cause.

Each comes in two sizes. An ordinary fault is 1.5 to 5 times as large as the least that can be told from the noise of its
run; a hard one 1 to 1.5 times. That least size is stated with each fault, in the run's own standard deviations where the
noise decides.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

Columns = dict[str, np.ndarray]


@dataclass(frozen=True)
class Label:
    """The truth about a fault: class, first row, last row (None: to the end), the cause by the name of attribution
    (None where the run holds no sign of one); also: other classes that are true of this run because of it."""

    kind: str
    first_row: int
    last_row: int | None
    cause: str | None
    also: frozenset[str] = frozenset()


@dataclass(frozen=True, eq=False)
class Spot:
    """Where and how large: first row, random numbers, whether it is a hard case, noise of the log loss, its smooth course."""

    first: int
    rng: np.random.Generator
    hard: bool
    sigma: float
    law: np.ndarray

    def size(self, least: float, low: float = 1.5, high: float = 4.0) -> float:
        """Return the least size that can be told, times 1 to 1.5 in a hard case, else times low to high."""
        return least * float(self.rng.uniform(1.0, 1.5) if self.hard else self.rng.uniform(low, high))

    @property
    def jump(self) -> float:
        """Return the rise of the log loss of a jump: at least 7.5 standard deviations and 2 %."""
        ordinary = self.rng.uniform(0.4, 1.2)
        least = max(7.5 * self.sigma, 0.02)
        return self.size(least) if self.hard else max(ordinary, self.size(least, 1.5, 2.0))


def _scale(columns: Columns, rows: slice, factor: np.ndarray | float) -> None:
    """Multiply the main loss of some rows and keep the total its sum with the auxiliary loss."""
    columns["logits_loss"][rows] *= factor
    columns["loss"] = columns["logits_loss"] + columns["aux_loss"]


def _hold(columns: Columns, spot: Spot, first: int) -> None:
    """Let the main loss learn nothing more from a row on; its noise goes on."""
    _scale(columns, slice(first, None), spot.law[first] / spot.law[first:])


def _fading(length: int) -> np.ndarray:
    """Return the shape of a spike (length,): three rows at its height, then it fades."""
    return np.exp(-np.maximum(np.arange(length) - 2, 0) / (length / 4))


def _blow(columns: Columns, spot: Spot) -> tuple[int, int]:
    """Let the loss jump and fade, return its first and last row."""
    length = int(spot.rng.integers(10, 60))
    _scale(columns, slice(spot.first, spot.first + length), np.exp(spot.jump * _fading(length))[: len(spot.law) - spot.first])
    return spot.first, spot.first + length


def _spike(columns: Columns, spot: Spot) -> Label:
    """A spike that goes with exploding gradients."""
    first, last = _blow(columns, spot)
    columns["grad_norm"][first : (first + last) // 2] *= 6
    return Label("spike", first, last, "gradients", frozenset({"grad_explosion"}))


def _spike_after_gradients(columns: Columns, spot: Spot) -> Label:
    """A spike that exploding gradients announce some rows before."""
    first, last = _blow(columns, spot)
    columns["grad_norm"][first - int(spot.rng.integers(3, 12)) : first + 5] *= 8
    return Label("spike", first, last, "gradients", frozenset({"grad_explosion"}))


def _spike_by_rate(columns: Columns, spot: Spot) -> Label:
    """A spike while the learning rate is far too high for some rows."""
    first, last = _blow(columns, spot)
    columns["lr"][first - 2 : last] *= spot.rng.uniform(4, 12)
    return Label("spike", first, last, "learning_rate", frozenset({"lr_anomaly"}))


def _spike_by_data(columns: Columns, spot: Spot) -> Label:
    """A spike where a new epoch begins: the first samples of the shard are dirty. Gradients hardly notice."""
    first, last = _blow(columns, spot)
    columns["epoch"] = 1 + (np.arange(len(spot.law)) - first) / first
    return Label("spike", first, last, "data")


def _spike_by_router(columns: Columns, spot: Spot) -> Label:
    """The auxiliary loss jumps and the total with it; the main loss does not."""
    length = int(spot.rng.integers(10, 60))
    rows = slice(spot.first, spot.first + length)
    added = spot.law[rows] * np.expm1(spot.jump * _fading(length))[: len(spot.law) - spot.first]
    columns["aux_loss"][rows] += added
    columns["loss"][rows] += added
    return Label("spike", spot.first, spot.first + length, "router", frozenset({"aux_imbalance", "aux_share"}))


def _spike_by_overflow(columns: Columns, spot: Spot) -> Label:
    """A spike while the loss scale of fp16 collapses."""
    first, last = _blow(columns, spot)
    columns["loss_scale"] = np.full(len(spot.law), 65536.0)
    columns["loss_scale"][first:] = np.maximum(65536.0 / 2.0 ** np.minimum(1.0 + np.arange(len(spot.law) - first), 40), 128)
    return Label("spike", first, last, "fp16")


def _lone_spike(columns: Columns, spot: Spot) -> Label:
    _scale(columns, slice(spot.first, spot.first + 1), np.exp(2 * spot.jump) if spot.hard else 10.0)
    columns["grad_norm"][spot.first] *= 30
    return Label("spike", spot.first, spot.first, "gradients", frozenset({"grad_explosion"}))


def _spike_cluster(columns: Columns, spot: Spot) -> Label:
    """Four to six spikes, each of which recovers, within a twentieth of the run (200 rows in a short one)."""
    count = int(spot.rng.integers(4, 7))
    span = min(max(160, len(spot.law) // 25), len(spot.law) - spot.first - 40)
    places = spot.first + (np.arange(count) * span) // count
    places[1:] += spot.rng.integers(0, max(span // count - 20, 1), count - 1)
    for place in places:
        length = int(spot.rng.integers(8, 16))
        _scale(columns, slice(place, place + length), np.exp(spot.jump * _fading(length)))
        columns["grad_norm"][place : place + 3] *= 6
    return Label("spike_cluster", spot.first, int(places[-1]) + 15, "gradients", frozenset({"spike", "grad_explosion"}))


def _oscillation(columns: Columns, spot: Spot) -> Label:
    """Swing with a period of 6 to 60 rows to the end, by at least 1.2 % and 0.8 of the noise."""
    left = len(spot.law) - spot.first
    wave = np.sin(2 * np.pi * np.arange(left) / spot.rng.uniform(6, 60))
    _scale(columns, slice(spot.first, None), np.exp(spot.size(max(0.012, 0.8 * spot.sigma), 2.0, 5.0) * wave))
    return Label("oscillation", spot.first, None, "rate_too_high")


def _wilder(columns: Columns, spot: Spot) -> Label:
    """Fluctuate more and more: at least three times as much as before, and by 5 %."""
    left = len(spot.law) - spot.first
    grown = np.minimum(np.arange(left) / (0.1 * len(spot.law)), 1)
    added = np.sqrt(max(spot.size(max(3.2, 0.05 / spot.sigma), 1.5, 3.0) ** 2 - 1, 0))
    _scale(columns, slice(spot.first, None), np.exp(spot.sigma * added * grown * spot.rng.standard_t(8, left) * 0.87))
    return Label("oscillation", spot.first, None, "rate_too_high", frozenset({"spike", "spike_cluster"}))


def _dip(columns: Columns, spot: Spot) -> Label:
    """Samples that were seen before: 20 to 60 rows lower by at least 6 standard deviations and 3 %."""
    length, least = int(spot.rng.integers(20, 60)), max(6 * spot.sigma, 0.03)
    drop = spot.size(least) if spot.hard else max(spot.rng.uniform(0.2, 0.7), 1.5 * least)
    _scale(columns, slice(spot.first, spot.first + length), float(np.exp(-drop)))
    return Label("dip", spot.first, spot.first + length, "repeats")


def _level_shift(columns: Columns, spot: Spot) -> Label:
    """Other data from here on: a step of at least 2 % and of 1.5 standard deviations, too small for a jump."""
    step = min(spot.size(max(0.02, 1.5 * spot.sigma), 1.5, 3.0), max(7 * spot.sigma, 0.03))
    _scale(columns, slice(spot.first, None), float(np.exp(step)))
    columns["batch_size"] = np.where(np.arange(len(spot.law)) < spot.first, 512.0, 256.0)
    return Label("level_shift", spot.first, None, "data_stage")


def _loss_zero(columns: Columns, spot: Spot) -> Label:
    last = spot.first + int(spot.rng.integers(3, 8)) if spot.hard else None
    for name in ("loss", "logits_loss", "aux_loss"):
        columns[name][spot.first : last] = 0.0
    columns["grad_norm"][spot.first : last] = np.nan
    return Label("loss_zero", spot.first, last, "numbers_broke", frozenset({"non_finite"}))


def _labels_masked(columns: Columns, spot: Spot) -> Label:
    label = _loss_zero(columns, spot)
    columns["grad_norm"][spot.first : label.last_row] = 0.0
    return Label("loss_zero", spot.first, label.last_row, "labels_masked", frozenset({"grad_zero"}))


def _bad_start(columns: Columns, spot: Spot) -> Label:
    """First losses of at least 1.25 times those of an untrained model (14 at least), that fall from there."""
    rows = np.arange(len(spot.law))
    over = spot.size(max(1.25, 14.2 / spot.law[0]), 1.3, 3.0)
    _scale(columns, slice(0, None), 1 + (1.1 * over - 1) * np.exp(-rows / spot.rng.uniform(30, 80)))
    return Label("initial_loss", 0, 9, "rate_destroys")


def _summed(columns: Columns, spot: Spot) -> Label:
    """A loss that is summed over something instead of averaged, all the time."""
    _scale(columns, slice(0, None), 1.1 * spot.size(max(1.25, 14.2 / spot.law[0]), 1.5, 8.0))
    return Label("initial_loss", 0, 9, None)


def _no_learning(columns: Columns, spot: Spot) -> Label:
    """Stay at the first level with the noise of the late rows; in a hard case less than 2 % is learned."""
    main = columns["logits_loss"]
    sigma = 1.05 * np.median(np.abs(np.diff(np.log(main[len(main) // 2 :]))))
    learned = 0.02 / spot.size(1.0) if spot.hard else 0.0
    course = np.log1p(-learned * np.minimum(np.arange(len(main)) / 200, 1))
    columns["logits_loss"][:] = spot.law[0] * np.exp(course + sigma * spot.rng.standard_t(6, len(main)))
    columns["loss"] = columns["logits_loss"] + columns["aux_loss"]
    return Label("no_learning", 0, None, None)


def _rate_tiny(columns: Columns, spot: Spot) -> Label:
    label = _no_learning(columns, spot)
    columns["lr"] *= 5e-7 / columns["lr"].max()
    return Label(label.kind, 0, None, "low_rate")


def _frozen(columns: Columns, spot: Spot) -> Label:
    label = _no_learning(columns, spot)
    columns["grad_norm"][:] = 0.0
    return Label(label.kind, 0, None, "frozen", frozenset({"grad_zero", "grad_vanishing"}))


def _unrecovered(columns: Columns, spot: Spot) -> Label:
    """Jump with a learning rate ten times too high, and stay."""
    _scale(columns, slice(spot.first, None), float(np.exp(spot.jump)))
    columns["lr"][spot.first - 1 :] *= 10
    return Label("spike_unrecovered", spot.first, None, "learning_rate", frozenset({"lr_anomaly", "spike", "divergence"}))


def _unrecovered_gradients(columns: Columns, spot: Spot) -> Label:
    """Jump after exploding gradients, and fade to a third of the jump only."""
    left = np.arange(len(spot.law) - spot.first)
    jump = spot.jump
    fall = np.log(spot.law[spot.first] / spot.law[min(spot.first + 300, len(spot.law) - 1)])
    stays = min(max(jump / 3, spot.size(max(2.5 * spot.sigma, 0.01) + fall)), max(jump, fall + 3 * spot.sigma))
    _scale(columns, slice(spot.first, None), np.exp(stays + (jump - stays) * np.exp(-left / 30)))
    columns["grad_norm"][spot.first - 4 : spot.first + 6] *= 10
    also = frozenset({"spike", "divergence", "grad_explosion", "level_shift"})
    return Label("spike_unrecovered", spot.first, None, "gradients", also)


def _rise(columns: Columns, spot: Spot) -> np.ndarray:
    """Stop learning and rise to the end, by at least 2 % and the noise of a row; return the rise (rows left,)."""
    left = np.arange(len(spot.law) - spot.first) / len(spot.law)
    least = max(0.02, spot.sigma)
    whole = spot.size(least, 1.0, 1.5) if spot.hard else spot.rng.uniform(0.5, 1.5)
    rise = np.minimum(whole * left / 0.3, whole if spot.hard else 1.2)
    _hold(columns, spot, spot.first)
    _scale(columns, slice(spot.first, None), np.exp(rise))
    return rise


def _divergence(columns: Columns, spot: Spot) -> Label:
    rise = _rise(columns, spot)
    columns["grad_norm"][spot.first :] *= np.exp(np.maximum(rise, 0.5 * np.minimum(rise / rise[-1], 1)))
    return Label("divergence", spot.first, None, "gradients", frozenset({"grad_creep"}))


def _divergence_by_rate(columns: Columns, spot: Spot) -> Label:
    _rise(columns, spot)
    columns["lr"][spot.first - 5 :] *= spot.rng.uniform(3, 8)
    return Label("divergence", spot.first, None, "learning_rate", frozenset({"lr_anomaly"}))


def _plateau(columns: Columns, spot: Spot) -> Label:
    """Hold the main loss from 6 to 15 % of the run on: high above what was to be learned. A hard case learns on, by a tenth
    of its former pace, and begins later."""
    first = int(len(spot.law) * (spot.rng.uniform(0.15, 0.25) if spot.hard else spot.rng.uniform(0.06, 0.15)))
    pace = 0.12 / spot.size(1.0) if spot.hard else 0.0
    _scale(columns, slice(first, None), (spot.law[first] / spot.law[first:]) ** (1 - pace))
    return Label("plateau", first, None, None)


def _plateau_labels(columns: Columns, spot: Spot) -> Label:
    """Learn word frequencies and nothing more."""
    first = int(len(spot.law) * (spot.rng.uniform(0.15, 0.25) if spot.hard else spot.rng.uniform(0.06, 0.15)))
    done = np.minimum(np.log1p(np.arange(len(spot.law)) / 4) / np.log1p(first / 4), 1)
    _scale(columns, slice(0, None), spot.law[0] * 0.75**done / spot.law)
    return Label("plateau", first, None, "labels", frozenset({"no_learning"}))


def _nan_to_end(columns: Columns, spot: Spot) -> Label:
    if not spot.hard:
        columns["grad_norm"][spot.first - 3 : spot.first] *= np.array([5, 50, 5000])
    for name in ("loss", "logits_loss", "grad_norm"):
        columns[name][spot.first :] = np.nan
    return Label("non_finite", spot.first, None, None if spot.hard else "gradients", frozenset({"grad_explosion"}))


def _nan_once(columns: Columns, spot: Spot) -> Label:
    columns["loss"][spot.first] = columns["logits_loss"][spot.first] = np.nan
    return Label("non_finite", spot.first, spot.first, "bad_values")


def _nan_by_rate(columns: Columns, spot: Spot) -> Label:
    columns["lr"][spot.first - 2 :] *= 20
    for name in ("loss", "logits_loss", "grad_norm"):
        columns[name][spot.first :] = np.nan
    return Label("non_finite", spot.first, None, "learning_rate", frozenset({"lr_anomaly"}))


def _infinite(columns: Columns, spot: Spot) -> Label:
    """fp16 overflows for some rows: infinite losses, and a loss scale that collapses."""
    length = int(spot.rng.integers(2, 20))
    for name in ("loss", "logits_loss", "grad_norm"):
        columns[name][spot.first : spot.first + length] = np.inf
    columns["loss_scale"] = np.full(len(spot.law), 65536.0)
    columns["loss_scale"][spot.first :] = np.maximum(
        65536.0 / 2.0 ** np.minimum(1.0 + np.arange(len(spot.law) - spot.first), 40), 64
    )
    return Label("non_finite", spot.first, spot.first + length, "fp16")


def _lr_jump(columns: Columns, spot: Spot) -> Label:
    highest = columns["lr"][: spot.first].max() / columns["lr"][spot.first]
    columns["lr"][spot.first :] *= spot.size(2.05) * highest if spot.hard else 10.0
    return Label("lr_anomaly", spot.first, None, "schedule")


def _lr_negative(columns: Columns, spot: Spot) -> Label:
    columns["lr"][spot.first :] *= -1
    return Label("lr_anomaly", spot.first, None, "schedule")


def _lr_zero(columns: Columns, spot: Spot) -> Label:
    last = spot.first + int(spot.rng.integers(3, 7)) if spot.hard else None
    columns["lr"][spot.first : last] = 0
    return Label("lr_anomaly", spot.first, last, "schedule")


def _lr_collapse(columns: Columns, spot: Spot) -> Label:
    """Fall to less than a tenth from one row to the next."""
    columns["lr"][spot.first :] *= 0.09 / spot.size(1.0, 2.0, 20.0)
    return Label("lr_anomaly", spot.first, None, "schedule")


def _decomposition(columns: Columns, spot: Spot) -> Label:
    """A term in the total that is not printed, of at least three units of the last digit."""
    columns["loss"][spot.first :] += spot.size(4e-4, 3.0, 200.0)
    return Label("decomposition", spot.first, None, "extra_term")


def _divided(columns: Columns, spot: Spot) -> Label:
    """The total is the sum over micro-batches, its parts are means."""
    columns["loss"][spot.first :] *= float(spot.rng.choice([2, 4, 8]))
    also = frozenset({"spike", "spike_unrecovered", "level_shift", "divergence"})
    return Label("decomposition", spot.first, None, "logged_apart", also)


def _dense_aux(columns: Columns, spot: Spot) -> Label:
    """An auxiliary loss of a model that is declared dense: at least a few units of the last digit."""
    columns["aux_loss"] *= spot.size(4e-4, 3.0, 30.0) / np.median(columns["aux_loss"])
    columns["loss"] = columns["logits_loss"] + columns["aux_loss"]
    return Label("dense_aux", 0, None, "configuration")


def _uneven(columns: Columns, spot: Spot) -> Label:
    """The routing collapses slowly: the auxiliary loss creeps up, at least 1.4-fold."""
    left = np.arange(len(spot.law) - spot.first)
    grown = spot.size(1.45, 1.3, 3.0) ** np.minimum(left / (0.15 * len(spot.law)), 1)
    columns["aux_loss"][spot.first :] *= grown
    columns["loss"] = columns["logits_loss"] + columns["aux_loss"]
    return Label("aux_imbalance", spot.first, None, "routing_collapse", frozenset({"aux_share"}))


def _weighted(columns: Columns, spot: Spot) -> Label:
    """The weight of the auxiliary loss is another one from here on."""
    columns["aux_loss"][spot.first :] *= spot.size(1.45, 1.3, 3.0)
    columns["loss"] = columns["logits_loss"] + columns["aux_loss"]
    return Label("aux_imbalance", spot.first, None, "weight_too_large", frozenset({"aux_share"}))


def _share(columns: Columns, spot: Spot) -> Label:
    """The auxiliary loss takes at least twice its share while the main loss stands still."""
    left = np.arange(len(spot.law) - spot.first)
    _hold(columns, spot, spot.first)
    grown = spot.size(2.2, 1.3, 3.0) ** np.minimum(left / (0.1 * len(spot.law)), 1)
    columns["aux_loss"][spot.first :] *= grown
    columns["loss"] = columns["logits_loss"] + columns["aux_loss"]
    return Label("aux_share", spot.first, None, "routing_collapse", frozenset({"aux_imbalance", "plateau", "divergence"}))


Fault = Callable[[Columns, Spot], Label]
FAULTS: dict[str, Fault] = {
    "spike": _spike,
    "spike_after_gradients": _spike_after_gradients,
    "spike_by_rate": _spike_by_rate,
    "spike_by_data": _spike_by_data,
    "spike_by_overflow": _spike_by_overflow,
    "lone_spike": _lone_spike,
    "spike_cluster": _spike_cluster,
    "spike_unrecovered": _unrecovered,
    "unrecovered_gradients": _unrecovered_gradients,
    "oscillation": _oscillation,
    "wilder": _wilder,
    "dip": _dip,
    "loss_zero": _loss_zero,
    "labels_masked": _labels_masked,
    "bad_start": _bad_start,
    "summed": _summed,
    "no_learning": _no_learning,
    "rate_tiny": _rate_tiny,
    "frozen": _frozen,
    "divergence": _divergence,
    "divergence_by_rate": _divergence_by_rate,
    "plateau": _plateau,
    "plateau_labels": _plateau_labels,
    "nan_to_end": _nan_to_end,
    "nan_once": _nan_once,
    "nan_by_rate": _nan_by_rate,
    "infinite": _infinite,
    "lr_jump": _lr_jump,
    "lr_negative": _lr_negative,
    "lr_zero": _lr_zero,
    "lr_collapse": _lr_collapse,
    "level_shift": _level_shift,
    "spike_by_router": _spike_by_router,
    "decomposition": _decomposition,
    "divided": _divided,
    "dense_aux": _dense_aux,
    "uneven": _uneven,
    "weighted": _weighted,
    "aux_share": _share,
}
EXPERTS = frozenset({"spike_by_router", "decomposition", "divided", "dense_aux", "uneven", "weighted", "aux_share"})
