"""A case of every class that a diagnosis knows: a simulated run with one fault, printed as text, with the truth about it.

`CASES` lists how each class is made, with different signs of different causes. `story` draws one: a run, its fault, a form
that prints what the fault shows in, rubbish, half lines, and in one of eight runs a resume long before the fault.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import pandas as pd

from analysis import simulate_hardware as hardware
from analysis import simulate_said as words
from analysis.segment import Segment
from analysis.simulate import KINDS, simulate, simulate_policy, with_evaluations
from analysis.simulate_faults import Label
from analysis.simulate_log import FORMS, carries, print_log, spoiled

LENGTHS = (800, 2000, 6000)
POLICY_LENGTHS = (200, 400, 1200)
PLAIN_KINDS = tuple(kind for kind in KINDS if kind not in ("curriculum", "blips", "late_plateau", "sparse_loss"))
CALM_KINDS = tuple(kind for kind in PLAIN_KINDS if KINDS[kind].sigma <= 0.08)  # elsewhere such a step is a leap
TIMED_KINDS = tuple(kind for kind in hardware.KINDS if kind not in ("clock", "throughput", "elapsed", "ranks"))
SHOWS = {  # columns in which a cause shows
    **dict.fromkeys(("gradients", "detached", "labels_masked", "numbers_broke", "frozen", "bad_values"), ("grad_norm",)),
    **dict.fromkeys(("learning_rate", "low_rate", "schedule"), ("lr",)),
    "fp16": ("loss_scale",),
    "data": ("epoch",),
    "router": ("aux_loss", "logits_loss"),
    "weights": ("params_norm",),
    "loader": ("data_time_seconds",),
    "throttling": ("gpu_temperature_celsius",),
    "power": ("gpu_power_watts",),
    "data_stage": ("batch_size",),
    "too_many_epochs": ("epoch",),
    "unstable": (),
}


@dataclass(frozen=True, eq=False)
class Told:
    """A run before it is printed: the truth, what the text says by row, columns that must be printed, whether the time of
    day must; restart: whether a resume may be put before the fault; head: configuration."""

    segment: Segment
    label: Label | None
    needs: tuple[str, ...] = ("loss",)
    said: dict[int, list[str]] = field(default_factory=dict)
    time: bool = False
    restart: bool = True
    head: dict[str, object] | None = None
    other_form: bool = False


@dataclass(frozen=True, eq=False)
class Story:
    """A printed run: its lines, the truth (rows of `segment`, which is what was printed), its form, kind and fault.

    starts: first row of each launch. allowed: classes that are true of it besides the label's.
    """

    lines: list[str]
    segment: Segment
    label: Label | None
    form: str
    fault: str
    starts: tuple[int, ...]
    allowed: frozenset[str] = frozenset()


Make = Callable[[int, np.random.Generator, bool], Told]


def _length(rng: np.random.Generator, lengths: Sequence[int] = LENGTHS) -> int:
    return int(rng.choice(lengths))


def losses(fault: str, *needs: str, kinds: Sequence[str] = PLAIN_KINDS, head: bool = False, restart: bool = True) -> Make:
    """Return a maker of runs with a fault of the losses; `needs`: columns beside the loss without which it can't show."""

    def make(seed: int, rng: np.random.Generator, hard: bool) -> Told:
        run = simulate(rows=_length(rng), seed=seed, kind=str(rng.choice(kinds)), fault=fault, hard=hard)
        config: dict[str, object] | None = {} if head else None
        return Told(run.segment, run.labels[0], ("loss", *needs), restart=restart, head=config)

    return make


def machine(fault: str, *needs: str, kinds: Sequence[str] = TIMED_KINDS, time: bool = False, restart: bool = True) -> Make:
    """Return a maker of runs with a fault of the machine."""

    def make(seed: int, rng: np.random.Generator, hard: bool) -> Told:
        run = hardware.simulate(rows=_length(rng), seed=seed, kind=str(rng.choice(kinds)), fault=fault, hard=hard)
        head: dict[str, object] | None = {"max_grad_norm": 1.0} if fault == "grad_clipped" else None
        return Told(run.segment, run.labels[0], needs, time=time, restart=restart, head=head)

    return make


def ends(kind: str) -> Make:
    """Return a maker of runs that end as the text says."""

    def make(seed: int, rng: np.random.Generator, hard: bool) -> Told:
        rows = int(rng.integers(60, 700))
        segment = simulate(rows=rows, seed=seed, kind=str(rng.choice(PLAIN_KINDS))).segment
        choice = words.ENDS[kind][hard]
        said = choice[int(rng.integers(len(choice)))]
        last = said.rows or int(rows * rng.uniform(0.2, 0.9))
        lines = words.filled(said.lines, segment.step(last - 1) or 0, rng)
        label = Label(kind, last - 1, None, said.cause)
        return Told(segment.head(last), label, said={last: lines}, restart=last > 100)

    return make


def overfits(*, epochs: bool) -> Make:
    """Return a maker of runs whose evaluation turns while training goes on to improve."""

    def make(seed: int, rng: np.random.Generator, hard: bool) -> Told:
        rows, at, noise = _length(rng), float(rng.uniform(0.3, 0.6)), float(rng.uniform(0.002, 0.01))
        run = simulate(rows=rows, seed=seed, kind=str(rng.choice(PLAIN_KINDS))).segment
        rise = max(4 * noise, 0.02) * rng.uniform(1, 1.5) if hard else rng.uniform(0.3, 1.0)
        every = max(rows // int(rng.integers(60, 150)), 5)
        run = with_evaluations(run, every=every, noise=noise, turns_at=at, steepness=rise, seed=seed)
        if epochs:
            run.rows["epoch"] = np.arange(rows) / rows * rng.uniform(4, 12)
        label = Label("overfit", int(at * rows), None, "too_many_epochs" if epochs else None)
        return Told(run, label, ("loss", "epoch") if epochs else ("loss",), restart=False)

    return make


def eval_jumps(*, up: bool) -> Make:
    """Return a maker of runs in which something else is evaluated from some evaluation on."""

    def make(seed: int, rng: np.random.Generator, hard: bool) -> Told:
        rows, noise = _length(rng), float(rng.uniform(0.002, 0.01))
        run = simulate(rows=rows, seed=seed, kind=str(rng.choice(PLAIN_KINDS))).segment
        run = with_evaluations(run, every=max(rows // int(rng.integers(30, 80)), 5), noise=noise, seed=seed)
        first = int(len(run.evals) * rng.uniform(0.4, 0.7))
        least = max(6 * np.sqrt(2) * noise, 0.055)
        jump = least * rng.uniform(1, 1.5) if hard else max(least * 1.5, rng.uniform(0.15, 0.6))
        run.evals.loc[first:, "eval_loss"] *= np.exp(jump if up else -jump)
        row = int(run.evals["step"].iloc[first] // KINDS["pretrain"].log_every)
        row = int(np.searchsorted(run.steps(), run.evals["step"].iloc[first]))
        return Told(run, Label("eval_jump", row, None, "evaluation_changed" if up else "contamination"), restart=False)

    return make


def stuck(seed: int, rng: np.random.Generator, hard: bool) -> Told:
    """Return a run whose warm-up never ends: the rate stands below the peak that the configuration declares."""
    run = simulate(rows=_length(rng), seed=seed, kind="constant").segment
    share = 0.88 / rng.uniform(1.0, 1.5) if hard else rng.uniform(0.1, 0.6)
    lr = run.values("lr")
    first = int(np.argmax(lr >= share * lr.max()))
    run.rows["lr"] = np.minimum(lr, lr[first])
    label = Label("lr_anomaly", first, None, "schedule")
    return Told(run, label, ("loss", "lr"), head={"learning_rate": 0.0005}, restart=False)


def field_lost(seed: int, rng: np.random.Generator, hard: bool) -> Told:
    """Return a run that no longer prints one or two of its fields; in a hard case it does now and then."""
    run = simulate(rows=_length(rng), seed=seed, kind=str(rng.choice(PLAIN_KINDS))).segment
    first = int(len(run) * rng.uniform(0.3, 0.6))
    lost = [str(name) for name in rng.choice(["lr", "grad_norm", "loss"], size=int(rng.integers(1, 3)), replace=False)]
    gaps = np.arange(len(run)) >= first
    if hard:
        gaps &= rng.random(len(run)) < 0.9
    absent = dict(run.absent) | dict.fromkeys(lost, gaps)
    resumed = {first: words.filled([str(rng.choice(words.RESUMES))], run.step(first) or 0, rng)} if rng.random() < 0.4 else {}
    label = Label("field_missing", first, None, "logging_options" if resumed else None, frozenset({"format_change", "restart"}))
    return Told(replace(run, absent=absent), label, ("loss", "lr", "grad_norm"), said=resumed, restart=False)


def form_changes(seed: int, rng: np.random.Generator, hard: bool) -> Told:
    """Return a run whose lines have another form from some row on."""
    run = simulate(rows=_length(rng), seed=seed, kind=str(rng.choice(PLAIN_KINDS))).segment
    first = int(len(run) * rng.uniform(0.3, 0.6))
    label = Label("format_change", first, None, None, frozenset({"field_missing", "restart"}))
    return Told(run, label, ("loss", "lr"), restart=False, other_form=True)


def policy(sign: str) -> Make:
    """Return a maker of reinforcement-learning runs whose policy collapses, as one signal shows first."""

    def make(seed: int, rng: np.random.Generator, hard: bool) -> Told:
        rows = _length(rng, POLICY_LENGTHS)
        first = int(rows * rng.uniform(0.3, 0.6))
        run = simulate_policy(rows=rows, seed=seed)
        late = np.arange(rows - first)
        values = run.values(sign).copy()
        cause = None
        if sign in ("response_length", "entropy"):
            share = (0.19 if sign == "response_length" else 0.095) / rng.uniform(1, 1.5) if hard else rng.uniform(0.001, 0.05)
            values[first:] *= np.maximum(np.exp(-late / 4), share)
            cause = "reward_pays_for_it" if sign == "response_length" else None
        elif sign == "kl":
            values[first:] = max(0.55, 22 * np.median(values[:first])) * (rng.uniform(1, 1.5) if hard else rng.uniform(2, 10))
            cause = "no_anchor"
        else:
            values[first:] -= (rng.uniform(0.4, 0.5) if hard else rng.uniform(0.5, 0.9)) * np.minimum(late / 10, 1)
        run.rows[sign] = values
        label = Label("reward_collapse", first, None, cause, frozenset({"grad_vanishing"}))
        return Told(run, label, (sign, "reward"), restart=False)

    return make


def restarts(how: str) -> Make:
    """Return a maker of runs that go back to a checkpoint."""

    def make(seed: int, rng: np.random.Generator, hard: bool) -> Told:
        fault = "restart_worse" if how == "worse" else "restart"
        run = hardware.simulate(rows=_length(rng), seed=seed, kind=str(rng.choice(("plain", "variable"))), fault=fault)
        label, segment = run.labels[0], run.segment
        if hard:  # two to four rows only are done again
            segment, label = _back(hardware.simulate(rows=_length(rng), seed=seed, kind="plain").segment, rng)
        row, said, cause = label.first_row, {}, label.cause
        if how in ("crash", "said"):
            said = {row: words.filled([str(rng.choice(words.RESUMES))], segment.step(row) or 0, rng)}
        if how == "crash":
            choice = words.CRASH[int(rng.integers(len(words.CRASH)))]
            said[row] = [*words.filled(choice.lines, segment.step(row - 1) or 0, rng), *said[row]]
            cause = "crash"
        also = label.also | {
            "crash",
            "slowdown",
            "hang",
            "spike",
            "level_shift",
            "spike_unrecovered",
            "divergence",
            "initial_loss",
        }
        return Told(segment, replace(label, cause=cause, also=also), ("loss", "step_time_seconds"), said, restart=False)

    return make


def _back(segment: Segment, rng: np.random.Generator) -> tuple[Segment, Label]:
    """Go back two to four rows, no more."""
    first, lost = int(len(segment) * rng.uniform(0.3, 0.6)), int(rng.integers(2, 5))
    return _again(segment, first, lost), Label("restart", first, None, None)


def _again(segment: Segment, first: int, lost: int) -> Segment:
    """Print the rows from `first - lost` on once more behind row `first - 1`."""
    order = np.r_[np.arange(first), np.arange(first - lost, len(segment))]
    frame = segment.rows.iloc[order].reset_index(drop=True)
    frame["line"] = np.arange(len(order)) + 1
    if "timestamp" in frame:
        shift = frame["timestamp"].iloc[first - 1] - frame["timestamp"].iloc[first] + pd.Timedelta(seconds=120)
        frame.loc[frame.index[first:], "timestamp"] += shift
    absent = {name: gaps[order] for name, gaps in segment.absent.items()}
    return replace(segment, rows=frame, absent=absent)


STEPS = ("loss", "step_time_seconds")
CASES: dict[str, tuple[Make, ...]] = {
    "spike": (
        *(losses(name) for name in ("spike", "lone_spike", "spike_after_gradients")),
        *(losses("spike", "grad_norm"), losses("spike_after_gradients", "grad_norm"), losses("spike_by_rate", "lr")),
        *(losses("spike_by_data", "epoch", restart=False), losses("spike_by_overflow", "loss_scale")),
        losses("spike_by_router", "aux_loss", "logits_loss", kinds=("moe",)),
    ),
    "spike_unrecovered": (
        losses("spike_unrecovered", "lr"),
        losses("unrecovered_gradients", "grad_norm"),
        losses("unrecovered_gradients"),
    ),
    "spike_cluster": (losses("spike_cluster"), losses("spike_cluster", "grad_norm")),
    "divergence": (losses("divergence"), losses("divergence", "grad_norm"), losses("divergence_by_rate", "lr")),
    "plateau": (losses("plateau", "lr"), losses("plateau", "grad_norm"), losses("plateau_labels", "lr")),
    "oscillation": (losses("oscillation"), losses("oscillation", "lr"), losses("wilder")),
    "dip": (losses("dip"), losses("dip", "lr")),
    "level_shift": (losses("level_shift", "batch_size", kinds=CALM_KINDS), losses("level_shift", kinds=CALM_KINDS)),
    "overfit": (overfits(epochs=False), overfits(epochs=True)),
    "eval_jump": (eval_jumps(up=True), eval_jumps(up=False)),
    "non_finite": tuple(losses(name, "grad_norm") for name in ("nan_to_end", "nan_once"))
    + (losses("nan_by_rate", "lr"), losses("infinite", "loss_scale"), losses("nan_to_end")),
    "loss_zero": (losses("loss_zero", "grad_norm"), losses("labels_masked", "grad_norm"), losses("loss_zero")),
    "initial_loss": (
        losses("bad_start", "lr", restart=False),
        losses("bad_start", restart=False, head=True, kinds=("pretrain", "wsd", "constant")),
        losses("summed", restart=False),
    ),
    "no_learning": (
        losses("no_learning", restart=False),
        losses("rate_tiny", "lr", restart=False),
        losses("frozen", "grad_norm", restart=False),
    ),
    "decomposition": tuple(
        losses(name, "logits_loss", "aux_loss", kinds=("moe",), restart=False) for name in ("decomposition", "divided")
    ),
    "dense_aux": (losses("dense_aux", "aux_loss", kinds=("moe",), head=True),),
    "aux_imbalance": tuple(losses(name, "aux_loss", "logits_loss", kinds=("moe",)) for name in ("uneven", "weighted")),
    "aux_share": (losses("aux_share", "aux_loss", "logits_loss", kinds=("moe",)),),
    "grad_explosion": tuple(
        machine(name, "grad_norm", *more)
        for name, more in (
            ("grad_explosion", ()),
            ("explosion_by_rate", ("lr",)),
            ("explosion_by_overflow", ("loss_scale",)),
        )
    ),
    "grad_clipped": (machine("grad_clipped", "grad_norm"),),
    "grad_vanishing": (machine("grad_vanishing", "grad_norm"),),
    "grad_zero": (machine("grad_zero", "grad_norm"),),
    "grad_creep": (machine("grad_creep", "grad_norm"), machine("creep_with_weights", "grad_norm", "params_norm")),
    "lr_anomaly": (*(losses(name, "lr") for name in ("lr_jump", "lr_negative", "lr_zero", "lr_collapse")), stuck),
    "slowdown": (
        *(machine(name, *STEPS) for name in ("slowdown", "passing_slowdown", "creeping_slowdown")),
        machine("slow_loader", *STEPS, "data_time_seconds"),
        machine("throttling", *STEPS, "gpu_temperature_celsius"),
    ),
    "step_time_spike": (machine("step_time_spike", *STEPS),),
    "periodic_pause": (machine("periodic_pause", *STEPS),),
    "step_time_jitter": (machine("step_time_jitter", *STEPS), machine("waiting_steps", *STEPS, "data_time_seconds")),
    "hang": (machine("hang", *STEPS), machine("hang", "loss", time=True)),
    "restart": tuple(restarts(how) for how in ("silent", "said", "crash", "worse")),
    "utilisation_low": (
        machine("utilisation_low", "gpu_utilization_percent"),
        machine("starved", "gpu_utilization_percent", "data_time_seconds"),
    ),
    "memory_near_limit": (machine("memory_near_limit", "memory_bytes", "memory_total_bytes"),),
    "memory_leak": (
        machine("memory_leak", "memory_bytes", "memory_total_bytes", kinds=("plain", "steady", "variable", "wandering")),
    ),
    "temperature_high": (
        machine("temperature_high", "gpu_temperature_celsius"),
        machine("hot_by_power", "gpu_temperature_celsius", "gpu_power_watts"),
    ),
    "rank_divergence": tuple(
        machine(name, "loss", kinds=("ranks",), restart=False) for name in ("rank_divergence", "rank_apart_at_once")
    ),
    "rank_duplicate": (machine("rank_duplicate", "loss", kinds=("ranks",), restart=False),),
    "field_missing": (field_lost,),
    "format_change": (form_changes,),
    "out_of_memory": (ends("out_of_memory"),),
    "collective_timeout": (ends("collective_timeout"),),
    "crash": (ends("crash"),),
    "stopped": (ends("stopped"),),
    "reward_collapse": tuple(policy(sign) for sign in ("response_length", "entropy", "kl", "reward")),
}
PAUSED = frozenset({"periodic_pause", "step_time_spike"})  # true of machines that pause or hiccup
SHIFTED = {"curriculum": frozenset({"level_shift"}), "step_drop": frozenset({"level_shift", "dip"})}


def story(kind: str, number: int, seed: int, *, hard: bool = False) -> Story:
    """Return the `number`-th case of a class, the same for the same arguments: numbers go round the ways to make it."""
    rng = np.random.default_rng([seed, number, hard, sum(map(ord, kind))])
    makers = CASES[kind]
    told = makers[number % len(makers)](seed + number, rng, hard)
    return printed(told, rng, fault=kind)


def printed(told: Told, rng: np.random.Generator, *, fault: str, allowed: frozenset[str] = frozenset()) -> Story:
    """Print a run in a form that can show what must be seen, spoil the text, and put a resume into one of eight."""
    segment, label, said = told.segment, told.label, dict(told.said)
    ranks, evals = len(segment.ranks) > 0, len(segment.evals) > 0
    forms = [name for name in FORMS if carries(name, told.needs, evals=evals, ranks=ranks, time=told.time)]
    form = str(rng.choice(forms))
    if told.restart and rng.random() < 0.125 and not ranks and not evals and len(segment) > 100:
        segment, label, said = _resumed(segment, label, said, rng)
        allowed |= {"restart"}
    lines = print_log(segment, form, said=said)
    if told.other_form and label:
        other = str(
            rng.choice(
                [name for name in forms if name not in (form, "csv") and FORMS[name].clock == FORMS[form].clock] or ["pipes"]
            )
        )
        lines = _two_forms(segment, form, other, label.first_row)
    shown = {name for name in segment.rows.columns if name in FORMS[form].cells}
    if label and label.cause and not set(SHOWS.get(label.cause, ())) <= shown | ({"epoch"} if form == "canonical" else set()):
        label = replace(label, cause=None)
    if told.head is not None:
        lines = [*words.config_lines(rng, **told.head), *lines]
    allowed |= PAUSED if "data_time_seconds" in segment.rows else frozenset()
    steps = segment.steps()
    starts = (0, *(np.flatnonzero(np.diff(steps) <= 0) + 1).tolist())
    return Story(spoiled(lines, rng), segment, label, form, fault, starts, allowed)


def _resumed(
    segment: Segment, label: Label | None, said: dict[int, list[str]], rng: np.random.Generator
) -> tuple[Segment, Label | None, dict[int, list[str]]]:
    """Put a resume into the first seventh of a run: some rows are done again."""
    first = int(len(segment) * rng.uniform(0.06, 0.14))
    lost = int(rng.integers(1, max(first // 3, 2)))
    again = _again(segment, first, lost)
    if label and label.first_row >= first:
        last = None if label.last_row is None else label.last_row + lost
        label = replace(label, first_row=label.first_row + lost, last_row=last)
    moved = {row + lost if row >= first else row: text for row, text in said.items()}
    moved.setdefault(first, []).extend(words.filled([str(rng.choice(words.RESUMES))], again.step(first) or 0, rng))
    return again, label, moved


def _two_forms(segment: Segment, form: str, other: str, row: int) -> list[str]:
    """Return the lines of a run in one form up to a row, in another from there on."""
    before = print_log(segment.head(row), form)
    after = print_log(segment, other)
    return before + after[len(after) - (len(segment) - row) :]
